"""Converts typed values to JSON and back: what a step returns, by the return annotation of its function.

msgspec converts dataclasses, structs, TypedDicts, tuples, sets, dates, UUIDs, decimals, enums and unions of these.
pydantic models are recognised by their methods, so that pydantic is not imported. A type that cannot be resolved or
converted gives plain JSON.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from math import isfinite
from types import CellType, SimpleNamespace, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from parley.protocol.jsonvalue import JsonValue

_arguments = msgspec.json.Encoder(enc_hook=lambda value: type(value).__qualname__, order="deterministic")

_AWAITABLES = (Awaitable, Coroutine, asyncio.Future, asyncio.Task)


class UnsupportedTypeError(Exception):
    """A type that JSON cannot be converted to."""


def encode_typed(value: object) -> bytes:
    """A value as JSON text.

    Raises:
        ValueError: JSON cannot hold it; the message says why.
    """
    try:
        encoded = msgspec.json.encode(value, enc_hook=_dump)
        if b"null" in encoded:  # msgspec writes NaN and infinities as null
            _require_finite(msgspec.to_builtins(value, enc_hook=_dump))
    except (TypeError, ValueError, RecursionError) as exc:
        raise ValueError(str(exc)) from exc
    return encoded


def _dump(value: object) -> JsonValue:
    """A pydantic model as JSON, in the form that `model_validate_json` reads."""
    dump: Callable[..., JsonValue] | None = getattr(value, "model_dump", None)
    if dump is None:
        kind = type(value).__name__
        raise TypeError(f"a value of type {kind} is not JSON. Use JSON, a dataclass, or a msgspec or pydantic object")
    return dump(mode="json", by_alias=True, round_trip=True)


def _require_finite(value: JsonValue) -> None:
    match value:
        case float() if not isfinite(value):
            raise ValueError(f"JSON has no {value}")
        case dict():
            for item in value.values():
                _require_finite(item)
        case list():
            for item in value:
                _require_finite(item)
        case _:
            pass


def digest_of_arguments(call: Callable[[], object]) -> str:
    """A digest of what a partial calls its function with; empty if that is nothing, or cannot be told.

    Objects that are not JSON count by their types only, because nothing else of them is the same in every process.
    """
    if not isinstance(call, partial) or not (call.args or call.keywords):
        return ""
    digest = hashlib.blake2b(digest_size=8)
    try:
        for value in (*call.args, *(pair for pair in sorted(call.keywords.items()))):
            digest.update(value if isinstance(value, bytes) else _arguments.encode(value))
            digest.update(b",")
    except (TypeError, ValueError, RecursionError):
        return ""
    return digest.hexdigest()


def decode_typed(encoded: bytes, wanted: object) -> object:
    """JSON text as a value of the wanted type.

    Raises:
        ValueError: the value does not fit the type.
        UnsupportedTypeError: JSON cannot be converted to this type.
    """
    try:
        return msgspec.json.decode(encoded, type=cast("type[object]", wanted), dec_hook=_load)
    except TypeError as exc:
        if get_origin(wanted) in (Union, UnionType):
            return _decode_member(encoded, get_args(wanted))
        raise UnsupportedTypeError(str(exc)) from exc


def _load(wanted: type[Any], value: JsonValue) -> object:
    """A value of a type that msgspec does not know."""
    validate: Callable[[bytes], object] | None = getattr(wanted, "model_validate_json", None)
    if validate is None:
        raise UnsupportedTypeError(f"JSON cannot be converted to {name_of(wanted)}")
    return validate(msgspec.json.encode(value))


def _decode_member(encoded: bytes, members: tuple[object, ...]) -> object:
    """JSON as the first type of a union that keeps all of it; msgspec does not take unions of several dataclasses."""
    fitting: list[object] = []
    for member in members:
        with suppress(ValueError):
            fitting.append(decode_typed(encoded, member))
            if encode_typed(fitting[-1]) == encoded:
                return fitting[-1]
    if not fitting:
        raise ValueError(f"It fits none of {', '.join(map(name_of, members))}")
    return fitting[0]


def return_type_of(function: Callable[..., object]) -> object:
    """The type that a function returns or, if it returns an awaitable, that the awaitable gives; Any if it says none.

    Raises:
        UnsupportedTypeError: the annotation cannot be resolved.
    """
    if isinstance(function, type):
        return function
    if not inspect.isroutine(function):
        function = type(function).__call__
    annotation: object = None
    try:
        annotations: dict[str, object] = getattr(function, "__annotations__", {})
        if "return" not in annotations:
            return Any
        annotation = annotations["return"]
        returned = _resolve(annotation, inspect.unwrap(function))
    except Exception as exc:  # an annotation is an expression, and may raise anything
        raise UnsupportedTypeError(f"its return annotation {annotation!r} cannot be resolved: {exc}") from exc
    is_awaitable = get_origin(returned) in _AWAITABLES and not inspect.iscoroutinefunction(function)
    return get_args(returned)[-1] if is_awaitable else returned


def _resolve(annotation: object, function: Callable[..., object]) -> object:
    """An annotation as a type, which may be text; the names in it are looked up where the function was defined."""
    known: dict[str, object] = {}
    cells: tuple[CellType, ...] = getattr(function, "__closure__", None) or ()
    for name, cell in zip(function.__code__.co_freevars if cells else (), cells, strict=True):
        with suppress(ValueError):  # not assigned yet
            known[name] = cell.cell_contents
    # Only this annotation: those of the arguments may use names that only type checkers know.
    holder = SimpleNamespace(__annotations__={"return": annotation})
    return get_type_hints(holder, getattr(function, "__globals__", {}), known, include_extras=True)["return"]


def name_of(thing: object) -> str:
    """A type or function as an author writes it: `list[Point]`."""
    name: str | None = None if get_args(thing) else getattr(thing, "__qualname__", None)
    return name or str(thing)
