"""JSON Schemas of the dialects' wire structs, generated from the structs.

Decoders are tolerant (see `dialects.fields`), encoders exact, so a struct has one schema for requests and one for
replies. The schema for requests describes everything that is accepted, except snake_case names: the server accepts what
it calls valid and refuses what it calls invalid. `RULES` has the checks in the structs' own code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import FunctionType
from typing import Any

from msgspec import inspect

from parley.dialects import v0_1, v0_3, v0_3_protojson, v1_0
from parley.dialects.fields import EnumNames, OneOf, Reader
from parley.protocol.jsonvalue import JsonObject, JsonValue

REF = "#/components/schemas/"

JSON_VALUE = "JsonValue"
"""The component for any JSON value."""

NULL: JsonObject = {"type": "null"}

# Decoders ignore the padding, so any number of `=` may be at the end.
_BASE64 = "^(?:[A-Za-z0-9+/_-]{4})*(?:[A-Za-z0-9+/_-]{2,3})?=*$"

_VERSION = re.compile("^V0[13](Proto)?|^V10")  # the prefixes of the names of wire structs


def ref(name: str) -> JsonObject:
    """A reference to a component."""
    return {"$ref": REF + name}


def object_of(properties: JsonObject, required: Sequence[str] = ()) -> JsonObject:
    """The schema of an object in a request. Other members are ignored, within the limits of JSON values."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*required],
        "additionalProperties": ref(JSON_VALUE),
    }


def any_json() -> JsonObject:
    """The schema of `JsonValue`: any JSON in a request, with numbers of 64 bits."""
    any_value = ref(JSON_VALUE)
    number: JsonObject = {"type": "number", "minimum": -(2**63), "maximum": 2**64 - 1}
    return {
        "description": "Any JSON. A request may nest 30 levels deep.",
        "anyOf": [
            NULL,
            {"type": "boolean"},
            {"type": "string"},
            number,
            {"type": "array", "items": any_value},
            {"type": "object", "additionalProperties": any_value},
        ],
    }


def schema_of(reader: Reader[Any]) -> inspect.Type:
    """The type that a reader decodes."""
    return reader._schema  # pyright: ignore[reportPrivateUsage]


class Schemas:
    """The schemas of one dialect. Those of structs are added to `components`, with the prefix in their names."""

    def __init__(self, prefix: str, components: JsonObject) -> None:
        self.components = components
        self._prefix = prefix

    def of_request(self, reader: Reader[Any]) -> JsonObject:
        """The schema of a request."""
        protojson = reader._protojson  # pyright: ignore[reportPrivateUsage]
        return _Walk(self, protojson, is_request=True).schema(schema_of(reader))

    def of_reply(self, reader: Reader[Any]) -> JsonObject:
        """The schema of a reply."""
        return _Walk(self, None, is_request=False).schema(schema_of(reader))

    def of_query(self, reader: Reader[Any], member: str) -> JsonObject:
        """The schema of one member in a query string: never null, enums by name only."""
        struct = schema_of(reader)
        assert isinstance(struct, inspect.StructType)
        (found,) = (field.type for field in struct.fields if field.encode_name == member)
        return _Walk(self, None, is_request=False).schema(found)

    def name_of(self, struct: inspect.StructType, *, is_request: bool) -> str:
        """The component of a struct: `v1_0.Message` in replies, `v1_0.MessageInput` in requests."""
        plain_name = _VERSION.sub("", struct.cls.__name__)
        return f"{self._prefix}.{plain_name}{'Input' if is_request else ''}"


class _Walk:
    def __init__(self, schemas: Schemas, protojson: EnumNames | None, *, is_request: bool) -> None:
        self._schemas = schemas
        self._protojson = protojson
        self._is_request = is_request

    def schema(self, info: inspect.Type) -> JsonObject:
        match info:
            case inspect.UnionType(types=members):
                return self._union([member for member in members if not isinstance(member, inspect.NoneType)])
            case inspect.StructType():
                return self._struct(info)
            case inspect.ListType(item_type=item, min_length=at_least):
                several: JsonObject = {"type": "array", "items": self.schema(item)}
                return several | _given(minItems=at_least)
            case inspect.DictType(value_type=item):
                return {"type": "object", "additionalProperties": self.schema(item)}
            case inspect.LiteralType(values=values):
                return {"enum": self._names(tuple(str(value) for value in values))}
            case inspect.IntType():
                return self._integer(info)
            case inspect.AnyType():
                return ref(JSON_VALUE) if self._is_request else {}
            case _:
                return _scalar(info)

    def _union(self, members: list[inspect.Type]) -> JsonObject:
        if len(members) == 1:
            return self.schema(members[0])
        return {"anyOf": [self.schema(member) for member in members]}

    def _names(self, allowed: tuple[str, ...]) -> list[JsonValue]:
        numbered = next((names for names in self._protojson or () if allowed[0] in names), ())
        numbers = [number for number, name in enumerate(numbered) if name in allowed]
        return [*(sorted(allowed, key=numbered.index) if numbered else allowed), *numbers]

    def _integer(self, info: inspect.IntType) -> JsonObject:
        highest = info.le if info.le is not None else info.lt and info.lt - 1
        number: JsonObject = {"type": "integer"} | _given(minimum=info.ge, maximum=highest)
        if self._protojson is None or highest is None:
            return number
        text: JsonObject = {"type": "string", "maxLength": 19, "pattern": f"^0*(?:{_digits(info.ge or 0, highest)})$"}
        return {"anyOf": [number, text]}

    def _struct(self, struct: inspect.StructType) -> JsonObject:
        name = self._schemas.name_of(struct, is_request=self._is_request)
        components = self._schemas.components
        if name not in components:
            components[name] = {}  # reserves the name, because a struct may contain itself
            components[name] = self._object(struct)
        return ref(name)

    def _object(self, struct: inspect.StructType) -> JsonObject:
        properties: JsonObject = {}
        required: list[str] = []
        if struct.tag_field is not None:
            properties[struct.tag_field] = self._tag(struct)
            if not self._is_request:
                required.append(struct.tag_field)
        for field in struct.fields:
            schema = self.schema(field.type)
            if self._is_request and not field.required and not isinstance(field.type, inspect.AnyType):
                schema = _or_null(schema)
            properties[field.encode_name] = schema
            if field.required or (not self._is_request and _is_always_written(field)):
                required.append(field.encode_name)
        if self._is_request:
            return object_of(properties, required) | RULES.get(struct.cls, {})
        whole: JsonObject = {"type": "object", "properties": properties, "required": [*required]}
        return whole | ({"minProperties": 1, "maxProperties": 1} if issubclass(struct.cls, OneOf) else {})

    def _tag(self, struct: inspect.StructType) -> JsonObject:
        if not self._is_request:
            return {"const": str(struct.tag)}
        if issubclass(struct.cls, _ALTERNATIVES):
            # Decoders infer a missing tag from the other members, and treat empty values as missing.
            return {"enum": [str(struct.tag), None, "", 0, False, [], {}]}
        return {"default": str(struct.tag), "description": "It is ignored."}


