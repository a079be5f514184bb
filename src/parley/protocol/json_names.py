"""Whether a JSON text names a member of one object twice: readers differ on which one counts, so requests may not.

RFC 8259 section 4 leaves the outcome open: a gateway that reads the first one would check something else than the
agent gets. msgspec takes the last one without a word. Replies of other agents are not looked at: a client is tolerant.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

NAME_TWICE = "A name comes twice in one object"
"""What a caller is told, with the path."""

SHORT = 64 * 1024
"""Up to here it is quicker to write a text once more than to look at each name."""

_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


def find_repeated_name(raw: bytes) -> str | None:
    """The JSON path of a name that comes twice in its object, whatever its escapes; None if there is none.

    A text that is not JSON has none: the reader of it says what is wrong. Raises RecursionError if it is too deep.

    `{"a": [{"b": 1, "\\u0062": 2}]}` → `$.a[0].b`
    """
    if len(raw) <= SHORT and _is_written_as_read(raw):
        return None
    text = raw.decode("utf-8", "surrogateescape")
    try:
        _look.decode(text)
    except _RepeatedNameError:
        return _path_of_repeated(_mark.decode(text))
    except ValueError:
        return None
    return None


def _is_written_as_read(raw: bytes) -> bool:
    """Whether writing down what was read gives the same text: then nothing was lost on the way, such as a member."""
    try:
        written = _encoder.encode(_decoder.decode(raw))
        return written == raw or written == msgspec.json.format(raw, indent=-1)
    except (ValueError, RecursionError):
        return False


class _RepeatedNameError(Exception):
    """An object has a name twice."""


class _Repeated:
    """Stands for an object that has a name twice."""

    def __init__(self, name: str) -> None:
        self.name = name


_Marked: TypeAlias = "str | bool | list[_Marked] | dict[str, _Marked] | _Repeated | None"
_Place: TypeAlias = "tuple[_Place, str] | None"


def _look_at(pairs: list[tuple[str, object]]) -> None:
    if len(dict(pairs)) < len(pairs):
        raise _RepeatedNameError


def _mark_repeated(pairs: list[tuple[str, _Marked]]) -> dict[str, _Marked] | _Repeated:
    members: dict[str, _Marked] = {}
    for name, value in pairs:
        if name in members:
            return _Repeated(name)
        members[name] = value
    return members


# Numbers stay text: what is too long for one is for the reader of the request to refuse.
_look = json.JSONDecoder(object_pairs_hook=_look_at, parse_int=str, parse_float=str, strict=False)
_mark = json.JSONDecoder(object_pairs_hook=_mark_repeated, parse_int=str, parse_float=str, strict=False)


def _path_of_repeated(root: _Marked) -> str:
    """The path to an object that was marked. Only this one is spelt: names may be long, and values many."""
    waiting: list[tuple[_Place, _Marked]] = [(None, root)]
    while True:
        place, value = waiting.pop()
        if isinstance(value, _Repeated):
            return f"${''.join(reversed(list(_steps(place))))}.{value.name}"
        if isinstance(value, dict):
            waiting.extend(((place, f".{name}"), child) for name, child in value.items())
        elif isinstance(value, list):
            waiting.extend(((place, f"[{index}]"), child) for index, child in enumerate(value))


def _steps(place: _Place) -> Iterator[str]:
    while place is not None:
        place, step = place
        yield step
