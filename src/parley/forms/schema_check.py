"""Whether a value keeps the rules of a JSON Schema, and if not, which field breaks which rule, in plain words.

The words never quote the value: it may be long, or a secret, and its sender knows it. They are bounded, and safe to
print. The schema may come from any agent: no reference in it is fetched, and one that cannot be used is an
`UnusableSchemaError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from datetime import datetime
from functools import cache
from importlib import import_module
from itertools import islice
from typing import Any, cast

import msgspec
from msgspec import Struct

from parley.forms.fields import FORMAT_WORDS, KIND_WORDS, choices_text
from parley.protocol.errors import ParleyError
from parley.protocol.jsonvalue import JsonValue
from parley.safe_text import printable_line

MAX_PROBLEMS = 5
"""Problems that are named; a sender corrects those first."""

MAX_ERRORS = 50
"""Errors that are looked for in one value. To find a hundred thousand would take seconds."""

MAX_PROBLEM_TEXT = 200
"""Characters that one of them may have."""


_UNUSABLE = "The schema of the form cannot be used"


class UnusableSchemaError(ParleyError):
    """Nothing can be checked against this schema."""


class TooManyStepsError(Exception):
    """A check takes too many steps: references of a small schema can ask for more than a machine can do."""


_steps_left: ContextVar[list[int]] = ContextVar("parley_schema_steps_left")
"""The steps that the check in progress may still take, in a list of one."""


class Problem(Struct, frozen=True):
    """What is wrong with one value; the path to it is empty if it is the whole answer."""

    path: tuple[str | int, ...]
    reason: str

    @property
    def field(self) -> str:
        """The path as text: `("stops", 2, "city")` → `"stops[2].city"`."""
        steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path]
        return "".join(steps).removeprefix(".")

    def __str__(self) -> str:
        return bounded(f"{self.field}: {self.reason}" if self.path else self.reason)


class SchemaCheck:
    """Checks values against one schema, in at most `max_steps` steps if that is given. Raises UnusableSchemaError."""

    def __init__(self, schema: Mapping[str, object], *, max_steps: int | None = None) -> None:
        # Not at the top: this takes longer to import than most commands take to run. It has no types either.
        jsonschema: Any = import_module("jsonschema")
        referencing: Any = import_module("referencing")
        try:
            draft = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
            draft.check_schema(schema)
            rules = _with_linear_rules(draft) if max_steps is None else _with_counted_rules(draft)
            # An empty registry: otherwise references would be fetched from wherever they point to.
            self._validator = rules(schema, registry=referencing.Registry(), format_checker=_format_checker())
        except Exception as error:  # jsonschema trips over some schemas in ways of its own
            raise UnusableSchemaError(f"{_UNUSABLE}: {bounded(str(getattr(error, 'message', error)))}") from error
        self._max_steps = max_steps or 0

    def problems(self, value: JsonValue) -> list[Problem]:
        """What is wrong with a value, each problem once; of very many, the first. Raises UnusableSchemaError."""
        steps = _steps_left.set([self._max_steps])
        try:
            errors = islice(self._validator.iter_errors(value), MAX_ERRORS)  # found one by one
            found = [problem for error in errors for problem in _problems(error)]
        except (ArithmeticError, RecursionError):  # for example 10**400 as a multiple of 0.5
            return [Problem((), "The answer has a number that is too large, or is nested too deeply")]
        except Exception as error:  # a reference that leads nowhere, for example
            raise UnusableSchemaError(f"{_UNUSABLE}: {bounded(str(error))}") from error
        finally:
            _steps_left.reset(steps)
        return sorted(dict.fromkeys(found), key=lambda problem: problem.field)


def summary(problems: Iterable[Problem]) -> str:
    """The first problems as one line: `amount: is missing; days: must be at most 4`."""
    texts = [str(problem) for problem in islice(problems, MAX_PROBLEMS + 1)]
    return "; ".join(texts if len(texts) <= MAX_PROBLEMS else [*texts[:MAX_PROBLEMS], "and more"])


def _problems(error: Any) -> Iterator[Problem]:
    """The problems of one error of jsonschema."""
    alternatives = [inner for inner in error.context or () if inner.validator_value != "null"]
    at, rule = tuple(error.absolute_path), error.validator_value
    if alternatives and error.validator in ("anyOf", "oneOf"):
        # Of an optional value, what is wrong with the value; of a union, with the alternative that came furthest.
        nearest = max(alternatives, key=lambda inner: (len(inner.absolute_path), inner.validator != "type"))
        if nearest.validator == "type" and tuple(nearest.absolute_path) == at:
            yield Problem(at, _reason("type", [inner.validator_value for inner in alternatives]))
        else:
            yield from _problems(nearest)
        return
    match error.validator:
        case "required":
            yield from (Problem((*at, name), "is missing") for name in rule if name not in error.instance)
        case "additionalProperties" | "unevaluatedProperties":
            known = error.schema.get("properties", {})
            yield from (Problem((*at, name), "is unknown") for name in error.instance if name not in known)
        case keyword:
            yield Problem(at, _reason(keyword, rule))


def _reason(keyword: str, rule: Any) -> str:
    match keyword:
        case "type":
            kinds = cast("list[object]", rule if isinstance(rule, list) else [rule])
            return f"must be {' or '.join(KIND_WORDS.get(str(kind), str(kind)) for kind in kinds)}"
        case "enum":
            return f"must be one of: {choices_text(rule)}"
        case "const":
            return f"must be {choices_text([rule])}"
        case "format":
            return f"must be {FORMAT_WORDS.get(rule, f'text of the format {rule}')}"
        case "uniqueItems":
            return "must not have the same item twice"
        case _ if keyword in _RULES:
            return f"must {_RULES[keyword]} {rule}{_UNITS.get(keyword, '')}"
        case _:
            return f"breaks the rule `{keyword}` of its schema"


_RULES = {
    "minimum": "be at least",
    "maximum": "be at most",
    "exclusiveMinimum": "be more than",
    "exclusiveMaximum": "be less than",
    "multipleOf": "be a multiple of",
    "minLength": "have at least",
    "maxLength": "have at most",
    "minItems": "have at least",
    "maxItems": "have at most",
    "pattern": "match the pattern",
}
_UNITS = {"minLength": " characters", "maxLength": " characters", "minItems": " items", "maxItems": " items"}


@cache
def _with_linear_rules(draft: Any) -> Any:
    """The rules of a draft. jsonschema compares every object of an array with every other one for `uniqueItems`."""
    jsonschema: Any = import_module("jsonschema")
    encoder = msgspec.json.Encoder(order="deterministic")

    def check_unique(_: Any, is_wanted: bool, items: Any, __: Any) -> Iterator[Any]:
        if is_wanted and isinstance(items, list):
            values = cast("list[object]", items)
            if len({encoder.encode(value) for value in values}) < len(values):
                yield jsonschema.ValidationError("has equal items")

    return jsonschema.validators.extend(draft, {"uniqueItems": check_unique})


@cache
def _with_counted_rules(draft: Any) -> Any:
    """The same rules, each of which counts as a step."""
    jsonschema: Any = import_module("jsonschema")

    def counted(rule: Any) -> Any:
        def check(*args: Any) -> Iterator[Any]:
            left = _steps_left.get()
            left[0] -= 1
            if left[0] < 0:
                raise TooManyStepsError("a value takes too many steps to check")
            yield from rule(*args) or ()

        return check

    rules = _with_linear_rules(draft)
    return jsonschema.validators.extend(rules, {name: counted(rule) for name, rule in rules.VALIDATORS.items()})


@cache
def _format_checker() -> Any:
    """The formats that jsonschema checks by itself, and dates with times, for which it would need another package."""
    jsonschema: Any = import_module("jsonschema")
    checker = jsonschema.FormatChecker(formats=["date", "email", "ipv4", "ipv6", "time", "uuid"])

    def is_date_time(value: object) -> bool:
        return not isinstance(value, str) or bool(msgspec.convert(value, datetime))

    checker.checks("date-time", raises=msgspec.ValidationError)(is_date_time)
    return checker


def bounded(text: str, length: int = MAX_PROBLEM_TEXT) -> str:
    """A text on one line, with a bounded length and safe to print."""
    line = printable_line(text[: length + 1])
    return line if len(line) <= length else f"{line[:length]}…"
