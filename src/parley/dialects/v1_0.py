"""A2A 1.0 in JSON: ProtoJSON of package `lf.a2a.v1`, for JSON-RPC, REST and push bodies alike.

The structs follow the specification's tables, one member per field; the functions below them convert. All checks are in
the structs, so the conversions cannot fail. Cards are in `v1_0_card`. Spec: 1.0 sections 3 to 5 and a2a.proto.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal, cast

from msgspec import UNSET, Meta, UnsetType, field, structs

from parley.dialects.dialect import Codec, JsonDialect, nothing
from parley.dialects.fields import Count, EnumNames, NonEmpty, OneOf, Reader, WireStruct
from parley.dialects.objects import Objects
from parley.dialects.same_names import same_names
from parley.dialects.timestamps import in_utc
from parley.dialects.v1_0_card import CARDS
from parley.protocol import messages as m
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.jsonvalue import JsonValue
from parley.protocol.push import PushAuthentication, PushConfig
from parley.protocol.requests import PushConfigPage, TaskPage
from parley.protocol.tasks import TaskState
from parley.protocol.versions import Version

# --- structs on the wire ----------------------------------------------------------------------------------------------

StateName = Literal[
    "TASK_STATE_UNSPECIFIED",
    "TASK_STATE_SUBMITTED",
    "TASK_STATE_WORKING",
    "TASK_STATE_COMPLETED",
    "TASK_STATE_FAILED",
    "TASK_STATE_CANCELED",
    "TASK_STATE_INPUT_REQUIRED",
    "TASK_STATE_REJECTED",
    "TASK_STATE_AUTH_REQUIRED",
]
RoleName = Literal["ROLE_USER", "ROLE_AGENT"]
Timestamp = Annotated[datetime, Meta(tz=True)]


class V10Part(WireStruct):
    text: str | None = None
    raw: bytes | None = None
    url: str | None = None
    data: Any | UnsetType = UNSET  # null is a value here: {"data": null} is JSON null
    metadata: dict[str, Any] | None = None
    filename: str | None = None
    media_type: str | None = None

    def __post_init__(self) -> None:
        contents = (self.text is not None) + (self.raw is not None) + (self.url is not None) + (self.data is not UNSET)
        if contents != 1:
            raise ValueError(f"Invalid part: expected exactly one of text, raw, url and data, found {contents}")


class V10Message(WireStruct):
    role: RoleName
    parts: Annotated[list[V10Part], Meta(min_length=1)]
    message_id: NonEmpty
    context_id: str | None = None
    task_id: str | None = None
    metadata: dict[str, Any] | None = None
    extensions: list[str] | None = None
    reference_task_ids: list[str] | None = None


def _unspecified() -> StateName:
    return "TASK_STATE_UNSPECIFIED"


class V10Status(WireStruct):
    state: StateName = field(default_factory=_unspecified)  # ProtoJSON writers leave an enum's zero out
    message: V10Message | None = None
    timestamp: datetime | None = None  # 1.0 requires a zone, but fasta2a sends none

    def __post_init__(self) -> None:
        self.timestamp = in_utc(self.timestamp)


class V10Artifact(WireStruct):
    artifact_id: NonEmpty
    parts: Annotated[list[V10Part], Meta(min_length=1)]
    name: str | None = None
    description: str | None = None
    metadata: dict[str, Any] | None = None
    extensions: list[str] | None = None


class V10Task(WireStruct):
    id: NonEmpty
    status: V10Status
    context_id: str | None = None
    artifacts: list[V10Artifact] | None = None
    history: list[V10Message] | None = None
    metadata: dict[str, Any] | None = None


class V10StatusUpdate(WireStruct):
    task_id: NonEmpty
    status: V10Status
    context_id: str | None = None
    metadata: dict[str, Any] | None = None


class V10ArtifactUpdate(WireStruct):
    task_id: NonEmpty
    artifact: V10Artifact
    context_id: str | None = None
    append: bool = False
    last_chunk: bool = False
    metadata: dict[str, Any] | None = None


class V10StreamResponse(OneOf):
    # langgraph-api 0.16 wraps the first event of a stream and tags all others by `kind`, as 0.3 does.
    kinds = {
        "task": "task",
        "message": "message",
        "status-update": "statusUpdate",
        "artifact-update": "artifactUpdate",
    }
    task: V10Task | None = None
    message: V10Message | None = None
    status_update: V10StatusUpdate | None = None
    artifact_update: V10ArtifactUpdate | None = None


class V10SendResponse(OneOf):
    kinds = {"task": "task", "message": "message"}  # as in streams
    task: V10Task | None = None
    message: V10Message | None = None


class V10PushAuthentication(WireStruct):
    scheme: NonEmpty
    credentials: str | None = None


class V10PushConfig(WireStruct):
    url: NonEmpty
    tenant: str | None = None
    id: str | None = None
    task_id: str | None = None
    token: str | None = None
    authentication: V10PushAuthentication | None = None


class V10CreatePushConfig(V10PushConfig):
    def __post_init__(self) -> None:
        if not self.task_id:
            raise ValueError("The config has no taskId")


class V10SendConfiguration(WireStruct):
    accepted_output_modes: list[str] | None = None
    task_push_notification_config: V10PushConfig | None = None
    history_length: Count | None = None
    return_immediately: bool = False
    skill_id: str | None = None
    """Proposed for 1.1, https://github.com/a2aproject/A2A/issues/1812; read here, and written into the metadata."""


