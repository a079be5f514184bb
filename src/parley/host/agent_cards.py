"""What a card says about an agent, derived from its constitution.

Only what depends on the constitution is here. URLs, capabilities of the server and security are the server's part.
"""

from __future__ import annotations

from msgspec import Struct

from parley.host.commands.capabilities import skill_of
from parley.host.constitution import Constitution
from parley.protocol.cards import AgentSkill

FALLBACK_DESCRIPTION = "An agent of this host."


class CardFields(Struct, frozen=True):
    """The members of a card that describe the agent."""

    name: str
    description: str
    version: str
    skills: tuple[AgentSkill, ...]


def card_of(constitution: Constitution, *, version: str) -> CardFields:
    """The card's description of an agent. `version` is when it was changed last, as text, or `index`."""
    said = [text for text in (constitution.role, constitution.goal) if text]
    return CardFields(
        name=constitution.name or constitution.id,
        description=" — ".join(said) or FALLBACK_DESCRIPTION,
        version=version or "1",
        skills=_skills(constitution),
    )


def _skills(constitution: Constitution) -> tuple[AgentSkill, ...]:
    """Conversation, then one skill for each capability in its order; of those with one id, the first."""
    chat = AgentSkill(
        id="chat",
        name="chat",
        description="Answers a message in text.",
        tags=("text",),
        examples=constitution.examples,
    )
    skills = {chat.id: chat}
    for capability in constitution.capabilities:
        skill_id, description = skill_of(capability)
        skills.setdefault(skill_id, AgentSkill(skill_id, skill_id, description, tags=(capability,)))
    return tuple(skills.values())
