"""Conversations, and the messages in them. A message is a request, so sending one answers with a stream."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from msgspec import UNSET, Struct, UnsetType, structs

from parley.host.access.scopes import Scope
from parley.host.api.agents import Deleted
from parley.host.api.conversation_views import ConversationList, ConversationView, MessageList, conversation_view
from parley.host.api.event_stream import stream_events
from parley.host.api.query_parameters import LimitParameter, NumberParameter
from parley.host.api.route import Answer, ApiCall, ApiReply, ApiRoute, BodyReader
from parley.host.api.run_requests import (
    RUN_HEADERS,
    STREAMED_EVENTS,
    MessageBody,
    begin_run,
    inline_constitution,
)
from parley.host.constitution import INDEX, render
from parley.host.data.agents import AgentNotFoundError
from parley.host.data.conversations import DEFAULT_PAGE, MAX_PAGE, ConversationNotFoundError, StoredConversation
from parley.host.errors import BadRequest
from parley.protocol.jsonvalue import JsonObject

LIMIT = LimitParameter(default=DEFAULT_PAGE, most=MAX_PAGE)
BEFORE = NumberParameter(
    "before_updated_at", "Conversations that were last changed before this second since 1970.", most=10**12
)
FOLDER = NumberParameter("folder_id", "Conversations in this folder. There are no folders yet, so there are none.")
MESSAGE_LIMIT = LimitParameter(default=200, most=500)
AFTER_ID = NumberParameter("after_id", "Messages with greater ids.")


class NewConversation(Struct, frozen=True):
    """A conversation to begin, with the agent that answers in it."""

    title: str = ""
    agent_id: str | None = None
    agent: str | None = None
    """Another name of `agent_id`."""
    agent_def: JsonObject | None = None
    """The constitution of an agent that exists in this conversation only."""


class ConversationChanges(Struct, frozen=True):
    """What to change; members that are absent stay as they are."""

    title: str | None = None
    archived: bool | None = None
    folder_id: int | UnsetType | None = UNSET
    """Only null: there are no folders."""


async def create_conversation(call: ApiCall[NewConversation]) -> Answer:
    """Begin a conversation."""
    body, tenant = call.body, call.tenant
    if body.agent_id is not None and body.agent is not None and body.agent_id != body.agent:
        raise BadRequest("$.agent: differs from agent_id")
    named = body.agent_id if body.agent_id is not None else body.agent
    agent_def: JsonObject | None = None
    if body.agent_def is not None:
        constitution = inline_constitution(body.agent_def, named=named)
        named, agent_def = constitution.id, render(constitution)
    elif named is not None and await call.host.find_program(tenant.id, named) is None:
        raise AgentNotFoundError(f"no agent '{named}' for this tenant")
    created = await call.host.conversations.create(
        tenant.id, title=body.title, agent_id=INDEX.id if named is None else named, agent_def=agent_def
    )
    return Answer(conversation_view(call.tenant, created, ()), 201)


async def list_conversations(call: ApiCall[None]) -> Answer:
    """A page of the tenant's conversations."""
    before, limit, folder = call.query(BEFORE), call.query(LIMIT), call.query(FOLDER)
    found: Sequence[StoredConversation] = ()
    if folder is None:
        found = await call.host.conversations.list(call.tenant.id, before_updated_at=before, limit=limit)
    return Answer(ConversationList(len(found), [conversation_view(call.tenant, one, None) for one in found]))


async def get_conversation(call: ApiCall[None]) -> Answer:
    """One conversation."""
    return await _shown(call, await call.host.conversations.get(call.tenant.id, call.number("id")))


async def change_conversation(call: ApiCall[ConversationChanges]) -> Answer:
    """Change the title of a conversation, or archive it."""
    body = call.body
    if isinstance(body.folder_id, int):
        raise BadRequest("$.folder_id: there is no such folder")
    if body.title is None and body.archived is None and body.folder_id is UNSET:
        raise BadRequest("$: must have a title, archived or folder_id")
    changed = await call.host.conversations.update(
        call.tenant.id, call.number("id"), title=body.title, archived=body.archived
    )
    return await _shown(call, changed)


