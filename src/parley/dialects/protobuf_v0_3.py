"""A2A 0.3 in protobuf, package `a2a.v1`, as a2a-sdk 0.3 ships it: what differs from the tables of 1.0.

Tasks and webhooks have resource names; file bytes are base64 text (see `file_bytes`). What has no field travels
in metadata (see `carried`) or is dropped: tenants, metadata of requests other than send, stateTransitionHistory, device
code flows and PKCE. A number 0 and a flag `false` look the same as absent. Spec: 0.3.0 a2a.proto.
"""

from __future__ import annotations

import re
from dataclasses import replace

from msgspec import structs

from parley.dialects import protobuf_table as t
from parley.dialects import protobuf_v1_0 as v1_0
from parley.dialects.carried import (
    pack_part,
    pack_references,
    unpack_part,
    unpack_references,
    unwrap_data,
    wrap_data,
)
from parley.dialects.fields import Fault
from parley.dialects.file_bytes import decode_file_bytes, encode_file_bytes
from parley.dialects.oauth_flows import one_flow_per_scheme
from parley.dialects.protobuf_dialect import protobuf_dialect
from parley.dialects.protobuf_pool import ProtoMessage
from parley.dialects.protobuf_table import Fields, MessageMap, converter, nested, one_of
from parley.dialects.protobuf_values import decode_struct, encode_struct
from parley.dialects.resource_names import id_in_name, real_id
from parley.dialects.v0_3_card import interfaces_for, version_of_card
from parley.protocol import cards as c
from parley.protocol import messages as m
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.errors import LocalProtocolError
from parley.protocol.events import ArtifactUpdate, StatusUpdate
from parley.protocol.lifecycle import ends_stream
from parley.protocol.push import PushAuthentication, PushConfig
from parley.protocol.tasks import Artifact, Task, TaskStatus
from parley.protocol.versions import Version

PACKAGE = "a2a.v1"

# --- messages and tasks -----------------------------------------------------------------------------------------------

_IN_ANY_FILE = {"media_type": t.TEXT.named("mime_type"), "filename": t.TEXT.named("name"), "metadata": None}
_BYTES = t.always(converter(decode_file_bytes, encode_file_bytes), "file_with_bytes")
FILE = one_of(
    "file",
    {
        m.RawPart: ("file_with_bytes", MessageMap(m.RawPart, raw=_BYTES, **_IN_ANY_FILE)),
        m.UrlPart: ("file_with_uri", MessageMap(m.UrlPart, url=t.PLAIN.named("file_with_uri"), **_IN_ANY_FILE)),
    },
    otherwise="Invalid file: expected bytes or a URI",
)


def decode_part(part: ProtoMessage) -> m.Part:
    """A part, by the one content it has."""
    metadata = t.at("metadata", decode_struct, part.metadata) if part.HasField("metadata") else {}
    match part.WhichOneof("part"):
        case "text":
            return m.TextPart(part.text, *unpack_part(metadata))
        case "file":
            file = FILE.decode(part.file)
            return structs.replace(file, metadata=metadata) if metadata else file
        case "data":
            return unwrap_data(t.at("data", decode_struct, part.data.data), metadata)
        case _:
            raise Fault("Invalid part: expected one of text, file and data")


def encode_part(part: m.Part) -> Fields:
    """A part in 0.3."""
    if isinstance(part, m.TextPart):
        return {"text": part.text, "metadata": encode_struct(pack_part(part))}
    if isinstance(part, m.DataPart):
        data, metadata = wrap_data(part)
        return {"data": {"data": encode_struct(data)}, "metadata": encode_struct(metadata)}
    return {"file": FILE.encode(part), "metadata": encode_struct(part.metadata)}


