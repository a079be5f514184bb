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
from itertools import chain

import msgspec

from parley.stores.appends import Append, StagedHead, TaskId, new_head, new_row
from parley.stores.interface import RepeatedSendError
from parley.stores.rows import Value
from parley.stores.sqlite.rows import PUT_IN_OUTBOX, PUT_SEND, PUT_WEBHOOK, read_send


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
_INSERT_EVENTS = _Rows(5, "INSERT OR ROLLBACK INTO events VALUES {rows}")
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


_decode_heads = msgspec.json.Decoder(
    list[tuple[str, str, int, str, str, int, str, int, int, int, int, int, int | None]]
).decode


class Transaction:
    """What the writer does between BEGIN and COMMIT."""

    def __init__(self, connection: sqlite3.Connection, appends: Iterable[Append]) -> None:
        """Begins with the heads of the tasks that `appends` are for."""
        self._connection = connection
        self._heads: dict[TaskId, StagedHead | None] = {}
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
        last_seq = head.last_seq
        for number, events, is_unlisted, written_at in append.events:
            last_seq += number
            self._events.append((head.number, last_seq, events, is_unlisted, written_at))
        head.stage(append)
        for row in append.sends:
            self._sends[row[:4]] = row
        self._webhooks += append.webhooks
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
        _INSERT_TASKS.execute(self._connection, sorted([new_row(h, h.new) for h in heads if h.new is not None]))
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

    def _head(self, task_id: TaskId) -> StagedHead | None:
        if task_id not in self._heads:
            self._load({task_id})
        return self._heads[task_id]

    def _load(self, task_ids: set[TaskId]) -> None:
        self._heads.update(dict.fromkeys(task_ids))
        for cursor in _SELECT_HEADS.execute(self._connection, tuple(task_ids)):
            last_number, heads = cursor.fetchone()
            # Staged tasks have numbers that are not in the table yet.
            self._last_number = max(self._last_number, last_number or 0)
            for row in _decode_heads(heads):
                self._heads[row[:2]] = StagedHead(*row)

    def _create(self, append: Append) -> StagedHead:
        self._last_number += 1
        head = self._heads[append.task_id] = new_head(append, self._last_number)
        return head
