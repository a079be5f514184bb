"""A2A 1.0 in protobuf: what is missing is named by its path, and what 1.0 cannot say is dropped."""

from __future__ import annotations

from typing import Any

import pytest

from parley.dialects.protobuf_pool import message_class
from parley.dialects.protobuf_v1_0 import DIALECT
from parley.protocol import cards as c
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.errors import InvalidParamsError, PeerProtocolError
from parley.protocol.events import StatusUpdate
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.operations import Operation
from parley.protocol.push import PushAuthentication, PushConfig
from parley.protocol.tasks import Artifact, Task, TaskState, TaskStatus

PART = {"text": "hi"}
MESSAGE = {"message_id": "m1", "role": 1, "parts": [PART]}
WORKING = {"state": 2}


def without(fields: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key != name}


def send(**changes: Any) -> dict[str, Any]:
    return {"message": MESSAGE} | changes


def with_part(**part: Any) -> dict[str, Any]:
    return send(message=MESSAGE | {"parts": [PART, part]})


BAD_REQUESTS: list[tuple[Operation, dict[str, Any], str]] = [
    (ops.SEND_MESSAGE, {}, "$.message"),
    (ops.SEND_MESSAGE, send(message=without(MESSAGE, "message_id")), "$.message.messageId"),
    (ops.SEND_MESSAGE, send(message=without(MESSAGE, "role")), "$.message.role"),
    (ops.SEND_MESSAGE, send(message=MESSAGE | {"role": 9}), "$.message.role"),
    (ops.SEND_STREAMING_MESSAGE, send(message=without(MESSAGE, "parts")), "$.message.parts"),
    (ops.SEND_MESSAGE, with_part(filename="a.txt"), "$.message.parts[1]"),
    (ops.SEND_MESSAGE, send(configuration={"history_length": -1}), "$.configuration.historyLength"),
    (
        ops.SEND_MESSAGE,
        send(configuration={"task_push_notification_config": {"id": "p1"}}),
        "$.configuration.taskPushNotificationConfig.url",
    ),
    (ops.GET_TASK, {}, "$.id"),
    (ops.GET_TASK, {"id": "t1", "history_length": -1}, "$.historyLength"),
    (ops.LIST_TASKS, {"status": 9}, "$.status"),
    (ops.LIST_TASKS, {"page_size": 0}, "$.pageSize"),
    (ops.LIST_TASKS, {"page_size": 101}, "$.pageSize"),
    (ops.LIST_TASKS, {"status_timestamp_after": {"nanos": -1}}, "$.statusTimestampAfter"),
    (ops.CANCEL_TASK, {}, "$.id"),
    (ops.SUBSCRIBE_TO_TASK, {}, "$.id"),
    (ops.CREATE_PUSH_CONFIG, {"url": "https://a"}, "$.taskId"),
    (ops.CREATE_PUSH_CONFIG, {"task_id": "t1"}, "$.url"),
    (
        ops.CREATE_PUSH_CONFIG,
        {"task_id": "t1", "url": "https://a", "authentication": {"credentials": "x"}},
        "$.authentication.scheme",
    ),
    (ops.GET_PUSH_CONFIG, {"id": "p1"}, "$.taskId"),
    (ops.GET_PUSH_CONFIG, {"task_id": "t1"}, "$.id"),
    (ops.LIST_PUSH_CONFIGS, {}, "$.taskId"),
    (ops.LIST_PUSH_CONFIGS, {"task_id": "t1", "page_size": -1}, "$.pageSize"),
    (ops.DELETE_PUSH_CONFIG, {"id": "p1"}, "$.taskId"),
    (ops.DELETE_PUSH_CONFIG, {"task_id": "t1"}, "$.id"),
]


@pytest.mark.parametrize(("operation", "fields", "path"), BAD_REQUESTS, ids=[path for *_, path in BAD_REQUESTS])
def test_a_request_that_makes_no_sense_is_refused_with_its_path(
    operation: Operation, fields: dict[str, Any], path: str
) -> None:
    with pytest.raises(InvalidParamsError) as caught:
        DIALECT.decode_request(operation, DIALECT.rpc(operation).request(**fields))
    assert caught.value.path == path


