"""What an agent asks, wherever it has put the question.

The specification wants it in the message of the status, in words. Some frameworks put it into data instead, or into an
artifact; each is named where it is read. What only a program could answer is shown as its JSON: a question that is
empty helps no one.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.messages import DataPart, Part, text_of
from parley.protocol.tasks import Artifact, TaskStatus

INTERRUPT = "Interrupt"
"""The artifact in which langgraph-api 0.16 asks: `{"id": …, "value": what interrupt() was given}`."""

QUESTIONS = ("question", "prompt", "message", "hint", "description", "reason", "text", "authUri")
"""Members whose text is the question. google-adk 2.13 asks for a confirmation by `hint`, for input by `message`, for
credentials by `authUri`; LangChain's human-in-the-loop by `description`; Strands 1.62 by `reason`."""

AROUND_QUESTIONS = (
    *("args", "toolConfirmation", "authConfig", "exchangedAuthCredential", "oauth2"),  # google-adk's function calls
    *("value", "action_requests"),  # langgraph-api's interrupts, and LangChain's human-in-the-loop inside them
    "interrupts",  # Strands
)
"""Members in which a question may be."""


def question_of(status: TaskStatus, artifacts: Sequence[Artifact]) -> str:
    """What an agent asks with this status: in words, or as JSON if it has none."""
    last = artifacts[-1].parts if artifacts else ()
    if artifacts and artifacts[-1].name == INTERRUPT:
        # Beside it, langgraph-api repeats an old message as the status, or a dump of the graph's state.
        return _asked(last)
    return (_asked(status.message.parts) if status.message else "") or _asked(last)


def _asked(parts: Sequence[Part]) -> str:
    """The text of some parts; the question in their data if they have no text."""
    text = text_of(parts)
    if text.strip():
        return text
    # google-adk adds what its tool has returned so far to the call that waits for an answer.
    asking = [p for p in parts if isinstance(p, DataPart) and p.metadata.get("adk_type") != "function_response"]
    return "\n".join(_words(part.data) or _shown(part.data) for part in asking)


def _words(data: JsonValue) -> str:
    """The question in some data, if it is where one of the frameworks puts it."""
    match data:
        case str():
            return data
        case list():
            return "\n".join(filter(None, map(_words, data)))
        case dict():
            said = (data.get(name) for name in QUESTIONS)
            inside = (_words(data[name]) for name in AROUND_QUESTIONS if isinstance(data.get(name), str | list | dict))
            return next((text for text in said if isinstance(text, str) and text), "") or next(filter(None, inside), "")
        case _:
            return ""


def _shown(data: JsonValue) -> str:
    """Data without words for people: a call as `book {"to":"Rome"}`, an interrupt as its value, else all of it."""
    match data:
        case {"name": str(name), "args": dict() as args}:
            return f"{name} {_json(args)}"
        case {"id": _, "value": value}:
            return _json(value)
        case _:
            return _json(data)


def _json(value: JsonValue | JsonObject) -> str:
    return msgspec.json.encode(value).decode()
