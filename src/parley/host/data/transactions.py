"""Reading records, deciding what to change, and writing it, as one transaction.

A decision reads records and says which changes to make, each with the revision that it has read. If another writer was
quicker, the store refuses the changes and the decision is made again. Transactions of one tenant take turns within the
process, so that they do not refuse one another; only other processes can be quicker.

A transaction with a key happens once: the key is written together with the changes, and the same key later changes
nothing and returns what it returned then. A run that is repeated after a crash gives the keys that it gave before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TypeAlias, TypeVar, cast
from weakref import WeakValueDictionary

from parley.engine.clock import Clock
from parley.host.data.expiring import ExpiringRecords
from parley.host.data.keys import KEYED_WRITES
from parley.stores.interface import RecordChange, RecordConflictError, Records

T = TypeVar("T")

Decision: TypeAlias = tuple[T, Sequence[RecordChange]]
"""What a transaction returns, and the changes that it makes."""

MAX_ATTEMPTS = 50
"""Every refusal means that another process has written. So many in a row do not happen; an endless loop must not."""

KEY_LIFETIME = timedelta(days=30)
"""How long a crashed run may wait for its host to start again without repeating a write."""


class TenantTransactions:
    """The transactions of tenants, one at a time for each."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self._keys = ExpiringRecords(records, collection=KEYED_WRITES, lifetime=KEY_LIFETIME)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def run(self, tenant: str, decide: Callable[[], Awaitable[Decision[T]]]) -> T:
        """The result of the decision whose changes were written, or what a decision raises.

        Raises:
            RecordConflictError: other processes were quicker every time.
        """
        lock = self._locks.setdefault(tenant, asyncio.Lock())
        async with lock:
            for _ in range(MAX_ATTEMPTS - 1):
                try:
                    return await self._attempt(decide)
                except RecordConflictError:
                    continue
            return await self._attempt(decide)

    async def run_once(
        self, tenant: str, operation: str, decide: Callable[[], Awaitable[Decision[int]]], *, key: str | None
    ) -> int:
        """The same for a decision about a number, which is made once for each key of an operation; None: no key."""
        if key is None:
            return await self.run(tenant, decide)
        key_id = f"{operation}:{key}"

        async def decide_once() -> Decision[int]:
            now = self._clock.now()
            earlier = await self._keys.find(tenant, key_id, now)
            if earlier is not None:
                return cast("int", earlier["result"]), ()
            result, changes = await decide()
            return result, [*changes, await self._keys.claim(tenant, key_id, {"result": result}, now)]

        result = await self.run(tenant, decide_once)
        await self._keys.prune(tenant, self._clock.now())
        return result

    async def _attempt(self, decide: Callable[[], Awaitable[Decision[T]]]) -> T:
        result, changes = await decide()
        if changes:
            await self._records.write(*changes)
        return result
