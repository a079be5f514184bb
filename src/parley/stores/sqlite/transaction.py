"""One transaction of the writer: many appends, checked one by one, written together.

Each append is checked against the task's head as the appends before it leave it; one that conflicts stages nothing.
`sqlite3` releases the GIL on each step of a statement, so fewer, larger statements are faster: 1.4 times for sixteen
appends with an idle event loop, 4.7 times with a busy one. A constraint that fails rolls back the whole transaction (OR
ROLLBACK), so SQLite need not copy every page that a statement changes in order to undo only that statement.

The cost of an event does not depend on how many there are: events are only inserted, heads are updated once per
transaction, and the indexes over the status are touched only when it changes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import chain
from typing import TypeAlias, get_args

import msgspec
from msgspec import Struct, structs

from parley.protocol.events import ArtifactUpdate, InternalEvent, TaskEvent
from parley.protocol.tasks import Task
from parley.stores.encoding import encode, encode_time, require_encodable
from parley.stores.interface import NewTask, RepeatedSendError, Write
from parley.stores.sqlite.rows import (
    PUT_IN_OUTBOX,
    PUT_SEND,
    PUT_WEBHOOK,
    Value,
    encode_send,
    encode_webhook,
    read_send,
)

EVENTS_PER_ROW = 64
"""A page that begins or ends within a row wastes about ten microseconds on decoding the rest."""

LARGE_ROW = 65_536
"""Characters. Events that together take more than this have a row each."""

_UNLISTED = frozenset({ArtifactUpdate, *get_args(InternalEvent)})
"""Events that a list of tasks does not show."""

_TaskId: TypeAlias = tuple[str, str]
"""Tenant and id."""


class Append(Struct, frozen=True):
    """A `Write`, with what the tables hold of it.

    `events` are rows: how many events, their JSON, and 1 if lists of tasks can skip the row. `snapshot` is the task
    without its artifacts, and the artifacts. `sends_since` is None if its sends are known to be new.
    """

    write: Write
    task_id: _TaskId
    events: list[tuple[int, str, int]]
    status_at: int
    snapshot: tuple[str, str] | None
    sends: list[tuple[Value, ...]]
    sends_since: int | None
    webhooks: list[tuple[Value, ...]]
    wake_at: int | None


def encode_write(write: Write, sends_since: datetime | None) -> Append:
    """A write, encoded; it fails if one of its sends was recorded at or after `sends_since`.

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
        _encode_events(write.events),
        encode_time(write.status_at),
        _encode_snapshot(write.snapshot) if write.snapshot is not None else None,
        [encode_send(owner, send, record) for send, record in write.sends],
        encode_time(sends_since) if sends_since is not None else None,
        [encode_webhook(key, config, version, write.expected_seq) for config, version in write.webhooks],
        encode_time(write.wake_at) if write.wake_at is not None else None,
    )


def _encode_snapshot(task: Task) -> tuple[str, str]:
    return encode(structs.replace(task, artifacts=())), encode(task.artifacts)


def _encode_events(events: tuple[TaskEvent, ...]) -> list[tuple[int, str, int]]:
    rows: list[tuple[int, str, int]] = []  # numbers, not bools, for which sqlite3 looks for an adapter each time
    for begin in range(0, len(events), EVENTS_PER_ROW):
        some = events[begin : begin + EVENTS_PER_ROW]
        text = encode(some)
        if len(text) > LARGE_ROW:
            rows += [(1, encode((event,)), int(type(event) in _UNLISTED)) for event in some]
        else:
            rows.append((len(some), text, int(_UNLISTED.issuperset(map(type, some)))))
    return rows


class _Rows:
    """A statement over many rows. `{rows}` in its text stands for them."""

    # Up to 16 rows take one statement; more are split into these sizes, few enough for the statement cache.
    _SIZES = (256, 128, 64, 32, *range(16, 0, -1))

    def __init__(self, columns: int, text: str) -> None:
        row = f"({', '.join('?' * columns)})"
        self._texts = {size: text.format(rows=", ".join([row] * size)) for size in self._SIZES}

    def execute(self, connection: sqlite3.Connection, rows: Sequence[tuple[Value, ...]]) -> list[sqlite3.Cursor]:
        cursors: list[sqlite3.Cursor] = []
        while rows:
            size = next(size for size in self._SIZES if size <= len(rows))
            cursors.append(connection.execute(self._texts[size], list(chain.from_iterable(rows[:size]))))
            rows = rows[size:]
        return cursors


