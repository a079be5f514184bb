"""A catalogue as the documents that a server answers with: one, or pages that a first one names as nested catalogues.

A page is a catalogue of its own, so that every reader that follows nested catalogues finds all entries.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from msgspec import Struct

from parley.ai_catalog.encoding import encode_catalog
from parley.ai_catalog.model import CATALOG_TYPE, AiCatalog, AiCatalogEntry, AiCatalogHost

PAGE_ENTRIES = 1_000
"""Entries of one document: some 500 KB."""


class CatalogDocument(Struct, frozen=True):
    """An encoded catalogue with its `ETag`."""

    body: bytes
    etag: str

    def is_known(self, etags: str | None) -> bool:
        """Whether the caller has this document, by its `If-None-Match`."""
        if etags is None:
            return False
        return etags.strip() == "*" or self.etag in [tag.strip().removeprefix("W/") for tag in etags.split(",")]


def catalog_document(
    entries: Sequence[AiCatalogEntry],
    *,
    host: AiCatalogHost,
    url: str,
    page: int = 0,
    page_entries: int = PAGE_ENTRIES,
) -> CatalogDocument | None:
    """The first document of a catalogue, or one of its pages, from 1 on; None if there is no such page.

    `url` is that of the catalogue; page 3 is at `{url}?page=3`.
    """
    count = -(-len(entries) // page_entries)
    if page < 0 or (page > 0 and (count < 2 or page > count)):
        return None
    if page:
        shown = entries[(page - 1) * page_entries : page * page_entries]
    else:
        shown = (
            entries
            if count < 2
            else [_page_entry(host, f"{url}?page={number}", number, count) for number in range(1, count + 1)]
        )
    body = encode_catalog(AiCatalog(tuple(shown), host))
    return CatalogDocument(body, f'"{hashlib.sha256(body).hexdigest()[:32]}"')


def _page_entry(host: AiCatalogHost, url: str, number: int, count: int) -> AiCatalogEntry:
    return AiCatalogEntry(
        identifier=url,
        display_name=f"{host.display_name}, page {number} of {count}",
        media_type=CATALOG_TYPE,
        url=url,
    )
