"""The cursor extension: each event of a stream says its number, where a binding has no place for it.

Over HTTP the number is the frame's id. gRPC has no such thing, so a caller that activates this extension finds it in
the event's metadata, and sends the last one it got as `last-event-id` when it subscribes again.
"""

from __future__ import annotations

from msgspec import structs

from parley.engine.views import Batch
from parley.protocol import extensions
from parley.protocol.cards import AgentExtension
from parley.protocol.events import StreamEvent
from parley.protocol.messages import Message

CURSOR = AgentExtension(
    extensions.CURSOR,
    description="Every event of a stream has its number in its metadata; last-event-id resumes after it.",
)


def add_cursors(batch: Batch) -> None:
    """Put each event's number into its metadata. A direct reply belongs to no task and has none."""
    batch[:] = [(seq, _marked(seq, event)) for seq, event in batch]


def _marked(seq: int, event: StreamEvent) -> StreamEvent:
    if isinstance(event, Message):
        return event
    return structs.replace(event, metadata={**event.metadata, CURSOR.uri: seq})
