"""Rows with secrets in PostgreSQL, as they are encrypted again. The next VACUUM removes their old versions."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg

from parley.stores.postgres.access import PostgresAccess
from parley.stores.postgres.jobs import Tables
from parley.stores.secret_fields import RowKey
from parley.stores.store_secrets import STORE_KEYS, TEXT_COLUMNS, Renewal, SealedTable


class PostgresSecretRows:
    """The rows with secrets of one database."""

    def __init__(self, access: PostgresAccess) -> None:
        self._access = access

    async def page(self, table: SealedTable, after: RowKey | None, limit: int) -> Sequence[tuple[RowKey, str]]:
        """Rows after a key, in the order of their keys."""
        names = ", ".join(table.key)
        paging = f"AND ({names}) > ($2, $3, $4)" if after is not None else ""
        statement = (
            f"SELECT {names}, {table.column} FROM {table.name} WHERE {table.condition} {paging} "
            f"ORDER BY {names} LIMIT $1"
        )
        rows = await self._access.fetch(statement, limit, *(after or ()))
        return [((first, second, third), text) for first, second, third, text in rows]

    async def key_ids(self) -> Sequence[str]:
        """The ids of the keys with which values in the store may be encrypted."""
        statement = "SELECT id FROM records WHERE collection = $1 AND tenant = '' ORDER BY id"
        return [key_id for (key_id,) in await self._access.fetch(statement, STORE_KEYS)]

    async def replace(self, table: SealedTable, renewals: Sequence[Renewal]) -> None:
        """Replace rows that are still what they were, in one transaction."""
        where = " AND ".join(f"{table.name}.{name} = renewed.{name}" for name in table.key)
        statement = f"""
            UPDATE {table.name} SET {table.column} = renewed.new
            FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[])
                AS renewed ({", ".join(table.key)}, old, new)
            WHERE {where} AND {table.name}.{table.column} = renewed.old
        """
        columns = [list(column) for column in zip(*[(*key, old, new) for key, old, new in renewals], strict=True)]

        async def replace(writer: asyncpg.Connection) -> None:
            await writer.execute(statement, *columns)

        await self._access.submit(replace, tables=Tables.RECORDS if table.name == "records" else Tables.TASKS)

    async def erase_old(self) -> None:
        """Nothing: PostgreSQL removes old versions of rows itself."""

    async def count_with(self, text: str) -> dict[str, int]:
        """How many rows contain a text, by what they are called, without those that have none."""
        found: dict[str, int] = {}
        for table, column, name in TEXT_COLUMNS:
            number = await self._access.scan(f"SELECT count(*) FROM {table} WHERE strpos({column}, $1) > 0", text)
            if number:
                found[name] = number
        return found
