"""The store in a PostgreSQL database: for any number of processes on any machines."""

from __future__ import annotations

from collections.abc import Callable

from parley.sealed.sealer import Sealer
from parley.sealed.sources import KeySource
from parley.stores.interface import ContextValues, Inbox, Leases, Outbox, OwnerData, Records, SendRecords, TaskLog
from parley.stores.postgres.access import PostgresAccess
from parley.stores.postgres.address import parse_address
from parley.stores.postgres.contexts import PostgresContexts
from parley.stores.postgres.inbox import PostgresInbox
from parley.stores.postgres.leases import PostgresLeases
from parley.stores.postgres.outbox import PostgresOutbox
from parley.stores.postgres.owner_data import PostgresOwnerData
from parley.stores.postgres.records import PostgresRecords
from parley.stores.postgres.secret_rows import PostgresSecretRows
from parley.stores.postgres.sends import PostgresSends
from parley.stores.postgres.tasks import PostgresTasks
from parley.stores.store_secrets import StoreSecrets

READERS = 5
"""Connections for reads, beside the one that writes: ten processes then fit into the hundred that servers allow."""

PATIENCE = 10.0
"""Seconds that reads and writes wait for a lost connection. A restart of PostgreSQL takes some of them."""


class PostgresStore:
    """A store in a database of PostgreSQL 14 or newer."""

    is_shared = True

    def __init__(
        self,
        url: str,
        *,
        readers: int = READERS,
        patience: float = PATIENCE,
        migrates: bool = True,
        now: Callable[[], float] | None = None,
        keys: KeySource | None = None,
    ) -> None:
        """A store in the database, and in the first schema of its `search_path`, that a URL names.

        `readers` is how many connections it opens for reads at most. `patience` is how many seconds reads and writes
        wait for a lost connection. Without `migrates`, a database whose schema is not up to date is refused and left
        as it is. `now` is a clock of seconds for leases; without it the database's counts. `keys` encrypt secrets,
        and every process on the database needs them; without, secrets are kept as they are.

        Raises:
            StoreError: it is not the URL of a PostgreSQL database.
        """
        self._reads_secrets = migrates  # `parley cluster` opens a store without migrating, and reads no secrets
        self._access = PostgresAccess(parse_address(url), readers=readers, patience=patience, migrates=migrates)
        self.sealer = Sealer()
        self.tasks: TaskLog = PostgresTasks(self._access, self.sealer)
        self.sends: SendRecords = PostgresSends(self._access)
        self.outbox: Outbox = PostgresOutbox(self._access, self.sealer)
        self.contexts: ContextValues = PostgresContexts(self._access)
        self.records: Records = PostgresRecords(self._access, self.sealer)
        self.leases: Leases = PostgresLeases(self._access, now)
        self.inbox: Inbox = PostgresInbox(self._access, self.sealer)
        self.owner_data: OwnerData = PostgresOwnerData(self._access)
        self.secrets = StoreSecrets(self.sealer, PostgresSecretRows(self._access), self.records, source=keys)

    async def open(self) -> None:
        """Connect, and bring the schema up to date or check that it is.

        Raises:
            StoreUnavailableError: that is not possible; the message says why and what to do.
        """
        await self._access.open()
        if not self._reads_secrets:
            return
        try:
            await self.secrets.open()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Write what is queued, end the reads under way, and close the connections."""
        await self.secrets.close()
        await self._access.close()

    def problem(self) -> str | None:
        """Why nothing can be written; None if writes succeed."""
        return self._access.problem()
