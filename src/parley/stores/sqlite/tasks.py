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
from parley.sealed.sealer import Sealer
from parley.stores.appends import encode_write
from parley.stores.encoding import decode_artifacts, decode_events, decode_task, decode_time, encode_time
from parley.stores.interface import (
    Owner,
    StoredEvent,
    StoredTask,
    StoreError,
    TaskFilter,
    TaskHead,
    TaskHeads,
    TaskKey,
    Workload,
    Write,
)
from parley.stores.rows import HEAD, decode_head, decode_workload
from parley.stores.sqlite.access import SqliteAccess
from parley.stores.sqlite.lists import (
    count_list_of_all,
    distinct,
    merged,
    one_moment,
    read_abandoned,
    read_finished_of_agent,
    read_heads_of_id,
    read_list,
    read_list_of_all,
    read_newest,
)
from parley.stores.sqlite.sends import SqliteSends

SMALL_TASK = 32_768
"""Characters of JSON that the event loop may decode by itself: well under a millisecond."""

DELETED_AT_ONCE = 50
"""Tasks that one transaction of `delete_finished` deletes, so that other writes get their turn between two."""

DELETED_EVENTS = 10_000
"""After so many events it deletes no further task. They take 40 ms, for which all other writes wait."""

LARGEST_INTEGER = 2**63 - 1


class SqliteTasks:
    """Tasks and their events."""

    def __init__(self, access: SqliteAccess, sends: SqliteSends, sealer: Sealer) -> None:
        self._access = access
        self._sends = sends
        self._sealer = sealer

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
            append = encode_write(write, self._sends.note(write), self._sealer)
        except StoreError as error:
            refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            refused.set_exception(error)
            return refused
        return self._access.append(append)

    async def head(self, key: TaskKey) -> TaskHead | None:
        """A task's head, or None if this owner has no such task."""
        return self._access.read_now(lambda reader: read_head(reader, key))

    async def find(self, task_id: str, *, tenant: str | None = None, name: str | None = None) -> Sequence[TaskHead]:
        """The tasks with an id, by tenant: of all tenants or of one, and of owners of any name or of one."""
        return await self._access.read_in_thread(lambda reader: read_heads_of_id(reader, task_id, tenant, name))

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

    async def timed_events(
        self, key: TaskKey, *, after: int, limit: int, size: int | None = None
    ) -> Sequence[StoredEvent]:
        """What `events` gives, each with the moment at which it was written."""
        return await self._access.read_in_thread(
            lambda reader: _read_timed_events(reader, key, after=after, limit=limit, size=size)
        )

    async def list(self, owner: Owner, query: TaskFilter) -> TaskHeads:
        """An owner's tasks."""
        return await self._access.read_in_thread(lambda reader: read_list(reader, owner, query))

    async def list_all(
        self, query: TaskFilter, *, tenant: str | None = None, name: str | None = None
    ) -> Sequence[TaskHead]:
        """Tasks of all tenants or of one, and of owners of any name or of one: newest status first, then by id."""
        return await self._access.read_in_thread(lambda reader: read_list_of_all(reader, query, tenant, name))

    async def count_all(
        self, query: TaskFilter, *, tenant: str | None = None, name: str | None = None, most: int
    ) -> int:
        """How many tasks `list_all` shows on all pages; more than `most` if there are more than that."""
        return await self._access.read_in_thread(lambda reader: count_list_of_all(reader, query, tenant, name, most))

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

    async def workload(self, live: frozenset[str]) -> Workload:
        """How many tasks of all owners are submitted or working; `live` are the workers that are alive."""
        return await self._access.read_in_thread(lambda reader: _read_workload(reader, live))

    async def delete(self, key: TaskKey) -> bool:
        """Delete a task with its events, sends, webhooks and inbox. Return True if there was such a task."""
        return await self._access.submit(
            lambda writer: _delete(writer, key), key.owner.tenant, key.owner.name, key.task_id
        )

    async def delete_finished(
        self, *, before: datetime, limit: int, tenant: str | None = None, agent: str | None = None
    ) -> int:
        """Delete tasks of all owners that ended before a moment, the oldest first; how many, at most `limit`."""
        ended_before = encode_time(before)
        if agent is not None:
            return await self._delete_finished_of_agent(ended_before, limit, tenant, agent)
        deleted = 0
        while deleted < limit:
            at_once = min(limit - deleted, DELETED_AT_ONCE)
            batch = await self._access.submit(
                lambda writer, n=at_once: _delete_finished(writer, ended_before, n, tenant)
            )
            if batch == 0:
                break
            deleted += batch
        return deleted

    async def _delete_finished_of_agent(self, ended_before: int, limit: int, tenant: str | None, agent: str) -> int:
        """Find them beside the writer, owner by owner: no index has the tasks of an agent in the order of time."""
        keys = await self._access.read_in_thread(
            lambda reader: read_finished_of_agent(reader, ended_before, limit, tenant, agent)
        )
        deleted = looked_at = 0
        while looked_at < len(keys):
            some = keys[looked_at : looked_at + DELETED_AT_ONCE]
            done, batch = await self._access.submit(lambda writer, some=some: _delete_ended(writer, some, ended_before))
            looked_at += done
            deleted += batch
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
    rows = _read_rows(reader, key, after=after, limit=limit, size=size)
    page = [numbered for first_seq, events, _ in rows for numbered in enumerate(events, first_seq)]
    return tuple(page[:limit])


