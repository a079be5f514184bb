"""Requests of workflows of Microsoft Agent Framework for information, as questions, and the answers as responses."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

from agent_framework import AgentResponse, Content, Message, WorkflowEvent
from pydantic import PydanticUserError, TypeAdapter
from pydantic_core import to_jsonable_python

from parley.adapters.adapter import APPROVAL, Question, is_approved
from parley.adapters.agent_framework.messages import answer_to, question_of
from parley.protocol.jsonvalue import JsonObject, JsonValue

TEXT_FIELDS = ("prompt", "question", "message", "text", "agent_response", "plan")
"""Where requests have what they ask; the last two are those of the framework's own builders."""

ACCEPTED = "yes"
"""The answer to a review that changes nothing."""


def request_question(id: str, event: WorkflowEvent[Any]) -> Question:
    """A request for information: its text if it has one, and a form if the response is not a text."""
    data, kind = event.data, event.response_type
    if isinstance(data, Content) and data.user_input_request:
        return question_of(id, data)
    if kind is bool:
        return Question(id, _text_of(data), APPROVAL)
    if _review_field(kind):
        return Question(id, f"{_text_of(data)}\nAnswer {ACCEPTED} if this is right, or say what to change.")
    schema = _schema_of(kind)
    return Question(id, _text_of(data), schema if schema is None or _is_object(schema) else _form_with(schema))


def response_to(event: WorkflowEvent[Any], answer: JsonValue) -> Any:
    """The answer in the type that the executor expects."""
    kind: Any = event.response_type
    if isinstance(event.data, Content) and event.data.user_input_request:
        return answer_to(event.data, answer)
    if kind is bool:
        return is_approved(answer)
    if kind in (Message, list[Message]):
        message = Message("user", [_as_text(answer)])
        return message if kind is Message else [message]
    if field := _review_field(kind):
        said = _as_text(answer)
        changes = [] if said.strip(" .!").lower() == ACCEPTED else [Message("user", [said])]
        return kind(**{field: changes})
    schema = _schema_of(kind)
    if schema is None:
        return _as_text(answer) if kind is str else answer
    value = answer if _is_object(schema) or not isinstance(answer, dict) else answer["answer"]
    return TypeAdapter(kind).validate_python(value)


def _text_of(data: Any) -> str:
    found = [data, *[getattr(data, name, None) for name in TEXT_FIELDS]]
    texts = [each.text if isinstance(each, Message | AgentResponse) else each for each in found]
    shown = json.dumps(to_jsonable_python(data, fallback=str), ensure_ascii=False)
    return next((text for text in texts if text and isinstance(text, str)), shown)


def _as_text(answer: JsonValue) -> str:
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)


def _review_field(kind: Any) -> str | None:
    """The only field of a type that holds nothing but messages, as the framework's builders expect from reviews."""
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else []
    return names[0] if len(names) == 1 and get_type_hints(kind)[names[0]] == list[Message] else None


def _schema_of(kind: Any) -> JsonObject | None:
    """The schema of a response, or None if it is a text, or of a type that pydantic does not know."""
    try:
        schema = TypeAdapter(kind).json_schema()
    except PydanticUserError:
        return None
    return None if schema in ({}, {"type": "string"}) else schema


def _is_object(schema: JsonObject) -> bool:
    return schema.get("type") == "object"


def _form_with(schema: JsonObject) -> JsonObject:
    """A form for what is not an object, with one field: `answer`."""
    definitions = {"$defs": schema.pop("$defs")} if "$defs" in schema else {}
    return {"type": "object", "properties": {"answer": schema}, "required": ["answer"], **definitions}