_INSERT_TASKS = _Rows(
    16,
    """
    INSERT OR ROLLBACK INTO tasks (number, tenant, id, owner, agent, context, created_at, created_in, state, status_at,
        holder, has_webhooks, last_seq, attempts, snapshot_seq, size)
    VALUES {rows}
    """,
)
_INSERT_EVENTS = _Rows(4, "INSERT OR ROLLBACK INTO events VALUES {rows}")
_INSERT_SNAPSHOTS = _Rows(4, "INSERT OR REPLACE INTO snapshots VALUES {rows}")
_INSERT_SENDS = _Rows(8, PUT_SEND)
_INSERT_IN_OUTBOX = _Rows(4, PUT_IN_OUTBOX)
_DELETE_FROM_INBOX = _Rows(3, "DELETE FROM inbox WHERE (tenant, task, id) IN (VALUES {rows})")
_UPDATE_PROGRESS = _Rows(
    5,
    """
    WITH changed (number, last_seq, attempts, snapshot_seq, size) AS (VALUES {rows})
    UPDATE OR ROLLBACK tasks SET last_seq = changed.last_seq, attempts = changed.attempts,
        snapshot_seq = changed.snapshot_seq, size = changed.size
    FROM changed WHERE tasks.number = changed.number
    """,
)
_UPDATE_STATUS = _Rows(
    5,
    """
    WITH changed (number, state, status_at, holder, has_webhooks) AS (VALUES {rows})
    UPDATE OR ROLLBACK tasks SET state = changed.state, status_at = changed.status_at, holder = changed.holder,
        has_webhooks = changed.has_webhooks
    FROM changed WHERE tasks.number = changed.number
    """,
)
_UPDATE_WAKE = _Rows(
    2,
    """
    WITH changed (number, wake_at) AS (VALUES {rows})
    UPDATE OR ROLLBACK tasks SET wake_at = changed.wake_at FROM changed WHERE tasks.number = changed.number
    """,
)
_SELECT_HEADS = _Rows(
    2,
    # One row for any number of heads: one step, so the GIL is released once.
    """
    WITH wanted (tenant, id) AS (VALUES {rows})
    SELECT (SELECT max(number) FROM tasks), json_group_array(json_array(tasks.tenant, tasks.id, number, owner, state,
        status_at, holder, has_webhooks, last_seq, attempts, snapshot_seq, size, wake_at))
    FROM wanted CROSS JOIN tasks ON tasks.tenant = wanted.tenant AND tasks.id = wanted.id
    """,
)


class _Head(Struct):
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


def _new_row(h: _Head, new: NewTask) -> tuple[Value, ...]:
    return (
        *(h.number, h.tenant, h.task_id, h.owner, new.agent, new.context_id, encode_time(new.created_at)),
        *(new.created_in.value, h.state, h.status_at, h.holder, h.has_webhooks, h.last_seq, h.attempts),
        *(h.snapshot_seq, h.size),
    )


_decode_heads = msgspec.json.Decoder(
    list[tuple[str, str, int, str, str, int, str, int, int, int, int, int, int | None]]
).decode


