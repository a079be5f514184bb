"""Agents: reading them all, and storing, replacing and deleting a tenant's own. Each change makes a version.

`index` and agents of Python belong to the operator: tenants see them and cannot change them, or take their names.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, cast

from msgspec import Meta, Struct, to_builtins

from parley.host.access.scopes import Scope
from parley.host.api.agent_edits import (
    EDIT_HEADERS,
    Note,
    VersionNumber,
    conflicts_shown,
    edit_members_in,
    edit_of,
    followed,
    version_headers,
)
from parley.host.api.agent_views import AgentList, AgentView, view_of_index, view_of_python, view_of_stored
from parley.host.api.event_stream import stream_events
from parley.host.api.route import Answer, ApiCall, ApiReply, ApiRoute, BodyReader
from parley.host.api.run_requests import (
    RUN_HEADERS,
    STREAMED_EVENTS,
    MessageBody,
    begin_run,
    constitution_in,
)
from parley.host.constitution import INDEX, Constitution, is_agent_id
from parley.host.data.agents import AgentExistsError, AgentNotFoundError, StoredAgent, TooManyAgentsError
from parley.host.draft_names import DRAFT_SUFFIX
from parley.host.errors import BadRequest, Conflict
from parley.host.orchestration.constitution_agent import ConstitutionAgent
from parley.protocol.jsonvalue import JsonObject


class Deleted(Struct, frozen=True):
    """What a deletion answers."""

    deleted: bool = True


class ConstitutionInput(Constitution, frozen=True, kw_only=True):
    """A constitution as callers send it: with a name, a role and a goal. Members that are unknown are ignored."""

    # msgspec lets a struct demand what its base does not, and pyright does not know it.
    name: Annotated[str, Meta(min_length=1, max_length=200)]  # pyright: ignore[reportGeneralTypeIssues]
    role: Annotated[str, Meta(min_length=1, max_length=1_000)]  # pyright: ignore[reportGeneralTypeIssues]
    goal: Annotated[str, Meta(min_length=1, max_length=20_000)]  # pyright: ignore[reportGeneralTypeIssues]


class ConstitutionEdit(ConstitutionInput, frozen=True, kw_only=True):
    """A constitution with what versions show of its change."""

    note: Note = ""
    """Why the agent is changed."""
    expected_version: VersionNumber | None = None
    """The newest version that the caller has seen. If there is a newer one, nothing is changed."""


class WrappedConstitution(Struct, frozen=True):
    """A constitution as a member."""

    agent_def: ConstitutionInput
    note: Note = ""
    expected_version: VersionNumber | None = None


class ChatBody(MessageBody, frozen=True):
    """A message to an agent, or to the caller's draft of it."""

    draft: bool = False


async def list_agents(call: ApiCall[None]) -> Answer:
    """All agents of the tenant."""
    host, tenant_id = call.host, call.tenant.id
    stored: list[StoredAgent] = []
    while page := await host.agents.list(tenant_id, after=stored[-1] if stored else None):
        stored += page
    given = [agent for agent in host.catalogue.agents(tenant_id) if not isinstance(agent, ConstitutionAgent)]
    agents = [
        view_of_index(host.stop_of(tenant_id, INDEX.id)),
        *[view_of_stored(agent, host.stop_of(tenant_id, agent.id)) for agent in stored],
        *[view_of_python(agent, host.stop_of(tenant_id, agent.id)) for agent in given],
    ]
    return Answer(AgentList(len(agents), agents))


async def create_agent(call: ApiCall[JsonObject]) -> Answer:
    """Store a new agent."""
    constitution = constitution_of(call.body)
    if constitution.id != INDEX.id:
        _check_name(call, constitution.id)
    note = edit_members_in(call.body).note
    try:
        creation = call.host.agents.create(call.tenant.id, constitution, actor=call.actor, note=note)
        stored = await followed(call, creation)
    except TooManyAgentsError as error:
        raise Conflict(error.message) from None
    except AgentExistsError as error:
        existing = shown_agent(call, error.existing).body
        raise Conflict(error.message, more={"existing": to_builtins(existing)}) from None
    return shown_agent(call, stored, status=201)


async def get_agent(call: ApiCall[Any]) -> Answer:
    """One agent."""
    agent_id = call.path["id"]
    if agent_id == INDEX.id:
        return Answer(view_of_index(call.host.stop_of(call.tenant.id, agent_id)))
    view = _python_view(call, agent_id)
    return Answer(view) if view is not None else shown_agent(call, await call.host.agents.get(call.tenant.id, agent_id))


async def replace_agent(call: ApiCall[JsonObject]) -> Answer:
    """Replace the constitution of an agent."""
    agent_id = own_agent_id(call)
    constitution = constitution_of(call.body, id=agent_id)
    edit = edit_of(call, edit_members_in(call.body))
    stored = await followed(call, call.host.agents.replace(call.tenant.id, constitution, edit))
    return shown_agent(call, stored)


