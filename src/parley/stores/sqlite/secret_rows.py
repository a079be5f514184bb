"""Rows with secrets in SQLite, as they are renewed.

What a renewed row was before is overwritten with zeros (the writer runs with `secure_delete`), and the log of writes is
emptied: a plain secret of an earlier release must not be found in the file any more.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from parley.stores.secret_fields import RowKey
from parley.stores.sqlite.access import SqliteAccess
from parley.stores.store_secrets import STORE_KEYS, TEXT_COLUMNS, Renewal, SealedTable


class SqliteSecretRows:
    """The rows with secrets of one file."""

    def __init__(self, access: SqliteAccess) -> None:
        self._access = access

    async def page(self, table: SealedTable, after: RowKey | None, limit: int) -> Sequence[tuple[RowKey, str]]:
        """Rows after a key, in the order of their keys."""
        names = ", ".join(table.key)
        paging = f"AND ({names}) > (?, ?, ?)" if after is not None else ""
        statement = (
            f"SELECT {names}, {table.column} FROM {table.name} WHERE {table.condition} {paging} "
            f"ORDER BY {names} LIMIT {limit:d}"
        )

        def read(reader: sqlite3.Connection) -> list[tuple[RowKey, str]]:
            rows = reader.execute(statement, after or ())
            return [((first, second, third), text) for first, second, third, text in rows]

        # The first page is read while the store opens, when nothing else runs.
        return self._access.read_now(read) if after is None else await self._access.read_in_thread(read)

    async def key_ids(self) -> Sequence[str]:
        """The keys that the store may hold values of."""
        statement = "SELECT id FROM records WHERE collection = ? AND tenant = '' ORDER BY id"
        return self._access.read_now(lambda reader: [row[0] for row in reader.execute(statement, (STORE_KEYS,))])

    async def replace(self, table: SealedTable, renewals: Sequence[Renewal]) -> None:
        """Replace rows that are still what they were, in one transaction."""
        where = " AND ".join(f"{name} = ?" for name in (*table.key, table.column))
        statement = f"UPDATE {table.name} SET {table.column} = ? WHERE {where}"
        rows = [(new, *key, old) for key, old, new in renewals]

        await self._access.submit(lambda writer: writer.executemany(statement, rows))

    async def erase_old(self) -> None:
        """Empty the log of writes, which holds the rows as they were. Another process that reads keeps it from that."""
        await self._access.read_in_thread(lambda reader: reader.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall())

    async def count_with(self, text: str) -> dict[str, int]:
        """How many rows contain a text, by what they are called, without those that have none."""

        def count(reader: sqlite3.Connection) -> dict[str, int]:
            found: dict[str, int] = {}
            for table, column, name in TEXT_COLUMNS:
                statement = f"SELECT count(*) FROM {table} WHERE instr({column}, ?)"
                (number,) = reader.execute(statement, (text,)).fetchone()
                if number:
                    found[name] = number
            return found

        return await self._access.read_in_thread(count)
