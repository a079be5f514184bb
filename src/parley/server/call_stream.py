"""The events of one streaming call, from the engine to the binding that writes them.

The call is checked and begins when its first events are asked for. Each batch is reported to the observers and numbered
for callers that want that, and its last event is flagged if the stream ends with it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeAlias

from parley.engine.reading.following import Batch
from parley.protocol.events import StatusUpdate, StreamEvent
from parley.protocol.lifecycle import ends_stream
from parley.protocol.tasks import Task
from parley.server.bindings.cursor import CURSOR, add_cursors
from parley.server.contracts import EventStream
from parley.server.telemetry.call import Call

if TYPE_CHECKING:
    from parley.server.app_resources import AppResources

FlaggedEvents: TypeAlias = deque[tuple[int, StreamEvent, bool]]
"""Events with their numbers and whether the stream ends with the event. The consumer pops them one by one."""
Start: TypeAlias = Callable[[ExitStack], Awaitable[EventStream]]
"""Checks a call and begins it, inside contexts that stay open for as long as the stream."""


class CallStream:
    """One stream. Batches of the engine are emptied as they are consumed."""

    __slots__ = ("_ahead", "_call", "_contexts", "_events", "_shared", "_start")

    def __init__(self, call: Call, start: Start, shared: AppResources) -> None:
        self._call = call
        self._start: Start | None = start
        self._shared = shared
        self._contexts = ExitStack()
        self._events: EventStream | None = None
        self._ahead: Batch | None = None

    def __aiter__(self) -> CallStream:
        return self

    async def __anext__(self) -> FlaggedEvents:
        """The next events.

        An event that may end a stream does not end it if another follows, as in a replay of past events. Looking ahead
        does not delay anything: an event that follows such an event was committed earlier.

        Raises:
            A2AError: the call was refused, before the first event; or the stream was cut off.
        """
        try:
            batch, self._ahead = self._ahead, None
            if batch is None:
                batch = await self._read()
            if batch is not None:
                flagged = deque([(seq, event, False) for seq, event in batch])
                batch.clear()
                if may_end_stream(flagged[-1][1]):
                    self._ahead = await self._read()
                    if self._ahead is None:
                        flagged.append((*flagged.pop()[:2], True))
                return flagged
        except BaseException as error:
            await self._close(error)
            raise
        await self._close(None)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the stream for a reader that has left; after its end, this does nothing."""
        await self._close(asyncio.CancelledError())

    async def _read(self) -> Batch | None:
        """The next batch of the engine; None at the end."""
        is_first = self._events is None
        if self._start is not None:
            start, self._start = self._start, None
            self._events = await start(self._contexts)
            del start  # it holds the request: a message may be large, and its stream may be long
        batch = None if self._events is None else await anext(self._events, None)
        if batch is not None:
            if is_first:
                record_task_ids(self._call, batch[0][1])
                if self._shared.observer is not None:
                    self._contexts.enter_context(self._shared.observer.stream(self._call))
            if (observer := self._shared.conversation_observer) is not None:  # it may have begun to observe just now
                for _, event in batch:
                    observer.streamed(self._call, event)
            if CURSOR.uri in self._call.extensions:
                add_cursors(batch)
        return batch

    async def _close(self, error: BaseException | None) -> None:
        self._start = self._ahead = None
        events, self._events = self._events, None
        try:
            if events is not None:
                await events.aclose()
        finally:
            contexts = self._contexts.pop_all()
            contexts.__exit__(None if error is None else type(error), error, error and error.__traceback__)


def may_end_stream(event: StreamEvent) -> bool:
    """Whether a stream may end with this event: a status in which no run is active."""
    return isinstance(event, StatusUpdate) and ends_stream(event.status.state)


def record_task_ids(call: Call, result: object) -> None:
    """Note in a call which task it turned out to be about."""
    if isinstance(result, Task):
        call.task_id, call.context_id = result.id, result.context_id
