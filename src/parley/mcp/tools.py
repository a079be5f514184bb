"""An agent as an MCP tool: its description and the schemas of its input and output, made of its card.

Cards come from anywhere, so everything that is taken from one is bounded: clients give descriptions to their models
with every request.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mcp_types import Tool, ToolAnnotations

from parley.mcp.callable_agents import NamedAgent
from parley.protocol.cards import AgentCard, AgentSkill
from parley.protocol.jsonvalue import JsonObject

MAX_TITLE = 200
MAX_DESCRIPTION = 2_000
"""Characters of an agent's own description."""

MAX_SKILLS = 20
MAX_EXAMPLES = 10
MAX_LINE = 300
"""Characters of one skill or example."""

MAX_ID = 1_024
"""Characters of the id of a task or context; Parley's servers accept as many."""

MAX_SKILL_CHOICES = 200
"""Skills that a caller can choose from. An agent with more of them chooses by itself."""

TEXT_MODES = ("text", "application/json")
"""Input modes that need no file: the beginning of a media type."""

FILE_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "media_type": {"type": "string", "description": "Such as image/png."},
        "data": {"type": "string", "description": "The bytes in base64."},
        "url": {"type": "string", "description": "Where the agent can fetch the file, instead of data."},
    },
    "additionalProperties": False,
}

OUTPUT_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "task_id": {"type": "string", "description": "The task; pass it to answer a question of the agent."},
        "context_id": {"type": "string", "description": "The conversation; pass it to continue."},
        "state": {"type": "string", "description": "completed, input-required, failed, …"},
        "text": {"type": "string"},
        "data": {"description": "The structured results, in order.", "type": "array"},
        "files": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "media_type": {"type": "string"},
                    "uri": {"type": "string", "description": "That of the embedded resource or link."},
                    "bytes": {"type": "integer"},
                },
                "required": ["uri"],
            },
        },
        "question": {"type": "string", "description": "What the agent asks, if it waits for an answer."},
        "form": {"type": "object", "description": "The JSON Schema of the answer, to be passed as data."},
        "reason": {"type": "string", "description": "Why the task was not completed."},
    },
    "required": ["state", "text", "data", "files"],
}


def tool_of(agent: NamedAgent) -> Tool:
    """The tool that calls an agent."""
    title = bounded(agent.card.name or agent.name, MAX_TITLE)
    return Tool(
        name=agent.name,
        title=title,
        description=description_of(agent.card),
        input_schema=input_schema(agent.card),
        output_schema=OUTPUT_SCHEMA,
        annotations=ToolAnnotations(title=title, open_world_hint=True),
    )


def description_of(card: AgentCard) -> str:
    """What an agent does: its own words, its skills and examples."""
    said = [bounded(card.description or card.name, MAX_DESCRIPTION)]
    skills = [_line(f"{skill.name}: {skill.description}") for skill in card.skills if _says_more(skill, card)]
    examples = list(dict.fromkeys(_line(example) for skill in card.skills for example in skill.examples))
    said += _section("Skills", skills, MAX_SKILLS)
    said += _section("Examples", examples, MAX_EXAMPLES)
    return "\n".join(said)


def input_schema(card: AgentCard) -> JsonObject:
    """The arguments of a call."""
    properties: JsonObject = {
        "message": {"type": "string", "description": "What the agent is to do, or the answer to its question."},
        "context_id": {
            "type": "string",
            "maxLength": MAX_ID,
            "description": "The conversation to continue, from an earlier result.",
        },
        "task_id": {
            "type": "string",
            "maxLength": MAX_ID,
            "description": "A task of an earlier result, whose question this message answers. With an empty message, "
            "the task is looked at, and its result awaited.",
        },
        "data": {"type": "object", "description": "Structured input beside the message, or the answer to a form."},
    }
    if takes_files(card):
        properties["files"] = {"type": "array", "items": FILE_SCHEMA, "description": "Files for the agent."}
    if choices := skill_choices(card):
        properties["skill"] = {
            "type": "string",
            "enum": list(choices),
            "description": "The skill that the message is for; without it the agent chooses.",
        }
    return {"type": "object", "properties": properties, "required": ["message"], "additionalProperties": False}


def takes_files(card: AgentCard) -> bool:
    """Whether a card says that the agent takes more than text and data."""
    modes = {*card.default_input_modes, *(mode for skill in card.skills for mode in skill.input_modes)}
    return any(not mode.startswith(TEXT_MODES) for mode in modes)


def skill_choices(card: AgentCard) -> Sequence[str]:
    """The ids of the skills that a caller can choose from; empty if there is no choice."""
    ids = tuple(dict.fromkeys(skill.id for skill in card.skills if len(skill.id) <= MAX_LINE))
    return ids if 1 < len(ids) <= MAX_SKILL_CHOICES else ()


def bounded(text: str, limit: int) -> str:
    """The text, or its beginning if it is longer than allowed."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _says_more(skill: AgentSkill, card: AgentCard) -> bool:
    """Whether a skill is more than the agent's description once again."""
    return bool(skill.description) and skill.description != card.description


def _section(title: str, lines: Sequence[str], most: int) -> Iterable[str]:
    if not lines:
        return ()
    more = [f"- … and {len(lines) - most} more"] if len(lines) > most else []
    return (f"\n{title}:", *(f"- {line}" for line in lines[:most]), *more)


def _line(text: str) -> str:
    return bounded(" ".join(text[: MAX_LINE * 4].split()), MAX_LINE)
