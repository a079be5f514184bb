"""Agents and catalogues elsewhere that a tenant registers: added, listed, checked and removed."""

from __future__ import annotations

import msgspec

from parley.client.discovery.signatures import read_key_set
from parley.host.api.agents import Deleted
from parley.host.api.catalog_views import (
    AgentRegistration,
    CheckRequest,
    HealthView,
    RegisteredAgentList,
    RegisteredAgentView,
    SignatureDemand,
    SourceAddition,
    SourceList,
    SourceView,
    agent_view,
    source_view,
)
from parley.host.api.route import Answer, ApiCall, ApiReply, ApiRoute, BodyReader
from parley.host.data.registered_agents import SignatureRule
from parley.host.data.registry_checks import RegistryCheck
from parley.host.errors import BadRequest, Conflict
from parley.host.registry.card_inspection import CardRefusedError
from parley.host.registry.registry import NewAgent
from parley.host.registry.source_reading import SourceUnreadableError
from parley.network.urls import InvalidUrlError, parse_url
from parley.protocol.errors import SignatureInvalidError

MOST_KEY_BYTES = 50_000
"""Of a key set: some fifty keys."""


async def register_agent(call: ApiCall[AgentRegistration]) -> Answer:
    """Fetch the card of an agent, check it, and register the agent."""
    body, host, tenant = call.body, call.host, call.tenant
    _check_url(body.url)
    if body.name is not None:
        _check_free(call, body.name)
    token = None if body.credentials is None else body.credentials.token
    new = NewAgent(body.url, body.name, body.description, token, _rule(body.signatures))
    try:
        agent = await host.registry.inspect(new)
    except CardRefusedError as error:
        raise BadRequest(f"$.url: the agent cannot be registered: {error.message}") from None
    _check_free(call, agent.name)
    added = await host.registry.add(tenant.id, agent, token=token, actor=call.actor)
    return Answer(agent_view(added, await host.registry.checks.get(tenant.id, "agent", added.name)), 201)


async def list_registered(call: ApiCall[None]) -> Answer:
    """All registered agents, with their health."""
    registry, tenant_id = call.host.registry, call.tenant.id
    agents = await registry.agents.list(tenant_id)
    views = [agent_view(agent, await registry.checks.get(tenant_id, "agent", agent.name)) for agent in agents]
    return Answer(RegisteredAgentList(len(views), views))


async def get_registered(call: ApiCall[None]) -> Answer:
    """One registered agent."""
    registry, tenant_id, name = call.host.registry, call.tenant.id, call.path["id"]
    agent = await registry.agents.get(tenant_id, name)
    return Answer(agent_view(agent, await registry.checks.get(tenant_id, "agent", name)))


async def remove_registered(call: ApiCall[None]) -> Answer:
    """Remove a registered agent and its token."""
    await call.host.registry.agents.remove(call.tenant.id, call.path["id"], actor=call.actor)
    return Answer(Deleted())


async def check_registered(call: ApiCall[CheckRequest]) -> Answer:
    """Check a registered agent now."""
    accept_by = call.actor if call.body.accept else None
    check = await call.host.registry.check_agent(call.tenant.id, call.path["id"], accept_by=accept_by)
    return Answer(_health(check))


async def add_source(call: ApiCall[SourceAddition]) -> Answer:
    """Read a catalogue and add it."""
    body, registry, tenant_id = call.body, call.host.registry, call.tenant.id
    _check_url(body.url)
    token = None if body.credentials is None else body.credentials.token
    try:
        added = await registry.add_source(tenant_id, body.url, name=body.name, token=token, actor=call.actor)
    except SourceUnreadableError as error:
        raise BadRequest(f"$.url: the catalogue cannot be added: {error.message}") from None
    return Answer(source_view(added, await registry.checks.get(tenant_id, "source", added.name)), 201)


async def list_sources(call: ApiCall[None]) -> Answer:
    """All catalogues that were added."""
    registry, tenant_id = call.host.registry, call.tenant.id
    sources = await registry.sources.list(tenant_id)
    views = [source_view(source, await registry.checks.get(tenant_id, "source", source.name)) for source in sources]
    return Answer(SourceList(len(views), views))


async def get_source(call: ApiCall[None]) -> Answer:
    """One catalogue."""
    registry, tenant_id, name = call.host.registry, call.tenant.id, call.path["id"]
    source = await registry.sources.get(tenant_id, name)
    return Answer(source_view(source, await registry.checks.get(tenant_id, "source", name)))


async def remove_source(call: ApiCall[None]) -> Answer:
    """Remove a catalogue and what is known of it."""
    await call.host.registry.sources.remove(call.tenant.id, call.path["id"], actor=call.actor)
    return Answer(Deleted())


