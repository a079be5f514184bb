"""A2A 0.3 in protobuf, package `a2a.v1`, as a2a-sdk 0.3 ships it: canonical values ⇄ messages.

Tasks and webhooks go by resource names, file bytes by base64 text (see `file_bytes`). What has no field travels
in metadata (see `carried`) or is dropped: tenants, metadata of requests other than send, stateTransitionHistory, device
code flows and PKCE. A number 0 and a flag `false` cannot be told from absent. Spec: 0.3.0 a2a.proto.
"""

from __future__ import annotations

import re

from msgspec import structs

from parley.dialects.carried import (
    REFERENCE_TASK_IDS,
    carry,
    carry_part,
    unload_part,
    unload_texts,
    unwrap_data,
    wrap_data,
)
from parley.dialects.fields import Fault
from parley.dialects.file_bytes import decode_file_bytes, encode_file_bytes
from parley.dialects.oauth_flows import one_flow_per_scheme
from parley.dialects.protobuf_dialect import (
    Codec,
    Fields,
    ProtobufDialect,
    decode_at,
    decode_count,
    decode_each,
    decode_enum,
    decode_metadata,
    decode_optional,
    decode_required,
    decode_struct,
    decode_timestamp,
    encode_struct,
    encode_timestamp,
    required,
)
from parley.dialects.protobuf_pool import ProtoMessage
from parley.dialects.protobuf_v1_0 import (
    ROLE_NUMBERS,
    ROLES,
    STATE_NUMBERS,
    STATES,
    decode_extension,
    decode_nothing,
    decode_provider,
    decode_requirements,
    decode_schemes,
    decode_signature,
    encode_extension,
    encode_nothing,
    encode_provider,
    encode_requirements,
    encode_schemes,
    encode_signature,
)
from parley.dialects.resource_names import id_in_name, real_id
from parley.dialects.v0_3_card import interfaces_for, version_of_card
from parley.protocol import cards as c
from parley.protocol import messages as m
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.errors import LocalProtocolError
from parley.protocol.events import ArtifactUpdate, StatusUpdate, StreamEvent
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.lifecycle import ends_stream
from parley.protocol.push import PushAuthentication, PushConfig
from parley.protocol.tasks import Artifact, Task, TaskStatus
from parley.protocol.versions import Version

PACKAGE = "a2a.v1"

# --- messages and tasks -----------------------------------------------------------------------------------------------


def decode_part(part: ProtoMessage) -> m.Part:
    """A part, by the one content it has."""
    metadata = decode_metadata(part)
    match part.WhichOneof("part"):
        case "text":
            return m.TextPart(part.text, *unload_part(metadata))
        case "file":
            return decode_file(part.file, metadata)
        case "data":
            return unwrap_data(decode_at("data", decode_struct, part.data.data), metadata)
        case _:
            raise Fault("A part has exactly one of text, file and data; this one has none")


def encode_part(part: m.Part) -> Fields:
    """A part in 0.3."""
    if isinstance(part, m.TextPart):
        return {"text": part.text, "metadata": encode_struct(carry_part(part))}
    if isinstance(part, m.DataPart):
        data, metadata = wrap_data(part)
        return {"data": {"data": encode_struct(data)}, "metadata": encode_struct(metadata)}
    return {"file": encode_file(part), "metadata": encode_struct(part.metadata)}


def decode_file(file: ProtoMessage, metadata: JsonObject) -> m.RawPart | m.UrlPart:
    """A file, by its bytes or its address."""
    rest = (file.mime_type or None, file.name or None, metadata)
    match file.WhichOneof("file"):
        case "file_with_bytes":
            return m.RawPart(decode_file_bytes(file.file_with_bytes), *rest)
        case "file_with_uri":
            return m.UrlPart(file.file_with_uri, *rest)
        case _:
            raise Fault("A file has bytes or a URI; this one has neither")


