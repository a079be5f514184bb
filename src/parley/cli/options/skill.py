"""The option `--skill`, and a check against the card before anything is sent."""

from __future__ import annotations

from typing import Annotated

import typer

from parley.protocol.cards import AgentCard
from parley.protocol.errors import LocalProtocolError

SkillChoice = Annotated[
    str | None, typer.Option("--skill", metavar="ID", help="The skill to use, for agents made with Parley.")
]


class UnknownSkillError(LocalProtocolError):
    """The agent has no such skill."""


def check_skill(card: AgentCard, skill: str | None) -> None:
    """Make sure that an agent has a skill, according to its card.

    Raises:
        UnknownSkillError: the card lists skills, but not this one.
    """
    known = [one.id for one in card.skills]
    # An extended card may list more skills for authenticated callers.
    if skill is None or not known or skill in known or card.capabilities.extended_card:
        return
    raise UnknownSkillError(f"The agent has no skill {skill!r}; it has {', '.join(known)}")
