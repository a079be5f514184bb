"""Tasks and their events in SQLite."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from typing import Any

from msgspec import structs

from parley.protocol.events import TaskEvent
from parley.protocol.tasks import TaskState
from parley.protocol.versions import Version
from parley.stores.encoding import decode_artifacts, decode_events, decode_task, decode_time, encode_time
from parley.stores.interface import Owner, StoredTask, StoreError, TaskFilter, TaskHead, TaskHeads, TaskKey, Write
from parley.stores.sqlite.access import SqliteAccess
from parley.stores.sqlite.sends import SqliteSends
from parley.stores.sqlite.transaction import encode_write

SMALL_TASK = 32_768
"""Characters of JSON that the event loop may decode by itself: well under a millisecond."""

DELETED_AT_ONCE = 50
"""Tasks that one transaction of `delete_finished` deletes, so that other writes get their turn between two."""

LARGEST_INTEGER = 2**63 - 1

_HEAD = "id, agent, context, state, status_at, created_at, last_seq, created_in, attempts, size"


class SqliteTasks:
    """Tasks and their events."""

    def __init__(self, access: SqliteAccess, sends: SqliteSends) -> None:
        self._access = access
        self._sends = sends

    def write(self, write: Write) -> asyncio.Future[None]:
        """Append events to a task, or create it. It is in line when this returns, and on disk when it is awaited.

        Raises:
            ConflictError: `expected_seq` is not the task's last number, or the task exists already.
            StoreError: it holds something that cannot be kept.
            StoreUnavailableError: nothing was written.
        """
        try:
            append = encode_write(write)
        except StoreError as error:
            refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            refused.set_exception(error)
            return refused
        for send, record in write.sends:
            self._sends.note(write.key.owner, send, record)
        return self._access.append(append)

    async def head(self, key: TaskKey) -> TaskHead | None:
        """A task's head, or None if this owner has no such task."""
        return self._access.look(lambda reader: read_head(reader, key))

    async def read(self, key: TaskKey) -> StoredTask | None:
        """A task as of one moment, or None if this owner has no such task."""
        head = await self.head(key)
        if head is None:
            return None
        if head.size > SMALL_TASK:
            (task,) = await self.read_many([key])
        else:
            (task,) = self._access.look(lambda reader: _read_tasks(reader, [key], artifacts=True, size=None))
        return task

    async def read_many(
        self, keys: Sequence[TaskKey], *, artifacts: bool = True, size: int | None = None
    ) -> Sequence[StoredTask | None]:
        """Tasks, each as of one moment, and not much more than `size` characters; None for those not there."""
        return await self._access.read(lambda reader: _read_tasks(reader, keys, artifacts=artifacts, size=size))

    async def events(
        self, key: TaskKey, *, after: int, limit: int, size: int | None = None
    ) -> Sequence[tuple[int, TaskEvent]]:
        """A task's events after a number, oldest first, at most `limit`, and not much more than `size` characters."""
        return await self._access.read(lambda reader: _read_events(reader, key, after=after, limit=limit, size=size))

    async def list(self, owner: Owner, query: TaskFilter) -> TaskHeads:
        """An owner's tasks."""
        return await self._access.read(lambda reader: _read_list(reader, owner, query))

    async def unfinished(self) -> Sequence[TaskHead]:
        """Tasks of all owners that are submitted or working, the oldest first."""
        return await self._access.read(_read_unfinished)

    async def delete(self, key: TaskKey) -> bool:
        """Forget a task with its events, sends and webhooks; whether there was one."""
        return await self._access.submit(
            lambda writer: _delete(writer, key), key.owner.tenant, key.owner.name, key.task_id
        )

    async def delete_finished(self, *, before: datetime, limit: int) -> int:
        """Forget tasks of all owners that ended before a moment, the oldest first; how many, at most `limit`."""
        ended_before = encode_time(before)
        deleted = 0
        while deleted < limit:
            at_once = min(limit - deleted, DELETED_AT_ONCE)
            batch = await self._access.submit(lambda writer, n=at_once: _delete_finished(writer, ended_before, n))
            deleted += batch
            if batch < at_once:
                break
        return deleted


@contextmanager
def _one_moment(reader: sqlite3.Connection) -> Generator[None]:
    """Makes several questions see one state of the file."""
    reader.execute("BEGIN")
    try:
        yield
    finally:
        reader.execute("COMMIT")


def read_head(reader: sqlite3.Connection, key: TaskKey) -> TaskHead | None:
    """The head of a task, if this owner has it."""
    row = reader.execute(
        f"SELECT {_HEAD} FROM tasks WHERE tenant = ? AND id = ? AND owner = ?",
        (key.owner.tenant, key.task_id, key.owner.name),
    ).fetchone()
    return _decode_head(key.owner, row) if row is not None else None


def _decode_head(owner: Owner, row: Sequence[Any]) -> TaskHead:
    task_id, agent, context, state, status_at, created_at, last_seq, created_in, attempts, size = row
    return TaskHead(
        TaskKey(owner, task_id),
        agent,
        context,
        TaskState(state),
        decode_time(status_at),
        decode_time(created_at),
        last_seq,
        Version(created_in),
        attempts,
        size,
    )


def _read_tasks(
    reader: sqlite3.Connection, keys: Sequence[TaskKey], *, artifacts: bool, size: int | None
) -> list[StoredTask | None]:
    tasks: list[StoredTask | None] = []
    read = 0
    with _one_moment(reader):
        for key in keys:
            if size is not None and read > size:
                break
            task, length = _read_task(reader, key, artifacts=artifacts)
            tasks.append(task)
            read += length
    return tasks


