"""Idempotency keys: a request that is sent again with the same key joins the request that came first.

Keys belong to a tenant and are forgotten after a day. The content of the two requests is not compared.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import cast

from parley.host.data.expiring import ExpiringRecords
from parley.host.data.keys import IDEMPOTENCY_KEYS
from parley.stores.interface import RecordConflictError, Records

KEY_LIFETIME = timedelta(hours=24)


class IdempotencyKeys:
    """Which request each idempotency key stands for."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._keys = ExpiringRecords(records, collection=IDEMPOTENCY_KEYS, lifetime=KEY_LIFETIME)

    async def claim(self, tenant: str, key: str, request_id: str, now: datetime) -> str:
        """The id of the request that came first with this key: `request_id` itself if there was none within a day."""
        while True:
            earlier = await self._keys.find(tenant, key, now)
            if earlier is not None:
                return cast("str", earlier["request_id"])
            claim = await self._keys.claim(tenant, key, {"request_id": request_id}, now)
            try:
                await self._records.write(claim)
            except RecordConflictError:
                continue  # another request has just claimed it
            await self._keys.prune(tenant, now)
            return request_id
