"""Forms: questions whose answers are validated and come back typed.

A form is a class with fields (pydantic model, msgspec Struct, dataclass, TypedDict) or a JSON Schema. Its schema goes
along with the question. An answer that does not fit is asked for again, with the reason, a few times. Reading an answer
depends on nothing but the form and the answer, so that a handler that begins again goes the same way through them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache, partial
from typing import Any, Generic, TypeVar, cast, get_args, get_type_hints

import msgspec

from parley.agents.threads import STEPS, in_thread
from parley.engine.reading.sizes import size_of
from parley.engine.runs.run import Run, Stopped
from parley.forms.fields import SCHEMA_TYPE, AnswerError, Field, fields_of
from parley.forms.schema_check import Problem, SchemaCheck, UnusableSchemaError, bounded, summary
from parley.protocol.errors import LocalProtocolError
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.messages import DataPart, Message, Part, TextPart
from parley.protocol.tasks import TaskState

T = TypeVar("T")

MAX_ANSWER_BYTES = 256 * 1024
"""Fields are typed by people or filled in by models; to check this much can take half a second."""

LARGE_ANSWER_BYTES = 8 * 1024
"""Answers that are checked in a thread, because that can take more than some milliseconds."""

MAX_EXACT = 2**53
"""Larger integers have no exact double."""

MAX_FIELDS_NAMED = 20
"""Fields that a question names when it is asked again."""


class InvalidAnswerError(ValueError):
    """The answer does not fit the form. The text says why, in words for the caller."""


class Form(Generic[T]):
    """The fields of an answer, and how they become a value."""

    def __init__(self, schema: JsonObject, load: Callable[[JsonObject], T], names: Mapping[str, JsonValue]) -> None:
        """`load` raises InvalidAnswerError, or an error of its own that is a ValueError or msgspec.ValidationError.

        `names` are the values of an enumeration by their names.
        """
        self.schema = schema
        self._load = load
        self._names = names
        self._fields = fields_of(schema)

    def read(self, answer: Message) -> T:
        """The value of an answer. Raises InvalidAnswerError."""
        if size_of(answer.parts) > MAX_ANSWER_BYTES:
            raise InvalidAnswerError(f"The answer has more than {MAX_ANSWER_BYTES // 1024} KB.")
        failed: list[InvalidAnswerError] = []
        for data in self._readings(answer):
            try:
                return self._load(data)
            except InvalidAnswerError as error:
                failed.append(error)
            except (ValueError, msgspec.ValidationError) as error:
                failed.append(InvalidAnswerError(self._explain(data, error)))
        raise failed[0]

    def _readings(self, answer: Message) -> list[JsonObject]:
        """What an answer may mean: its data, else its text as a JSON object, else as the value of the only field."""
        contents = [part.data for part in answer.parts if isinstance(part, DataPart)]
        text = answer.text.strip()
        if not contents and (data := _json_object(text)) is not None:
            contents = [data]
        contents = [_with_whole_numbers(content) for content in contents]
        if len(contents) == 1 and isinstance(data := contents[0], dict):
            return [data]
        if len(contents) > 1 or len(self._fields) != 1:
            raise InvalidAnswerError(f"Send one JSON object with these fields: {self._described()}.")
        field = self._fields[0]
        if contents:
            return [{field.name: contents[0]}]
        return [{field.name: value} for value in self._values(field, text)] if text else [{}]

    def _values(self, field: Field, text: str) -> list[JsonValue]:
        """What a text may mean in a field: `"3"` is a number first, and a text if the field takes that, too."""
        if text.casefold() in self._names:
            return [self._names[text.casefold()]]
        try:
            return [field.parse(text), text]
        except AnswerError:
            return [text]

    def _described(self) -> str:
        fields = [f"{field.name} ({field.hint})" for field in self._fields[:MAX_FIELDS_NAMED]]
        return bounded(", ".join(fields), 1_000)

    def _explain(self, data: JsonObject, error: Exception) -> str:
        """Why data was refused: by the rules of the schema, else by what the class itself said."""
        try:
            problems = SchemaCheck(self.schema).problems(data)
        except UnusableSchemaError:  # of a class that writes a schema of its own
            problems = []
        return _refusal(problems or _own_problems(error))


async def ask_form(run: Run, state: TaskState, question: tuple[Part, ...], form: Form[T]) -> T:
    """The caller's answer to a question, as the form's value; asked again while it does not fit.

    Raises:
        Stopped: the question was asked, and the task waits; or there were too many wrong answers, and it failed.
    """
    question = (*question, DataPart(form.schema, SCHEMA_TYPE))
    asked, reason = question, ""
    for _ in range(run.engine.limits.form_answers):
        answer = await run.ask(state, asked)
        try:
            is_large = size_of(answer.parts) > LARGE_ANSWER_BYTES
            return await in_thread(STEPS, form.read, answer) if is_large else form.read(answer)
        except InvalidAnswerError as error:
            reason = str(error)
            asked = (TextPart(f"{reason} Please answer again.\n"), *question)
    await run.fail(f"There was no valid answer in {run.engine.limits.form_answers} attempts. {reason}")
    raise Stopped


def form_of(form: type[T] | Mapping[str, object]) -> Form[T]:
    """The form that an author gave.

    Raises:
        LocalProtocolError: it is not a class with fields.
        UnusableSchemaError: it is not a valid JSON Schema.
    """
    return _form_of_class(form) if isinstance(form, type) else cast("Form[T]", _form_of_schema(form))


def _form_of_schema(schema: Mapping[str, object]) -> Form[JsonObject]:
    try:
        return _form_of_json(msgspec.json.encode(schema))
    except TypeError as error:
        raise LocalProtocolError(f"The schema of the form is not JSON: {error}") from error


@lru_cache(maxsize=256)
def _form_of_json(encoded: bytes) -> Form[JsonObject]:
    schema: JsonObject = msgspec.json.decode(encoded)
    check = SchemaCheck(schema)

    def load(data: JsonObject) -> JsonObject:
        problems = check.problems(data)
        if problems:
            raise InvalidAnswerError(_refusal(problems))
        return data

    return Form(schema, load, {})


@lru_cache(maxsize=256)
def _form_of_class(form: type[T]) -> Form[T]:
    model: Any = form
    if hasattr(model, "model_json_schema"):  # pydantic, which need not be installed
        schema = cast("JsonObject", model.model_json_schema())
        return Form(schema, lambda data: model.model_validate_json(msgspec.json.encode(data)), _enum_names(form))
    try:
        schema = _schema_of_class(form)
    except (TypeError, NameError) as error:
        raise LocalProtocolError(f"{form.__name__} cannot be a form: {error}") from error
    return Form(schema, partial(_convert, form), _enum_names(form))


def _convert(form: type[T], data: JsonObject) -> T:
    converted = msgspec.convert(data, form)
    _set_defaults(converted)
    return converted


def _set_defaults(value: object) -> None:
    """Set every field in the dataclasses of a value: msgspec leaves defaults in the class, and does not encode them."""
    inside: Iterable[object] = ()
    if isinstance(value, dict):
        inside = cast("dict[object, object]", value).values()
    elif isinstance(value, list | tuple | set | frozenset):
        inside = cast("Iterable[object]", value)
    elif isinstance(value, msgspec.Struct):
        inside = [getattr(value, name) for name in value.__struct_fields__]
    elif is_dataclass(value):
        for one in fields(value):
            object.__setattr__(value, one.name, getattr(value, one.name))
        inside = [getattr(value, one.name) for one in fields(value)]
    for item in inside:
        _set_defaults(item)


def _schema_of_class(form: type) -> JsonObject:
    """The schema with the class's own fields at the top, where every reader of forms finds them."""
    (reference,), defined = msgspec.json.schema_components([form], ref_template="#/$defs/{name}")
    name = str(reference.get("$ref", "")).removeprefix("#/$defs/")
    if "properties" not in defined.get(name, {}):
        raise TypeError("it has no fields. Use a pydantic model, a msgspec Struct, a dataclass or a TypedDict")
    others = {key: value for key, value in defined.items() if key != name}
    if f'"#/$defs/{name}"'.encode() in msgspec.json.encode(defined):  # it contains itself
        others = defined
    return {**defined[name], "$defs": others} if others else defined[name]


