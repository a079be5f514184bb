"""The leases of workers in several processes, in SQLite: by the clock of the machine that they share."""

from __future__ import annotations

from collections.abc import Callable

from parley.stores.sqlite.access import SqliteAccess

MICROSECONDS = 1_000_000

LONG_AGO = 3_600.0
"""Seconds after which an expired lease is deleted: it is of no use, but shows people which workers there were."""


class SqliteLeases:
    """The leases of all workers that use the file."""

    def __init__(self, access: SqliteAccess, now: Callable[[], float]) -> None:
        """`now` is a clock of the seconds since 1970."""
        self._access = access
        self._now = now

    async def renew(self, worker: str, *, seconds: float) -> None:
        """Let a worker count as alive for this many seconds from now."""
        await self._access.execute("INSERT OR REPLACE INTO leases VALUES (?, ?)", worker, self._moment(seconds))

    async def live(self) -> frozenset[str]:
        """The workers whose leases have not expired."""
        now = self._moment(0)
        return self._access.read_now(
            lambda reader: frozenset(
                [worker for (worker,) in reader.execute("SELECT worker FROM leases WHERE expires_at > ?", (now,))]
            )
        )

    async def release(self, worker: str) -> None:
        """End a worker's lease now, and delete leases that expired long ago."""
        await self._access.execute(
            "DELETE FROM leases WHERE worker = ? OR expires_at < ?", worker, self._moment(-LONG_AGO)
        )

    def _moment(self, seconds: float) -> int:
        return round((self._now() + seconds) * MICROSECONDS)
