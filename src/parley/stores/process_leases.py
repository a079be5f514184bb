"""The leases of workers that share a process: for stores that no other process can use."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from msgspec import Struct

from parley.protocol.jsonvalue import JsonObject
from parley.stores.encoding import decode_object, encode
from parley.stores.interface.leases import LONG_AGO, Worker


class _Lease(Struct):
    expires_at: float
    report: str = "{}"
    """As JSON: the worker may change the object that it gave."""
    is_asked_to_drain: bool = False


class ProcessLeases:
    """Leases in memory. They end with the process, or when the store is opened again."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """`now` is a clock of seconds."""
        self._now = now
        self._leases: dict[str, _Lease] = {}

    async def renew(self, worker: str, *, seconds: float, report: JsonObject | None = None) -> bool:
        """Let a worker count as alive for this many seconds from now; whether it was asked to drain."""
        encoded = None if report is None else encode(report)
        lease = self._leases.setdefault(worker, _Lease(0))
        lease.expires_at = self._now() + seconds
        if encoded is not None:
            lease.report = encoded
        return lease.is_asked_to_drain

    async def live(self) -> frozenset[str]:
        """The workers whose leases have not expired."""
        now = self._now()
        return frozenset([worker for worker, lease in self._leases.items() if lease.expires_at > now])

    async def workers(self) -> Sequence[Worker]:
        """The workers by name, with those whose leases expired lately."""
        now = self._now()
        return [
            Worker(name, lease.expires_at - now, decode_object(lease.report), lease.is_asked_to_drain)
            for name, lease in sorted(self._leases.items())
            if lease.expires_at > now - LONG_AGO
        ]

    async def ask_to_drain(self, worker: str) -> bool:
        """Leave a request to drain for a worker. Return False if no live worker has that name."""
        if worker not in await self.live():
            return False
        self._leases[worker].is_asked_to_drain = True
        return True

    async def release(self, worker: str) -> None:
        """End a worker's lease now, and delete leases that expired long ago."""
        long_ago = self._now() - LONG_AGO
        self._leases = {
            name: lease for name, lease in self._leases.items() if name != worker and lease.expires_at > long_ago
        }

    def end_all(self) -> None:
        """End the leases of all workers."""
        self._leases.clear()
