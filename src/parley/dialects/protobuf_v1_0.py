"""A2A 1.0 in protobuf, package `lf.a2a.v1`: one table per message, without a detour through JSON.

1.0 has a field for nearly everything; what has none is dropped: an artifact's 0.1 index, `final`, the card's
stateTransitionHistory, all but the first scheme of a webhook's authentication, and the metadata of requests other than
send and cancel. Spec: 1.0 a2a.proto; required members as its text has them.
"""

from __future__ import annotations

from msgspec import structs

from parley.dialects import protobuf_table as t
from parley.dialects.fields import Fault
from parley.dialects.oauth_flows import one_flow_per_scheme
from parley.dialects.protobuf_dialect import protobuf_dialect
from parley.dialects.protobuf_pool import ProtoMessage, message_class
from parley.dialects.protobuf_table import Converter, Fields, MessageMap, converter, nested, one_of
from parley.protocol import cards as c
from parley.protocol import messages as m
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.events import ArtifactUpdate, StatusUpdate
from parley.protocol.push import PushAuthentication, PushConfig
from parley.protocol.tasks import Artifact, Task, TaskState, TaskStatus
from parley.protocol.versions import Version, without_patch

PACKAGE = "lf.a2a.v1"

# --- messages and tasks -----------------------------------------------------------------------------------------------

# The numbers are those of 0.3, too.
ROLES = {1: m.Role.USER, 2: m.Role.AGENT}
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

PART = one_of(
    "content",
    {
        m.TextPart: ("text", MessageMap(m.TextPart)),
        m.RawPart: ("raw", MessageMap(m.RawPart, raw=t.PLAIN)),
        m.UrlPart: ("url", MessageMap(m.UrlPart)),
        m.DataPart: ("data", MessageMap(m.DataPart, data=t.JSON_VALUE)),
    },
    otherwise="Invalid part: expected one of text, raw, url and data",
)
MESSAGE = MessageMap(m.Message, message_id=t.REQUIRED_TEXT, role=t.enum(ROLES), parts=t.non_empty(PART))
STATUS = MessageMap(TaskStatus, state=t.enum(STATES), message=t.optional(MESSAGE))
ARTIFACT = MessageMap(Artifact, artifact_id=t.REQUIRED_TEXT, parts=t.non_empty(PART), index=None)
TASK = MessageMap(
    Task, id=t.REQUIRED_TEXT, status=t.required(STATUS), artifacts=t.repeated(ARTIFACT), history=t.repeated(MESSAGE)
)

# --- results and events -----------------------------------------------------------------------------------------------

STATUS_UPDATE = MessageMap(StatusUpdate, task_id=t.REQUIRED_TEXT, status=t.required(STATUS), final=None)
ARTIFACT_UPDATE = MessageMap(ArtifactUpdate, task_id=t.REQUIRED_TEXT, artifact=t.required(ARTIFACT))
_ANSWERS = {Task: nested("task", TASK), m.Message: nested("message", MESSAGE)}
_UPDATES = {
    ArtifactUpdate: nested("artifact_update", ARTIFACT_UPDATE),
    StatusUpdate: nested("status_update", STATUS_UPDATE),
}
SEND_RESULT = one_of("payload", _ANSWERS, otherwise="Expected a task or a message")
EVENT = one_of("payload", _ANSWERS | _UPDATES, otherwise="Expected a task or a message")
TASK_PAGE = MessageMap(r.TaskPage, tasks=t.repeated(TASK), page_size=t.COUNT, total_size=t.COUNT)
NOTHING = converter(lambda message: None, lambda value: {})  # the answer to a deletion: google.protobuf.Empty

# --- webhooks ---------------------------------------------------------------------------------------------------------


def decode_authentication(message: ProtoMessage) -> PushAuthentication:
    """How a webhook wants to be called."""
    return PushAuthentication((message.scheme or t.refuse("Missing or empty", "scheme"),), message.credentials or None)


def encode_authentication(authentication: PushAuthentication) -> Fields | None:
    """How a webhook wants to be called; 1.0 names one scheme: the first."""
    if not authentication.schemes:
        return None
    return {"scheme": authentication.schemes[0], "credentials": authentication.credentials}


AUTHENTICATION = converter(decode_authentication, encode_authentication)
PUSH_CONFIG = MessageMap(PushConfig, url=t.REQUIRED_TEXT, authentication=t.optional(AUTHENTICATION))
# A webhook in a send belongs to the task and tenant of that send, even if the caller states others.
INLINE_PUSH_CONFIG = t.adapted(
    PUSH_CONFIG, after_decode=lambda config: structs.replace(config, task_id=None, tenant=None)
)
PUSH_CONFIG_PAGE = MessageMap(r.PushConfigPage, configs=t.repeated(PUSH_CONFIG))

