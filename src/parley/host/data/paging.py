"""All records of a collection, read page by page. Other tasks run between two pages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from parley.stores.interface import Record, Records

PAGE = 200


async def each_record(
    records: Records,
    collection: str,
    tenant: str,
    *,
    after: tuple[int, str] | None = None,
    newest_first: bool = True,
    page_size: int = PAGE,
) -> AsyncIterator[Record]:
    """The records of a tenant in a collection, in the order of `Records.list`."""
    while True:
        page = await records.list(collection, tenant, after=after, limit=page_size, newest_first=newest_first)
        for record in page:
            yield record
        if len(page) < page_size:
            return
        after = page[-1].sort, page[-1].key.id
        await asyncio.sleep(0)  # a store in memory never waits


async def each_record_of_all(records: Records, collection: str, *, page_size: int = PAGE) -> AsyncIterator[Record]:
    """The records of all tenants in a collection, by tenant and id."""
    after: tuple[str, str] | None = None
    while True:
        page = await records.list_all(collection, after=after, limit=page_size)
        for record in page:
            yield record
        if len(page) < page_size:
            return
        after = page[-1].key.tenant, page[-1].key.id
        await asyncio.sleep(0)
