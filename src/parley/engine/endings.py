"""Ending tasks that have no run: canceled while they wait, or failed because their work cannot go on."""

from __future__ import annotations

import asyncio
import logging
from time import perf_counter
from typing import TYPE_CHECKING

from parley.protocol.errors import TaskNotCancelableError, TaskNotFoundError
from parley.protocol.events import StatusUpdate
from parley.protocol.lifecycle import is_interrupted, is_terminal
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.tasks import TaskState, TaskStatus
from parley.stores.interface import ConflictError, StoreError, TaskHead, TaskKey, Write

if TYPE_CHECKING:
    from parley.engine.engine import Engine

logger = logging.getLogger(__name__)


async def end_task(engine: Engine, head: TaskHead, state: TaskState, text: str | None = None) -> None:
    """Put a task that has no run into a final state, and tell its readers and webhooks.

    Raises:
        ConflictError: the task has changed since its head was read.
    """
    now = engine.clock.now()
    key, context_id = head.key, head.context_id
    message = text and Message(engine.new_id(), Role.AGENT, (TextPart(text),), context_id, key.task_id)
    event = StatusUpdate(key.task_id, context_id, TaskStatus(state, message or None, now))
    begun = perf_counter()
    await engine.store.tasks.write(Write(key, head.last_seq, (event,), state, now))
    if engine.observer is not None:
        engine.observer.committed(key, head.agent, (event,), perf_counter() - begun)
    feed = engine.feeds.get(key)
    if feed is not None:
        feed.publish(head.last_seq + 1, (event,))
    engine.webhooks.notify(key)


async def fail_when_possible(engine: Engine, key: TaskKey) -> None:
    """Fail a task whose run could not write, as soon as the store takes writes again."""
    pause = 1.0
    while True:
        try:
            head = await engine.store.tasks.head(key)
            if head is None or is_terminal(head.state) or is_interrupted(head.state):
                return
            await end_task(engine, head, TaskState.FAILED, "The agent could not store its progress on this task.")
            return
        except StoreError as error:
            logger.warning("Task %s: still cannot be stored: %s", key.task_id, error, extra={"task": key.task_id})
            await engine.clock.sleep(pause)
            pause = min(pause * 2, 30.0)


async def cancel(engine: Engine, key: TaskKey, agent: str) -> None:
    """Cancel a task of an agent, whether it has a run or waits for its caller.

    Raises:
        TaskNotFoundError: the owner has no such task with this agent.
        TaskNotCancelableError: it has ended already.
    """
    runs = engine.runs
    while True:
        run = runs.find(key)
        if run is not None:
            if run.program.id != agent:
                raise TaskNotFoundError.for_task(key.task_id)
            if not run.is_closed:
                await runs.cancel(run)
                return
            await run.wait_for_end()
            continue
        await runs.wait_for_reserved(key)
        head = await engine.views.head(key, agent)
        if runs.find(key) is not None:
            continue
        if is_terminal(head.state):
            raise TaskNotCancelableError(details={"taskId": key.task_id, "state": head.state.value})
        try:
            # To its end, also if the caller goes away: readers and webhooks are told when it is written.
            await asyncio.shield(engine.in_background(_cancel_waiting(engine, head)))
            return
        except ConflictError:
            continue


async def _cancel_waiting(engine: Engine, head: TaskHead) -> None:
    if not engine.runs.is_free(head.key):
        raise ConflictError
    with engine.runs.reserved(head.key):
        await end_task(engine, head, TaskState.CANCELED)
