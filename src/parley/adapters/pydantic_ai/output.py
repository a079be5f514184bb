"""What a model of pydantic-ai says while it works, and what is left to say of the output of a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pydantic_ai as ai

from parley.adapters import adapter as a
from parley.contents import parts_of
from parley.protocol.messages import RawPart


def said_in(event: object, *, with_text: bool) -> a.Piece | None:
    """What an event of a model's stream says: the first text of a part is in its start, the rest in its deltas."""
    match event:
        case ai.PartStartEvent(part=ai.TextPart(content=text)) if with_text:
            return text
        case ai.PartDeltaEvent(delta=ai.TextPartDelta(content_delta=text)) if with_text:
            return text
        case ai.PartStartEvent(part=ai.FilePart(content=content)):
            return a.Output((RawPart(content.data, content.media_type),))
        case _:
            return None


def not_said(output: Any, said: list[a.Piece]) -> Iterator[a.Piece]:
    """The output of a run, unless its last response has said it already."""
    if isinstance(output, str):
        if output != "".join(piece for piece in said if isinstance(piece, str)):
            yield output
        return
    is_file = isinstance(output, ai.BinaryContent)
    parts = (RawPart(output.data, output.media_type),) if is_file else parts_of(output)
    if parts and a.Output(parts) not in said:
        yield a.Output(parts)
