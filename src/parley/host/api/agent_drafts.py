"""Drafts of a tenant's agents: each principal has its own, which only it reads, calls and publishes."""

from __future__ import annotations

from typing import Any, cast

from msgspec import Struct

from parley.dialects.fields import Fault, Reader
from parley.host.access.scopes import Scope
from parley.host.api.agent_edits import Note, VersionNumber, followed
from parley.host.api.agent_views import AgentView
from parley.host.api.agents import ConstitutionInput, Deleted, constitution_of, own_agent_id, shown_agent
from parley.host.api.route import Answer, ApiCall, ApiReply, ApiRoute, BodyReader
from parley.host.constitution import render
from parley.host.data.agent_drafts import AgentDraft, TooManyDraftsError
from parley.host.draft_names import DRAFT_SUFFIX
from parley.host.errors import BadRequest, Conflict
from parley.protocol.jsonvalue import JsonObject


class DraftView(Struct, frozen=True, kw_only=True):
    """A draft. Times are seconds since 1970."""

    agent_id: str
    a2a_name: str
    """The name by which its author calls it over A2A, in place of the agent's id."""
    author: str
    base_version: int
    """The version that it was made from."""
    current_version: int
    """The newest version. If it is another one, the draft cannot be published before it is merged."""
    created_at: int
    updated_at: int
    constitution: JsonObject


class DraftInput(ConstitutionInput, frozen=True, kw_only=True):
    """A constitution to try out."""

    base_version: VersionNumber | None = None
    """The version that it was made from; the newest if it is not given."""


class Publication(Struct, frozen=True):
    """How a draft is published."""

    note: Note = ""
    """Why the agent is changed; versions show it."""


class _DraftMembers(Struct, frozen=True):
    base_version: VersionNumber | None = None


_draft_members = Reader(_DraftMembers)


async def save_draft(call: ApiCall[JsonObject]) -> Answer:
    """Keep the caller's draft of an agent."""
    agent_id = own_agent_id(call)
    constitution = constitution_of(call.body, id=agent_id)
    try:
        base = _draft_members.read_value({name: call.body[name] for name in ("base_version",) if name in call.body})
        draft = await call.host.agents.drafts.save(
            call.tenant.id, constitution, call.actor, base_version=base.base_version
        )
    except Fault as fault:
        raise BadRequest(f"{fault.path}: {fault.reason}") from None
    except TooManyDraftsError as error:
        raise Conflict(error.message) from None
    return await _shown(call, draft)


async def get_draft(call: ApiCall[None]) -> Answer:
    """The caller's draft of an agent."""
    agent_id = call.path["id"]
    await call.host.agents.get(call.tenant.id, agent_id)
    return await _shown(call, await call.host.agents.drafts.get(call.tenant.id, agent_id, call.actor))


async def publish_draft(call: ApiCall[Publication]) -> Answer:
    """Make the caller's draft the next version of the agent."""
    agent_id = own_agent_id(call)
    publication = call.host.agents.drafts.publish(call.tenant.id, agent_id, call.actor, note=call.body.note)
    return shown_agent(call, await followed(call, publication))


async def delete_draft(call: ApiCall[None]) -> Answer:
    """Delete the caller's draft of an agent, if there is one."""
    return Answer(Deleted(await call.host.agents.drafts.delete(call.tenant.id, own_agent_id(call), call.actor)))


async def _shown(call: ApiCall[Any], draft: AgentDraft) -> Answer:
    agent = await call.host.agents.get(call.tenant.id, draft.constitution.id)
    return Answer(
        DraftView(
            agent_id=agent.id,
            a2a_name=f"{agent.id}{DRAFT_SUFFIX}",
            author=draft.author,
            base_version=draft.base_version,
            current_version=agent.version,
            created_at=draft.created_at,
            updated_at=draft.updated_at,
            constitution=render(draft.constitution),
        )
    )


ROUTES = (
    ApiRoute(
        method="POST",
        path="/v1/agents/{id}/draft",
        handler=save_draft,
        summary="Save a draft of an agent",
        description=(
            "It replaces the caller's earlier draft. Only the caller reads and calls it: with `draft` in a message of "
            f"the native API, and over A2A as the agent `ID{DRAFT_SUFFIX}`."
        ),
        body=BodyReader(cast("type[JsonObject]", dict[str, Any]), documented=(DraftInput,)),
        replies=[ApiReply(DraftView)],
        errors=[404, 409],
    ),
    ApiRoute(
        method="GET",
        path="/v1/agents/{id}/draft",
        handler=get_draft,
        scope=Scope.MANAGE,
        summary="Read the caller's draft of an agent",
        replies=[ApiReply(DraftView)],
        errors=[404],
    ),
    ApiRoute(
        method="POST",
        path="/v1/agents/{id}/draft/publish",
        handler=publish_draft,
        summary="Publish a draft of an agent",
        description=(
            "It becomes the next version, and the draft is deleted. If the agent has another version than the draft "
            "was made from, nothing is changed, and the reply says what differs. Save the merged draft with the "
            "newest version as its `base_version`, and publish it again."
        ),
        body=BodyReader(Publication, is_optional=True),
        replies=[ApiReply(AgentView)],
        errors=[404, 409],
    ),
    ApiRoute(
        method="DELETE",
        path="/v1/agents/{id}/draft",
        handler=delete_draft,
        summary="Delete a draft of an agent",
        replies=[ApiReply(Deleted)],
        errors=[400, 404, 409],
    ),
)
