"""Links that log a browser in once: `/console/#once=CODE`.

A code stands in the fragment of a URL, which browsers send to no server. The store keeps its hash, what it is for and
until when. Using a code deletes that record first, so a code in a history or a log is worthless, at any replica.
"""

from __future__ import annotations

import hashlib
import secrets

from parley.console.api.errors import ConsoleError
from parley.engine.clock import Clock
from parley.engine.store_errors import translated
from parley.stores.interface import DeleteRecord, PutRecord, RecordConflictError, RecordKey, Records

COLLECTION = "console-links"
VALID_SECONDS = 600
MOST_LINKS = 100
"""Unused links; beyond it, the oldest is removed."""

MAX_CODE = 100


class OnceLinks:
    """The links of a server. What a link is for is a text that the backend understands: on a host, a tenant's id."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock

    async def create(self, purpose: str) -> str:
        """A new code, valid for ten minutes."""
        code, now = secrets.token_urlsafe(24), self._clock.now().timestamp()
        with translated:
            await self._make_room(now)
            expires_at = int((now + VALID_SECONDS) * 1_000)
            await self._records.write(PutRecord(_key(code), {"purpose": purpose}, expires_at, expected=0))
        return code

    async def use(self, code: str) -> str:
        """What a code is for. It is used up by this.

        Raises:
            ConsoleError: the code was used before, has expired, or never was one.
        """
        key = _key(code)
        with translated:
            record = await self._records.get(key) if len(code) <= MAX_CODE else None
            if record is None:
                raise _refused()
            try:
                await self._records.write(DeleteRecord(key, record.revision))
            except RecordConflictError:  # another request was faster
                raise _refused() from None
        if record.sort <= self._clock.now().timestamp() * 1_000:
            raise _refused()
        return str(record.value["purpose"])

    async def _make_room(self, now: float) -> None:
        oldest = await self._records.list(COLLECTION, "", limit=MOST_LINKS, newest_first=False)
        gone = [record for record in oldest if record.sort <= now * 1_000] or oldest[: len(oldest) // MOST_LINKS]
        if gone:
            await self._records.write(*[DeleteRecord(record.key) for record in gone])


def _key(code: str) -> RecordKey:
    return RecordKey(COLLECTION, "", hashlib.sha256(code.encode("utf-8", "replace")).hexdigest())


def _refused() -> ConsoleError:
    return ConsoleError(
        "unauthenticated",
        "This link was used before, or is older than ten minutes. Log in, or get a new link.",
        path="$.once",
    )