class V10Send(WireStruct):
    message: V10Message
    tenant: str | None = None
    configuration: V10SendConfiguration | None = None
    metadata: dict[str, Any] | None = None


class V10GetTask(WireStruct):
    id: NonEmpty
    tenant: str | None = None
    history_length: Count | None = None


class V10ListTasks(WireStruct):
    tenant: str | None = None
    context_id: str | None = None
    status: StateName | None = None
    page_size: Annotated[int, Meta(ge=1, le=100)] | None = None
    page_token: str | None = None
    history_length: Count | None = None
    status_timestamp_after: Timestamp | None = None
    include_artifacts: bool | None = None

    def __post_init__(self) -> None:
        self.status_timestamp_after = in_utc(self.status_timestamp_after)


class V10TaskPage(WireStruct, omit_defaults=False):
    tasks: list[V10Task] = []
    next_page_token: str = ""
    page_size: Count = 0
    total_size: Count = 0


class V10CancelTask(WireStruct):
    task_id: NonEmpty = field(name="id")
    tenant: str | None = None
    metadata: dict[str, Any] | None = None


class V10Subscribe(WireStruct):
    task_id: NonEmpty = field(name="id")
    tenant: str | None = None


class V10PushConfigId(WireStruct):
    task_id: NonEmpty
    id: NonEmpty
    tenant: str | None = None


class V10ListPushConfigs(WireStruct):
    task_id: NonEmpty
    page_size: Count | None = None
    page_token: str | None = None
    tenant: str | None = None


class V10PushConfigPage(WireStruct):
    configs: list[V10PushConfig] | None = None
    next_page_token: str | None = None


class V10GetCard(WireStruct):
    tenant: str | None = None


# --- messages and tasks -----------------------------------------------------------------------------------------------

ROLES: dict[str, m.Role] = {"ROLE_USER": m.Role.USER, "ROLE_AGENT": m.Role.AGENT}


def decode_part(part: V10Part) -> m.Part:
    """A part, by the one content it has."""
    rest = (part.media_type or None, part.filename or None, part.metadata or {})
    if part.text is not None:
        return m.TextPart(part.text, *rest)
    if part.raw is not None:
        return m.RawPart(part.raw, *rest)
    if part.url is not None:
        return m.UrlPart(part.url, *rest)
    return m.DataPart(cast(JsonValue, part.data), *rest)


def encode_part(part: m.Part) -> dict[str, Any]:
    """A part in 1.0, which has a member for everything."""
    wire: dict[str, Any]
    if isinstance(part, m.TextPart):
        wire = {"text": part.text}
    elif isinstance(part, m.RawPart):
        wire = {"raw": part.raw}
    elif isinstance(part, m.UrlPart):
        wire = {"url": part.url}
    else:
        wire = {"data": part.data}
    if part.metadata:
        wire["metadata"] = part.metadata
    if part.filename:
        wire["filename"] = part.filename
    if part.media_type:
        wire["mediaType"] = part.media_type
    return wire


STATES: dict[str, TaskState] = {
    "TASK_STATE_UNSPECIFIED": TaskState.UNKNOWN,
    "TASK_STATE_SUBMITTED": TaskState.SUBMITTED,
    "TASK_STATE_WORKING": TaskState.WORKING,
    "TASK_STATE_COMPLETED": TaskState.COMPLETED,
    "TASK_STATE_FAILED": TaskState.FAILED,
    "TASK_STATE_CANCELED": TaskState.CANCELED,
    "TASK_STATE_INPUT_REQUIRED": TaskState.INPUT_REQUIRED,
    "TASK_STATE_REJECTED": TaskState.REJECTED,
    "TASK_STATE_AUTH_REQUIRED": TaskState.AUTH_REQUIRED,
}
STATE_NAMES: dict[TaskState, Any] = {state: name for name, state in STATES.items()}


