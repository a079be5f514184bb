"""Structured memory: facts that the agents of a tenant keep across conversations, linked and searchable.

Reads show valid entries only, unless they ask for others. Every write may have a key: the same key twice changes
nothing, so that a run that is repeated after a crash adds no fact a second time. An entry may name an artifact. Whether
that exists is not checked here: it may be deleted later anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from msgspec import structs

from parley.engine.clock import Clock
from parley.host.data.epoch import seconds
from parley.host.data.keys import MEMORY_ENTRIES
from parley.host.data.memory_entries import each_entry, entry_key, find_entry, put_entry, read_entry
from parley.host.data.memory_entry import (
    EntryType,
    LinkExistsError,
    MemoryEntry,
    MemoryEntryNotFoundError,
    MemoryFullError,
    MemoryLink,
    check_entry,
    check_link,
    check_type,
)
from parley.host.data.memory_graph import MAX_DEPTH, MAX_NODES, Density, Expansion, expand_entry, measure_density
from parley.host.data.memory_links import find_link, links_of, new_link, removal
from parley.host.data.memory_search import MemoryHit, SearchPreferences, search_entries
from parley.host.data.scratchpads import Scratchpads
from parley.host.data.storage import add_to_tenant
from parley.host.data.transactions import Decision, TenantTransactions
from parley.stores.interface import DeleteRecord, RecordChange, Records

MAX_ENTRIES = 10_000
"""Entries of one tenant, with those that were invalidated. A search reads all of them."""
DEFAULT_PAGE = 100
MAX_PAGE = 200
MAX_HITS = 50


class Memory:
    """The memory of all tenants: structured here, and free text in its `scratchpads`."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self._transactions = TenantTransactions(records, clock)
        self.scratchpads = Scratchpads(records, clock)

    async def add(
        self,
        tenant: str,
        *,
        type: str,
        title: str,
        content: str = "",
        source: str = "",
        tags: Sequence[str] = (),
        artifact_id: int | None = None,
        conversation_id: int | None = None,
        supersedes: Sequence[int] = (),
        quota: int | None = None,
        key: str | None = None,
    ) -> MemoryEntry:
        """A new entry. The entries that it supersedes are invalidated, and linked to it.

        `quota` is how many bytes the tenant may keep, if that is less than the limit of all tenants.

        Raises:
            InvalidMemoryError: a member is not valid.
            MemoryEntryNotFoundError: an entry that it should supersede does not exist, or is not valid any more.
            MemoryFullError: the tenant has too many entries.
            StorageFullError: the tenant would keep too much.
        """
        check_entry(type, title, content, source, tags)

        async def decide() -> Decision[int]:
            if await self._records.count(MEMORY_ENTRIES, tenant) >= MAX_ENTRIES:
                raise MemoryFullError(f"a tenant may have {MAX_ENTRIES} memory entries; delete one first")
            now = seconds(self._clock.now())
            entry = MemoryEntry(
                id=await self._records.next_number(MEMORY_ENTRIES, tenant),
                type=cast("EntryType", type),
                title=title.strip(),
                content=content,
                source=source,
                tags=tuple(tags),
                artifact_id=artifact_id,
                conversation_id=conversation_id,
                valid_from=now,
                created_at=now,
                updated_at=now,
            )
            changes: list[RecordChange] = [
                put_entry(tenant, entry, revision=0),
                await add_to_tenant(self._records, tenant, entry.size, quota=quota),
            ]
            for old_id in dict.fromkeys(supersedes):
                _, added = await new_link(
                    self._records, tenant, entry.id, relation="supersedes", target_id=old_id, now=now
                )
                changes += [await self._invalidation(tenant, old_id), *added]
            return entry.id, changes

        entry_id = await self._transactions.run_once(tenant, "add entry", decide, key=key)
        return await self.get(tenant, entry_id, include_invalid=True)

    async def get(self, tenant: str, entry_id: int, *, include_invalid: bool = False) -> MemoryEntry:
        """One entry.

        Raises:
            MemoryEntryNotFoundError: the tenant has none with this id, or it is not valid any more.
        """
        found = await find_entry(self._records, tenant, entry_id)
        if found is None or not (found[0].is_valid or include_invalid):
            raise MemoryEntryNotFoundError(f"no memory entry {entry_id}")
        return found[0]

    async def list(
        self,
        tenant: str,
        *,
        types: Sequence[str] = (),
        tag: str | None = None,
        as_of: int | None = None,
        before_id: int | None = None,
        limit: int = DEFAULT_PAGE,
    ) -> Sequence[MemoryEntry]:
        """Entries of some types and with a tag, newest first. `as_of` shows those that were valid at that second.

        Raises:
            InvalidMemoryError: there is no such type.
        """
        for type in types:
            check_type(type)
        limit = min(max(limit, 1), MAX_PAGE)
        found: tuple[MemoryEntry, ...] = ()
        async for entry in each_entry(self._records, tenant, before_id=before_id):
            is_shown = entry.is_valid if as_of is None else entry.was_valid_at(as_of)
            if is_shown and (not types or entry.type in types) and (tag is None or tag in entry.tags):
                found += (entry,)
            if len(found) == limit:
                break
        return found

    async def search(
        self, tenant: str, query: str, *, preferences: SearchPreferences | None = None, limit: int = MAX_HITS
    ) -> Sequence[MemoryHit]:
        """The entries that hold words of a query, the best first, at most `MAX_HITS`."""
        return await search_entries(
            self._records,
            tenant,
            query,
            preferences=preferences or SearchPreferences(),
            now=seconds(self._clock.now()),
            limit=min(max(limit, 1), MAX_HITS),
        )

    async def expand(self, tenant: str, entry_id: int, *, depth: int = 1) -> Expansion:
        """The entries around one, within one or two links, at most `MAX_NODES`.

        Raises:
            MemoryEntryNotFoundError: there is no such valid entry.
        """
        depth = min(max(depth, 1), MAX_DEPTH)
        return await expand_entry(self._records, tenant, entry_id, depth=depth, limit=MAX_NODES)

    async def density(self, tenant: str, entry_id: int) -> Density:
        """How densely an entry is linked.

        Raises:
            MemoryEntryNotFoundError: there is no such valid entry.
        """
        return await measure_density(self._records, tenant, entry_id)

    async def links(self, tenant: str, entry_id: int) -> Sequence[MemoryLink]:
        """The links of an entry in both directions, oldest first; also those to entries that are not valid any more."""
        return await links_of(self._records, tenant, entry_id)

    async def add_link(
        self, tenant: str, source_id: int, *, relation: str, target_id: int, key: str | None = None
    ) -> MemoryLink:
        """A new link from one entry to another.

        Raises:
            InvalidMemoryError: there is no such relation, or the two entries are one.
            MemoryEntryNotFoundError: one of them does not exist, or is not valid any more.
            LinkExistsError: they are linked by this relation already.
            MemoryFullError: one of them has too many links.
        """
        check_link(source_id, relation, target_id)

        async def decide() -> Decision[int]:
            for entry_id in (source_id, target_id):
                await read_entry(self._records, tenant, entry_id)
            existing = await find_link(self._records, tenant, source_id, relation=relation, target_id=target_id)
            if existing is not None:
                raise LinkExistsError(existing)
            now = seconds(self._clock.now())
            link, changes = await new_link(
                self._records, tenant, source_id, relation=relation, target_id=target_id, now=now
            )
            return link.id, changes

        await self._transactions.run_once(tenant, "add link", decide, key=key)
        link = await find_link(self._records, tenant, source_id, relation=relation, target_id=target_id)
        if link is None:
            raise MemoryEntryNotFoundError  # one of the entries was deleted since
        return link

    async def invalidate(self, tenant: str, entry_id: int, *, key: str | None = None) -> MemoryEntry:
        """The entry, no longer valid from now on.

        Raises:
            MemoryEntryNotFoundError: there is no such valid entry.
        """

        async def decide() -> Decision[int]:
            return entry_id, [await self._invalidation(tenant, entry_id)]

        await self._transactions.run_once(tenant, "invalidate", decide, key=key)
        return await self.get(tenant, entry_id, include_invalid=True)

    async def delete(self, tenant: str, entry_id: int) -> None:
        """Delete an entry, valid or not, and its links.

        Raises:
            MemoryEntryNotFoundError: the tenant has none with this id.
        """

        async def decide() -> Decision[None]:
            entry = await self.get(tenant, entry_id, include_invalid=True)
            links = await links_of(self._records, tenant, entry_id)
            return None, [
                DeleteRecord(entry_key(tenant, entry_id)),
                *removal(tenant, links),
                await add_to_tenant(self._records, tenant, -entry.size),
            ]

        await self._transactions.run(tenant, decide)

    async def _invalidation(self, tenant: str, entry_id: int) -> RecordChange:
        entry, revision = await read_entry(self._records, tenant, entry_id)
        now = seconds(self._clock.now())
        return put_entry(tenant, structs.replace(entry, valid_to=now, updated_at=now), revision=revision)
