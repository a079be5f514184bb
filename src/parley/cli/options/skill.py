"""The skill that a message is for: the option that names it, and a look at the card before anything is sent."""

from __future__ import annotations

from typing import Annotated

import typer

from parley.protocol.cards import AgentCard
from parley.protocol.errors import LocalProtocolError

SkillChoice = Annotated[
    str | None, typer.Option("--skill", metavar="ID", help="The skill to use, with agents of Parley.")
]


class UnknownSkillError(LocalProtocolError):
    """The agent has no such skill."""


def check_skill(card: AgentCard, skill: str | None) -> None:
    """Make sure that an agent has a skill, as far as its card tells.

    Raises:
        UnknownSkillError: the card lists its skills, and this is none of them.
    """
    known = [one.id for one in card.skills]
    # With an extended card, authenticated callers may have skills that this one does not tell.
    if skill is None or not known or skill in known or card.capabilities.extended_card:
        return
    raise UnknownSkillError(f"The agent has no skill {skill!r}; it has {', '.join(known)}")
