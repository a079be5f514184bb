"""The leases of workers in several processes, in SQLite: by the clock of the machine that they share."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

from parley.protocol.jsonvalue import JsonObject
from parley.stores.encoding import decode_object, encode
from parley.stores.interface.leases import LONG_AGO, Worker
from parley.stores.sqlite.access import SqliteAccess

MICROSECONDS = 1_000_000

_RENEW = """
    INSERT INTO leases (worker, expires_at, report) VALUES (?1, ?2, coalesce(?3, '{}'))
    ON CONFLICT (worker) DO UPDATE SET expires_at = ?2, report = coalesce(?3, report)
"""


class SqliteLeases:
    """The leases of all workers that use the file."""

    def __init__(self, access: SqliteAccess, now: Callable[[], float]) -> None:
        """`now` is a clock of the seconds since 1970."""
        self._access = access
        self._now = now

    async def renew(self, worker: str, *, seconds: float, report: JsonObject | None = None) -> bool:
        """Let a worker count as alive for this many seconds from now; whether it was asked to drain."""
        values = (worker, self._moment(seconds), None if report is None else encode(report))

        def change(writer: sqlite3.Connection) -> bool:
            writer.execute(_RENEW, values)
            query = "SELECT is_asked_to_drain FROM leases WHERE worker = ?"
            (is_asked,) = writer.execute(query, (worker,)).fetchone()
            return bool(is_asked)

        return await self._access.submit(change, worker)

    async def live(self) -> frozenset[str]:
        """The workers whose leases have not expired."""
        now = self._moment(0)
        return self._access.read_now(
            lambda reader: frozenset(
                [worker for (worker,) in reader.execute("SELECT worker FROM leases WHERE expires_at > ?", (now,))]
            )
        )

    async def workers(self) -> Sequence[Worker]:
        """The workers by name, with those whose leases expired lately."""
        now = self._moment(0)
        query = """
            SELECT worker, expires_at, report, is_asked_to_drain FROM leases WHERE expires_at > ? ORDER BY worker
        """
        return self._access.read_now(
            lambda reader: [
                Worker(worker, (expires_at - now) / MICROSECONDS, decode_object(report), bool(is_asked))
                for worker, expires_at, report, is_asked in reader.execute(query, (self._moment(-LONG_AGO),))
            ]
        )

    async def ask_to_drain(self, worker: str) -> bool:
        """Leave a request to drain for a worker. Return False if no live worker has that name."""
        statement = "UPDATE leases SET is_asked_to_drain = 1 WHERE worker = ? AND expires_at > ?"
        values = (worker, self._moment(0))
        return await self._access.submit(lambda writer: writer.execute(statement, values).rowcount > 0, worker)

    async def release(self, worker: str) -> None:
        """End a worker's lease now, and delete leases that expired long ago."""
        await self._access.execute(
            "DELETE FROM leases WHERE worker = ? OR expires_at < ?", worker, self._moment(-LONG_AGO)
        )

    def _moment(self, seconds: float) -> int:
        return round((self._now() + seconds) * MICROSECONDS)