def encode_file(part: m.RawPart | m.UrlPart) -> Fields:
    """A file in 0.3."""
    fields: Fields = {"mime_type": part.media_type, "name": part.filename}
    if isinstance(part, m.RawPart):
        return fields | {"file_with_bytes": encode_file_bytes(part.raw)}
    return fields | {"file_with_uri": part.url}


def decode_message(message: ProtoMessage) -> m.Message:
    """A message."""
    metadata = decode_metadata(message)
    reference_task_ids, metadata = unload_texts(metadata, REFERENCE_TASK_IDS)
    return m.Message(
        required("messageId", message.message_id),
        decode_enum("role", ROLES, message.role),
        required("parts", decode_each("parts", decode_part, message.content)),
        message.context_id or None,
        message.task_id or None,
        metadata,
        tuple(message.extensions),
        reference_task_ids,
    )


def encode_message(message: m.Message) -> Fields:
    """A message in 0.3."""
    return {
        "message_id": message.message_id,
        "role": ROLE_NUMBERS[message.role],
        "content": [encode_part(part) for part in message.parts],
        "context_id": message.context_id,
        "task_id": message.task_id,
        "metadata": encode_struct(carry(message.metadata, {REFERENCE_TASK_IDS: list(message.reference_task_ids)})),
        "extensions": message.extensions,
    }


def decode_status(status: ProtoMessage) -> TaskStatus:
    """A task's status."""
    # a2a-sdk 0.3 reads an absent message as an empty one, and passes that on.
    has_message = status.update.message_id or status.update.content
    return TaskStatus(
        decode_enum("state", STATES, status.state),
        decode_at("message", decode_message, status.update) if has_message else None,
        decode_optional("timestamp", decode_timestamp, status, "timestamp"),
    )


def encode_status(status: TaskStatus) -> Fields:
    """A task's status in 0.3."""
    return {
        "state": STATE_NUMBERS[status.state],
        "update": encode_message(status.message) if status.message else None,
        "timestamp": encode_timestamp(status.timestamp),
    }


def decode_artifact(artifact: ProtoMessage) -> Artifact:
    """An artifact."""
    return Artifact(
        required("artifactId", artifact.artifact_id),
        required("parts", decode_each("parts", decode_part, artifact.parts)),
        artifact.name or None,
        artifact.description or None,
        decode_metadata(artifact),
        tuple(artifact.extensions),
    )


def encode_artifact(artifact: Artifact) -> Fields:
    """An artifact in 0.3."""
    return {
        "artifact_id": artifact.artifact_id,
        "parts": [encode_part(part) for part in artifact.parts],
        "name": artifact.name,
        "description": artifact.description,
        "metadata": encode_struct(artifact.metadata),
        "extensions": artifact.extensions,
    }


def decode_task(task: ProtoMessage) -> Task:
    """A task."""
    return Task(
        required("id", task.id),
        task.context_id or None,
        decode_required("status", decode_status, task, "status"),
        decode_each("artifacts", decode_artifact, task.artifacts),
        decode_each("history", decode_message, task.history),
        decode_metadata(task),
    )


def encode_task(task: Task) -> Fields:
    """A task in 0.3."""
    return {
        "id": task.id,
        "context_id": task.context_id,
        "status": encode_status(task.status),
        "artifacts": [encode_artifact(artifact) for artifact in task.artifacts],
        "history": [encode_message(message) for message in task.history],
        "metadata": encode_struct(task.metadata),
    }


# --- what agents answer -----------------------------------------------------------------------------------------------


def decode_status_update(update: ProtoMessage) -> StatusUpdate:
    """A change of status; `final` is kept where the state does not say it."""
    status = decode_required("status", decode_status, update, "status")
    return StatusUpdate(
        required("taskId", update.task_id),
        update.context_id or None,
        status,
        decode_metadata(update),
        update.final and not ends_stream(status.state),
    )


def encode_status_update(update: StatusUpdate) -> Fields:
    """A change of status in 0.3."""
    return {
        "task_id": update.task_id,
        "context_id": update.context_id,
        "status": encode_status(update.status),
        "final": update.final or ends_stream(update.status.state),
        "metadata": encode_struct(update.metadata),
    }


