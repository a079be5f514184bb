"""How large content is, roughly and cheaply, for the limits."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from parley.protocol.messages import DataPart, Part, RawPart, TextPart, UrlPart


def size_of(parts: Iterable[Part]) -> int:
    """About how many bytes some parts take."""
    size = 0
    for part in parts:
        size += len(part.text) if type(part) is TextPart else _size(part)
    return size


def _size(part: Part) -> int:
    match part:
        case TextPart():
            return len(part.text)
        case RawPart():
            return len(part.raw)
        case UrlPart():
            return len(part.url)
        case DataPart():
            return len(msgspec.json.encode(part.data))
