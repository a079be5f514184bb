"""The question of an agent that waits for input.

The specification puts it into the message of the status, as text. Some frameworks put it into data instead, or into an
artifact; each is named where it is read. Data without a question in it is shown as JSON.
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
"""Members that may contain a question."""


def question_of(status: TaskStatus, artifacts: Sequence[Artifact]) -> str:
    """The question of an agent in this status: as text, or as JSON if there is none."""
    last = artifacts[-1].parts if artifacts else ()
    if artifacts and artifacts[-1].name == INTERRUPT:
        # langgraph-api's status then holds an old message, or a dump of the graph's state.
        return _question_in(last)
    return (_question_in(status.message.parts) if status.message else "") or _question_in(last)


def _question_in(parts: Sequence[Part]) -> str:
    """The text of the parts; without text, the question in their data."""
    text = text_of(parts)
    if text.strip():
        return text
    # google-adk adds the results of its tool so far to the call that waits for an answer.
    asking = [p for p in parts if isinstance(p, DataPart) and p.metadata.get("adk_type") != "function_response"]
    return "\n".join(_text_in(part.data) or _as_json(part.data) for part in asking)


def _text_in(data: JsonValue) -> str:
    """The question in data, if it is where one of the frameworks puts it."""
    match data:
        case str():
            return data
        case list():
            return "\n".join(filter(None, map(_text_in, data)))
        case dict():
            texts = (data.get(name) for name in QUESTIONS)
            inside = (
                _text_in(data[name]) for name in AROUND_QUESTIONS if isinstance(data.get(name), str | list | dict)
            )
            return next((text for text in texts if isinstance(text, str) and text), "") or next(
                filter(None, inside), ""
            )
        case _:
            return ""


def _as_json(data: JsonValue) -> str:
    """Data as text: a call as `book {"to":"Rome"}`, an interrupt as its value, anything else as it is."""
    match data:
        case {"name": str(name), "args": dict() as args}:
            return f"{name} {_json(args)}"
        case {"id": _, "value": value}:
            return _json(value)
        case _:
            return _json(data)


def _json(value: JsonValue | JsonObject) -> str:
    return msgspec.json.encode(value).decode()
