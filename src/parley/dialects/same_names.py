"""Conversions between wire structs and canonical structs whose members have the same names."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar

from msgspec import Struct

from parley.dialects.dialect import Codec
from parley.dialects.fields import Reader, WireStruct

S = TypeVar("S", bound=Struct)
W = TypeVar("W", bound=WireStruct)


def decoded(kind: type[S], wire: WireStruct, **given: Any) -> S:
    """A canonical struct: the given members, and those that the wire struct has under the same names.

    What is absent has its default, and so has an optional text that is empty.
    """
    required = kind.__struct_fields__[: -len(kind.__struct_defaults__) or None]
    for name in kind.__struct_fields__:
        value = given.pop(name, getattr(wire, name, None))
        if value is not None and (value != "" or name in required):
            given[name] = tuple(value) if isinstance(value, list) else value  # pyright: ignore[reportUnknownArgumentType]
    return kind(**given)


def encoded(kind: type[S], value: Struct, **given: Any) -> S:
    """A wire struct: the given members, and those that the canonical struct has under the same names, unless empty."""
    for name in kind.__struct_fields__:
        member = getattr(value, name, None)
        if name not in given and member not in (None, (), {}):
            given[name] = list(member) if isinstance(member, tuple) else member  # pyright: ignore[reportUnknownArgumentType]
    return kind(**given)


def same_names(reader: Reader[W], wire: type[W], kind: type[S]) -> Codec[W, S]:
    """The codec of a canonical struct whose members are all in the wire struct, or have no place there."""
    return Codec(reader, partial(decoded, kind), partial(encoded, wire))
