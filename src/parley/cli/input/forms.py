"""Forms of any agent, for people: filled in field by field and checked before they are sent, or described.

An agent's schema may be wrong. One that cannot be used checks nothing here, and the agent decides about the answer.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from parley.forms.fields import AnswerError, Field, fields_of
from parley.forms.schema_check import Problem, SchemaCheck, UnusableSchemaError, summary
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.safe_text import printable_line

MAX_FIELDS_SHOWN = 50
MAX_SAMPLE = 1_000
"""Characters of an answer in a command. The fields are described above it."""

_SAMPLES: dict[str, JsonValue] = {"boolean": True, "integer": 1, "number": 1, "array": [], "object": {}, "null": None}
"""A value of each kind, for a command that shows how to answer. Text is the rest."""


def fill_in(schema: JsonObject, read_line: Callable[[str], str], show_error: Callable[[str], None]) -> JsonObject:
    """The fields of a form, each read with `read_line` until it is valid."""
    check = _AnswerCheck(schema)
    while True:
        filled: JsonObject = {}
        for field in fields_of(schema):
            value = _read_field(field, filled, check, read_line, show_error)
            if value is not None:
                filled[field.name] = value
        problems = check.problems(filled)
        if not problems:
            return filled
        show_error(f"The form is not valid: {summary(problems)}. Fill it in again, or press Ctrl+C to cancel the task.")


def describe(schema: JsonObject) -> str:
    """The fields of a form, one per line: name, kind, whether it is required, and its title."""
    fields = fields_of(schema)
    width = max(len(printable_line(field.name)) for field in fields[:MAX_FIELDS_SHOWN])
    lines = [f"  {printable_line(field.name):<{width}}  {_about(field)}" for field in fields[:MAX_FIELDS_SHOWN]]
    if len(fields) > MAX_FIELDS_SHOWN:
        lines.append(f"  … and {len(fields) - MAX_FIELDS_SHOWN} more")
    return "\n".join(lines)


def sample(schema: JsonObject) -> str:
    """An answer as JSON that has a value for every required field, or for all if none is required."""
    fields = fields_of(schema)
    required = [field for field in fields if field.is_required] or fields
    answer = msgspec.json.encode({field.name: _sample_of(field) for field in required}).decode()
    return answer if len(answer) <= MAX_SAMPLE else "JSON"


def _read_field(
    field: Field,
    filled: JsonObject,
    check: _AnswerCheck,
    read_line: Callable[[str], str],
    show_error: Callable[[str], None],
) -> JsonValue:
    while True:
        text = read_line(f"{printable_line(field.title)} ({printable_line(field.hint)}): ")
        try:
            value = field.parse(text)
        except AnswerError as error:
            show_error(printable_line(str(error)))
            continue
        wrong = [] if value is None else check.problems_of(field.name, {**filled, field.name: value})
        if not wrong:
            return value
        show_error(f"{summary(wrong)}.")


class _AnswerCheck:
    """Checks answers against the schema of an agent, if it can be used."""

    def __init__(self, schema: JsonObject) -> None:
        try:
            self._check = SchemaCheck(schema)
        except UnusableSchemaError:
            self._check = None

    def problems(self, answer: JsonObject) -> list[Problem]:
        try:
            return self._check.problems(answer) if self._check else []
        except UnusableSchemaError:
            return []

    def problems_of(self, name: str, answer: JsonObject) -> list[Problem]:
        return [problem for problem in self.problems(answer) if problem.path[:1] == (name,)]


def _about(field: Field) -> str:
    words = [field.expected, "required" if field.is_required else "optional"]
    if field.title != field.name:
        words.append(f"“{field.title}”")
    return printable_line(", ".join(words))


def _sample_of(field: Field) -> JsonValue:
    if field.choices:
        return field.choices[0]
    return field.default if field.default is not None else _SAMPLES.get(field.kind, "…")
