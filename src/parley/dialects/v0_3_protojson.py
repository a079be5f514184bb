"""A2A 0.3 over REST as SDKs really send it: ProtoJSON of package `a2a.v1`.

Messages have `content` and no `kind`, enums their protobuf names, webhooks resource names. a2a-sdk 1.x, when it talks
to 0.3, even writes the protobuf's own field names (`request`, `message_id`); those are read, too. Cards come in the
shape of `v0_3_card`, as these SDKs serve them. Spec: 0.3.0 section 3.5.3, and a2a.proto as a2a-sdk 0.3 ships it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field, structs

from parley.dialects import v0_3, v1_0
from parley.dialects.carried import (
    carry_part,
    carry_references,
    unload_part,
    unload_references,
    unwrap_data,
    wrap_data,
)
from parley.dialects.dialect import Codec
from parley.dialects.fields import Count, EnumNames, NonEmpty, OneOf, Reader, always_text
from parley.dialects.file_bytes import decode_file_bytes, encode_file_bytes
from parley.dialects.objects import Objects
from parley.dialects.resource_names import id_in_name, real_id, task_in_name
from parley.dialects.timestamps import in_utc
from parley.dialects.v0_3 import WirePushConfig, decode_push_config, encode_push_config
from parley.dialects.v1_0 import Timestamp
from parley.protocol import messages as m
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.push import PushConfig
from parley.protocol.tasks import TaskState

# --- what is on the wire ----------------------------------------------------------------------------------------------

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


class Wire(Struct, rename="camel", omit_defaults=True):
    """What all structs here share: camelCase names, and no mention of what is absent."""


class WireFile(Wire):
    file_with_uri: str | None = None
    file_with_bytes: bytes | None = None
    mime_type: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if (self.file_with_uri is None) == (self.file_with_bytes is None):
            raise ValueError("A file has exactly one of fileWithUri and fileWithBytes")


class WireData(Wire):
    data: dict[str, Any] = {}


class WirePart(Wire):
    text: str | None = None
    file: WireFile | None = None
    data: WireData | None = None
    metadata: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        contents = (self.text is not None) + (self.file is not None) + (self.data is not None)
        if contents != 1:
            raise ValueError(f"A part has exactly one of text, file and data; this one has {contents}")


class WireMessage(Wire):
    role: Literal["ROLE_USER", "ROLE_AGENT"]
    parts: Annotated[list[WirePart], Meta(min_length=1)] = field(name="content")
    message_id: NonEmpty
    context_id: str | None = None
    task_id: str | None = None
    metadata: dict[str, Any] | None = None
    extensions: list[str] | None = None
    reference_task_ids: list[str] | None = None  # never written: the protobuf has no such field


class WireStatusMessage(Wire):
    """A message that may be empty: a2a-sdk 0.3 reads an absent one so, and passes that on."""

    role: Literal["ROLE_UNSPECIFIED", "ROLE_USER", "ROLE_AGENT"] = "ROLE_UNSPECIFIED"
    parts: list[WirePart] = field(default_factory=list[WirePart], name="content")
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
        """Whether it says nothing, but perhaps who says it."""
        return not self.parts and not self.message_id


def _unspecified() -> StateName:
    return "TASK_STATE_UNSPECIFIED"


class WireStatus(Wire):
    state: StateName = field(default_factory=_unspecified)  # ProtoJSON writers leave an enum's zero out
    message: WireStatusMessage | None = None
    timestamp: Timestamp | None = None
    update: WireStatusMessage | None = None  # the protobuf's own name of `message`

    def __post_init__(self) -> None:
        self.timestamp = in_utc(self.timestamp)
        message, self.update = self.message or self.update, None
        self.message = None if isinstance(message, WireStatusMessage) and message.is_empty() else message


class WireArtifact(Wire):
    artifact_id: NonEmpty
    parts: Annotated[list[WirePart], Meta(min_length=1)]
    name: str | None = None
    description: str | None = None
    metadata: dict[str, Any] | None = None
    extensions: list[str] | None = None


class WireTask(Wire):
    id: NonEmpty
    status: WireStatus
    context_id: str | None = None
    artifacts: list[WireArtifact] | None = None
    history: list[WireMessage] | None = None
    metadata: dict[str, Any] | None = None


class WireStatusUpdate(Wire):
    task_id: NonEmpty
    status: WireStatus
    context_id: str | None = None
    metadata: dict[str, Any] | None = None
    final: bool = False


class WireArtifactUpdate(Wire):
    task_id: NonEmpty
    artifact: WireArtifact
    context_id: str | None = None
    append: bool = False
    last_chunk: bool = False
    metadata: dict[str, Any] | None = None


class WireStreamResponse(OneOf):
    task: WireTask | None = None
    message: WireMessage | None = None
    status_update: WireStatusUpdate | None = None
    artifact_update: WireArtifactUpdate | None = None


class WireSendResponse(OneOf):
    task: WireTask | None = None
    message: WireMessage | None = None


class WireTaskPushConfig(Wire):
    push_notification_config: WirePushConfig
    name: str = ""


class WireCreatePushConfig(Wire):
    parent: str
    config: WireTaskPushConfig
    config_id: str = field(default_factory=always_text)

    def __post_init__(self) -> None:
        if not self.parent.startswith("tasks/") or self.parent == "tasks/":
            raise ValueError("parent must name a task: tasks/{id}")


class WirePushConfigPage(Wire):
    configs: list[WireTaskPushConfig] | None = None
    next_page_token: str | None = None


class WireSendConfiguration(Wire):
    accepted_output_modes: list[str] | None = None
    push_notification: WirePushConfig | None = None
    history_length: Count = 0
    blocking: bool = False


class WireSend(Wire):
    message: WireMessage | None = None
    configuration: WireSendConfiguration | None = None
    metadata: dict[str, Any] | None = None
    request: WireMessage | None = None  # the protobuf's own name of `message`

    def __post_init__(self) -> None:
        self.message, self.request = self.message or self.request, None
        if self.message is None:
            raise ValueError("Object missing required field `message`")


# --- messages and tasks -----------------------------------------------------------------------------------------------


def decode_part(part: WirePart) -> m.Part:
    """A part, by the one content it has."""
    if part.text is not None:
        return m.TextPart(part.text, *unload_part(part.metadata or {}))
    if part.data is not None:
        return unwrap_data(part.data.data, part.metadata or {})
    assert part.file is not None  # WirePart lets nothing else through
    rest = (part.file.mime_type or None, part.file.name or None, part.metadata or {})
    if part.file.file_with_bytes is not None:
        return m.RawPart(decode_file_bytes(part.file.file_with_bytes), *rest)
    return m.UrlPart(part.file.file_with_uri or "", *rest)


def encode_part(part: m.Part) -> WirePart:
    """A part; what text and data parts have no member for is carried in their metadata."""
    if isinstance(part, m.TextPart):
        return WirePart(text=part.text, metadata=carry_part(part) or None)
    if isinstance(part, m.DataPart):
        data, metadata = wrap_data(part)
        return WirePart(data=WireData(data), metadata=metadata or None)
    if isinstance(part, m.RawPart):
        file = WireFile(None, encode_file_bytes(part.raw), part.media_type, part.filename)
    else:
        file = WireFile(part.url, None, part.media_type, part.filename)
    return WirePart(file=file, metadata=part.metadata or None)


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
    message=WireMessage,
    status=WireStatus,
    artifact=WireArtifact,
    task=WireTask,
    status_update=WireStatusUpdate,
    artifact_update=WireArtifactUpdate,
    has_final=True,
    no_context=None,
    carry=carry_references,
    unload=unload_references,
)


# --- push configs -----------------------------------------------------------------------------------------------------


def decode_task_push_config(config: WireTaskPushConfig) -> PushConfig:
    """A webhook, whose task is in its name, and its id too if need be."""
    given = decode_push_config(config.push_notification_config, task_in_name(config.name))
    return structs.replace(given, id=given.id or id_in_name(config.name))


def encode_task_push_config(config: PushConfig) -> WireTaskPushConfig:
    """A webhook under its resource name."""
    name = f"tasks/{config.task_id}/pushNotificationConfigs/{config.id or config.task_id}"
    return WireTaskPushConfig(encode_push_config(config), name)


def decode_create_push_config(request: WireCreatePushConfig) -> r.CreatePushConfigRequest:
    """A webhook to register; its id may stand in the config, in the request or in the name."""
    task_id = request.parent.removeprefix("tasks/")
    config = decode_push_config(request.config.push_notification_config, task_id)
    config_id = config.id or real_id(request.config_id) or id_in_name(request.config.name)
    return r.CreatePushConfigRequest(task_id, structs.replace(config, id=config_id))


def encode_create_push_config(request: r.CreatePushConfigRequest) -> WireCreatePushConfig:
    """A webhook to register, its id wherever readers look for it; it has a name only if it has an id."""
    config = structs.replace(request.config, task_id=request.task_id)
    wire = encode_task_push_config(config)
    if not config.id:
        wire.name = ""
    return WireCreatePushConfig(f"tasks/{request.task_id}", wire, config.id or "")


def decode_push_config_page(page: WirePushConfigPage) -> r.PushConfigPage:
    """A page of webhooks."""
    configs = tuple([decode_task_push_config(config) for config in page.configs or ()])
    return r.PushConfigPage(configs, page.next_page_token or None)


def encode_push_config_page(page: r.PushConfigPage) -> WirePushConfigPage:
    """A page of webhooks on the wire."""
    return WirePushConfigPage([encode_task_push_config(c) for c in page.configs] or None, page.next_page_token)


# --- what callers ask -------------------------------------------------------------------------------------------------


def decode_send(request: WireSend) -> r.SendMessageRequest:
    """A send. In protobuf silence means `false` and 0: not to wait, and all of the history."""
    given = request.configuration or WireSendConfiguration()
    configuration = r.SendConfiguration(
        tuple(given.accepted_output_modes or ()),
        decode_push_config(given.push_notification) if given.push_notification else None,
        given.history_length or None,
        not given.blocking,
    )
    return r.SendMessageRequest(OBJECTS.decode_message(request.message), configuration, request.metadata or {})


def encode_send(request: r.SendMessageRequest) -> WireSend:
    """A send on the wire."""
    given = request.configuration
    configuration = WireSendConfiguration(
        list(given.accepted_output_modes) or None,
        encode_push_config(given.push_config) if given.push_config else None,
        given.history_length or 0,
        not given.return_immediately,
    )
    return WireSend(OBJECTS.encode_message(request.message), configuration, request.metadata or None)


# --- the table --------------------------------------------------------------------------------------------------------

ENUMS: EnumNames = (tuple(STATES), ("ROLE_UNSPECIFIED", "ROLE_USER", "ROLE_AGENT"))


def reader(wire_type: type[Any]) -> Reader[Any]:
    """A reader that takes all of ProtoJSON."""
    return Reader(wire_type, protojson=ENUMS)


SEND = Codec(reader(WireSend), decode_send, encode_send)
TASK = Codec(reader(WireTask), OBJECTS.decode_task, OBJECTS.encode_task)
TASK_PUSH_CONFIG = Codec(reader(WireTaskPushConfig), decode_task_push_config, encode_task_push_config)

REST_DIALECT = replace(
    v0_3.REST_DIALECT,
    # What has no body over REST, and so no shape, is read as `v0_3` reads it.
    requests={
        **v0_3.REST_DIALECT.requests,
        ops.SEND_MESSAGE.name: SEND,
        ops.SEND_STREAMING_MESSAGE.name: SEND,
        ops.CREATE_PUSH_CONFIG.name: Codec(
            reader(WireCreatePushConfig), decode_create_push_config, encode_create_push_config
        ),
    },
    results={
        **v0_3.REST_DIALECT.results,
        ops.SEND_MESSAGE.name: Codec(reader(WireSendResponse), OBJECTS.decode_send_result, OBJECTS.encode_send_result),
        ops.GET_TASK.name: TASK,
        ops.CANCEL_TASK.name: TASK,
        ops.CREATE_PUSH_CONFIG.name: TASK_PUSH_CONFIG,
        ops.GET_PUSH_CONFIG.name: TASK_PUSH_CONFIG,
        ops.LIST_PUSH_CONFIGS.name: Codec(reader(WirePushConfigPage), decode_push_config_page, encode_push_config_page),
    },
    events=Codec(reader(WireStreamResponse), OBJECTS.decode_wrapped, OBJECTS.encode_wrapped),
    frames=OBJECTS.wrapped_frames,
)
