"""Where reads and changes of a database run: changes in the writer's transactions, reads on connections beside it.

A read sees everything whose write was awaited before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, cast

import asyncpg

from parley.stores.appends import Append
from parley.stores.encoding import require_encodable
from parley.stores.interface import StoreUnavailableError, TaskKey
from parley.stores.postgres.address import Address
from parley.stores.postgres.connecting import check_server, connect
from parley.stores.postgres.errors import DRIVER_ERRORS, explain, require_storable
from parley.stores.postgres.jobs import Change, RecordsWrite, Tables
from parley.stores.postgres.readers import Readers
from parley.stores.postgres.schema import migrate, migrations, require_schema
from parley.stores.postgres.writer import PostgresWriter
from parley.stores.rows import Row

T = TypeVar("T")

STARTING_SECONDS = 30.0
"""How long to wait, when a store is opened, for a server that is starting."""

DELETING_SECONDS = 30
"""How long deleting what is old may take: the events of a long task are many rows, perhaps on a slow disk."""

SCANNING_SECONDS = 600
"""How long reading whole tables may take: as long as a migration."""


class PostgresAccess:
    """Reads and changes of one database, for all parts of its store."""

    def __init__(self, address: Address, *, readers: int, patience: float, migrates: bool = True) -> None:
        self.name = address.name
        self._address = address
        self._prepare_schema = migrate if migrates else require_schema
        self._writer = PostgresWriter(address, patience=patience)
        self._readers = Readers(address, most=readers, patience=patience)

    async def open(self) -> None:
        """Connect, and bring the schema up to date or check that it is.

        Raises:
            StoreUnavailableError: that is not possible; the message says why and what to do.
        """
        try:
            connection = await self._connect()
            try:
                check_server(connection, self.name)
                await self._prepare_schema(connection, self.name, migrations())
                await self._writer.start()
            except BaseException:
                connection.terminate()
                raise
        except DRIVER_ERRORS as error:
            explained = explain(error, self.name)
            raise explained from explained.__cause__
        except ValueError:  # of the URL's parts: its text may hold the password
            raise StoreUnavailableError(f"{self.name}: the URL has an invalid part.") from None
        self._readers.open(connection)

    async def _connect(self) -> asyncpg.Connection:
        deadline = asyncio.get_running_loop().time() + STARTING_SECONDS
        while True:
            try:
                return await connect(self._address, answer_seconds=self._readers.answer_seconds)
            except (asyncpg.CannotConnectNowError, asyncpg.TooManyConnectionsError):
                if asyncio.get_running_loop().time() >= deadline:
                    raise
            await asyncio.sleep(0.1)

    async def close(self) -> None:
        """Write what is queued, end the reads under way, and close the connections."""
        await self._writer.stop()
        await self._readers.close()

    def problem(self) -> str | None:
        """Why nothing can be written; None if writes succeed."""
        refusal = self._writer.refusal or self._readers.refusal
        return f"The store could not be written: {refusal}." if refusal is not None else None

    # --- changes ------------------------------------------------------------------------------------------------------

    def append(self, append: Append) -> asyncio.Future[None]:
        """Queue an append to a task; the future is done when it is durable."""
        return self._writer.submit(append)

    def write_records(self, write: RecordsWrite) -> asyncio.Future[None]:
        """Queue changes of records."""
        return self._writer.submit(write)

    async def submit(
        self,
        change: Callable[[asyncpg.Connection], Awaitable[T]],
        *names: str,
        tables: Tables = Tables.TASKS,
        locks: TaskKey | None = None,
    ) -> T:
        """Make a change in the writer's transaction, once the names in it are known to be storable.

        `locks` is the task whose row it locks.
        """
        require_names(*names)
        task = None if locks is None else (locks.owner.tenant, locks.task_id)
        return await self._writer.submit(Change(change, tables, task))

    # --- reads --------------------------------------------------------------------------------------------------------

    async def fetch(self, statement: str, *values: Any, is_urgent: bool = False) -> Sequence[Row]:
        """The rows of a statement, on a connection for reads; if it is urgent, on the one for urgent reads."""
        rows = await self._readers.run(lambda connection: connection.fetch(statement, *values), is_urgent=is_urgent)
        return cast(Sequence[Row], rows)  # what asyncpg calls a record is a sequence

    async def fetch_row(self, statement: str, *values: Any) -> Row | None:
        """The first row of a statement."""
        row = await self._readers.run(lambda connection: connection.fetchrow(statement, *values))
        return cast(Row | None, row)

    async def fetch_value(self, statement: str, *values: Any) -> Any:
        """The first value of a statement."""
        return await self._readers.run(lambda connection: connection.fetchval(statement, *values))

    async def delete_old(self, statement: str, *values: Any) -> int:
        """Run a statement of retention, and return how much it deleted. It may take long: no caller waits for it."""
        return await self._fetch_value_within(statement, values, seconds=DELETING_SECONDS)

    async def scan(self, statement: str, *values: Any) -> Any:
        """The first value of a statement that reads whole tables, as a store may have to when it is opened."""
        return await self._fetch_value_within(statement, values, seconds=SCANNING_SECONDS)

    async def _fetch_value_within(self, statement: str, values: Sequence[Any], *, seconds: float) -> Any:
        async def run(connection: asyncpg.Connection) -> Any:
            await connection.execute(f"BEGIN; SET LOCAL statement_timeout = '{seconds}s'")
            try:
                value = await connection.fetchval(statement, *values)
            except asyncpg.PostgresError:
                if not connection.is_closed():
                    await connection.execute("ROLLBACK")
                raise
            await connection.execute("COMMIT")
            return value

        return await self._readers.run(run, seconds=seconds + 5)


def require_names(*names: str) -> None:
    """Refuse names that the database cannot hold.

    Raises:
        StoreError: half of a surrogate pair, or U+0000, is in one of them.
    """
    require_encodable(*names)
    require_storable(*names)