async def refresh_source(call: ApiCall[None]) -> Answer:
    """Read a catalogue again now."""
    return Answer(_health(await call.host.registry.check_source(call.tenant.id, call.path["id"])))


def _health(check: RegistryCheck | None) -> HealthView:
    if check is None:
        raise Conflict("it is being checked already; try again in a moment")
    return HealthView(check.state, check.reason, check.since, check.checked_at)


def _check_url(url: str) -> None:
    try:
        parse_url(url)
    except InvalidUrlError as error:
        raise BadRequest(f"$.url: {error.message}") from None


def _check_free(call: ApiCall[AgentRegistration], name: str) -> None:
    """Refuse a name that another agent of the tenant has: it would be unclear which one is called. Raises Conflict."""
    if name in call.host.remote.listed(call.tenant) or call.host.catalogue.program_id(call.tenant.id, name):
        raise Conflict(f"$.name: the tenant has another agent '{name}'; give a name")


def _rule(demand: SignatureDemand) -> SignatureRule:
    """The rule that is kept. Raises BadRequest if no card could ever fulfil it."""
    jwks = "" if demand.jwks is None else msgspec.json.encode(demand.jwks).decode()
    if len(jwks) > MOST_KEY_BYTES:
        raise BadRequest(f"$.signatures.jwks: may have up to {MOST_KEY_BYTES} bytes")
    try:
        keys = read_key_set(jwks.encode()) if jwks else {}
    except SignatureInvalidError as error:
        raise BadRequest(f"$.signatures.jwks: {error.message}") from None
    if jwks and not keys:
        raise BadRequest("$.signatures.jwks: has no key with a `kid` that signs cards")
    if demand.mode == "required" and not keys:
        raise BadRequest("$.signatures.jwks: signatures are required, so it must have a key to verify them")
    return SignatureRule(demand.mode, jwks)


ROUTES = (
    ApiRoute(
        method="POST",
        path="/v1/catalog/agents",
        handler=register_agent,
        summary="Register a remote agent",
        description=(
            "Its card is fetched and checked, and watched from then on. The tenant's agents call it with `/a2a call`. "
            "The token is never shown again."
        ),
        body=BodyReader(AgentRegistration),
        replies=[ApiReply(RegisteredAgentView, 201)],
        errors=[409],
    ),
    ApiRoute(
        method="GET",
        path="/v1/catalog/agents",
        handler=list_registered,
        summary="List the registered agents",
        replies=[ApiReply(RegisteredAgentList)],
    ),
    ApiRoute(
        method="GET",
        path="/v1/catalog/agents/{id}",
        handler=get_registered,
        summary="Read a registered agent",
        replies=[ApiReply(RegisteredAgentView)],
        errors=[404],
    ),
    ApiRoute(
        method="DELETE",
        path="/v1/catalog/agents/{id}",
        handler=remove_registered,
        summary="Remove a registered agent",
        replies=[ApiReply(Deleted)],
        errors=[404],
    ),
    ApiRoute(
        method="POST",
        path="/v1/catalog/agents/{id}/check",
        handler=check_registered,
        summary="Check a registered agent now",
        description='With the body `{"accept": true}`, the card is accepted as it is now, if its signature allows it.',
        body=BodyReader(CheckRequest, is_optional=True),
        replies=[ApiReply(HealthView)],
        errors=[404, 409],
    ),
    ApiRoute(
        method="POST",
        path="/v1/catalog/sources",
        handler=add_source,
        summary="Add a catalogue",
        description="Its entries, and those of the catalogues that it names, are found by the search.",
        body=BodyReader(SourceAddition),
        replies=[ApiReply(SourceView, 201)],
        errors=[409],
    ),
    ApiRoute(
        method="GET",
        path="/v1/catalog/sources",
        handler=list_sources,
        summary="List the added catalogues",
        replies=[ApiReply(SourceList)],
    ),
    ApiRoute(
        method="GET",
        path="/v1/catalog/sources/{id}",
        handler=get_source,
        summary="Read an added catalogue",
        replies=[ApiReply(SourceView)],
        errors=[404],
    ),
    ApiRoute(
        method="DELETE",
        path="/v1/catalog/sources/{id}",
        handler=remove_source,
        summary="Remove a catalogue",
        replies=[ApiReply(Deleted)],
        errors=[404],
    ),
    ApiRoute(
        method="POST",
        path="/v1/catalog/sources/{id}/check",
        handler=refresh_source,
        summary="Read a catalogue again now",
        replies=[ApiReply(HealthView)],
        errors=[404, 409],
    ),
)
