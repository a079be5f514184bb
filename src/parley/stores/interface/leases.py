"""Leases: which workers are alive, and what they say of themselves. One lease per worker, however many tasks it holds.

A worker is one engine in one process. A lease decides only when others may take a worker's tasks over; what keeps a
worker that was wrongly believed dead from writing is the fence in `TaskLog.write`. So a wrong clock costs time, and
never an event. Expiry is judged by the store's clock. A report is for people and monitoring: no decision of an engine
depends on it. A request to drain waits at the lease until the worker renews it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from parley.protocol.jsonvalue import JsonObject

LONG_AGO = 3_600.0
"""Seconds after which an expired lease is deleted: it is of no use, but shows people which workers there were."""


class Worker(Struct, frozen=True, gc=False):
    """A worker as its lease shows it."""

    worker: str
    expires_in: float
    """Seconds by the store's clock; zero or negative if the lease has expired."""
    report: JsonObject
    """What the worker last said of itself; empty if it said nothing."""
    is_asked_to_drain: bool


class Leases(Protocol):
    """The leases of all workers that use the store."""

    async def renew(self, worker: str, *, seconds: float, report: JsonObject | None = None) -> bool:
        """Let a worker count as alive for this many seconds from now, and replace its report if one is given.

        Returns:
            Whether the worker was asked to drain.
        """
        ...

    async def live(self) -> frozenset[str]:
        """The workers whose leases have not expired."""
        ...

    async def workers(self) -> Sequence[Worker]:
        """The workers by name, with those whose leases expired less than `LONG_AGO` seconds ago."""
        ...

    async def ask_to_drain(self, worker: str) -> bool:
        """Leave a request to drain for a worker. Return False if no live worker has that name."""
        ...

    async def release(self, worker: str) -> None:
        """End a worker's lease now, and delete leases that expired long ago."""
        ...