OBJECTS = Objects(
    decode_part=decode_part,
    encode_part=encode_part,
    roles=ROLES,
    role_names={role: name for name, role in ROLES.items()},
    states=STATES,
    state_names=STATE_NAMES,
    message=V10Message,
    status=V10Status,
    artifact=V10Artifact,
    task=V10Task,
    status_update=V10StatusUpdate,
    artifact_update=V10ArtifactUpdate,
    has_final=False,
    no_context=None,
)

# --- results and events -----------------------------------------------------------------------------------------------


def decode_task_page(page: V10TaskPage) -> TaskPage:
    """A page of tasks."""
    tasks = tuple([OBJECTS.decode_task(task) for task in page.tasks])
    return TaskPage(tasks, page.next_page_token, page.page_size, page.total_size)


def encode_task_page(page: TaskPage) -> V10TaskPage:
    """A page of tasks in 1.0."""
    return V10TaskPage(
        [OBJECTS.encode_task(task) for task in page.tasks], page.next_page_token, page.page_size, page.total_size
    )


def decode_push_config_page(page: V10PushConfigPage) -> PushConfigPage:
    """A page of webhooks."""
    configs = tuple([decode_push_config(config) for config in page.configs or ()])
    return PushConfigPage(configs, page.next_page_token or None)


def encode_push_config_page(page: PushConfigPage) -> V10PushConfigPage:
    """A page of webhooks in 1.0."""
    configs = [encode_push_config(config) for config in page.configs]
    return V10PushConfigPage(configs or None, page.next_page_token)


# --- requests ---------------------------------------------------------------------------------------------------------


def decode_push_config(config: V10PushConfig) -> PushConfig:
    """A webhook."""
    given = config.authentication
    authentication = PushAuthentication((given.scheme,), given.credentials or None) if given else None
    return PushConfig(
        config.url,
        config.task_id or None,
        config.id or None,
        config.token or None,
        authentication,
        config.tenant or None,
    )


def encode_push_config(config: PushConfig) -> V10PushConfig:
    """A webhook in 1.0, which names one authentication scheme: the first."""
    given = config.authentication
    authentication = None
    if given and given.schemes:
        authentication = V10PushAuthentication(given.schemes[0], given.credentials)
    return V10PushConfig(config.url, config.tenant, config.id, config.task_id, config.token, authentication)


def decode_send(request: V10Send) -> r.SendMessageRequest:
    """A send."""
    given = request.configuration or V10SendConfiguration()
    push = given.task_push_notification_config
    configuration = r.SendConfiguration(
        tuple(given.accepted_output_modes or ()),
        # The webhook belongs to the task and tenant of the send, even if the caller states others.
        structs.replace(decode_push_config(push), task_id=None, tenant=None) if push else None,
        given.history_length,
        given.return_immediately,
    )
    message = OBJECTS.decode_message(request.message)
    if given.skill_id:
        message = structs.replace(message, metadata={**message.metadata, m.SKILL_KEY: given.skill_id})
    return r.SendMessageRequest(message, configuration, request.metadata or {}, request.tenant or None)


def encode_send(request: r.SendMessageRequest) -> V10Send:
    """A send in 1.0."""
    given = request.configuration
    configuration = V10SendConfiguration(
        list(given.accepted_output_modes) or None,
        encode_push_config(given.push_config) if given.push_config else None,
        given.history_length,
        given.return_immediately,
    )
    return V10Send(
        OBJECTS.encode_message(request.message),
        request.tenant,
        configuration if given != r.SendConfiguration() else None,
        request.metadata or None,
    )


def decode_list_tasks(request: V10ListTasks) -> r.ListTasksRequest:
    """A list of tasks; the unspecified state means all."""
    state = STATES[request.status] if request.status else TaskState.UNKNOWN
    return r.ListTasksRequest(
        request.context_id or None,
        None if state is TaskState.UNKNOWN else state,
        request.page_size,
        request.page_token or None,
        request.history_length,
        request.status_timestamp_after,
        bool(request.include_artifacts),
        request.tenant or None,
    )


def encode_list_tasks(request: r.ListTasksRequest) -> V10ListTasks:
    """A list of tasks in 1.0."""
    return V10ListTasks(
        request.tenant,
        request.context_id,
        STATE_NAMES[request.state] if request.state else None,
        request.page_size,
        request.page_token,
        request.history_length,
        request.status_timestamp_after,
        request.include_artifacts or None,
    )


