"""Which records that hosts keep in memory were changed, for the other processes on the same store.

    records = NotedRecords(store.records, clock, by="r1")
    notes = ChangeNotes(store.records)
    … another process writes an agent of tenant 7 …
    await notes.look()   # [ChangedRecords("agents", "7")]

A write to a collection in `NOTED` writes a note in the same transaction: one record per collection and tenant, whose
revision counts the changes. A reader compares the revisions of the newest notes with those that it has seen: one query,
however much there is. Notes are ordered by the writer's clock, but never before a note that the writer has seen.
A store that one process has to itself needs no notes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from msgspec import Struct

from parley.engine.clock import Clock
from parley.host.data.epoch import milliseconds
from parley.host.data.keys import (
    ACCESS_TOKENS,
    AGENTS,
    BUDGETS,
    CHANGE_NOTES,
    HOST,
    MCP_SERVERS,
    PUBLIC_AGENTS,
    SERVICE_ACCOUNTS,
    STOPS,
    TENANT_ROLES,
    TENANTS,
)
from parley.stores.interface import PutRecord, Record, RecordChange, RecordKey, Records

NOTED = frozenset(
    {
        TENANTS,
        AGENTS,
        STOPS,
        ACCESS_TOKENS,
        SERVICE_ACCOUNTS,
        TENANT_ROLES,
        BUDGETS,
        MCP_SERVERS,
        PUBLIC_AGENTS,
    }
)
"""The collections of which processes keep something in memory."""

PAGE = 100
"""Notes that are compared at each look. More than so many tenants change within a second only while they are set up."""


class ChangedRecords(Struct, frozen=True, order=True):
    """Records of a collection that were changed: those of a tenant or, of the host's own, one of them."""

    collection: str
    tenant: str
    """The tenant of the records; for `tenants` itself, the id of the tenant that was changed."""


class NotedRecords:
    """Records of a shared store. What other processes keep in memory is noted together with its change."""

    def __init__(self, records: Records, clock: Clock, *, by: str) -> None:
        """`by` names this process: it knows its own changes already."""
        self._records = records
        self._clock = clock
        self._by = by
        self.newest_seen = 0
        """The order of the newest note that this process has seen."""
        self.on_write: Callable[[Sequence[RecordKey]], None] = lambda keys: None
        """Called with the records of each write that is durable, whether they are noted or not."""
        self.get = records.get
        self.list = records.list
        self.list_all = records.list_all
        self.count = records.count
        self.next_number = records.next_number

    async def write(self, *changes: RecordChange) -> None:
        """Make changes, and note those that other processes must learn of. Raises as `Records.write`."""
        keys = [change.key for change in changes]
        changed = dict.fromkeys(map(changed_records, keys))
        order = max(milliseconds(self._clock.now()), self.newest_seen + 1)
        notes = [PutRecord(_key(one), {"by": self._by}, order) for one in changed if one.collection in NOTED]
        await self._records.write(*changes, *notes)
        self.on_write(keys)


class ChangeNotes:
    """The notes as one process has seen them. `by` is the name under which it writes notes itself."""

    def __init__(self, records: Records, *, by: str) -> None:
        self._records = records
        self._by = by
        self._seen: dict[str, int] = {}
        """The revisions of notes, by their ids."""
        self._oldest = 0
        """The order of the oldest note that was looked at: what is older was there before this process."""
        self.newest = 0

    async def begin(self) -> None:
        """Remember the notes that are there. Whatever is read after this is as new as they are."""
        page = await self._page(None)
        self._seen = {record.key.id: record.revision for record in page}
        self._oldest = page[-1].sort if len(page) == PAGE else 0
        self.newest = page[0].sort if page else 0

    async def look(self) -> Sequence[ChangedRecords]:
        """What other processes have changed since the last look. Raises StoreError."""
        found: dict[str, ChangedRecords] = {}
        after: tuple[int, str] | None = None
        while page := await self._page(after):
            self.newest = max(self.newest, page[0].sort)
            new = [record for record in page if self._seen.get(record.key.id) != record.revision]
            for record in new:
                known = self._seen.get(record.key.id, 0)
                self._seen[record.key.id] = record.revision
                if record.value.get("by") != self._by or record.revision != known + 1:
                    found[record.key.id] = _decode(record)
            after = page[-1].sort, page[-1].key.id
            if not new or len(page) < PAGE or page[-1].sort < self._oldest:
                break
            await asyncio.sleep(0)
        return sorted(found.values())

    async def _page(self, after: tuple[int, str] | None) -> Sequence[Record]:
        return await self._records.list(CHANGE_NOTES, HOST, after=after, limit=PAGE)


def changed_records(key: RecordKey) -> ChangedRecords:
    """What a change of a record is noted as."""
    if key.collection == TENANTS:
        return ChangedRecords(TENANTS, str(int(key.id)))
    return ChangedRecords(key.collection, key.tenant)


def _key(changed: ChangedRecords) -> RecordKey:
    return RecordKey(CHANGE_NOTES, HOST, f"{changed.collection}/{changed.tenant}")


def _decode(record: Record) -> ChangedRecords:
    return ChangedRecords(*record.key.id.split("/", 1))
