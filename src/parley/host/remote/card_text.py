"""The card of a remote agent as text for models."""

from __future__ import annotations

from parley.protocol.cards import AgentCard
from parley.safe_text import printable_line

MOST_SKILLS = 20
"""Skills of one card that are shown; the result of a command is cut anyway."""


def describe_card(card: AgentCard) -> str:
    """Its name, what it does, and its skills with examples, a line each."""
    lines = [f"{printable_line(card.name)} — {printable_line(card.description)}"]
    for skill in card.skills[:MOST_SKILLS]:
        examples = f" For example: {' | '.join(map(printable_line, skill.examples[:3]))}" if skill.examples else ""
        lines.append(f"- {printable_line(skill.name)}: {printable_line(skill.description)}{examples}")
    return "\n".join(lines)
