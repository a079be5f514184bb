"""The public catalogue, made once for all callers until something in it changes: they need no token to ask for it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from parley.ai_catalog.documents import CatalogDocument, catalog_document
from parley.ai_catalog.model import WELL_KNOWN_PATH
from parley.host.api.catalog_entries import public_entries
from parley.host.data.public_agents import PublicAgent
from parley.server.app_resources import Cache
from parley.server.pages.catalog import host_info

if TYPE_CHECKING:
    from parley.host.host import Host

CACHED_LISTS = 4
"""Lists of all entries, by the URL that callers use: some 10 MB if 10,000 agents are public."""

CACHED_DOCUMENTS = 32
"""Documents, by URL and page: some 500 KB each. Callers choose the `Host` header."""


class PublicCatalog:
    """The catalogue of the agents that are public."""

    def __init__(self, host: Host) -> None:
        """The agents and tenants of the host are there already."""
        self._host = host
        self._made_of: Sequence[PublicAgent] | None = None
        self._forget()
        host.catalogue.on_change(lambda tenant_id: self._changed())
        host.tenants.on_change(lambda tenant: self._changed())

    async def document(self, base_url: str, page: int) -> CatalogDocument | None:
        """A page for callers who reach the host at this URL, or with 0 the first document; None if there is none."""
        public = await self._host.public_agents.all()
        if public is not self._made_of:  # it was read again
            self._forget()
            self._made_of = public
        entries = self._entries.get(base_url, lambda: public_entries(self._host, public, base_url))
        url = f"{base_url}{WELL_KNOWN_PATH}"
        make = partial(catalog_document, entries, host=host_info(base_url), url=url, page=page)
        return self._documents.get((base_url, page), make)

    def _changed(self) -> None:
        self._host.public_agents.read_again()
        self._forget()

    def _forget(self) -> None:
        self._entries = Cache(CACHED_LISTS)
        self._documents = Cache(CACHED_DOCUMENTS)
