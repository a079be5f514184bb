"""The links between memory entries, kept at both of their ends, so that those of one entry are one short list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import msgspec
from msgspec import to_builtins

from parley.host.data.keys import MEMORY_LINKS, collection_of
from parley.host.data.memory_entry import MemoryFullError, MemoryLink, Relation
from parley.host.data.paging import each_record
from parley.stores.interface import DeleteRecord, PutRecord, RecordChange, RecordKey, Records

MAX_LINKS = 500
"""Links of one entry, in both directions together."""


async def links_of(records: Records, tenant: str, entry_id: int) -> Sequence[MemoryLink]:
    """The links of an entry in both directions, oldest first."""
    collection = collection_of(MEMORY_LINKS, entry_id)
    found = each_record(records, collection, tenant, newest_first=False)
    return [msgspec.convert(record.value, MemoryLink) async for record in found]


async def find_link(
    records: Records, tenant: str, source_id: int, *, relation: str, target_id: int
) -> MemoryLink | None:
    """The link from one entry to another by a relation."""
    key, _ = _keys(tenant, source_id, relation, target_id)
    record = await records.get(key)
    return msgspec.convert(record.value, MemoryLink) if record else None


async def new_link(
    records: Records, tenant: str, source_id: int, *, relation: str, target_id: int, now: int
) -> tuple[MemoryLink, Sequence[RecordChange]]:
    """A new link, and the changes that add it.

    Raises:
        MemoryFullError: one of the two entries has too many links.
    """
    for entry_id in (source_id, target_id):
        if await records.count(collection_of(MEMORY_LINKS, entry_id), tenant) >= MAX_LINKS:
            raise MemoryFullError(f"entry {entry_id} has {MAX_LINKS} links already")
    link = MemoryLink(
        id=await records.next_number(MEMORY_LINKS, tenant),
        source_id=source_id,
        relation=cast("Relation", relation),
        target_id=target_id,
        created_at=now,
    )
    keys = _keys(tenant, source_id, relation, target_id)
    return link, [PutRecord(key, to_builtins(link), link.id, expected=0) for key in keys]


def removal(tenant: str, links: Sequence[MemoryLink]) -> Sequence[RecordChange]:
    """The changes that delete links."""
    return [DeleteRecord(key) for link in links for key in _keys(tenant, link.source_id, link.relation, link.target_id)]


def _keys(tenant: str, source_id: int, relation: str, target_id: int) -> tuple[RecordKey, RecordKey]:
    """The records of a link at its source and at its target."""
    return (
        RecordKey(collection_of(MEMORY_LINKS, source_id), tenant, f"{relation} {target_id}"),
        RecordKey(collection_of(MEMORY_LINKS, target_id), tenant, f"{source_id} {relation}"),
    )
