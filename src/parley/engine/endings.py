"""Ending tasks that have no run: canceled while they wait, or failed because their work cannot go on."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from parley.cluster.hints import Hint, HintKind
from parley.engine.outliving import outliving
from parley.engine.ownership.inbox import forward_to_holder
from parley.engine.runs.run import AbandonedError
from parley.protocol.errors import TaskNotCancelableError, TaskNotFoundError
from parley.protocol.events import StatusUpdate
from parley.protocol.lifecycle import is_terminal
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.tasks import TaskState, TaskStatus
from parley.stores.interface import ConflictError, InboxItem, TaskHead, TaskKey, Write

if TYPE_CHECKING:
    from parley.engine.engine import Engine


async def end_task(engine: Engine, head: TaskHead, state: TaskState, text: str | None = None) -> None:
    """Put a task that has no run into a final state, and notify its readers and webhooks.

    Raises:
        ConflictError: the task has changed since its head was read.
    """
    now = engine.clock.now()
    key, context_id = head.key, head.context_id
    message = text and Message(engine.new_id(), Role.AGENT, (TextPart(text),), context_id, key.task_id)
    event = StatusUpdate(key.task_id, context_id, TaskStatus(state, message or None, now))
    begun = perf_counter()
    await engine.store.tasks.write(Write(key, head.last_seq, (event,), state, now, expected_holder=head.holder))
    if engine.observer is not None:
        engine.observer.committed(key, head.agent, (event,), perf_counter() - begun)
    feed = engine.feeds.get(key)
    if feed is not None:
        feed.publish(head.last_seq + 1, (event,))
    if engine.hints is not None:
        engine.hints.publish(Hint(HintKind.EVENTS, key, head.last_seq + 1))
    engine.webhooks.notify(key)
    program = engine.find_program(head.agent)
    if program is not None:
        engine.in_background(program.release(engine, key))


async def cancel(engine: Engine, key: TaskKey, agent: str) -> None:
    """Cancel a task of an agent, whether it waits for its caller or is at work, here or at another worker.

    Raises:
        TaskNotFoundError: the owner has no such task with this agent.
        TaskNotCancelableError: it has ended already.
    """
    runs, has_asked = engine.runs, False
    while True:
        run = runs.find(key)
        if run is not None:
            if run.program.id != agent:
                raise TaskNotFoundError.for_task(key.task_id)
            if run.is_closed:
                await run.wait_for_end()
                continue
            try:
                await runs.cancel(run)
                if run.wake_at is None:
                    return
            except AbandonedError:
                pass
            continue  # another worker has the task, or it sleeps
        head = await engine.views.head(key, agent)
        if runs.find(key) is not None:
            continue
        if is_terminal(head.state):
            if has_asked:
                return
            raise TaskNotCancelableError(details={"taskId": key.task_id, "state": head.state.value})
        holder = await engine.claims.live_holder(head)
        if holder is not None:
            await forward_to_holder(engine, InboxItem(engine.new_id(), key, head.created_in), holder, agent)
            has_asked = True
            continue
        try:
            # Also if the caller disconnects: readers and webhooks must be notified after the write.
            await outliving(engine.in_background(end_task(engine, head, TaskState.CANCELED)))
            return
        except ConflictError:
            continue
