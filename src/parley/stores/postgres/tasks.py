"""Tasks and their events in PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

import asyncpg
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
from parley.stores.postgres.access import PostgresAccess
from parley.stores.postgres.errors import require_storable
from parley.stores.postgres.lists import count_query, newest_query, of_all_query, of_owner_query, orphaned_query
from parley.stores.postgres.statements import load_statements
from parley.stores.rows import Row, decode_head, decode_workload

T = TypeVar("T")

SMALL_TASK = 32_768
"""Characters of JSON that the event loop may decode by itself: well under a millisecond."""

DELETED_AT_ONCE = 50
"""Tasks that one transaction of `delete_finished` deletes, so that none of them is long."""

DELETED_EVENTS = 100_000
"""After so many events it deletes no further task. A task may have twice as many, which take half a second."""

LARGEST_INTEGER = 2**63 - 1

_STATEMENTS = load_statements("tasks")


class PostgresTasks:
    """Tasks and their events."""

    def __init__(self, access: PostgresAccess, sealer: Sealer) -> None:
        self._access = access
        self._sealer = sealer

    def write(self, write: Write) -> asyncio.Future[None]:
        """Append events to a task, or create it. It is queued when this returns, and durable when it is awaited.

        Raises:
            ConflictError: `expected_seq` is not the task's last number, or the task exists already.
            LeaseLostError: as above when `expected_holder` is set, or another worker holds the task.
            RepeatedSendError: one of `sends` was sent since `sends_since`.
            StoreError: it holds something that cannot be kept.
            StoreUnavailableError: nothing was written.
        """
        try:
            _require_storable(write)
            append = encode_write(write, write.sends_since, self._sealer)
        except StoreError as error:
            refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            refused.set_exception(error)
            return refused
        return self._access.append(append)

    async def head(self, key: TaskKey) -> TaskHead | None:
        """A task's head, or None if this owner has no such task."""
        row = await self._access.fetch_row(_STATEMENTS["head"], *_names(key))
        return decode_head(row) if row is not None else None

    async def find(self, task_id: str, *, tenant: str | None = None, name: str | None = None) -> Sequence[TaskHead]:
        """The tasks with an id, by tenant: of all tenants or of one, and of owners of any name or of one."""
        rows = await self._access.fetch(_STATEMENTS["find"], task_id, tenant, name)
        return [decode_head(row) for row in rows]

    async def read(self, key: TaskKey) -> StoredTask | None:
        """A task as of one moment, or None if this owner has no such task."""
        row = await self._access.fetch_row(_STATEMENTS["read_one"], *_names(key))
        if row is None:
            return None
        return await _decoded(lambda: _decode_task(row), _length(row))

    async def read_many(
        self, keys: Sequence[TaskKey], *, artifacts: bool = True, size: int | None = None
    ) -> Sequence[StoredTask | None]:
        """Tasks, all as of one moment, and not much more than `size` characters; None for those not there."""
        columns = [list(column) for column in zip(*map(_names, keys), strict=True)] or [[], [], []]
        most = LARGEST_INTEGER if size is None else size
        rows = await self._access.fetch(_STATEMENTS["read"], *columns, artifacts, most)
        length = sum([_length(row) for row in rows])
        return await _decoded(lambda: [_decode_task(row) if row[0] is not None else None for row in rows], length)

    async def events(
        self, key: TaskKey, *, after: int, limit: int, size: int | None = None
    ) -> Sequence[tuple[int, TaskEvent]]:
        """A task's events after a number, oldest first, at most `limit`, and not much more than `size` characters."""
        rows, length = await self._event_rows(key, after, limit, size)
        return await _decoded(lambda: _decode_page(rows, after, limit), length)

    async def timed_events(
        self, key: TaskKey, *, after: int, limit: int, size: int | None = None
    ) -> Sequence[StoredEvent]:
        """What `events` gives, each with the moment at which it was written."""
        rows, length = await self._event_rows(key, after, limit, size)
        return await _decoded(lambda: _decode_timed_page(rows, after, limit), length)

    async def _event_rows(self, key: TaskKey, after: int, limit: int, size: int | None) -> tuple[Sequence[Row], int]:
        """The rows with a page of events, and how many characters they have."""
        # A peer names the number it wants to go on from: it may be larger than any database's.
        after, limit = max(min(after, LARGEST_INTEGER // 2), 0), min(limit, LARGEST_INTEGER // 2)
        most = LARGEST_INTEGER if size is None else size
        rows = await self._access.fetch(_STATEMENTS["events"], *_names(key), after, limit, most)
        return rows, sum([len(row[1]) for row in rows])

    async def list(self, owner: Owner, query: TaskFilter) -> TaskHeads:
        """An owner's tasks."""
        rows = await self._access.fetch(*of_owner_query(owner, query))
        return TaskHeads(tuple([decode_head(row[1:]) for row in rows if row[1] is not None]), rows[0][0])

    async def list_all(
        self, query: TaskFilter, *, tenant: str | None = None, name: str | None = None
    ) -> Sequence[TaskHead]:
        """Tasks of all tenants or of one, and of owners of any name or of one: newest status first, then by id."""
        return [decode_head(row) for row in await self._access.fetch(*of_all_query(query, tenant, name))]

    async def count_all(
        self, query: TaskFilter, *, tenant: str | None = None, name: str | None = None, most: int
    ) -> int:
        """How many tasks `list_all` shows on all pages; more than `most` if there are more than that."""
        return await self._access.fetch_value(*count_query(query, tenant, name, most))

    async def newest(
        self, tenant: str, *, before: tuple[datetime, str] | None = None, limit: int
    ) -> Sequence[TaskHead]:
        """Tasks of all owners in a tenant, by falling creation time and id."""
        return [decode_head(row) for row in await self._access.fetch(*newest_query(tenant, before, limit))]

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
        query = orphaned_query(live, now, agents, after, limit)
        return [decode_head(row) for row in await self._access.fetch(*query)]

    async def next_wake(self, *, after: datetime) -> datetime | None:
        """The earliest moment after another one at which a sleeping task is to wake; None if there is none."""
        wake_at = await self._access.fetch_value(_STATEMENTS["next_wake"], encode_time(after))
        return decode_time(wake_at) if wake_at is not None else None

    async def workload(self, live: frozenset[str]) -> Workload:
        """How many tasks of all owners are submitted or working."""
        rows = await self._access.fetch(_STATEMENTS["workload"])
        holders = [(holder, count, since) for holder, count, since in rows if holder is not None]
        sleeping = sum([count for holder, count, _ in rows if holder is None])
        return decode_workload(holders, sleeping, live)

    async def delete(self, key: TaskKey) -> bool:
        """Delete a task with its events, sends, webhooks and inbox. Return True if there was such a task."""

        async def delete(writer: asyncpg.Connection) -> bool:
            locked = await lock_task(writer, key)
            if locked is not None:
                await writer.execute(_STATEMENTS["delete"], locked[0])
            return locked is not None

        return await self._access.submit(delete, *_names(key), locks=key)

    async def delete_finished(
        self, *, before: datetime, limit: int, tenant: str | None = None, agent: str | None = None
    ) -> int:
        """Delete tasks of all owners that ended before a moment, the oldest first; how many, at most `limit`."""
        deleted = 0
        while deleted < limit:
            at_once = min(limit - deleted, DELETED_AT_ONCE)
            values = (encode_time(before), at_once, tenant, agent, DELETED_EVENTS)
            batch = await self._access.delete_old(_STATEMENTS["delete_finished"], *values)
            if batch == 0:
                break
            deleted += batch
        return deleted


async def lock_task(writer: asyncpg.Connection, key: TaskKey) -> tuple[int, int, str] | None:
    """The number, last event and holder of a task, if this owner has it; it stays so until the transaction ends."""
    row = await writer.fetchrow(_STATEMENTS["lock"], *_names(key))
    return (row[0], row[1], row[2]) if row is not None else None


def _names(key: TaskKey) -> tuple[str, str, str]:
    return key.owner.tenant, key.task_id, key.owner.name


def _require_storable(write: Write) -> None:
    """Refuse a write with a name that cannot be kept: it would fail with all others of its transaction."""
    key, new = write.key, write.new
    require_storable(key.owner.tenant, key.owner.name, key.task_id, write.holder, *write.taken)
    if new is not None:
        require_storable(new.agent, new.context_id)
    for send, record in write.sends:
        require_storable(send.message_id, record.task_id or "", record.holder)
    for config, _ in write.webhooks:
        require_storable(config.id or "")


async def _decoded(decode: Callable[[], T], length: int) -> T:
    """What was read, decoded: in a thread if that takes long."""
    return decode() if length <= SMALL_TASK else await asyncio.to_thread(decode)


def _length(row: Row) -> int:
    _, _, outline, made, rows, *_ = row
    return len(outline or "") + len(made or "") + sum([len(text) for text in rows])


def _decode_task(row: Row) -> StoredTask:
    _, snapshot_seq, outline, made, rows, *head = row
    snapshot = decode_task(outline) if outline is not None else None
    if snapshot is not None and made is not None:
        snapshot = structs.replace(snapshot, artifacts=decode_artifacts(made))
    events = tuple([event for text in rows for event in decode_events(text)])
    return StoredTask(decode_head(head), snapshot, snapshot_seq, events)


def _decode_page(rows: Sequence[Row], after: int, limit: int) -> tuple[tuple[int, TaskEvent], ...]:
    page: list[tuple[int, TaskEvent]] = []
    for row in rows:
        page += _decode_row(row, after)
    return tuple(page[:limit])


def _decode_timed_page(rows: Sequence[Row], after: int, limit: int) -> tuple[StoredEvent, ...]:
    page: list[StoredEvent] = []
    for row in rows:
        written_at = decode_time(row[2]) if row[2] is not None else None
        page += [StoredEvent(seq, event, written_at) for seq, event in _decode_row(row, after)]
    return tuple(page[:limit])


def _decode_row(row: Row, after: int) -> list[tuple[int, TaskEvent]]:
    """The events of a row after a number: a page may begin within a row, and end within one."""
    first_seq, text, _ = row
    events = decode_events(text)
    before = max(0, after + 1 - first_seq)
    return list(enumerate(events[before:], first_seq + before))
