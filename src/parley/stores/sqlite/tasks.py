"""Tasks and their events in SQLite."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from itertools import islice

from msgspec import structs

from parley.protocol.events import TaskEvent
from parley.stores.encoding import decode_artifacts, decode_events, decode_task, decode_time, encode_time
from parley.stores.interface import Owner, StoredTask, StoreError, TaskFilter, TaskHead, TaskHeads, TaskKey, Write
from parley.stores.sqlite.access import SqliteAccess
from parley.stores.sqlite.lists import (
    HEAD,
    decode_head,
    distinct,
    merged,
    one_moment,
    read_abandoned,
    read_list,
    read_list_of_all,
    read_newest,
)
from parley.stores.sqlite.sends import SqliteSends
from parley.stores.sqlite.transaction import encode_write

SMALL_TASK = 32_768
"""Characters of JSON that the event loop may decode by itself: well under a millisecond."""

DELETED_AT_ONCE = 50
"""Tasks that one transaction of `delete_finished` deletes, so that other writes get their turn between two."""

LARGEST_INTEGER = 2**63 - 1


class SqliteTasks:
    """Tasks and their events."""

    def __init__(self, access: SqliteAccess, sends: SqliteSends) -> None:
        self._access = access
        self._sends = sends

    def write(self, write: Write) -> asyncio.Future[None]:
        """Append events to a task, or create it. It is in line when this returns, and on disk when it is awaited.

        Raises:
            ConflictError: `expected_seq` is not the task's last number, or the task exists already.
            LeaseLostError: as above when `expected_holder` is set, or another worker holds the task.
            RepeatedSendError: one of `sends` was sent since `sends_since`.
            StoreError: it holds something that cannot be kept.
            StoreUnavailableError: nothing was written.
        """
        try:
            append = encode_write(write, self._sends.note(write))
        except StoreError as error:
            refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            refused.set_exception(error)
            return refused
        return self._access.append(append)

    async def head(self, key: TaskKey) -> TaskHead | None:
        """A task's head, or None if this owner has no such task."""
        return self._access.read_now(lambda reader: read_head(reader, key))

    async def read(self, key: TaskKey) -> StoredTask | None:
        """A task as of one moment, or None if this owner has no such task."""
        head = await self.head(key)
        if head is None:
            return None
        if head.size > SMALL_TASK:
            (task,) = await self.read_many([key])
        else:
            (task,) = self._access.read_now(lambda reader: _read_tasks(reader, [key], artifacts=True, size=None))
        return task

    async def read_many(
        self, keys: Sequence[TaskKey], *, artifacts: bool = True, size: int | None = None
    ) -> Sequence[StoredTask | None]:
        """Tasks, each as of one moment, and not much more than `size` characters; None for those not there."""
        return await self._access.read_in_thread(
            lambda reader: _read_tasks(reader, keys, artifacts=artifacts, size=size)
        )

    async def events(
        self, key: TaskKey, *, after: int, limit: int, size: int | None = None
    ) -> Sequence[tuple[int, TaskEvent]]:
        """A task's events after a number, oldest first, at most `limit`, and not much more than `size` characters."""
        return await self._access.read_in_thread(
            lambda reader: _read_events(reader, key, after=after, limit=limit, size=size)
        )

    async def list(self, owner: Owner, query: TaskFilter) -> TaskHeads:
        """An owner's tasks."""
        return await self._access.read_in_thread(lambda reader: read_list(reader, owner, query))

    async def list_all(self, query: TaskFilter, *, tenant: str | None = None) -> Sequence[TaskHead]:
        """Tasks of all owners, or of all in a tenant, newest status first, then by id."""
        return await self._access.read_in_thread(lambda reader: read_list_of_all(reader, query, tenant))

    async def newest(
        self, tenant: str, *, before: tuple[datetime, str] | None = None, limit: int
    ) -> Sequence[TaskHead]:
        """Tasks of all owners in a tenant, by falling creation time and id."""
        return await self._access.read_in_thread(lambda reader: read_newest(reader, tenant, before, limit))

    async def orphaned(
        self,
        live: frozenset[str],
        *,
        now: datetime | None = None,
        agents: frozenset[str] | None = None,
        after: tuple[datetime, str] | None = None,
        limit: int,
    ) -> Sequence[TaskHead]:
        """Tasks of all owners that are submitted or working, that no `live` worker holds and that do not sleep."""
        return await self._access.read_in_thread(lambda reader: read_abandoned(reader, live, now, agents, after, limit))

    async def next_wake(self, *, after: datetime) -> datetime | None:
        """The earliest moment after another one at which a sleeping task is to wake; None if there is none."""
        statement = "SELECT min(wake_at) FROM tasks INDEXED BY tasks_by_wake WHERE wake_at > ?"
        (wake_at,) = self._access.read_now(lambda reader: reader.execute(statement, (encode_time(after),)).fetchone())
        return decode_time(wake_at) if wake_at is not None else None

    async def delete(self, key: TaskKey) -> bool:
        """Delete a task with its events, sends, webhooks and inbox. Return True if there was such a task."""
        return await self._access.submit(
            lambda writer: _delete(writer, key), key.owner.tenant, key.owner.name, key.task_id
        )

    async def delete_finished(self, *, before: datetime, limit: int) -> int:
        """Delete tasks of all owners that ended before a moment, the oldest first; how many, at most `limit`."""
        ended_before = encode_time(before)
        deleted = 0
        while deleted < limit:
            at_once = min(limit - deleted, DELETED_AT_ONCE)
            batch = await self._access.submit(lambda writer, n=at_once: _delete_finished(writer, ended_before, n))
            deleted += batch
            if batch < at_once:
                break
        return deleted


