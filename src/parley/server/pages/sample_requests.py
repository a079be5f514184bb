"""One request per operation, as an example for the OpenAPI document and the documentation page."""

from __future__ import annotations

import msgspec

from parley.dialects.dialect import JsonDialect
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.cards import AgentCard
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.operations import Operation
from parley.protocol.push import PushConfig

SAMPLE_TASK_ID = "task-1"
SAMPLE_CONFIG_ID = "webhook-1"
SAMPLE_MESSAGE_ID = "message-1"

_SAMPLES: dict[Operation, r.Request] = {
    ops.GET_TASK: r.GetTaskRequest(SAMPLE_TASK_ID, history_length=10),
    ops.LIST_TASKS: r.ListTasksRequest(page_size=10),
    ops.CANCEL_TASK: r.CancelTaskRequest(SAMPLE_TASK_ID),
    ops.SUBSCRIBE_TO_TASK: r.SubscribeToTaskRequest(SAMPLE_TASK_ID),
    ops.CREATE_PUSH_CONFIG: r.CreatePushConfigRequest(
        SAMPLE_TASK_ID, PushConfig("https://example.com/webhook", id=SAMPLE_CONFIG_ID, token="secret")
    ),
    ops.GET_PUSH_CONFIG: r.GetPushConfigRequest(SAMPLE_TASK_ID, SAMPLE_CONFIG_ID),
    ops.LIST_PUSH_CONFIGS: r.ListPushConfigsRequest(SAMPLE_TASK_ID),
    ops.DELETE_PUSH_CONFIG: r.DeletePushConfigRequest(SAMPLE_TASK_ID, SAMPLE_CONFIG_ID),
    ops.GET_EXTENDED_CARD: r.GetExtendedCardRequest(),
}


def sample_request(card: AgentCard, dialect: JsonDialect, operation: Operation) -> JsonObject:
    """The sample request of an operation in a dialect. A message has the first example of the card's skills."""
    request = _SAMPLES.get(operation)
    if request is None:
        text = next((example for skill in card.skills for example in skill.examples), "Hello")
        request = r.SendMessageRequest(Message(SAMPLE_MESSAGE_ID, Role.USER, (TextPart(text),)))
    return msgspec.json.decode(dialect.encode_request(operation, request))
