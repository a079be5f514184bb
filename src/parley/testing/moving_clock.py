"""Scripted time that moves by itself: to the end of each sleep of a handler, and of nothing else.

A test that holds a whole conversation cannot move the clock by hand. Pauses between two attempts of a step, and short
sleeps, pass inside the handler; the context in which a handler runs tells them from the engine's own timers.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, cast

from parley.testing.clock import FakeClock

if TYPE_CHECKING:
    from parley.engine.program import Program
    from parley.engine.runs.run import Run

PAUSE = 0.001
"""The real time that a sleep takes, in seconds."""

_is_in_handler: ContextVar[bool] = ContextVar("is_in_handler", default=False)


class MovingClock(FakeClock):
    """A clock that moves to the moments for which handlers wait."""

    def __init__(self) -> None:
        super().__init__()
        self._ends: list[datetime] = []
        self._moving: asyncio.Task[None] | None = None

    async def sleep(self, seconds: float) -> None:
        """Return when the clock has been moved so far; for a handler it moves by itself."""
        if _is_in_handler.get():
            self.move_to(self.now() + timedelta(seconds=seconds))
        await super().sleep(seconds)

    def move_to(self, moment: datetime) -> None:
        """Move to a moment, soon."""
        self._ends.append(moment)
        if self._moving is None or self._moving.done():
            self._moving = asyncio.get_running_loop().create_task(self._move())

    async def _move(self) -> None:
        while coming := [moment for moment in self._ends if moment > self.now()]:
            await asyncio.sleep(PAUSE)
            await self.advance((min(coming) - self.now()).total_seconds())


class ObservedProgram:
    """An agent whose handlers are told from everything else by their context."""

    def __init__(self, program: Program) -> None:
        self._program = program

    async def run(self, run: Run) -> None:
        """Run the agent's handler."""
        _is_in_handler.set(True)
        await self._program.run(run)

    def __getattr__(self, name: str) -> object:
        return getattr(self._program, name)


def observed(program: Program) -> Program:
    """The agent, for whose handlers a `MovingClock` moves."""
    return cast("Program", ObservedProgram(program))