def decode_artifact_update(update: ProtoMessage) -> ArtifactUpdate:
    """An artifact, or more of one."""
    return ArtifactUpdate(
        required("taskId", update.task_id),
        update.context_id or None,
        decode_required("artifact", decode_artifact, update, "artifact"),
        update.append,
        update.last_chunk,
        decode_metadata(update),
    )


def encode_artifact_update(update: ArtifactUpdate) -> Fields:
    """An artifact, or more of one, in 0.3."""
    return {
        "task_id": update.task_id,
        "context_id": update.context_id,
        "artifact": encode_artifact(update.artifact),
        "append": update.append,
        "last_chunk": update.last_chunk,
        "metadata": encode_struct(update.metadata),
    }


def decode_event(response: ProtoMessage) -> StreamEvent:
    """A stream event, by the one payload it has."""
    match response.WhichOneof("payload"):
        case "artifact_update":
            return decode_at("artifactUpdate", decode_artifact_update, response.artifact_update)
        case "status_update":
            return decode_at("statusUpdate", decode_status_update, response.status_update)
        case _:
            return decode_send_result(response)


def encode_event(event: StreamEvent) -> Fields:
    """A stream event in 0.3."""
    if isinstance(event, ArtifactUpdate):
        return {"artifact_update": encode_artifact_update(event)}
    if isinstance(event, StatusUpdate):
        return {"status_update": encode_status_update(event)}
    return encode_send_result(event)


def decode_send_result(response: ProtoMessage) -> Task | m.Message:
    """The answer to a send, by the one payload it has."""
    match response.WhichOneof("payload"):
        case "task":
            return decode_at("task", decode_task, response.task)
        case "msg":
            return decode_at("message", decode_message, response.msg)
        case _:
            raise Fault("Neither a task nor a message")


def encode_send_result(result: Task | m.Message) -> Fields:
    """The answer to a send in 0.3."""
    if isinstance(result, Task):
        return {"task": encode_task(result)}
    return {"msg": encode_message(result)}


# --- resource names ---------------------------------------------------------------------------------------------------

_TASK_NAME = re.compile(r"tasks/([^/]+)")
_CONFIG_NAME = re.compile(r"tasks/([^/]+)/pushNotificationConfigs/([^/]+)")
# What the server of a2a-sdk 0.3 calls a webhook that came with a send and has no id.
_NAMELESS_CONFIG = re.compile(r"tasks/([^/]+)/pushNotificationConfigs/")


def decode_task_name(field: str, name: str) -> str:
    """The id of a task: `tasks/t1` is `t1`."""
    found = _TASK_NAME.fullmatch(name)
    if found is None:
        raise Fault("Not of the form tasks/{id}", f"$.{field}")
    return found[1]


def encode_task_name(task_id: str | None) -> str:
    """The name of a task."""
    return f"tasks/{_segment(task_id)}"


def decode_config_name(name: str) -> tuple[str, str | None]:
    """The ids of a task and of its webhook."""
    found = _CONFIG_NAME.fullmatch(name)
    if found is None:
        raise Fault("Not of the form tasks/{id}/pushNotificationConfigs/{id}", "$.name")
    return found[1], real_id(found[2])


def encode_config_name(task_id: str | None, config_id: str | None) -> str:
    """The name of a webhook; one that was registered without an id has the task's."""
    return f"{encode_task_name(task_id)}/pushNotificationConfigs/{_segment(config_id or task_id)}"


def _segment(identifier: str | None) -> str:
    if not identifier or "/" in identifier:
        raise LocalProtocolError(f"No name in A2A 0.3 for the id {identifier!r}")
    return identifier


# --- push notifications -----------------------------------------------------------------------------------------------


def decode_push_config(config: ProtoMessage) -> PushConfig:
    """A webhook, without its task."""
    return PushConfig(
        required("url", config.url),
        None,
        config.id or None,
        config.token or None,
        decode_optional("authentication", decode_authentication, config, "authentication"),
    )