_ALTERNATIVES = (v0_3.V03TextPart, v0_3.V03FilePart, v0_3.V03DataPart)
"""The tagged structs in unions of requests, where the tag selects one."""


def _scalar(info: inspect.Type) -> JsonObject:
    match info:
        case inspect.StrType(min_length=at_least):
            return {"type": "string"} | _given(minLength=at_least)
        case inspect.BytesType():
            return {"type": "string", "contentEncoding": "base64", "pattern": _BASE64}
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.DateTimeType():
            return {"type": "string", "format": "date-time"}
        case _:
            raise TypeError(f"No schema for {info}")


def _or_null(schema: JsonObject) -> JsonObject:
    return {"anyOf": [schema, NULL]}


def _given(**bounds: int | None) -> JsonObject:
    return {name: bound for name, bound in bounds.items() if bound is not None}


def _is_always_written(field: inspect.Field) -> bool:
    # msgspec leaves out defaults, except for those of a factory that it does not know.
    return isinstance(field.default_factory, FunctionType)


def _digits(lowest: int, highest: int) -> str:
    """A pattern for integers from 0 or 1 to `highest`, without leading zeros: `[1-9]|10` for 1 to 10."""
    assert lowest in (0, 1)
    text = str(highest)
    shorter = [f"[1-9][0-9]{{{n}}}" if n else "[1-9]" for n in range(len(text) - 1)]
    same = [
        f"{text[:i]}[{1 if i == 0 else 0}-{int(digit) - 1}][0-9]{{{len(text) - i - 1}}}"
        for i, digit in enumerate(text)
        if int(digit) > (1 if i == 0 else 0)
    ]
    return "|".join([*(["0"] if lowest == 0 else []), *shorter, *same, text])


# --- checks in the structs' own code ----------------------------------------------------------------------------------


def _has(name: str, schema: JsonObject) -> JsonObject:
    return {"required": [name], "properties": {name: schema}}


_TEXT: JsonObject = {"type": "string"}
_ID: JsonObject = {"type": "string", "minLength": 1}
_OBJECT: JsonObject = {"type": "object"}
_SOME: JsonObject = {"type": "array", "minItems": 1}
_SCHEMES: JsonObject = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]}
_AUTHENTICATION: JsonObject = {
    "required": ["schemes"],
    "properties": {"schemes": _SCHEMES, "credentials": {"type": ["string", "null"]}},
}

RULES: dict[type, JsonObject] = {
    v1_0.V10Part: {"oneOf": [_has("text", _TEXT), _has("raw", _TEXT), _has("url", _TEXT), _has("data", {})]},
    v1_0.V10CreatePushConfig: {"allOf": [_has("taskId", _ID)]},
    v1_0.V10ListTasks: {},  # only converts timestamps to UTC
    v0_3.V03File: {"oneOf": [_has("bytes", _TEXT), _has("uri", _TEXT), _has("data", _TEXT)]},
    v0_3.V03Send: {"anyOf": [_has("messageId", _ID), _has("message", _has("messageId", _ID))]},
    v0_3_protojson.V03ProtoFile: {"oneOf": [_has("fileWithUri", _TEXT), _has("fileWithBytes", _TEXT)]},
    v0_3_protojson.V03ProtoPart: {"oneOf": [_has("text", _TEXT), _has("file", _OBJECT), _has("data", _OBJECT)]},
    v0_3_protojson.V03ProtoSend: {"anyOf": [_has("message", _OBJECT), _has("request", _OBJECT)]},
    v0_1.V01Message: {"anyOf": [_has("parts", _SOME), _has("data", _SOME)]},
    v0_1.V01Send: {"allOf": [_has("message", _has("role", _TEXT))]},
    v0_1.V01PushConfig: {"allOf": [{"properties": {"authentication": {"anyOf": [NULL, _AUTHENTICATION]}}}]},
}
"""The checks in the `__post_init__` of structs in requests, besides the types of their members."""
