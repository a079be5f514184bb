"""One call of an executor's `execute`, and the events that come of it.

A message, a question and a final state count when `execute` has returned. If something follows them, a message or a
question was only a report of progress; what follows a final state is dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import TypeAlias

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue

from parley.protocol.events import ArtifactUpdate, StatusUpdate, StreamEvent
from parley.protocol.lifecycle import is_interrupted, is_terminal
from parley.protocol.messages import Message
from parley.protocol.tasks import Task, TaskState, TaskStatus

ExecutorEvent: TypeAlias = ArtifactUpdate | StatusUpdate | Message

MOST_PENDING = 16
"""So many events may wait to be written; then `enqueue_event` waits."""

HELD_SECONDS = 1.0
"""An executor that goes on for longer after a question waits for something else, and its caller must see the text."""

CLEANUP_SECONDS = 2.0
"""`cancel` may take as long, and then `execute` may; the engine allows five seconds for both."""

logger = logging.getLogger(__name__)


class Execution:
    """One call of `execute`. `known` is the task as the executor is given it."""

    def __init__(self, executor: AgentExecutor, known: Task | None) -> None:
        self._executor = executor
        self._known = known
        self._pending: deque[ExecutorEvent] = deque()
        self._news, self._room = asyncio.Event(), asyncio.Event()
        self._is_closing = False

    def begin(self, context: RequestContext, queue: EventQueue) -> None:
        """Call `execute`, in an asyncio task of its own."""
        self._work = asyncio.ensure_future(self._executor.execute(context, queue))
        self._work.add_done_callback(lambda _: self._news.set())

    async def accept(self, event: StreamEvent) -> None:
        """Take an event of the executor, and wait while too many are pending."""
        self._pending.extend(_updates(event, self._known) if isinstance(event, Task) else (event,))
        self._news.set()
        while len(self._pending) >= MOST_PENDING and not self._is_closing:
            self._room.clear()
            await self._room.wait()

    async def events(self) -> AsyncIterator[ExecutorEvent]:
        """What the executor says. Raises what `execute` raises."""
        held: StatusUpdate | Message | None = None
        is_shown = False
        while True:
            is_question = isinstance(held, StatusUpdate) and not _is_final(held)
            if not await self._has_news(HELD_SECONDS if is_question and not is_shown else None):
                is_shown = True
                yield _progress(held)
            elif not self._pending:  # `execute` has returned
                await self._work
                break
            else:
                event = self._pending.popleft()
                self._room.set()
                if _is_final(held):
                    continue
                if held is not None and not is_shown:
                    yield _progress(held)
                held, is_shown = None, False
                if isinstance(event, ArtifactUpdate) or not _may_be_last(event):
                    yield event
                else:
                    held = event
        if held is not None:
            yield held

    async def _has_news(self, seconds: float | None) -> bool:
        """Whether there is an event or the end of `execute`, within some seconds."""
        try:
            async with asyncio.timeout(seconds):
                while not (self._pending or self._work.done()):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return False
        return True

    async def cancel(self, context: RequestContext, queue: EventQueue) -> Message | None:
        """Call the executor's `cancel`, then stop `execute`. Returns the message with which `cancel` ends the task."""
        self._is_closing = True
        self._room.set()
        said_before = len(self._pending)
        try:
            if not self._work.done():
                async with asyncio.timeout(CLEANUP_SECONDS):
                    await self._executor.cancel(context, queue)
        except Exception as error:
            logger.warning("The executor's cancel() failed: %r", error)
        finally:
            await self.stop()
        messages = [event.status.message for event in list(self._pending)[said_before:] if _is_final(event)]
        return messages[-1] if messages else None

    async def stop(self) -> None:
        """Cancel `execute` if it is at work."""
        self._is_closing = True
        self._room.set()
        self._work.cancel()
        await asyncio.wait({self._work}, timeout=CLEANUP_SECONDS)
        if self._work.done() and not self._work.cancelled():
            self._work.exception()  # it was raised where it matters


def _is_final(event: ExecutorEvent | None) -> bool:
    return isinstance(event, StatusUpdate) and is_terminal(event.status.state)


def _may_be_last(event: StatusUpdate | Message) -> bool:
    return isinstance(event, Message) or is_interrupted(event.status.state) or _is_final(event)


def _progress(event: StatusUpdate | Message) -> StatusUpdate:
    """A message or a question as a report of progress."""
    if isinstance(event, Message):
        return StatusUpdate(event.task_id or "", event.context_id, TaskStatus(TaskState.WORKING, event))
    status = TaskStatus(TaskState.WORKING, event.status.message)
    return StatusUpdate(event.task_id, event.context_id, status, event.metadata)


def _updates(task: Task, known: Task | None) -> Iterator[ExecutorEvent]:
    """What is new in a whole task. Executors enqueue one to begin, and often the one that they were given."""
    artifacts = known.artifacts if known else ()
    for artifact in task.artifacts:
        if artifact not in artifacts:
            yield ArtifactUpdate(task.id, task.context_id, artifact, last_chunk=True)
    is_same = known is not None and (task.status.state, task.status.message) == (
        known.status.state,
        known.status.message,
    )
    status = TaskStatus(TaskState.WORKING) if is_same else task.status
    yield StatusUpdate(task.id, task.context_id, status, task.metadata)
