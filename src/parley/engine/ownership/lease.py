"""The worker's lease: while it lasts, no other worker takes over the tasks that this one holds.

A worker is one engine in one process. The lease is renewed five times in its duration. In a store that is not shared
it never ends, because the store belongs to this process. A worker whose lease expired while it was suspended may
continue: the store refuses what it writes to tasks that others have claimed. It must check only before a side effect.
With each renewal the worker reports what it does, and hears whether it was asked to drain.

What keeps a worker from renewing may keep all of them from it, such as a store that is away for longer than a lease.
Then all leases have expired, and no worker has died. So a worker that could not renew its own lease in time gives the
others the time of a lease to renew theirs, before it counts them as dead. One that starts does so, too, if it finds
leases that were not renewed in time: it does not know whether the store could be reached.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from math import inf

from parley.engine.clock import Clock
from parley.protocol.jsonvalue import JsonObject
from parley.stores.interface import Store, StoreError

logger = logging.getLogger(__name__)

RENEWALS = 5
"""Renewals per lease period. A worker counts as dead after missing this many in a row."""

SURELY_RENEWED = 1.5
"""In how many renewals' time a live worker surely renews its lease, if it can reach the store."""


class Lease:
    """This worker's lease."""

    def __init__(
        self,
        store: Store,
        worker: str,
        *,
        clock: Clock,
        seconds: float,
        report: Callable[[], JsonObject] | None = None,
        on_drain_asked: Callable[[], None] | None = None,
    ) -> None:
        """`report` is what the worker says of itself; `on_drain_asked` is called when it was asked to drain."""
        self.worker = worker
        self._store = store
        self._clock = clock
        self._seconds = seconds if store.is_shared else inf
        self._report = report
        self._on_drain_asked = on_drain_asked
        self._renewed_at = clock.monotonic()
        self._missed_until = -inf
        """When it was renewed after those of others may have expired, although they are alive."""
        self._epoch = 1
        self._is_released = False
        self._changing = asyncio.Lock()
        """So that a renewal which is under way cannot come after the release."""

    @property
    def epoch(self) -> int | None:
        """Changes whenever the lease lapsed and was renewed; None while lapsed."""
        if not self._store.is_shared or self._clock.monotonic() - self._renewed_at < self._seconds:
            return self._epoch
        return None

    def seconds_of_doubt(self, live: frozenset[str] | None = None) -> float:
        """For how long the leases of others prove nothing, because this worker could not renew its own; mostly 0.

        `live` are the workers that are alive, as the store said.
        """
        if not self._store.is_shared:
            return 0.0
        if self._has_missed_renewals or (live is not None and self.worker not in live):
            return self._seconds  # at least: it is not renewed yet
        return max(0.0, self._missed_until + self._seconds - self._clock.monotonic())

    async def workers_alive(self) -> frozenset[str]:
        """The workers whose leases have not expired; while expiry proves nothing, all known ones. Raises StoreError."""
        leases = self._store.leases
        live = await leases.live()
        return live | {each.worker for each in await leases.workers()} if self.seconds_of_doubt(live) else live

    @property
    def _has_missed_renewals(self) -> bool:
        """Whether so much time passed since the last renewal that leases of live workers may have expired."""
        return self._clock.monotonic() - self._renewed_at >= self._seconds * (1 - SURELY_RENEWED / RENEWALS)

    async def acquire(self) -> None:
        """Begin. Leases of workers that were killed long ago are deleted: they could not do it. Raises StoreError."""
        is_doubtful = False
        if self._store.is_shared:
            others = [each for each in await self._store.leases.workers() if each.worker != self.worker]
            is_doubtful = any(each.expires_in <= self._seconds * (1 - SURELY_RENEWED / RENEWALS) for each in others)
            await self._store.leases.release(self.worker)
        await self.renew()
        self._missed_until = self._clock.monotonic() if is_doubtful else -inf

    async def renew(self) -> None:
        """Acquire the lease, or extend it: it now lasts for its full duration. Raises StoreError."""
        async with self._changing:
            if self._is_released:
                return
            now = self._clock.monotonic()
            report = self._report() if self._report is not None and self._store.is_shared else None
            is_asked = await self._store.leases.renew(self.worker, seconds=self._seconds, report=report)
            if self._has_missed_renewals:
                self._missed_until = self._clock.monotonic()
            if self.epoch is None:
                self._epoch += 1
            self._renewed_at = now
        if is_asked and self._on_drain_asked is not None:
            self._on_drain_asked()

    async def keep_renewing(self) -> None:
        """Renew the lease regularly."""
        while not self._is_released:
            try:
                if self.worker not in await self._store.leases.live():  # the clock of the store may have been set
                    self._renewed_at = -inf
                await self.renew()
            except StoreError as error:
                logger.warning("The lease of this worker could not be renewed: %s", error)
            await self._clock.sleep(self._seconds / RENEWALS)

    async def release(self) -> None:
        """End the lease, so that others can claim at once what this worker still holds."""
        async with self._changing:
            self._is_released = True
            try:
                await self._store.leases.release(self.worker)
            except StoreError as error:
                logger.warning("The lease of this worker could not be released; it ends by itself: %s", error)