PART = converter(decode_part, encode_part)
MESSAGE = t.adapted(
    MessageMap(
        m.Message,
        message_id=t.REQUIRED_TEXT,
        role=t.enum(v1_0.ROLES),
        parts=t.non_empty(PART, "content", "parts"),
        reference_task_ids=None,
    ),
    after_decode=unpack_references,
    before_encode=pack_references,
)
# a2a-sdk 0.3 reads an absent message as an empty one, and passes that on.
_UNLESS_EMPTY = "at({path}, {decode}, {field}) if {field}.message_id or {field}.content else None"
_MESSAGE = replace(t.optional(MESSAGE, "update", "message"), reading=_UNLESS_EMPTY)
STATUS = MessageMap(TaskStatus, state=t.enum(v1_0.STATES), message=_MESSAGE)
ARTIFACT = MessageMap(Artifact, artifact_id=t.REQUIRED_TEXT, parts=t.non_empty(PART), index=None)
TASK = MessageMap(
    Task, id=t.REQUIRED_TEXT, status=t.required(STATUS), artifacts=t.repeated(ARTIFACT), history=t.repeated(MESSAGE)
)

# --- results and events -----------------------------------------------------------------------------------------------


def decode_final(update: ProtoMessage) -> bool:
    """Whether an update ends its stream in a state that does not imply it."""
    return update.final and not ends_stream(v1_0.STATES[update.status.state])


def encode_final(update: StatusUpdate) -> bool:
    """Whether an update ends its stream."""
    return update.final or ends_stream(update.status.state)


FINAL = t.FieldKind("{decode}(message)", "{encode}(value)", converter(decode_final, encode_final))
STATUS_UPDATE = MessageMap(StatusUpdate, task_id=t.REQUIRED_TEXT, status=t.required(STATUS), final=FINAL)
ARTIFACT_UPDATE = MessageMap(ArtifactUpdate, task_id=t.REQUIRED_TEXT, artifact=t.required(ARTIFACT))
_ANSWERS = {Task: nested("task", TASK), m.Message: nested("msg", MESSAGE, "message")}
_UPDATES = {
    ArtifactUpdate: nested("artifact_update", ARTIFACT_UPDATE),
    StatusUpdate: nested("status_update", STATUS_UPDATE),
}
SEND_RESULT = one_of("payload", _ANSWERS, otherwise="Expected a task or a message")
EVENT = one_of("payload", _ANSWERS | _UPDATES, otherwise="Expected a task or a message")

# --- resource names ---------------------------------------------------------------------------------------------------

_TASK_NAME = re.compile(r"tasks/([^/]+)")
_CONFIG_NAME = re.compile(r"tasks/([^/]+)/pushNotificationConfigs/([^/]+)")
# How the server of a2a-sdk 0.3 names a webhook that came with a send and has no id.
_NAMELESS_CONFIG = re.compile(r"tasks/([^/]+)/pushNotificationConfigs/")


def decode_task_name(name: str) -> str:
    """The id of a task: `tasks/t1` is `t1`."""
    found = _TASK_NAME.fullmatch(name)
    if found is None:
        raise Fault("Invalid name: expected tasks/{id}")
    return found[1]


def encode_task_name(task_id: str | None) -> str:
    """The name of a task."""
    return f"tasks/{_segment(task_id)}"


def decode_config_name(name: str) -> tuple[str, str | None]:
    """The ids of a task and of its webhook."""
    found = _CONFIG_NAME.fullmatch(name)
    if found is None:
        raise Fault("Invalid name: expected tasks/{id}/pushNotificationConfigs/{id}", "$.name")
    return found[1], real_id(found[2])


def encode_config_name(task_id: str | None, config_id: str | None) -> str:
    """The name of a webhook; one that was registered without an id has the task's."""
    return f"{encode_task_name(task_id)}/pushNotificationConfigs/{_segment(config_id or task_id)}"


def _segment(identifier: str | None) -> str:
    if not identifier or "/" in identifier:
        raise LocalProtocolError(f"A2A 0.3 has no resource name for the id {identifier!r}")
    return identifier


TASK_NAME = converter(decode_task_name, encode_task_name)

# --- webhooks ---------------------------------------------------------------------------------------------------------

AUTHENTICATION = MessageMap(PushAuthentication, extra=None)
PUSH_CONFIG = MessageMap(
    PushConfig, url=t.REQUIRED_TEXT, task_id=None, authentication=t.optional(AUTHENTICATION), tenant=None
)