# --- requests ---------------------------------------------------------------------------------------------------------


def decode_state_filter(number: int) -> TaskState | None:
    """The state that listed tasks must be in; the unspecified one means all."""
    if number not in STATES:
        raise Fault(f"Unknown value: {number}")
    return STATES[number] if number else None


def decode_page_size(size: int) -> int:
    """How many tasks a page may hold."""
    if not 1 <= size <= 100:
        raise Fault("Must be between 1 and 100")
    return size


STATE_NUMBERS = {state: number for number, state in STATES.items()}
STATE_FILTER = converter(decode_state_filter, lambda state: state and STATE_NUMBERS[state])
ID_OF_TASK = t.REQUIRED_TEXT.named("id")

CONFIGURATION = MessageMap(
    r.SendConfiguration,
    push_config=t.optional(INLINE_PUSH_CONFIG, "task_push_notification_config"),
    history_length=t.COUNT_IF_SET,
)
SEND = MessageMap(
    r.SendMessageRequest,
    message=t.required(MESSAGE),
    configuration=t.always(CONFIGURATION),
    caller_names_task=None,
    idempotency_key=None,
)
GET_TASK = MessageMap(r.GetTaskRequest, task_id=ID_OF_TASK, history_length=t.COUNT_IF_SET, metadata=None)
LIST_TASKS = MessageMap(
    r.ListTasksRequest,
    state=t.always(STATE_FILTER, "status"),
    page_size=t.optional(converter(decode_page_size, int)),
    history_length=t.COUNT_IF_SET,
)
CANCEL_TASK = MessageMap(r.CancelTaskRequest, task_id=ID_OF_TASK)
SUBSCRIBE = MessageMap(r.SubscribeToTaskRequest, task_id=ID_OF_TASK, metadata=None)
CREATE_PUSH_CONFIG = MessageMap(
    r.CreatePushConfigRequest, task_id=t.REQUIRED_TEXT, config=t.spread(PUSH_CONFIG), metadata=None
)
# A webhook that was registered without an id has the task's.
ID_OR_TASK_ID = t.FieldKind(t.REQUIRED_TEXT.reading, "{value} or value.task_id")
GET_PUSH_CONFIG = MessageMap(r.GetPushConfigRequest, task_id=t.REQUIRED_TEXT, id=ID_OR_TASK_ID, metadata=None)
LIST_PUSH_CONFIGS = MessageMap(
    r.ListPushConfigsRequest, task_id=t.REQUIRED_TEXT, page_size=t.COUNT_OR_NONE, metadata=None
)
DELETE_PUSH_CONFIG = MessageMap(r.DeletePushConfigRequest, task_id=t.REQUIRED_TEXT, id=t.REQUIRED_TEXT, metadata=None)

# --- security: the same messages in both packages, but for what 1.0 added to OAuth ------------------------------------


def decode_requirements(requirements: ProtoMessage) -> tuple[c.SecurityRequirement, ...]:
    """Alternatives, each a set of schemes with the scopes they need."""
    return tuple([{name: tuple(scopes.list) for name, scopes in each.schemes.items()} for each in requirements])


def encode_requirements(requirements: tuple[c.SecurityRequirement, ...]) -> list[Fields]:
    """Alternatives in either package."""
    return [{"schemes": {name: {"list": scopes} for name, scopes in each.items()}} for each in requirements]


REQUIREMENTS = converter(decode_requirements, encode_requirements)


def decode_location(location: str) -> c.ApiKeyLocation:
    """Where an API key travels."""
    try:
        return c.ApiKeyLocation(location)
    except ValueError:
        raise Fault("Must be query, header or cookie") from None


def decode_flows(flows: ProtoMessage) -> c.OAuthFlows:
    """The one flow of a scheme, with the members it has. Their names are ours in both packages."""
    name = flows.WhichOneof("flow")
    if name is None:
        return c.OAuthFlows()
    flow = getattr(flows, name)
    given: Fields = {field.name: value for field, value in flow.ListFields()}
    given["scopes"] = dict(flow.scopes)
    return c.OAuthFlows(**{name: c.OAuthFlow(**given)})


def encode_flows(flows: c.OAuthFlows, package: str) -> Fields:
    """The first flow that the package has, with the members it has there."""
    for offered in message_class(f"{package}.OAuthFlows").DESCRIPTOR.fields:
        flow = getattr(flows, offered.name)
        if flow is not None:
            return {offered.name: {member.name: getattr(flow, member.name) for member in offered.message_type.fields}}
    return {}


