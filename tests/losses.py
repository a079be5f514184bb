"""What is left of a canonical value after a trip through a dialect: `docs/losses.md` as code.

Each rule rewrites one type of struct to what the dialect can say. A value that no rule touches must come back as it
went. Rules run from the inside out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec import Struct, structs

from parley.dialects.oauth_flows import one_flow_per_scheme
from parley.dialects.v0_1_card import decode_card as decode_card_0_1
from parley.dialects.v0_1_card import encode_card as encode_card_0_1
from parley.dialects.v0_3_card import interfaces_for
from parley.protocol import cards as c
from parley.protocol import messages as m
from parley.protocol import requests as r
from parley.protocol.events import ArtifactUpdate, StatusUpdate
from parley.protocol.lifecycle import ends_stream
from parley.protocol.push import PushAuthentication, PushConfig
from parley.protocol.tasks import Artifact, Task, TaskState, TaskStatus

Rule = Callable[[Any], Any]


@dataclass(frozen=True)
class Losses:
    """The rules of one dialect."""

    rules: dict[type, Rule]

    def remaining(self, value: Any) -> Any:
        """What the dialect can say of a value."""
        if isinstance(value, tuple):
            return tuple(self.remaining(item) for item in value)
        if isinstance(value, dict):
            return {name: self.remaining(item) for name, item in value.items()}
        if not isinstance(value, Struct):
            return value
        fields = {name: self.remaining(getattr(value, name)) for name in value.__struct_fields__}
        rebuilt = type(value)(**fields)
        return self.rules.get(type(value), lambda same: same)(rebuilt)


def without(**defaults: Any) -> Rule:
    """Members that the dialect does not have."""
    return lambda value: structs.replace(value, **defaults)


# --- 1.0 --------------------------------------------------------------------------------------------------------------


def _create_push_1_0(request: r.CreatePushConfigRequest) -> r.CreatePushConfigRequest:
    config = structs.replace(request.config, task_id=request.task_id, tenant=request.tenant)
    return structs.replace(request, config=config, metadata={})


def _send_push_without_task(configuration: r.SendConfiguration) -> r.SendConfiguration:
    push = configuration.push_config and structs.replace(configuration.push_config, task_id=None, tenant=None)
    return structs.replace(configuration, push_config=push)


RULES_1_0: dict[type, Rule] = {
    StatusUpdate: without(final=False),
    Artifact: without(index=None),
    PushAuthentication: lambda a: structs.replace(a, schemes=a.schemes[:1], extra={}),
    r.SendConfiguration: _send_push_without_task,
    r.SendMessageRequest: without(caller_names_task=False),
    r.GetTaskRequest: without(metadata={}),
    r.SubscribeToTaskRequest: without(metadata={}),
    r.CreatePushConfigRequest: _create_push_1_0,
    r.GetPushConfigRequest: lambda q: structs.replace(q, id=q.id or q.task_id, metadata={}),
    r.ListPushConfigsRequest: without(metadata={}),
    r.DeletePushConfigRequest: without(metadata={}),
    c.AgentCapabilities: without(state_transition_history=None),
    c.AgentCard: one_flow_per_scheme,
}

# --- 0.3 and 0.2 ------------------------------------------------------------------------------------------------------


def _derived_final(update: StatusUpdate) -> StatusUpdate:
    return structs.replace(update, final=update.final and not ends_stream(update.status.state))


def _nested_push(request: r.CreatePushConfigRequest) -> r.CreatePushConfigRequest:
    return r.CreatePushConfigRequest(request.task_id, structs.replace(request.config, task_id=request.task_id))


def _card_0_3(card: c.AgentCard, *versions: str, written: str) -> c.AgentCard:
    interfaces = dict.fromkeys((i.url, i.binding) for i in interfaces_for(card.interfaces, *versions))
    return structs.replace(card, interfaces=tuple(c.AgentInterface(url, b, written) for url, b in interfaces))


RULES_0_3: dict[type, Rule] = {
    StatusUpdate: _derived_final,
    Artifact: without(index=None),
    PushAuthentication: without(extra={}),
    PushConfig: without(tenant=None),
    r.SendConfiguration: _send_push_without_task,
    r.SendMessageRequest: without(tenant=None, caller_names_task=False),
    r.GetTaskRequest: without(tenant=None),
    r.CancelTaskRequest: without(tenant=None),
    r.SubscribeToTaskRequest: without(tenant=None),
    r.CreatePushConfigRequest: _nested_push,
    r.GetPushConfigRequest: without(tenant=None),
    r.ListPushConfigsRequest: without(tenant=None, page_size=None, page_token=None),
    r.DeletePushConfigRequest: without(tenant=None),
    r.GetExtendedCardRequest: without(tenant=None),
    r.PushConfigPage: without(next_page_token=None),
    c.OAuthFlow: without(device_authorization_url=None, pkce_required=False),
    c.OAuthFlows: without(device_code=None),
    c.AgentCard: lambda card: _card_0_3(card, "0.3", "0.2", "0.1", written="0.3"),
}


def _card_0_2(card: c.AgentCard) -> c.AgentCard:
    schemes = {name: s for name, s in card.security_schemes.items() if not isinstance(s, c.MutualTlsScheme)}
    dropped = card.security_schemes.keys() - schemes.keys()
    security = tuple(needed for needed in card.security if not needed.keys() & dropped)
    card = _card_0_3(card, "0.2", "0.3", "0.1", written="0.2")
    return structs.replace(card, security_schemes=schemes, security=security, signatures=())


RULES_0_2 = RULES_0_3 | {
    c.AgentCard: _card_0_2,
    c.AgentSkill: without(security=()),
    c.OAuth2Scheme: without(metadata_url=None),
}

# --- 0.3 over REST, and as ProtoJSON ----------------------------------------------------------------------------------

RULES_0_3_REST = RULES_0_3 | {
    r.GetTaskRequest: lambda q: structs.replace(q, tenant=None, history_length=q.history_length or None),
    r.ListPushConfigsRequest: without(tenant=None),
}


def _send_proto(configuration: r.SendConfiguration) -> r.SendConfiguration:
    return structs.replace(_send_push_without_task(configuration), history_length=configuration.history_length or None)


RULES_0_3_PROTOJSON = RULES_0_3_REST | {
    r.SendConfiguration: _send_proto,
    r.PushConfigPage: lambda page: page,
}


def webhooks_by_name(result: Any) -> Any:
    """An answer about webhooks, where one without an id goes by the task's; "None" is what a2a-sdk writes for none."""
    if isinstance(result, r.PushConfigPage):
        return structs.replace(result, configs=tuple(map(webhooks_by_name, result.configs)))
    if not isinstance(result, PushConfig):
        return result
    by_name = None if result.task_id == "None" else result.task_id
    return structs.replace(result, id=result.id or by_name)


