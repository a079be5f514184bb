"""A2A 1.0 in protobuf, package `lf.a2a.v1`: canonical values ⇄ messages, without a detour through JSON.

1.0 has a field for nearly everything; what it lacks is dropped: an artifact's 0.1 index, `final`, the card's
stateTransitionHistory, all but the first scheme of a webhook's authentication, and the metadata of requests other than
send and cancel. Spec: 1.0 a2a.proto; required members as its text says.
"""

from __future__ import annotations

from msgspec import structs

from parley.dialects.fields import Fault
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
    decode_value,
    encode_struct,
    encode_timestamp,
    encode_value,
    required,
)
from parley.dialects.protobuf_pool import ProtoMessage, message_class
from parley.protocol import cards as c
from parley.protocol import messages as m
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.events import ArtifactUpdate, StatusUpdate, StreamEvent
from parley.protocol.push import PushAuthentication, PushConfig
from parley.protocol.tasks import Artifact, Task, TaskState, TaskStatus
from parley.protocol.versions import Version, without_patch

PACKAGE = "lf.a2a.v1"

# --- messages and tasks -----------------------------------------------------------------------------------------------

# The numbers are those of 0.3, too.
ROLES = {1: m.Role.USER, 2: m.Role.AGENT}
ROLE_NUMBERS = {role: number for number, role in ROLES.items()}
STATES = {
    0: TaskState.UNKNOWN,
    1: TaskState.SUBMITTED,
    2: TaskState.WORKING,
    3: TaskState.COMPLETED,
    4: TaskState.FAILED,
    5: TaskState.CANCELED,
    6: TaskState.INPUT_REQUIRED,
    7: TaskState.REJECTED,
    8: TaskState.AUTH_REQUIRED,
}
STATE_NUMBERS = {state: number for number, state in STATES.items()}


def decode_part(part: ProtoMessage) -> m.Part:
    """A part, by the one content it has."""
    rest = (part.media_type or None, part.filename or None, decode_metadata(part))
    match part.WhichOneof("content"):
        case "text":
            return m.TextPart(part.text, *rest)
        case "raw":
            return m.RawPart(part.raw, *rest)
        case "url":
            return m.UrlPart(part.url, *rest)
        case "data":
            return m.DataPart(decode_at("data", decode_value, part.data), *rest)
        case _:
            raise Fault("A part has exactly one of text, raw, url and data; this one has none")


def encode_part(part: m.Part) -> Fields:
    """A part in 1.0, which has a member for everything."""
    rest: Fields = {
        "media_type": part.media_type,
        "filename": part.filename,
        "metadata": encode_struct(part.metadata),
    }
    if isinstance(part, m.TextPart):
        return rest | {"text": part.text}
    if isinstance(part, m.RawPart):
        return rest | {"raw": part.raw}
    if isinstance(part, m.UrlPart):
        return rest | {"url": part.url}
    return rest | {"data": encode_value(part.data)}


def decode_message(message: ProtoMessage) -> m.Message:
    """A message."""
    return m.Message(
        required("messageId", message.message_id),
        decode_enum("role", ROLES, message.role),
        required("parts", decode_each("parts", decode_part, message.parts)),
        message.context_id or None,
        message.task_id or None,
        decode_metadata(message),
        tuple(message.extensions),
        tuple(message.reference_task_ids),
    )


def encode_message(message: m.Message) -> Fields:
    """A message in 1.0."""
    return {
        "message_id": message.message_id,
        "role": ROLE_NUMBERS[message.role],
        "parts": [encode_part(part) for part in message.parts],
        "context_id": message.context_id,
        "task_id": message.task_id,
        "metadata": encode_struct(message.metadata),
        "extensions": message.extensions,
        "reference_task_ids": message.reference_task_ids,
    }


def decode_status(status: ProtoMessage) -> TaskStatus:
    """A task's status."""
    return TaskStatus(
        decode_enum("state", STATES, status.state),
        decode_optional("message", decode_message, status, "message"),
        decode_optional("timestamp", decode_timestamp, status, "timestamp"),
    )


