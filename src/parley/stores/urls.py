"""Which store a URL names, and a block in which a store is open."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from parley.sealed.sources import KeySource
from parley.stores.interface import Store, StoreError
from parley.stores.memory import MemoryStore
from parley.stores.sqlite.store import SqliteStore

S = TypeVar("S", bound=Store)


def open_store(url: str, *, migrates: bool = True, keys: KeySource | None = None) -> Store:
    """The store that a URL names, not opened yet.

    `memory:` keeps nothing, `sqlite:///tasks.db` is a file in the working directory, `sqlite:////var/lib/tasks.db` one
    at an absolute path, `postgresql://user@host/database` a database that other processes may use, too.
    Without `migrates`, a PostgreSQL database whose schema is not up to date is refused and left as it is.
    `keys` encrypt secrets; without them a SQLite file has a key beside it, and PostgreSQL holds secrets as they are.

    Raises:
        StoreError: it is not the URL of a store, or the driver of the database is not installed.
    """
    if url == "memory:":
        return MemoryStore()
    if is_postgres(url):
        return _postgres_store(url, migrates=migrates, keys=keys)
    return SqliteStore(sqlite_path(url), keys=keys)


def is_postgres(url: str) -> bool:
    """Whether a URL names a PostgreSQL database."""
    return url.startswith(("postgresql://", "postgres://"))


def _postgres_store(url: str, *, migrates: bool, keys: KeySource | None) -> Store:
    if find_spec("asyncpg") is None:
        raise StoreError("A store in PostgreSQL needs asyncpg. Install it with: pip install 'parley-a2a[postgres]'")
    from parley.stores.postgres.store import PostgresStore  # only here: it imports the driver

    return PostgresStore(url, migrates=migrates, keys=keys)


def sqlite_path(url: str) -> Path:
    """The file that the URL of a SQLite store names.

    Raises:
        StoreError: it is not the URL of a SQLite store.
    """
    path = url.removeprefix("sqlite:///")
    if path and path != url:
        return Path(path)
    shown = f"{url.partition('://')[0]}://…" if "@" in url else url  # before an @ there may be a password
    raise StoreError(
        f"Invalid store: {shown!r}. Write memory:, sqlite:///file.db (in this directory), sqlite:////path/to/file.db "
        "or postgresql://user@host/database."
    )


@asynccontextmanager
async def opened(store: S) -> AsyncGenerator[S]:
    """The store, open until the block ends: `async with opened(open_store(url)) as store: …`.

    Engines neither open nor close their store, so that several may share one.

    Raises:
        StoreUnavailableError: it cannot be opened; the message says why and what to do.
    """
    await store.open()
    try:
        yield store
    finally:
        await store.close()
