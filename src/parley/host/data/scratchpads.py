"""Scratchpads: free text that an agent keeps for itself, and one text that all agents of a tenant share.

Text is appended, read as a whole, or cleared. What should be found again by a search belongs into structured memory.
"""

from __future__ import annotations

import msgspec

from parley.engine.clock import Clock
from parley.host.data.errors import InvalidValueError
from parley.host.data.keys import SCRATCHPADS
from parley.host.data.storage import MEBIBYTE, StorageFullError, add_to_tenant
from parley.host.data.transactions import Decision, TenantTransactions
from parley.stores.interface import DeleteRecord, PutRecord, RecordKey, Records

SCRATCHPAD_LIMIT = 4 * MEBIBYTE


class Scratchpads:
    """The scratchpads of all tenants. An agent of None means the one that all agents of the tenant share."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._transactions = TenantTransactions(records, clock)

    async def read(self, tenant: str, agent_id: str | None) -> str:
        """The whole text; empty if nothing was written."""
        text, _ = await self._read(_key(tenant, agent_id))
        return text

    async def append(
        self, tenant: str, agent_id: str | None, text: str, *, quota: int | None = None, key: str | None = None
    ) -> int:
        """Append text on a line of its own, and return how many bytes there are now.

        `quota` is how many bytes the tenant may keep, if that is less than the limit of all tenants. The same key twice
        appends once.

        Raises:
            InvalidValueError: the text is empty, or not valid Unicode.
            StorageFullError: the scratchpad or the tenant would keep too much.
        """
        line = f"{text.rstrip()}\n"
        added = _size(line)
        record_key = _key(tenant, agent_id)

        async def decide() -> Decision[int]:
            before, revision = await self._read(record_key)
            size = len(before.encode()) + added
            if size > SCRATCHPAD_LIMIT:
                raise StorageFullError(f"a scratchpad may have {SCRATCHPAD_LIMIT} bytes; clear it first")
            return size, [
                PutRecord(record_key, {"text": before + line}, expected=revision),
                await add_to_tenant(self._records, tenant, added, quota=quota),
            ]

        return await self._transactions.run_once(tenant, f"append to {record_key.id}", decide, key=key)

    async def clear(self, tenant: str, agent_id: str | None, *, key: str | None = None) -> int:
        """Remove the whole text, and return how many bytes it had. The same key twice clears once."""
        record_key = _key(tenant, agent_id)

        async def decide() -> Decision[int]:
            before, revision = await self._read(record_key)
            size = len(before.encode())
            if not size:
                return 0, ()
            return size, [DeleteRecord(record_key, revision), await add_to_tenant(self._records, tenant, -size)]

        return await self._transactions.run_once(tenant, f"clear {record_key.id}", decide, key=key)

    async def _read(self, key: RecordKey) -> tuple[str, int]:
        """The text, and the revision of its record."""
        record = await self._records.get(key)
        return (msgspec.convert(record.value["text"], str), record.revision) if record else ("", 0)


def _size(line: str) -> int:
    if not line.strip():
        raise InvalidValueError("must not be empty", "$.text")
    try:
        return len(line.encode())
    except UnicodeEncodeError:
        raise InvalidValueError("is not valid Unicode", "$.text") from None


def _key(tenant: str, agent_id: str | None) -> RecordKey:
    return RecordKey(SCRATCHPADS, tenant, "shared" if agent_id is None else f"agent/{agent_id}")
