"""Records in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from parley.sealed.sealer import Sealer
from parley.stores.encoding import require_64_bits
from parley.stores.interface import Record, RecordChange, RecordKey
from parley.stores.record_changes import EncodedChange, encode_changes, next_revisions
from parley.stores.rows import Value, decode_record, decode_records
from parley.stores.sqlite.access import SqliteAccess
from parley.stores.unreadable_rows import UnreadableRows


class SqliteRecords:
    """Named JSON objects of tenants."""

    def __init__(self, access: SqliteAccess, sealer: Sealer) -> None:
        self._access = access
        self._sealer = sealer
        self._unreadable = UnreadableRows("records")

    async def get(self, key: RecordKey) -> Record | None:
        """One record."""
        return self._access.read_now(lambda reader: _read_record(reader, self._sealer, key))

    async def write(self, *changes: RecordChange) -> None:
        """Make changes together, durably, or none of them."""
        encoded = encode_changes(changes, self._sealer)
        await self._access.submit(lambda writer: _write(writer, encoded))

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
        condition, values = "", list[Value]([collection, tenant])
        if after is not None:
            require_64_bits(after[0])
            condition = f"AND (sort, id) {'<' if newest_first else '>'} (?, ?)"
            values += after
        direction = "DESC" if newest_first else "ASC"
        statement = f"""
            SELECT {_RECORD} FROM records INDEXED BY records_by_sort WHERE collection = ? AND tenant = ? {condition}
            ORDER BY sort {direction}, id {direction} LIMIT {limit:d}
        """
        return await self._read(statement, values)

    async def list_all(self, collection: str, *, after: tuple[str, str] | None = None, limit: int) -> Sequence[Record]:
        """Records of all tenants, by rising `(tenant, id)`."""
        condition, values = "", list[Value]([collection])
        if after is not None:
            condition = "AND (tenant, id) > (?, ?)"
            values += after
        statement = f"""
            SELECT {_RECORD} FROM records WHERE collection = ? {condition} ORDER BY tenant, id LIMIT {limit:d}
        """
        return await self._read(statement, values)

    async def _read(self, statement: str, values: Sequence[Value]) -> Sequence[Record]:
        return await self._access.read_in_thread(
            lambda reader: decode_records(self._sealer, self._unreadable, reader.execute(statement, values).fetchall())
        )

    async def count(self, collection: str, tenant: str) -> int:
        """How many records a tenant has in a collection."""
        statement = "SELECT count(*) FROM records INDEXED BY records_by_sort WHERE collection = ? AND tenant = ?"
        (number,) = await self._access.read_in_thread(
            lambda reader: reader.execute(statement, (collection, tenant)).fetchone()
        )
        return number

    async def next_number(self, name: str, tenant: str, *, after: int = 0) -> int:
        """The next number of a series of a tenant, from 1 on. The writer's transaction keeps other processes out."""
        require_64_bits(after + 1)
        return await self._access.submit(lambda writer: _next_number(writer, name, tenant, after), name, tenant)


_RECORD = "collection, tenant, id, sort, revision, value"

_OF_KEY = "collection = ? AND tenant = ? AND id = ?"


def _key_columns(key: RecordKey) -> tuple[str, str, str]:
    return key.collection, key.tenant, key.id


def _read_record(reader: sqlite3.Connection, sealer: Sealer, key: RecordKey) -> Record | None:
    row = reader.execute(f"SELECT {_RECORD} FROM records WHERE {_OF_KEY}", _key_columns(key)).fetchone()
    return decode_record(sealer, *row) if row is not None else None


def _read_revision(connection: sqlite3.Connection, key: RecordKey) -> int:
    row = connection.execute(f"SELECT revision FROM records WHERE {_OF_KEY}", _key_columns(key)).fetchone()
    return row[0] if row is not None else 0


def _write(writer: sqlite3.Connection, changes: Sequence[EncodedChange]) -> None:
    """Check all changes, then make them."""
    present = {key: _read_revision(writer, key) for key in {change.key for change in changes}}
    for change, revision in zip(changes, next_revisions(changes, present), strict=True):
        columns = _key_columns(change.key)
        if change.value is None:
            writer.execute(f"DELETE FROM records WHERE {_OF_KEY}", columns)
        else:
            row = (*columns, change.sort, revision, change.value)
            writer.execute(f"INSERT OR REPLACE INTO records ({_RECORD}) VALUES (?, ?, ?, ?, ?, ?)", row)


def _next_number(writer: sqlite3.Connection, name: str, tenant: str, after: int) -> int:
    writer.execute(
        """
        INSERT INTO number_series (name, tenant, last_number) VALUES (?, ?, ?)
        ON CONFLICT (name, tenant) DO UPDATE SET last_number = max(last_number + 1, excluded.last_number)
        """,
        (name, tenant, after + 1),
    )
    statement = "SELECT last_number FROM number_series WHERE name = ? AND tenant = ?"
    (number,) = writer.execute(statement, (name, tenant)).fetchone()
    return number
