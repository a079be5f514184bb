"""How many bytes each tenant keeps (its artifacts, scratchpads and memory entries), and each conversation of it.

Both sums are records of their own. A change of what is kept is written together with the new sums, each with the
revision that was read: two writers at once cannot exceed a limit.
"""

from __future__ import annotations

from msgspec import Struct, convert, to_builtins

from parley.host.data.conversations import ConversationNotFoundError
from parley.host.data.errors import LimitReachedError
from parley.host.data.keys import STORAGE, collection_of
from parley.stores.interface import PutRecord, RecordKey, Records

MEBIBYTE = 1024 * 1024
TENANT_LIMIT = 500 * MEBIBYTE
CONVERSATION_LIMIT = 50 * MEBIBYTE


class StorageFullError(LimitReachedError):
    """There is no room left for this; delete something first."""


class StorageSum(Struct, frozen=True):
    """What one tenant or conversation keeps."""

    bytes: int = 0
    is_closed: bool = False
    """Whether the conversation was deleted. What still runs in it cannot write any more."""


async def tenant_bytes(records: Records, tenant: str) -> int:
    """How many bytes a tenant keeps."""
    found, _ = await _read(records, _tenant_key(tenant))
    return found.bytes


async def conversation_bytes(records: Records, tenant: str, conversation_id: int) -> int:
    """How many bytes the artifacts of a conversation have."""
    found, _ = await _read(records, _conversation_key(tenant, conversation_id))
    return found.bytes


async def add_to_tenant(records: Records, tenant: str, added: int, *, quota: int | None = None) -> PutRecord:
    """The change that counts what a tenant keeps. Write it together with what it counts.

    `quota` may lower the limit that all tenants have. What takes bytes away is never refused.

    Raises:
        StorageFullError: the tenant would keep too much.
    """
    key = _tenant_key(tenant)
    found, revision = await _read(records, key)
    limit = TENANT_LIMIT if quota is None else min(quota, TENANT_LIMIT)
    _check(found.bytes, added, limit, "tenant")
    return PutRecord(key, to_builtins(StorageSum(found.bytes + added)), expected=revision)


async def add_to_conversation(records: Records, tenant: str, conversation_id: int, added: int) -> PutRecord:
    """The same for a conversation; `added` is negative where a file becomes shorter.

    Raises:
        StorageFullError: the conversation would keep too much.
        ConversationNotFoundError: the conversation was deleted.
    """
    key = _conversation_key(tenant, conversation_id)
    found, revision = await _read(records, key)
    if found.is_closed:
        raise ConversationNotFoundError
    _check(found.bytes, added, CONVERSATION_LIMIT, "conversation")
    return PutRecord(key, to_builtins(StorageSum(found.bytes + added)), expected=revision)


async def take_from_conversation(records: Records, tenant: str, conversation_id: int, taken: int) -> PutRecord:
    """The change that counts what was deleted in a conversation, also in one that was deleted itself."""
    key = _conversation_key(tenant, conversation_id)
    found, revision = await _read(records, key)
    return PutRecord(key, to_builtins(StorageSum(found.bytes - taken, found.is_closed)), expected=revision)


async def close_conversation(records: Records, tenant: str, conversation_id: int) -> PutRecord:
    """The change after which a conversation cannot keep anything more."""
    key = _conversation_key(tenant, conversation_id)
    found, revision = await _read(records, key)
    return PutRecord(key, to_builtins(StorageSum(found.bytes, is_closed=True)), expected=revision)


def _check(used: int, added: int, limit: int, owner: str) -> None:
    if added > 0 and used + added > limit:
        raise StorageFullError(f"a {owner} may keep {limit} bytes, and {used} are used; delete something first")


async def _read(records: Records, key: RecordKey) -> tuple[StorageSum, int]:
    """A sum, and the revision of its record."""
    record = await records.get(key)
    return (convert(record.value, StorageSum), record.revision) if record else (StorageSum(), 0)


def _tenant_key(tenant: str) -> RecordKey:
    return RecordKey(STORAGE, tenant, "tenant")


def _conversation_key(tenant: str, conversation_id: int) -> RecordKey:
    return RecordKey(STORAGE, tenant, collection_of("conversation", conversation_id))
