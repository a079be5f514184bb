"""Reading untrusted JSON into typed wire structs: the only module that touches JSON of unknown shape.

`Reader` decodes with msgspec straight into a struct. What that refuses gets a second, tolerant reading guided by the
struct's own schema (see `_relax`), so that the usual form costs nothing extra. For any bytes, the outcome is a value
or one `Fault` with the JSON path. Nesting and integers are bounded, so that every store and binding can hold what was
accepted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar, cast

import msgspec
from msgspec import inspect

from parley.protocol.jsonvalue import JsonValue

T = TypeVar("T")

MAX_DEPTH = 30
"""How deep a request may nest. Protobuf stops at 100 messages, and a level of free-form JSON takes three: gRPC must be
able to send what JSON accepts."""

MAX_REPLY_DEPTH = 40
"""How deep a reply may nest: a message from a request stands some levels deeper in a page of tasks."""

NonEmpty = Annotated[str, msgspec.Meta(min_length=1)]
Count = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
"""A protobuf int32 that cannot be negative."""

EnumNames: TypeAlias = tuple[tuple[str, ...], ...]


# msgspec leaves a member out when it has its default, unless the default comes from a factory of ours.
def always_text() -> str:
    """The default of a string that is always written."""
    return ""


def always_list() -> list[Any]:
    """The default of a list that is always written."""
    return []


def always_object() -> dict[str, Any]:
    """The default of a map that is always written."""
    return {}


class WireStruct(msgspec.Struct, rename="camel", omit_defaults=True):
    """What the objects on the wire share: camelCase names, and no mention of what is absent."""


class OneOf(WireStruct):
    """A wrapper whose one member shows what it holds, such as `{"task": …}`."""

    kinds: ClassVar[dict[str, str]] = {}
    """The member that is meant where the content comes without its wrapper, by the `kind` that it then has."""

    def __post_init__(self) -> None:
        values = msgspec.structs.astuple(self)
        if values.count(None) != len(values) - 1:
            *names, last = self.__struct_encode_fields__
            raise ValueError(f"Expected exactly one of {', '.join(names)} and {last}")


class Fault(Exception):
    """Input that cannot be read: the `reason`, the JSON `path`, and whether it is not even JSON."""

    def __init__(self, reason: str, path: str = "$", *, is_syntax: bool = False) -> None:
        super().__init__(reason, path)
        self.reason = reason
        self.path = path
        self.is_syntax = is_syntax


class Reader(Generic[T]):
    """Reads one wire struct.

    Null for an optional member, base64 of either alphabet, padded or not, and whole floats for integers are always
    understood. `protojson` adds what ProtoJSON allows beside the usual form: snake_case names, integers as strings,
    and enums by number, for which it lists each enum's names in the order of their numbers. `guesses_tags` infers the
    missing tag of a union's member from its other members, which is for reading replies.
    """

    def __init__(
        self, wire_type: type[T] | UnionType, *, protojson: EnumNames | None = None, guesses_tags: bool = True
    ) -> None:
        self._type = wire_type
        self._decoder = msgspec.json.Decoder(wire_type)
        self._schema = inspect.type_info(wire_type)
        self._protojson = protojson
        self._tolerance = _Tolerance(protojson, guesses_tags)

    def read(self, raw: bytes, *, max_depth: int = MAX_DEPTH) -> T:
        """The struct in these bytes.

        Raises:
            Fault: the bytes are not valid.
        """
        try:
            # A snake_case member would be skipped as unknown, which loses what the peer sent: check for one first.
            if self._protojson is not None and _SNAKE_CASE_NAME.search(raw):
                return self.read_value(parse(raw, max_depth=max_depth))
            if _needs_care(raw, max_depth):
                parse(raw, max_depth=max_depth)
            return self._decoder.decode(raw)
        except msgspec.ValidationError as exc:
            return self.read_value(self._parse_again(raw, exc))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            raise _syntax_fault(exc, max_depth) from None

    def _parse_again(self, raw: bytes, refused: msgspec.ValidationError) -> JsonValue:
        try:
            return parse(raw, max_depth=MAX_REPLY_DEPTH)
        except Fault as fault:
            raise fault if fault.is_syntax else _validation_fault(refused) from None

    def read_value(self, value: JsonValue) -> T:
        """The struct in this JSON value.

        Raises:
            Fault: the value is not valid.
        """
        relaxed = _relax(value, self._schema, self._tolerance)
        try:
            return msgspec.convert(relaxed, self._type)
        except msgspec.ValidationError as exc:
            raise _validation_fault(exc) from None


def parse(raw: bytes, *, max_depth: int = MAX_DEPTH) -> JsonValue:
    """The JSON value in these bytes, within the bounds on nesting and integers.

    Raises:
        Fault: the bytes are not JSON, or out of bounds.
    """
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise _syntax_fault(exc, max_depth) from None
    if _needs_care(raw, max_depth):
        _check_bounds(value, max_depth)
    return value


# Begins with the rare letter: a fifth of the time of a whole name. And with the last one of a name: if others might
# follow it, a text of nothing else would be scanned from each of them.
_SNAKE_CASE_NAME = re.compile(rb'_[a-z0-9]+"\s*:')
_DIGITS_AS_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER = b"0" * 19  # the shortest integer beyond 63 bits has as many digits


def _needs_care(raw: bytes, max_depth: int) -> bool:
    """Whether bounds could be exceeded at all: scans in C, five times faster here than a regular expression."""
    # `find` takes half the time of `in`, which first tries the bytes as a number.
    return raw.count(b"{") + raw.count(b"[") > max_depth or raw.translate(_DIGITS_AS_ZEROS).find(_LONG_NUMBER) >= 0


def _check_bounds(root: JsonValue, max_depth: int) -> None:
    """Walk a value without recursion, because it may be of any depth; build a path only for a fault."""
    levels: list[Iterator[tuple[str | int, JsonValue]]] = [iter([("", root)])]
    keys: list[str | int] = [""]
    while levels:
        for key, value in levels[-1]:
            keys[-1] = key
            if isinstance(value, dict | list):
                if len(levels) > max_depth:
                    raise Fault(_too_deep(max_depth), _build_path(keys))
                levels.append(iter(value.items() if isinstance(value, dict) else enumerate(value)))
                keys.append("")
                break
            if type(value) is int and not -(2**63) <= value < 2**64:
                raise Fault("Integer beyond 64 bits", _build_path(keys))
        else:
            levels.pop()
            keys.pop()


def _build_path(keys: list[str | int]) -> str:
    return "$" + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys[1:])


def _too_deep(max_depth: int) -> str:
    return f"Nested deeper than {max_depth} levels"


def _syntax_fault(exc: Exception, max_depth: int) -> Fault:
    if isinstance(exc, RecursionError):
        return Fault(_too_deep(max_depth))
    if isinstance(exc, UnicodeDecodeError):
        return Fault("Invalid UTF-8", is_syntax=True)
    # A number that no double holds is valid JSON and comes as a ValidationError with its path.
    if isinstance(exc, msgspec.ValidationError):
        return _validation_fault(exc)
    return Fault(str(exc), is_syntax=True)


# The reason may quote what the peer sent, even a text like this one: the path is what stands last.
_MSGSPEC_PATH = re.compile(r"^(?P<reason>.*)(?: - at `(?:key(?: in)? )?(?P<path>\$.*)`)$", re.DOTALL)


def _validation_fault(exc: msgspec.ValidationError) -> Fault:
    match = _MSGSPEC_PATH.match(str(exc))
    return Fault(match["reason"], match["path"]) if match else Fault(str(exc))


def read_each(reader: Reader[T], members: dict[str, JsonValue], path: str) -> dict[str, T]:
    """The structs in the values of an object.

    Raises:
        Fault: one is not valid; the path names it, which msgspec does not do.
    """
    structs: dict[str, T] = {}
    for name, value in members.items():
        try:
            structs[name] = reader.read_value(value)
        except Fault as fault:
            raise Fault(fault.reason, f"{path}.{name}{fault.path[1:]}") from None
    return structs


# --- the tolerant reading ---------------------------------------------------------------------------------------------


class _Tolerance(NamedTuple):
    """What is understood beside the usual form."""

    enums: EnumNames | None
    guesses_tags: bool


def _relax(value: JsonValue, schema: inspect.Type, tolerance: _Tolerance) -> Any:
    """Rewrite a value to fit the schema, as far as the tolerance goes; msgspec reports what remains wrong."""
    match schema:
        case inspect.UnionType(types=members):
            return _relax_union(value, members, tolerance)
        case inspect.StructType() if isinstance(value, dict):
            return _relax_struct(_wrapped(value, schema), schema, tolerance)
        case inspect.ListType(item_type=item) if isinstance(value, list):
            return [_relax(child, item, tolerance) for child in value]
        case inspect.DictType(value_type=item) if isinstance(value, dict):
            return {name: _relax(child, item, tolerance) for name, child in value.items()}
        case inspect.BytesType() if isinstance(value, str):
            return _standard_base64(value)
        case inspect.LiteralType(values=names) if tolerance.enums and type(value) is int:
            return _enum_name(value, cast("tuple[str, ...]", names), tolerance.enums)
        case inspect.IntType() if isinstance(value, float) and value.is_integer():  # an integer to JSON Schema, too
            return int(value)
        case inspect.IntType() if tolerance.enums and isinstance(value, str):
            return _whole_number(value)
        case _:
            return value


def _relax_union(value: JsonValue, members: tuple[inspect.Type, ...], tolerance: _Tolerance) -> Any:
    """An optional member, or one of several tagged structs; a missing tag may be inferred from its members."""
    candidates = [member for member in members if not isinstance(member, inspect.NoneType)]
    if value is None or len(candidates) == 1:
        return value if value is None else _relax(value, candidates[0], tolerance)
    structs = [member for member in candidates if isinstance(member, inspect.StructType)]
    if not isinstance(value, dict) or not structs:
        return value
    tag_field = structs[0].tag_field or ""
    tag = value.get(tag_field)
    if not tag and tolerance.guesses_tags:
        tag = next((s.tag for s in structs if _has_required(value, s)), None)
    chosen = next((s for s in structs if s.tag == tag), None)
    return {**_relax_struct(value, chosen, tolerance), tag_field: tag} if chosen else value


def _has_required(value: dict[str, JsonValue], schema: inspect.StructType) -> bool:
    required = [field.encode_name for field in schema.fields if field.required]
    return bool(required) and all(name in value for name in required)


def _wrapped(value: dict[str, JsonValue], schema: inspect.StructType) -> dict[str, JsonValue]:
    """The content of a wrapper in its wrapper, even if it came without one."""
    kinds = schema.cls.kinds if issubclass(schema.cls, OneOf) else {}
    kind = value.get("kind")
    member = kinds.get(kind) if isinstance(kind, str) else None
    return {member: value} if member and not any(name in value for name in kinds.values()) else value


def _relax_struct(value: dict[str, JsonValue], schema: inspect.StructType, tolerance: _Tolerance) -> Any:
    fields = {field.encode_name: field for field in schema.fields}
    relaxed: dict[str, Any] = {}
    for given, child in value.items():
        name = given if given in fields or tolerance.enums is None else camel_case(given)
        field = fields.get(name)
        if field is None or (name != given and name in value):
            if schema.forbid_unknown_fields:  # msgspec reports it
                relaxed[given] = child
            continue
        if child is None and not field.required and not isinstance(field.type, inspect.AnyType):
            continue
        relaxed[name] = _relax(child, field.type, tolerance)
    return relaxed


def camel_case(name: str) -> str:
    """A name as JSON writes it: `task_id` → `taskId`."""
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def _standard_base64(text: str) -> str:
    standard = text.replace("-", "+").replace("_", "/").rstrip("=")
    return standard + "=" * (-len(standard) % 4)


def _enum_name(number: int, allowed: tuple[str, ...], enums: EnumNames) -> JsonValue:
    (names,) = (names for names in enums if allowed[0] in names)
    known = 0 <= number < len(names) and names[number] in allowed
    return names[number] if known else number


def _whole_number(text: str) -> JsonValue:
    return int(text) if re.fullmatch(r"-?\d{1,19}", text, re.ASCII) else text
