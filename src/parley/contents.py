"""Converts what an author returns or yields into parts.

Text, data (dicts, lists, dataclasses, msgspec and pydantic objects), bytes and files, images (anything with
`_repr_png_`, as in Pillow and matplotlib), parts as they are, what others have said, and tuples of these. Any other
type is an error.
"""

from __future__ import annotations

import dataclasses
import mimetypes
from collections.abc import AsyncIterable, Awaitable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import msgspec

from parley.protocol.errors import LocalProtocolError
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.messages import DataPart, Part, RawPart, TextPart, UrlPart

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class InvalidContentError(LocalProtocolError):
    """An agent can send text, data, files and parts, but not this."""


class File(msgspec.Struct, frozen=True):
    """A file to send: its bytes with a name, or a path, which gives the name and the type.

    `File(b"…", "chart.png")`, `File(Path("report.pdf"))`, `File("https://…", "big.zip")` for one to be fetched.
    """

    content: bytes | Path | str
    name: str | None = None
    media_type: str | None = None
    metadata: JsonObject = {}

    def part(self) -> RawPart | UrlPart:
        """The part that carries the file."""
        source = self.content
        path = source.name if isinstance(source, Path) else None
        name = self.name or path
        media_type = self.media_type or (mimetypes.guess_type(name)[0] if name else None)
        if isinstance(source, str):
            return UrlPart(source, media_type, name, self.metadata)
        content = source.read_bytes() if isinstance(source, Path) else source
        return RawPart(content, media_type or "application/octet-stream", name, self.metadata)


class PydanticModel(Protocol):
    """What this module needs of a pydantic model."""

    def model_dump(self, *, mode: str = ...) -> Mapping[str, object]:
        """The model as a dict; `mode="json"` makes it JSON."""
        ...


class Picture(Protocol):
    """Anything that can be drawn: images and charts of Pillow and matplotlib."""

    def _repr_png_(self) -> bytes:
        """The picture as PNG."""
        ...


class HasParts(Protocol):
    """What a caller or another agent has said: the turn, an answer, the result of a delegation."""

    def __a2a_parts__(self) -> tuple[Part, ...]:
        """Its parts."""
        ...


if TYPE_CHECKING:
    # A Mapping and a Sequence, so that a TypedDict fits, and a `dict[str, int]`.
    Data: TypeAlias = (
        bool
        | int
        | float
        | Mapping[str, object]
        | Sequence[object]
        | msgspec.Struct
        | DataclassInstance
        | PydanticModel
    )
    Content: TypeAlias = str | bytes | Path | File | Part | Data | Picture | HasParts | None
else:
    Content = object  # what may be sent; a tuple is several parts


def parts_of(content: object) -> tuple[Part, ...]:
    """The content as parts; None becomes no parts.

    Raises:
        InvalidContentError: A2A cannot carry content of this type.
    """
    if content is None:
        return ()
    if isinstance(content, str):  # the most frequent case
        return (TextPart(_encodable(content)),)
    if isinstance(content, tuple):
        return tuple(part for item in cast("tuple[Any, ...]", content) for part in parts_of(item))
    if hasattr(content, "__a2a_parts__"):
        return cast("HasParts", content).__a2a_parts__()
    return (_part_of(content),)


def _part_of(content: Any) -> Part:
    """Content other than text as a part."""
    match content:
        case TextPart() | RawPart() | UrlPart() | DataPart():
            return content
        case File():
            return content.part()
        case Path():
            return File(content).part()
        case bytes():
            return RawPart(content, "application/octet-stream")
        case _ if hasattr(content, "_repr_png_"):
            return RawPart(content._repr_png_(), "image/png")
        case _:
            return DataPart(_to_json(content))


def _hint_for(content: object) -> str:
    """What to do instead of sending an object that is not content."""
    if isinstance(content, Awaitable):
        return "Use `await` to get its result."
    if isinstance(content, AsyncIterable | Iterator):
        return "Use `turn.stream` with the function that it comes from."
    return "Use text, data, a File or a part."


def _encodable(text: str) -> str:
    """The text, if it can be encoded as UTF-8: without lone surrogates."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise InvalidContentError(f"This text is not valid Unicode: {exc.reason}") from exc
    return text


def require_json(*values: JsonValue) -> None:
    """Check names and metadata that an author gives.

    Raises:
        InvalidContentError: JSON cannot carry them.
    """
    try:
        msgspec.json.encode(values)
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidContentError(f"This cannot be converted to JSON: {exc}") from exc


def _to_json(content: Any) -> JsonValue:
    """A structured object as plain JSON."""
    kind = cast("type[Any]", type(content))
    if hasattr(kind, "model_dump"):  # pydantic
        return content.model_dump(mode="json")
    if not (issubclass(kind, dict | list | bool | int | float | msgspec.Struct) or dataclasses.is_dataclass(kind)):
        raise InvalidContentError(f"An agent cannot send a value of type {kind.__name__}. {_hint_for(content)}")
    try:
        return msgspec.json.decode(msgspec.json.encode(content))
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidContentError(f"This {kind.__name__} cannot be converted to JSON: {exc}") from exc
