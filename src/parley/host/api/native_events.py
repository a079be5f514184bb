"""The events of the native API, made of a task's log: what `/v1/orchestrate` and `/v1/requests/:id/events` stream.

An event of the log becomes one native event or none, so its number is the cursor. Only the end of a task becomes
several: the end of its stream, an error if there is one, and `done`; they travel together under one number. Nothing
here reads the store: what an event does not say is in `RequestFacts`.
"""

from __future__ import annotations

import base64
from datetime import datetime, timedelta
from typing import TypeAlias

from msgspec import Struct

from parley.agents.elsewhere import asked_elsewhere
from parley.host.orchestration.narration import PREFIX, RESPONSE
from parley.protocol.events import ArtifactRewound, ArtifactUpdate, MessageAdded, NoteAdded, StatusUpdate, TaskEvent
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.lifecycle import is_interrupted, is_terminal
from parley.protocol.messages import DataPart, Part, RawPart, TextPart, text_of
from parley.protocol.tasks import TaskState, TaskStatus

NativeEvent: TypeAlias = tuple[str, JsonObject]
"""The name of an event, and its payload."""

PREVIEW_BYTES = 200
"""How much of the message the first event repeats."""

CANCELLED = "cancelled"
INTERNAL_ERROR = "internal_error"


class RequestFacts(Struct, frozen=True):
    """What is known of a request besides its log."""

    request_id: str
    agent_id: str
    tenant_id: str
    tenant_name: str
    created_at: datetime
    opening_id: str
    """The id of the message that began it."""
    conversation: int = 0
    channel: str = ""


