"""A question of an agent as an elicitation of MCP, and the elicited answer as what the agent gets.

MCP allows forms with flat fields of primitive types only. A field of another type, and a choice of anything but text,
is asked for as text and read back by the agent's own schema. A question without a form has one field for text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from parley.client.reply import Reply
from parley.contents import Content
from parley.forms.fields import AnswerError, Field, fields_of, form_in
from parley.mcp.tools import bounded
from parley.protocol.extensions import ANSWERED_ELSEWHERE
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.tasks import TaskState

ANSWER = "answer"
"""The only field of a question without a form."""

MAX_FIELDS = 50
"""Fields of one elicitation. A longer form is filled in as one JSON object."""

MAX_QUESTION = 4_000
MAX_FIELD_TEXT = 500
MAX_CHOICES = 200

FORMATS = frozenset({"email", "uri", "date", "date-time"})
"""The formats of text that MCP knows."""


class InvalidAnswerContentError(ValueError):
    """The elicited answer does not fit the question; the message says why."""


@dataclass(frozen=True, slots=True)
class ElicitedQuestion:
    """A question of an agent: its text, and the fields of its form if it has one."""

    text: str
    fields: tuple[Field, ...]

    @property
    def schema(self) -> JsonObject:
        """What MCP's client is asked to fill in."""
        if not self._is_form:
            about = "A JSON object with the fields of the form." if self.fields else "Your answer."
            field: JsonObject = {"type": "string", "title": "Answer", "description": about}
            return {"type": "object", "properties": {ANSWER: field}, "required": [ANSWER]}
        required: list[JsonValue] = [field.name for field in self.fields if field.is_required and field.default is None]
        return {
            "type": "object",
            "properties": {field.name: _schema_of(field) for field in self.fields},
            "required": required,
        }

    @property
    def _is_form(self) -> bool:
        return 0 < len(self.fields) <= MAX_FIELDS

    def answer(self, content: Mapping[str, Any] | None) -> Content:
        """What the agent gets: text, or the fields of its form.

        Raises:
            InvalidAnswerContentError: a field is missing, or has a value that the agent's schema does not allow.
        """
        content = content or {}
        if self._is_form:
            values = {field.name: _value_of(field, content.get(field.name)) for field in self.fields}
            return {name: value for name, value in values.items() if value is not None}
        text = content.get(ANSWER)
        if not isinstance(text, str) or not text.strip():
            raise InvalidAnswerContentError(f"{ANSWER}: must be a text that is not empty")
        return text


def is_for_caller(reply: Reply) -> bool:
    """Whether a task waits for its caller's answer, and not for the decision of an approver."""
    message = reply.message
    is_elsewhere = message is not None and ANSWERED_ELSEWHERE in message.metadata
    return reply.state is TaskState.INPUT_REQUIRED and not is_elsewhere


def question_in(reply: Reply) -> ElicitedQuestion:
    """The question of a task that waits for input."""
    message = reply.message
    form = form_in(message.parts) if message is not None else None
    text = bounded(reply.question.strip(), MAX_QUESTION) or "The agent needs input."
    return ElicitedQuestion(text, tuple(fields_of(form)) if form is not None else ())


def _schema_of(field: Field) -> JsonObject:
    schema: JsonObject = {"type": _elicited_type(field), "title": bounded(field.title, MAX_FIELD_TEXT)}
    if _is_plain_choice(field):
        schema["enum"] = list(field.choices)
    elif field.choices or schema["type"] != field.kind:
        schema["description"] = bounded(field.hint, MAX_FIELD_TEXT)
    if field.kind == "string" and field.format in FORMATS and not field.choices:
        schema["format"] = field.format
    if field.default is not None and _fits(field.default, schema["type"]):
        schema["default"] = field.default
    return schema


def _elicited_type(field: Field) -> str:
    is_primitive = field.kind in ("string", "number", "integer", "boolean")
    return field.kind if is_primitive and not field.choices else "string"


def _is_plain_choice(field: Field) -> bool:
    return 0 < len(field.choices) <= MAX_CHOICES and all(isinstance(choice, str) for choice in field.choices)


def _fits(value: JsonValue, kind: JsonValue) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case _:
            return isinstance(value, int | float) and not isinstance(value, bool)


def _value_of(field: Field, given: Any) -> JsonValue:
    """A field's value: primitives as they are, and texts as the agent's schema reads them."""
    if given is None or isinstance(given, str):
        try:
            return field.parse(given or "")
        except AnswerError as error:
            raise InvalidAnswerContentError(f"{field.name}: {error}") from None
    if isinstance(given, list) or _elicited_type(field) == "string":
        return field.parse(msgspec.json.encode(given).decode()) if field.kind != "string" else _refused(field)
    if not _fits(given, field.kind):
        _refused(field)
    return given


def _refused(field: Field) -> JsonValue:
    raise InvalidAnswerContentError(f"{field.name}: expected {field.expected}")
