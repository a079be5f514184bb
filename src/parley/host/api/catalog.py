"""Catalogues: the public one, the tenant's own, the search in it, and which of a tenant's agents are public."""

from __future__ import annotations

from parley.ai_catalog.documents import CatalogDocument, catalog_document
from parley.ai_catalog.model import CATALOG_TYPE, WELL_KNOWN_PATH
from parley.host.a2a.cards import HostedCards
from parley.host.api.catalog_entries import PUBLIC_PATH, find_public, source_entries, tenant_entries
from parley.host.api.catalog_views import CatalogPage, PublicChange, PublicState
from parley.host.api.query_parameters import LimitParameter, NumberParameter, TextParameter
from parley.host.api.route import Answer, ApiCall, ApiReply, ApiRoute, Auth, BodyReader
from parley.host.catalogue import FoundAgent
from parley.host.constitution import is_agent_id
from parley.host.data.agents import AgentNotFoundError, StoredAgent
from parley.host.errors import BadRequest, Conflict, PathNotFound
from parley.server.pages.cards import PUBLIC_SECONDS
from parley.server.pages.catalog import host_info, reply_catalog
from parley.server.site import reply_card

TENANT_PATH = "/v1/catalog"
PRIVATE_SECONDS = 60
MOST_QUERY = 500
"""Characters of what is searched for."""

PAGE = NumberParameter("page", "A page of a catalogue that has more than 1,000 entries, from 1 on.", most=10_000)
TEXT = TextParameter("q", "Words that the name, the description, the skills or the tags have.")
SKILL = TextParameter("skill", "The id of a skill.")
TAG = TextParameter("tag", "A tag.")
LIMIT = LimitParameter(default=20, most=100)
OFFSET = NumberParameter("offset", "How many of the first entries are left out.", most=100_000)


async def show_public_catalog(call: ApiCall[None]) -> None:
    """The agents that are public."""
    document = await call.host.public_catalog.document(call.request.base_url, call.query(PAGE) or 0)
    await _reply(call, document, cache=b"public, max-age=%d" % PRIVATE_SECONDS, vary=b"Host")


async def show_public_card(call: ApiCall[None]) -> None:
    """The card of a public agent, for callers without a token. Calls need one, as the card says."""
    found = await _public_agent(call)
    if found is None:
        raise PathNotFound
    host, agent_id = call.host, found.agent.id
    tenant = host.tenant(found.stored.tenant) if found.stored is not None else None
    takes_webhooks = tenant is not None and tenant.settings.push_notifications
    cards = HostedCards(
        found.agent, host.app.shared, since=found.since, agent_id=agent_id, takes_webhooks=takes_webhooks
    )
    url = host.url_of(agent_id, call.request.base_url)
    await cards.prepare(url)
    document = cards.document(url)
    await reply_card(call.request, document, cache=b"public, max-age=%d" % PUBLIC_SECONDS, vary=b"Host")


async def show_tenant_catalog(call: ApiCall[None]) -> None:
    """Everything that the tenant may call, and the catalogues that it has added."""
    base_url = call.request.base_url
    agents = [one.entry for one in await tenant_entries(call.host, call.tenant, base_url)]
    document = catalog_document(
        [*agents, *await source_entries(call.host, call.tenant, base_url)],
        host=host_info(base_url),
        url=f"{base_url}{TENANT_PATH}",
        page=call.query(PAGE) or 0,
    )
    cache = b"private, max-age=%d" % PRIVATE_SECONDS
    await _reply(call, document, cache=cache, vary=b"Authorization, Host")


async def search_catalog(call: ApiCall[None]) -> Answer:
    """Search by text, skill and tag."""
    text, skill, tag = call.query(TEXT), call.query(SKILL), call.query(TAG)
    for name, given in (("q", text), ("skill", skill), ("tag", tag)):
        if len(given) > MOST_QUERY:
            raise BadRequest(f"{name}: may have up to {MOST_QUERY} characters")
    base_url = call.request.base_url
    found = await call.host.catalog_search.find(call.tenant, base_url, text=text, skill=skill, tag=tag)
    begin, limit = call.query(OFFSET) or 0, call.query(LIMIT)
    end = begin + limit
    return Answer(CatalogPage(len(found), found[begin:end], end if end < len(found) else None))


