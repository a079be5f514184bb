"""JSON objects, JSON values and timestamps in protobuf: the well-known types that both A2A packages use.

Decoders raise `Fault` for what a peer sent, encoders `LocalProtocolError` for what protobuf cannot represent.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import isfinite

from parley.dialects.fields import Fault
from parley.dialects.protobuf_pool import ProtoMessage, message_class
from parley.protocol.errors import LocalProtocolError
from parley.protocol.jsonvalue import JsonObject, JsonValue

# --- free-form JSON ---------------------------------------------------------------------------------------------------

MAX_DEPTH = 31
"""How deep JSON may nest, so that it can be sent on. Parsers stop at 100 nested messages; a JSON object takes
three, and the deepest field for one is seven messages deep."""

MAX_EXACT = 2**53
"""A protobuf number is a double, which is exact for integers up to here."""


def decode_struct(struct: ProtoMessage, depth: int = 1) -> JsonObject:
    """A google.protobuf.Struct as a JSON object, at this depth within another."""
    _check_depth(depth)
    return {name: decode_value(value, depth) for name, value in struct.fields.items()}


def encode_struct(value: JsonObject) -> ProtoMessage | None:
    """A JSON object as a google.protobuf.Struct; nothing for an empty one.

    Raises:
        LocalProtocolError: it nests too deep, or holds what JSON cannot.
    """
    if not value:
        return None
    struct = message_class("google.protobuf.Struct")()
    _fill_struct(struct, value, 1)
    return struct


def decode_value(value: ProtoMessage, depth: int = 1) -> JsonValue:
    """A google.protobuf.Value as JSON. Whole numbers become integers; a value without a kind is null.

    It counts as one level deep even when it stands alone, for 0.3 may have to wrap it in an object.
    """
    match value.WhichOneof("kind"):
        case "string_value":
            return value.string_value
        case "number_value":
            return _decode_number(value.number_value)
        case "bool_value":
            return value.bool_value
        case "struct_value":
            return decode_struct(value.struct_value, depth + 1)
        case "list_value":
            _check_depth(depth + 1)
            return [decode_value(item, depth + 1) for item in value.list_value.values]
        case _:
            return None


def encode_value(value: JsonValue) -> ProtoMessage:
    """Any JSON as a google.protobuf.Value.

    Raises:
        LocalProtocolError: it nests too deep, or holds what JSON cannot.
    """
    target = message_class("google.protobuf.Value")()
    _fill_value(target, value, 0)
    return target


def _decode_number(number: float) -> int | float:
    if number.is_integer() and abs(number) <= MAX_EXACT:
        return int(number)
    if not isfinite(number):
        raise Fault("A JSON number cannot be infinite or NaN")
    return number


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise Fault(f"Nested deeper than {MAX_DEPTH} levels")


def _fill_struct(target: ProtoMessage, value: JsonObject, depth: int) -> None:
    fields = target.fields
    for name, item in value.items():
        _fill_value(fields[name], item, depth)


def _fill_value(target: ProtoMessage, value: JsonValue, depth: int) -> None:
    match value:
        case str():
            target.string_value = value
        case bool():
            target.bool_value = value
        case int() | float() if isfinite(value):
            target.number_value = value
        case None:
            target.null_value = 0
        case dict() | list() if depth == MAX_DEPTH:
            raise LocalProtocolError(f"Protobuf cannot represent JSON that nests deeper than {MAX_DEPTH} levels")
        case dict():
            target.struct_value.SetInParent()  # an empty object is a value, too
            _fill_struct(target.struct_value, value, depth + 1)
        case list():
            target.list_value.SetInParent()
            for item in value:
                _fill_value(target.list_value.values.add(), item, depth + 1)
        case _:
            raise LocalProtocolError(f"Not a JSON value: {value!r:.100}")


# --- timestamps -------------------------------------------------------------------------------------------------------

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_SECOND = -62_135_596_800  # 0001-01-01T00:00:00Z
_LAST_SECOND = 253_402_300_799  # 9999-12-31T23:59:59Z


def decode_timestamp(timestamp: ProtoMessage) -> datetime:
    """A google.protobuf.Timestamp, to the microsecond."""
    if not _FIRST_SECOND <= timestamp.seconds <= _LAST_SECOND or not 0 <= timestamp.nanos < 1_000_000_000:
        raise Fault("Timestamp out of range")
    return _EPOCH + timedelta(seconds=timestamp.seconds, microseconds=timestamp.nanos // 1000)


def encode_timestamp(timestamp: datetime) -> dict[str, int]:
    """The fields of a google.protobuf.Timestamp."""
    since = timestamp - _EPOCH
    return {"seconds": since.days * 86_400 + since.seconds, "nanos": since.microseconds * 1000}
