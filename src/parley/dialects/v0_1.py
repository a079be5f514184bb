"""A2A 0.1 in JSON: the `tasks/send` protocol, before messages had ids and artifacts had names.

What differs from every later release: callers choose task ids and may reopen finished tasks; artifacts are slots by
`index`; chunk marks sit inside the artifact; there are no snapshots in streams, no direct replies, no rejected and no
auth-required state. `carried` keeps what a round trip needs. Oddities of the document's own samples are read, never
written. Spec: the 0.1 documents with their JSON schema.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, field, structs

from parley.dialects import carried, v0_3
from parley.dialects.carried import pack, pack_part, unpack_text, unpack_texts, wrap_data
from parley.dialects.dialect import Codec, JsonDialect
from parley.dialects.fields import Count, NonEmpty, Reader, WireStruct
from parley.dialects.timestamps import in_utc
from parley.dialects.v0_1_card import CARDS
from parley.dialects.v0_3 import V03TaskQuery, decode_part, encode_file, plain
from parley.protocol import messages as m
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.errors import LocalProtocolError
from parley.protocol.events import ArtifactUpdate, StatusUpdate, StreamEvent
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.lifecycle import ends_stream
from parley.protocol.push import PushAuthentication, PushConfig
from parley.protocol.tasks import Artifact, Task, TaskState, TaskStatus
from parley.protocol.versions import Version

# --- structs on the wire ----------------------------------------------------------------------------------------------

StateName = Literal["submitted", "working", "input-required", "completed", "canceled", "failed", "unknown"]


# The parts of 0.3, which has them from here, with the tag `type` instead of `kind`.
class V01TextPart(v0_3.V03TextPart, tag_field="type", tag="text"):
    pass


class V01FilePart(v0_3.V03FilePart, tag_field="type", tag="file"):
    pass


class V01DataPart(v0_3.V03DataPart, tag_field="type", tag="data"):
    pass


V01Part: TypeAlias = V01TextPart | V01FilePart | V01DataPart


class V01Message(WireStruct):
    role: Literal["user", "agent"] | None = None  # left out in some status messages of the samples
    parts: list[V01Part] | None = None
    metadata: dict[str, Any] | None = None
    data: list[V01Part] | None = None  # the samples use `data` for `parts`

    def __post_init__(self) -> None:
        self.parts, self.data = self.parts or self.data, None
        if not self.parts:
            raise ValueError("A message needs at least one part")


class V01Status(WireStruct):
    state: StateName
    message: V01Message | None = None
    timestamp: datetime | None = None

    def __post_init__(self) -> None:
        self.timestamp = in_utc(self.timestamp)


class V01Artifact(WireStruct):
    parts: Annotated[list[V01Part], Meta(min_length=1)]
    name: str | None = None
    description: str | None = None
    index: Count = field(default_factory=lambda: 0)
    append: bool | None = None
    last_chunk: bool | None = None
    metadata: dict[str, Any] | None = None


class V01Task(WireStruct):
    id: NonEmpty
    status: V01Status
    session_id: str | None = None
    artifacts: list[V01Artifact] | None = None
    history: list[V01Message] | None = None
    metadata: dict[str, Any] | None = None


class V01Event(WireStruct):
    id: NonEmpty
    status: V01Status | None = None
    artifact: V01Artifact | None = None
    final: bool | None = None
    metadata: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if (self.status is None) == (self.artifact is None):
            raise ValueError("Expected exactly one of status and artifact")


class V01PushConfig(WireStruct):
    url: NonEmpty
    token: str | None = None
    authentication: dict[str, Any] | None = None  # its schema allows further members

    def __post_init__(self) -> None:
        if self.authentication is not None:
            self.authentication["schemes"] = _schemes(self.authentication.get("schemes"))
            if not isinstance(self.authentication.get("credentials"), str | None):
                raise ValueError("authentication.credentials must be a string")


class V01TaskPushConfig(WireStruct):
    id: NonEmpty
    push_notification_config: V01PushConfig


class V01Send(WireStruct):
    id: NonEmpty
    message: V01Message
    session_id: str | None = None
    accepted_output_modes: list[str] | None = None
    push_notification: V01PushConfig | None = None
    history_length: Count | None = None
    metadata: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.message.role is None:
            raise ValueError("The message has no role")


def _schemes(given: object) -> list[str]:
    """Authentication scheme names; one alone may come without its list."""
    if isinstance(given, str):
        return [given]
    if isinstance(given, list) and all(isinstance(name, str) for name in given):  # pyright: ignore[reportUnknownVariableType]
        return given  # pyright: ignore[reportUnknownVariableType]
    raise ValueError("authentication.schemes must be a list of names")


# --- messages ---------------------------------------------------------------------------------------------------------


def encode_part(part: m.Part) -> V01Part:
    """A part in 0.1; what text and data parts have no member for is carried in their metadata."""
    if isinstance(part, m.TextPart):
        return V01TextPart(part.text, pack_part(part) or None)
    if isinstance(part, m.DataPart):
        data, metadata = wrap_data(part)
        return V01DataPart(data, metadata or None)
    return V01FilePart(encode_file(part), part.metadata or None)


def decode_message(message: V01Message, task_id: str, context_id: str | None, *, default_id: str = "") -> m.Message:
    """A message of a task; its id is the carried one, else the default."""
    message_id, metadata = unpack_text(message.metadata or {}, carried.MESSAGE_ID)
    extensions, metadata = unpack_texts(metadata, carried.EXTENSIONS)
    references, metadata = unpack_texts(metadata, carried.REFERENCE_TASK_IDS)
    return m.Message(
        message_id or default_id,
        m.Role(message.role or m.Role.AGENT),
        tuple([decode_part(part) for part in message.parts or ()]),
        context_id,
        task_id,
        metadata,
        extensions,
        references,
    )


def encode_message(message: m.Message) -> V01Message:
    """A message in 0.1, which has neither its id nor its task: both are in the task."""
    metadata = {**message.metadata, carried.MESSAGE_ID: message.message_id}
    if message.extensions:
        metadata[carried.EXTENSIONS] = list(message.extensions)
    if message.reference_task_ids:
        metadata[carried.REFERENCE_TASK_IDS] = list(message.reference_task_ids)
    return V01Message(message.role.value, [encode_part(part) for part in message.parts], metadata or None)


# --- tasks ------------------------------------------------------------------------------------------------------------

SUBSTITUTES: dict[TaskState, Any] = {TaskState.REJECTED: "failed", TaskState.AUTH_REQUIRED: "input-required"}
"""The nearest state that 0.1 has; the true one is carried in the metadata of the task or event."""


def decode_status(
    status: V01Status, metadata: JsonObject, task_id: str, context_id: str | None
) -> tuple[TaskStatus, JsonObject]:
    """A task's status, and the metadata without the state that it carried."""
    state = TaskState(status.state)
    carried_state, rest = unpack_text(metadata, carried.STATE)
    meant = [true for true, written in SUBSTITUTES.items() if true == carried_state and written == status.state]
    if meant:
        state, metadata = meant[0], rest
    message = None
    if status.message:
        message = decode_message(status.message, task_id, context_id, default_id=f"{task_id}-status")
    return TaskStatus(state, message, status.timestamp), metadata