def _read_timed_events(
    reader: sqlite3.Connection, key: TaskKey, *, after: int, limit: int, size: int | None
) -> tuple[StoredEvent, ...]:
    page: list[StoredEvent] = []
    for first_seq, events, moment in _read_rows(reader, key, after=after, limit=limit, size=size):
        written_at = decode_time(moment) if moment is not None else None
        page += [StoredEvent(seq, event, written_at) for seq, event in enumerate(events, first_seq)]
    return tuple(page[:limit])


def _read_rows(
    reader: sqlite3.Connection, key: TaskKey, *, after: int, limit: int, size: int | None
) -> list[tuple[int, list[TaskEvent], int | None]]:
    """Rows with at least `limit` events after a number: the number of each row's first, the events, and the moment."""
    # A peer names the number it wants to go on from: it may be larger than any database's.
    after = min(after, LARGEST_INTEGER)
    rows = reader.execute(
        """
        SELECT events.last_seq, events, written_at FROM tasks CROSS JOIN events ON task = number
        WHERE tenant = ? AND id = ? AND owner = ? AND events.last_seq > ?
        ORDER BY events.last_seq
        """,
        (key.owner.tenant, key.task_id, key.owner.name, after),
    )
    found: list[tuple[int, list[TaskEvent], int | None]] = []
    count = read = 0
    with closing(rows):
        for last_seq, text, written_at in rows:
            events = decode_events(text)
            first_seq = last_seq - len(events) + 1
            before = max(0, after + 1 - first_seq)  # a page may begin within a row, and end within one
            found.append((first_seq + before, events[before:], written_at))
            count += len(events) - before
            read += len(text)
            if count >= limit or (size is not None and read > size):
                break
    return found


def _read_workload(reader: sqlite3.Connection, live: frozenset[str]) -> Workload:
    awake = """
        SELECT holder, count(*), min(status_at) FROM tasks INDEXED BY tasks_by_holder
        WHERE state IN ('submitted', 'working') AND wake_at IS NULL GROUP BY holder
    """
    asleep = "SELECT count(*) FROM tasks INDEXED BY tasks_by_wake WHERE wake_at IS NOT NULL"
    with one_moment(reader):
        holders = reader.execute(awake).fetchall()
        (sleeping,) = reader.execute(asleep).fetchone()
    return decode_workload(holders, sleeping, live)


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


def _delete_ended(writer: sqlite3.Connection, keys: Sequence[TaskKey], ended_before: int) -> tuple[int, int]:
    """Delete those of the first tasks that still are as they were found; how many were looked at, and deleted."""
    statement = "SELECT status_at, last_seq FROM tasks WHERE tenant = ? AND id = ? AND owner = ?"
    looked_at = deleted = events = 0
    for key in keys:
        looked_at += 1
        row = writer.execute(statement, (key.owner.tenant, key.task_id, key.owner.name)).fetchone()
        if row is not None and row[0] < ended_before:  # a task that has ended does not begin again
            deleted += _delete(writer, key)
            events += row[1]
            if events >= DELETED_EVENTS:
                break
    return looked_at, deleted


def _delete_finished(writer: sqlite3.Connection, ended_before: int, limit: int, tenant: str | None) -> int:
    source = "tasks INDEXED BY tasks_by_time WHERE"
    statement = f"""
        SELECT tenant, owner, id, status_at, last_seq FROM {source} tenant = ? AND status_at < ?
            AND state IN ('completed', 'failed', 'canceled', 'rejected')
        ORDER BY status_at
    """
    tenants = distinct(writer, "tenant", f"{source} TRUE") if tenant is None else [tenant]
    parts = [(one, ended_before) for one in tenants]
    with closing(merged(writer, statement, parts, key=lambda row: row[3])) as rows:
        ended = [
            (TaskKey(Owner(one, owner), task_id), last_seq) for one, owner, task_id, _, last_seq in islice(rows, limit)
        ]
    deleted = events = 0
    for key, last_seq in ended:
        deleted += _delete(writer, key)
        events += last_seq
        if events >= DELETED_EVENTS:
            break
    return deleted
