"""A language model that follows a script, for tests of agents that stream one.

    model = FakeModel(["Rome ", "is ", "old."])

    @agent.on_message
    async def answer(turn):
        yield turn.stream("answer", model.stream, turn.text)

A script is a list: texts are said, a number is a pause in seconds, `STALL` never goes on, and an exception is raised.
Each call follows the next script, and the last one is followed from then on. `{call}` in a text becomes the number of
the call, so that no two calls say the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypeAlias


class _Stall(Enum):
    STALL = "stall"


STALL: Literal[_Stall.STALL] = _Stall.STALL
"""A model that says nothing more, and does not end."""

Script: TypeAlias = Sequence[str | float | BaseException | Literal[_Stall.STALL]]


@dataclass(slots=True)
class ModelCall:
    """One call of a model: what it was asked, and what it has said so far."""

    prompt: str
    text: str = ""
    has_ended: bool = False
    """Whether it came to the end of its script."""


class FakeModel:
    """A model that follows a script, and keeps count of its calls."""

    def __init__(self, *scripts: Script) -> None:
        self._scripts = scripts or ([],)
        self.calls: list[ModelCall] = []

    async def stream(self, prompt: str = "") -> AsyncGenerator[str]:
        """Say the next script, piece by piece."""
        call = ModelCall(prompt)
        self.calls.append(call)
        number = len(self.calls)
        for item in self._scripts[min(number, len(self._scripts)) - 1]:
            match item:
                case str():
                    piece = item.replace("{call}", str(number))
                    call.text += piece
                    yield piece
                case BaseException():
                    raise item
                case _Stall.STALL:
                    await asyncio.get_running_loop().create_future()
                case _:
                    await asyncio.sleep(item)
        call.has_ended = True

    async def complete(self, prompt: str = "") -> str:
        """Say the next script, whole."""
        return "".join([piece async for piece in self.stream(prompt)])

    def said(self, text: str) -> bool:
        """Whether one call that came to its end said exactly this."""
        return any(call.has_ended and call.text == text for call in self.calls)
