"""Conversations as the native API shows them.

How many messages and tokens a conversation has is counted from its messages, where one conversation is shown.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, Struct, UnsetType

from parley.host.data.conversations import StoredConversation
from parley.host.data.tenant import Tenant
from parley.host.task_views import ConversationMessage
from parley.protocol.jsonvalue import JsonObject


class ConversationView(Struct, frozen=True, kw_only=True):
    """A conversation. Times are seconds since 1970."""

    id: int
    tenant_id: int
    title: str
    agent_id: str
    created_at: int
    updated_at: int
    archived: bool
    origin: str
    folder_id: int | None
    message_count: int | UnsetType = UNSET
    """Only where one conversation is shown."""
    total_tokens: int | UnsetType = UNSET
    """Only where one conversation is shown."""
    agent_def: JsonObject | UnsetType = UNSET


class ConversationList(Struct, frozen=True):
    """Those that changed last first."""

    count: int
    conversations: Sequence[ConversationView]


class MessageList(Struct, frozen=True):
    """The messages of a conversation, oldest first."""

    conversation_id: int
    count: int
    messages: Sequence[ConversationMessage]


def conversation_view(
    tenant: Tenant, conversation: StoredConversation, messages: Sequence[ConversationMessage] | None
) -> ConversationView:
    """A conversation of a tenant, with its counts if its messages are given."""
    return ConversationView(
        id=conversation.id,
        tenant_id=int(tenant.id),
        title=conversation.title,
        agent_id=conversation.agent_id,
        created_at=conversation.created_at,
        updated_at=conversation.updated_at,
        archived=conversation.archived,
        origin=conversation.origin,
        folder_id=conversation.folder_id,
        message_count=UNSET if messages is None else len(messages),
        total_tokens=UNSET if messages is None else sum(one.input_tokens + one.output_tokens for one in messages),
        agent_def=UNSET if conversation.agent_def is None else conversation.agent_def,
    )
