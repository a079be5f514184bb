"""The leases of workers on any machines, in PostgreSQL: by the clock of the database.

They do not go through the writer, and wait for no read: a worker must be able to renew its lease however much waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from parley.protocol.jsonvalue import JsonObject
from parley.stores.encoding import decode_object, encode
from parley.stores.interface.leases import LONG_AGO, Worker
from parley.stores.postgres.access import PostgresAccess, require_names
from parley.stores.postgres.statements import load_statements

MICROSECONDS = 1_000_000

_STATEMENTS = load_statements("leases")


class PostgresLeases:
    """The leases of all workers that use the database."""

    def __init__(self, access: PostgresAccess, now: Callable[[], float] | None) -> None:
        """`now` is a clock of the seconds since 1970; None: that of the database."""
        self._access = access
        self._now = now

    async def renew(self, worker: str, *, seconds: float, report: JsonObject | None = None) -> bool:
        """Let a worker count as alive for this many seconds from now; return whether it was asked to drain."""
        require_names(worker)
        text = None if report is None else encode(report)
        values = (worker, self._moment(), round(seconds * MICROSECONDS), text)
        ((is_asked_to_drain,),) = await self._access.fetch(_STATEMENTS["renew"], *values, is_urgent=True)
        return is_asked_to_drain

    async def live(self) -> frozenset[str]:
        """The workers whose leases have not expired."""
        rows = await self._access.fetch(_STATEMENTS["live"], self._moment(), is_urgent=True)
        return frozenset([worker for (worker,) in rows])

    async def workers(self) -> Sequence[Worker]:
        """The workers by name, with those whose leases expired lately."""
        long_ago = round(LONG_AGO * MICROSECONDS)
        rows = await self._access.fetch(_STATEMENTS["workers"], self._moment(), long_ago)
        return [
            Worker(worker, expires_in / MICROSECONDS, decode_object(report), is_asked_to_drain)
            for worker, expires_in, report, is_asked_to_drain in rows
        ]

    async def ask_to_drain(self, worker: str) -> bool:
        """Leave a request to drain for a worker. Return False if no live worker has that name."""
        return await self._access.fetch_value(_STATEMENTS["ask_to_drain"], worker, self._moment()) is not None

    async def release(self, worker: str) -> None:
        """End a worker's lease now, and delete leases that expired long ago."""
        values = (worker, self._moment(), round(LONG_AGO * MICROSECONDS))
        await self._access.fetch(_STATEMENTS["release"], *values, is_urgent=True)

    def _moment(self) -> int | None:
        return round(self._now() * MICROSECONDS) if self._now is not None else None
