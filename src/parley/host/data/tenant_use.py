"""When each tenant was last used. This is for people to look at, so up to a minute of it may be lost in a crash."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from parley.engine.clock import Clock
from parley.host.data.epoch import seconds
from parley.host.data.keys import HOST, TENANT_USE
from parley.host.data.paging import each_record
from parley.stores.interface import PutRecord, RecordKey, Records, StoreError

WRITE_INTERVAL = 60.0
"""Seconds from one write for a tenant to the next."""


class TenantUse:
    """The last uses of all tenants, in memory."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self._last_used: dict[str, int] = {}
        self._written: dict[str, float] = {}

    async def load(self) -> None:
        """Read what was written, also by other processes."""
        async for record in each_record(self._records, TENANT_USE, HOST):
            tenant_id, used_at = record.key.id, msgspec.convert(record.value["last_used_at"], int)
            self._last_used[tenant_id] = max(used_at, self.of(tenant_id))

    def of(self, tenant_id: str) -> int:
        """When a tenant was last used, in seconds since 1970; 0: never."""
        return self._last_used.get(tenant_id, 0)

    async def touch(self, tenant_id: str) -> None:
        """Note that a tenant is used now, and write it if the last write was `WRITE_INTERVAL` ago."""
        now = self._last_used[tenant_id] = seconds(self._clock.now())
        written = self._written.get(tenant_id)
        if written is None or self._clock.monotonic() - written >= WRITE_INTERVAL:
            self._written[tenant_id] = self._clock.monotonic()
            with suppress(StoreError):  # a request must not fail because of this
                await self._records.write(PutRecord(RecordKey(TENANT_USE, HOST, tenant_id), {"last_used_at": now}))
