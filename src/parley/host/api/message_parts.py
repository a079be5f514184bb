"""The message of a native request: text, or a list of texts and images. It becomes the parts of a message of A2A."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from parley.host.errors import BadRequest
from parley.protocol.messages import Part, RawPart, TextPart, UrlPart

MAX_PARTS = 1_000
"""Far more than a model takes. Each one is validated, stored and sent back."""

_ImageType: TypeAlias = Annotated[str, Meta(pattern=r"^image/[\w.+-]{1,100}\Z")]
_HttpUrl: TypeAlias = Annotated[str, Meta(pattern=r"^https?://", max_length=8_192)]


class TextInput(Struct, frozen=True, tag_field="type", tag="text"):
    """Some text."""

    text: str


class Base64Source(Struct, frozen=True, tag_field="type", tag="base64"):
    """An image in the request itself."""

    media_type: _ImageType
    data: bytes


class UrlSource(Struct, frozen=True, tag_field="type", tag="url"):
    """An image that the agent fetches."""

    url: _HttpUrl


class ImageInput(Struct, frozen=True, tag_field="type", tag="image"):
    """An image."""

    source: Base64Source | UrlSource


MessageInput: TypeAlias = str | Annotated[tuple[TextInput | ImageInput, ...], Meta(min_length=1, max_length=MAX_PARTS)]


def parts_of(message: MessageInput) -> tuple[Part, ...]:
    """The message as parts.

    Raises:
        BadRequest: there is nothing in it.
    """
    parts = (TextPart(message),) if isinstance(message, str) else tuple(map(_part, message))
    if not any(not isinstance(part, TextPart) or part.text.strip() for part in parts):
        raise BadRequest("$.message: must not be empty")
    return parts


def _part(given: TextInput | ImageInput) -> Part:
    if isinstance(given, TextInput):
        return TextPart(given.text)
    source = given.source
    if isinstance(source, Base64Source):
        return RawPart(source.data, source.media_type)
    return UrlPart(source.url)