def _read_task(reader: sqlite3.Connection, key: TaskKey, *, artifacts: bool) -> tuple[StoredTask | None, int]:
    """A task, and how many characters were read of it. For a block of `_one_moment`."""
    row = reader.execute(
        f"""
        SELECT number, snapshot_seq, snapshot, {"artifacts" if artifacts else "NULL"}, {_HEAD}
        FROM tasks LEFT JOIN snapshots ON snapshots.tenant = tasks.tenant AND snapshots.task = tasks.id
        WHERE tasks.tenant = ? AND tasks.id = ? AND owner = ?
        """,
        (key.owner.tenant, key.task_id, key.owner.name),
    ).fetchone()
    if row is None:
        return None, 0
    number, snapshot_seq, outline, made, *head = row
    rows = reader.execute(
        f"""
        SELECT events FROM events WHERE task = ? AND last_seq > ? {"" if artifacts else "AND NOT is_unlisted"}
        ORDER BY last_seq
        """,
        (number, snapshot_seq),
    ).fetchall()
    snapshot = decode_task(outline) if outline is not None else None
    if snapshot is not None and made is not None:
        snapshot = structs.replace(snapshot, artifacts=decode_artifacts(made))
    events = tuple([event for (text,) in rows for event in decode_events(text)])
    read = len(outline or "") + len(made or "") + sum([len(text) for (text,) in rows])
    return StoredTask(_decode_head(key.owner, head), snapshot, snapshot_seq, events), read


def _read_events(
    reader: sqlite3.Connection, key: TaskKey, *, after: int, limit: int, size: int | None
) -> tuple[tuple[int, TaskEvent], ...]:
    # A peer names the number it wants to go on from: it may be larger than any database's.
    after = min(after, LARGEST_INTEGER)
    rows = reader.execute(
        """
        SELECT events.last_seq, events FROM tasks CROSS JOIN events ON task = number
        WHERE tenant = ? AND id = ? AND owner = ? AND events.last_seq > ?
        ORDER BY events.last_seq
        """,
        (key.owner.tenant, key.task_id, key.owner.name, after),
    )
    page: list[tuple[int, TaskEvent]] = []
    read = 0
    with closing(rows):
        for last_seq, text in rows:
            events = decode_events(text)
            first_seq = last_seq - len(events) + 1
            before = max(0, after + 1 - first_seq)  # a page may begin within a row, and end within one
            page += enumerate(events[before:], first_seq + before)
            read += len(text)
            if len(page) >= limit or (size is not None and read > size):
                break
    return tuple(page[:limit])


def _read_list(reader: sqlite3.Connection, owner: Owner, query: TaskFilter) -> TaskHeads:
    conditions = ["tenant = ?", "owner = ?"]
    values: list[str | int] = [owner.tenant, owner.name]
    for condition, value in (
        ("agent = ?", query.agent),
        ("context = ?", query.context_id),
        ("state = ?", query.state.value if query.state is not None else None),
        ("status_at >= ?", encode_time(query.status_at_or_after) if query.status_at_or_after is not None else None),
    ):
        if value is not None:
            conditions.append(condition)
            values.append(value)
    matching = " AND ".join(conditions)
    page, place = "", []
    if query.after is not None:
        status_at = encode_time(query.after[0])
        page = "AND status_at <= ? AND (status_at < ? OR id > ?)"  # the first half is what the index can do
        place = [status_at, status_at, query.after[1]]
    tasks = f"tasks INDEXED BY {_choose_index(query)}"
    with _one_moment(reader):
        (total,) = reader.execute(f"SELECT count(*) FROM {tasks} WHERE {matching}", values).fetchone()
        rows = reader.execute(
            f"SELECT {_HEAD} FROM {tasks} WHERE {matching} {page} ORDER BY status_at DESC, id LIMIT ?",
            [*values, *place, query.limit],
        ).fetchall()
    return TaskHeads(tuple([_decode_head(owner, row) for row in rows]), total)


def _choose_index(query: TaskFilter) -> str:
    """The narrowest index. SQLite by itself guesses that a tenant has ten tasks, and reads them all."""
    if query.context_id is not None:
        return "tasks_by_context"
    return "tasks_by_state" if query.state is not None else "tasks_by_status"


def _read_unfinished(reader: sqlite3.Connection) -> tuple[TaskHead, ...]:
    rows = reader.execute(
        f"SELECT tenant, owner, {_HEAD} FROM tasks WHERE state IN ('submitted', 'working') ORDER BY created_at"
    ).fetchall()
    return tuple([_decode_head(Owner(tenant, owner), row) for tenant, owner, *row in rows])


def _delete(writer: sqlite3.Connection, key: TaskKey) -> bool:
    """Forget one task; snapshot and webhooks go with its row."""
    owner, task_id = key.owner, key.task_id
    number = writer.execute(
        "SELECT number FROM tasks WHERE tenant = ? AND id = ? AND owner = ?", (owner.tenant, task_id, owner.name)
    ).fetchone()
    if number is None:
        return False
    writer.execute("DELETE FROM tasks WHERE number = ?", number)
    writer.execute("DELETE FROM events WHERE task = ?", number)
    writer.execute(
        "DELETE FROM sends INDEXED BY sends_by_task WHERE task = ? AND tenant = ? AND owner = ?",
        (task_id, owner.tenant, owner.name),
    )
    return True


def _delete_finished(writer: sqlite3.Connection, ended_before: int, limit: int) -> int:
    rows = writer.execute(
        """
        SELECT tenant, owner, id FROM tasks
        WHERE state IN ('completed', 'failed', 'canceled', 'rejected') AND status_at < ? ORDER BY status_at LIMIT ?
        """,
        (ended_before, limit),
    ).fetchall()
    for tenant, owner, task_id in rows:
        _delete(writer, TaskKey(Owner(tenant, owner), task_id))
    return len(rows)
