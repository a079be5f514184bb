"""Tables that say how a canonical struct and a protobuf message correspond, once for both directions.

A `MessageMap` is such a table: it gives attributes of a struct the kind of field that they have in the message. Its
first use compiles the table into two plain functions, which are as fast as functions written by hand. `encode` returns
`Fields`: the nested keyword arguments from which protobuf builds the whole message in one call. `decode` raises
`Fault`; each level adds its name to the path only when that happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Generic, NoReturn, TypeAlias, TypeVar

from msgspec import Struct, structs

from parley.dialects.fields import Fault, camel_case
from parley.dialects.protobuf_pool import ProtoMessage
from parley.dialects.protobuf_values import (
    decode_struct,
    decode_timestamp,
    decode_value,
    encode_struct,
    encode_timestamp,
    encode_value,
)
from parley.protocol.jsonvalue import JsonObject

Fields: TypeAlias = dict[str, Any]  # protobuf's constructors take scalars, dicts, lists and messages alike
C = TypeVar("C")
S = TypeVar("S", bound=Struct)


class Converter(Generic[C]):
    """One value both ways, by two functions that `make` returns when they are first needed."""

    def __init__(self, make: Callable[[], tuple[Callable[[Any], C], Callable[[C], Any]]]) -> None:
        self._make = make

    @cached_property
    def _functions(self) -> tuple[Callable[[Any], C], Callable[[C], Any]]:
        return self._make()

    @cached_property
    def decode(self) -> Callable[[Any], C]:
        """Reads what protobuf holds; raises `Fault`."""
        return self._functions[0]

    @cached_property
    def encode(self) -> Callable[[C], Any]:
        """Returns what protobuf's constructors take."""
        return self._functions[1]


def converter(decode: Callable[[Any], C], encode: Callable[[C], Any]) -> Converter[C]:
    """A converter of two functions that exist already."""
    return Converter(lambda: (decode, encode))


# --- kinds of fields --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FieldKind:
    """The two expressions that read a field of the message and write an attribute of the struct.

    In them `{field}` is the message's field, `{present}` whether it is set, `{value}` the struct's attribute, `{path}`
    the field's name in errors, `{decode}` and `{encode}` the functions of the converter. The field has the attribute's
    name unless `wire` gives it another. Errors name it in camelCase, as 1.0 does, unless `path` gives another name.
    """

    reading: str
    writing: str = "{value}"
    converter: Converter[Any] | None = None
    wire: str = ""
    path: str = ""

    def named(self, wire: str) -> FieldKind:
        """The same kind of field under another name in the message."""
        return replace(self, wire=wire)

    def expressions(self, attribute: str) -> tuple[str, str]:
        """How to read the field, and its entry in the dict that writes the message."""
        wire = self.wire or attribute
        names = {
            "field": f"message.{wire}",
            "present": f"message.HasField({wire!r})",
            "value": f"value.{attribute}",
            "path": repr(self.path or camel_case(wire)),
            "decode": f"decode_{attribute}",
            "encode": f"encode_{attribute}",
        }
        entry = self.writing if self.is_spread else f"{wire!r}: {self.writing}"
        return self.reading.format(**names), entry.format(**names)

    @property
    def is_spread(self) -> bool:
        """Whether the attribute is written as several fields."""
        return self.writing.startswith("**")


PLAIN = FieldKind("{field}")  # a scalar that is read and written as it is
FLAG = FieldKind("{field}", "{value} or None")  # a flag that is written only when it is set
TEXT = FieldKind("{field} or None")  # a text that may be absent, which in protobuf is the same as empty
REQUIRED_TEXT = FieldKind("{field} or refuse('Missing or empty', {path})")  # a text that must not be empty
TEXT_LIST = FieldKind("tuple({field})")
IF_SET = FieldKind("{field} if {present} else None")  # a scalar in a field that can tell absent from zero
COUNT = FieldKind("not_negative({path}, {field})")
COUNT_OR_NONE = FieldKind("not_negative({path}, {field}) or None")  # 0 stands for absent
COUNT_IF_SET = FieldKind("not_negative({path}, {field}) if {present} else None")


def enum(members: dict[int, Any]) -> FieldKind:
    """A member of an enum, by its number."""
    numbers = {member: number for number, member in members.items()}
    reading = "{decode}({field}) or refuse('Unknown value: ' + str({field}), {path})"
    return FieldKind(reading, "{encode}({value})", converter(members.get, numbers.__getitem__))


def required(converter: Converter[Any], wire: str = "", path: str = "") -> FieldKind:
    """A message that must be there."""
    reading = "at({path}, {decode}, {field}) if {present} else refuse('Missing', {path})"
    return FieldKind(reading, "{encode}({value})", converter, wire, path)


def optional(converter: Converter[Any], wire: str = "", path: str = "") -> FieldKind:
    """A value that may be absent."""
    reading = "at({path}, {decode}, {field}) if {present} else None"
    return FieldKind(reading, "{encode}({value}) if {value} is not None else None", converter, wire, path)


def always(converter: Converter[Any], wire: str = "") -> FieldKind:
    """A value that is read even when it is absent; it then reads as the empty one."""
    return FieldKind("at({path}, {decode}, {field})", "{encode}({value})", converter, wire)


def repeated(converter: Converter[Any], wire: str = "") -> FieldKind:
    """A list of messages."""
    return FieldKind("each({path}, {decode}, {field})", "[{encode}(item) for item in {value}]", converter, wire)


def non_empty(converter: Converter[Any], wire: str = "", path: str = "") -> FieldKind:
    """A list of messages that must not be empty."""
    reading = "each({path}, {decode}, {field}) or refuse('Missing or empty', {path})"
    return FieldKind(reading, "[{encode}(item) for item in {value}]", converter, wire, path)


