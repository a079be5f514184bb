"""Which store a URL names. Nothing is opened here."""

from __future__ import annotations

from parley.stores.interface import StoreError, TaskLog
from parley.stores.memory import MemoryTaskLog
from parley.stores.sqlite import SqliteTaskLog


def open_store(url: str) -> TaskLog:
    """The store that a URL names, not opened yet.

    `memory:` keeps nothing, `sqlite:///tasks.db` is a file in the working directory, `sqlite:////var/lib/tasks.db` one
    at an absolute path.

    Raises:
        StoreError: the URL names no store.
    """
    if url == "memory:":
        return MemoryTaskLog()
    path = url.removeprefix("sqlite:///")
    if path and path != url:
        return SqliteTaskLog(path)
    raise StoreError(
        f"{url!r} names no store. Write memory:, sqlite:///file.db (in this directory) or sqlite:////path/to/file.db."
    )
