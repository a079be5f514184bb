"""The task log: what a store must do. `parley.testing.stores` holds the suite that every store must pass.

The rules that make everything else possible:

- A task is an append-only sequence of events, numbered from 1 without gaps. `write` is compare-and-set on the last
  number.
- What a write returns from has happened: a crash at any later moment loses none of it, and a write that raised left
  nothing behind. A write is one transaction, whatever it holds.
- Writes of one caller take effect in the order in which they were called, awaited or not. A run may therefore write
  ahead and wait only when somebody must see the outcome.
- Tenant and owner are part of every key, and the agent of a context's. What belongs to another owner does not exist.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from parley.protocol.errors import ParleyError
from parley.protocol.events import TaskEvent
from parley.protocol.jsonvalue import JsonValue
from parley.protocol.messages import Message
from parley.protocol.push import PushConfig
from parley.protocol.tasks import Task, TaskState
from parley.protocol.versions import Version


class StoreError(ParleyError):
    """The store cannot do this now."""


class ConflictError(StoreError):
    """Somebody else wrote to the task first; read it again."""


class StoreUnavailableError(StoreError):
    """The store cannot be written or read: disk full, file locked or broken. Nothing of this was kept."""


class Owner(Struct, frozen=True, gc=False):
    """Whose tasks: a tenant, and a caller within it."""

    tenant: str
    name: str


class TaskKey(Struct, frozen=True, gc=False):
    """One task of one owner."""

    owner: Owner
    task_id: str


class ContextKey(Struct, frozen=True, gc=False):
    """One conversation between an owner and an agent."""

    owner: Owner
    agent: str
    context_id: str


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
    """How often a run of it was begun since it last made progress; recovery counts here."""
    size: int = 0
    """How many characters must be loaded to read the task, about; 0 in a store that has nothing to load."""


class StoredTask(Struct, frozen=True, gc=False):
    """A task's head, its latest snapshot, and the events after it, up to `head.last_seq`.

    `snapshot` is None and `snapshot_seq` 0 where none was written: the events then begin with the first.
    """

    head: TaskHead
    snapshot: Task | None
    snapshot_seq: int
    events: tuple[TaskEvent, ...]


class NewTask(Struct, frozen=True, gc=False):
    """What a store keeps of a task besides its events."""

    agent: str
    context_id: str
    created_in: Version
    created_at: datetime


class SendKey(Struct, frozen=True, gc=False):
    """A message as a sender may repeat it: the same id with the same content."""

    message_id: str
    digest: bytes


class SendRecord(Struct, frozen=True, gc=False):
    """What became of a message: the task it went to, or the direct reply it got."""

    sent_at: datetime
    task_id: str | None = None
    reply: Message | None = None


class Write(Struct, frozen=True, gc=False):
    """One transaction on one task.

    `expected_seq` is the last number the writer has seen: 0 together with `new` creates the task, anything else must be
    its `last_seq`. `state` and `status_at` are what the head says afterwards. `snapshot`, if given, is the task after
    these events. `sends` are remembered with it. `webhooks`, each with the dialect it was registered in, are kept as
    `put_push_config` keeps them, and are to be told of these events and all later ones.
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


class Webhook(Struct, frozen=True, gc=False):
    """A webhook of a task: its config, the dialect it was registered in, and how far it has been told.

    `delivered_seq` is the last event that it has been told of, or need not be; `last_seq` is the task's last event.
    """

    key: TaskKey
    agent: str
    config: PushConfig
    version: Version
    delivered_seq: int
    last_seq: int


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


