"""The kill switch: stopping and resuming an agent, and a tenant with all its agents.

A stopped agent takes no messages, and its work ends at once with the reason. A tenant that the operator has stopped
cannot resume itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

from parley.host.api.agent_views import AgentView, StopView, view_of_stop
from parley.host.api.agents import get_agent
from parley.host.api.route import Answer, ApiCall, ApiReply, ApiRoute, Auth, BodyReader
from parley.host.data.agents import AgentNotFoundError
from parley.host.data.stops import BY_OPERATOR, BY_TENANT, MAX_REASON
from parley.host.errors import BadRequest


class StopReason(Struct, frozen=True):
    """Why something is stopped. Callers are told."""

    reason: Annotated[str, Meta(min_length=1, max_length=MAX_REASON)]


class StopList(Struct, frozen=True):
    """What is stopped of a tenant, the newest first."""

    stopped: bool
    """Whether all agents of the tenant are stopped."""
    stops: Sequence[StopView]


async def stop_agent(call: ApiCall[StopReason]) -> Answer:
    """Stop an agent of the tenant, also one of the operator."""
    agent_id = _agent_id(call)
    await call.host.stops.stop(call.tenant.id, agent_id, call.body.reason, actor=call.actor)
    return await get_agent(call)


async def resume_agent(call: ApiCall[None]) -> Answer:
    """Let an agent of the tenant work again."""
    await call.host.stops.resume(call.tenant.id, _agent_id(call), actor=call.actor)
    return await get_agent(call)


async def list_stops(call: ApiCall[None]) -> Answer:
    """What is stopped of the tenant."""
    return _stops(call, call.tenant.id)


async def stop_own_tenant(call: ApiCall[StopReason]) -> Answer:
    """Stop all agents of the tenant."""
    await call.host.stops.stop(call.tenant.id, BY_TENANT, call.body.reason, actor=call.actor)
    return _stops(call, call.tenant.id)


async def resume_own_tenant(call: ApiCall[None]) -> Answer:
    """Let the agents of the tenant work again, but for those that were stopped one by one."""
    await call.host.stops.resume(call.tenant.id, BY_TENANT, actor=call.actor)
    return _stops(call, call.tenant.id)


async def list_stops_of_tenant(call: ApiCall[None]) -> Answer:
    """What is stopped of a tenant, for the operator."""
    return _stops(call, _tenant_id(call))


async def stop_tenant(call: ApiCall[StopReason]) -> Answer:
    """Stop all agents of a tenant, as the operator."""
    tenant_id = _tenant_id(call)
    await call.host.stops.stop(tenant_id, BY_OPERATOR, call.body.reason, actor=call.actor)
    return _stops(call, tenant_id)


async def resume_tenant(call: ApiCall[None]) -> Answer:
    """End the operator's stop of a tenant."""
    tenant_id = _tenant_id(call)
    await call.host.stops.resume(tenant_id, BY_OPERATOR, actor=call.actor)
    return _stops(call, tenant_id)


def _stops(call: ApiCall[Any], tenant_id: str) -> Answer:
    found = call.host.stops.list(tenant_id)
    return Answer(StopList(any(stop.is_of_tenant for stop in found), [view_of_stop(stop) for stop in found]))


def _agent_id(call: ApiCall[Any]) -> str:
    """The id in the path, if the tenant has such an agent. Raises AgentNotFoundError."""
    agent_id = call.path["id"]
    if call.host.catalogue.program_id(call.tenant.id, agent_id) is None:
        raise AgentNotFoundError(f"no agent '{agent_id}' for this tenant")
    return agent_id


def _tenant_id(call: ApiCall[Any]) -> str:
    """The id in the path. Raises BadRequest, and TenantNotFoundError if there is no such tenant."""
    number = call.number("id")
    if not number:
        raise BadRequest("the id of a tenant is a number")
    return call.host.tenants.get(str(number)).id


_REASON = BodyReader(StopReason)
_AGENT = "/v1/agents/{id}"
_TENANT = "/v1/admin/tenants/{id:int}"

ROUTES = (
    ApiRoute(
        method="POST",
        path=f"{_AGENT}/stop",
        handler=stop_agent,
        summary="Stop an agent",
        description=(
            "Its work ends within a second, and it takes no messages until it is resumed. Tasks that wait for their "
            "caller stay as they are. Any agent of the tenant can be stopped, also `index` and those of the operator."
        ),
        body=_REASON,
        replies=[ApiReply(AgentView)],
        errors=[404],
    ),
    ApiRoute(
        method="POST",
        path=f"{_AGENT}/resume",
        handler=resume_agent,
        summary="Let a stopped agent work again",
        replies=[ApiReply(AgentView)],
        errors=[404],
    ),
    ApiRoute(
        method="GET",
        path="/v1/stops",
        handler=list_stops,
        summary="List what is stopped",
        replies=[ApiReply(StopList)],
    ),
    ApiRoute(
        method="POST",
        path="/v1/stop",
        handler=stop_own_tenant,
        summary="Stop all agents of the tenant",
        body=_REASON,
        replies=[ApiReply(StopList)],
    ),
    ApiRoute(
        method="POST",
        path="/v1/resume",
        handler=resume_own_tenant,
        summary="Let the agents of the tenant work again",
        description="Agents that were stopped one by one stay stopped, and so does what the operator has stopped.",
        replies=[ApiReply(StopList)],
    ),
    ApiRoute(
        method="GET",
        path=f"{_TENANT}/stops",
        handler=list_stops_of_tenant,
        auth=Auth.ADMIN,
        summary="List what is stopped of a tenant",
        replies=[ApiReply(StopList)],
        errors=[400, 404],
    ),
    ApiRoute(
        method="POST",
        path=f"{_TENANT}/stop",
        handler=stop_tenant,
        auth=Auth.ADMIN,
        summary="Stop all agents of a tenant",
        description="Only the operator can resume them. Unlike a disabled tenant, it can still read and manage.",
        body=_REASON,
        replies=[ApiReply(StopList)],
        errors=[404],
    ),
    ApiRoute(
        method="POST",
        path=f"{_TENANT}/resume",
        handler=resume_tenant,
        auth=Auth.ADMIN,
        summary="Let the agents of a tenant work again",
        replies=[ApiReply(StopList)],
        errors=[400, 404],
    ),
)