def encode_status(status: TaskStatus, metadata: JsonObject) -> tuple[V01Status, JsonObject]:
    """A task's status in 0.1, and the metadata with a state that it does not have."""
    substitute = SUBSTITUTES.get(status.state)
    message = encode_message(status.message) if status.message else None
    name: Any = substitute or status.state.value
    wire = V01Status(name, message, status.timestamp)
    return wire, pack(metadata, {carried.STATE: status.state.value}) if substitute else metadata


def decode_artifact(artifact: V01Artifact) -> Artifact:
    """An artifact; without a carried id it is known by its slot."""
    artifact_id, metadata = unpack_text(artifact.metadata or {}, carried.ARTIFACT_ID)
    extensions, metadata = unpack_texts(metadata, carried.EXTENSIONS)
    return Artifact(
        artifact_id or f"artifact-{artifact.index}",
        tuple([decode_part(part) for part in artifact.parts]),
        artifact.name or None,
        artifact.description or None,
        metadata,
        extensions,
        artifact.index,
    )


def encode_artifact(artifact: Artifact, *, position: int) -> V01Artifact:
    """An artifact in 0.1, in its own slot or that of its position in the task."""
    index = position if artifact.index is None else artifact.index
    artifact_id = artifact.artifact_id if artifact.artifact_id != f"artifact-{index}" else None
    metadata = pack(
        artifact.metadata, {carried.ARTIFACT_ID: artifact_id, carried.EXTENSIONS: list(artifact.extensions)}
    )
    parts = [encode_part(part) for part in artifact.parts]
    return V01Artifact(parts, artifact.name, artifact.description, index, metadata=metadata or None)


