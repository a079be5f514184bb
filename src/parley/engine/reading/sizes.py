"""How large content is, roughly and cheaply, for the limits."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from parley.protocol.events import (
    ArtifactUpdate,
    MessageAdded,
    StatusUpdate,
    StreamEvent,
    TaskEvent,
)
from parley.protocol.messages import DataPart, Message, Part, RawPart, TextPart, UrlPart
from parley.protocol.tasks import Task


def size_of(parts: Iterable[Part]) -> int:
    """About how many bytes some parts take."""
    size = 0
    for part in parts:
        size += len(part.text) if type(part) is TextPart else _size(part)
    return size


def size_of_task(task: Task) -> int:
    """About how many bytes a task takes with its artifacts and messages."""
    messages = sum(size_of(message.parts) for message in task.history)
    return messages + sum(size_of(artifact.parts) for artifact in task.artifacts)


def size_of_event(event: StreamEvent | TaskEvent) -> int:
    """About how many bytes the content of an event takes."""
    match event:
        case ArtifactUpdate():  # first: nearly all events of a stream are these, and then come those of every task
            return size_of(event.artifact.parts)
        case StatusUpdate():
            return size_of(event.status.message.parts) if event.status.message else 0
        case MessageAdded():
            return size_of(event.message.parts)
        case Task():
            return size_of_task(event)
        case Message():
            return size_of(event.parts)
        case _:
            return 0


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