def encode_push_config(config: PushConfig) -> Fields:
    """A webhook in 0.3, without its task."""
    given = config.authentication
    return {
        "url": config.url,
        "id": config.id,
        "token": config.token,
        "authentication": {"schemes": given.schemes, "credentials": given.credentials} if given else None,
    }


def decode_authentication(authentication: ProtoMessage) -> PushAuthentication:
    """How a webhook wants to be called."""
    return PushAuthentication(tuple(authentication.schemes), authentication.credentials or None)


def decode_task_push_config(config: ProtoMessage) -> PushConfig:
    """A webhook of a task."""
    nameless = _NAMELESS_CONFIG.fullmatch(config.name)
    task_id, config_id = (nameless[1], None) if nameless else decode_config_name(config.name)
    given = decode_push_config(config.push_notification_config)
    return structs.replace(given, task_id=task_id, id=given.id or config_id)


def encode_task_push_config(config: PushConfig) -> Fields:
    """A webhook of a task in 0.3."""
    return {
        "name": encode_config_name(config.task_id, config.id),
        "push_notification_config": encode_push_config(config),
    }


def decode_push_config_page(page: ProtoMessage) -> r.PushConfigPage:
    """A page of webhooks."""
    configs = decode_each("configs", decode_task_push_config, page.configs)
    return r.PushConfigPage(configs, page.next_page_token or None)


def encode_push_config_page(page: r.PushConfigPage) -> Fields:
    """A page of webhooks in 0.3."""
    return {
        "configs": [encode_task_push_config(config) for config in page.configs],
        "next_page_token": page.next_page_token,
    }


# --- what callers ask -------------------------------------------------------------------------------------------------


def decode_configuration(configuration: ProtoMessage) -> r.SendConfiguration:
    """How the caller wants its answer."""
    return r.SendConfiguration(
        tuple(configuration.accepted_output_modes),
        decode_optional("taskPushNotificationConfig", decode_push_config, configuration, "push_notification"),
        decode_count("historyLength", configuration.history_length) or None,
        not configuration.blocking,
    )


def encode_configuration(configuration: r.SendConfiguration) -> Fields:
    """How the caller wants its answer in 0.3."""
    push = configuration.push_config
    return {
        "accepted_output_modes": configuration.accepted_output_modes,
        "push_notification": encode_push_config(push) if push else None,
        "history_length": configuration.history_length,
        "blocking": not configuration.return_immediately,
    }


def decode_send(request: ProtoMessage) -> r.SendMessageRequest:
    """A send."""
    return r.SendMessageRequest(
        decode_required("message", decode_message, request, "request"),
        decode_at("configuration", decode_configuration, request.configuration),
        decode_metadata(request),
    )


def encode_send(request: r.SendMessageRequest) -> Fields:
    """A send in 0.3."""
    return {
        "request": encode_message(request.message),
        "configuration": encode_configuration(request.configuration),
        "metadata": encode_struct(request.metadata),
    }


def decode_get_task(request: ProtoMessage) -> r.GetTaskRequest:
    """A read of a task."""
    history_length = decode_count("historyLength", request.history_length) or None
    return r.GetTaskRequest(decode_task_name("name", request.name), history_length)


def encode_get_task(request: r.GetTaskRequest) -> Fields:
    """A read of a task in 0.3."""
    return {"name": encode_task_name(request.task_id), "history_length": request.history_length}


def decode_cancel_task(request: ProtoMessage) -> r.CancelTaskRequest:
    """A cancel."""
    return r.CancelTaskRequest(decode_task_name("name", request.name))


def decode_subscribe(request: ProtoMessage) -> r.SubscribeToTaskRequest:
    """A subscription."""
    return r.SubscribeToTaskRequest(decode_task_name("name", request.name))


def encode_task_reference(request: r.CancelTaskRequest | r.SubscribeToTaskRequest) -> Fields:
    """A cancel or a subscription in 0.3."""
    return {"name": encode_task_name(request.task_id)}