async def delete_agent(call: ApiCall[None]) -> Answer:
    """Delete an agent. Its work stops, and its requests can still be read."""
    host, tenant_id, agent_id, edit = call.host, call.tenant.id, own_agent_id(call), edit_of(call)

    async def delete() -> None:
        await host.agents.delete(tenant_id, agent_id, edit)
        host.remove_agent(tenant_id, agent_id)

    with conflicts_shown(call):
        await asyncio.shield(asyncio.ensure_future(delete()))  # also if the caller goes away meanwhile
    return Answer(Deleted())


async def chat(call: ApiCall[ChatBody]) -> None:
    """Send a message to one agent, and stream what happens."""
    agent_id, author = call.path["id"], call.actor if call.body.draft else ""
    if author and call.body.agent_def is not None:
        raise BadRequest("$.draft: a message with an agent_def goes to that, and not to a draft")
    if author and await call.host.agents.drafts.find(call.tenant.id, agent_id, author) is None:
        raise AgentNotFoundError(f"no agent '{agent_id}{DRAFT_SUFFIX}' for this tenant")
    request_id = await begin_run(call, call.body, named=agent_id, route="agent_chat", surface="chat", draft_of=author)
    await stream_events(call, request_id, scope=Scope.CALL)


def shown_agent(call: ApiCall[Any], stored: StoredAgent, *, status: int = 200) -> Answer:
    """A stored agent as a reply, with its version as the `ETag`."""
    view = view_of_stored(stored, call.host.stop_of(stored.tenant, stored.id))
    return Answer(view, status, headers=version_headers(stored))


def constitution_of(body: JsonObject, *, id: str | None = None) -> Constitution:
    """The constitution in a body, which may stand under `agent_def`."""
    if "agent_def" not in body:
        return constitution_in(body, id=id)
    agent_def = body["agent_def"]
    if not isinstance(agent_def, dict):
        raise BadRequest("$.agent_def: must be an object")
    return constitution_in(agent_def, id=id, path="$.agent_def")


def own_agent_id(call: ApiCall[Any]) -> str:
    """The id in the path, if it is that of an agent that the tenant may have stored.

    Raises:
        BadRequest, Conflict: the agent belongs to the operator.
        AgentNotFoundError: no agent can have this id.
    """
    agent_id = call.path["id"]
    if agent_id == INDEX.id:
        raise BadRequest(f"'{INDEX.id}' is the master agent; it cannot be changed")
    if not is_agent_id(agent_id):
        raise AgentNotFoundError(f"no agent '{agent_id}' for this tenant")
    _check_name(call, agent_id)
    return agent_id


def _check_name(call: ApiCall[Any], agent_id: str) -> None:
    """Refuse the name of an agent of the operator. Raises Conflict."""
    view = _python_view(call, agent_id)
    if view is not None:
        more: JsonObject = {"existing": to_builtins(view)}
        raise Conflict(f"agent '{agent_id}' belongs to the operator", more=more)


def _python_view(call: ApiCall[Any], agent_id: str) -> AgentView | None:
    for agent in call.host.catalogue.agents(call.tenant.id):
        if agent.id == agent_id and not isinstance(agent, ConstitutionAgent):
            return view_of_python(agent, call.host.stop_of(call.tenant.id, agent_id))
    return None


_CONSTITUTION = BodyReader(cast("type[JsonObject]", dict[str, Any]), documented=(ConstitutionEdit, WrappedConstitution))

ROUTES = (
    ApiRoute(
        method="GET",
        path="/v1/agents",
        handler=list_agents,
        summary="List the agents",
        description="`index` first, then the tenant's own, newest first, then those that the operator gives.",
        replies=[ApiReply(AgentList)],
    ),
    ApiRoute(
        method="POST",
        path="/v1/agents",
        handler=create_agent,
        summary="Create an agent",
        description="The body is a constitution, or an object that has one as its `agent_def`.",
        body=_CONSTITUTION,
        replies=[ApiReply(AgentView, 201)],
        errors=[409],
    ),
    ApiRoute(
        method="GET",
        path="/v1/agents/{id}",
        handler=get_agent,
        summary="Read an agent",
        replies=[ApiReply(AgentView)],
        errors=[404],
    ),
    ApiRoute(
        method="PATCH",
        path="/v1/agents/{id}",
        handler=replace_agent,
        summary="Replace an agent's constitution",
        description=(
            "The whole constitution is replaced, which makes a version. Runs keep the one that they began with. "
            "A caller that names the version that it has seen is refused if there is a newer one, with what differs."
        ),
        body=_CONSTITUTION,
        headers=EDIT_HEADERS,
        replies=[ApiReply(AgentView)],
        errors=[404, 409, 412],
    ),
    ApiRoute(
        method="DELETE",
        path="/v1/agents/{id}",
        handler=delete_agent,
        summary="Delete an agent",
        description="Its versions and drafts are deleted as well. An agent of the same id goes on counting versions.",
        headers=EDIT_HEADERS,
        replies=[ApiReply(Deleted)],
        errors=[400, 404, 409, 412],
    ),
    ApiRoute(
        method="POST",
        path="/v1/agents/{id}/chat",
        handler=chat,
        scope=Scope.CALL,
        summary="Send a message to an agent",
        body=BodyReader(ChatBody),
        headers=RUN_HEADERS,
        replies=[STREAMED_EVENTS],
        errors=[404, 409, 429],
        streams=True,
    ),
)
