"""The search in everything that a tenant may find: its agents, remote ones, and the entries of added catalogues.

The words of the entries of a catalogue are kept until the catalogue changes. A long search runs beside the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from parley.ai_catalog.model import AiCatalogEntry
from parley.ai_catalog.search import SearchedEntry, search, searched
from parley.host.api.catalog_entries import tenant_entries
from parley.host.api.catalog_views import CatalogHit, hit_view
from parley.host.data.catalog_sources import CatalogSource
from parley.host.data.tenant import Tenant

if TYPE_CHECKING:
    from parley.host.host import Host

CACHED_SOURCES = 20
"""Catalogues whose words are kept: some 100 MB if each has a thousand entries."""

MANY = 300
"""Entries from which on a search takes milliseconds."""


class CatalogSearch:
    """Searches for the tenants of a host."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._sources: dict[tuple[str, str, str], list[SearchedEntry]] = {}
        """By tenant, name and digest; the one that was used last is the last."""

    async def find(self, tenant: Tenant, base_url: str, *, text: str, skill: str, tag: str) -> Sequence[CatalogHit]:
        """Everything that fits, the best first; the tenant's own agents first of what fits equally."""
        own = await tenant_entries(self._host, tenant, base_url)
        hits = {id(one.entry): hit_view(one.entry, one.origin, name=one.name) for one in own}
        entries = await _searched([one.entry for one in own])
        for source in await self._host.registry.sources.list(tenant.id):
            listed = await self._source(tenant.id, source)
            hits |= {id(one.entry): hit_view(one.entry, "catalog", source=source.name) for one in listed}
            entries += listed
        if len(entries) < MANY:
            found = search(entries, text=text, skill=skill, tag=tag)
        else:
            found = await asyncio.to_thread(search, entries, text=text, skill=skill, tag=tag)
        return [hits[id(entry)] for entry in found]

    async def _source(self, tenant_id: str, source: CatalogSource) -> list[SearchedEntry]:
        key = (tenant_id, source.name, source.digest)
        kept = self._sources.pop(key, None)
        if kept is None:
            kept = await _searched(await self._host.registry.sources.entries(tenant_id, source.name))
        self._sources[key] = kept  # the last one
        if len(self._sources) > CACHED_SOURCES:
            del self._sources[next(iter(self._sources))]
        return kept


async def _searched(entries: Sequence[AiCatalogEntry]) -> list[SearchedEntry]:
    if len(entries) < MANY:
        return list(map(searched, entries))
    return await asyncio.to_thread(lambda: list(map(searched, entries)))
