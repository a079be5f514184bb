"""The cursor extension: each event of a stream has its number in its metadata.

Over HTTP the number is the id of the frame. gRPC has no such field, so a caller that activates this extension gets it
in the event's metadata, and sends the last one back as `last-event-id` when it subscribes again.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from parley.engine.reading.following import Batch
from parley.protocol import extensions
from parley.protocol.cards import AgentExtension
from parley.protocol.errors import InvalidParamsError
from parley.protocol.events import StreamEvent
from parley.protocol.messages import Message

CURSOR = AgentExtension(
    extensions.CURSOR,
    description="Every event of a stream has its number in its metadata; last-event-id resumes after it.",
)


def read_last_event_id(headers: Mapping[str, str]) -> int | None:
    """The number in `Last-Event-ID`, or None if there is no such header.

    Raises:
        InvalidParamsError: the value is not the number of an event.
    """
    text = headers.get("last-event-id", "").strip()
    if not text:
        return None
    if text.isascii() and text.isdigit() and len(text) <= 15:
        return int(text)
    raise InvalidParamsError("Last-Event-ID must be the id of an event of this task")


def add_cursors(batch: Batch) -> None:
    """Add each event's number to its metadata, except for a direct reply, which has none."""
    batch[:] = [(seq, _with_number(seq, event)) for seq, event in batch]


def _with_number(seq: int, event: StreamEvent) -> StreamEvent:
    if isinstance(event, Message):
        return event
    return structs.replace(event, metadata={**event.metadata, CURSOR.uri: seq})