def decode_task(task: V01Task) -> Task:
    """A task; the messages of its history, which have no ids in 0.1, are numbered."""
    context_id = task.session_id or None
    status, metadata = decode_status(task.status, task.metadata or {}, task.id, context_id)
    return Task(
        task.id,
        context_id,
        status,
        tuple([decode_artifact(artifact) for artifact in task.artifacts or ()]),
        tuple(
            [
                decode_message(message, task.id, context_id, default_id=f"{task.id}-{number}")
                for number, message in enumerate(task.history or (), start=1)
            ]
        ),
        metadata,
    )


def encode_task(task: Task | m.Message) -> V01Task:
    """A task in 0.1. A direct reply, which 0.1 does not have, becomes a completed task with that message."""
    if isinstance(task, m.Message):
        status = TaskStatus(TaskState.COMPLETED, task)
        task = Task(task.task_id or task.message_id, task.context_id, status)
    status, metadata = encode_status(task.status, task.metadata)
    return V01Task(
        task.id,
        status,
        task.context_id,
        [encode_artifact(artifact, position=i) for i, artifact in enumerate(task.artifacts)] or None,
        [encode_message(message) for message in task.history] or None,
        metadata or None,
    )


# --- streams ----------------------------------------------------------------------------------------------------------


def decode_event(event: V01Event) -> StreamEvent:
    """A stream event, by its member; 0.1 does not repeat the session in it."""
    if event.status:
        status, metadata = decode_status(event.status, event.metadata or {}, event.id, None)
        return StatusUpdate(event.id, None, status, metadata, bool(event.final) and not ends_stream(status.state))
    assert event.artifact is not None  # V01Event lets nothing else through
    artifact = decode_artifact(event.artifact)
    append, last_chunk = bool(event.artifact.append), bool(event.artifact.last_chunk)
    return ArtifactUpdate(event.id, None, artifact, append, last_chunk, event.metadata or {})


def encode_frames(event: StreamEvent, ends: bool | None = None) -> tuple[V01Event, ...]:
    """A stream event in 0.1. A snapshot becomes several: its artifacts, then its status, which may end the stream.

    Only the last of several frames may carry the SSE id of the event: a reader that was cut off before it would
    otherwise resume after what it has not seen.
    """
    match event:
        case ArtifactUpdate():
            return (_artifact_frame(event),)
        case StatusUpdate():
            return (_status_frame(event, ends),)
        case Task():
            artifacts = [
                ArtifactUpdate(event.id, None, _in_slot(artifact, i), last_chunk=True)
                for i, artifact in enumerate(event.artifacts)
            ]
            status = StatusUpdate(event.id, None, event.status, event.metadata)
            return (*map(_artifact_frame, artifacts), _status_frame(status, ends))
        case m.Message():
            task = encode_task(event)
            return (V01Event(task.id, status=task.status, final=ends is not False),)


def _in_slot(artifact: Artifact, position: int) -> Artifact:
    return artifact if artifact.index is not None else structs.replace(artifact, index=position)


def _status_frame(update: StatusUpdate, ends: bool | None) -> V01Event:
    status, metadata = encode_status(update.status, update.metadata)
    final = update.final or ends_stream(update.status.state) if ends is None else ends
    return V01Event(update.task_id, status=status, final=final, metadata=metadata or None)


def _artifact_frame(update: ArtifactUpdate) -> V01Event:
    slot = update.artifact.index
    if slot is None:
        raise LocalProtocolError("An artifact update in A2A 0.1 needs the artifact's slot (its index)")
    artifact = encode_artifact(update.artifact, position=slot)
    artifact.append, artifact.last_chunk = update.append, update.last_chunk
    return V01Event(update.task_id, artifact=artifact, metadata=update.metadata or None)


# --- push configs -----------------------------------------------------------------------------------------------------


