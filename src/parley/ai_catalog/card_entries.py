"""The entry of an agent, from its card."""

from __future__ import annotations

from datetime import datetime

from parley.ai_catalog.model import CARD_TYPE, SKILLS_KEY, AiCatalogEntry, AiCatalogPublisher
from parley.network.urls import host_of
from parley.protocol.cards import AgentCard
from parley.protocol.jsonvalue import JsonObject

MOST_TAGS = 50
MOST_SKILLS = 100
MOST_TEXT = 2_000
"""Of a card with more than that, the rest is in the card itself."""


def entry_of_card(card: AgentCard, *, identifier: str, url: str, updated_at: datetime | None = None) -> AiCatalogEntry:
    """The entry of an agent whose card is at this URL. Its tags are those of its skills."""
    tags = dict.fromkeys(tag for skill in card.skills for tag in skill.tags if tag)
    skills = [skill.id for skill in card.skills[:MOST_SKILLS]]
    metadata: JsonObject = {SKILLS_KEY: [*skills]} if skills else {}
    return AiCatalogEntry(
        identifier=identifier,
        display_name=card.name[:500] or identifier,
        media_type=CARD_TYPE,
        url=url,
        description=card.description[:MOST_TEXT],
        tags=tuple([tag[:200] for tag in tags][:MOST_TAGS]),
        version=card.version[:200] or None,
        updated_at=None if updated_at is None else updated_at.isoformat().replace("+00:00", "Z"),
        publisher=_publisher(card),
        metadata=metadata,
    )


def agent_identifier(base_url: str, *names: str) -> str:
    """The URN of an agent of a server: `urn:air:agents.example:agent:currency`."""
    host = host_of(base_url).replace(":", "-") or "localhost"  # the colons of an IPv6 address would be segments
    return ":".join(("urn:air", host, "agent", *names))


def _publisher(card: AgentCard) -> AiCatalogPublisher | None:
    provider = card.provider
    if provider is None or not provider.organization:
        return None
    return AiCatalogPublisher(provider.url or provider.organization, provider.organization)
