"""What is linked to a memory entry: the entries around it, and how densely they are linked.

Links are followed in both directions, breadth first, and only to valid entries. Depth and number are bounded, so that a
request costs little whatever the links are.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from parley.host.data.memory_entries import find_entry, read_entry
from parley.host.data.memory_entry import MemoryEntry, MemoryLink
from parley.host.data.memory_links import links_of
from parley.stores.interface import Records

MAX_DEPTH = 2
MAX_NODES = 50
MAX_REACH = 500
"""Entries that are counted at most."""


class LinkedEntry(Struct, frozen=True):
    """An entry that was reached: over how many links, and by which one; None for the entry where it began."""

    entry: MemoryEntry
    depth: int
    link: MemoryLink | None = None


class Expansion(Struct, frozen=True):
    """The entries around one, in the order in which they were reached; `is_complete` is False if some are left out."""

    entries: tuple[LinkedEntry, ...]
    is_complete: bool


class Density(Struct, frozen=True):
    """How densely an entry is linked: links that lead to it and from it, and how many entries two links reach."""

    incoming: int
    outgoing: int
    relations: tuple[str, ...]
    """The relations of its links, by name."""
    reach: int


async def expand_entry(records: Records, tenant: str, entry_id: int, *, depth: int, limit: int) -> Expansion:
    """The entries within `depth` links of one, itself included, at most `limit`.

    Raises:
        MemoryEntryNotFoundError: there is no such valid entry.
    """
    root, _ = await read_entry(records, tenant, entry_id)
    reached = {entry_id: LinkedEntry(root, 0)}
    border = [root]
    for level in range(1, depth + 1):
        border, inner = list[MemoryEntry](), border
        for entry in inner:
            for link, neighbour in await _neighbours(records, tenant, entry):
                if neighbour.id in reached:
                    continue
                if len(reached) == limit:
                    return Expansion(tuple(reached.values()), is_complete=False)
                reached[neighbour.id] = LinkedEntry(neighbour, level, link)
                border.append(neighbour)
    return Expansion(tuple(reached.values()), is_complete=True)


async def measure_density(records: Records, tenant: str, entry_id: int) -> Density:
    """How densely an entry is linked.

    Raises:
        MemoryEntryNotFoundError: there is no such valid entry.
    """
    around = await expand_entry(records, tenant, entry_id, depth=2, limit=MAX_REACH)
    links = [link for link, _ in await _neighbours(records, tenant, around.entries[0].entry)]
    incoming = sum(link.target_id == entry_id for link in links)
    return Density(
        incoming=incoming,
        outgoing=len(links) - incoming,
        relations=tuple(sorted({link.relation for link in links})),
        reach=len(around.entries) - 1,
    )


async def _neighbours(records: Records, tenant: str, entry: MemoryEntry) -> Sequence[tuple[MemoryLink, MemoryEntry]]:
    """The links of an entry to valid entries, with those entries."""
    neighbours: list[tuple[MemoryLink, MemoryEntry]] = []
    for link in await links_of(records, tenant, entry.id):
        found = await find_entry(records, tenant, link.other_end(entry.id))
        if found is not None and found[0].is_valid:
            neighbours.append((link, found[0]))
    return neighbours