async def delete_conversation(call: ApiCall[None]) -> Answer:
    """Delete a conversation and its artifacts. Its requests can still be read."""
    tenant_id, conversation_id = call.tenant.id, call.number("id")
    await call.host.conversations.delete(tenant_id, conversation_id)
    await call.host.artifacts.delete_conversation(tenant_id, conversation_id)
    return Answer(Deleted())


async def list_messages(call: ApiCall[None]) -> Answer:
    """The messages of a conversation after one of them."""
    conversation = await call.host.conversations.get(call.tenant.id, call.number("id"))
    after, limit = call.query(AFTER_ID) or 0, call.query(MESSAGE_LIMIT)
    messages = await call.host.views.messages(call.tenant.id, conversation.id)
    page = [message for message in messages if message.id > after][:limit]
    return Answer(MessageList(conversation.id, len(page), page))


async def send_message(call: ApiCall[MessageBody]) -> None:
    """Say something in a conversation, and stream what happens."""
    tenant_id, body = call.tenant.id, call.body
    conversation = await call.host.conversations.get(tenant_id, call.number("id"))
    named: str | None = None
    if body.agent_def is None:
        named = conversation.agent_id
        if conversation.agent_def is not None:
            body = structs.replace(body, agent_def=conversation.agent_def)
    request_id = await begin_run(
        call, body, named=named, route="messages", surface="messages", conversation=conversation.id
    )
    with suppress(ConversationNotFoundError):  # it was deleted meanwhile
        await call.host.conversations.update(tenant_id, conversation.id)  # now it is the first in the list
    await stream_events(call, request_id, scope=Scope.CALL)


async def _shown(call: ApiCall[Any], conversation: StoredConversation) -> Answer:
    return Answer(
        conversation_view(call.tenant, conversation, await call.host.views.messages(call.tenant.id, conversation.id))
    )


ROUTES = (
    ApiRoute(
        method="POST",
        path="/v1/conversations",
        handler=create_conversation,
        scope=Scope.CALL,
        summary="Begin a conversation",
        body=BodyReader(NewConversation, is_optional=True),
        replies=[ApiReply(ConversationView, 201)],
        errors=[404],
    ),
    ApiRoute(
        method="GET",
        path="/v1/conversations",
        handler=list_conversations,
        summary="List the conversations",
        query=[BEFORE, LIMIT, FOLDER],
        replies=[ApiReply(ConversationList)],
    ),
    ApiRoute(
        method="GET",
        path="/v1/conversations/{id:int}",
        handler=get_conversation,
        summary="Read a conversation",
        replies=[ApiReply(ConversationView)],
        errors=[404],
    ),
    ApiRoute(
        method="PATCH",
        path="/v1/conversations/{id:int}",
        handler=change_conversation,
        scope=Scope.CALL,
        summary="Change a conversation",
        body=BodyReader(ConversationChanges),
        replies=[ApiReply(ConversationView)],
        errors=[404],
    ),
    ApiRoute(
        method="DELETE",
        path="/v1/conversations/{id:int}",
        handler=delete_conversation,
        scope=Scope.CALL,
        summary="Delete a conversation and its artifacts",
        replies=[ApiReply(Deleted)],
        errors=[404],
    ),
    ApiRoute(
        method="GET",
        path="/v1/conversations/{id:int}/messages",
        handler=list_messages,
        summary="Read the messages of a conversation",
        query=[AFTER_ID, MESSAGE_LIMIT],
        replies=[ApiReply(MessageList)],
        errors=[404],
    ),
    ApiRoute(
        method="POST",
        path="/v1/conversations/{id:int}/messages",
        handler=send_message,
        scope=Scope.CALL,
        summary="Say something in a conversation",
        description="The agent is told the newest 100 messages of the conversation.",
        body=BodyReader(MessageBody),
        headers=RUN_HEADERS,
        replies=[STREAMED_EVENTS],
        errors=[404, 409, 429],
        streams=True,
    ),
)
