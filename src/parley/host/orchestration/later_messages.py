"""Messages that come while a turn is at work: when the turn reads them, and where one interrupts it.

The log says which messages were read and where the turn was interrupted, so a run that begins again reads the same ones
at the same points. What the log holds of the interrupted work is repeated first: only new work can be interrupted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from parley.engine.runs.run import Run
from parley.host.models.model import ModelMessage
from parley.host.orchestration.narration import NarrationPosition
from parley.host.when_busy import WhenBusy, when_busy_of
from parley.protocol.errors import ParleyError
from parley.protocol.messages import Message

T = TypeVar("T")


class InterruptedByMessageError(ParleyError):
    """A message interrupted the work."""


class Interruption(Struct, frozen=True):
    """Where a message interrupted a turn, as the log keeps it."""

    shown: tuple[str, ...]
    """What the interrupted model call had said, in the pieces in which readers got it."""
    context: tuple[ModelMessage, ...]
    """What the model is told of the interrupted work."""
    position: NarrationPosition
    """How far the narration had come."""
    calls_counted: int


class LaterMessages:
    """The messages of one run that came after the one that began it. `default` is what its agent does with them."""

    def __init__(self, run: Run, default: WhenBusy) -> None:
        self._run = run
        self._default = default
        self._read = 0
        self._work: asyncio.Task[Any] | None = None
        """The task of the work that a message may interrupt."""
        self._cancelled = 0
        """How often messages have cancelled it."""
        run.on_message = self._received

    @property
    def _unread(self) -> list[Message]:
        return self._run.journal.later_messages[self._read :]

    def _interrupts(self, message: Message) -> bool:
        return when_busy_of(message, self._default) is WhenBusy.INTERRUPT

    def _received(self, message: Message) -> None:
        if self._work is not None and self._interrupts(message):
            self._work.cancel()
            self._cancelled += 1

    async def interruptible(self, step: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of some work, which is cancelled when a message interrupts it.

        `step` is what the names of its steps begin with. Work of which the log holds a part is not interrupted.

        Raises:
            InterruptedByMessageError: a message interrupted it, or there is one before it has begun.
        """
        if self._run.journal.has_recorded(step) and not self._was_left(step):
            return await work()
        if any(map(self._interrupts, self._unread)):
            raise InterruptedByMessageError
        self._work, self._cancelled = asyncio.current_task(), 0
        try:
            return await work()
        except asyncio.CancelledError:
            if self._cancelled == 0 or self._run.is_stopping or self._end_work() > 0:
                raise
            raise InterruptedByMessageError from None
        finally:
            self._end_work()

    def _was_left(self, step: str) -> bool:
        """Whether the log holds a model call of which a message interrupted the telling, not the call itself."""
        match self._run.journal.recorded_step(step):
            case {"left": True}:
                return True
            case _:
                return False

    def _end_work(self) -> int:
        """Let no more messages interrupt. Returns how often others have cancelled the work."""
        own, self._work = self._work, None
        if own is None:
            return 0
        for _ in range(self._cancelled):
            own.uncancel()
        return own.cancelling()

    def read(self, turn: int) -> list[Message]:
        """The messages that the next turn answers: all that came so far. Recorded, if there are any.

        A run ends if there are none, so nothing may wait between this and its end.
        """
        run, name = self._run, f"messages of turn {turn}"
        if not self._unread and run.journal.recorded_step(name) is None:
            return []
        until = run.steps.value(name, lambda: len(run.journal.later_messages))
        assert isinstance(until, int)
        messages = run.journal.later_messages[self._read : until]
        self._read = until
        return messages

    def recorded_interruption(self, call: int) -> Interruption | None:
        """Where an earlier run was interrupted in a model call, or in the commands after it."""
        recorded = self._run.journal.recorded_step(_name(call))
        return None if recorded is None else msgspec.convert(recorded, Interruption)

    def record_interruption(self, call: int, interruption: Interruption) -> None:
        """Keep where this run was interrupted. It is durable before the next effect begins."""
        self._run.steps.value(_name(call), lambda: msgspec.to_builtins(interruption))


def _name(call: int) -> str:
    return f"interruption of call {call}"