def read_head(reader: sqlite3.Connection, key: TaskKey) -> TaskHead | None:
    """The head of a task, if this owner has it."""
    row = reader.execute(
        f"SELECT {HEAD} FROM tasks WHERE tenant = ? AND id = ? AND owner = ?",
        (key.owner.tenant, key.task_id, key.owner.name),
    ).fetchone()
    return decode_head(row) if row is not None else None


def _read_tasks(
    reader: sqlite3.Connection, keys: Sequence[TaskKey], *, artifacts: bool, size: int | None
) -> list[StoredTask | None]:
    tasks: list[StoredTask | None] = []
    read = 0
    with one_moment(reader):
        for key in keys:
            if size is not None and read > size:
                break
            task, length = _read_task(reader, key, artifacts=artifacts)
            tasks.append(task)
            read += length
    return tasks


def _read_task(reader: sqlite3.Connection, key: TaskKey, *, artifacts: bool) -> tuple[StoredTask | None, int]:
    """A task, and how many characters were read of it. For a block of `one_moment`."""
    row = reader.execute(
        f"""
        SELECT number, snapshot_seq, snapshot, {"artifacts" if artifacts else "NULL"}, tasks.{HEAD}
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
    return StoredTask(decode_head(head), snapshot, snapshot_seq, events), read


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


def _delete(writer: sqlite3.Connection, key: TaskKey) -> bool:
    """Delete one task; snapshot and webhooks go with its row."""
    names = (key.owner.tenant, key.task_id, key.owner.name)
    number = writer.execute("SELECT number FROM tasks WHERE tenant = ? AND id = ? AND owner = ?", names).fetchone()
    if number is None:
        return False
    writer.execute("DELETE FROM tasks WHERE number = ?", number)
    writer.execute("DELETE FROM events WHERE task = ?", number)
    for table in ("sends INDEXED BY sends_by_task", "inbox", "outbox"):
        writer.execute(f"DELETE FROM {table} WHERE tenant = ? AND task = ? AND owner = ?", names)
    return True


def _delete_finished(writer: sqlite3.Connection, ended_before: int, limit: int) -> int:
    source = "tasks INDEXED BY tasks_by_time WHERE"
    statement = f"""
        SELECT tenant, owner, id, status_at FROM {source} tenant = ? AND status_at < ?
            AND state IN ('completed', 'failed', 'canceled', 'rejected')
        ORDER BY status_at
    """
    parts = [(tenant, ended_before) for tenant in distinct(writer, "tenant", f"{source} TRUE")]
    with closing(merged(writer, statement, parts, key=lambda row: row[3])) as rows:
        ended = [TaskKey(Owner(tenant, owner), task_id) for tenant, owner, task_id, _ in islice(rows, limit)]
    for key in ended:
        _delete(writer, key)
    return len(ended)