class Transaction:
    """What the writer does between BEGIN and COMMIT."""

    def __init__(self, connection: sqlite3.Connection, appends: Iterable[Append]) -> None:
        """Begins with the heads of the tasks that `appends` are for."""
        self._connection = connection
        self._heads: dict[_TaskId, _Head | None] = {}
        self._events: list[tuple[Value, ...]] = []
        self._sends: dict[tuple[Value, ...], tuple[Value, ...]] = {}
        self._webhooks: list[tuple[Value, ...]] = []
        self._taken: list[tuple[Value, ...]] = []
        self._last_number = 0
        self._load({append.task_id for append in appends})

    def append(self, append: Append) -> None:
        """Stage an append.

        Raises:
            ConflictError: the task is not as the writer believes it to be. Nothing is staged.
            RepeatedSendError: a message was sent before. Nothing is staged.
        """
        write, head = append.write, self._head(append.task_id)
        if head is None:
            write.check_fence(None)
        else:
            write.check_fence(head.owner, head.last_seq, head.holder)
        if append.sends_since is not None:
            self._require_new(append.sends, append.sends_since)
            head = self._head(append.task_id)
        if head is None:
            head = self._create(append)
        for number, events, is_unlisted in append.events:
            head.last_seq += number
            head.size += len(events)
            self._events.append((head.number, head.last_seq, events, is_unlisted))
        status = (write.state.value, append.status_at, write.holder)
        if (head.state, head.status_at, head.holder) != status:
            head.state, head.status_at, head.holder = status
            head.has_new_status = True
        if head.wake_at != append.wake_at:
            head.wake_at = append.wake_at
            head.has_new_wake = True
        head.attempts = write.attempts
        if append.snapshot is not None:
            head.snapshot = append.snapshot
            head.snapshot_seq = head.last_seq
            head.size = sum(map(len, append.snapshot))
        head.is_changed = True
        for row in append.sends:
            self._sends[row[:4]] = row
        if append.webhooks:
            head.has_webhooks = 1
            head.has_new_status = True
            self._webhooks += append.webhooks
        if append.events and head.has_webhooks and head.writer is None:
            head.writer = write.holder or write.expected_holder
        self._taken += [(*append.task_id, item) for item in write.taken]

    def _require_new(self, sends: list[tuple[Value, ...]], since: int) -> None:
        for row in sends:
            if row[:4] in self._sends:
                self.flush()  # so that the query below finds it
            found = read_send(self._connection, row[:4], since)
            if found is not None and not found.is_in_work(str(row[-1])):
                raise RepeatedSendError(found)

    def connection(self) -> sqlite3.Connection:
        """The connection, for a change of another kind: everything staged before it is there."""
        self.flush()
        self._heads.clear()  # the change may delete tasks
        return self._connection

    def flush(self) -> None:
        """Write what is staged."""
        heads = [head for head in self._heads.values() if head is not None and head.is_changed]
        kept = [head for head in heads if head.new is None]
        # Sorted by number, so that rows are appended at the end of the table.
        _INSERT_TASKS.execute(self._connection, sorted([_new_row(h, h.new) for h in heads if h.new is not None]))
        _UPDATE_PROGRESS.execute(
            self._connection,
            [(h.number, h.last_seq, h.attempts, h.snapshot_seq, h.size) for h in kept],
        )
        _UPDATE_STATUS.execute(
            self._connection,
            [(h.number, h.state, h.status_at, h.holder, h.has_webhooks) for h in kept if h.has_new_status],
        )
        _UPDATE_WAKE.execute(self._connection, [(h.number, h.wake_at) for h in heads if h.has_new_wake])
        _INSERT_EVENTS.execute(self._connection, self._events)
        _INSERT_SNAPSHOTS.execute(
            self._connection, [(h.tenant, h.task_id, *h.snapshot) for h in heads if h.snapshot is not None]
        )
        _INSERT_SENDS.execute(self._connection, list(self._sends.values()))
        for webhook in self._webhooks:
            self._connection.execute(PUT_WEBHOOK, webhook)
        _INSERT_IN_OUTBOX.execute(
            self._connection, [(h.tenant, h.owner, h.task_id, h.writer) for h in heads if h.writer is not None]
        )
        _DELETE_FROM_INBOX.execute(self._connection, self._taken)
        self._heads.clear()
        self._events.clear()
        self._sends.clear()
        self._webhooks.clear()
        self._taken.clear()

    def _head(self, task_id: _TaskId) -> _Head | None:
        if task_id not in self._heads:
            self._load({task_id})
        return self._heads[task_id]

    def _load(self, task_ids: set[_TaskId]) -> None:
        self._heads.update(dict.fromkeys(task_ids))
        for cursor in _SELECT_HEADS.execute(self._connection, tuple(task_ids)):
            last_number, heads = cursor.fetchone()
            # Staged tasks have numbers that are not in the table yet.
            self._last_number = max(self._last_number, last_number or 0)
            for row in _decode_heads(heads):
                self._heads[row[:2]] = _Head(*row)

    def _create(self, append: Append) -> _Head:
        self._last_number += 1
        write = append.write
        head = self._heads[append.task_id] = _Head(
            *append.task_id,
            *(self._last_number, write.key.owner.name, write.state.value, append.status_at),
            *(write.holder, 0, 0, 0, 0, 0, None),
            new=write.new,
        )
        return head
