"""Forms: questions with a JSON Schema, as fields that a person fills in line by line.

Text, numbers, yes or no, and choices are typed as they are; anything else is typed as JSON. The agent validates the
answer, so no more of the schema is checked here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import msgspec

from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.messages import DataPart, Message

YES = frozenset({"y", "yes", "true", "1"})
NO = frozenset({"n", "no", "false", "0"})

SCHEMA_TYPE = "application/schema+json"

INDIRECTIONS = frozenset({"$ref", "anyOf", "oneOf", "allOf"})
MAX_INDIRECTIONS = 8
"""References may be circular."""


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
    choices: tuple[JsonValue, ...] = ()
    default: JsonValue = None

    @property
    def hint(self) -> str:
        """What can be entered."""
        words = [" | ".join(map(_shown, self.choices)) if self.choices else _KINDS.get(self.kind, self.kind)]
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
            if _shown(choice).casefold() == text.casefold():
                return choice
        raise AnswerError(f"Choose one of: {', '.join(map(_shown, self.choices))}.")

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
        raise AnswerError(f"Invalid answer: {text!r}. Expected {_KINDS[self.kind]}.")


_KINDS = {"string": "text", "boolean": "yes or no", "integer": "a whole number", "number": "a number"}


def form_of(message: Message | None) -> list[Field] | None:
    """The fields of a question, if it is a form."""
    for part in message.parts if message else ():
        if isinstance(part, DataPart) and isinstance(part.data, dict):
            found = _fields(part.data)
            if found and (part.media_type == SCHEMA_TYPE or part.data.get("type") == "object"):
                return found
    return None


def _fields(schema: JsonObject) -> list[Field]:
    properties, required = schema.get("properties"), schema.get("required")
    names = required if isinstance(required, list) else []
    if not isinstance(properties, dict):
        return []
    return [_field(name, _resolved(about, schema), name in names) for name, about in properties.items()]


def _resolved(about: JsonValue, schema: JsonObject) -> JsonObject:
    """A property after resolving references, and alternatives to the first that is not null.

    Pydantic writes enumerations and optional values this way.
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
        about = {**resolved, **{name: value for name, value in about.items() if name not in INDIRECTIONS}}
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
    choices: Any = about.get("enum")
    title = about.get("title") or about.get("description") or name
    return Field(
        name=name,
        title=str(title),
        kind=str(kind),
        is_required=is_required,
        choices=tuple(cast("list[Any]", choices)) if isinstance(choices, list) else (),
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
        raise AnswerError(f"Invalid JSON: {text!r}.") from None


def _shown(value: JsonValue) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
