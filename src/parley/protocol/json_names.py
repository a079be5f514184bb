"""Finds a JSON object that has the same name twice. Parsers disagree on which one counts, so requests may not have one.

RFC 8259 section 4 leaves the outcome open: a gateway that reads the first one would check
something else than the agent gets. msgspec silently takes the last one. Replies are not checked: clients are tolerant.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

DUPLICATE_NAME = "Duplicate name in an object"
"""The message of the error, whose path names the duplicate."""

SHORT = 64 * 1024
"""Up to this length, encoding the decoded text again is faster than checking each name."""

_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


def find_repeated_name(raw: bytes) -> str | None:
    """The JSON path of a name that its object has twice, however it is escaped; `None` if there is none.

    A text that is not JSON has none: its decoder reports what is wrong. Raises RecursionError if it nests too deep.

    `{"a": [{"b": 1, "\\u0062": 2}]}` → `$.a[0].b`
    """
    if len(raw) <= SHORT and _encodes_to_itself(raw):
        return None
    text = raw.decode("utf-8", "surrogateescape")
    try:
        _refusing_decoder.decode(text)
    except _RepeatedNameError:
        return _path_of_repeated(_marking_decoder.decode(text))
    except ValueError:
        return None
    return None


def _encodes_to_itself(raw: bytes) -> bool:
    """Whether encoding the decoded text gives the same text again: then no member was lost."""
    try:
        written = _encoder.encode(_decoder.decode(raw))
        return written == raw or written == msgspec.json.format(raw, indent=-1)
    except (ValueError, RecursionError):
        return False


class _RepeatedNameError(Exception):
    """An object has the same name twice."""


class _Repeated:
    """Marks an object that has the same name twice."""

    def __init__(self, name: str) -> None:
        self.name = name


_Marked: TypeAlias = "str | bool | list[_Marked] | dict[str, _Marked] | _Repeated | None"
_Parents: TypeAlias = "tuple[_Parents, str] | None"


def _refuse_repeated(pairs: list[tuple[str, object]]) -> None:
    if len(dict(pairs)) < len(pairs):
        raise _RepeatedNameError


def _mark_repeated(pairs: list[tuple[str, _Marked]]) -> dict[str, _Marked] | _Repeated:
    members: dict[str, _Marked] = {}
    for name, value in pairs:
        if name in members:
            return _Repeated(name)
        members[name] = value
    return members


# Numbers stay text: the decoder of the request refuses those that are too long.
_refusing_decoder = json.JSONDecoder(object_pairs_hook=_refuse_repeated, parse_int=str, parse_float=str, strict=False)
_marking_decoder = json.JSONDecoder(object_pairs_hook=_mark_repeated, parse_int=str, parse_float=str, strict=False)


def _path_of_repeated(root: _Marked) -> str:
    """The path to an object that was marked. Only this path is built: there may be many values, with long names."""
    waiting: list[tuple[_Parents, _Marked]] = [(None, root)]
    while True:
        parents, value = waiting.pop()
        if isinstance(value, _Repeated):
            return f"${''.join(reversed(list(_steps(parents))))}.{value.name}"
        if isinstance(value, dict):
            waiting.extend(((parents, f".{name}"), child) for name, child in value.items())
        elif isinstance(value, list):
            waiting.extend(((parents, f"[{index}]"), child) for index, child in enumerate(value))


def _steps(parents: _Parents) -> Iterator[str]:
    while parents is not None:
        parents, step = parents
        yield step
