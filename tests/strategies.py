"""Hypothesis strategies for canonical values: anything the model can hold, in the form the model demands.

Optional strings are None or not empty, sequences are tuples. Metadata never uses the keys that `dialects.carried` keeps
for itself. Sizes are small: what breaks a codec is variety, not bulk.
"""

from datetime import UTC, datetime

from hypothesis import strategies as st
from msgspec import structs

from parley.dialects import carried
from parley.protocol import cards as c
from parley.protocol import messages as m
from parley.protocol import requests as r
from parley.protocol.events import ArtifactUpdate, StatusUpdate
from parley.protocol.push import PushAuthentication, PushConfig
from parley.protocol.tasks import Artifact, Task, TaskState, TaskStatus

RESERVED_KEYS = {
    value for name, value in vars(carried).items() if name.isupper() and isinstance(value, str) and name[0] != "_"
}

texts = st.text(max_size=8)
names = st.text(min_size=1, max_size=8)
maybe = st.none() | names
# What protobuf's Struct can hold, too: integers beyond 2^53 lose digits there (docs/losses.md).
numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
metadata = st.dictionaries(texts.filter(lambda key: key not in RESERVED_KEYS), json_values, max_size=2)
timestamps = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(lambda moment: moment.replace(tzinfo=UTC))
name_tuples = st.lists(names, max_size=2, unique=True).map(tuple)
counts = st.integers(1, 2**31 - 1)


def _part(kind: type, content: st.SearchStrategy) -> st.SearchStrategy:
    return st.builds(kind, content, media_type=maybe, filename=maybe, metadata=metadata)


parts = st.one_of(
    _part(m.TextPart, texts),
    _part(m.RawPart, st.binary(max_size=12)),
    _part(m.UrlPart, texts),
    _part(m.DataPart, json_values),
)
part_tuples = st.lists(parts, min_size=1, max_size=2).map(tuple)

messages = st.builds(
    m.Message,
    message_id=names,
    role=st.sampled_from(m.Role),
    parts=part_tuples,
    context_id=maybe,
    task_id=maybe,
    metadata=metadata,
    extensions=name_tuples,
    reference_task_ids=name_tuples,
)
statuses = st.builds(
    TaskStatus,
    state=st.sampled_from(TaskState),
    message=st.none() | messages,
    timestamp=st.none() | timestamps,
)
artifacts = st.builds(
    Artifact,
    artifact_id=names,
    parts=part_tuples,
    name=maybe,
    description=maybe,
    metadata=metadata,
    extensions=name_tuples,
    index=st.none() | st.integers(0, 9),
)
tasks = st.builds(
    Task,
    id=names,
    context_id=maybe,
    status=statuses,
    artifacts=st.lists(artifacts, max_size=2).map(tuple),
    history=st.lists(messages, max_size=2).map(tuple),
    metadata=metadata,
)
status_updates = st.builds(
    StatusUpdate, task_id=names, context_id=maybe, status=statuses, metadata=metadata, final=st.booleans()
)
artifact_updates = st.builds(
    ArtifactUpdate,
    task_id=names,
    context_id=maybe,
    artifact=artifacts,
    append=st.booleans(),
    last_chunk=st.booleans(),
    metadata=metadata,
)
slotted_artifact_updates = st.builds(
    lambda update, slot: structs.replace(update, artifact=structs.replace(update.artifact, index=slot)),
    artifact_updates,
    st.integers(0, 9),
)
"""As 0.1 needs them: in a slot."""
stream_events = st.one_of(tasks, messages, status_updates, artifact_updates)

authentications = st.builds(
    PushAuthentication,
    schemes=st.lists(names, min_size=1, max_size=2, unique=True).map(tuple),
    credentials=maybe,
    extra=metadata.filter(lambda extra: not extra.keys() & {"schemes", "credentials"}),
)
push_configs = st.builds(
    PushConfig,
    url=names,
    task_id=names,
    id=maybe,
    token=maybe,
    authentication=st.none() | authentications,
    tenant=maybe,
)

