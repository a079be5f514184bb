"""A stream of events that resumes after a broken connection, without losing or repeating any.

`NumberedEvents` and `UnnumberedEvents` say how to continue, depending on what the agent promises. Where the agent
refuses subscriptions, the task is polled. A stream that ends before its task, and cannot be resumed, ends in an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from enum import Enum, auto

from parley.client.calls import Calls
from parley.client.errors import StreamTruncatedError, TimedOutError, UnreachableError
from parley.client.streams.numbered_events import NumberedEvents
from parley.client.streams.streamed_task import StreamedTask
from parley.client.streams.task_reader import TRUNCATED, TaskReader
from parley.client.streams.unnumbered_events import UnnumberedEvents
from parley.client.transports.transport import ReceivedEvent
from parley.protocol import operations as ops
from parley.protocol.errors import (
    A2AError,
    InvalidParamsError,
    MethodNotFoundError,
    ParleyError,
    PeerProtocolError,
    TaskNotFoundError,
    UnavailableError,
    UnsupportedOperationError,
)
from parley.protocol.events import StreamEvent
from parley.protocol.extensions import CURSOR
from parley.protocol.lifecycle import ends_stream
from parley.protocol.requests import SendMessageRequest, SubscribeToTaskRequest
from parley.protocol.tasks import Task

CLOSE_SECONDS = 1.0
"""Time for the agent to close a stream after the last event, so that the connection can be reused."""

MAX_LATE_EVENTS = 100
"""Events that are accepted after the last one; some agents send artifacts there."""

MAX_CONNECTIONS = 1_000
"""Connections of one stream: 16 hours, if a proxy cuts it every minute."""

MAX_EMPTY_STREAMS = 1
"""Streams in a row that may end without a new event before the task is polled instead."""

SUBSCRIPTION_REFUSED = (UnsupportedOperationError, MethodNotFoundError, InvalidParamsError, TaskNotFoundError)
"""How agents refuse a subscription. Some call a task that is not running invalid, or unknown."""


class _Start(Enum):
    """What the first event of a stream may be."""

    NEW_TASK = auto()
    ANSWER = auto()
    """A message to a task that exists: the stream may begin with the task as it was before."""
    SUBSCRIPTION = auto()
    """The stream begins with the task."""
    CONTINUATION = auto()
    """After a cursor: the stream has later events only, or none."""


class ResumableStream:
    """One stream over as many connections as it takes. `seen` is the task as the events so far have shown it."""

    def __init__(self, calls: Calls, *, tenant: str | None = None) -> None:
        self.seen = StreamedTask()
        self._calls = calls
        self._tenant = tenant
        self._reader = TaskReader(calls, self.seen, tenant)
        self._unnumbered = UnnumberedEvents(calls, self.seen, self._reader)
        self._mode = NumberedEvents(calls, self.seen) if calls.declares(CURSOR) else self._unnumbered
        self._start = _Start.NEW_TASK
        self._task_id = ""
        self._began_waiting = False
        """The task was waiting for input when the stream began, and still is: that does not end the stream."""
        self._is_polled = False
        self._size = 0
        self._connections = 1
        self._failures = 0
        self._failing_since = 0.0
        self._empty_streams = 0

    @property
    def cursor(self) -> str | None:
        """Where the stream can be resumed later; None if the agent does not number its events."""
        return self._mode.cursor

    def begin_with(self, task: Task) -> None:
        """Use a task that was just read as the first event of the subscription to it."""
        self._began_waiting = ends_stream(task.status.state)
        self._add(task)

    def events(
        self, request: SendMessageRequest | SubscribeToTaskRequest, *, after: str | None = None
    ) -> AsyncGenerator[StreamEvent]:
        """Every event once, to the end of the stream; if the agent numbers its events, those after a cursor.

        Raises:
            StreamTruncatedError: it broke and could not be resumed.
            UnreachableError: it broke before the task was known.
            A2AError: the agent refuses, or reports a failure.
            PeerProtocolError: an event belongs to another task, or is not valid A2A.
        """
        is_continued = after is not None and isinstance(self._mode, NumberedEvents)
        if is_continued:
            self._mode.cursor = after
        if isinstance(request, SendMessageRequest):
            is_answer = request.message.task_id is not None
            self._start = _Start.CONTINUATION if is_continued else _Start.ANSWER if is_answer else _Start.NEW_TASK
            return self._follow(self._calls.stream(ops.SEND_STREAMING_MESSAGE, request, after=self.cursor))
        self._start, self._task_id = _Start.CONTINUATION if is_continued else _Start.SUBSCRIPTION, request.task_id
        return self._follow(self._mode.subscribe(request))

    def poll_events(self, task_id: str) -> AsyncGenerator[StreamEvent]:
        """What polling a task finds, for agents that do not stream. It begins with the task unless that was seen."""
        self._start, self._task_id = _Start.SUBSCRIPTION, task_id
        return self._follow(self._poll())

    async def _follow(self, source: AsyncGenerator[ReceivedEvent]) -> AsyncGenerator[StreamEvent]:
        while True:
            problem: ParleyError | None = None
            try:
                async with aclosing(source):
                    async for received in source:
                        for event in await self._events_of(received):
                            self._add(event)
                            yield event
                        if self._is_complete:
                            break
                    for received in await _late_events(source):
                        for event in await self._events_of(received):
                            self._add(event)
                            yield event
                if self.seen.is_over or (self._start is _Start.CONTINUATION and self.seen.task_id is None):
                    return
                self._empty_streams += 1
            except (UnreachableError, UnavailableError) as error:
                if self.seen.task_id is None:
                    raise
                if isinstance(error, TimedOutError) and self._mode is self._unnumbered:
                    self._empty_streams += 1  # an agent without heartbeats may be silent while it works
                problem = error
            except A2AError as error:
                if self._connections == 1:
                    raise
                raise self._truncated(error) from _without_traceback(error)
            await self._pause(problem)
            source = self._reconnect()

    # --- events -------------------------------------------------------------------------------------------------------

    async def _events_of(self, received: ReceivedEvent) -> list[StreamEvent]:
        event = received.event
        self._size += received.size
        if self._size > self._calls.bounds.stream_bytes:  # over all connections
            raise PeerProtocolError(f"The stream has more than {self._calls.bounds.stream_bytes} bytes")
        self._check_task_id(event)
        if not self._mode.is_new(received):
            return []
        is_task = isinstance(event, Task)
        if self.seen.task_id is not None:
            return self.seen.new_events_in(event) if is_task else await self._mode.events_of(event)
        if self._start is _Start.SUBSCRIPTION or (self._start is _Start.ANSWER and is_task):
            task = event if is_task else await self._reader.read(self._task_id)
            self._began_waiting = ends_stream(task.status.state)
            return [task]
        return [event] if is_task else await self._mode.events_of(event)

    def _check_task_id(self, event: StreamEvent) -> None:
        expected = self.seen.task_id or self._task_id
        task_id = event.id if isinstance(event, Task) else event.task_id
        if expected and task_id is not None and task_id != expected:
            raise PeerProtocolError(f"The stream of task {expected} has an event of another task: {task_id[:50]}")

    def _add(self, event: StreamEvent) -> None:
        self.seen.add(event)
        self._began_waiting = self._began_waiting and self.seen.is_over
        # Only new events count: some agents close each stream after a snapshot.
        self._failures = self._empty_streams = 0

    @property
    def _is_complete(self) -> bool:
        return self.seen.is_over and (self.seen.has_ended or not self._began_waiting)

    # --- reconnecting -------------------------------------------------------------------------------------------------

    async def _reconnect(self) -> AsyncGenerator[ReceivedEvent]:
        """A subscription that continues the stream; polls of the task, if it cannot be subscribed to."""
        self._connections += 1
        if not self._is_polled and self._empty_streams <= MAX_EMPTY_STREAMS:
            if self._mode.cursor is None:
                self._mode = self._unnumbered
            request = SubscribeToTaskRequest(self.seen.task_id or "", tenant=self._tenant)
            try:
                async with aclosing(self._mode.subscribe(request)) as source:
                    async for received in source:
                        yield received
                return
            except SUBSCRIPTION_REFUSED:
                pass
        async with aclosing(self._poll()) as polls:
            async for received in polls:
                yield received

    def _poll(self) -> AsyncGenerator[ReceivedEvent]:
        self._is_polled, self._mode = True, self._unnumbered
        return self._reader.poll(self.seen.task_id or self._task_id)

    async def _pause(self, problem: ParleyError | None) -> None:
        now, retries = self._calls.clock(), self._calls.retries
        self._failing_since = now if self._failures == 0 else self._failing_since
        self._failures += 1
        is_over = self._failures > retries.attempts and now - self._failing_since >= retries.outage
        if (problem is not None and is_over) or self._connections >= MAX_CONNECTIONS:
            raise self._truncated(problem) from _without_traceback(problem)
        pause = retries.first_pause * 2.0 ** min(self._failures - 1, 20)
        await self._calls.sleep(min(pause, retries.longest_pause))

    def _truncated(self, problem: ParleyError | None) -> StreamTruncatedError:
        text = TRUNCATED if problem is None else f"{TRUNCATED}: {problem}"
        return StreamTruncatedError(text, task_id=self.seen.task_id, cursor=self.cursor)


async def _late_events(source: AsyncGenerator[ReceivedEvent]) -> list[ReceivedEvent]:
    """What comes after the last event, until the agent closes the stream or `CLOSE_SECONDS` are over."""
    late: list[ReceivedEvent] = []
    with suppress(TimeoutError, ParleyError):
        async with asyncio.timeout(CLOSE_SECONDS):
            async for received in source:
                late.append(received)
                if len(late) == MAX_LATE_EVENTS:
                    break
    return late


def _without_traceback(problem: ParleyError | None) -> ParleyError | None:
    """The error without its cause and traceback: the layers of the last of many attempts tell nothing."""
    if problem is None:
        return None
    problem.__cause__ = None
    return problem.with_traceback(None)
