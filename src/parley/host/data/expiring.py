"""Records that are forgotten after a time: idempotency keys, and the keys of writes that may be repeated.

A record that is too old counts as absent at once. It is deleted later, with others of its tenant, when new ones come.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from datetime import datetime, timedelta

from parley.host.data.epoch import milliseconds
from parley.protocol.jsonvalue import JsonObject
from parley.stores.interface import DeleteRecord, PutRecord, Record, RecordConflictError, RecordKey, Records

PRUNE_EVERY = 64
"""Calls of `prune` for a tenant from one pruning to the next."""

PRUNE_PAGE = 256
"""Records that one pruning deletes at most: more than come in between, so that a backlog shrinks."""


class ExpiringRecords:
    """The records of one collection that are younger than `lifetime`."""

    def __init__(self, records: Records, *, collection: str, lifetime: timedelta) -> None:
        self._records = records
        self._collection = collection
        self._lifetime = lifetime
        self._added: Counter[str] = Counter()

    async def find(self, tenant: str, id: str, now: datetime) -> JsonObject | None:
        """The value of a record that is young enough."""
        record = await self._records.get(self._key(tenant, id))
        return record.value if record is not None and not self._is_old(record, now) else None

    async def claim(self, tenant: str, id: str, value: JsonObject, now: datetime) -> PutRecord:
        """The change that creates a record where none is young enough. Write it with the changes that it belongs to.

        The store refuses it if another writer has created the record by then.
        """
        record = await self._records.get(self._key(tenant, id))
        is_taken = record is not None and not self._is_old(record, now)
        revision = record.revision if record is not None and not is_taken else 0
        return PutRecord(self._key(tenant, id), value, milliseconds(now), expected=revision)

    async def prune(self, tenant: str, now: datetime) -> None:
        """Delete some old records of a tenant, once in `PRUNE_EVERY` calls. Call it after each new record."""
        self._added[tenant] += 1
        if self._added[tenant] < PRUNE_EVERY:
            return
        del self._added[tenant]
        oldest = await self._records.list(self._collection, tenant, limit=PRUNE_PAGE, newest_first=False)
        with suppress(
            RecordConflictError
        ):  # another process prunes, or renews one of them: the next pruning tries again
            await self._records.write(
                *(DeleteRecord(record.key, record.revision) for record in oldest if self._is_old(record, now))
            )

    def _is_old(self, record: Record, now: datetime) -> bool:
        return record.sort <= milliseconds(now - self._lifetime)

    def _key(self, tenant: str, id: str) -> RecordKey:
        return RecordKey(self._collection, tenant, id)