def decode_create_push_config(config: V10CreatePushConfig) -> r.CreatePushConfigRequest:
    """A webhook to register; in 1.0 the config itself is the request."""
    return r.CreatePushConfigRequest(config.task_id or "", decode_push_config(config), tenant=config.tenant or None)


def encode_create_push_config(request: r.CreatePushConfigRequest) -> V10PushConfig:
    """A webhook to register in 1.0."""
    config = encode_push_config(request.config)
    config.task_id = request.task_id
    config.tenant = request.tenant
    return config


# --- the table --------------------------------------------------------------------------------------------------------

ENUMS: EnumNames = (tuple(STATES), ("ROLE_UNSPECIFIED", "ROLE_USER", "ROLE_AGENT"))


def reader(wire_type: type[Any]) -> Reader[Any]:
    """A reader that takes all of ProtoJSON."""
    return Reader(wire_type, protojson=ENUMS)


def _plain(wire: type[Any], kind: type[Any]) -> Codec[Any, Any]:
    return same_names(reader(wire), wire, kind)


_send = Codec(reader(V10Send), decode_send, encode_send)
_task = Codec(reader(V10Task), OBJECTS.decode_task, OBJECTS.encode_task)
_event = Codec(reader(V10StreamResponse), OBJECTS.decode_wrapped, OBJECTS.encode_wrapped)
_send_result = Codec(reader(V10SendResponse), OBJECTS.decode_send_result, OBJECTS.encode_send_result)
_push_config = Codec(reader(V10PushConfig), decode_push_config, encode_push_config)


DIALECT = JsonDialect(
    version=Version.V1_0,
    requests={
        ops.SEND_MESSAGE.name: _send,
        ops.SEND_STREAMING_MESSAGE.name: _send,
        ops.GET_TASK.name: Codec(  # callers poll, so it is written out, which is faster
            reader(V10GetTask),
            lambda w: r.GetTaskRequest(w.id, w.history_length, tenant=w.tenant or None),
            lambda q: V10GetTask(q.task_id, q.tenant, q.history_length),
        ),
        ops.LIST_TASKS.name: Codec(reader(V10ListTasks), decode_list_tasks, encode_list_tasks),
        ops.CANCEL_TASK.name: _plain(V10CancelTask, r.CancelTaskRequest),
        ops.SUBSCRIBE_TO_TASK.name: _plain(V10Subscribe, r.SubscribeToTaskRequest),
        ops.CREATE_PUSH_CONFIG.name: Codec(
            reader(V10CreatePushConfig), decode_create_push_config, encode_create_push_config
        ),
        ops.GET_PUSH_CONFIG.name: Codec(
            reader(V10PushConfigId),
            lambda w: r.GetPushConfigRequest(w.task_id, w.id, tenant=w.tenant or None),
            lambda q: V10PushConfigId(q.task_id, q.id or q.task_id, q.tenant),
        ),
        ops.LIST_PUSH_CONFIGS.name: Codec(
            reader(V10ListPushConfigs),
            lambda w: r.ListPushConfigsRequest(
                w.task_id, w.page_size or None, w.page_token or None, tenant=w.tenant or None
            ),
            lambda q: V10ListPushConfigs(q.task_id, q.page_size, q.page_token, q.tenant),
        ),
        ops.DELETE_PUSH_CONFIG.name: _plain(V10PushConfigId, r.DeletePushConfigRequest),
        ops.GET_EXTENDED_CARD.name: _plain(V10GetCard, r.GetExtendedCardRequest),
    },
    results={
        ops.SEND_MESSAGE.name: _send_result,
        ops.GET_TASK.name: _task,
        ops.LIST_TASKS.name: Codec(reader(V10TaskPage), decode_task_page, encode_task_page),
        ops.CANCEL_TASK.name: _task,
        ops.CREATE_PUSH_CONFIG.name: _push_config,
        ops.GET_PUSH_CONFIG.name: _push_config,
        ops.LIST_PUSH_CONFIGS.name: Codec(reader(V10PushConfigPage), decode_push_config_page, encode_push_config_page),
        ops.DELETE_PUSH_CONFIG.name: Codec(Reader(object), nothing, nothing),
        ops.GET_EXTENDED_CARD.name: CARDS,
    },
    events=_event,
    frames=OBJECTS.wrapped_frames,
    pushes=_event,
    pushes_events=True,
    cards=CARDS,
)

REST_DIALECT = replace(
    DIALECT,
    results={**DIALECT.results, ops.DELETE_PUSH_CONFIG.name: Codec(Reader(object), nothing, lambda _: {})},
)
"""The same over HTTP+JSON, where a deletion is answered by an empty object."""
