"""Conversations: their titles, agents and counts. Their messages are tasks with the conversation's context id.

Ids are numbers that each tenant counts for itself, so a context id means a conversation only together with a tenant.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct, structs, to_builtins

from parley.engine.clock import Clock
from parley.host.data.epoch import milliseconds, seconds
from parley.host.data.errors import InvalidValueError, NotFoundError
from parley.host.data.keys import CONVERSATIONS, number_id
from parley.host.data.transactions import Decision, TenantTransactions
from parley.protocol.jsonvalue import JsonObject
from parley.stores.interface import DeleteRecord, PutRecord, RecordConflictError, RecordKey, Records

CONTEXT_PREFIX = "urn:parley:conversation:"
DEFAULT_PAGE = 50
MAX_PAGE = 200
MAX_TITLE = 500

_CONTEXT_ID = re.compile(re.escape(CONTEXT_PREFIX) + r"([1-9][0-9]{0,15})", re.ASCII)


class ConversationNotFoundError(NotFoundError):
    """conversation not found"""


class StoredConversation(Struct, frozen=True, kw_only=True):
    """A conversation of a tenant. Times are seconds since 1970."""

    id: int
    title: str = ""
    agent_id: str = "index"
    agent_def: JsonObject | None = None
    """The constitution of an agent that exists only in this conversation."""
    archived: bool = False
    origin: str = "api"
    folder_id: int | None = None
    message_count: int = 0
    total_tokens: int = 0
    created_at: int
    updated_at: int

    @property
    def context_id(self) -> str:
        """The context id of the tasks that are its messages."""
        return context_id_of(self.id)


def context_id_of(conversation_id: int) -> str:
    """The context id of a conversation: 7 → `urn:parley:conversation:7`."""
    return f"{CONTEXT_PREFIX}{conversation_id}"


def conversation_of(context_id: str) -> int | None:
    """The conversation of a context id; None if it is a context of another kind."""
    match = _CONTEXT_ID.fullmatch(context_id)
    return int(match[1]) if match else None


class Conversations:
    """The conversations of all tenants."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self._transactions = TenantTransactions(records, clock)

    async def create(
        self,
        tenant: str,
        *,
        title: str = "",
        agent_id: str = "index",
        agent_def: JsonObject | None = None,
        origin: str = "api",
    ) -> StoredConversation:
        """A new conversation.

        Raises:
            InvalidValueError: the title is too long.
        """
        _check_title(title)
        now = seconds(self._clock.now())
        conversation = StoredConversation(
            id=await self._records.next_number(CONVERSATIONS, tenant),
            title=title,
            agent_id=agent_id,
            agent_def=agent_def,
            origin=origin,
            created_at=now,
            updated_at=now,
        )
        await self._records.write(self._put(tenant, conversation, revision=0))
        return conversation

    async def take_number(self, tenant: str) -> int:
        """A number for a conversation that is created later with `create_numbered`."""
        return await self._records.next_number(CONVERSATIONS, tenant)

    async def create_numbered(self, tenant: str, number: int, *, title: str, agent_id: str, origin: str) -> None:
        """Create the conversation with a number that was taken for it, unless it is there already."""
        now = seconds(self._clock.now())
        conversation = StoredConversation(
            id=number, title=title, agent_id=agent_id, origin=origin, created_at=now, updated_at=now
        )
        with suppress(RecordConflictError):
            await self._records.write(self._put(tenant, conversation, revision=0))

    async def get(self, tenant: str, conversation_id: int) -> StoredConversation:
        """One conversation.

        Raises:
            ConversationNotFoundError: the tenant has none with this id.
        """
        conversation, _ = await self._read(tenant, conversation_id)
        return conversation

    async def list(
        self, tenant: str, *, before_updated_at: int | None = None, limit: int = DEFAULT_PAGE
    ) -> Sequence[StoredConversation]:
        """Conversations that were last changed before a second, newest first; at most `MAX_PAGE`."""
        after = (before_updated_at * 1000, "") if before_updated_at is not None else None
        found = await self._records.list(CONVERSATIONS, tenant, after=after, limit=min(max(limit, 1), MAX_PAGE))
        return [msgspec.convert(record.value, StoredConversation) for record in found]

    async def update(
        self, tenant: str, conversation_id: int, *, title: str | None = None, archived: bool | None = None
    ) -> StoredConversation:
        """The conversation with what is given changed.

        Raises:
            ConversationNotFoundError: the tenant has none with this id.
            InvalidValueError: the title is too long.
        """
        _check_title(title or "")

        async def decide() -> Decision[StoredConversation]:
            before, revision = await self._read(tenant, conversation_id)
            after = structs.replace(
                before,
                title=before.title if title is None else title,
                archived=before.archived if archived is None else archived,
                updated_at=seconds(self._clock.now()),
            )
            return after, [self._put(tenant, after, revision=revision)]

        return await self._transactions.run(tenant, decide)

    async def add_messages(
        self, tenant: str, conversation_id: int, *, messages: int, tokens: int = 0, key: str | None = None
    ) -> StoredConversation:
        """The conversation with so many more messages and tokens. The same key twice counts once.

        Raises:
            ConversationNotFoundError: the tenant has none with this id.
        """

        async def decide() -> Decision[int]:
            before, revision = await self._read(tenant, conversation_id)
            after = structs.replace(
                before,
                message_count=before.message_count + messages,
                total_tokens=before.total_tokens + tokens,
                updated_at=seconds(self._clock.now()),
            )
            return conversation_id, [self._put(tenant, after, revision=revision)]

        await self._transactions.run_once(tenant, f"messages of {conversation_id}", decide, key=key)
        return await self.get(tenant, conversation_id)

    async def delete(self, tenant: str, conversation_id: int) -> None:
        """Delete a conversation. Its tasks and artifacts stay.

        Raises:
            ConversationNotFoundError: the tenant has none with this id.
        """

        async def decide() -> Decision[None]:
            _, revision = await self._read(tenant, conversation_id)
            return None, [DeleteRecord(_key(tenant, conversation_id), revision)]

        await self._transactions.run(tenant, decide)

    async def _read(self, tenant: str, conversation_id: int) -> tuple[StoredConversation, int]:
        """A conversation, and the revision of its record."""
        record = await self._records.get(_key(tenant, conversation_id))
        if record is None:
            raise ConversationNotFoundError
        return msgspec.convert(record.value, StoredConversation), record.revision

    def _put(self, tenant: str, conversation: StoredConversation, *, revision: int) -> PutRecord:
        key = _key(tenant, conversation.id)
        return PutRecord(key, to_builtins(conversation), milliseconds(self._clock.now()), expected=revision)


def _key(tenant: str, conversation_id: int) -> RecordKey:
    return RecordKey(CONVERSATIONS, tenant, number_id(conversation_id))


def _check_title(title: str) -> None:
    if len(title) > MAX_TITLE:
        raise InvalidValueError(f"must be at most {MAX_TITLE} characters", "$.title")
