"""The JSON Schemas of tools, which come from servers and are not trusted: made harmless, then used to check values.

No reference leaves the schema. Rules that a server could use to keep the host busy are removed: regular expressions,
which may take for ever, and rules about what other rules have not looked at. Sizes, depths and steps are bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import msgspec

from parley.forms.schema_check import SchemaCheck, UnusableSchemaError, summary
from parley.protocol.errors import ParleyError
from parley.protocol.jsonvalue import JsonObject, JsonValue

MAX_SCHEMA_BYTES = 64 * 1024
"""Of one schema as JSON. Models are given schemas of one or two."""

MAX_DEPTH = 64
"""Of nested objects and arrays in a schema."""

MAX_STEPS = 20_000
"""Rules that are applied to one value: enough for thousands of items, in a part of a second."""

_REMOVED = frozenset({"pattern", "patternProperties", "unevaluatedProperties", "unevaluatedItems", "$dynamicRef"})
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_MAPS = frozenset({"properties", "$defs", "definitions", "dependentSchemas"})
"""Rules whose keys are names and not rules."""
_DATA = frozenset({"enum", "const", "default", "examples"})
"""Rules whose values are data and not schemas."""


class BadToolSchemaError(ParleyError):
    """The schema of a tool cannot be used."""


class ToolSchema:
    """A schema whose values can be checked. It is compiled when the first value is: a server may list hundreds."""

    def __init__(self, schema: JsonObject) -> None:
        """Raises BadToolSchemaError if the schema is too large or refers to another document."""
        if len(msgspec.json.encode(schema)) > MAX_SCHEMA_BYTES:
            raise BadToolSchemaError(f"its schema has more than {MAX_SCHEMA_BYTES} bytes")
        self._schema = cast("JsonObject", _harmless(schema, MAX_DEPTH))
        self._check: SchemaCheck | None = None

    def is_valid(self) -> bool:
        """Whether the schema is one."""
        try:
            self._compiled()
        except UnusableSchemaError:
            return False
        return True

    def problem(self, value: JsonValue) -> str:
        """What is wrong with a value, on one line; empty if nothing is."""
        try:
            check = self._compiled()
        except UnusableSchemaError:
            return "the schema of the tool is not valid"
        try:
            return summary(check.problems(value))
        except UnusableSchemaError:
            return "it cannot be checked against the schema of the tool, which refers to itself or to nothing"

    def _compiled(self) -> SchemaCheck:
        if self._check is None:
            self._check = SchemaCheck(self._schema, max_steps=MAX_STEPS)
        return self._check


def _harmless(node: JsonValue, depth: int) -> JsonValue:
    """A part of a schema without the rules that are removed. Raises BadToolSchemaError."""
    if depth == 0:
        raise BadToolSchemaError("its schema is nested too deeply")
    if isinstance(node, list):
        return [_harmless(item, depth - 1) for item in node]
    if not isinstance(node, dict):
        return node
    for name in _REFERENCES:
        target = node.get(name)
        if isinstance(target, str) and not target.startswith("#"):
            raise BadToolSchemaError("its schema refers to another document")
    kept = {name: _harmless_rule(name, rule, depth - 1) for name, rule in node.items() if name not in _REMOVED}
    if "patternProperties" in node:  # otherwise what it allows would be refused
        kept.pop("additionalProperties", None)
    return kept


def _harmless_rule(name: str, rule: JsonValue, depth: int) -> JsonValue:
    if name in _DATA:
        return rule
    if name in _MAPS and isinstance(rule, dict) and depth > 0:
        return {key: _harmless(value, depth - 1) for key, value in rule.items()}
    return _harmless(rule, depth)


def is_object_schema(schema: object) -> bool:
    """Whether a value is a schema of an object, as the arguments of a tool must have."""
    return isinstance(schema, Mapping) and cast("Mapping[str, object]", schema).get("type") == "object"
