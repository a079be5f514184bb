"""Logs of tasks, and what agents keep for conversations, written as they are read from an export.

A task is written with its last state from the first line on: no worker may take it for one that was left at work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from parley.engine.clock import Clock
from parley.engine.sealed_answers import movable_event
from parley.host.approvals.decisions import approval_told_by
from parley.host.origin import origin_of, owner_name
from parley.host.transfer.format import ExportedContextValue, ExportedEvents, ExportedTask, InvalidExportError
from parley.host.transfer.rebasing import Rebasing
from parley.host.transfer.tenant_records import TENANT
from parley.protocol.errors import LocalProtocolError
from parley.protocol.events import MessageAdded, TaskEvent
from parley.protocol.lifecycle import ends_stream, fold
from parley.protocol.tasks import Task
from parley.stores.interface import ConflictError, ContextKey, NewTask, Owner, Store, TaskKey, Write

WRITES_AT_ONCE = 32
"""Writes that a store may make durable together; each holds a line of the file, of about a megabyte at most."""


class TaskLogWriter:
    """Writes one task after the other."""

    def __init__(self, store: Store, tenant: str, rebasing: Rebasing, clock: Clock) -> None:
        self._store = store
        self._tenant = tenant
        self._owner = Owner(tenant, owner_name(tenant))
        self._rebasing = rebasing
        self._clock = clock
        self._task: ExportedTask | None = None
        self._written = 0
        self._folded: Task | None = None
        self._writing: list[tuple[int, asyncio.Future[None]]] = []
        self.count = 0

    def begin(self, task: ExportedTask, line: int) -> None:
        """The head of the next task. Raises InvalidExportError."""
        if not ends_stream(task.state):
            raise InvalidExportError(f"a task that is {task.state.value} cannot be imported", line)
        self._agent(task.agent, line)
        self._task, self._written, self._folded = task, 0, None
        self.count += 1

    async def add(self, lines: ExportedEvents, line: int) -> None:
        """Some events of the task. Raises InvalidExportError."""
        task = self._task
        if task is None or task.id != lines.task_id or any(event.task_id != task.id for event in lines.events):
            raise InvalidExportError("the events do not belong to the task before them", line)
        events = tuple([movable_event(self._rebasing.event(event)) for event in lines.events])
        try:
            self._folded = fold(self._folded, lines.events)
            _check_messages(events)
        except LocalProtocolError as error:
            raise InvalidExportError(f"these events cannot follow one another: {error}"[:500], line) from None
        except msgspec.ValidationError as error:
            raise InvalidExportError(f"what the host says of a message cannot be read: {error}"[:500], line) from None
        moments = [moment for count, moment in lines.written_at for _ in range(min(count, len(events)))]
        if moments and len(moments) != len(events):
            raise InvalidExportError("the moments of the events do not fit them", line)
        is_first = self._written == 0
        write = Write(
            TaskKey(self._owner, task.id),
            self._written,
            events,
            task.state,
            task.status_at,
            new=NewTask(self._agent(task.agent, line), task.context_id, task.created_in, task.created_at)
            if is_first
            else None,
            written_at=tuple(moments) or (None,) * len(events),
        )
        self._written += len(lines.events)
        self._writing.append((line, asyncio.ensure_future(self._store.tasks.write(write))))
        if len(self._writing) == WRITES_AT_ONCE:
            await self.flush()

    async def flush(self) -> None:
        """Wait until everything is written. Raises InvalidExportError if a task is there twice, or StoreError."""
        writing, self._writing = self._writing, []
        outcomes = await asyncio.gather(*[write for _, write in writing], return_exceptions=True)
        for (line, _), outcome in zip(writing, outcomes, strict=True):
            if isinstance(outcome, ConflictError):
                raise InvalidExportError("there are two tasks with one id", line)
            if isinstance(outcome, BaseException):
                raise outcome

    def finish(self, line: int) -> None:
        """The end of the task, if there is one. Raises InvalidExportError if events are missing."""
        task, self._task = self._task, None
        if task is not None and (not self._written or self._written != task.events):
            text = f"task {task.id[:100]} has {task.events} events, and {self._written} are here"
            raise InvalidExportError(text, line)
        if task is not None and self._folded is not None and self._folded.status.state is not task.state:
            text = f"task {task.id[:100]} is {task.state.value}, and its events say {self._folded.status.state.value}"
            raise InvalidExportError(text, line)

    async def put_context_value(self, given: ExportedContextValue, line: int) -> None:
        """What an agent keeps for a conversation. Raises InvalidExportError."""
        key = ContextKey(self._owner, self._agent(given.agent, line), given.context_id)
        await self._store.contexts.put(key, given.name, given.value, at=self._clock.now())

    def _agent(self, agent: str, line: int) -> str:
        """The engine's id of an agent at this host: one of the tenant, or one that all tenants share."""
        tenant, slash, name = agent.partition("/")
        if slash and tenant != TENANT:
            raise InvalidExportError("the agent does not belong to the tenant", line)
        return f"{self._tenant}/{name}" if slash else agent


def _check_messages(events: Sequence[TaskEvent]) -> None:
    """Read what the host itself says of messages, as it does later. Raises msgspec.ValidationError."""
    for event in events:
        if isinstance(event, MessageAdded):
            origin_of(event.message)
            approval_told_by(event.message)
