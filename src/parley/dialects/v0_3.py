"""A2A 0.3 in JSON, as its JSON-RPC binding and the text of its REST binding have it; 0.2 uses the same objects.

Objects are tagged by `kind`. Messages, tasks and updates come bare over JSON-RPC and wrapped by name over REST
(`REST_DIALECT`). Oddities of the samples in the specification are read, never written. The other live shape of 0.3 REST
is `v0_3_protojson`. Spec: 0.3.0 sections 6 and 7, types.ts.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, field

from parley.dialects.carried import pack_part, unpack_part, unwrap_data, wrap_data
from parley.dialects.dialect import Codec, JsonDialect, nothing
from parley.dialects.fields import Count, NonEmpty, OneOf, Reader, WireStruct, always_list, always_text
from parley.dialects.objects import Objects
from parley.dialects.same_names import same_names
from parley.dialects.timestamps import in_utc
from parley.dialects.v0_3_card import CARDS
from parley.protocol import messages as m
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.events import StreamEvent
from parley.protocol.push import PushAuthentication, PushConfig
from parley.protocol.tasks import Task, TaskState
from parley.protocol.versions import Version

# --- structs on the wire ----------------------------------------------------------------------------------------------

StateName = Literal[
    "submitted",
    "working",
    "input-required",
    "completed",
    "canceled",
    "failed",
    "rejected",
    "auth-required",
    "unknown",
    "input_required",  # as one sentence of the 0.2.1 documents has it
]
RoleName = Literal["user", "agent"]


class Tagged(WireStruct, tag_field="kind"):
    """An object with a `kind`."""


class V03File(WireStruct):
    content: bytes | None = field(default=None, name="bytes")
    uri: str | None = None
    mime_type: str | None = None
    name: str | None = None
    data: bytes | None = None  # some samples of the specification use `data` for `bytes`

    def __post_init__(self) -> None:
        contents = (self.content is not None) + (self.uri is not None) + (self.data is not None)
        if contents != 1:
            raise ValueError(f"Invalid file: expected either bytes or a uri, found {contents}")


class V03TextPart(Tagged, tag="text"):
    text: str
    metadata: dict[str, Any] | None = None


class V03FilePart(Tagged, tag="file"):
    file: V03File
    metadata: dict[str, Any] | None = None


class V03DataPart(Tagged, tag="data"):
    data: dict[str, Any]
    metadata: dict[str, Any] | None = None


V03Part: TypeAlias = V03TextPart | V03FilePart | V03DataPart


class V03Message(Tagged, tag="message"):
    role: RoleName
    parts: Annotated[list[V03Part], Meta(min_length=1)]
    message_id: str = field(default_factory=always_text)
    context_id: str | None = None
    task_id: str | None = None
    metadata: dict[str, Any] | None = None
    extensions: list[str] | None = None
    reference_task_ids: list[str] | None = None


class V03Status(WireStruct):
    state: StateName
    message: V03Message | None = None
    timestamp: datetime | None = None

    def __post_init__(self) -> None:
        self.timestamp = in_utc(self.timestamp)


class V03Artifact(WireStruct):
    artifact_id: NonEmpty
    parts: Annotated[list[V03Part], Meta(min_length=1)]
    name: str | None = None
    description: str | None = None
    metadata: dict[str, Any] | None = None
    extensions: list[str] | None = None


class V03Task(Tagged, tag="task"):
    id: NonEmpty
    status: V03Status
    context_id: str = field(default_factory=always_text)
    artifacts: list[V03Artifact] | None = None
    history: list[V03Message] | None = None
    metadata: dict[str, Any] | None = None


class V03StatusUpdate(Tagged, tag="status-update"):
    task_id: NonEmpty
    status: V03Status
    context_id: str = field(default_factory=always_text)
    metadata: dict[str, Any] | None = None
    final: bool = field(default_factory=lambda: False)  # required by the schema, so always written


class V03ArtifactUpdate(Tagged, tag="artifact-update"):
    task_id: NonEmpty
    artifact: V03Artifact
    context_id: str = field(default_factory=always_text)
    append: bool = False
    last_chunk: bool = False
    metadata: dict[str, Any] | None = None


V03Event: TypeAlias = V03Task | V03Message | V03StatusUpdate | V03ArtifactUpdate


class V03RestEvent(OneOf):
    task: V03Task | None = None
    message: V03Message | None = None
    status_update: V03StatusUpdate | None = None
    artifact_update: V03ArtifactUpdate | None = None


class V03RestSendResult(OneOf):
    task: V03Task | None = None
    message: V03Message | None = None


class V03PushAuthentication(WireStruct):
    schemes: list[str] = field(
        default_factory=always_list
    )  # the protobuf repeats it, so SDKs over REST may leave it out
    credentials: str | None = None


class V03PushConfig(WireStruct):
    url: NonEmpty
    id: str | None = None
    token: str | None = None
    authentication: V03PushAuthentication | None = None


class V03TaskPushConfig(WireStruct):
    task_id: NonEmpty
    push_notification_config: V03PushConfig


class V03SendConfiguration(WireStruct):
    accepted_output_modes: list[str] | None = None
    blocking: bool | None = None
    history_length: Count | None = None
    push_notification_config: V03PushConfig | None = None


class V03Send(WireStruct):
    message: V03Message
    configuration: V03SendConfiguration | None = None
    metadata: dict[str, Any] | None = None
    message_id: str | None = None  # where some samples of the specification put it

    def __post_init__(self) -> None:
        if not self.message.message_id:
            if not self.message_id:
                raise ValueError("The message has no messageId")
            self.message.message_id, self.message_id = self.message_id, None


class V03TaskId(WireStruct):
    task_id: NonEmpty = field(name="id")
    metadata: dict[str, Any] | None = None


class V03TaskQuery(WireStruct):
    task_id: NonEmpty = field(name="id")
    history_length: Count | None = None
    metadata: dict[str, Any] | None = None


class V03PushConfigQuery(WireStruct):
    task_id: NonEmpty = field(name="id")
    id: str | None = field(default=None, name="pushNotificationConfigId")
    metadata: dict[str, Any] | None = None


class V03DeletePushConfig(WireStruct):
    task_id: NonEmpty = field(name="id")
    id: NonEmpty = field(name="pushNotificationConfigId")
    metadata: dict[str, Any] | None = None


class V03ListPushConfigs(WireStruct):
    task_id: NonEmpty = field(name="id")
    page_size: Count | None = None  # REST alone has pages
    page_token: str | None = None
    metadata: dict[str, Any] | None = None


class V03NoParams(WireStruct):
    pass


# --- messages and tasks -----------------------------------------------------------------------------------------------

ROLES: dict[str, m.Role] = {"user": m.Role.USER, "agent": m.Role.AGENT}


def decode_part(part: V03Part) -> m.Part:
    """A part, by its kind."""
    if isinstance(part, V03TextPart):
        return m.TextPart(part.text, *unpack_part(part.metadata or {}))
    if isinstance(part, V03DataPart):
        return unwrap_data(part.data, part.metadata or {})
    file = part.file
    rest = (file.mime_type or None, file.name or None, part.metadata or {})
    if file.uri is not None:
        return m.UrlPart(file.uri, *rest)
    content = file.content if file.content is not None else file.data
    assert content is not None  # V03File lets nothing else through
    return m.RawPart(content, *rest)


def encode_part(part: m.Part) -> V03Part:
    """A part in 0.3; what text and data parts have no member for is carried in their metadata."""
    if isinstance(part, m.TextPart):
        return V03TextPart(part.text, pack_part(part) or None)
    if isinstance(part, m.DataPart):
        data, metadata = wrap_data(part)
        return V03DataPart(data, metadata or None)
    return V03FilePart(encode_file(part), part.metadata or None)


def encode_file(part: m.RawPart | m.UrlPart) -> V03File:
    """A file in 0.3."""
    if isinstance(part, m.RawPart):
        return V03File(part.raw, None, part.media_type, part.filename)
    return V03File(None, part.url, part.media_type, part.filename)


STATES: dict[str, TaskState] = {state.value: state for state in TaskState} | {
    "input_required": TaskState.INPUT_REQUIRED
}


OBJECTS = Objects(
    decode_part=decode_part,
    encode_part=encode_part,
    roles=ROLES,
    role_names={role: role.value for role in m.Role},
    states=STATES,
    state_names={state: state.value for state in TaskState},
    message=V03Message,
    status=V03Status,
    artifact=V03Artifact,
    task=V03Task,
    status_update=V03StatusUpdate,
    artifact_update=V03ArtifactUpdate,
    has_final=True,
    no_context="",
)


def decode_event(event: V03Event) -> StreamEvent:
    """A stream event, by its kind."""
    if isinstance(event, V03ArtifactUpdate):
        return OBJECTS.decode_artifact_update(event)
    if isinstance(event, V03StatusUpdate):
        return OBJECTS.decode_status_update(event)
    return decode_send_result(event)


def encode_event(event: StreamEvent) -> V03Event:
    """A stream event, bare."""
    (wire,) = encode_frames(event, None)
    return wire


def encode_frames(event: StreamEvent, ends: bool | None) -> tuple[V03Event]:
    """The one frame of a stream event, bare."""
    (wire,) = OBJECTS.encode_wrapped(event, ends).values()
    return (wire,)


def decode_send_result(result: V03Task | V03Message) -> Task | m.Message:
    """The answer to a send, by its kind."""
    return OBJECTS.decode_task(result) if isinstance(result, V03Task) else OBJECTS.decode_message(result)


# --- push configs -----------------------------------------------------------------------------------------------------


def decode_push_config(config: V03PushConfig, task_id: str | None = None) -> PushConfig:
    """A webhook, of a task if it has one already."""
    given = config.authentication
    authentication = PushAuthentication(tuple(given.schemes), given.credentials or None) if given else None
    return PushConfig(config.url, task_id, config.id or None, config.token or None, authentication)


def encode_push_config(config: PushConfig) -> V03PushConfig:
    """A webhook in 0.3."""
    given = config.authentication
    authentication = V03PushAuthentication(list(given.schemes), given.credentials) if given else None
    return V03PushConfig(config.url, config.id, config.token, authentication)


def decode_task_push_config(config: V03TaskPushConfig) -> PushConfig:
    """A webhook of a task."""
    return decode_push_config(config.push_notification_config, config.task_id)


def encode_task_push_config(config: PushConfig) -> V03TaskPushConfig:
    """A webhook of a task in 0.3."""
    return V03TaskPushConfig(config.task_id or "", encode_push_config(config))


def decode_push_config_list(configs: list[V03TaskPushConfig]) -> r.PushConfigPage:
    """All webhooks of a task; 0.3 has no pages."""
    return r.PushConfigPage(tuple([decode_task_push_config(config) for config in configs]))


def encode_push_config_list(page: r.PushConfigPage) -> list[V03TaskPushConfig]:
    """All webhooks of a task in 0.3: a bare list."""
    return [encode_task_push_config(config) for config in page.configs]


# --- requests ---------------------------------------------------------------------------------------------------------


def decode_send(request: V03Send) -> r.SendMessageRequest:
    """A send; the caller waits unless it sends `blocking: false`."""
    given = request.configuration or V03SendConfiguration()
    push = given.push_notification_config
    configuration = r.SendConfiguration(
        tuple(given.accepted_output_modes or ()),
        decode_push_config(push) if push else None,
        given.history_length,
        given.blocking is False,
    )
    return r.SendMessageRequest(OBJECTS.decode_message(request.message), configuration, request.metadata or {})


def encode_send(request: r.SendMessageRequest) -> V03Send:
    """A send in 0.3, which is explicit about waiting because 0.3 does not define a default."""
    given = request.configuration
    configuration = V03SendConfiguration(
        list(given.accepted_output_modes) or None,
        not given.return_immediately,
        given.history_length,
        encode_push_config(given.push_config) if given.push_config else None,
    )
    return V03Send(OBJECTS.encode_message(request.message), configuration, request.metadata or None)


def decode_create_push_config(request: V03TaskPushConfig) -> r.CreatePushConfigRequest:
    """A webhook to register."""
    return r.CreatePushConfigRequest(request.task_id, decode_task_push_config(request))


def encode_create_push_config(request: r.CreatePushConfigRequest) -> V03TaskPushConfig:
    """A webhook to register in 0.3."""
    return V03TaskPushConfig(request.task_id, encode_push_config(request.config))


# --- the table --------------------------------------------------------------------------------------------------------


def plain(wire: type[Any], kind: type[Any]) -> Codec[Any, Any]:
    """The codec of a request whose members have the names of its wire struct."""
    return same_names(Reader(wire), wire, kind)


SEND = Codec(Reader(V03Send, guesses_tags=False), decode_send, encode_send)
TASK = Codec(Reader(V03Task), OBJECTS.decode_task, OBJECTS.encode_task)
EVENT: Codec[Any, StreamEvent] = Codec(Reader[Any](V03Event), decode_event, encode_event)
SEND_RESULT: Codec[Any, Any] = Codec(Reader[Any](V03Task | V03Message), decode_send_result, encode_event)
TASK_PUSH_CONFIG = Codec(Reader(V03TaskPushConfig), decode_task_push_config, encode_task_push_config)

DIALECT = JsonDialect(
    version=Version.V0_3,
    requests={
        ops.SEND_MESSAGE.name: SEND,
        ops.SEND_STREAMING_MESSAGE.name: SEND,
        ops.GET_TASK.name: Codec(  # callers poll, so it is written out, which is faster
            Reader(V03TaskQuery),
            lambda w: r.GetTaskRequest(w.task_id, w.history_length, w.metadata or {}),
            lambda q: V03TaskQuery(q.task_id, q.history_length, q.metadata or None),
        ),
        ops.CANCEL_TASK.name: plain(V03TaskId, r.CancelTaskRequest),
        ops.SUBSCRIBE_TO_TASK.name: plain(V03TaskId, r.SubscribeToTaskRequest),
        ops.CREATE_PUSH_CONFIG.name: Codec(
            Reader(V03TaskPushConfig), decode_create_push_config, encode_create_push_config
        ),
        ops.GET_PUSH_CONFIG.name: plain(V03PushConfigQuery, r.GetPushConfigRequest),
        ops.LIST_PUSH_CONFIGS.name: plain(V03TaskId, r.ListPushConfigsRequest),
        ops.DELETE_PUSH_CONFIG.name: plain(V03DeletePushConfig, r.DeletePushConfigRequest),
        ops.GET_EXTENDED_CARD.name: plain(V03NoParams, r.GetExtendedCardRequest),
    },
    results={
        ops.SEND_MESSAGE.name: SEND_RESULT,
        ops.GET_TASK.name: TASK,
        ops.CANCEL_TASK.name: TASK,
        ops.CREATE_PUSH_CONFIG.name: TASK_PUSH_CONFIG,
        ops.GET_PUSH_CONFIG.name: TASK_PUSH_CONFIG,
        ops.LIST_PUSH_CONFIGS.name: Codec(
            Reader(list[V03TaskPushConfig]), decode_push_config_list, encode_push_config_list
        ),
        ops.DELETE_PUSH_CONFIG.name: Codec(Reader(object), nothing, nothing),
        ops.GET_EXTENDED_CARD.name: CARDS,
    },
    events=EVENT,
    frames=encode_frames,
    pushes=EVENT,
    cards=CARDS,
)

REST_EVENT = Codec(Reader(V03RestEvent), OBJECTS.decode_wrapped, OBJECTS.encode_wrapped)

REST_SEND = Codec(Reader(V03Send), decode_send, encode_send)

REST_DIALECT = replace(
    DIALECT,
    requests={
        **DIALECT.requests,
        ops.SEND_MESSAGE.name: REST_SEND,
        ops.SEND_STREAMING_MESSAGE.name: REST_SEND,
        ops.GET_TASK.name: Codec(
            Reader(V03TaskQuery),
            # SDKs fill the query from protobuf, where 0 is the same as not given.
            lambda w: r.GetTaskRequest(w.task_id, w.history_length or None, w.metadata or {}),
            lambda q: V03TaskQuery(q.task_id, q.history_length, q.metadata or None),
        ),
        ops.LIST_PUSH_CONFIGS.name: Codec(
            Reader(V03ListPushConfigs),
            lambda w: r.ListPushConfigsRequest(w.task_id, w.page_size or None, w.page_token or None, w.metadata or {}),
            lambda q: V03ListPushConfigs(q.task_id, q.page_size, q.page_token, q.metadata or None),
        ),
    },
    results={
        **DIALECT.results,
        ops.SEND_MESSAGE.name: Codec(Reader(V03RestSendResult), OBJECTS.decode_send_result, OBJECTS.encode_send_result),
        ops.DELETE_PUSH_CONFIG.name: Codec(Reader(object), nothing, lambda _: {}),
    },
    events=REST_EVENT,
    frames=OBJECTS.wrapped_frames,
)
"""The same over HTTP+JSON, in the shape of the specification's text."""