BAD_EVENTS: list[tuple[dict[str, Any], str]] = [
    ({}, "$"),
    ({"message": {}}, "$.message.messageId"),
    ({"task": {"status": WORKING}}, "$.task.id"),
    ({"task": {"id": "t1"}}, "$.task.status"),
    ({"task": {"id": "t1", "status": {"state": 9}}}, "$.task.status.state"),
    ({"task": {"id": "t1", "status": WORKING, "history": [MESSAGE, {}]}}, "$.task.history[1].messageId"),
    ({"task": {"id": "t1", "status": WORKING, "artifacts": [{"parts": [PART]}]}}, "$.task.artifacts[0].artifactId"),
    ({"status_update": {"status": WORKING}}, "$.statusUpdate.taskId"),
    ({"status_update": {"task_id": "t1"}}, "$.statusUpdate.status"),
    (
        {"status_update": {"task_id": "t1", "status": WORKING | {"message": {}}}},
        "$.statusUpdate.status.message.messageId",
    ),
    ({"artifact_update": {"artifact": {"artifact_id": "a1", "parts": [PART]}}}, "$.artifactUpdate.taskId"),
    ({"artifact_update": {"task_id": "t1"}}, "$.artifactUpdate.artifact"),
    ({"artifact_update": {"task_id": "t1", "artifact": {"artifact_id": "a1"}}}, "$.artifactUpdate.artifact.parts"),
]