configurations = st.builds(
    r.SendConfiguration,
    accepted_output_modes=name_tuples,
    push_config=st.none() | push_configs,
    history_length=st.none() | st.integers(0, 2**31 - 1),
    return_immediately=st.booleans(),
)
requests = {
    "SendMessage": st.builds(
        r.SendMessageRequest,
        message=messages,
        configuration=configurations,
        metadata=metadata,
        tenant=maybe,
        caller_names_task=st.booleans(),
    ),
    "GetTask": st.builds(
        r.GetTaskRequest, names, st.none() | st.integers(0, 2**31 - 1), metadata=metadata, tenant=maybe
    ),
    "ListTasks": st.builds(
        r.ListTasksRequest,
        context_id=maybe,
        state=st.none() | st.sampled_from([state for state in TaskState if state is not TaskState.UNKNOWN]),
        page_size=st.none() | st.integers(1, 100),
        page_token=maybe,
        history_length=st.none() | st.integers(0, 2**31 - 1),
        status_timestamp_after=st.none() | timestamps,
        include_artifacts=st.booleans(),
        tenant=maybe,
    ),
    "CancelTask": st.builds(r.CancelTaskRequest, names, metadata=metadata, tenant=maybe),
    "SubscribeToTask": st.builds(r.SubscribeToTaskRequest, names, metadata=metadata, tenant=maybe),
    "CreateTaskPushNotificationConfig": st.builds(
        r.CreatePushConfigRequest, names, push_configs, metadata=metadata, tenant=maybe
    ),
    "GetTaskPushNotificationConfig": st.builds(r.GetPushConfigRequest, names, maybe, metadata=metadata, tenant=maybe),
    "ListTaskPushNotificationConfigs": st.builds(
        r.ListPushConfigsRequest, names, st.none() | counts, page_token=maybe, metadata=metadata, tenant=maybe
    ),
    "DeleteTaskPushNotificationConfig": st.builds(
        r.DeletePushConfigRequest, names, names, metadata=metadata, tenant=maybe
    ),
    "GetExtendedAgentCard": st.builds(r.GetExtendedCardRequest, maybe),
}
requests["SendStreamingMessage"] = requests["SendMessage"]

# --- cards ------------------------------------------------------------------------------------------------------------

flows = st.builds(
    c.OAuthFlow,
    scopes=st.dictionaries(names, texts, max_size=2),
    authorization_url=maybe,
    token_url=maybe,
    refresh_url=maybe,
    device_authorization_url=maybe,
    pkce_required=st.booleans(),
)
FLOW_FIELDS = c.OAuthFlows.__struct_fields__
single_flows = st.builds(lambda name, flow: c.OAuthFlows(**{name: flow}), st.sampled_from(FLOW_FIELDS), flows)
several_flows = st.dictionaries(st.sampled_from(FLOW_FIELDS), flows, min_size=2).map(lambda f: c.OAuthFlows(**f))
schemes = st.one_of(
    st.builds(c.ApiKeyScheme, st.sampled_from(c.ApiKeyLocation), names, maybe),
    st.builds(c.HttpAuthScheme, names, maybe, maybe),
    st.builds(c.OAuth2Scheme, single_flows, maybe, maybe),
    st.builds(c.OpenIdConnectScheme, names, maybe),
    st.builds(c.MutualTlsScheme, maybe),
)
requirements = st.lists(st.dictionaries(names, name_tuples, max_size=2), max_size=2).map(tuple)
skills = st.builds(
    c.AgentSkill,
    id=names,
    name=texts,
    description=texts,
    tags=name_tuples,
    examples=name_tuples,
    input_modes=name_tuples,
    output_modes=name_tuples,
    security=requirements,
)
extensions = st.builds(c.AgentExtension, texts, maybe, st.booleans(), metadata)
capabilities = st.builds(
    c.AgentCapabilities,
    streaming=st.none() | st.booleans(),
    push_notifications=st.none() | st.booleans(),
    extended_card=st.none() | st.booleans(),
    state_transition_history=st.none() | st.booleans(),
    extensions=st.lists(extensions, max_size=2).map(tuple),
)
interfaces = st.builds(
    c.AgentInterface,
    url=names,
    binding=st.sampled_from([binding.value for binding in c.Binding]) | names,
    version=st.sampled_from(["0.1", "0.2", "0.3", "1.0"]),
    tenant=maybe,
)
signatures = st.builds(c.CardSignature, names, names, metadata)
cards = st.builds(
    c.AgentCard,
    name=names,
    description=texts,
    version=texts,
    interfaces=st.lists(interfaces, min_size=1, max_size=3).map(tuple),
    capabilities=capabilities,
    skills=st.lists(skills, max_size=2).map(tuple),
    default_input_modes=name_tuples,
    default_output_modes=name_tuples,
    provider=st.none() | st.builds(c.AgentProvider, texts, texts),
    documentation_url=maybe,
    icon_url=maybe,
    security_schemes=st.dictionaries(names, schemes, max_size=2),
    security=requirements,
    signatures=st.lists(signatures, max_size=1).map(tuple),
)

task_pages = st.builds(
    r.TaskPage, st.lists(tasks, max_size=2).map(tuple), texts, st.integers(0, 100), st.integers(0, 2**31 - 1)
)
push_config_pages = st.builds(r.PushConfigPage, st.lists(push_configs, max_size=2).map(tuple), maybe)

results = {
    "SendMessage": tasks | messages,
    "GetTask": tasks,
    "ListTasks": task_pages,
    "CancelTask": tasks,
    "CreateTaskPushNotificationConfig": push_configs,
    "GetTaskPushNotificationConfig": push_configs,
    "ListTaskPushNotificationConfigs": push_config_pages,
    "DeleteTaskPushNotificationConfig": st.none(),
    "GetExtendedAgentCard": cards,
}