class NativeEvents:
    """Makes native events of one task's log, which is read in order, from any event on."""

    def __init__(self, facts: RequestFacts) -> None:
        self._facts = facts
        self._responses = (RESPONSE, f"{facts.request_id}-text-0")
        self._narrated = tuple([f"{facts.request_id}-{series}-" for series in ("tool", "file", "sub")])
        self._rewound: set[str] = set()

    def read(self, event: TaskEvent, *, text: str | None = None) -> list[NativeEvent]:
        """The native events of one event. `text` is what the agent has said, for an end that does not repeat it."""
        match event:
            case MessageAdded():
                return self._received(event)
            case NoteAdded():
                return [(event.name, event.value)]
            case ArtifactRewound():
                self._rewound.add(event.artifact_id)
                return []
            case ArtifactUpdate():
                return self._produced(event)
            case StatusUpdate():
                return self._changed(event, text)
            case _:
                return []

    def _received(self, event: MessageAdded) -> list[NativeEvent]:
        facts = self._facts
        if event.message.message_id != facts.opening_id:
            about: JsonObject = {"message_id": event.message.message_id, "message": _preview(event.message.text)}
            return [("message_received", about)]
        payload: JsonObject = {
            "request_id": facts.request_id,
            "agent": facts.agent_id,
            "tenant": facts.tenant_name,
            "tenant_id": int(facts.tenant_id),
            "message": _preview(event.message.text),
        }
        return [("request_received", payload | ({"channel": facts.channel} if facts.channel else {}))]

    # --- artifacts ----------------------------------------------------------------------------------------------------

    def _produced(self, event: ArtifactUpdate) -> list[NativeEvent]:
        artifact = event.artifact
        markers = event.metadata or artifact.metadata
        part = artifact.parts[0] if len(artifact.parts) == 1 else None
        about: JsonObject = {"agent": self._facts.agent_id, "stream_id": 0, "depth": 0}
        match part:
            case DataPart(data=dict(data)) if f"{PREFIX}tool_call" in markers:
                return [("tool_call", {**data, **about})]
            case DataPart(data=dict(data)) if f"{PREFIX}sub_agent_response" in markers:
                more = {
                    name: markers[f"{PREFIX}{name}"] for name in ("stream_id", "task_id") if PREFIX + name in markers
                }
                return [("sub_agent_response", {**data, **more})]
            case RawPart():
                return [("file", {**_file(part, artifact.name or artifact.artifact_id), **about})]
            case _:
                return self._text(event, about)

    def _text(self, event: ArtifactUpdate, about: JsonObject) -> list[NativeEvent]:
        """Text as it comes. What a run that began again says instead replaces what it said before.

        Text of another artifact than the response has its name: a reader keeps one text for each.
        """
        artifact = event.artifact
        if artifact.artifact_id.startswith(self._narrated):  # one that was withdrawn; it never was text
            return []
        if artifact.artifact_id not in self._responses:
            about = {**about, "artifact": artifact.artifact_id}
        is_replaced = artifact.artifact_id in self._rewound
        self._rewound.discard(artifact.artifact_id)
        delta = "".join(map(_as_text, artifact.parts))
        if not delta and not is_replaced:
            return []
        return [("text", {**about, "delta": delta, **({"replace": True} if is_replaced else {})})]

    # --- the end ------------------------------------------------------------------------------------------------------

    def _changed(self, event: StatusUpdate, text: str | None) -> list[NativeEvent]:
        status = event.status
        said = text_of(status.message.parts) if status.message is not None else ""
        if is_terminal(status.state):
            return self._ended(status, event.metadata, said, text)
        about: JsonObject = {"agent": self._facts.agent_id, "stream_id": 0}
        if is_interrupted(status.state):
            approval_id, request_id = asked_elsewhere(status) or ("", "")
            waits: JsonObject = {"approval_id": approval_id, "request_id": request_id} if approval_id else {}
            return [("input_required", {**about, "state": status.state.value, "question": said, **waits})]
        return [("status", {**about, "message": said})] if said else []

    def _ended(self, status: TaskStatus, metadata: JsonObject, said: str, text: str | None) -> list[NativeEvent]:
        facts, is_ok = self._facts, status.state is TaskState.COMPLETED
        end: NativeEvent = ("stream_end", {"agent": facts.agent_id, "stream_id": 0, "ok": is_ok})
        done: JsonObject = {
            "ok": is_ok,
            "content": (said or text or "") if is_ok else (text or ""),
            "input_tokens": metadata.get(f"{PREFIX}input_tokens", 0),
            "output_tokens": metadata.get(f"{PREFIX}output_tokens", 0),
            "files_bytes": metadata.get(f"{PREFIX}files_bytes", 0),
            "tenant_id": int(facts.tenant_id),
            "request_id": facts.request_id,
            "duration_ms": _milliseconds_between(facts.created_at, status.timestamp),
            **({"conversation_id": facts.conversation} if facts.conversation else {}),
        }
        if is_ok:
            if f"{PREFIX}gate_approved" in metadata:
                done["gate_approved"] = metadata[f"{PREFIX}gate_approved"]
            return [end, ("done", done)]
        is_canceled = status.state is TaskState.CANCELED
        code: JsonValue = metadata.get(f"{PREFIX}error_type", CANCELLED if is_canceled else INTERNAL_ERROR)
        otherwise = "The request was canceled." if is_canceled else "The agent failed."
        error = said or metadata.get(f"{PREFIX}error", otherwise)
        return [
            end,
            ("error", {"message": error, "error_code": code}),
            ("done", {**done, "error": error, "error_code": code}),
        ]


def _preview(text: str) -> str:
    data = text.encode()
    return text if len(data) <= PREVIEW_BYTES else data[:PREVIEW_BYTES].decode(errors="ignore") + "…"


def _file(part: RawPart, path: str) -> JsonObject:
    try:
        content, encoding = part.raw.decode(), "utf-8"
    except UnicodeDecodeError:
        content, encoding = base64.b64encode(part.raw).decode(), "base64"
    return {"path": path, "size": len(part.raw), "encoding": encoding, "content": content}


def _as_text(part: Part) -> str:
    return part.text if isinstance(part, TextPart) else ""


def _milliseconds_between(begin: datetime, end: datetime | None) -> int:
    return max(0, (end - begin) // timedelta(milliseconds=1)) if end is not None else 0
