"""The store in one SQLite file: the embedded store, for one process at a time."""

from __future__ import annotations

from pathlib import Path

from parley.stores.interface import StoreError
from parley.stores.sqlite.access import SqliteAccess
from parley.stores.sqlite.contexts import SqliteContexts
from parley.stores.sqlite.file import explained
from parley.stores.sqlite.outbox import SqliteOutbox
from parley.stores.sqlite.sends import SqliteSends
from parley.stores.sqlite.tasks import SqliteTasks


class SqliteStore:
    """A store in a file of this machine."""

    def __init__(self, path: str | Path, *, busy_timeout: float = 5.0) -> None:
        """A store in the file at `path`, which need not exist; `busy_timeout` is how long to wait for a locked file."""
        # Absolute, and without links: two ways to write one path must meet at one lock.
        self._access = SqliteAccess(Path(path).resolve(), busy_timeout=busy_timeout)
        self.sends = SqliteSends(self._access)
        self.tasks = SqliteTasks(self._access, self.sends)
        self.outbox = SqliteOutbox(self._access)
        self.contexts = SqliteContexts(self._access)

    async def open(self) -> None:
        """Take the file, create it if need be, and bring its schema up to date.

        Raises:
            StoreUnavailableError: it cannot be opened; the message says why and what to do.
        """
        reader = await self._access.open()
        try:
            with explained(self._access.path):
                self.sends.open(reader)
        except StoreError:
            await self.close()
            raise

    async def close(self) -> None:
        """Write what is queued, end the reads under way, and let go of the file."""
        self.sends.close()
        await self._access.close()

    def trouble(self) -> str | None:
        """Why nothing can be written, as far as the file and the last write tell; None while all is well."""
        return self._access.trouble()
