"""Agents: reading them all, and storing, replacing and deleting a tenant's own.

`index` and agents of Python belong to the operator: tenants see them and cannot change them, or take their names.
"""

from __future__ import annotations

from typing import Annotated, Any, cast

from msgspec import Meta, Struct, to_builtins

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
from parley.host.data.agents import AgentNotFoundError, StoredAgent, TooManyAgentsError
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


class WrappedConstitution(Struct, frozen=True):
    """A constitution as a member."""

    agent_def: ConstitutionInput


async def list_agents(call: ApiCall[None]) -> Answer:
    """All agents of the tenant."""
    host, tenant_id = call.host, call.tenant.id
    stored: list[StoredAgent] = []
    while page := await host.agents.list(tenant_id, after=stored[-1] if stored else None):
        stored += page
    given = [agent for agent in host.catalogue.agents(tenant_id) if not isinstance(agent, ConstitutionAgent)]
    agents = [view_of_index(), *map(view_of_stored, stored), *map(view_of_python, given)]
    return Answer(AgentList(len(agents), agents))


async def create_agent(call: ApiCall[JsonObject]) -> Answer:
    """Store a new agent."""
    constitution = _constitution(call.body)
    if constitution.id != INDEX.id:
        _check_name(call, constitution.id)
    try:
        stored = await call.host.agents.create(call.tenant.id, constitution)
    except TooManyAgentsError as error:
        raise Conflict(error.message) from None
    call.host.catalogue.put(stored)
    return Answer(view_of_stored(stored), 201)


async def get_agent(call: ApiCall[None]) -> Answer:
    """One agent."""
    agent_id = call.path["id"]
    if agent_id == INDEX.id:
        return Answer(view_of_index())
    view = _python_view(call, agent_id)
    return Answer(view if view is not None else view_of_stored(await call.host.agents.get(call.tenant.id, agent_id)))


async def replace_agent(call: ApiCall[JsonObject]) -> Answer:
    """Replace the constitution of an agent."""
    agent_id = _own_id(call)
    constitution = _constitution(call.body, id=agent_id)
    stored = await call.host.agents.replace(call.tenant.id, constitution)
    call.host.catalogue.put(stored)
    return Answer(view_of_stored(stored))


async def delete_agent(call: ApiCall[None]) -> Answer:
    """Delete an agent. Its runs end by themselves, and its requests can still be read."""
    agent_id = _own_id(call)
    await call.host.agents.delete(call.tenant.id, agent_id)
    call.host.remove_agent(call.tenant.id, agent_id)
    return Answer(Deleted())


async def chat(call: ApiCall[MessageBody]) -> None:
    """Send a message to one agent, and stream what happens."""
    request_id = await begin_run(call, call.body, named=call.path["id"], route="agent_chat", surface="chat")
    await stream_events(call.host, call.request, call.tenant, request_id)


def _constitution(body: JsonObject, *, id: str | None = None) -> Constitution:
    """The constitution in a body, which may stand under `agent_def`."""
    if "agent_def" not in body:
        return constitution_in(body, id=id)
    agent_def = body["agent_def"]
    if not isinstance(agent_def, dict):
        raise BadRequest("$.agent_def: must be an object")
    return constitution_in(agent_def, id=id, path="$.agent_def")


def _own_id(call: ApiCall[Any]) -> str:
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
            return view_of_python(agent)
    return None


_CONSTITUTION = BodyReader(
    cast("type[JsonObject]", dict[str, Any]), documented=(ConstitutionInput, WrappedConstitution)
)

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
        description="The whole constitution is replaced. Runs keep the one that they began with.",
        body=_CONSTITUTION,
        replies=[ApiReply(AgentView)],
        errors=[404, 409],
    ),
    ApiRoute(
        method="DELETE",
        path="/v1/agents/{id}",
        handler=delete_agent,
        summary="Delete an agent",
        replies=[ApiReply(Deleted)],
        errors=[400, 404, 409],
    ),
    ApiRoute(
        method="POST",
        path="/v1/agents/{id}/chat",
        handler=chat,
        summary="Send a message to an agent",
        body=BodyReader(MessageBody),
        headers=RUN_HEADERS,
        replies=[STREAMED_EVENTS],
        errors=[404, 429],
        streams=True,
    ),
)
