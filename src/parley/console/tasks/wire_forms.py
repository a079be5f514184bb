"""How each dialect and binding writes an event of a task."""

from __future__ import annotations

from msgspec import Struct

from parley.protocol.cards import Binding
from parley.protocol.events import ArtifactUpdate, StatusUpdate, StreamEvent, TaskCreated, TaskEvent
from parley.protocol.jsonvalue import JsonValue
from parley.protocol.operations import SEND_STREAMING_MESSAGE
from parley.protocol.tasks import Task
from parley.protocol.versions import Version
from parley.proxy.trace_json import show_event

BINDING_NAMES = {Binding.JSONRPC: "JSON-RPC", Binding.HTTP_JSON: "REST", Binding.GRPC: "gRPC"}

NOT_STREAMED = "No dialect streams this event"

GRPC_EXTRA = "gRPC needs the extra grpc: pip install 'parley-a2a[grpc]'"


class EventForm(Struct, frozen=True):
    """An event as one dialect and binding writes it, or the reason why there is no such form."""

    version: str
    binding: str
    title: str
    body: JsonValue = None
    text: str | None = None
    reason: str = ""


def forms_of(event: TaskEvent) -> list[EventForm]:
    """An event in every dialect and binding, the newest first."""
    streamed = _as_streamed(event)
    return [_form(streamed, version, binding) for version, binding in every_binding()]


def every_binding() -> list[tuple[Version, Binding]]:
    """Every version with every binding that it has, the newest first."""
    found: list[tuple[Version, Binding]] = []
    for version in reversed(Version):
        found.append((version, Binding.JSONRPC))
        if version in SEND_STREAMING_MESSAGE.routes:
            found.append((version, Binding.HTTP_JSON))
        if version in SEND_STREAMING_MESSAGE.rpcs:
            found.append((version, Binding.GRPC))
    return found


def _as_streamed(event: TaskEvent) -> StreamEvent | None:
    """An event as a stream shows it: the one that creates a task is the task with which the stream begins."""
    match event:
        case StatusUpdate() | ArtifactUpdate():
            return event
        case TaskCreated():
            return Task(event.task_id, event.context_id, event.status, metadata=event.metadata)
        case _:
            return None


def _form(event: StreamEvent | None, version: Version, binding: Binding) -> EventForm:
    suffix = ", as JSON" if binding is Binding.GRPC else ", SSE"
    title = f"{version.value} {BINDING_NAMES[binding]}{suffix}"
    names = (version.value, binding.value, title)
    if event is None:
        return EventForm(*names, reason=NOT_STREAMED)
    try:
        shown = show_event(event, version, binding)
    except ImportError:
        return EventForm(*names, reason=GRPC_EXTRA)
    if isinstance(shown, str):
        return EventForm(*names, reason=shown[:1].upper() + shown[1:])
    if binding is not Binding.JSONRPC:
        return EventForm(*names, body=shown)
    frames = shown if isinstance(shown, list) else [shown]
    bodies: list[JsonValue] = [{"jsonrpc": "2.0", "id": 1, "result": frame} for frame in frames]
    return EventForm(*names, body=bodies[0] if len(bodies) == 1 else bodies)
