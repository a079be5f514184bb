"""The task log: tasks as append-only sequences of events, and the fence between workers.

- A task is a sequence of events, numbered from 1 without gaps. `write` is compare-and-set on the last number and on the
  worker that holds the task.
- A worker holds a task from the write that creates, resumes or claims it to the one that ends it or waits for
  input. Claiming is an append: it takes the next number, so that the former holder's next write fails.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from parley.protocol.events import TaskEvent
from parley.protocol.push import PushConfig
from parley.protocol.tasks import Task, TaskState
from parley.protocol.versions import Version
from parley.stores.interface.errors import ConflictError, LeaseLostError
from parley.stores.interface.keys import Owner, TaskKey
from parley.stores.interface.sends import SendKey, SendRecord


class TaskHead(Struct, frozen=True, gc=False):
    """What a store knows of a task without looking at its events."""

    key: TaskKey
    agent: str
    context_id: str
    state: TaskState
    status_at: datetime
    created_at: datetime
    last_seq: int
    created_in: Version
    attempts: int = 0
    """How many runs began since the task last made progress. Recovery counts them."""
    holder: str = ""
    """The worker that holds it, or the last one that did before it died; empty for a task that ended or waits."""
    wake_at: datetime | None = None
    """When a task that sleeps is to be continued. No worker holds it until then."""
    size: int = 0
    """About how many characters must be loaded to read the task; 0 in a store that loads nothing."""


class StoredTask(Struct, frozen=True, gc=False):
    """A task's head, its latest snapshot, and the events after it, up to `head.last_seq`.

    `snapshot` is None and `snapshot_seq` 0 where none was written: the events then begin with the first.
    """

    head: TaskHead
    snapshot: Task | None
    snapshot_seq: int
    events: tuple[TaskEvent, ...]


class StoredEvent(Struct, frozen=True, gc=False):
    """An event with its number, and when it was written; None if an earlier version of Parley wrote it."""

    seq: int
    event: TaskEvent
    written_at: datetime | None


class NewTask(Struct, frozen=True, gc=False):
    """The fixed fields of a new task."""

    agent: str
    context_id: str
    created_in: Version
    created_at: datetime


class Write(Struct, frozen=True, gc=False):
    """One transaction on one task.

    `expected_seq` is the last number the writer has seen: 0 together with `new` creates the task, anything else must be
    its `last_seq`. `expected_holder` must hold the task before, `holder` holds it afterwards. `state` and `status_at`
    are what the head says afterwards. With `wake_at` the task sleeps until that moment, and `holder` is empty; a write
    without it ends the sleep. `snapshot`, if given, is the task after these events.

    `sends` are kept with it; with `sends_since`, only if none of them was sent from that moment on, except to a reply
    that the worker `holder` of its record is working on. `webhooks`, each with the dialect it was registered in, are
    kept as `Outbox.put` keeps them, and get these events and all later ones. `taken` are the ids of inbox items of the
    task that these events are the answer to.

    A store notes when it was given the events. `written_at`, one moment for each event, is of events that were written
    elsewhere before.
    """

    key: TaskKey
    expected_seq: int
    events: tuple[TaskEvent, ...]
    state: TaskState
    status_at: datetime
    new: NewTask | None = None
    snapshot: Task | None = None
    sends: tuple[tuple[SendKey, SendRecord], ...] = ()
    attempts: int = 0
    webhooks: tuple[tuple[PushConfig, Version], ...] = ()
    expected_holder: str = ""
    holder: str = ""
    sends_since: datetime | None = None
    taken: tuple[str, ...] = ()
    wake_at: datetime | None = None
    written_at: tuple[datetime | None, ...] = ()

    def check_fence(self, owner: str | None, last_seq: int = 0, holder: str = "") -> None:
        """The fence: pass if a task, or None where there is none, is as this writer believes it to be.

        Raises:
            ConflictError, LeaseLostError: it is not.
        """
        if self.new is not None:
            is_expected = owner is None and self.expected_seq == 0 and not self.expected_holder
        else:
            is_expected = (owner, last_seq, holder) == (self.key.owner.name, self.expected_seq, self.expected_holder)
        if not is_expected:
            raise LeaseLostError if self.expected_holder else ConflictError


class TaskFilter(Struct, frozen=True, gc=False):
    """Which tasks a list shows, and from where on.

    `after` is the (status_at, task_id) of the last task of the page before: tasks come newest status first, then by id.
    """

    agent: str | None = None
    context_id: str | None = None
    state: TaskState | None = None
    status_at_or_after: datetime | None = None
    after: tuple[datetime, str] | None = None
    limit: int = 50


class TaskHeads(Struct, frozen=True, gc=False):
    """One page of a list, and how many tasks match in all, before paging."""

    heads: tuple[TaskHead, ...]
    total: int


class Workload(Struct, frozen=True, gc=False):
    """How many tasks are submitted or working, in the whole store."""

    held: int = 0
    """By workers that are alive."""
    waiting: int = 0
    """For any worker: none that is alive holds them, and they do not sleep."""
    waiting_since: datetime | None = None
    """When the one that has waited longest got its present status."""
    sleeping: int = 0


class TaskLog(Protocol):
    """Tasks and their events."""

    def write(self, write: Write) -> Awaitable[None]:
        """Append events to a task, or create it.

        The write is queued when this is called, even if the result is never awaited. Errors are raised by the await.

        Raises:
            ConflictError: `expected_seq` is not the task's last number, or the task exists already.
            LeaseLostError: as above when `expected_holder` is set, or another worker holds the task.
            RepeatedSendError: one of `sends` was sent since `sends_since`.
            StoreUnavailableError: nothing was written.
        """
        ...

    async def head(self, key: TaskKey) -> TaskHead | None:
        """A task's head, or None if this owner has no such task."""
        ...

    async def find(self, task_id: str, *, tenant: str | None = None, name: str | None = None) -> Sequence[TaskHead]:
        """The tasks with an id, by tenant: of all tenants or of one, and of owners of any name or of one."""
        ...

    async def read(self, key: TaskKey) -> StoredTask | None:
        """A task as of one moment, or None if this owner has no such task."""
        ...

    async def read_many(
        self, keys: Sequence[TaskKey], *, artifacts: bool = True, size: int | None = None
    ) -> Sequence[StoredTask | None]:
        """Tasks, each as of one moment, in the order of their keys; None for those that are not there.

        Without `artifacts` neither they nor the events that made them are read, and may be missing. With a `size`, a
        store that has to load them ends with the task that exceeds this many characters.
        """
        ...

    async def events(
        self, key: TaskKey, *, after: int, limit: int, size: int | None = None
    ) -> Sequence[tuple[int, TaskEvent]]:
        """A task's events after a number, oldest first, at most `limit`; empty if there are none or no such task.

        With a `size`, a store that has to load them ends with those that exceed this many characters.
        """
        ...

    async def timed_events(
        self, key: TaskKey, *, after: int, limit: int, size: int | None = None
    ) -> Sequence[StoredEvent]:
        """What `events` gives, each with the moment at which it was written."""
        ...

    async def list(self, owner: Owner, query: TaskFilter) -> TaskHeads:
        """An owner's tasks."""
        ...

    async def list_all(
        self, query: TaskFilter, *, tenant: str | None = None, name: str | None = None
    ) -> Sequence[TaskHead]:
        """Tasks of all tenants or of one, and of owners of any name or of one: newest status first, then by id.

        Nothing is counted, so that the last page costs what the first did. A page may be longer than its limit by
        tasks of other tenants that have the moment and the id of its last one.
        """
        ...

    async def count_all(
        self, query: TaskFilter, *, tenant: str | None = None, name: str | None = None, most: int
    ) -> int:
        """How many tasks `list_all` shows on all pages; more than `most` if there are more than that."""
        ...

    async def newest(
        self, tenant: str, *, before: tuple[datetime, str] | None = None, limit: int
    ) -> Sequence[TaskHead]:
        """Tasks of all owners in a tenant, by falling `(created_at, task_id)`, at most `limit`.

        `before` is that of the last task of the page before.
        """
        ...

    async def orphaned(
        self,
        live: frozenset[str],
        *,
        now: datetime | None = None,
        agents: frozenset[str] | None = None,
        after: tuple[datetime, str] | None = None,
        limit: int,
    ) -> Sequence[TaskHead]:
        """Tasks of all owners that are submitted or working, and that none of the `live` workers holds.

        Tasks that sleep are left out, unless they are to wake at or before `now`. Only those of some `agents`, if
        given. The oldest first, at most `limit` of those after the (created_at, task_id) of another one.
        """
        ...

    async def next_wake(self, *, after: datetime) -> datetime | None:
        """The earliest moment after another one at which a sleeping task is to wake; None if there is none."""
        ...

    async def workload(self, live: frozenset[str]) -> Workload:
        """How many tasks of all owners are submitted or working; `live` are the workers that are alive."""
        ...

    async def delete(self, key: TaskKey) -> bool:
        """Delete a task with its events, sends, webhooks and inbox. Return True if there was such a task."""
        ...

    async def delete_finished(
        self, *, before: datetime, limit: int, tenant: str | None = None, agent: str | None = None
    ) -> int:
        """Delete tasks of all owners that ended before a moment, at most `limit`. Return how many were deleted.

        Of all tenants and agents, or of one.
        """
        ...