class TaskLog(Protocol):
    """A store of tasks."""

    async def open(self) -> None:
        """Make the store ready; bring its schema up to date.

        Raises:
            StoreUnavailableError: it cannot be opened; the message says why and what to do.
        """
        ...

    async def close(self) -> None:
        """Finish what was begun and let go."""
        ...

    def trouble(self) -> str | None:
        """Why nothing can be written, as far as the last write and a look tell; None while all is well.

        One sentence for health checks: it names no paths and no contents.
        """
        ...

    def write(self, write: Write) -> Awaitable[None]:
        """Append events to a task, or create it.

        The call itself, not the waiting for it, takes the write's place in the order: it is no coroutine, and what it
        returns need not be awaited for the write to happen. Errors come when it is awaited.

        Raises:
            ConflictError: `expected_seq` is not the task's last number, or the task exists already.
            StoreUnavailableError: nothing was written.
        """
        ...

    async def head(self, key: TaskKey) -> TaskHead | None:
        """A task's head, or None if this owner has no such task."""
        ...

    async def task(self, key: TaskKey) -> StoredTask | None:
        """A task as of one moment, or None if this owner has no such task."""
        ...

    async def tasks(
        self, keys: Sequence[TaskKey], *, artifacts: bool = True, size: int | None = None
    ) -> Sequence[StoredTask | None]:
        """Tasks, each as of one moment, in the order of their keys; None for those that are not there.

        Without `artifacts` neither they nor the events that made them are read, and may be missing. With a `size`, a
        store that has to load them ends with the task that goes beyond so many characters.
        """
        ...

    async def events(
        self, key: TaskKey, *, after: int, limit: int, size: int | None = None
    ) -> Sequence[tuple[int, TaskEvent]]:
        """A task's events after a number, oldest first, at most `limit`; empty if there are none or no such task.

        With a `size`, a store that has to load them ends with those that go beyond so many characters.
        """
        ...

    async def list(self, owner: Owner, query: TaskFilter) -> TaskHeads:
        """An owner's tasks."""
        ...

    async def delete(self, key: TaskKey) -> bool:
        """Forget a task with its events, sends and webhooks; whether there was one. Leaves no rows."""
        ...

    async def delete_finished(self, *, before: datetime, limit: int) -> int:
        """Forget tasks of all owners that ended before a moment; how many, at most `limit`."""
        ...

    async def unfinished(self) -> Sequence[TaskHead]:
        """Tasks of all owners that are submitted or working: those that a crash may have left behind."""
        ...

    async def find_send(self, owner: Owner, send: SendKey, *, since: datetime) -> SendRecord | None:
        """What became of a message that was sent at or after a moment."""
        ...

    async def remember_send(self, owner: Owner, send: SendKey, record: SendRecord) -> None:
        """Remember a message that created no task."""
        ...

    async def forget_sends(self, *, before: datetime) -> None:
        """Forget messages that nobody may repeat any more."""
        ...

    async def put_push_config(
        self, key: TaskKey, config: PushConfig, *, version: Version = Version.V1_0, after: int | None = None
    ) -> None:
        """Keep a webhook of a task, registered in a dialect; it is to be told of the events after a number.

        Without a number that is whatever comes from now on. In place of an earlier one with its id it keeps the
        earlier one's place: nothing is skipped or told again because of it.

        Raises:
            ConflictError: this owner has no such task, or has it no longer.
        """
        ...

    async def push_configs(self, key: TaskKey) -> Sequence[PushConfig]:
        """A task's webhooks, by id."""
        ...

    async def delete_push_config(self, key: TaskKey, config_id: str) -> None:
        """Forget a webhook, if there is one."""
        ...

    async def webhooks(self, key: TaskKey) -> Sequence[Webhook]:
        """A task's webhooks with their places, by id."""
        ...

    async def mark_delivered(self, key: TaskKey, config_id: str, seq: int) -> bool:
        """Note that a webhook has been told of everything up to a number; whether it is still there.

        A place never moves back.
        """
        ...

    async def undelivered(
        self, *, after: Webhook | Owner | None, limit: int, owner: Owner | None = None
    ) -> Sequence[Webhook]:
        """Webhooks of one owner or of all that are behind their tasks, by tenant, owner, task and id.

        At most `limit` of those that come after another webhook, or after all webhooks of an owner.
        """
        ...

    async def remember(self, context: ContextKey, name: str, value: JsonValue, *, at: datetime) -> None:
        """Keep a value for a context, written at a moment; None forgets it."""
        ...

    async def recall(self, context: ContextKey) -> dict[str, JsonValue]:
        """All values kept for a context."""
        ...

    async def forget_contexts(self, *, before: datetime, limit: int) -> int:
        """Forget the values of contexts that have no task left and were last written before a moment.

        Returns how many contexts that were, at most `limit`.
        """
        ...
