"""Leases: which workers are alive. One lease per worker, however many tasks it holds.

A worker is one engine in one process. A lease decides only when others may take a worker's tasks over; what keeps a
worker that was wrongly believed dead from writing is the fence in `TaskLog.write`. So a wrong clock costs time, and
never an event. Expiry is judged by the store's clock.
"""

from __future__ import annotations

from typing import Protocol


class Leases(Protocol):
    """The leases of all workers that use the store."""

    async def renew(self, worker: str, *, seconds: float) -> None:
        """Let a worker count as alive for this many seconds from now."""
        ...

    async def live(self) -> frozenset[str]:
        """The workers whose leases have not expired."""
        ...

    async def release(self, worker: str) -> None:
        """End a worker's lease now, and delete leases that expired long ago."""
        ...
