"""The records of memory entries: reading one, reading all, and the change that writes one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
from msgspec import to_builtins

from parley.host.data.keys import MEMORY_ENTRIES, number_id
from parley.host.data.memory_entry import MemoryEntry, MemoryEntryNotFoundError
from parley.host.data.paging import each_record
from parley.stores.interface import PutRecord, RecordKey, Records

_PAGE = 50
"""Entries that are read at once: three megabytes, if they are as long as they may be."""


async def find_entry(records: Records, tenant: str, entry_id: int) -> tuple[MemoryEntry, int] | None:
    """An entry, also an invalid one, and the revision of its record."""
    record = await records.get(entry_key(tenant, entry_id))
    return (msgspec.convert(record.value, MemoryEntry), record.revision) if record else None


async def read_entry(records: Records, tenant: str, entry_id: int) -> tuple[MemoryEntry, int]:
    """A valid entry, and the revision of its record.

    Raises:
        MemoryEntryNotFoundError: the tenant has none with this id, or it was invalidated.
    """
    found = await find_entry(records, tenant, entry_id)
    if found is None or not found[0].is_valid:
        raise MemoryEntryNotFoundError(f"no memory entry {entry_id}")
    return found


async def each_entry(records: Records, tenant: str, *, before_id: int | None = None) -> AsyncIterator[MemoryEntry]:
    """All entries with smaller ids than `before_id`, newest first, also invalid ones."""
    after = (before_id, "") if before_id is not None else None
    async for record in each_record(records, MEMORY_ENTRIES, tenant, after=after, page_size=_PAGE):
        yield msgspec.convert(record.value, MemoryEntry)


def put_entry(tenant: str, entry: MemoryEntry, *, revision: int) -> PutRecord:
    """The change that writes an entry whose record has this revision; 0: there is none yet."""
    return PutRecord(entry_key(tenant, entry.id), to_builtins(entry), entry.id, expected=revision)


def entry_key(tenant: str, entry_id: int) -> RecordKey:
    """The record of an entry."""
    return RecordKey(MEMORY_ENTRIES, tenant, number_id(entry_id))