def decode_create_push_config(request: ProtoMessage) -> r.CreatePushConfigRequest:
    """A webhook to register."""
    task_id = decode_task_name("parent", request.parent)
    given = decode_push_config(request.config.push_notification_config)
    config_id = given.id or real_id(request.config_id) or id_in_name(request.config.name)
    config = structs.replace(given, task_id=task_id, id=config_id)
    return r.CreatePushConfigRequest(task_id, config)


def encode_create_push_config(request: r.CreatePushConfigRequest) -> Fields:
    """A webhook to register in 0.3; it has a name only if it has an id."""
    config = request.config
    return {
        "parent": encode_task_name(request.task_id),
        "config_id": config.id,
        "config": {
            "name": encode_config_name(request.task_id, config.id) if config.id else None,
            "push_notification_config": encode_push_config(config),
        },
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


def decode_list_push_configs(request: ProtoMessage) -> r.ListPushConfigsRequest:
    """A list of webhooks; 0 is no page size."""
    return r.ListPushConfigsRequest(
        decode_task_name("parent", request.parent),
        decode_count("pageSize", request.page_size) or None,
        request.page_token or None,
    )


def encode_list_push_configs(request: r.ListPushConfigsRequest) -> Fields:
    """A list of webhooks in 0.3."""
    return {
        "parent": encode_task_name(request.task_id),
        "page_size": request.page_size,
        "page_token": request.page_token,
    }


def decode_get_card(request: ProtoMessage) -> r.GetExtendedCardRequest:
    """A read of the extended card."""
    return r.GetExtendedCardRequest()


def encode_get_card(request: r.GetExtendedCardRequest) -> Fields:
    """A read of the extended card in 0.3."""
    return {}


# --- the card ---------------------------------------------------------------------------------------------------------


def decode_interfaces(card: ProtoMessage) -> tuple[c.AgentInterface, ...]:
    """The main endpoint, then the additional ones without repeating it."""
    version = version_of_card(card.protocol_version, unstated=Version.V0_3)
    main = (required("url", card.url), card.preferred_transport or c.Binding.JSONRPC.value)
    others = decode_each("additionalInterfaces", decode_interface, card.additional_interfaces)
    return tuple([c.AgentInterface(url, binding, version) for url, binding in dict.fromkeys((main, *others))])


def decode_interface(interface: ProtoMessage) -> tuple[str, str]:
    """An additional endpoint: its URL and its binding."""
    return required("url", interface.url), required("transport", interface.transport)


def encode_interfaces(card: c.AgentCard) -> Fields:
    """The endpoints that speak 0.3: the main one first, all are listed."""
    interfaces = interfaces_for(card, "0.3", "0.2", "0.1")
    main = interfaces[0] if interfaces else None
    return {
        "url": main and main.url,
        "preferred_transport": main and main.binding,
        "additional_interfaces": [{"url": i.url, "transport": i.binding} for i in interfaces],
        "protocol_version": "0.3.0",
    }


def decode_skill(skill: ProtoMessage) -> c.AgentSkill:
    """A skill."""
    return c.AgentSkill(
        required("id", skill.id),
        skill.name,
        skill.description,
        tuple(skill.tags),
        tuple(skill.examples),
        tuple(skill.input_modes),
        tuple(skill.output_modes),
        decode_requirements(skill.security),
    )


def encode_skill(skill: c.AgentSkill) -> Fields:
    """A skill in 0.3."""
    return {
        "id": skill.id,
        "name": skill.name,
        "description": skill.description,
        "tags": skill.tags,
        "examples": skill.examples,
        "input_modes": skill.input_modes,
        "output_modes": skill.output_modes,
        "security": encode_requirements(skill.security, PACKAGE),
    }


def decode_capabilities(card: ProtoMessage) -> c.AgentCapabilities:
    """What the agent can do. What it does not mention it cannot do: absent and false are the same here."""
    given = card.capabilities
    return c.AgentCapabilities(
        given.streaming,
        given.push_notifications,
        card.supports_authenticated_extended_card,
        extensions=decode_each("capabilities.extensions", decode_extension, given.extensions),
    )


def encode_capabilities(capabilities: c.AgentCapabilities) -> Fields:
    """What the agent can do in 0.3."""
    return {
        "streaming": capabilities.streaming,
        "push_notifications": capabilities.push_notifications,
        "extensions": [encode_extension(extension) for extension in capabilities.extensions],
    }


def decode_card(card: ProtoMessage) -> c.AgentCard:
    """A card. Empty members that 0.3 requires are accepted where an agent can be called without them."""
    return c.AgentCard(
        name=required("name", card.name),
        description=card.description,
        version=card.version,
        interfaces=decode_interfaces(card),
        capabilities=decode_capabilities(card),
        skills=decode_each("skills", decode_skill, card.skills),
        default_input_modes=tuple(card.default_input_modes),
        default_output_modes=tuple(card.default_output_modes),
        provider=decode_optional("provider", decode_provider, card, "provider"),
        documentation_url=card.documentation_url or None,
        icon_url=card.icon_url or None,
        security_schemes=decode_schemes(card.security_schemes),
        security=decode_requirements(card.security),
        signatures=decode_each("signatures", decode_signature, card.signatures),
    )


def encode_card(card: c.AgentCard) -> Fields:
    """A card in 0.3; a scheme with several OAuth flows becomes several schemes."""
    card = one_flow_per_scheme(card)
    return encode_interfaces(card) | {
        "name": card.name,
        "description": card.description,
        "version": card.version,
        "capabilities": encode_capabilities(card.capabilities),
        "supports_authenticated_extended_card": card.capabilities.extended_card,
        "skills": [encode_skill(skill) for skill in card.skills],
        "default_input_modes": card.default_input_modes,
        "default_output_modes": card.default_output_modes,
        "provider": encode_provider(card.provider),
        "documentation_url": card.documentation_url,
        "icon_url": card.icon_url,
        "security_schemes": encode_schemes(card.security_schemes, PACKAGE),
        "security": encode_requirements(card.security, PACKAGE),
        "signatures": [encode_signature(signature) for signature in card.signatures],
    }


# --- the table --------------------------------------------------------------------------------------------------------

_send = Codec(decode_send, encode_send)
_task = Codec(decode_task, encode_task)
_push_config = Codec(decode_task_push_config, encode_task_push_config)
_card = Codec(decode_card, encode_card)

DIALECT = ProtobufDialect(
    version=Version.V0_3,
    package=PACKAGE,
    requests={
        ops.SEND_MESSAGE.name: _send,
        ops.SEND_STREAMING_MESSAGE.name: _send,
        ops.GET_TASK.name: Codec(decode_get_task, encode_get_task),
        ops.CANCEL_TASK.name: Codec(decode_cancel_task, encode_task_reference),
        ops.SUBSCRIBE_TO_TASK.name: Codec(decode_subscribe, encode_task_reference),
        ops.CREATE_PUSH_CONFIG.name: Codec(decode_create_push_config, encode_create_push_config),
        ops.GET_PUSH_CONFIG.name: Codec(decode_get_push_config, encode_config_reference),
        ops.LIST_PUSH_CONFIGS.name: Codec(decode_list_push_configs, encode_list_push_configs),
        ops.DELETE_PUSH_CONFIG.name: Codec(decode_delete_push_config, encode_config_reference),
        ops.GET_EXTENDED_CARD.name: Codec(decode_get_card, encode_get_card),
    },
    results={
        ops.SEND_MESSAGE.name: Codec(decode_send_result, encode_send_result),
        ops.GET_TASK.name: _task,
        ops.CANCEL_TASK.name: _task,
        ops.CREATE_PUSH_CONFIG.name: _push_config,
        ops.GET_PUSH_CONFIG.name: _push_config,
        ops.LIST_PUSH_CONFIGS.name: Codec(decode_push_config_page, encode_push_config_page),
        ops.DELETE_PUSH_CONFIG.name: Codec(decode_nothing, encode_nothing),
        ops.GET_EXTENDED_CARD.name: _card,
    },
    events=Codec(decode_event, encode_event),
    cards=_card,
)
