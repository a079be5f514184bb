"""What an event of a log is about, in a few words."""

from __future__ import annotations

import msgspec

from parley.console.tasks.summaries import one_line, shown_text
from parley.protocol.events import (
    ArtifactRewound,
    ArtifactUpdate,
    MessageAdded,
    NoteAdded,
    QuestionAsked,
    SleepStarted,
    StatusUpdate,
    StepProgressed,
    StepRecorded,
    TaskClaimed,
    TaskCreated,
    TaskEvent,
)
from parley.protocol.jsonvalue import JsonValue
from parley.protocol.messages import DataPart, Part, RawPart, TextPart, UrlPart

MAX_SUMMARY = 120

MAX_VALUE = 2_000
"""Items of a list or an object that is written as text for a summary."""


def kind_of(event: TaskEvent) -> str:
    """The kind of an event, as the log names it."""
    return str(event.__struct_config__.tag)


def summary_of_event(event: TaskEvent) -> str:
    """What an event says, in a line."""
    match event:
        case ArtifactUpdate():
            name = event.artifact.name or ""
            said = _parts(event.artifact.parts)
            return said if event.append or not name else one_line(f"{name}: {said}" if said else name, MAX_SUMMARY)
        case StatusUpdate() | TaskCreated():
            said = shown_text(event.status.message, MAX_SUMMARY) if event.status.message is not None else ""
            return one_line(f"{event.status.state.value}: {said}" if said else event.status.state.value, MAX_SUMMARY)
        case MessageAdded():
            return one_line(f"{event.message.role.value}: {shown_text(event.message, MAX_SUMMARY)}", MAX_SUMMARY)
        case StepRecorded() | StepProgressed():
            number = f" {event.number}" if event.number else ""
            return one_line(f"{event.name}{number}: {_value(event.value)}", MAX_SUMMARY)
        case NoteAdded():
            return one_line(f"{event.name}: {_value(event.value)}" if event.value else event.name, MAX_SUMMARY)
        case ArtifactRewound():
            return one_line(f"{event.artifact_id}: {event.kept} emissions are kept", MAX_SUMMARY)
        case QuestionAsked():
            return one_line(event.name, MAX_SUMMARY)
        case SleepStarted():
            return f"until {event.wake_at.isoformat()}"
        case TaskClaimed():
            return one_line(f"by {event.worker}", MAX_SUMMARY)


def _parts(parts: tuple[Part, ...]) -> str:
    shown: list[str] = []
    for part in parts[:4]:
        match part:
            case TextPart(text=text):
                # Not on one line: the space at the end of a chunk is part of it.
                shown.append(text[:MAX_SUMMARY].replace("\n", " "))
            case RawPart(raw=raw):
                shown.append(f"{part.filename or part.media_type or 'a file'} ({len(raw):,} bytes)")
            case UrlPart(url=url):
                shown.append(part.filename or url[:MAX_SUMMARY])
            case DataPart(data=data):
                shown.append(_value(data))
    text = " ".join(shown) if len(shown) > 1 else "".join(shown)
    return text if len(text) <= MAX_SUMMARY else f"{text[: MAX_SUMMARY - 1]}…"


def _value(value: JsonValue) -> str:
    match value:
        case str():
            return value[:MAX_SUMMARY]
        case dict() if len(value) > MAX_VALUE:
            return f"an object with {len(value):,} members"
        case list() if len(value) > MAX_VALUE:
            return f"a list of {len(value):,}"
        case dict():
            return "{" + ", ".join([f"{name}: {_short(item)}" for name, item in list(value.items())[:6]]) + "}"
        case list():
            return "[" + ", ".join([_short(item) for item in value[:6]]) + "]"
        case _:
            return msgspec.json.encode(value).decode()


def _short(value: JsonValue) -> str:
    match value:
        case str():
            return value[:40]
        case dict() | list():
            return "{…}" if isinstance(value, dict) else "[…]"
        case _:
            return msgspec.json.encode(value).decode()