def decode_task_push_config(config: ProtoMessage) -> PushConfig:
    """A webhook of a task."""
    nameless = _NAMELESS_CONFIG.fullmatch(config.name)
    task_id, config_id = (nameless[1], None) if nameless else decode_config_name(config.name)
    given = PUSH_CONFIG.decode(config.push_notification_config)
    return structs.replace(given, task_id=task_id, id=given.id or config_id)


def encode_task_push_config(config: PushConfig) -> Fields:
    """A webhook of a task in 0.3."""
    name = encode_config_name(config.task_id, config.id)
    return {"name": name, "push_notification_config": PUSH_CONFIG.encode(config)}


TASK_PUSH_CONFIG = converter(decode_task_push_config, encode_task_push_config)
PUSH_CONFIG_PAGE = MessageMap(r.PushConfigPage, configs=t.repeated(TASK_PUSH_CONFIG))

# --- requests ---------------------------------------------------------------------------------------------------------

CONFIGURATION = MessageMap(
    r.SendConfiguration,
    push_config=t.optional(PUSH_CONFIG, "push_notification", "taskPushNotificationConfig"),
    history_length=t.COUNT_OR_NONE,
    return_immediately=t.FieldKind("not {field}", "not {value}", wire="blocking"),
)
_DROPPED = {"metadata": None, "tenant": None}
SEND = MessageMap(
    r.SendMessageRequest,
    message=t.required(MESSAGE, "request", "message"),
    configuration=t.always(CONFIGURATION),
    tenant=None,
    caller_names_task=None,
    idempotency_key=None,
)
NAMED_TASK = t.always(TASK_NAME, "name")
GET_TASK = MessageMap(r.GetTaskRequest, task_id=NAMED_TASK, history_length=t.COUNT_OR_NONE, **_DROPPED)
CANCEL_TASK = MessageMap(r.CancelTaskRequest, task_id=NAMED_TASK, **_DROPPED)
SUBSCRIBE = MessageMap(r.SubscribeToTaskRequest, task_id=NAMED_TASK, **_DROPPED)
LIST_PUSH_CONFIGS = MessageMap(
    r.ListPushConfigsRequest, task_id=t.always(TASK_NAME, "parent"), page_size=t.COUNT_OR_NONE, **_DROPPED
)


def decode_create_push_config(request: ProtoMessage) -> r.CreatePushConfigRequest:
    """A webhook to register."""
    task_id = t.at("parent", decode_task_name, request.parent)
    given = PUSH_CONFIG.decode(request.config.push_notification_config)
    config_id = given.id or real_id(request.config_id) or id_in_name(request.config.name)
    return r.CreatePushConfigRequest(task_id, structs.replace(given, task_id=task_id, id=config_id))


def encode_create_push_config(request: r.CreatePushConfigRequest) -> Fields:
    """A webhook to register in 0.3; it has a name only if it has an id."""
    config = request.config
    name = encode_config_name(request.task_id, config.id) if config.id else None
    return {
        "parent": encode_task_name(request.task_id),
        "config_id": config.id,
        "config": {"name": name, "push_notification_config": PUSH_CONFIG.encode(config)},
    }


def decode_get_push_config(request: ProtoMessage) -> r.GetPushConfigRequest:
    """A read of a webhook."""
    return r.GetPushConfigRequest(*decode_config_name(request.name))


def decode_delete_push_config(request: ProtoMessage) -> r.DeletePushConfigRequest:
    """A removal of a webhook; one that was registered without an id has the task's."""
    task_id, config_id = decode_config_name(request.name)
    return r.DeletePushConfigRequest(task_id, config_id or task_id)


def encode_config_reference(request: r.GetPushConfigRequest | r.DeletePushConfigRequest) -> Fields:
    """A read or a removal of a webhook in 0.3."""
    return {"name": encode_config_name(request.task_id, request.id)}


# --- the card ---------------------------------------------------------------------------------------------------------


def decode_interface(interface: ProtoMessage) -> tuple[str, str]:
    """An additional endpoint: its URL and its binding."""
    return interface.url or t.refuse("Missing or empty", "url"), interface.transport or t.refuse(
        "Missing or empty", "transport"
    )


