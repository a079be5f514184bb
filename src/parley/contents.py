"""What an author may return or yield, and the parts that it becomes.

Text, data (dicts, lists, dataclasses, msgspec and pydantic objects), bytes and files, images (whatever shows itself as
PNG in a notebook does so here: Pillow, matplotlib), parts as they are, and tuples of these. Anything else is a mistake
that is named, not guessed at.
"""

from __future__ import annotations

import dataclasses
import mimetypes
from pathlib import Path
from typing import Any, cast

import msgspec

from parley.protocol.errors import LocalProtocolError
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.messages import DataPart, Part, RawPart, TextPart, UrlPart


class InvalidContentError(LocalProtocolError):
    """An agent may say text, data, files and parts, but not this."""


class File(msgspec.Struct, frozen=True):
    """A file to send: its bytes with a name, or a path, from which the name and the type are taken.

    `File(b"…", "chart.png")`, `File(Path("report.pdf"))`, `File("https://…", "big.zip")` for one that is fetched.
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


def parts_of(content: Any) -> tuple[Part, ...]:
    """The parts that some content becomes; nothing becomes none.

    Raises:
        InvalidContentError: the content is of no kind that A2A can carry.
    """
    if content is None:
        return ()
    if isinstance(content, str):  # what most agents say
        return (TextPart(_writable(content)),)
    if isinstance(content, tuple):
        return tuple(part for item in cast("tuple[Any, ...]", content) for part in parts_of(item))
    return (_part_of(content),)


def _part_of(content: Any) -> Part:
    """The one part that some content other than text becomes."""
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


def _writable(text: str) -> str:
    """Text that can be stored and sent: no half of a surrogate pair in it."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise InvalidContentError(f"This text cannot be written down: {exc.reason}") from exc
    return text


def _to_json(content: Any) -> JsonValue:
    """Plain JSON of an object that has a shape."""
    kind = cast("type[Any]", type(content))
    if hasattr(kind, "model_dump"):  # pydantic
        return content.model_dump(mode="json")
    if not (issubclass(kind, dict | list | bool | int | float | msgspec.Struct) or dataclasses.is_dataclass(kind)):
        raise InvalidContentError(
            f"An agent cannot say a value of the type {kind.__name__}: give text, data, a File or a part"
        )
    try:
        return msgspec.json.decode(msgspec.json.encode(content))
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidContentError(f"This {kind.__name__} is not JSON: {exc}") from exc
