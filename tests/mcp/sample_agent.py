"""An agent of Python that does what it is told, for hosts and servers that MCP's clients call."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from parley import Agent, File, Turn
from parley.agents.elsewhere import ask_elsewhere
from parley.agents.turn import run_of
from parley.protocol.messages import TextPart

BOOKING = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "title": "City", "enum": ["Rome", "Oslo"]},
        "guests": {"type": "integer", "minimum": 1},
        "vegan": {"type": "boolean", "default": False},
        "rooms": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["city", "guests"],
}


@dataclass
class Helper:
    """The agent, and what has become of the runs that wait."""

    agent: Agent = field(init=False)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    canceled: asyncio.Event = field(default_factory=asyncio.Event)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.agent = Agent(
            "Helper", id="helper", description="Does what it is told.", input_modes=("text/plain", "*/*")
        )
        self.agent.on_message(self._work)

    async def _work(self, turn: Turn) -> object:
        match turn.text.split():
            case ["ask"]:
                return f"For {(await turn.ask('For how many?')).text}."
            case ["book"]:
                return await turn.ask("Which room?", form=BOOKING)
            case ["approve"]:
                await ask_elsewhere(run_of(turn), "a1", (TextPart("May I?"),))
            case ["log-in"]:
                return (await turn.require_auth("Log in at https://login.example")).text
            case ["key"]:
                given = await turn.require_auth("I need a key.", scheme="ApiKey")
                return f"A key of {len(given.credential)} letters."
            case ["wait"]:
                await self._wait(turn)
                return "Waited."
            case ["fail"]:
                await turn.fail("The oven is broken.")
            case ["reject"]:
                await turn.reject("Not on Sundays.")
            case ["files"]:
                received = [File(file.raw, file.name, file.media_type) for file in turn.files if file.raw]
                return (*received, File("https://files.example/menu.pdf", "menu.pdf"))
            case ["data"]:
                return {"got": turn.data}
            case _:
                pass
        return f"You said {turn.text}"

    async def _wait(self, turn: Turn) -> None:
        await turn.status("Thinking about it")
        self.begun.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.canceled.set()
            raise
