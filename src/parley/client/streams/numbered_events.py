"""Streams of agents that number their events: a new connection continues after the last number.

An agent promises this by declaring the extension `urn:parley:cursor:1`: see docs/decisions/0012. The numbers of other
agents are not used; some number their frames and ignore the number that a reader sends back.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from parley.client.calls import Calls
from parley.client.streams.streamed_task import StreamedTask
from parley.client.transports.transport import ReceivedEvent
from parley.protocol import operations as ops
from parley.protocol.events import StatusUpdate, StreamEvent
from parley.protocol.requests import SubscribeToTaskRequest


class NumberedEvents:
    """Drops events whose number was received before. `cursor` is the last number."""

    def __init__(self, calls: Calls, seen: StreamedTask, cursor: str | None = None) -> None:
        self.cursor = cursor
        self._calls = calls
        self._seen = seen

    def subscribe(self, request: SubscribeToTaskRequest) -> AsyncGenerator[ReceivedEvent]:
        """The events after the cursor; without a cursor, the task and all later events."""
        return self._calls.stream(ops.SUBSCRIBE_TO_TASK, request, after=self.cursor)

    def is_new(self, received: ReceivedEvent) -> bool:
        """Whether an event has not been received before. The cursor moves to a new one."""
        if received.cursor is None:
            return True
        number, last = _number(received.cursor), _number(self.cursor)
        if number is None or last is None or number > last:
            self.cursor = received.cursor
            return True
        # A task that had already ended is sent as two events with one number: the task, and then its status.
        event = received.event
        is_status_of_task = isinstance(event, StatusUpdate) and event.status == self._seen.status
        return number == last and is_status_of_task and self._seen.ends_with_task

    async def events_of(self, event: StreamEvent) -> list[StreamEvent]:
        """The events that a received one stands for: the event itself."""
        return [event]


def _number(cursor: str | None) -> int | None:
    return int(cursor) if cursor and cursor.isascii() and cursor.isdigit() and len(cursor) < 16 else None
