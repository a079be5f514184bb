"""The fields of a form, and the values of texts that people type into them.

Text, numbers, yes or no, and choices are typed as they are; anything else is typed as JSON. A schema may come from
any agent, so nothing in it is trusted to be well-formed. Whether a value keeps all rules of its schema is checked in
`parley.forms.schema_check`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.messages import DataPart, Part

YES = frozenset({"y", "yes", "true", "1"})
NO = frozenset({"n", "no", "false", "0"})

SCHEMA_TYPE = "application/schema+json"

INDIRECTIONS = frozenset({"$ref", "anyOf", "oneOf", "allOf"})
MAX_INDIRECTIONS = 8
"""References may be circular."""


MAX_CHOICES_SHOWN = 30
MAX_VALUE_SHOWN = 100
"""Characters of one choice or default."""


class AnswerError(ValueError):
    """The answer is not valid for the field; the message says what is expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a form."""

    name: str
    title: str
    kind: str
    """A type of JSON Schema."""
    is_required: bool
    format: str = ""
    """What kind of text it is, such as `date`."""
    choices: tuple[JsonValue, ...] = ()
    default: JsonValue = None

    @property
    def expected(self) -> str:
        """The kind of value that the field takes, in words."""
        if self.choices:
            return choices_text(self.choices, " | ")
        return FORMAT_WORDS.get(self.format) or KIND_WORDS.get(self.kind, self.kind)

    @property
    def hint(self) -> str:
        """What can be entered."""
        words = [self.expected]
        if self.default is not None:
            words.append(f"empty for {_shown(self.default)}")
        elif not self.is_required:
            words.append("optional")
        return ", ".join(words)

    def parse(self, text: str) -> JsonValue:
        """The value of the text in this field; None if an optional field is empty.

        Raises:
            AnswerError: it is not valid.
        """
        text = text.strip()
        if not text:
            if self.is_required and self.default is None:
                raise AnswerError("This field is required.")
            return self.default
        if self.choices:
            return self._choice(text)
        return self._value(text)

    def _choice(self, text: str) -> JsonValue:
        for choice in self.choices:
            if _typed(choice).casefold() == text.casefold():
                return choice
        raise AnswerError(f"Choose one of: {choices_text(self.choices)}.")

    def _value(self, text: str) -> JsonValue:
        match self.kind:
            case "string":
                return text
            case "boolean":
                if text.casefold() in YES | NO:
                    return text.casefold() in YES
            case "integer" | "number":
                if (number := _number(text)) is not None and (self.kind == "number" or isinstance(number, int)):
                    return number
            case _:
                return _json(text)
        raise AnswerError(f"Invalid answer: {_shown(text)!r}. Expected {self.expected}.")


KIND_WORDS = {
    "string": "text",
    "boolean": "yes or no",
    "integer": "a whole number",
    "number": "a number",
    "array": "a JSON array",
    "object": "a JSON object",
    "null": "null",
}
"""The types of JSON Schema in words."""

FORMAT_WORDS = {
    "date": "a date as YYYY-MM-DD",
    "date-time": "a date and time as YYYY-MM-DDTHH:MM:SSZ",
    "time": "a time as HH:MM:SS",
    "duration": "a duration such as PT1H30M",
    "email": "an e-mail address",
    "uri": "a URL",
    "uuid": "a UUID",
}
"""Formats of text in words."""


def form_in(parts: Iterable[Part]) -> JsonObject | None:
    """The schema of a question, if it is a form with fields."""
    for part in parts:
        if isinstance(part, DataPart) and isinstance(schema := part.data, dict) and fields_of(schema):
            is_form = part.media_type == SCHEMA_TYPE or schema.get("type") == "object"
            if is_form:
                return schema
    return None


def fields_of(schema: JsonObject) -> list[Field]:
    """The fields of an object that the schema describes, in their order."""
    schema = _resolved(schema, schema)
    properties, required = schema.get("properties"), schema.get("required")
    names = required if isinstance(required, list) else []
    if not isinstance(properties, dict):
        return []
    return [_field(name, _resolved(about, schema), name in names) for name, about in properties.items()]


def _resolved(about: JsonValue, schema: JsonObject) -> JsonObject:
    """A property after resolving references, and alternatives to the first that is not null.

    Pydantic writes enumerations and optional values this way. The title of a referenced type does not count: it is the
    name of a class and not of the field.
    """
    about = about if isinstance(about, dict) else {}
    for _ in range(MAX_INDIRECTIONS):
        kinds = about.get("anyOf") or about.get("oneOf") or about.get("allOf")
        of_kinds = [kind for kind in kinds if isinstance(kind, dict)] if isinstance(kinds, list) else []
        if of_kinds and all("const" in kind for kind in of_kinds):
            return {**about, "enum": [kind["const"] for kind in of_kinds]}
        resolved = next((kind for kind in of_kinds if kind.get("type") != "null"), None)
        if isinstance(reference := about.get("$ref"), str):
            resolved = _referenced(reference, schema)
        if resolved is None:
            break
        own = {name: value for name, value in about.items() if name not in INDIRECTIONS}
        about = {**{name: value for name, value in resolved.items() if name != "title"}, **own}
    return about


def _referenced(reference: str, schema: JsonObject) -> JsonObject | None:
    """The target of a reference into the same schema, such as `#/$defs/Color`."""
    resolved: JsonValue = schema
    for name in reference.removeprefix("#/").split("/"):
        resolved = resolved.get(name) if isinstance(resolved, dict) else None
    return resolved if isinstance(resolved, dict) else None


def _field(name: str, about: JsonObject, is_required: bool) -> Field:
    kind: Any = about.get("type", "string")
    if isinstance(kind, list):  # ["string", "null"]: optional
        kind = next((one for one in cast("list[Any]", kind) if one != "null"), "string")
    choices = about.get("enum")
    if "const" in about:
        choices = [about["const"]]
    return Field(
        name=name,
        title=str(about.get("title") or about.get("description") or name),
        kind=str(kind),
        is_required=is_required,
        format=str(about.get("format", "")),
        choices=tuple(choices) if isinstance(choices, list) else (),
        default=about.get("default"),
    )


def _number(text: str) -> int | float | None:
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _json(text: str) -> JsonValue:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        raise AnswerError(f"Invalid JSON: {_shown(text)!r}.") from None


def choices_text(choices: Sequence[JsonValue], separator: str = ", ") -> str:
    """The choices of a field; of very many, the first."""
    shown = [_shown(choice) for choice in choices[:MAX_CHOICES_SHOWN]]
    return separator.join(shown if len(choices) <= MAX_CHOICES_SHOWN else [*shown, "…"])


def _shown(value: JsonValue) -> str:
    text = _typed(value)
    return text if len(text) <= MAX_VALUE_SHOWN else f"{text[:MAX_VALUE_SHOWN]}…"


def _typed(value: JsonValue) -> str:
    """A value as a person types it: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
