"""What the card of an agent says, by its constitution."""

from __future__ import annotations

import pytest

from parley.host.agent_cards import FALLBACK_DESCRIPTION, card_of
from parley.host.constitution import INDEX, Constitution
from parley.protocol.cards import AgentSkill


def test_a_card_derives_from_the_constitution_by_the_documented_table() -> None:
    constitution = Constitution(
        id="scout",
        name="Scout",
        role="researcher",
        goal="find facts",
        capabilities=("/fetch", "/search", "research", "/fetch"),
        examples=("Who wrote Emma?",),
    )
    card = card_of(constitution, version="1700000000")
    assert (card.name, card.description, card.version) == ("Scout", "researcher — find facts", "1700000000")
    assert [(skill.id, skill.name, skill.tags) for skill in card.skills] == [
        ("chat", "chat", ("text",)),
        ("fetch-url", "fetch-url", ("/fetch",)),
        ("web-search", "web-search", ("/search",)),
        ("research", "research", ("research",)),
    ]
    assert card.skills[0].examples == ("Who wrote Emma?",)
    assert all(skill.description for skill in card.skills)


def test_the_master_shows_only_the_chat_skill() -> None:
    card = card_of(INDEX, version="index")
    assert (card.version, [skill.id for skill in card.skills]) == ("index", ["chat"])
    assert isinstance(card.skills[0], AgentSkill)


@pytest.mark.parametrize(
    ("role", "goal", "description"),
    [("author", "", "author"), ("", "write", "write"), ("", "", FALLBACK_DESCRIPTION)],
)
def test_what_is_empty_is_left_out(role: str, goal: str, description: str) -> None:
    card = card_of(Constitution(id="a", role=role, goal=goal), version="")
    assert (card.name, card.description, card.version) == ("a", description, "1")
