"""Events that an executor has enqueued and that its task has not taken yet."""

from __future__ import annotations

import asyncio
from collections import deque

from parley.adapters.a2a_sdk.known_task import ExecutorEvent, KnownTask
from parley.protocol.events import StatusUpdate, StreamEvent
from parley.protocol.lifecycle import is_terminal
from parley.protocol.messages import Message
from parley.protocol.tasks import Task

MOST_PENDING = 16
"""So many events may wait to be written; then `enqueue_event` waits."""

DROPPED_SECONDS = 0.1
"""How long `enqueue_event` takes when an event is dropped, so that an executor that never stops costs little."""


class PendingEvents:
    """The events of one call of `execute`. `known` is the task as the executor is given it."""

    def __init__(self, known: Task | None) -> None:
        self._known = KnownTask(known)
        self._events: deque[ExecutorEvent] = deque()
        self._news, self._room = asyncio.Event(), asyncio.Event()
        self._is_complete = self._is_closed = False
        self._slows_down = False
        self.said_at_end: Message | None = None
        """The message of a final state that came after `close`."""

    async def put(self, event: StreamEvent) -> None:
        """Add an event, and wait while too many are pending. Once this is closed, the event is dropped."""
        if self._is_closed:
            if isinstance(event, StatusUpdate | Task) and is_terminal(event.status.state):
                self.said_at_end = event.status.message
            await asyncio.sleep(DROPPED_SECONDS if self._slows_down else 0)
            return
        for update in self._known.updates_to(event) if isinstance(event, Task) else (event,):
            self._known.note(update)
            self._events.append(update)
        self._news.set()
        while len(self._events) >= MOST_PENDING and not self._is_closed:
            self._room.clear()
            await self._room.wait()

    async def next(self, seconds: float | None) -> ExecutorEvent | None:
        """The next event, or None if there are no more.

        Raises:
            TimeoutError: it took longer.
        """
        async with asyncio.timeout(seconds):
            while not (self._events or self._is_complete):
                self._news.clear()
                await self._news.wait()
        self._room.set()
        return self._events.popleft() if self._events else None

    def complete(self) -> None:
        """Note that `execute` has ended."""
        self._is_complete = True
        self._news.set()

    def close(self, *, slows_down: bool = True) -> None:
        """Drop what is pending and what comes from now on, and slow down what goes on enqueuing."""
        self._is_closed, self._slows_down = True, slows_down
        self._events.clear()
        self._room.set()
