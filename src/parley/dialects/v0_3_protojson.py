"""A2A 0.3 over REST as SDKs really send it: ProtoJSON of package `a2a.v1`.

Messages have `content` and no `kind`, enums their protobuf names, webhooks resource names. a2a-sdk 1.x, when it talks
to 0.3, even writes the protobuf's own field names (`request`, `message_id`); those are read, too. Cards come in the
shape of `v0_3_card`, as these SDKs serve them. Spec: 0.3.0 section 3.5.3, and a2a.proto as a2a-sdk 0.3 ships it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from msgspec import Meta, field, structs

from parley.dialects import v0_3, v1_0
from parley.dialects.carried import (
    pack_part,
    pack_references,
    unpack_part,
    unpack_references,
    unwrap_data,
    wrap_data,
)
from parley.dialects.dialect import Codec
from parley.dialects.fields import Count, EnumNames, NonEmpty, OneOf, Reader, WireStruct, always_text
from parley.dialects.file_bytes import decode_file_bytes, encode_file_bytes
from parley.dialects.objects import Objects
from parley.dialects.resource_names import id_in_name, real_id, task_in_name
from parley.dialects.timestamps import in_utc
from parley.dialects.v0_3 import V03PushConfig, decode_push_config, encode_push_config
from parley.dialects.v1_0 import Timestamp
from parley.protocol import messages as m
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.push import PushConfig
from parley.protocol.tasks import TaskState

# --- structs on the wire ----------------------------------------------------------------------------------------------

StateName = Literal[
    "TASK_STATE_UNSPECIFIED",
    "TASK_STATE_SUBMITTED",
    "TASK_STATE_WORKING",
    "TASK_STATE_COMPLETED",
    "TASK_STATE_FAILED",
    "TASK_STATE_CANCELLED",  # with two l, unlike 1.0
    "TASK_STATE_INPUT_REQUIRED",
    "TASK_STATE_REJECTED",
    "TASK_STATE_AUTH_REQUIRED",
]


class V03ProtoFile(WireStruct):
    file_with_uri: str | None = None
    file_with_bytes: bytes | None = None
    mime_type: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if (self.file_with_uri is None) == (self.file_with_bytes is None):
            raise ValueError("Invalid file: expected exactly one of fileWithUri and fileWithBytes")


class V03ProtoData(WireStruct):
    data: dict[str, Any] = {}


class V03ProtoPart(WireStruct):
    text: str | None = None
    file: V03ProtoFile | None = None
    data: V03ProtoData | None = None
    metadata: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        contents = (self.text is not None) + (self.file is not None) + (self.data is not None)
        if contents != 1:
            raise ValueError(f"Invalid part: expected exactly one of text, file and data, found {contents}")


class V03ProtoMessage(WireStruct):
    role: Literal["ROLE_USER", "ROLE_AGENT"]
    parts: Annotated[list[V03ProtoPart], Meta(min_length=1)] = field(name="content")
    message_id: NonEmpty
    context_id: str | None = None
    task_id: str | None = None
    metadata: dict[str, Any] | None = None
    extensions: list[str] | None = None
    reference_task_ids: list[str] | None = None  # never written: the protobuf has no such field


class V03ProtoStatusMessage(WireStruct):
    """A message that may be empty: a2a-sdk 0.3 reads an absent one so, and passes that on."""

    role: Literal["ROLE_UNSPECIFIED", "ROLE_USER", "ROLE_AGENT"] = "ROLE_UNSPECIFIED"
    parts: list[V03ProtoPart] = field(default_factory=list[V03ProtoPart], name="content")
    message_id: str = ""
    context_id: str | None = None
    task_id: str | None = None
    metadata: dict[str, Any] | None = None
    extensions: list[str] | None = None
    reference_task_ids: list[str] | None = None

    def __post_init__(self) -> None:
        is_whole = self.parts and self.message_id and self.role != "ROLE_UNSPECIFIED"
        if not is_whole and not self.is_empty():
            raise ValueError("A message needs messageId, role and content")

    def is_empty(self) -> bool:
        """Whether it is empty, except perhaps for its role."""
        return not self.parts and not self.message_id


def _unspecified() -> StateName:
    return "TASK_STATE_UNSPECIFIED"


class V03ProtoStatus(WireStruct):
    state: StateName = field(default_factory=_unspecified)  # ProtoJSON writers leave an enum's zero out
    message: V03ProtoStatusMessage | None = None
    timestamp: Timestamp | None = None
    update: V03ProtoStatusMessage | None = None  # the protobuf's own name of `message`

    def __post_init__(self) -> None:
        self.timestamp = in_utc(self.timestamp)
        message, self.update = self.message or self.update, None
        self.message = None if isinstance(message, V03ProtoStatusMessage) and message.is_empty() else message


class V03ProtoArtifact(WireStruct):
    artifact_id: NonEmpty
    parts: Annotated[list[V03ProtoPart], Meta(min_length=1)]
    name: str | None = None
    description: str | None = None
    metadata: dict[str, Any] | None = None
    extensions: list[str] | None = None


class V03ProtoTask(WireStruct):
    id: NonEmpty
    status: V03ProtoStatus
    context_id: str | None = None
    artifacts: list[V03ProtoArtifact] | None = None
    history: list[V03ProtoMessage] | None = None
    metadata: dict[str, Any] | None = None


class V03ProtoStatusUpdate(WireStruct):
    task_id: NonEmpty
    status: V03ProtoStatus
    context_id: str | None = None
    metadata: dict[str, Any] | None = None
    final: bool = False


class V03ProtoArtifactUpdate(WireStruct):
    task_id: NonEmpty
    artifact: V03ProtoArtifact
    context_id: str | None = None
    append: bool = False
    last_chunk: bool = False
    metadata: dict[str, Any] | None = None


class V03ProtoStreamResponse(OneOf):
    task: V03ProtoTask | None = None
    message: V03ProtoMessage | None = None
    status_update: V03ProtoStatusUpdate | None = None
    artifact_update: V03ProtoArtifactUpdate | None = None


class V03ProtoSendResponse(OneOf):
    task: V03ProtoTask | None = None
    message: V03ProtoMessage | None = None


class V03ProtoTaskPushConfig(WireStruct):
    push_notification_config: V03PushConfig
    name: str = ""


class V03ProtoCreatePushConfig(WireStruct):
    parent: str
    config: V03ProtoTaskPushConfig
    config_id: str = field(default_factory=always_text)

    def __post_init__(self) -> None:
        if not self.parent.startswith("tasks/") or self.parent == "tasks/":
            raise ValueError("parent must name a task: tasks/{id}")


class V03ProtoPushConfigPage(WireStruct):
    configs: list[V03ProtoTaskPushConfig] | None = None
    next_page_token: str | None = None


class V03ProtoSendConfiguration(WireStruct):
    accepted_output_modes: list[str] | None = None
    push_notification: V03PushConfig | None = None
    history_length: Count = 0
    blocking: bool = False


class V03ProtoSend(WireStruct):
    message: V03ProtoMessage | None = None
    configuration: V03ProtoSendConfiguration | None = None
    metadata: dict[str, Any] | None = None
    request: V03ProtoMessage | None = None  # the protobuf's own name of `message`

    def __post_init__(self) -> None:
        self.message, self.request = self.message or self.request, None
        if self.message is None:
            raise ValueError("Object missing required field `message`")


# --- messages and tasks -----------------------------------------------------------------------------------------------


def decode_part(part: V03ProtoPart) -> m.Part:
    """A part, by the one content it has."""
    if part.text is not None:
        return m.TextPart(part.text, *unpack_part(part.metadata or {}))
    if part.data is not None:
        return unwrap_data(part.data.data, part.metadata or {})
    assert part.file is not None  # V03ProtoPart lets nothing else through
    rest = (part.file.mime_type or None, part.file.name or None, part.metadata or {})
    if part.file.file_with_bytes is not None:
        return m.RawPart(decode_file_bytes(part.file.file_with_bytes), *rest)
    return m.UrlPart(part.file.file_with_uri or "", *rest)


def encode_part(part: m.Part) -> V03ProtoPart:
    """A part; what text and data parts have no member for is carried in their metadata."""
    if isinstance(part, m.TextPart):
        return V03ProtoPart(text=part.text, metadata=pack_part(part) or None)
    if isinstance(part, m.DataPart):
        data, metadata = wrap_data(part)
        return V03ProtoPart(data=V03ProtoData(data), metadata=metadata or None)
    if isinstance(part, m.RawPart):
        file = V03ProtoFile(None, encode_file_bytes(part.raw), part.media_type, part.filename)
    else:
        file = V03ProtoFile(part.url, None, part.media_type, part.filename)
    return V03ProtoPart(file=file, metadata=part.metadata or None)


STATES: dict[str, TaskState] = {
    name if state is not TaskState.CANCELED else "TASK_STATE_CANCELLED": state for name, state in v1_0.STATES.items()
}

OBJECTS = Objects(
    decode_part=decode_part,
    encode_part=encode_part,
    roles=v1_0.ROLES,
    role_names={role: name for name, role in v1_0.ROLES.items()},
    states=STATES,
    state_names={state: name for name, state in STATES.items()},
    message=V03ProtoMessage,
    status=V03ProtoStatus,
    artifact=V03ProtoArtifact,
    task=V03ProtoTask,
    status_update=V03ProtoStatusUpdate,
    artifact_update=V03ProtoArtifactUpdate,
    has_final=True,
    no_context=None,
    pack=pack_references,
    unpack=unpack_references,
)


# --- push configs -----------------------------------------------------------------------------------------------------


def decode_task_push_config(config: V03ProtoTaskPushConfig) -> PushConfig:
    """A webhook, whose task is in its name, and its id too if need be."""
    given = decode_push_config(config.push_notification_config, task_in_name(config.name))
    return structs.replace(given, id=given.id or id_in_name(config.name))


def encode_task_push_config(config: PushConfig) -> V03ProtoTaskPushConfig:
    """A webhook under its resource name."""
    name = f"tasks/{config.task_id}/pushNotificationConfigs/{config.id or config.task_id}"
    return V03ProtoTaskPushConfig(encode_push_config(config), name)


def decode_create_push_config(request: V03ProtoCreatePushConfig) -> r.CreatePushConfigRequest:
    """A webhook to register; its id may stand in the config, in the request or in the name."""
    task_id = request.parent.removeprefix("tasks/")
    config = decode_push_config(request.config.push_notification_config, task_id)
    config_id = config.id or real_id(request.config_id) or id_in_name(request.config.name)
    return r.CreatePushConfigRequest(task_id, structs.replace(config, id=config_id))


def encode_create_push_config(request: r.CreatePushConfigRequest) -> V03ProtoCreatePushConfig:
    """A webhook to register, its id wherever readers look for it; it has a name only if it has an id."""
    config = structs.replace(request.config, task_id=request.task_id)
    wire = encode_task_push_config(config)
    if not config.id:
        wire.name = ""
    return V03ProtoCreatePushConfig(f"tasks/{request.task_id}", wire, config.id or "")


def decode_push_config_page(page: V03ProtoPushConfigPage) -> r.PushConfigPage:
    """A page of webhooks."""
    configs = tuple([decode_task_push_config(config) for config in page.configs or ()])
    return r.PushConfigPage(configs, page.next_page_token or None)


def encode_push_config_page(page: r.PushConfigPage) -> V03ProtoPushConfigPage:
    """A page of webhooks on the wire."""
    return V03ProtoPushConfigPage([encode_task_push_config(c) for c in page.configs] or None, page.next_page_token)


# --- requests ---------------------------------------------------------------------------------------------------------


def decode_send(request: V03ProtoSend) -> r.SendMessageRequest:
    """A send. In protobuf absent means `false` and 0: not to wait, and all of the history."""
    given = request.configuration or V03ProtoSendConfiguration()
    configuration = r.SendConfiguration(
        tuple(given.accepted_output_modes or ()),
        decode_push_config(given.push_notification) if given.push_notification else None,
        given.history_length or None,
        not given.blocking,
    )
    return r.SendMessageRequest(OBJECTS.decode_message(request.message), configuration, request.metadata or {})


def encode_send(request: r.SendMessageRequest) -> V03ProtoSend:
    """A send on the wire."""
    given = request.configuration
    configuration = V03ProtoSendConfiguration(
        list(given.accepted_output_modes) or None,
        encode_push_config(given.push_config) if given.push_config else None,
        given.history_length or 0,
        not given.return_immediately,
    )
    return V03ProtoSend(OBJECTS.encode_message(request.message), configuration, request.metadata or None)


# --- the table --------------------------------------------------------------------------------------------------------

ENUMS: EnumNames = (tuple(STATES), ("ROLE_UNSPECIFIED", "ROLE_USER", "ROLE_AGENT"))


def reader(wire_type: type[Any]) -> Reader[Any]:
    """A reader that takes all of ProtoJSON."""
    return Reader(wire_type, protojson=ENUMS)


SEND = Codec(reader(V03ProtoSend), decode_send, encode_send)
TASK = Codec(reader(V03ProtoTask), OBJECTS.decode_task, OBJECTS.encode_task)
TASK_PUSH_CONFIG = Codec(reader(V03ProtoTaskPushConfig), decode_task_push_config, encode_task_push_config)

REST_DIALECT = replace(
    v0_3.REST_DIALECT,
    # What has no body over REST, and so no shape, is read as `v0_3` reads it.
    requests={
        **v0_3.REST_DIALECT.requests,
        ops.SEND_MESSAGE.name: SEND,
        ops.SEND_STREAMING_MESSAGE.name: SEND,
        ops.CREATE_PUSH_CONFIG.name: Codec(
            reader(V03ProtoCreatePushConfig), decode_create_push_config, encode_create_push_config
        ),
    },
    results={
        **v0_3.REST_DIALECT.results,
        ops.SEND_MESSAGE.name: Codec(
            reader(V03ProtoSendResponse), OBJECTS.decode_send_result, OBJECTS.encode_send_result
        ),
        ops.GET_TASK.name: TASK,
        ops.CANCEL_TASK.name: TASK,
        ops.CREATE_PUSH_CONFIG.name: TASK_PUSH_CONFIG,
        ops.GET_PUSH_CONFIG.name: TASK_PUSH_CONFIG,
        ops.LIST_PUSH_CONFIGS.name: Codec(
            reader(V03ProtoPushConfigPage), decode_push_config_page, encode_push_config_page
        ),
    },
    events=Codec(reader(V03ProtoStreamResponse), OBJECTS.decode_wrapped, OBJECTS.encode_wrapped),
    frames=OBJECTS.wrapped_frames,
)