async def get_public(call: ApiCall[None]) -> Answer:
    """Whether an agent is public."""
    stored = _stored(call)
    public = await call.host.public_agents.get(call.tenant.id, stored.id)
    is_public = public is not None and public.is_public and public.created_at == stored.created_at
    return Answer(_state(call, public.handle if public is not None and is_public else None))


async def set_public(call: ApiCall[PublicChange]) -> Answer:
    """Make an agent public, or private again."""
    stored = _stored(call)
    public = await call.host.public_agents.set(
        call.tenant.id, stored.id, created_at=stored.created_at, is_public=call.body.public, actor=call.actor
    )
    return Answer(_state(call, public.handle if public.is_public else None))


async def _reply(call: ApiCall[None], document: CatalogDocument | None, *, cache: bytes, vary: bytes) -> None:
    if document is None:
        raise PathNotFound("the catalogue has no such page")
    await reply_catalog(call.request, document, cache=cache, vary=vary)


async def _public_agent(call: ApiCall[None]) -> FoundAgent | None:
    """The public agent that a path means, by its handle, or by its id if all tenants share it."""
    host, handle = call.host, call.path["id"]
    if handle in host.settings.public_agents:
        return host.catalogue.find_shared(handle)
    public = next((one for one in await host.public_agents.all() if one.handle == handle), None)
    return None if public is None else find_public(host, public)


def _stored(call: ApiCall[PublicChange] | ApiCall[None]) -> StoredAgent:
    """The stored agent that a path means. Raises AgentNotFoundError or Conflict."""
    agent_id = call.path["id"]
    found = call.host.catalogue.find(call.tenant.id, agent_id) if is_agent_id(agent_id) else None
    if found is None:
        raise AgentNotFoundError(f"no agent '{agent_id}' for this tenant")
    if found.stored is None:
        raise Conflict(f"agent '{agent_id}' belongs to the operator; only agents that the tenant stored become public")
    return found.stored


def _state(call: ApiCall[PublicChange] | ApiCall[None], handle: str | None) -> PublicState:
    if handle is None:
        return PublicState(False)
    return PublicState(True, f"{call.request.base_url}{PUBLIC_PATH}{handle}/agent-card.json")


_CATALOG = ApiReply(None, description="An AI Catalog.", content_type=CATALOG_TYPE)

ROUTES = (
    ApiRoute(
        method="GET",
        path=WELL_KNOWN_PATH,
        handler=show_public_catalog,
        auth=Auth.NONE,
        summary="Read the public catalogue",
        description="The agents that were made public, and no others.",
        query=[PAGE],
        replies=[_CATALOG],
        errors=[404],
    ),
    ApiRoute(
        method="GET",
        path=f"{PUBLIC_PATH}{{id}}/agent-card.json",
        handler=show_public_card,
        auth=Auth.NONE,
        summary="Read the card of a public agent",
        replies=[ApiReply(None, description="An A2A card.", content_type="application/json")],
        errors=[404],
    ),
    ApiRoute(
        method="GET",
        path=TENANT_PATH,
        handler=show_tenant_catalog,
        summary="Read the tenant's catalogue",
        description="Its own agents, those that the operator gives, remote ones, and the catalogues that it has added.",
        query=[PAGE],
        replies=[_CATALOG],
        errors=[404],
    ),
    ApiRoute(
        method="GET",
        path=f"{TENANT_PATH}/search",
        handler=search_catalog,
        summary="Search the tenant's catalogue",
        description="The entries of added catalogues are found as well. Without parameters, everything is.",
        query=[TEXT, SKILL, TAG, LIMIT, OFFSET],
        replies=[ApiReply(CatalogPage)],
    ),
    ApiRoute(
        method="GET",
        path="/v1/agents/{id}/public",
        handler=get_public,
        summary="Read whether an agent is public",
        replies=[ApiReply(PublicState)],
        errors=[404, 409],
    ),
    ApiRoute(
        method="PUT",
        path="/v1/agents/{id}/public",
        handler=set_public,
        summary="Make an agent public, or private again",
        description=(
            "A public agent is in `/.well-known/ai-catalog.json`. Its card, with its role, goal and examples, needs no "
            "token. It is called with a token of the tenant, as before."
        ),
        body=BodyReader(PublicChange),
        replies=[ApiReply(PublicState)],
        errors=[404, 409],
    ),
)