# --- 0.1 --------------------------------------------------------------------------------------------------------------


def _in_task(message: m.Message | None, task_id: str, context_id: str | None) -> m.Message | None:
    return message and structs.replace(message, task_id=task_id, context_id=context_id)


def _task_0_1(task: Task) -> Task:
    status = structs.replace(task.status, message=_in_task(task.status.message, task.id, task.context_id))
    return structs.replace(
        task,
        status=status,
        history=tuple(_in_task(message, task.id, task.context_id) for message in task.history),
        artifacts=tuple(
            structs.replace(artifact, index=position if artifact.index is None else artifact.index)
            for position, artifact in enumerate(task.artifacts)
        ),
    )


def _status_update_0_1(update: StatusUpdate) -> StatusUpdate:
    status = structs.replace(update.status, message=_in_task(update.status.message, update.task_id, None))
    return structs.replace(_derived_final(update), status=status, context_id=None)


def _artifact_update_0_1(update: ArtifactUpdate) -> ArtifactUpdate:
    return structs.replace(update, context_id=None)


def _send_0_1(request: r.SendMessageRequest) -> r.SendMessageRequest:
    message = structs.replace(request.message, task_id=request.message.task_id or request.message.message_id)
    return structs.replace(request, message=message, tenant=None, caller_names_task=True)


def _configuration_0_1(configuration: r.SendConfiguration) -> r.SendConfiguration:
    return structs.replace(
        _send_push_without_task(configuration),
        history_length=configuration.history_length or 0,
        return_immediately=False,
    )


RULES_0_1: dict[type, Rule] = {
    Task: _task_0_1,
    StatusUpdate: _status_update_0_1,
    ArtifactUpdate: _artifact_update_0_1,
    PushConfig: without(tenant=None, id=None),
    r.SendConfiguration: _configuration_0_1,
    r.SendMessageRequest: _send_0_1,
    r.GetTaskRequest: lambda q: structs.replace(q, tenant=None, history_length=q.history_length or 0),
    r.CancelTaskRequest: without(tenant=None),
    r.SubscribeToTaskRequest: without(tenant=None),
    r.CreatePushConfigRequest: _nested_push,
    r.GetPushConfigRequest: without(tenant=None, id=None),
    # 0.1 says so little of an agent that the rule is the codec itself; test_v0_1_card.py checks it member by member.
    c.AgentCard: lambda card: decode_card_0_1(encode_card_0_1(card)),
}


def direct_reply_0_1(result: Task | m.Message) -> Task:
    """A direct reply, which 0.1 does not have, as the completed task it becomes."""
    if isinstance(result, Task):
        return result
    status = TaskStatus(TaskState.COMPLETED, result)
    return Task(result.task_id or result.message_id, result.context_id, status)
