"""Streams of agents that do not number their events: after a break, an event is only a hint to read the task.

No such agent says what it sends to a reader who comes back: some begin with a snapshot, some repeat what the snapshot
holds, some leave out what happened in between. A repeated chunk looks like a new chunk with the same text. So the first
stream of a send is taken as it comes; in a subscription, and after any break, the client reads the task and reports
what it did not know yet. See docs/decisions/0013.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from parley.client.calls import Calls
from parley.client.errors import UnreachableError
from parley.client.streams.streamed_task import StreamedTask
from parley.client.streams.task_reader import TaskReader
from parley.client.transports.transport import ReceivedEvent
from parley.protocol import operations as ops
from parley.protocol.errors import A2AError
from parley.protocol.events import ArtifactUpdate, StatusUpdate, StreamEvent
from parley.protocol.lifecycle import ends_stream
from parley.protocol.messages import Message
from parley.protocol.requests import SubscribeToTaskRequest

SILENCE_SECONDS = 5.0
"""Silence of a subscription after which the task is read; it doubles from there. Some agents (a2a-sdk before 1.0) send
only heartbeats to a reader who subscribes at the moment the task ends."""


class UnnumberedEvents:
    """Takes events as they come until the first subscription, and as hints from then on."""

    cursor: str | None = None

    def __init__(self, calls: Calls, seen: StreamedTask, reader: TaskReader) -> None:
        self._calls = calls
        self._seen = seen
        self._reader = reader
        self._are_hints = False

    async def subscribe(self, request: SubscribeToTaskRequest) -> AsyncGenerator[ReceivedEvent]:
        """The events of a subscription, and the task itself after each long silence."""
        self._are_hints = True
        silence = SILENCE_SECONDS
        async with aclosing(self._calls.stream(ops.SUBSCRIBE_TO_TASK, request)) as source:
            while True:
                coming = asyncio.ensure_future(anext(source, None))
                try:
                    while not (await asyncio.wait([coming], timeout=silence))[0]:
                        silence *= 2
                        with suppress(UnreachableError, A2AError):  # the subscription itself still works
                            yield ReceivedEvent(await self._reader.read(request.task_id))
                    received = await coming
                finally:
                    coming.cancel()
                    await asyncio.wait([coming])
                if received is None:
                    return
                silence = SILENCE_SECONDS
                yield received

    def is_new(self, received: ReceivedEvent) -> bool:
        """True: without numbers, only `events_of` can tell what an event adds."""
        return True

    async def events_of(self, event: StatusUpdate | ArtifactUpdate | Message) -> list[StreamEvent]:
        """The events that a received one stands for: the event itself, or what a read of the task adds."""
        match event:
            case ArtifactUpdate() if not self._are_hints:  # first, as most events are chunks
                return [event]
            case Message():
                return [event]
            case StatusUpdate() if not self._are_hints:
                return [*await self._unstreamed_artifacts(event), event]
            case StatusUpdate() if not (self._seen.is_over or event.final or ends_stream(event.status.state)):
                # Progress of a task at work. If it is an old event, it does no harm.
                return [] if event.status == self._seen.status else [event]
            case ArtifactUpdate() if self._seen.has(event):
                return []  # probably a repeat; if not, the next read finds it
            case _:
                return self._seen.new_events_in(await self._reader.read(event.task_id))

    async def _unstreamed_artifacts(self, end: StatusUpdate) -> list[StreamEvent]:
        """Artifacts of a task that ends without an answer: some agents (fasta2a) show them only to `GetTask`."""
        has_answer = self._seen.has_answer or end.status.message is not None
        if not ends_stream(end.status.state) or has_answer or self._seen.is_over:
            return []
        with suppress(UnreachableError, A2AError):  # the task has ended either way
            snapshot = await self._reader.read(end.task_id)
            if snapshot.status.state is end.status.state:
                return [event for event in self._seen.new_events_in(snapshot) if isinstance(event, ArtifactUpdate)]
        return []
