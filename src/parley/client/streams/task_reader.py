"""Reads a task from its agent: once, at most every so often, or at intervals until it is over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from parley.client.calls import Calls
from parley.client.errors import StreamTruncatedError
from parley.client.streams.streamed_task import StreamedTask
from parley.client.transports.transport import ReceivedEvent
from parley.protocol import operations as ops
from parley.protocol.errors import PeerProtocolError
from parley.protocol.requests import GetTaskRequest
from parley.protocol.tasks import Task

FIRST_POLL_SECONDS = 0.05
"""Pause after the first poll. Most tasks take little longer; the pauses double from there."""

POLL_SECONDS = 1.0
"""The longest pause between two polls."""

TRUNCATED = "The stream ended before its task did, and could not be resumed"


class TaskReader:
    """Reads one task. `seen` is what the stream's reader knows of it."""

    def __init__(self, calls: Calls, seen: StreamedTask, tenant: str | None) -> None:
        self._calls = calls
        self._seen = seen
        self._tenant = tenant
        self._read_at = 0.0

    async def read(self, task_id: str) -> Task:
        """The task as it is now. Two reads are at least `Retries.first_pause` apart."""
        now = asyncio.get_running_loop().time
        pause = self._read_at + self._calls.retries.first_pause - now()
        if pause > 0:
            await self._calls.sleep(pause)
        task = await self._calls.call(ops.GET_TASK, GetTaskRequest(task_id, tenant=self._tenant))
        self._read_at = now()
        if not isinstance(task, Task):
            raise PeerProtocolError("The agent answered GetTask with something else than a task")
        return task

    async def poll(self, task_id: str) -> AsyncGenerator[ReceivedEvent]:
        """The task at intervals, until it is over.

        Raises:
            StreamTruncatedError: nothing new came for as long as a reply may take.
        """
        without_news, pause = 0.0, FIRST_POLL_SECONDS
        while without_news < self._calls.timeouts.reply:
            task = await self.read(task_id)
            events_before = self._seen.event_count
            yield ReceivedEvent(task)
            if self._seen.is_over:
                return
            await self._calls.sleep(pause)
            without_news = 0.0 if self._seen.event_count > events_before else without_news + pause
            pause = min(pause * 2, POLL_SECONDS)
        raise StreamTruncatedError(TRUNCATED, task_id=task_id)