def encode_status(status: TaskStatus) -> Fields:
    """A task's status in 1.0."""
    return {
        "state": STATE_NUMBERS[status.state],
        "message": encode_message(status.message) if status.message else None,
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
    """An artifact in 1.0."""
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
    """A task in 1.0."""
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
    """A change of status."""
    return StatusUpdate(
        required("taskId", update.task_id),
        update.context_id or None,
        decode_required("status", decode_status, update, "status"),
        decode_metadata(update),
    )


def encode_status_update(update: StatusUpdate) -> Fields:
    """A change of status in 1.0."""
    return {
        "task_id": update.task_id,
        "context_id": update.context_id,
        "status": encode_status(update.status),
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
    """An artifact, or more of one, in 1.0."""
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
    """A stream event in 1.0."""
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
        case "message":
            return decode_at("message", decode_message, response.message)
        case _:
            raise Fault("Neither a task nor a message")


def encode_send_result(result: Task | m.Message) -> Fields:
    """The answer to a send in 1.0."""
    if isinstance(result, Task):
        return {"task": encode_task(result)}
    return {"message": encode_message(result)}


def decode_task_page(page: ProtoMessage) -> r.TaskPage:
    """A page of tasks."""
    return r.TaskPage(
        decode_each("tasks", decode_task, page.tasks),
        page.next_page_token,
        decode_count("pageSize", page.page_size),
        decode_count("totalSize", page.total_size),
    )


def encode_task_page(page: r.TaskPage) -> Fields:
    """A page of tasks in 1.0."""
    return {
        "tasks": [encode_task(task) for task in page.tasks],
        "next_page_token": page.next_page_token,
        "page_size": page.page_size,
        "total_size": page.total_size,
    }


def decode_push_config_page(page: ProtoMessage) -> r.PushConfigPage:
    """A page of webhooks."""
    return r.PushConfigPage(decode_each("configs", decode_push_config, page.configs), page.next_page_token or None)


def encode_push_config_page(page: r.PushConfigPage) -> Fields:
    """A page of webhooks in 1.0."""
    return {
        "configs": [encode_push_config(config) for config in page.configs],
        "next_page_token": page.next_page_token,
    }


def decode_nothing(empty: ProtoMessage) -> None:
    """The answer to a deletion."""


def encode_nothing(result: None) -> Fields:
    """The answer to a deletion: google.protobuf.Empty."""
    return {}


# --- what callers ask -------------------------------------------------------------------------------------------------


def decode_authentication(authentication: ProtoMessage) -> PushAuthentication:
    """How a webhook wants to be called."""
    return PushAuthentication((required("scheme", authentication.scheme),), authentication.credentials or None)


def encode_authentication(authentication: PushAuthentication | None) -> Fields | None:
    """How a webhook wants to be called in 1.0, which names one scheme: the first."""
    if authentication is None or not authentication.schemes:
        return None
    return {"scheme": authentication.schemes[0], "credentials": authentication.credentials}


def decode_push_config(config: ProtoMessage) -> PushConfig:
    """A webhook."""
    return PushConfig(
        required("url", config.url),
        config.task_id or None,
        config.id or None,
        config.token or None,
        decode_optional("authentication", decode_authentication, config, "authentication"),
        config.tenant or None,
    )


def decode_inline_push_config(config: ProtoMessage) -> PushConfig:
    """A webhook in a send, to whose task and tenant it belongs, whatever the caller says."""
    return structs.replace(decode_push_config(config), task_id=None, tenant=None)


def encode_push_config(config: PushConfig) -> Fields:
    """A webhook in 1.0."""
    return {
        "url": config.url,
        "task_id": config.task_id,
        "id": config.id,
        "token": config.token,
        "authentication": encode_authentication(config.authentication),
        "tenant": config.tenant,
    }


def decode_configuration(configuration: ProtoMessage) -> r.SendConfiguration:
    """How the caller wants its answer."""
    return r.SendConfiguration(
        tuple(configuration.accepted_output_modes),
        decode_optional(
            "taskPushNotificationConfig", decode_inline_push_config, configuration, "task_push_notification_config"
        ),
        decode_history_length(configuration),
        configuration.return_immediately,
    )


def encode_configuration(configuration: r.SendConfiguration) -> Fields:
    """How the caller wants its answer in 1.0."""
    push = configuration.push_config
    return {
        "accepted_output_modes": configuration.accepted_output_modes,
        "task_push_notification_config": encode_push_config(push) if push else None,
        "history_length": configuration.history_length,
        "return_immediately": configuration.return_immediately,
    }


def decode_history_length(request: ProtoMessage) -> int | None:
    """How much history is asked for; 0 means none, absent leaves it to the agent."""
    if not request.HasField("history_length"):
        return None
    return decode_count("historyLength", request.history_length)


def decode_send(request: ProtoMessage) -> r.SendMessageRequest:
    """A send."""
    return r.SendMessageRequest(
        decode_required("message", decode_message, request, "message"),
        decode_at("configuration", decode_configuration, request.configuration),
        decode_metadata(request),
        request.tenant or None,
    )


def encode_send(request: r.SendMessageRequest) -> Fields:
    """A send in 1.0."""
    return {
        "message": encode_message(request.message),
        "configuration": encode_configuration(request.configuration),
        "metadata": encode_struct(request.metadata),
        "tenant": request.tenant,
    }


def decode_get_task(request: ProtoMessage) -> r.GetTaskRequest:
    """A read of a task."""
    return r.GetTaskRequest(required("id", request.id), decode_history_length(request), tenant=request.tenant or None)


def encode_get_task(request: r.GetTaskRequest) -> Fields:
    """A read of a task in 1.0."""
    return {"id": request.task_id, "history_length": request.history_length, "tenant": request.tenant}


def decode_list_tasks(request: ProtoMessage) -> r.ListTasksRequest:
    """A list of tasks; the unspecified state is no filter."""
    state = decode_enum("status", STATES, request.status)
    return r.ListTasksRequest(
        request.context_id or None,
        None if state is TaskState.UNKNOWN else state,
        decode_page_size(request),
        request.page_token or None,
        decode_history_length(request),
        decode_optional("statusTimestampAfter", decode_timestamp, request, "status_timestamp_after"),
        request.include_artifacts,
        request.tenant or None,
    )


def encode_list_tasks(request: r.ListTasksRequest) -> Fields:
    """A list of tasks in 1.0."""
    return {
        "context_id": request.context_id,
        "status": STATE_NUMBERS[request.state] if request.state else None,
        "page_size": request.page_size,
        "page_token": request.page_token,
        "history_length": request.history_length,
        "status_timestamp_after": encode_timestamp(request.status_timestamp_after),
        "include_artifacts": request.include_artifacts or None,
        "tenant": request.tenant,
    }


def decode_page_size(request: ProtoMessage) -> int | None:
    """How many tasks a page may hold: 1 to 100."""
    if not request.HasField("page_size"):
        return None
    if not 1 <= request.page_size <= 100:
        raise Fault("Not between 1 and 100", "$.pageSize")
    return request.page_size


def decode_cancel_task(request: ProtoMessage) -> r.CancelTaskRequest:
    """A cancel."""
    metadata = decode_metadata(request)
    return r.CancelTaskRequest(required("id", request.id), metadata, request.tenant or None)


def encode_cancel_task(request: r.CancelTaskRequest) -> Fields:
    """A cancel in 1.0."""
    return {"id": request.task_id, "metadata": encode_struct(request.metadata), "tenant": request.tenant}


def decode_subscribe(request: ProtoMessage) -> r.SubscribeToTaskRequest:
    """A subscription."""
    return r.SubscribeToTaskRequest(required("id", request.id), tenant=request.tenant or None)


def encode_subscribe(request: r.SubscribeToTaskRequest) -> Fields:
    """A subscription in 1.0."""
    return {"id": request.task_id, "tenant": request.tenant}


def decode_create_push_config(config: ProtoMessage) -> r.CreatePushConfigRequest:
    """A webhook to register; in 1.0 the config itself is the request."""
    task_id = required("taskId", config.task_id)
    return r.CreatePushConfigRequest(task_id, decode_push_config(config), tenant=config.tenant or None)


def encode_create_push_config(request: r.CreatePushConfigRequest) -> Fields:
    """A webhook to register in 1.0."""
    return encode_push_config(request.config) | {"task_id": request.task_id, "tenant": request.tenant}


def decode_get_push_config(request: ProtoMessage) -> r.GetPushConfigRequest:
    """A read of a webhook."""
    return r.GetPushConfigRequest(
        required("taskId", request.task_id), required("id", request.id), tenant=request.tenant or None
    )


def encode_get_push_config(request: r.GetPushConfigRequest) -> Fields:
    """A read of a webhook in 1.0; one that was registered without an id has the task's."""
    return {"task_id": request.task_id, "id": request.id or request.task_id, "tenant": request.tenant}


def decode_list_push_configs(request: ProtoMessage) -> r.ListPushConfigsRequest:
    """A list of webhooks; 0 is no page size."""
    return r.ListPushConfigsRequest(
        required("taskId", request.task_id),
        decode_count("pageSize", request.page_size) or None,
        request.page_token or None,
        tenant=request.tenant or None,
    )


def encode_list_push_configs(request: r.ListPushConfigsRequest) -> Fields:
    """A list of webhooks in 1.0."""
    return {
        "task_id": request.task_id,
        "page_size": request.page_size,
        "page_token": request.page_token,
        "tenant": request.tenant,
    }


def decode_delete_push_config(request: ProtoMessage) -> r.DeletePushConfigRequest:
    """A removal of a webhook."""
    return r.DeletePushConfigRequest(
        required("taskId", request.task_id), required("id", request.id), tenant=request.tenant or None
    )


def encode_delete_push_config(request: r.DeletePushConfigRequest) -> Fields:
    """A removal of a webhook in 1.0."""
    return {"task_id": request.task_id, "id": request.id, "tenant": request.tenant}


def decode_get_card(request: ProtoMessage) -> r.GetExtendedCardRequest:
    """A read of the extended card."""
    return r.GetExtendedCardRequest(request.tenant or None)


def encode_get_card(request: r.GetExtendedCardRequest) -> Fields:
    """A read of the extended card in 1.0."""
    return {"tenant": request.tenant}


# --- security: the same messages in both packages, but for what 1.0 added to OAuth ------------------------------------


def decode_requirements(requirements: ProtoMessage) -> tuple[c.SecurityRequirement, ...]:
    """Alternatives, each a set of schemes with the scopes they need."""
    return tuple(
        {name: tuple(scopes.list) for name, scopes in requirement.schemes.items()} for requirement in requirements
    )


def encode_requirements(requirements: tuple[c.SecurityRequirement, ...], package: str) -> list[Fields]:
    """Alternatives in either package."""
    scope_list = message_class(f"{package}.StringList")
    return [
        {"schemes": {name: scope_list(list=scopes) for name, scopes in requirement.items()}}
        for requirement in requirements
    ]


def decode_schemes(schemes: ProtoMessage) -> dict[str, c.SecurityScheme]:
    """The security schemes of a card by name, without those of a kind that only later releases know."""
    known = {name: scheme for name, scheme in schemes.items() if scheme.WhichOneof("scheme")}
    return {name: decode_at(f"securitySchemes.{name}", decode_scheme, scheme) for name, scheme in known.items()}


def encode_schemes(schemes: dict[str, c.SecurityScheme], package: str) -> dict[str, ProtoMessage]:
    """The security schemes of a card in either package."""
    scheme_class = message_class(f"{package}.SecurityScheme")
    return {name: scheme_class(**encode_scheme(scheme, package)) for name, scheme in schemes.items()}


def decode_scheme(scheme: ProtoMessage) -> c.SecurityScheme:
    """A security scheme, by the one member it has."""
    match scheme.WhichOneof("scheme"):
        case "api_key_security_scheme":
            return decode_at("apiKeySecurityScheme", _decode_api_key, scheme.api_key_security_scheme)
        case "http_auth_security_scheme":
            return decode_at("httpAuthSecurityScheme", _decode_http_auth, scheme.http_auth_security_scheme)
        case "oauth2_security_scheme":
            return decode_at("oauth2SecurityScheme", _decode_oauth2, scheme.oauth2_security_scheme)
        case "open_id_connect_security_scheme":
            given = scheme.open_id_connect_security_scheme
            return decode_at("openIdConnectSecurityScheme", _decode_open_id_connect, given)
        case _:
            return c.MutualTlsScheme(scheme.mtls_security_scheme.description or None)


def encode_scheme(scheme: c.SecurityScheme, package: str) -> Fields:
    """A security scheme in either package."""
    rest: Fields = {"description": scheme.description}
    if isinstance(scheme, c.ApiKeyScheme):
        return {"api_key_security_scheme": rest | {"location": scheme.location.value, "name": scheme.name}}
    if isinstance(scheme, c.HttpAuthScheme):
        members = {"scheme": scheme.scheme, "bearer_format": scheme.bearer_format}
        return {"http_auth_security_scheme": rest | members}
    if isinstance(scheme, c.OAuth2Scheme):
        members = {"flows": encode_flows(scheme.flows, package), "oauth2_metadata_url": scheme.metadata_url}
        return {"oauth2_security_scheme": rest | members}
    if isinstance(scheme, c.OpenIdConnectScheme):
        return {"open_id_connect_security_scheme": rest | {"open_id_connect_url": scheme.url}}
    return {"mtls_security_scheme": rest}


def _decode_api_key(scheme: ProtoMessage) -> c.ApiKeyScheme:
    try:
        location = c.ApiKeyLocation(scheme.location)
    except ValueError:
        raise Fault("Not one of query, header and cookie", "$.location") from None
    return c.ApiKeyScheme(location, required("name", scheme.name), scheme.description or None)


def _decode_http_auth(scheme: ProtoMessage) -> c.HttpAuthScheme:
    return c.HttpAuthScheme(required("scheme", scheme.scheme), scheme.bearer_format or None, scheme.description or None)


def _decode_oauth2(scheme: ProtoMessage) -> c.OAuth2Scheme:
    flows = decode_required("flows", decode_flows, scheme, "flows")
    return c.OAuth2Scheme(flows, scheme.oauth2_metadata_url or None, scheme.description or None)


def _decode_open_id_connect(scheme: ProtoMessage) -> c.OpenIdConnectScheme:
    return c.OpenIdConnectScheme(required("openIdConnectUrl", scheme.open_id_connect_url), scheme.description or None)


def decode_flows(flows: ProtoMessage) -> c.OAuthFlows:
    """The one flow of a scheme, with the members it has."""
    name = flows.WhichOneof("flow")
    if name is None:
        return c.OAuthFlows()
    flow = getattr(flows, name)

    def url(member: str) -> str | None:
        return getattr(flow, member, None) or None

    return c.OAuthFlows(
        **{
            name: c.OAuthFlow(
                dict(flow.scopes),
                url("authorization_url"),
                url("token_url"),
                url("refresh_url"),
                url("device_authorization_url"),
                getattr(flow, "pkce_required", False),
            )
        }
    )


def encode_flows(flows: c.OAuthFlows, package: str) -> Fields:
    """The first flow that the package has, with the members it has there. Their names are ours in both packages."""
    for offered in message_class(f"{package}.OAuthFlows").DESCRIPTOR.fields:
        flow = getattr(flows, offered.name)
        if flow is not None:
            return {offered.name: {f.name: getattr(flow, f.name) for f in offered.message_type.fields}}
    return {}


# --- the card ---------------------------------------------------------------------------------------------------------


def decode_provider(provider: ProtoMessage) -> c.AgentProvider:
    """Who offers the agent."""
    return c.AgentProvider(provider.organization, provider.url)


def encode_provider(provider: c.AgentProvider | None) -> Fields | None:
    """Who offers the agent in either package."""
    return {"organization": provider.organization, "url": provider.url} if provider else None


def decode_extension(extension: ProtoMessage) -> c.AgentExtension:
    """An extension the agent declares."""
    return c.AgentExtension(
        extension.uri,
        extension.description or None,
        extension.required,
        decode_at("params", decode_struct, extension.params),
    )


def encode_extension(extension: c.AgentExtension) -> Fields:
    """An extension in either package."""
    return {
        "uri": extension.uri,
        "description": extension.description,
        "required": extension.required,
        "params": encode_struct(extension.params),
    }


def decode_signature(signature: ProtoMessage) -> c.CardSignature:
    """A signature of the card."""
    return c.CardSignature(
        required("protected", signature.protected),
        required("signature", signature.signature),
        decode_at("header", decode_struct, signature.header),
    )


def encode_signature(signature: c.CardSignature) -> Fields:
    """A signature of the card in either package."""
    return {
        "protected": signature.protected,
        "signature": signature.signature,
        "header": encode_struct(signature.header),
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
        decode_requirements(skill.security_requirements),
    )


def encode_skill(skill: c.AgentSkill) -> Fields:
    """A skill in 1.0."""
    return {
        "id": skill.id,
        "name": skill.name,
        "description": skill.description,
        "tags": skill.tags,
        "examples": skill.examples,
        "input_modes": skill.input_modes,
        "output_modes": skill.output_modes,
        "security_requirements": encode_requirements(skill.security, PACKAGE),
    }


def decode_interface(interface: ProtoMessage) -> c.AgentInterface:
    """An endpoint."""
    return c.AgentInterface(
        required("url", interface.url),
        required("protocolBinding", interface.protocol_binding),
        without_patch(interface.protocol_version or Version.V1_0),  # as in `v1_0_card`
        interface.tenant or None,
    )


def encode_interface(interface: c.AgentInterface) -> Fields:
    """An endpoint in 1.0."""
    return {
        "url": interface.url,
        "protocol_binding": interface.binding,
        "protocol_version": interface.version,
        "tenant": interface.tenant,
    }


def decode_capabilities(capabilities: ProtoMessage) -> c.AgentCapabilities:
    """What the agent can do."""

    def flag(name: str) -> bool | None:
        return getattr(capabilities, name) if capabilities.HasField(name) else None

    return c.AgentCapabilities(
        flag("streaming"),
        flag("push_notifications"),
        flag("extended_agent_card"),
        extensions=decode_each("extensions", decode_extension, capabilities.extensions),
    )


def encode_capabilities(capabilities: c.AgentCapabilities) -> Fields:
    """What the agent can do in 1.0."""
    return {
        "streaming": capabilities.streaming,
        "push_notifications": capabilities.push_notifications,
        "extended_agent_card": capabilities.extended_card,
        "extensions": [encode_extension(extension) for extension in capabilities.extensions],
    }


def decode_card(card: ProtoMessage) -> c.AgentCard:
    """A card. Empty members that 1.0 requires are accepted where an agent can be called without them."""
    return c.AgentCard(
        name=required("name", card.name),
        description=card.description,
        version=card.version,
        interfaces=decode_each("supportedInterfaces", decode_interface, card.supported_interfaces),
        capabilities=decode_at("capabilities", decode_capabilities, card.capabilities),
        skills=decode_each("skills", decode_skill, card.skills),
        default_input_modes=tuple(card.default_input_modes),
        default_output_modes=tuple(card.default_output_modes),
        provider=decode_optional("provider", decode_provider, card, "provider"),
        documentation_url=card.documentation_url or None,
        icon_url=card.icon_url or None,
        security_schemes=decode_schemes(card.security_schemes),
        security=decode_requirements(card.security_requirements),
        signatures=decode_each("signatures", decode_signature, card.signatures),
    )


def encode_card(card: c.AgentCard) -> Fields:
    """A card in 1.0; a scheme with several OAuth flows becomes several schemes."""
    card = one_flow_per_scheme(card)
    return {
        "name": card.name,
        "description": card.description,
        "version": card.version,
        "supported_interfaces": [encode_interface(interface) for interface in card.interfaces],
        "capabilities": encode_capabilities(card.capabilities),
        "skills": [encode_skill(skill) for skill in card.skills],
        "default_input_modes": card.default_input_modes,
        "default_output_modes": card.default_output_modes,
        "provider": encode_provider(card.provider),
        "documentation_url": card.documentation_url,
        "icon_url": card.icon_url,
        "security_schemes": encode_schemes(card.security_schemes, PACKAGE),
        "security_requirements": encode_requirements(card.security, PACKAGE),
        "signatures": [encode_signature(signature) for signature in card.signatures],
    }


# --- the table --------------------------------------------------------------------------------------------------------

_send = Codec(decode_send, encode_send)
_task = Codec(decode_task, encode_task)
_push_config = Codec(decode_push_config, encode_push_config)
_card = Codec(decode_card, encode_card)

DIALECT = ProtobufDialect(
    version=Version.V1_0,
    package=PACKAGE,
    requests={
        ops.SEND_MESSAGE.name: _send,
        ops.SEND_STREAMING_MESSAGE.name: _send,
        ops.GET_TASK.name: Codec(decode_get_task, encode_get_task),
        ops.LIST_TASKS.name: Codec(decode_list_tasks, encode_list_tasks),
        ops.CANCEL_TASK.name: Codec(decode_cancel_task, encode_cancel_task),
        ops.SUBSCRIBE_TO_TASK.name: Codec(decode_subscribe, encode_subscribe),
        ops.CREATE_PUSH_CONFIG.name: Codec(decode_create_push_config, encode_create_push_config),
        ops.GET_PUSH_CONFIG.name: Codec(decode_get_push_config, encode_get_push_config),
        ops.LIST_PUSH_CONFIGS.name: Codec(decode_list_push_configs, encode_list_push_configs),
        ops.DELETE_PUSH_CONFIG.name: Codec(decode_delete_push_config, encode_delete_push_config),
        ops.GET_EXTENDED_CARD.name: Codec(decode_get_card, encode_get_card),
    },
    results={
        ops.SEND_MESSAGE.name: Codec(decode_send_result, encode_send_result),
        ops.GET_TASK.name: _task,
        ops.LIST_TASKS.name: Codec(decode_task_page, encode_task_page),
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