def spread(converter: Converter[Any]) -> FieldKind:
    """A value that is read from the whole message and written as several of its fields."""
    return FieldKind("{decode}(message)", "**{encode}({value})", converter)


TIMESTAMP = optional(converter(decode_timestamp, encode_timestamp))
JSON_VALUE = always(converter(decode_value, encode_value))
JSON_OBJECT = FieldKind(
    "at({path}, {decode}, {field}) if {present} else {{}}",
    "{encode}({value}) if {value} else None",
    converter(decode_struct, encode_struct),
)

_KINDS: dict[Any, FieldKind] = {
    str: PLAIN,
    str | None: TEXT,
    tuple[str, ...]: TEXT_LIST,
    bool: FLAG,
    bool | None: IF_SET,
    datetime | None: TIMESTAMP,
    JsonObject: JSON_OBJECT,
}
"""The kind of a field by the type of its attribute."""

# --- what the expressions call ----------------------------------------------------------------------------------------


def at(path: str, decode: Callable[[Any], C], value: Any) -> C:
    """Decode a member; its name goes before the path of any fault in it."""
    try:
        return decode(value)
    except Fault as fault:
        raise Fault(fault.reason, f"$.{path}{fault.path[1:]}") from None


def each(path: str, decode: Callable[[Any], C], values: Iterable[Any]) -> tuple[C, ...]:
    """Decode the items of a list."""
    decoded: list[C] = []
    try:
        for value in values:
            decoded.append(decode(value))
    except Fault as fault:
        raise Fault(fault.reason, f"$.{path}[{len(decoded)}]{fault.path[1:]}") from None
    return tuple(decoded)


def refuse(reason: str, path: str) -> NoReturn:
    """Raise a fault in an expression."""
    raise Fault(reason, f"$.{path}")


def not_negative(path: str, number: int) -> int:
    """The number, if it is not negative."""
    return number if number >= 0 else refuse("Must not be negative", path)


_CALLED = {function.__name__: function for function in (at, each, refuse, not_negative)}

# --- messages ---------------------------------------------------------------------------------------------------------


class MessageMap(Converter[S]):
    """A struct and a message, attribute by attribute.

    An attribute that the table does not name has the kind of its type (`_KINDS`); one that is `None` has no field.
    `MessageMap(PushConfigPage, configs=repeated(PUSH_CONFIG))` compiles to

        lambda message: struct(each("configs", decode_configs, message.configs), message.next_page_token or None)
        lambda value: {
            "configs": [encode_configs(item) for item in value.configs],
            "next_page_token": value.next_page_token,
        }
    """

    def __init__(self, struct: type[S], **fields: FieldKind | None) -> None:
        super().__init__(self._compile)
        self._struct = struct
        self._given = fields

    def _compile(self) -> tuple[Callable[[Any], S], Callable[[S], Fields]]:
        # The source consists of names and expressions of our own tables: nothing in it comes from a peer.
        names: dict[str, Any] = {"struct": self._struct, **_CALLED}
        arguments: list[str] = []
        entries: list[str] = []
        for position, attribute in enumerate(structs.fields(self._struct)):
            name = attribute.name
            field = self._given[name] if name in self._given else _KINDS[attribute.type]
            if field is None:
                continue
            reading, entry = field.expressions(name)
            # Arguments by position are the faster ones.
            arguments.append(reading if position == len(arguments) else f"{name}={reading}")
            entries.insert(0 if field.is_spread else len(entries), entry)
            if field.converter is not None:
                names |= {f"decode_{name}": field.converter.decode, f"encode_{name}": field.converter.encode}
        source = f"lambda message: struct({', '.join(arguments)}), lambda value: {{{', '.join(entries)}}}"
        return eval(compile(source, f"<fields of {self._struct.__name__}>", "eval"), names)


def one_of(oneof: str, cases: dict[type[Any], tuple[str, Converter[Any]]], *, otherwise: str) -> Converter[Any]:
    """A message that stands for one of several structs, told apart by the field that is set in a oneof.

    Where none is set, `otherwise` says what is wrong.
    """

    def make() -> tuple[Callable[[ProtoMessage], Any], Callable[[Any], Fields]]:
        decoders = {field: converter.decode for field, converter in cases.values()}
        encoders = {struct: converter.encode for struct, (_, converter) in cases.items()}

        def decode(message: ProtoMessage) -> Any:
            found = decoders.get(message.WhichOneof(oneof))
            if found is None:
                raise Fault(otherwise)
            return found(message)

        return decode, lambda value: encoders[type(value)](value)

    return Converter(make)


def nested(field: str, converter: Converter[C], path: str = "") -> tuple[str, Converter[C]]:
    """A case of a `one_of` in which the field holds the struct."""
    name = path or camel_case(field)

    def make() -> tuple[Callable[[ProtoMessage], C], Callable[[C], Fields]]:
        decode, encode = converter.decode, converter.encode
        return lambda message: at(name, decode, getattr(message, field)), lambda value: {field: encode(value)}

    return field, Converter(make)


def adapted(
    converter: Converter[C],
    *,
    after_decode: Callable[[C], C] = lambda value: value,
    before_encode: Callable[[C], C] = lambda value: value,
) -> Converter[C]:
    """A converter with one more step on either side."""

    def make() -> tuple[Callable[[Any], C], Callable[[C], Any]]:
        decode, encode = converter.decode, converter.encode
        return lambda message: after_decode(decode(message)), lambda value: encode(before_encode(value))

    return Converter(make)
