"""What an adapter is: it describes a framework's agent, and translates its runs into pieces.

An adapter knows its framework and nothing of logs, steps or tasks. A run yields text, output and progress as they come.
It yields a `Checkpoint` wherever the framework could go on after a crash, ends with `Pause` if the framework asks
something and with `End` if it is done. Pieces are recorded, so everything in them is JSON or a part of A2A.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

import msgspec
from msgspec import Struct

from parley.protocol.cards import AgentSkill
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.messages import DataPart, Part, TextPart
from parley.protocol.tasks import TaskState

if TYPE_CHECKING:
    from parley.agents.turn import Turn


class Progress(Struct, frozen=True, tag="progress", omit_defaults=True):
    """What the framework does now, such as a tool call. It becomes a status message.

    Metadata of a status is added to the task's.
    """

    text: str
    metadata: JsonObject = {}


class Output(Struct, frozen=True, tag="output", omit_defaults=True):
    """Data, files or text for an artifact: the response, or the one with this name."""

    parts: tuple[Part, ...]
    artifact: str | None = None


class Checkpoint(Struct, frozen=True, tag="checkpoint", omit_defaults=True):
    """From here the framework can go on after a crash. `state` is what it needs beside that of earlier checkpoints."""

    state: JsonValue = None


class Question(Struct, frozen=True, omit_defaults=True):
    """One question of a pause. With a form, the answer is an object that fits this JSON Schema, else a text."""

    id: str
    text: str
    form: JsonObject | None = None
    needs_auth: bool = False


class Pause(Struct, frozen=True, tag="pause", omit_defaults=True):
    """The framework cannot go on without answers. `state` is as in a checkpoint."""

    questions: tuple[Question, ...]
    state: JsonValue = None


class End(Struct, frozen=True, tag="end", omit_defaults=True):
    """The framework is done.

    `conversation` is what the next run in the same conversation needs to know; None leaves it as it was. `usage` goes
    into the task's metadata. `state` and `message` are for frameworks that end tasks themselves.
    """

    conversation: JsonValue = None
    usage: JsonObject = {}
    state: TaskState = TaskState.COMPLETED
    message: tuple[Part, ...] = ()


Piece: TypeAlias = str | Progress | Output | Checkpoint | Pause | End
"""What a run yields; a text is streamed into the response."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """Where a run begins."""

    turn: Turn
    conversation: JsonValue = None
    """What the last run of the conversation ended with; None in a new conversation."""
    states: tuple[JsonValue, ...] = ()
    """The states of all checkpoints and pauses of this task, oldest first. Empty: the run begins with the message."""
    answers: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """The answers to the questions of the last pause by their ids, if no checkpoint followed it."""


@dataclass(frozen=True, kw_only=True)
class Description:
    """What the card says of a framework's agent."""

    name: str
    """Empty if it has none; then it is named after the variable that is served."""
    description: str = ""
    skills: Sequence[AgentSkill] = ()
    output_modes: Sequence[str] = ("text/plain", "application/json")


class Adapter(Protocol):
    """One agent of a framework."""

    def describe(self) -> Description:
        """Its name, description and skills."""
        ...

    def run(self, start: Start) -> AsyncIterator[Piece]:
        """Work on a message, from wherever `start` says. It is closed if the task is cancelled or ends early."""
        ...


APPROVAL: JsonObject = {
    "type": "object",
    "properties": {"approved": {"type": "boolean", "title": "Approve?"}},
    "required": ["approved"],
}
"""The form of a question whether something may be done. A caller may also just say yes or no."""


def approval(id: str, what: str) -> Question:
    """The question whether something may be done; its answer is `{"approved": true}` or `{"approved": false}`."""
    return Question(id, f"May I do this: {what}? Answer yes or no.", APPROVAL)


def is_approved(answer: JsonValue) -> bool:
    """Whether the answer to an approval is yes."""
    return isinstance(answer, dict) and answer.get("approved") is True


def texts_of(turn: Turn) -> list[str]:
    """The texts of a message, and its data as JSON: what a model can read of it beside its files."""
    texts = [part.text for part in turn.parts if isinstance(part, TextPart)]
    return [*texts, *[msgspec.json.encode(part.data).decode() for part in turn.parts if isinstance(part, DataPart)]]


def skill(name: str, description: str | None = None) -> AgentSkill:
    """A tool or a part of a framework's agent as a skill of the card."""
    words = name.replace("_", " ").strip().capitalize()
    return AgentSkill(name, words or name, description or words or name, tags=(name,))


def call_text(name: str, arguments: object) -> str:
    """A tool call as a person reads it: `convert(amount=100, to='EUR')`; long arguments are cut."""
    if isinstance(arguments, dict):
        named = cast("dict[object, object]", arguments).items()
        shown = ", ".join(f"{key}={_cut(repr(value))}" for key, value in named)
    else:
        shown = "" if arguments is None else _cut(str(arguments))
    return f"{name}({shown})"


def tool_call(name: str, arguments: object) -> Progress:
    """The progress that a tool is called."""
    return Progress(f"Calling {call_text(name, arguments)}")


def _cut(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}…"