def decode_interfaces(card: ProtoMessage) -> tuple[c.AgentInterface, ...]:
    """The main endpoint, then the additional ones without repeating it."""
    version = version_of_card(card.protocol_version, unstated=Version.V0_3)
    main = (card.url or t.refuse("Missing or empty", "url"), card.preferred_transport or c.Binding.JSONRPC.value)
    others = t.each("additionalInterfaces", decode_interface, card.additional_interfaces)
    return tuple([c.AgentInterface(url, binding, version) for url, binding in dict.fromkeys((main, *others))])


def encode_interfaces(interfaces: tuple[c.AgentInterface, ...]) -> Fields:
    """The endpoints of 0.3: the main one, and a list of all."""
    chosen = interfaces_for(interfaces, "0.3", "0.2", "0.1")
    main = chosen[0] if chosen else None
    return {
        "url": main and main.url,
        "preferred_transport": main and main.binding,
        "additional_interfaces": [{"url": i.url, "transport": i.binding} for i in chosen],
        "protocol_version": "0.3.0",
    }


CAPABILITIES = MessageMap(
    c.AgentCapabilities,
    streaming=t.PLAIN,
    push_notifications=t.PLAIN,
    extended_card=None,
    state_transition_history=None,
    extensions=t.repeated(v1_0.EXTENSION),
)


def decode_capabilities(card: ProtoMessage) -> c.AgentCapabilities:
    """What the agent can do. What it does not mention it cannot do: absent and false are the same here."""
    given = t.at("capabilities", CAPABILITIES.decode, card.capabilities)
    return structs.replace(given, extended_card=card.supports_authenticated_extended_card)


def encode_capabilities(capabilities: c.AgentCapabilities) -> Fields:
    """What the agent can do in 0.3."""
    return {
        "capabilities": CAPABILITIES.encode(capabilities),
        "supports_authenticated_extended_card": capabilities.extended_card,
    }


REQUIREMENTS = t.always(v1_0.REQUIREMENTS)
CARD = t.adapted(
    MessageMap(
        c.AgentCard,
        name=t.REQUIRED_TEXT,
        interfaces=t.spread(converter(decode_interfaces, encode_interfaces)),
        capabilities=t.spread(converter(decode_capabilities, encode_capabilities)),
        skills=t.repeated(MessageMap(c.AgentSkill, id=t.REQUIRED_TEXT, security=REQUIREMENTS)),
        provider=t.optional(v1_0.PROVIDER),
        security_schemes=t.always(v1_0.schemes_of(PACKAGE)),
        security=REQUIREMENTS,
        signatures=t.repeated(v1_0.SIGNATURE),
    ),
    before_encode=one_flow_per_scheme,
)

# --- the operations ---------------------------------------------------------------------------------------------------

DIALECT = protobuf_dialect(
    Version.V0_3,
    PACKAGE,
    {
        ops.SEND_MESSAGE: (SEND, SEND_RESULT),
        ops.SEND_STREAMING_MESSAGE: (SEND, None),
        ops.GET_TASK: (GET_TASK, TASK),
        ops.CANCEL_TASK: (CANCEL_TASK, TASK),
        ops.SUBSCRIBE_TO_TASK: (SUBSCRIBE, None),
        ops.CREATE_PUSH_CONFIG: (converter(decode_create_push_config, encode_create_push_config), TASK_PUSH_CONFIG),
        ops.GET_PUSH_CONFIG: (converter(decode_get_push_config, encode_config_reference), TASK_PUSH_CONFIG),
        ops.LIST_PUSH_CONFIGS: (LIST_PUSH_CONFIGS, PUSH_CONFIG_PAGE),
        ops.DELETE_PUSH_CONFIG: (converter(decode_delete_push_config, encode_config_reference), v1_0.NOTHING),
        ops.GET_EXTENDED_CARD: (MessageMap(r.GetExtendedCardRequest, tenant=None), CARD),
    },
    events=EVENT,
    cards=CARD,
)
