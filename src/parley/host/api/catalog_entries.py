"""The entries of the catalogues of a host: what a tenant may call, and what is public.

A tenant's agents have the URLs of cards that need its token. A public agent has a card that needs none, under a handle
that says nothing of its tenant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from parley.agents.agent import Agent
from parley.ai_catalog.card_entries import agent_identifier, entry_of_card
from parley.ai_catalog.model import CARD_TYPE, CATALOG_TYPE, SKILLS_KEY, AiCatalogEntry, AiCatalogPublisher
from parley.host.catalogue import FoundAgent
from parley.host.data.public_agents import PublicAgent
from parley.host.data.registered_agents import RegisteredAgent
from parley.host.data.tenant import Tenant
from parley.host.remote.config import RemoteAgentConfig
from parley.protocol.cards import AgentCard
from parley.protocol.jsonvalue import JsonObject

if TYPE_CHECKING:
    from parley.host.host import Host

PUBLIC_PATH = "/v1/public/agents/"

Origin: TypeAlias = Literal["own", "shared", "remote", "registered", "catalog"]
"""Where an entry comes from: the tenant's agents, the operator's, its list of remote ones, or what the tenant added."""


class OriginEntry(Struct, frozen=True):
    """An entry, where it comes from, and the name by which agents of the tenant call it, if they can."""

    entry: AiCatalogEntry
    origin: Origin
    name: str = ""


async def tenant_entries(host: Host, tenant: Tenant, base_url: str) -> Sequence[OriginEntry]:
    """The agents that a tenant may call: its own, shared ones, remote ones and registered ones."""
    registered = await host.registry.agents.list(tenant.id)
    listed = host.remote.listed(tenant)
    return [
        *_own_entries(host, tenant.id, base_url),
        *[OriginEntry(_remote_entry(*one, base_url), "remote", name) for name, one in listed.items()],
        *[
            OriginEntry(_registered_entry(agent, base_url), "registered", agent.name)
            for agent in registered
            if agent.name not in listed
        ],
    ]


async def source_entries(host: Host, tenant: Tenant, base_url: str) -> Sequence[AiCatalogEntry]:
    """The catalogues that a tenant has added, as entries of its own catalogue."""
    return [
        AiCatalogEntry(
            identifier=f"{base_url}/v1/catalog/sources/{source.name}",
            display_name=source.name,
            media_type=CATALOG_TYPE,
            url=source.url,
            updated_at=_time(source.read_at),
        )
        for source in await host.registry.sources.list(tenant.id)
    ]


def public_entries(host: Host, public: Sequence[PublicAgent], base_url: str) -> Sequence[AiCatalogEntry]:
    """The agents that are public, by their own mark or by the settings of the host."""
    shared = [
        _entry(found, agent_identifier(base_url, agent_id), f"{base_url}{PUBLIC_PATH}{agent_id}")
        for agent_id in host.settings.public_agents
        if (found := host.catalogue.find_shared(agent_id)) is not None
    ]
    stored = [
        _entry(
            found,
            agent_identifier(base_url, one.handle, one.agent_id),
            f"{base_url}{PUBLIC_PATH}{one.handle}",
        )
        for one in public
        if (found := find_public(host, one)) is not None
    ]
    return [*shared, *stored]


def find_public(host: Host, public: PublicAgent) -> FoundAgent | None:
    """The agent that was made public; None if it, or its tenant, is not there any more."""
    tenant = host.tenant(public.tenant)
    found = None if tenant is None else host.catalogue.find(public.tenant, public.agent_id)
    if found is None or found.stored is None or found.stored.created_at != public.created_at:
        return None
    return found


def _own_entries(host: Host, tenant_id: str, base_url: str) -> Iterator[OriginEntry]:
    for found in host.catalogue.all(tenant_id):
        agent_id = found.agent.id
        entry = _entry(found, agent_identifier(base_url, agent_id), host.url_of(agent_id, base_url))
        yield OriginEntry(entry, "shared" if found.is_shared else "own", agent_id)


def _entry(found: FoundAgent, identifier: str, url: str) -> AiCatalogEntry:
    return entry_of_card(
        _card(found.agent), identifier=identifier, url=f"{url}/agent-card.json", updated_at=found.since
    )


def _card(agent: Agent) -> AgentCard:
    return agent.card(everything=False)


def _remote_entry(agent: RemoteAgentConfig, card: AgentCard | None, base_url: str) -> AiCatalogEntry:
    identifier = f"{base_url}/v1/catalog/remote/{agent.name}"
    if card is not None:
        return entry_of_card(card, identifier=identifier, url=agent.url)
    return AiCatalogEntry(
        identifier=identifier,
        display_name=agent.name,
        media_type=CARD_TYPE,
        url=agent.url,
        description=agent.description or "",
    )


def _registered_entry(agent: RegisteredAgent, base_url: str) -> AiCatalogEntry:
    card = agent.card
    tags = dict.fromkeys(tag for skill in card.skills for tag in skill.tags)
    skills: JsonObject = {SKILLS_KEY: [skill.id for skill in card.skills]} if card.skills else {}
    return AiCatalogEntry(
        identifier=f"{base_url}/v1/catalog/agents/{agent.name}",
        display_name=card.name or agent.name,
        media_type=CARD_TYPE,
        url=agent.url,
        description=agent.description or card.description,
        tags=tuple(tags),
        version=card.version or None,
        updated_at=_time(agent.updated_at),
        publisher=AiCatalogPublisher(card.organization, card.organization) if card.organization else None,
        metadata=skills,
    )


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