def decode_push_config(config: V01PushConfig, task_id: str | None = None) -> PushConfig:
    """A task's one webhook."""
    authentication = None
    if config.authentication is not None:
        given = dict(config.authentication)
        schemes, credentials = given.pop("schemes"), given.pop("credentials", None)
        authentication = PushAuthentication(tuple(schemes), credentials or None, given)
    return PushConfig(config.url, task_id, token=config.token or None, authentication=authentication)


def encode_push_config(config: PushConfig) -> V01PushConfig:
    """A webhook in 0.1, where it has no id."""
    authentication = None
    if given := config.authentication:
        authentication = {**given.extra, "schemes": list(given.schemes)}
        if given.credentials:
            authentication["credentials"] = given.credentials
    return V01PushConfig(config.url, config.token, authentication)


def decode_task_push_config(config: V01TaskPushConfig) -> PushConfig:
    """A webhook with the task it belongs to."""
    return decode_push_config(config.push_notification_config, config.id)


def encode_task_push_config(config: PushConfig) -> V01TaskPushConfig:
    """A webhook with the task it belongs to, in 0.1."""
    return V01TaskPushConfig(config.task_id or "", encode_push_config(config))


# --- requests ---------------------------------------------------------------------------------------------------------


def decode_send(request: V01Send) -> r.SendMessageRequest:
    """A send. History comes only when asked for; the task id is the caller's choice."""
    context_id = request.session_id or None
    configuration = r.SendConfiguration(
        tuple(request.accepted_output_modes or ()),
        decode_push_config(request.push_notification) if request.push_notification else None,
        request.history_length or 0,
    )
    message = decode_message(request.message, request.id, context_id)
    return r.SendMessageRequest(message, configuration, request.metadata or {}, caller_names_task=True)


def encode_send(request: r.SendMessageRequest) -> V01Send:
    """A send in 0.1; a task without an id yet is named after the message that begins it."""
    message, configuration = request.message, request.configuration
    return V01Send(
        message.task_id or message.message_id,
        encode_message(message),
        message.context_id,
        list(configuration.accepted_output_modes) or None,
        encode_push_config(configuration.push_config) if configuration.push_config else None,
        configuration.history_length,
        request.metadata or None,
    )


# --- the table --------------------------------------------------------------------------------------------------------

SEND = Codec(Reader(V01Send), decode_send, encode_send)
TASK: Codec[Any, Any] = Codec(Reader(V01Task), decode_task, encode_task)
TASK_PUSH_CONFIG = Codec(Reader(V01TaskPushConfig), decode_task_push_config, encode_task_push_config)

DIALECT = JsonDialect(
    version=Version.V0_1,
    requests={
        ops.SEND_MESSAGE.name: SEND,
        ops.SEND_STREAMING_MESSAGE.name: SEND,
        ops.GET_TASK.name: Codec(
            Reader(V03TaskQuery),
            lambda w: r.GetTaskRequest(w.task_id, w.history_length or 0, w.metadata or {}),
            lambda q: V03TaskQuery(q.task_id, q.history_length, q.metadata or None),
        ),
        ops.CANCEL_TASK.name: plain(V03TaskQuery, r.CancelTaskRequest),
        ops.SUBSCRIBE_TO_TASK.name: plain(V03TaskQuery, r.SubscribeToTaskRequest),
        ops.CREATE_PUSH_CONFIG.name: Codec(
            Reader(V01TaskPushConfig),
            lambda w: r.CreatePushConfigRequest(w.id, decode_task_push_config(w)),
            lambda q: V01TaskPushConfig(q.task_id, encode_push_config(q.config)),
        ),
        ops.GET_PUSH_CONFIG.name: plain(V03TaskQuery, r.GetPushConfigRequest),
    },
    results={
        ops.SEND_MESSAGE.name: TASK,
        ops.GET_TASK.name: TASK,
        ops.CANCEL_TASK.name: TASK,
        ops.CREATE_PUSH_CONFIG.name: TASK_PUSH_CONFIG,
        ops.GET_PUSH_CONFIG.name: TASK_PUSH_CONFIG,
    },
    events=Codec(Reader(V01Event), decode_event, encode_frames),
    frames=encode_frames,
    pushes=TASK,
    cards=CARDS,
)
