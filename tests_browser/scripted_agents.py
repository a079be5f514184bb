"""The agents that the browser tests talk to. The first word of a message says what happens; the rest are its numbers.

parley serve tests_browser/scripted_agents.py:scripted tests_browser/scripted_agents.py:hostile
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator

from parley import Agent, File, Turn

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d4944415478da63fcffff3f0300050001fd4fe0"
    "7f0000000049454e44ae426082"
)
"""A picture of one pixel."""

MARKDOWN = """# A plan

Some **bold** words, `code` and a [link](https://example.com/page).

| day | place |
| --- | --- |
| 1 | Forum |
| 2 | Vatican |

```python
def answer() -> int:
    return 42
```
"""

TRIP_FORM = {
    "type": "object",
    "title": "Your trip",
    "properties": {
        "city": {"type": "string", "title": "City", "minLength": 2},
        "days": {"type": "integer", "title": "Days", "minimum": 1, "maximum": 30},
        "hotel": {"type": "boolean", "title": "With a hotel"},
        "class": {"type": "string", "title": "Class", "enum": ["first", "second"]},
    },
    "required": ["city", "days"],
}

ATTACKS = """<script>window.attacked = 1</script><img src=x onerror="window.attacked = 2">
<svg onload="window.attacked = 3"></svg> [click](javascript:window.attacked=4) [data](data:text/html,<script>1</script>)
![pixel](https://attacker.invalid/pixel.png) \u202egnp.exe \u0000\u001b[31m red
<a href="javascript:window.attacked=5">a</a> <iframe src="https://attacker.invalid/"></iframe>
"""

SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>parent.attacked = 6</script></svg>'

scripted = Agent("Scripted", description="Does what the first word of a message says.")

gates: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
"""What replies wait for in their middle, by name."""


@scripted.skill(examples=["say hello", "count 20"])
async def obey(turn: Turn) -> AsyncIterator[object]:
    """Do what the first word says: say, count, gated, open, markdown, ask, form, auth, key, files, table, steps, …"""
    verb, *rest = turn.text.split() or [""]
    match verb:
        case "count":
            for number in range(int(rest[0])):
                yield f"{number} "
                await asyncio.sleep(float(rest[1]) if len(rest) > 1 else 0.01)
        case "gated":  # as many numbers as `count`, with a wait before one of them until `open` names the gate
            for number in range(int(rest[0])):
                if number == int(rest[1]):
                    await gates[rest[2]].wait()
                yield f"{number} "
        case "open":
            gates[rest[0]].set()
            yield "Opened."
        case "chunks":
            for number in range(int(rest[0])):
                yield f"{number} "
                if len(rest) > 1 and number % 10 == 9:
                    await asyncio.sleep(10 / float(rest[1]))
        case "sentences":
            for number in range(int(rest[0])):
                for chunk in ("This ", "is sen", "tence", f" {number}", ". "):
                    yield chunk
                    await asyncio.sleep(0.05)
        case "markdown":
            yield MARKDOWN
        case "ask":
            answer = await turn.ask("Which city?")
            yield f"You said {answer.text}."
        case "form":
            answer = await turn.ask("Where to?", form=TRIP_FORM)
            yield f"{answer['days']} days in {answer['city']}."
        case "auth":
            answer = await turn.require_auth("Log in at https://login.example.com/start and paste the code here.")
            yield f"Got {len(answer.text)} characters."
        case "key":
            authorized = await turn.require_auth("I need a key from https://keys.example.com/new.", scheme="ApiKey")
            yield f"Got a key of {len(authorized.credential)} characters."
        case "files":
            yield "Two files. "
            await turn.artifact("picture").write(File(PNG, "pixel.png"))
            await turn.artifact("notes").write(File(b"Some notes.", "notes.txt"))
        case "table":
            yield {"rows": [{"city": "Rome", "days": 3}, {"city": "Oslo", "days": 2}]}
        case "received":
            names = [f"{file.name} ({len(await file.read())} bytes)" for file in turn.files]
            yield f"Received {', '.join(names) or 'nothing'}."
        case "fail":
            raise ValueError("The rate service is closed on Sundays.")
        case "steps":
            for number in range(int(rest[0])):
                await turn.step(f"step-{number}", _work, number)
            yield "All steps done."
        case "status":
            await turn.status("Thinking about it…")
            yield "Done thinking."
        case "wait":
            await turn.status("Waiting…")
            await asyncio.sleep(float(rest[0]))
            yield "Waited."
        case "big":
            await turn.artifact("big").write(File(b"x" * int(rest[0]), "big.bin"))
            yield "A large file."
        case _:
            yield f"You said: {turn.text}"


async def _work(number: int) -> int:
    await asyncio.sleep(0.02)
    return number * number


hostile = Agent("Hostile <b>agent</b> " + "x" * 10_000, id="hostile", description=ATTACKS * 20)


@hostile.on_message
async def attack(turn: Turn) -> AsyncIterator[object]:
    """Send what a page must not run: `html`, `svg`, `form`, or a deep and large object."""
    match turn.text:
        case "svg":
            await turn.artifact("picture").write(File(SVG, "picture.svg"))
            await turn.artifact("\u202efdp.exe" + "n" * 10_000).write(
                File(b"<script>parent.attacked = 7</script>", "../../etc/\u202epasswd\n.html")
            )
        case "form":
            fields = {f"field_{number}": {"type": "string", "title": ATTACKS} for number in range(500)}
            await turn.ask(ATTACKS, form={"type": "object", "properties": fields})
        case "data":
            deep: object = "bottom"
            for _ in range(60):
                deep = {"a": deep}
            yield {"deep": deep, "wide": [{"n": number, "html": ATTACKS} for number in range(5_000)]}
        case _:
            yield ATTACKS
            await turn.status(ATTACKS)
