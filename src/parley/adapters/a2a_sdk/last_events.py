"""Which events of an executor may be its last: a message, a question or a final state."""

from __future__ import annotations

from typing import TypeGuard

from parley.adapters.a2a_sdk.known_task import ExecutorEvent
from parley.protocol.events import StatusUpdate
from parley.protocol.lifecycle import ends_stream, is_terminal
from parley.protocol.messages import Message
from parley.protocol.tasks import TaskState, TaskStatus


def may_be_last(event: ExecutorEvent) -> TypeGuard[StatusUpdate | Message]:
    """Whether an event counts if `execute` returns after it."""
    return isinstance(event, Message) or (isinstance(event, StatusUpdate) and ends_stream(event.status.state))


def is_final(event: ExecutorEvent | None) -> bool:
    """Whether an event ends the task."""
    return isinstance(event, StatusUpdate) and is_terminal(event.status.state)


def stands(event: ExecutorEvent | None) -> bool:
    """Whether an event counts even if `execute` does not return after it, but raises or goes on."""
    return isinstance(event, Message) or is_final(event)


def progress(event: StatusUpdate | Message) -> StatusUpdate:
    """A message or a question as a report of progress."""
    if isinstance(event, Message):
        return StatusUpdate(event.task_id or "", event.context_id, TaskStatus(TaskState.WORKING, event))
    status = TaskStatus(TaskState.WORKING, event.status.message)
    return StatusUpdate(event.task_id, event.context_id, status, event.metadata)
