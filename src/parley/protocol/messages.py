"""Messages between a caller and an agent, and their parts.

A part is exactly one of text, bytes, a URL or data. Rules that hold for every canonical value in this package:
values are frozen, sequences are tuples, an optional string is `None` and never empty, absent metadata is `{}`. They
form no cycles, so the garbage collector skips them (`gc=False`), which makes a busy server faster.
Spec: 1.0 sections 4.1.4 to 4.1.6.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from itertools import groupby
from typing import TypeAlias, TypeGuard

from msgspec import Struct

from parley.protocol.jsonvalue import JsonObject, JsonValue

SKILL_KEY = "skillId"
"""The member of a message's metadata that names the skill it is for. No release of A2A has a field for that yet."""


class Role(StrEnum):
    """The sender of a message."""

    USER = "user"
    AGENT = "agent"


class TextPart(Struct, frozen=True, gc=False, omit_defaults=True, tag="text"):
    """Text."""

    text: str
    media_type: str | None = None
    filename: str | None = None
    metadata: JsonObject = {}


class RawPart(Struct, frozen=True, gc=False, omit_defaults=True, tag="raw"):
    """A file whose bytes travel with the message."""

    raw: bytes
    media_type: str | None = None
    filename: str | None = None
    metadata: JsonObject = {}


class UrlPart(Struct, frozen=True, gc=False, omit_defaults=True, tag="url"):
    """A file that the receiver fetches from a URL."""

    url: str
    media_type: str | None = None
    filename: str | None = None
    metadata: JsonObject = {}


class DataPart(Struct, frozen=True, gc=False, omit_defaults=True, tag="data"):
    """Any JSON value, `None` included."""

    data: JsonValue
    media_type: str | None = None
    filename: str | None = None
    metadata: JsonObject = {}


Part: TypeAlias = TextPart | RawPart | UrlPart | DataPart


def text_of(parts: Iterable[Part]) -> str:
    """All text in parts, joined without a separator, as chunks are."""
    return "".join(part.text for part in parts if isinstance(part, TextPart))


def is_plain_text(part: Part) -> TypeGuard[TextPart]:
    """Whether a part is text and nothing else, so that it makes no difference where it is cut."""
    return type(part) is TextPart and part.media_type is None and part.filename is None and not part.metadata


def joined(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Parts in which plain texts that follow each other are one, and none is empty: `"a", "b", file` → `"ab", file`."""
    whole: list[Part] = []
    for is_plain, neighbours in groupby(parts, is_plain_text):
        if not is_plain:
            whole.extend(neighbours)
        elif text := text_of(neighbours):
            whole.append(TextPart(text))
    return tuple(whole)


class Message(Struct, frozen=True, gc=False, omit_defaults=True, tag="message"):
    """One message from a caller or an agent.

    `message_id` is empty only for a message read from 0.1, which has no message ids.
    """

    message_id: str
    role: Role
    parts: tuple[Part, ...]
    context_id: str | None = None
    task_id: str | None = None
    metadata: JsonObject = {}
    extensions: tuple[str, ...] = ()
    reference_task_ids: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All text parts, joined by newlines."""
        return "\n".join([part.text for part in self.parts if isinstance(part, TextPart)])
