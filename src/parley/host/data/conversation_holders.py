"""Which request of a conversation is at work, in a store that several processes share: one record per conversation.

A request takes the conversation with compare-and-set before it begins, and lets it go when it has ended or pauses. So
at most one is at work whatever the clocks say. A record that a crash has left is taken over: the log says that its task
is at work no more, or its worker's lease has expired.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec
from msgspec import Struct

from parley.host.data.keys import CONVERSATION_HOLDERS
from parley.protocol.lifecycle import ends_stream
from parley.stores.interface import (
    DeleteRecord,
    Owner,
    PutRecord,
    Record,
    RecordConflictError,
    RecordKey,
    Records,
    Store,
    TaskKey,
)


class HeldConversation(Struct, frozen=True):
    """A conversation that a request has taken."""

    key: RecordKey
    revision: int


class ConversationHolders:
    """The conversations in which requests are at work."""

    def __init__(
        self,
        records: Records,
        store: Store,
        *,
        is_here: Callable[[TaskKey], bool],
        may_be_alive: Callable[[str], Awaitable[bool]],
    ) -> None:
        """`is_here` says whether a task has a run in this process, which has an order of its own for them.

        `may_be_alive` says so of a worker.
        """
        self._records = records
        self._store = store
        self._is_here = is_here
        self._may_be_alive = may_be_alive

    async def has(self, owner: Owner, agent: str, context_id: str, task_id: str) -> bool:
        """Whether a task had its conversation when its worker died. Raises StoreError."""
        record = await self._records.get(holder_key(owner, agent, context_id))
        return record is not None and _task_of(record) == task_id

    async def take(self, owner: Owner, agent: str, context_id: str, task_id: str) -> HeldConversation | None:
        """Let a task have a conversation; None if another one is at work in it, or was quicker. Raises StoreError."""
        key = holder_key(owner, agent, context_id)
        record = await self._records.get(key)
        if record is not None and _task_of(record) != task_id and await self._is_at_work(owner, record):
            return None
        revision = 0 if record is None else record.revision
        try:
            await self._records.write(PutRecord(key, {"task": task_id}, expected=revision))
        except RecordConflictError:
            return None
        return HeldConversation(key, revision + 1)

    async def let_go(self, held: HeldConversation) -> None:
        """Let the next request have a conversation, unless it has taken it already. Raises StoreError."""
        with suppress(RecordConflictError):
            await self._records.write(DeleteRecord(held.key, held.revision))

    async def task_at_work(self, owner: Owner, agent: str, context_id: str) -> str | None:
        """The task that is at work in a conversation in another process; None if there is none. Raises StoreError."""
        record = await self._records.get(holder_key(owner, agent, context_id))
        return _task_of(record) if record is not None and await self._is_at_work(owner, record) else None

    async def _is_at_work(self, owner: Owner, record: Record) -> bool:
        key = TaskKey(owner, _task_of(record))
        head = None if self._is_here(key) else await self._store.tasks.head(key)
        if head is None or ends_stream(head.state) or head.wake_at is not None:
            return False
        return bool(head.holder) and await self._may_be_alive(head.holder)


def holder_key(owner: Owner, agent: str, context_id: str) -> RecordKey:
    """The record of a conversation."""
    # Contexts are named by callers, and may be long.
    digest = hashlib.sha256(msgspec.json.encode((owner.name, agent, context_id))).hexdigest()[:32]
    return RecordKey(CONVERSATION_HOLDERS, owner.tenant, digest)


def _task_of(record: Record) -> str:
    return msgspec.convert(record.value["task"], str)
