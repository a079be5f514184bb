"""Records in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asyncpg

from parley.sealed.sealer import Sealer
from parley.stores.encoding import require_64_bits
from parley.stores.interface import Record, RecordChange, RecordKey
from parley.stores.postgres.access import PostgresAccess
from parley.stores.postgres.errors import require_storable
from parley.stores.postgres.jobs import RecordsWrite, Tables
from parley.stores.postgres.record_writes import STATEMENTS
from parley.stores.record_changes import encode_changes
from parley.stores.rows import decode_record, decode_records
from parley.stores.unreadable_rows import UnreadableRows


class PostgresRecords:
    """Named JSON objects of tenants."""

    def __init__(self, access: PostgresAccess, sealer: Sealer) -> None:
        self._access = access
        self._sealer = sealer
        self._unreadable = UnreadableRows("records")

    async def get(self, key: RecordKey) -> Record | None:
        """One record."""
        row = await self._access.fetch_row(STATEMENTS["get"], key.collection, key.tenant, key.id)
        return decode_record(self._sealer, *row) if row is not None else None

    async def write(self, *changes: RecordChange) -> None:
        """Make changes together, durably, or none of them."""
        for change in changes:
            require_storable(change.key.collection, change.key.tenant, change.key.id)
        encoded = encode_changes(changes, self._sealer)
        if encoded:
            await self._access.write_records(RecordsWrite(encoded))

    async def list(
        self,
        collection: str,
        tenant: str,
        *,
        after: tuple[int, str] | None = None,
        limit: int,
        newest_first: bool = True,
    ) -> Sequence[Record]:
        """Records of a tenant, by falling `(sort, id)`, or by rising if not `newest_first`."""
        paging, values = "", list[Any]([collection, tenant, limit])
        if after is not None:
            require_64_bits(after[0])
            paging = f"AND (sort, id) {'<' if newest_first else '>'} ($4, $5)"
            values += after
        direction = "DESC" if newest_first else "ASC"
        statement = STATEMENTS["of_tenant"].replace("{paging}", paging).replace("{direction}", direction)
        return decode_records(self._sealer, self._unreadable, await self._access.fetch(statement, *values))

    async def list_all(self, collection: str, *, after: tuple[str, str] | None = None, limit: int) -> Sequence[Record]:
        """Records of all tenants, by rising `(tenant, id)`."""
        paging = "AND (tenant, id) > ($3, $4)" if after is not None else ""
        statement = STATEMENTS["of_all"].replace("{paging}", paging)
        rows = await self._access.fetch(statement, collection, limit, *(after or ()))
        return decode_records(self._sealer, self._unreadable, rows)

    async def count(self, collection: str, tenant: str) -> int:
        """How many records a tenant has in a collection."""
        return await self._access.fetch_value(STATEMENTS["count"], collection, tenant)

    async def next_number(self, name: str, tenant: str, *, after: int = 0) -> int:
        """The next number of a series of a tenant, from 1 on. Its row is locked until the transaction ends."""
        require_64_bits(after + 1)

        async def give(writer: asyncpg.Connection) -> int:
            return await writer.fetchval(STATEMENTS["next_number"], name, tenant, after + 1)

        return await self._access.submit(give, name, tenant, tables=Tables.NUMBERS)
