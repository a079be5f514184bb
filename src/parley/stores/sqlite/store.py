"""The store in one SQLite file: the embedded store, for one process, or for several of one machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from parley.sealed.sealer import Sealer
from parley.sealed.sources import KeyFile, KeySource, key_file_beside
from parley.stores.interface import (
    ContextValues,
    Inbox,
    Leases,
    Outbox,
    OwnerData,
    Records,
    SendRecords,
    TaskLog,
)
from parley.stores.process_leases import ProcessLeases
from parley.stores.sqlite.access import SqliteAccess
from parley.stores.sqlite.contexts import SqliteContexts
from parley.stores.sqlite.file import explained
from parley.stores.sqlite.inbox import SqliteInbox
from parley.stores.sqlite.leases import SqliteLeases
from parley.stores.sqlite.outbox import SqliteOutbox
from parley.stores.sqlite.owner_data import SqliteOwnerData
from parley.stores.sqlite.records import SqliteRecords
from parley.stores.sqlite.secret_rows import SqliteSecretRows
from parley.stores.sqlite.sends import SqliteSends
from parley.stores.sqlite.tasks import SqliteTasks
from parley.stores.store_secrets import StoreSecrets


class SqliteStore:
    """A store in a file of this machine."""

    def __init__(
        self,
        path: str | Path,
        *,
        shared: bool = False,
        busy_timeout: float = 5.0,
        now: Callable[[], float] | None = None,
        keys: KeySource | None = None,
    ) -> None:
        """A store in the file at `path`, which need not exist.

        If it is `shared`, other processes of this machine may use the file at the same time; each must say so.
        `busy_timeout` is how many seconds to wait for a locked file. `now` is a clock of seconds, for leases. `keys`
        encrypt secrets; without them, a key in the file `{path}.key` does, which is made when it is not there.
        """
        # Absolute, and without links: two ways to write one path must meet at one lock.
        self._access = SqliteAccess(Path(path).resolve(), is_shared=shared, busy_timeout=busy_timeout)
        self.is_shared = shared
        self.sealer = Sealer()
        self._sends = SqliteSends(self._access)
        self.sends: SendRecords = self._sends
        self.tasks: TaskLog = SqliteTasks(self._access, self._sends, self.sealer)
        self.outbox: Outbox = SqliteOutbox(self._access, self.sealer)
        self.contexts: ContextValues = SqliteContexts(self._access)
        self.inbox: Inbox = SqliteInbox(self._access, self.sealer)
        self.records: Records = SqliteRecords(self._access, self.sealer)
        self.owner_data: OwnerData = SqliteOwnerData(self._access)
        self._process_leases = ProcessLeases(now or time.monotonic)
        self.leases: Leases = SqliteLeases(self._access, now or time.time) if shared else self._process_leases
        self.secrets = StoreSecrets(
            self.sealer,
            SqliteSecretRows(self._access),
            self.records,
            source=keys,
            beside=KeyFile(key_file_beside(self.path)),
        )

    @property
    def path(self) -> Path:
        """The file."""
        return self._access.path

    async def open(self) -> None:
        """Take the file, create it if need be, and bring its schema up to date.

        Raises:
            StoreUnavailableError: it cannot be opened; the message says why and what to do.
        """
        reader = await self._access.open()
        self._process_leases.end_all()
        try:
            with explained(self._access.path):
                if not self.is_shared:
                    self._sends.open(reader)
            await self.secrets.open()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Write what is queued, end the reads under way, and let go of the file."""
        await self.secrets.close()
        self._sends.close()
        await self._access.close()

    def problem(self) -> str | None:
        """Why nothing can be written, by the file and the last write; None if writes succeed."""
        return self._access.problem()
