"""Searching a tenant's memory: every valid entry is looked at, and those that fit best are read again.

There is no index: a tenant's entries are bounded, and other tasks run while a search reads them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from parley.engine.reading.large import run_beside_loop
from parley.host.constitution import MemorySettings
from parley.host.data.memory_entries import each_entry, find_entry
from parley.host.data.memory_entry import MemoryEntry
from parley.host.data.memory_ranking import Ranking, age_factor
from parley.stores.interface import Records

TYPE_BOOST = 1.3
"""What an entry gains by being of a type that the caller expects. Entries of other types are found all the same."""


class MemoryHit(Struct, frozen=True):
    """An entry that fits a query; a higher score fits better."""

    entry: MemoryEntry
    score: float


class SearchPreferences(Struct, frozen=True):
    """What comes first, apart from the words."""

    types: Collection[str] = ()
    """The types that the caller expects."""
    conversation_id: int | None = None
    """Entries of this conversation, and those of none, come before the entries of other conversations."""
    settings: MemorySettings | None = None
    """How much the age of an entry counts; None: nothing."""


RANKED_AT_ONCE = 20
"""Entries that are ranked together, in a thread: each may have 64 KB."""


async def search_entries(
    records: Records, tenant: str, query: str, *, preferences: SearchPreferences, now: int, limit: int
) -> Sequence[MemoryHit]:
    """The valid entries that hold words of a query, the best first; the newest first where they fit equally."""
    ranking = Ranking(query)

    def rank(entries: Sequence[MemoryEntry]) -> None:
        for entry in entries:
            ranking.add(
                entry,
                factor=_factor(entry, preferences, now),
                is_preferred=preferences.conversation_id is not None
                and entry.conversation_id in (None, preferences.conversation_id),
            )

    page: list[MemoryEntry] = []
    async for entry in each_entry(records, tenant):
        if entry.is_valid:
            page.append(entry)
        if len(page) == RANKED_AT_ONCE:
            await run_beside_loop(rank, page)
            page = []
    rank(page)
    hits: list[MemoryHit] = []
    for entry_id, score in ranking.best(limit):
        found = await find_entry(records, tenant, entry_id)
        if found is not None and found[0].is_valid:
            hits.append(MemoryHit(found[0], score))
    return hits


def _factor(entry: MemoryEntry, preferences: SearchPreferences, now: int) -> float:
    factor = TYPE_BOOST if entry.type in preferences.types else 1.0
    settings = preferences.settings
    if settings is None or not settings.age_decay:
        return factor
    age_days = (now - entry.valid_from) / 86_400
    return factor * age_factor(age_days, half_life_days=settings.age_half_life_days, floor=settings.age_floor)
