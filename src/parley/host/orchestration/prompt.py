"""What a model is told: who the agent is, which commands and agents it has, and what it is asked.

All of it is text made of a constitution and of what the host knows; nothing here calls anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from parley.host.commands.help_text import command_inventory
from parley.host.constitution import Constitution
from parley.host.models.model import RosterEntry
from parley.host.orchestration.turn_context import MOST_DEPTH
from parley.host.origin import RunOrigin
from parley.protocol.messages import DataPart, Part, RawPart, TextPart

BREVITY = {
    "lite": "Be brief: a few sentences unless more is needed.",
    "full": "Answer completely, without padding.",
    "ultra": "Use as few words as possible.",
}

MODES = {
    "conversational": "You talk with a person: answer naturally.",
    "spoken": "Your answer is read aloud: no lists, no markup, no URLs.",
    "writer": "You write texts for others: deliver the text itself.",
    "planner": "You plan: deliver numbered steps that others can carry out.",
}

INLINE_BYTES = 64 * 1024
"""Text files of a message up to this size are shown to the model; a larger one would fill its context."""


def system_prompt(constitution: Constitution, *, today: str) -> str:
    """The instructions of an agent."""
    name = constitution.name or constitution.id
    lines = [f"You are {name}" + (f", {constitution.role}." if constitution.role else ".")]
    if constitution.goal:
        lines.append(f"Your goal: {constitution.goal}")
    if constitution.personality:
        lines.append(f"Your personality: {constitution.personality}")
    lines.append(BREVITY[constitution.brevity])
    if mode := MODES.get(constitution.mode):
        lines.append(mode)
    lines += [f"Rule: {rule}" for rule in constitution.rules]
    lines.append(f"Today is {today}.")
    lines.append(
        "You may use commands. A command is a line of your reply that begins with a slash in the first column; "
        "the user does not see it. Its result comes in the next message. When you need no more results, "
        "answer without commands."
    )
    lines.append(_inventory(constitution.capabilities))
    return "\n".join(lines)


@lru_cache(maxsize=1_000)  # agents have few different sets of capabilities
def _inventory(capabilities: tuple[str, ...]) -> str:
    return command_inventory(capabilities)


def first_message(query: str, origin: RunOrigin, depth: int, roster: Sequence[RosterEntry]) -> str:
    """The message that begins a turn: what the agent can call, and what it is asked."""
    blocks: list[str] = []
    local = [entry for entry in roster if not entry.is_remote]
    remote = [entry for entry in roster if entry.is_remote]
    if local:
        blocks.append("AGENTS (call them with /agent)\n" + "\n".join(map(_line, local)))
    if remote:
        blocks.append("REMOTE A2A AGENTS (call them with /a2a call)\n" + "\n".join(map(_line, remote)))
    if origin.delegated_by:
        blocks.append(
            f"[DELEGATION CONTEXT]\nOriginal request: {origin.original_query[:200]}\n"
            f"Delegated by: {origin.delegated_by}\nDepth: {depth}/{MOST_DEPTH}\n[END DELEGATION CONTEXT]"
        )
    elif origin.original_query and origin.original_query != query:
        blocks.append(f"Original request: {origin.original_query}")
    blocks.append(f"QUERY: {query}" if blocks else query)
    return "\n\n".join(blocks)


def message_text(parts: Sequence[Part]) -> str:
    """The parts of a message as text for a model: files that are text are shown, others are named."""
    return "\n".join(filter(None, map(_part_text, parts)))


def _part_text(part: Part) -> str:
    match part:
        case TextPart():
            return part.text
        case DataPart():
            return msgspec.json.encode(part.data).decode()
        case RawPart():
            name = part.filename or "file"
            if len(part.raw) <= INLINE_BYTES:
                try:
                    return f"[FILE {name}]\n{part.raw.decode()}\n[END FILE]"
                except UnicodeDecodeError:
                    pass
            return f"[FILE {name}: {part.media_type or 'unknown type'}, {len(part.raw)} bytes, not shown]"
        case _:
            return f"[FILE {part.filename or part.url}: {part.media_type or 'unknown type'}, at a URL]"


def _line(entry: RosterEntry) -> str:
    name = f" ({entry.name})" if entry.name != entry.id else ""
    skills = f" (skills: {', '.join(entry.skills[:5])})" if entry.skills else ""
    return f"{entry.id}{name} — {entry.description}{skills}"
