"""Appends to tasks, as databases hold them: a write as rows, and a task's head with the changes that are staged.

A transaction of many appends checks each against the head as the appends before it leave it. It knows no database.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from time import time_ns
from typing import TypeAlias, get_args

from msgspec import Struct, structs

from parley.protocol.events import ArtifactUpdate, InternalEvent, TaskEvent
from parley.protocol.tasks import Task
from parley.sealed.sealer import Sealer
from parley.stores.encoding import encode, encode_time, require_encodable
from parley.stores.interface import NewTask, Write
from parley.stores.rows import Value, encode_send, encode_webhook

EVENTS_PER_ROW = 64
"""A page that begins or ends within a row wastes about ten microseconds on decoding the rest."""

LARGE_ROW = 65_536
"""Characters. Events that together take more than this have a row each."""

_UNLISTED = frozenset({ArtifactUpdate, *get_args(InternalEvent)})
"""Events that a list of tasks does not show."""

TaskId: TypeAlias = tuple[str, str]
"""Tenant and id."""

EventRow: TypeAlias = tuple[int, str, int, int | None]
"""How many events, their JSON, 1 if lists of tasks can skip the row, and when it was written."""


class Append(Struct, frozen=True):
    """A `Write`, with what the tables hold of it.

    `snapshot` is the task without its artifacts, and the artifacts. `sends_since` is None if its sends are known to be
    new.
    """

    write: Write
    task_id: TaskId
    events: list[EventRow]
    status_at: int
    snapshot: tuple[str, str] | None
    sends: list[tuple[Value, ...]]
    sends_since: int | None
    webhooks: list[tuple[Value, ...]]
    wake_at: int | None


def encode_write(write: Write, sends_since: datetime | None, sealer: Sealer) -> Append:
    """A write, encoded, with the secrets of its webhooks encrypted.

    It fails if one of its sends was recorded at or after `sends_since`.

    Raises:
        StoreError: it holds something that cannot be kept.
    """
    key, new = write.key, write.new
    owner = key.owner
    require_encodable(owner.tenant, owner.name, key.task_id, write.holder, *write.taken)
    if new is not None:
        require_encodable(new.agent, new.context_id)
    return Append(
        write,
        (owner.tenant, key.task_id),
        _encode_events(write.events, time_ns() // 1_000) if not write.written_at else _encode_old_events(write),
        encode_time(write.status_at),
        _encode_snapshot(write.snapshot) if write.snapshot is not None else None,
        [encode_send(owner, send, record) for send, record in write.sends],
        encode_time(sends_since) if sends_since is not None else None,
        [encode_webhook(sealer, key, config, version, write.expected_seq) for config, version in write.webhooks],
        encode_time(write.wake_at) if write.wake_at is not None else None,
    )


def _encode_snapshot(task: Task) -> tuple[str, str]:
    return encode(structs.replace(task, artifacts=())), encode(task.artifacts)


def _encode_old_events(write: Write) -> list[EventRow]:
    """Events that were written elsewhere before: those of one moment share rows."""
    rows: list[EventRow] = []
    timed = zip(write.events, write.written_at, strict=True)
    for moment, group in groupby(timed, key=lambda each: each[1]):
        written_at = encode_time(moment) if moment is not None else None
        rows += _encode_events([event for event, _ in group], written_at)
    return rows


def _encode_events(events: Sequence[TaskEvent], written_at: int | None) -> list[EventRow]:
    rows: list[EventRow] = []  # numbers, not bools, for which sqlite3 looks for an adapter each time
    for begin in range(0, len(events), EVENTS_PER_ROW):
        some = tuple(events[begin : begin + EVENTS_PER_ROW])
        text = encode(some)
        if len(text) > LARGE_ROW:
            rows += [(1, encode((event,)), int(type(event) in _UNLISTED), written_at) for event in some]
        else:
            rows.append((len(some), text, int(_UNLISTED.issuperset(map(type, some))), written_at))
    return rows


class StagedHead(Struct):
    """A task's row in `tasks`, with staged changes."""

    tenant: str
    task_id: str
    number: int
    owner: str
    state: str
    status_at: int
    holder: str
    has_webhooks: int
    last_seq: int
    attempts: int
    snapshot_seq: int
    size: int
    wake_at: int | None
    new: NewTask | None = None
    snapshot: tuple[str, str] | None = None
    writer: str | None = None
    """The worker whose events are not yet delivered."""
    has_new_status: bool = False
    has_new_wake: bool = False
    is_changed: bool = False

    def stage(self, append: Append) -> None:
        """Stage an append that passed the fence."""
        write = append.write
        self.last_seq += len(write.events)
        for _, events, _, _ in append.events:
            self.size += len(events)
        status = (write.state.value, append.status_at, write.holder)
        if (self.state, self.status_at, self.holder) != status:
            self.state, self.status_at, self.holder = status
            self.has_new_status = True
        if self.wake_at != append.wake_at:
            self.wake_at = append.wake_at
            self.has_new_wake = True
        self.attempts = write.attempts
        if append.snapshot is not None:
            self.snapshot = append.snapshot
            self.snapshot_seq = self.last_seq
            self.size = sum(map(len, append.snapshot))
        self.is_changed = True
        if append.webhooks:
            self.has_webhooks = 1
            self.has_new_status = True
        if append.events and self.has_webhooks and self.writer is None:
            self.writer = write.holder or write.expected_holder


def new_head(append: Append, number: int) -> StagedHead:
    """The head of a task that an append creates, before the append is staged."""
    write = append.write
    return StagedHead(
        *append.task_id,
        *(number, write.key.owner.name, write.state.value, append.status_at),
        *(write.holder, 0, 0, 0, 0, 0, None),
        new=write.new,
    )


def new_row(h: StagedHead, new: NewTask) -> tuple[Value, ...]:
    """A new task as a row of `tasks`, without the moment at which it wakes."""
    return (
        *(h.number, h.tenant, h.task_id, h.owner, new.agent, new.context_id, encode_time(new.created_at)),
        *(new.created_in.value, h.state, h.status_at, h.holder, h.has_webhooks, h.last_seq, h.attempts),
        *(h.snapshot_seq, h.size),
    )
