"""How much the other processes of a host do for each tenant, so that quotas hold for all of them together.

Each process writes one record with its counts, about once in `WRITE_SECONDS` while they change, and reads those of the
others as often. So a quota may be exceeded by what arrives within that time, and never by a factor of the number of
processes. The counts of a process whose lease has expired count no more. A store that one process has to itself needs
none of this.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta

import msgspec
from msgspec import Struct, to_builtins

from parley.engine.engine import Engine
from parley.host.data.epoch import milliseconds
from parley.host.data.keys import HOST, REPLICA_COUNTS
from parley.host.data.paging import each_record
from parley.stores.interface import DeleteRecord, PutRecord, RecordConflictError, RecordKey, Records, StoreError

logger = logging.getLogger(__name__)

WRITE_SECONDS = 0.5

MOST_KNOWN = 200
"""Processes whose last counts are remembered."""

FORGOTTEN_AFTER = timedelta(hours=1)
"""When the counts of a dead process are deleted; one that was only suspended may come back before."""


class TenantCounts(Struct, frozen=True, omit_defaults=True):
    """What one process does for one tenant."""

    active: int = 0
    """Requests that are at work or wait, without what their agents delegated."""
    waiting: int = 0
    """Runs that wait for their turn."""
    running: int = 0
    """Runs that are at work."""
    taken: int = 0
    """Messages that were counted for `requests_per_minute`, since the process began."""


class ReplicaCounts:
    """The counts of this process and those of the others.

    `own` gives the counts of this process by tenant. `on_taken` is called with a tenant and how many messages other
    processes have counted since the last time.
    """

    def __init__(
        self,
        records: Records,
        engine: Engine,
        *,
        own: Callable[[], Mapping[str, TenantCounts]],
        on_taken: Callable[[str, int], None],
    ) -> None:
        self._records = records
        self._engine = engine
        self._own = own
        self._on_taken = on_taken
        self._written: Mapping[str, TenantCounts] = {}
        self._known: dict[str, dict[str, TenantCounts]] = {}
        """The last counts of each process, also of those that are gone and may come back, by tenant."""
        self._has_read = False
        self._active: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        self._running: Counter[str] = Counter()

    def active(self, tenant: str) -> int:
        """How many requests of a tenant other processes work on or have waiting."""
        return self._active[tenant]

    def waiting(self, tenant: str) -> int:
        """How many runs of a tenant wait in other processes."""
        return self._waiting[tenant]

    def running(self, tenant: str) -> int:
        """How many runs of a tenant are at work in other processes."""
        return self._running[tenant]

    def tenants(self) -> frozenset[str]:
        """The tenants that have work in other processes."""
        return frozenset(+self._waiting) | frozenset(+self._running)

    async def keep_counting(self) -> None:
        """Write and read counts until this is cancelled."""
        while True:
            try:
                await self.write()
                await self.read()
            except StoreError as error:
                logger.warning("The counts of other processes could not be read: %s", error)
            await self._engine.clock.sleep(WRITE_SECONDS)

    async def write(self) -> None:
        """Write the counts of this process if they have changed. Raises StoreError."""
        own = self._own()
        if own != self._written:
            now = milliseconds(self._engine.clock.now())
            await self._records.write(PutRecord(self._key, {"tenants": to_builtins(own)}, now))
            self._written = own

    async def read(self) -> None:
        """Learn the counts of the other processes. Raises StoreError."""
        worker, live = self._engine.lease.worker, await self._engine.store.leases.live()
        forgotten = milliseconds(self._engine.clock.now() - FORGOTTEN_AFTER)
        found: dict[str, dict[str, TenantCounts]] = {}
        async for record in each_record(self._records, REPLICA_COUNTS, HOST):
            if record.key.id in live and record.key.id != worker:
                found[record.key.id] = msgspec.convert(record.value["tenants"], dict[str, TenantCounts])
            elif record.key.id not in live and record.sort < forgotten:
                with suppress(RecordConflictError):  # another process deletes it, or its process is back
                    await self._records.write(DeleteRecord(record.key, record.revision))
        for process, counts in found.items():
            before = self._known.pop(process, {})  # and back in at the end: the first are those that were long not seen
            self._known[process] = counts
            if not self._has_read:
                before = counts  # what others took before this process began is not counted here
            for tenant, one in counts.items():
                new = one.taken - before.get(tenant, TenantCounts()).taken
                if new > 0:
                    self._on_taken(tenant, new)
        self._has_read = True
        while len(self._known) > MOST_KNOWN:
            del self._known[next(iter(self._known))]
        every = [(tenant, one) for counts in found.values() for tenant, one in counts.items()]
        self._active, self._waiting, self._running = Counter(), Counter(), Counter()
        for tenant, one in every:
            self._active[tenant] += one.active
            self._waiting[tenant] += one.waiting
            self._running[tenant] += one.running

    @property
    def _key(self) -> RecordKey:
        return RecordKey(REPLICA_COUNTS, HOST, self._engine.lease.worker)
