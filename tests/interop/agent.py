"""The agent of the shared scenario: the first word of a message says what it does.

Nothing in it sleeps. Where a client needs the agent to stand still (to break a stream in the middle, say), it names a
gate; the agent waits there until a message opens that gate.
"""

import asyncio
import itertools
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

from parley import Agent
from parley.agents.turn import Turn

agent = Agent(
    "Scenario",
    description="Does what the interop tests ask for.",
    version="4.2.0",
    input_modes=("text/plain", "application/json", "image/png", "application/pdf"),
    output_modes=("text/plain", "application/json", "image/png", "application/pdf"),
)

gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)


@agent.skill(tags=["text"], examples=["echo hello"])
async def echo(turn: Turn) -> str:
    """Says what you say."""
    return turn.text.removeprefix("echo ")


@agent.skill(tags=["numbers"], examples=["count 3", "count 6 pausing after 3 at some-gate"])
async def count(turn: Turn) -> AsyncIterator[str]:
    """Counts, one chunk a number; and stops at a gate if it is told to."""
    match turn.text.split():
        case [_, last]:
            pause, gate = 0, ""
        case [_, last, "pausing", "after", number, "at", gate]:
            pause = int(number)
        case _:
            await turn.reject("Count to what?")
            return
    for number in range(1, int(last) + 1):
        yield f"{number} "
        if number == pause:
            await gates[gate].wait()


@agent.skill(tags=["private"], public=False)
async def vault(turn: Turn) -> str:
    """Is for callers who are known."""
    return "Gold."


async def open_gate(turn: Turn) -> str:
    gates[turn.text.split()[1]].set()
    return "open"


async def ask(turn: Turn) -> str:
    guests = await turn.ask("For how many?")
    return f"A table for {guests.text}."


async def order_phone(turn: Turn) -> str:
    """The conversation of the 0.1 document."""
    kind = await turn.ask("Select a phone type (iPhone/Android)")
    return f"I have ordered a new {kind.text} device for you. Your request number is R12443"


async def joke(turn: Turn) -> str:
    """The first exchange of the 0.1 document."""
    return "Why did the chicken cross the road? To get to the other side!"


async def rate(turn: Turn) -> str:
    """The sample call of the 0.1 document."""
    return "The exchange rate for 1 USD to INR is 85.49."


async def files(turn: Turn) -> tuple[Any, ...]:
    """What came, in words; and the same files back."""
    words = [f"{file.name} {file.media_type} {file.url or len(await file.read())}" for file in turn.files]
    return "; ".join(words), *turn.files


async def data(turn: Turn) -> dict[str, Any]:
    return {"got": turn.data}


async def fail(turn: Turn) -> None:
    await turn.fail("The oven is broken.")


async def reject(turn: Turn) -> None:
    await turn.reject("Not on Sundays.")


async def wait(turn: Turn) -> None:
    await turn.status("Waiting.")
    await asyncio.Event().wait()


HANDLERS = {
    "echo": echo,
    "open": open_gate,
    "ask": ask,
    "request": order_phone,
    "tell": joke,
    "How": rate,
    "files": files,
    "data": data,
    "fail": fail,
    "reject": reject,
    "wait": wait,
}


@agent.on_message
async def obey(turn: Turn) -> AsyncIterator[Any]:
    word = next(itertools.chain(turn.text.split(), ("echo",)))
    if word == "count":
        async for number in count(turn):
            yield number
        return
    handler = HANDLERS.get(word)
    if handler is None:
        await turn.reject(f"I do not know how to {word}.")
        return
    yield await handler(turn)