API_KEY = MessageMap(c.ApiKeyScheme, location=t.always(converter(decode_location, str)), name=t.REQUIRED_TEXT)
HTTP_AUTH = MessageMap(c.HttpAuthScheme, scheme=t.REQUIRED_TEXT)
OPEN_ID_CONNECT = MessageMap(c.OpenIdConnectScheme, url=t.REQUIRED_TEXT.named("open_id_connect_url"))
MUTUAL_TLS = MessageMap(c.MutualTlsScheme)


def schemes_of(package: str) -> Converter[dict[str, c.SecurityScheme]]:
    """The security schemes of a card by name, without those of kinds that only later releases have."""
    flows = converter(decode_flows, lambda flows: encode_flows(flows, package))
    oauth2 = MessageMap(c.OAuth2Scheme, flows=t.required(flows), metadata_url=t.TEXT.named("oauth2_metadata_url"))
    scheme = one_of(
        "scheme",
        {
            c.ApiKeyScheme: nested("api_key_security_scheme", API_KEY),
            c.HttpAuthScheme: nested("http_auth_security_scheme", HTTP_AUTH),
            c.OAuth2Scheme: nested("oauth2_security_scheme", oauth2),
            c.OpenIdConnectScheme: nested("open_id_connect_security_scheme", OPEN_ID_CONNECT),
            c.MutualTlsScheme: nested("mtls_security_scheme", MUTUAL_TLS),
        },
        otherwise="Unknown security scheme",
    )

    def decode(schemes: ProtoMessage) -> dict[str, c.SecurityScheme]:
        known = {name: given for name, given in schemes.items() if given.WhichOneof("scheme")}
        return {name: t.at(name, scheme.decode, given) for name, given in known.items()}

    return converter(decode, lambda schemes: {name: scheme.encode(given) for name, given in schemes.items()})


# --- the card ---------------------------------------------------------------------------------------------------------

PROVIDER = MessageMap(c.AgentProvider)
EXTENSION = MessageMap(c.AgentExtension)
SIGNATURE = MessageMap(c.CardSignature, protected=t.REQUIRED_TEXT, signature=t.REQUIRED_TEXT)
SKILL = MessageMap(c.AgentSkill, id=t.REQUIRED_TEXT, security=t.always(REQUIREMENTS, "security_requirements"))
INTERFACE = MessageMap(
    c.AgentInterface,
    url=t.REQUIRED_TEXT,
    binding=t.REQUIRED_TEXT.named("protocol_binding"),
    # As in `v1_0_card`.
    version=t.always(converter(lambda stated: without_patch(stated or Version.V1_0), str), "protocol_version"),
)
CAPABILITIES = MessageMap(
    c.AgentCapabilities,
    extended_card=t.IF_SET.named("extended_agent_card"),
    state_transition_history=None,
    extensions=t.repeated(EXTENSION),
)
# Empty members that the specification requires are accepted where an agent can be called without them.
_CARD = MessageMap(
    c.AgentCard,
    name=t.REQUIRED_TEXT,
    interfaces=t.repeated(INTERFACE, "supported_interfaces"),
    capabilities=t.always(CAPABILITIES),
    skills=t.repeated(SKILL),
    provider=t.optional(PROVIDER),
    security_schemes=t.always(schemes_of(PACKAGE)),
    security=t.always(REQUIREMENTS, "security_requirements"),
    signatures=t.repeated(SIGNATURE),
)
CARD = t.adapted(_CARD, before_encode=one_flow_per_scheme)

# --- the operations ---------------------------------------------------------------------------------------------------

DIALECT = protobuf_dialect(
    Version.V1_0,
    PACKAGE,
    {
        ops.SEND_MESSAGE: (SEND, SEND_RESULT),
        ops.SEND_STREAMING_MESSAGE: (SEND, None),
        ops.GET_TASK: (GET_TASK, TASK),
        ops.LIST_TASKS: (LIST_TASKS, TASK_PAGE),
        ops.CANCEL_TASK: (CANCEL_TASK, TASK),
        ops.SUBSCRIBE_TO_TASK: (SUBSCRIBE, None),
        ops.CREATE_PUSH_CONFIG: (CREATE_PUSH_CONFIG, PUSH_CONFIG),
        ops.GET_PUSH_CONFIG: (GET_PUSH_CONFIG, PUSH_CONFIG),
        ops.LIST_PUSH_CONFIGS: (LIST_PUSH_CONFIGS, PUSH_CONFIG_PAGE),
        ops.DELETE_PUSH_CONFIG: (DELETE_PUSH_CONFIG, NOTHING),
        ops.GET_EXTENDED_CARD: (MessageMap(r.GetExtendedCardRequest), CARD),
    },
    events=EVENT,
    cards=CARD,
)