def _enum_names(form: type) -> dict[str, JsonValue]:
    """The values of the only enumeration among the fields of a class, by their names in lower case."""
    try:
        hints = get_type_hints(form).values()
    except NameError:  # a class that pydantic found in the function around this one
        return {}
    kinds = [kind for hint in hints for kind in (hint, *get_args(hint))]
    enums = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Enum)]
    if len(enums) != 1:
        return {}
    return {member.name.casefold(): msgspec.to_builtins(member) for member in enums[0]}


def _refusal(problems: list[Problem]) -> str:
    return f"The answer is not valid: {summary(problems)}."


def _own_problems(error: Exception) -> list[Problem]:
    """What the class said: pydantic with a list of errors, anything else with a text."""
    described = getattr(error, "errors", None)
    if callable(described):
        found = cast("list[dict[str, Any]]", described(include_url=False, include_input=False, include_context=False))
        return [Problem(tuple(one["loc"]), str(one["msg"])) for one in found]
    return [Problem((), str(error))]


def _with_whole_numbers(value: JsonValue) -> JsonValue:
    """A value with 2.0 as 2: clients that keep data in protobuf, as a2a-sdk's does, send every number as a double."""
    match value:
        case float():
            return int(value) if value.is_integer() and abs(value) <= MAX_EXACT else value
        case list():
            return [_with_whole_numbers(item) for item in value]
        case dict():
            return {name: _with_whole_numbers(item) for name, item in value.items()}
        case _:
            return value


def _json_object(text: str) -> JsonObject | None:
    if not text.startswith("{"):
        return None
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return cast("JsonObject", value) if isinstance(value, dict) else None
