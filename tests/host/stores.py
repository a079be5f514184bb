"""The stores that the tests of a host use: in memory, or with `PARLEY_TEST_STORE=postgres` in PostgreSQL.

    database = MemoryDatabase()
    one, two = MemoryStore(database), MemoryStore(database)   # two handles of one store
    records = MemoryStore().records                            # of a store of its own

On PostgreSQL a database is a schema of its own, and a store is opened when its records are first used, so that tests of
records need not open it. `stores_closed` in `conftest` closes what a test has opened so. Tests that simulate the crash
of a process in the middle of a write use a `ProcessDatabase`, which is always in memory: there a write takes no time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from parley.stores.interface import Store
from parley.stores.memory import MemoryDatabase as ProcessDatabase
from parley.stores.memory import MemoryStore as ProcessStore
from parley.stores.urls import open_store
from tests.services.fixtures import ON_POSTGRES, empty_schema
from tests.services.postgres import Postgres

servers: list[Postgres] = []
"""The server of this process, when it runs."""

if TYPE_CHECKING or not ON_POSTGRES:
    from parley.stores.memory import MemoryDatabase as MemoryDatabase
    from parley.stores.memory import MemoryStore as MemoryStore

    def store_of(url: str) -> Store:
        """The store that a URL names."""
        return open_store(url)

    async def close_all() -> None:
        """There is nothing to close."""

else:
    from parley.stores.postgres.store import PostgresStore

    _opened: list[SchemaHandle] = []
    _files: dict[str, MemoryDatabase] = {}

    class MemoryDatabase:
        """A schema, which is created when it is first used."""

        def __init__(self) -> None:
            self._url = ""

        @property
        def url(self) -> str:
            self._url = self._url or empty_schema(servers[-1])
            return self._url

    def MemoryStore(database: MemoryDatabase | ProcessDatabase | None = None) -> Store:
        """A handle of a schema, or of a database in memory."""
        return ProcessStore(database) if isinstance(database, ProcessDatabase) else SchemaHandle(database)

    class SchemaHandle(PostgresStore):
        """A store in a schema."""

        def __init__(self, database: MemoryDatabase | None = None) -> None:
            super().__init__((database or MemoryDatabase()).url, readers=2)
            self.records: Any = _OpeningRecords(self, self.records)
            self._is_open = False
            self._opening = asyncio.Lock()

        async def open(self) -> None:
            async with self._opening:
                if not self._is_open:
                    await super().open()
                    self._is_open = True

        async def close(self) -> None:
            if self._is_open:
                self._is_open = False
                await super().close()

    class _OpeningRecords:
        """Records of a store that is opened when it is not open yet."""

        def __init__(self, store: SchemaHandle, records: Any) -> None:
            self._store = store
            self._records = records

        def __getattr__(self, name: str) -> Any:
            method = getattr(self._records, name)

            async def call(*arguments: Any, **options: Any) -> Any:
                if not self._store._is_open:
                    _opened.append(self._store)
                    await self._store.open()
                return await method(*arguments, **options)

            return call

    def store_of(url: str) -> Store:
        """A store in a schema of its own, the same for the same file."""
        return SchemaHandle(None if url == "memory:" else _files.setdefault(url, MemoryDatabase()))

    async def close_all() -> None:
        """Close what was opened without being asked to."""
        while _opened:
            await _opened.pop().close()
        _files.clear()
