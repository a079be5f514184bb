"""Which store a URL names, and a block in which a store is open."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from parley.stores.interface import Store, StoreError
from parley.stores.memory import MemoryStore
from parley.stores.sqlite.store import SqliteStore

S = TypeVar("S", bound=Store)


def open_store(url: str) -> Store:
    """The store that a URL names, not opened yet.

    `memory:` keeps nothing, `sqlite:///tasks.db` is a file in the working directory, `sqlite:////var/lib/tasks.db` one
    at an absolute path.

    Raises:
        StoreError: it is not the URL of a store.
    """
    if url == "memory:":
        return MemoryStore()
    return SqliteStore(sqlite_path(url))


def sqlite_path(url: str) -> Path:
    """The file that the URL of a SQLite store names.

    Raises:
        StoreError: it is not the URL of a SQLite store.
    """
    path = url.removeprefix("sqlite:///")
    if path and path != url:
        return Path(path)
    raise StoreError(
        f"Invalid store: {url!r}. Write memory:, sqlite:///file.db (in this directory) or sqlite:////path/to/file.db."
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