@pytest.mark.parametrize(("fields", "path"), BAD_EVENTS, ids=[path for _, path in BAD_EVENTS])
def test_an_event_that_makes_no_sense_is_the_peers_fault(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(PeerProtocolError) as caught:
        DIALECT.decode_event(message_class("lf.a2a.v1.StreamResponse")(**fields))
    assert caught.value.path == path


def test_a_page_with_a_negative_size_is_the_peers_fault() -> None:
    page = message_class("lf.a2a.v1.ListTasksResponse")(total_size=-1)
    with pytest.raises(PeerProtocolError, match=r"Must not be negative \(at \$\.totalSize\)"):
        DIALECT.decode_result(ops.LIST_TASKS, page)


def card_with_scheme(**scheme: Any) -> dict[str, Any]:
    return {"name": "A", "security_schemes": {"s": message_class("lf.a2a.v1.SecurityScheme")(**scheme)}}


BAD_CARDS: list[tuple[Any, str]] = [
    (dict, "$.name"),
    (lambda: {"name": "A", "supported_interfaces": [{}]}, "$.supportedInterfaces[0].url"),
    (lambda: {"name": "A", "supported_interfaces": [{"url": "u"}]}, "$.supportedInterfaces[0].protocolBinding"),
    (lambda: {"name": "A", "skills": [{"name": "s"}]}, "$.skills[0].id"),
    (lambda: {"name": "A", "signatures": [{"protected": "p"}]}, "$.signatures[0].signature"),
    (
        lambda: card_with_scheme(api_key_security_scheme={"name": "k", "location": "body"}),
        "$.securitySchemes.s.apiKeySecurityScheme.location",
    ),
    (lambda: card_with_scheme(http_auth_security_scheme={}), "$.securitySchemes.s.httpAuthSecurityScheme.scheme"),
    (lambda: card_with_scheme(oauth2_security_scheme={}), "$.securitySchemes.s.oauth2SecurityScheme.flows"),
    (
        lambda: card_with_scheme(open_id_connect_security_scheme={}),
        "$.securitySchemes.s.openIdConnectSecurityScheme.openIdConnectUrl",
    ),
]


@pytest.mark.parametrize(("fields", "path"), BAD_CARDS, ids=[path for _, path in BAD_CARDS])
def test_a_card_that_makes_no_sense_is_the_peers_fault(fields: Any, path: str) -> None:
    with pytest.raises(PeerProtocolError) as caught:
        DIALECT.decode_card(message_class("lf.a2a.v1.AgentCard")(**fields()))
    assert caught.value.path == path


def test_empty_is_not_absent_where_1_0_can_tell() -> None:
    request = DIALECT.rpc(ops.GET_TASK).request
    assert DIALECT.decode_request(ops.GET_TASK, request(id="t1", history_length=0)) == r.GetTaskRequest("t1", 0)
    assert DIALECT.decode_request(ops.GET_TASK, request(id="t1")) == r.GetTaskRequest("t1")


def test_a_request_says_nothing_that_nobody_asked_for() -> None:
    request = DIALECT.encode_request(ops.LIST_TASKS, r.ListTasksRequest())
    assert request.SerializeToString() == b""


def test_a_webhook_registered_without_an_id_is_asked_for_by_the_tasks() -> None:
    request = DIALECT.encode_request(ops.GET_PUSH_CONFIG, r.GetPushConfigRequest("t1"))
    assert (request.task_id, request.id) == ("t1", "t1")


def test_a_webhook_names_its_first_scheme_only() -> None:
    config = PushConfig("https://a", "t1", "p1", authentication=PushAuthentication(("Bearer", "Basic"), "x"))
    sent = DIALECT.encode_result(ops.GET_PUSH_CONFIG, config)
    assert (sent.authentication.scheme, sent.authentication.credentials) == ("Bearer", "x")


def test_authentication_without_a_scheme_is_left_out() -> None:
    config = PushConfig("https://a", "t1", "p1", authentication=PushAuthentication((), "x"))
    assert not DIALECT.encode_result(ops.GET_PUSH_CONFIG, config).HasField("authentication")


def test_what_1_0_has_no_field_for_is_dropped() -> None:
    update = StatusUpdate("t1", "c1", TaskStatus(TaskState.WORKING), final=True)
    task = Task("t1", "c1", TaskStatus(TaskState.WORKING), (Artifact("a1", (TextPart("x"),), index=4),))
    card = c.AgentCard("A", "", "", (), c.AgentCapabilities(state_transition_history=True))
    subscribe = r.SubscribeToTaskRequest("t1", {"dropped": True}, "acme")

    assert DIALECT.decode_event(DIALECT.encode_event(update)) == StatusUpdate("t1", "c1", TaskStatus(TaskState.WORKING))
    assert DIALECT.decode_event(DIALECT.encode_event(task)) == Task(
        "t1", "c1", TaskStatus(TaskState.WORKING), (Artifact("a1", (TextPart("x"),)),)
    )
    assert DIALECT.decode_card(DIALECT.encode_card(card)) == c.AgentCard("A", "", "", ())
    assert DIALECT.decode_request(
        ops.SUBSCRIBE_TO_TASK, DIALECT.encode_request(ops.SUBSCRIBE_TO_TASK, subscribe)
    ) == r.SubscribeToTaskRequest("t1", tenant="acme")


def test_a_scheme_with_several_flows_becomes_several_schemes() -> None:
    both = c.OAuthFlows(
        authorization_code=c.OAuthFlow(token_url="https://t"), device_code=c.OAuthFlow(token_url="https://d")
    )
    card = c.AgentCard("A", "", "", (), security_schemes={"oauth": c.OAuth2Scheme(both)})
    assert DIALECT.decode_card(DIALECT.encode_card(card)).security_schemes == {
        "oauth": c.OAuth2Scheme(c.OAuthFlows(authorization_code=c.OAuthFlow(token_url="https://t"))),
        "oauth-deviceCode": c.OAuth2Scheme(c.OAuthFlows(device_code=c.OAuthFlow(token_url="https://d"))),
    }


def test_a_message_is_what_the_specification_numbers_it() -> None:
    """The bytes themselves: field 2 of StreamResponse, then fields 1, 4 and 5 of Message, then field 1 of Part."""
    message = Message("m1", Role.USER, (TextPart("hi"),))
    assert DIALECT.encode_event(message).SerializeToString() == (
        b"\x12\x0c" + b"\x0a\x02m1" + b"\x20\x01" + b"\x2a\x04" + b"\x0a\x02hi"
    )


def test_an_inline_webhook_belongs_to_the_task_and_tenant_of_its_send() -> None:
    push = PushConfig("https://hook", "t9", "p", tenant="evil")
    message = Message("m", Role.USER, (TextPart("x"),))
    request = r.SendMessageRequest(message, r.SendConfiguration((), push), tenant="acme")
    received = DIALECT.decode_request(ops.SEND_MESSAGE, DIALECT.encode_request(ops.SEND_MESSAGE, request))
    assert isinstance(received, r.SendMessageRequest)
    assert (received.tenant, received.configuration.push_config) == ("acme", PushConfig("https://hook", id="p"))


def test_the_version_of_an_interface_is_cut_to_major_and_minor() -> None:
    card = c.AgentCard("n", "", "", (c.AgentInterface("u", "GRPC", "1.0.1"),))
    assert DIALECT.decode_card(DIALECT.encode_card(card)).interfaces[0].version == "1.0"


def test_1_0_has_no_final_whatever_is_known_of_the_stream() -> None:
    update = StatusUpdate("t1", "c1", TaskStatus(TaskState.COMPLETED))
    assert {DIALECT.encode_event(update, ends=ends).SerializeToString() for ends in (None, True, False)} == {
        DIALECT.encode_event(update).SerializeToString()
    }
