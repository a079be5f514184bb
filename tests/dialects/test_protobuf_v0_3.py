"""A2A 0.3 in protobuf: resource names, base64 text, and what has no field."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.dialects.protobuf_pool import message_class
from parley.dialects.protobuf_v0_3 import DIALECT
from parley.protocol import cards as c
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.errors import (
    InvalidParamsError,
    LocalProtocolError,
    PeerProtocolError,
    UnsupportedOperationError,
)
from parley.protocol.events import StatusUpdate
from parley.protocol.messages import DataPart, Message, RawPart, Role, TextPart
from parley.protocol.operations import Operation
from parley.protocol.push import PushConfig
from parley.protocol.tasks import Task, TaskState, TaskStatus

PART = {"text": "hi"}
MESSAGE = {"message_id": "m1", "role": 1, "content": [PART]}
WORKING = {"state": 2}


def with_part(**part: Any) -> dict[str, Any]:
    return {"request": MESSAGE | {"content": [PART, part]}}


BAD_REQUESTS: list[tuple[Operation, dict[str, Any], str]] = [
    (ops.SEND_MESSAGE, {}, "$.message"),
    (ops.SEND_MESSAGE, {"request": {"role": 1, "content": [PART]}}, "$.message.messageId"),
    (ops.SEND_MESSAGE, {"request": {"message_id": "m1", "content": [PART]}}, "$.message.role"),
    (ops.SEND_MESSAGE, {"request": {"message_id": "m1", "role": 1}}, "$.message.parts"),
    (ops.SEND_MESSAGE, with_part(), "$.message.parts[1]"),
    (ops.SEND_MESSAGE, with_part(file={"name": "a.txt"}), "$.message.parts[1]"),
    (ops.SEND_MESSAGE, {"request": MESSAGE, "configuration": {"history_length": -1}}, "$.configuration.historyLength"),
    (
        ops.SEND_MESSAGE,
        {"request": MESSAGE, "configuration": {"push_notification": {}}},
        "$.configuration.taskPushNotificationConfig.url",
    ),
    (ops.GET_TASK, {}, "$.name"),
    (ops.GET_TASK, {"name": "t1"}, "$.name"),
    (ops.GET_TASK, {"name": "tasks/t1/x"}, "$.name"),
    (ops.GET_TASK, {"name": "tasks/t1", "history_length": -1}, "$.historyLength"),
    (ops.CANCEL_TASK, {"name": "tasks/"}, "$.name"),
    (ops.SUBSCRIBE_TO_TASK, {"name": ""}, "$.name"),
    (ops.CREATE_PUSH_CONFIG, {"config": {"push_notification_config": {"url": "https://a"}}}, "$.parent"),
    (ops.CREATE_PUSH_CONFIG, {"parent": "tasks/t1"}, "$.url"),
    (ops.GET_PUSH_CONFIG, {"name": "tasks/t1"}, "$.name"),
    (ops.LIST_PUSH_CONFIGS, {}, "$.parent"),
    (ops.LIST_PUSH_CONFIGS, {"parent": "tasks/t1", "page_size": -1}, "$.pageSize"),
    (ops.DELETE_PUSH_CONFIG, {"name": "tasks/t1/pushNotificationConfigs/"}, "$.name"),
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
    ({"msg": {}}, "$.message.messageId"),
    ({"task": {"status": WORKING}}, "$.task.id"),
    ({"task": {"id": "t1"}}, "$.task.status"),
    ({"task": {"id": "t1", "status": {"state": 9}}}, "$.task.status.state"),
    ({"task": {"id": "t1", "status": WORKING, "artifacts": [{"artifact_id": "a1"}]}}, "$.task.artifacts[0].parts"),
    ({"status_update": {"task_id": "t1"}}, "$.statusUpdate.status"),
    (
        {"status_update": {"task_id": "t1", "status": {"update": {"message_id": "m1"}}}},
        "$.statusUpdate.status.message.role",
    ),
    ({"artifact_update": {"task_id": "t1"}}, "$.artifactUpdate.artifact"),
]


@pytest.mark.parametrize(("fields", "path"), BAD_EVENTS, ids=[path for _, path in BAD_EVENTS])
def test_an_event_that_makes_no_sense_is_the_peers_fault(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(PeerProtocolError) as caught:
        DIALECT.decode_event(message_class("a2a.v1.StreamResponse")(**fields))
    assert caught.value.path == path


def test_an_empty_status_message_is_none_at_all() -> None:
    """a2a-sdk 0.3 passes an absent message on as an empty one of the agent's."""
    task = message_class("a2a.v1.Task")(id="t1", status={"state": 2, "update": {"role": 2}})
    assert DIALECT.decode_result(ops.GET_TASK, task).status == TaskStatus(TaskState.WORKING)


@pytest.mark.parametrize(
    ("state", "said", "meant"),
    [
        (TaskState.WORKING, False, False),
        (TaskState.WORKING, True, True),
        (TaskState.COMPLETED, False, True),
        (TaskState.INPUT_REQUIRED, False, True),
    ],
)
def test_final_is_said_where_the_stream_ends(state: TaskState, said: bool, meant: bool) -> None:
    update = StatusUpdate("t1", "c1", TaskStatus(state), final=said)
    sent = DIALECT.encode_event(update)
    assert sent.status_update.final is meant
    assert DIALECT.decode_event(sent) == update


# --- file bytes -------------------------------------------------------------------------------------------------------


@given(st.binary())
def test_file_bytes_travel_as_base64_text_and_come_back(content: bytes) -> None:
    message = Message("m1", Role.USER, (RawPart(content),))
    sent = DIALECT.encode_event(message)
    assert base64.b64decode(sent.msg.content[0].file.file_with_bytes, validate=True) == content
    assert DIALECT.decode_event(sent) == message


def test_bytes_of_a_peer_that_knows_no_base64_text_are_the_content_itself() -> None:
    message = message_class("a2a.v1.StreamResponse")(
        msg=MESSAGE
        | {"content": [{"file": {"file_with_bytes": b"\x89PNG", "mime_type": "image/png", "name": "a.png"}}]}
    )
    assert DIALECT.decode_event(message) == Message("m1", Role.USER, (RawPart(b"\x89PNG", "image/png", "a.png"),))


# --- what has no field ------------------------------------------------------------------------------------------------


def test_a_text_parts_file_name_and_a_messages_references_travel_in_metadata() -> None:
    message = Message("m1", Role.USER, (TextPart("hi", "text/plain", "a.txt", {"own": 1}),), reference_task_ids=("t0",))
    sent = DIALECT.encode_event(message).msg
    assert dict(sent.content[0].metadata) == {
        "own": 1,
        "parley.mediaType": "text/plain",
        "parley.filename": "a.txt",
    }
    assert list(sent.metadata["parley.referenceTaskIds"]) == ["t0"]


def test_data_that_is_no_object_is_wrapped_as_a2a_sdk_does_it() -> None:
    sent = DIALECT.encode_event(Message("m1", Role.USER, (DataPart("x"),))).msg.content[0]
    assert (dict(sent.data.data), dict(sent.metadata)) == ({"value": "x"}, {"data_part_compat": True})


def test_an_empty_object_is_data() -> None:
    message = Message("m1", Role.USER, (DataPart({}),))
    assert DIALECT.decode_event(DIALECT.encode_event(message)) == message


def test_whether_to_wait_is_always_said() -> None:
    send = DIALECT.rpc(ops.SEND_MESSAGE).request
    waiting = r.SendMessageRequest(Message("m1", Role.USER, (TextPart("hi"),)))
    assert DIALECT.encode_request(ops.SEND_MESSAGE, waiting).configuration.blocking is True
    silent = DIALECT.decode_request(ops.SEND_MESSAGE, send(request=MESSAGE))
    assert isinstance(silent, r.SendMessageRequest)
    assert silent.configuration.return_immediately is True


def test_no_history_cannot_be_asked_for() -> None:
    sent = DIALECT.encode_request(ops.GET_TASK, r.GetTaskRequest("t1", 0))
    assert DIALECT.decode_request(ops.GET_TASK, sent) == r.GetTaskRequest("t1")


def test_tenants_and_request_metadata_are_dropped() -> None:
    sent = DIALECT.encode_request(ops.CANCEL_TASK, r.CancelTaskRequest("t1", {"dropped": True}, "acme"))
    assert DIALECT.decode_request(ops.CANCEL_TASK, sent) == r.CancelTaskRequest("t1")


# --- resource names ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task_id", ["", "a/b"])
def test_an_id_that_no_resource_name_holds_is_not_sent(task_id: str) -> None:
    with pytest.raises(LocalProtocolError, match=r"A2A 0\.3 has no resource name for the id"):
        DIALECT.encode_request(ops.GET_TASK, r.GetTaskRequest(task_id))


def test_a_webhook_without_an_id_goes_by_the_tasks() -> None:
    asked = DIALECT.encode_request(ops.GET_PUSH_CONFIG, r.GetPushConfigRequest("t1"))
    answered = DIALECT.encode_result(ops.GET_PUSH_CONFIG, PushConfig("https://a", "t1"))
    assert asked.name == answered.name == "tasks/t1/pushNotificationConfigs/t1"
    assert DIALECT.decode_result(ops.GET_PUSH_CONFIG, answered) == PushConfig("https://a", "t1", "t1")


def test_the_name_of_a_webhook_may_lack_its_id() -> None:
    """The server of a2a-sdk 0.3 answers so for a webhook that came with a send."""
    hook = DIALECT.rpc(ops.GET_PUSH_CONFIG).response
    named = hook(name="tasks/t1/pushNotificationConfigs/", push_notification_config={"url": "https://a"})
    assert DIALECT.decode_result(ops.GET_PUSH_CONFIG, named) == PushConfig("https://a", "t1")


def test_an_id_that_a2a_sdk_spells_none_is_none() -> None:
    """a2a-sdk 0.3 formats a missing config id into the name."""
    name = "tasks/t1/pushNotificationConfigs/None"
    get, delete = (DIALECT.rpc(op).request(name=name) for op in (ops.GET_PUSH_CONFIG, ops.DELETE_PUSH_CONFIG))
    assert DIALECT.decode_request(ops.GET_PUSH_CONFIG, get) == r.GetPushConfigRequest("t1")
    assert DIALECT.decode_request(ops.DELETE_PUSH_CONFIG, delete) == r.DeletePushConfigRequest("t1", "t1")


def test_a_webhook_is_registered_under_the_id_beside_it_or_in_it() -> None:
    create = DIALECT.rpc(ops.CREATE_PUSH_CONFIG).request
    config = {"push_notification_config": {"url": "https://a"}}
    named = create(parent="tasks/t1", config_id="p1", config=config)
    unnamed = create(parent="tasks/t1", config=config)
    assert DIALECT.decode_request(ops.CREATE_PUSH_CONFIG, named) == r.CreatePushConfigRequest(
        "t1", PushConfig("https://a", "t1", "p1")
    )
    assert DIALECT.decode_request(ops.CREATE_PUSH_CONFIG, unnamed) == r.CreatePushConfigRequest(
        "t1", PushConfig("https://a", "t1")
    )


# --- cards ------------------------------------------------------------------------------------------------------------


def interface(url: str, version: str, binding: str = "GRPC") -> c.AgentInterface:
    return c.AgentInterface(url, binding, version)


@pytest.mark.parametrize(
    ("interfaces", "urls"),
    [
        ((interface("new", "1.0"), interface("a", "0.3"), interface("b", "0.3")), ["a", "b"]),
        ((interface("new", "1.0"), interface("old", "0.2")), ["old"]),
        ((interface("new", "1.0"),), ["new"]),
    ],
)
def test_a_card_lists_the_interfaces_that_speak_0_3(interfaces: tuple[c.AgentInterface, ...], urls: list[str]) -> None:
    sent = DIALECT.encode_card(c.AgentCard("A", "", "", interfaces))
    assert (sent.url, sent.preferred_transport, sent.protocol_version) == (urls[0], "GRPC", "0.3.0")
    assert [(other.url, other.transport) for other in sent.additional_interfaces] == [(url, "GRPC") for url in urls]
    assert [known.url for known in DIALECT.decode_card(sent).interfaces] == urls


def test_a_card_that_says_little_speaks_json_rpc_in_0_3() -> None:
    card = message_class("a2a.v1.AgentCard")(name="A", url="https://a")
    assert DIALECT.decode_card(card).interfaces == (interface("https://a", "0.3", "JSONRPC"),)


def test_a_card_without_interfaces_has_no_url() -> None:
    sent = DIALECT.encode_card(c.AgentCard("A", "", "", ()))
    with pytest.raises(PeerProtocolError, match=r"Missing or empty \(at \$\.url\)"):
        DIALECT.decode_card(sent)


def test_an_additional_interface_needs_a_url_and_a_transport() -> None:
    card = message_class("a2a.v1.AgentCard")(name="A", url="https://a", additional_interfaces=[{"url": "https://b"}])
    with pytest.raises(PeerProtocolError) as caught:
        DIALECT.decode_card(card)
    assert caught.value.path == "$.additionalInterfaces[0].transport"


def test_what_came_with_1_0_is_missing_from_a_card() -> None:
    code = c.OAuthFlow(token_url="https://t", pkce_required=True)
    schemes: dict[str, c.SecurityScheme] = {
        "code": c.OAuth2Scheme(c.OAuthFlows(authorization_code=code)),
        "device": c.OAuth2Scheme(c.OAuthFlows(device_code=c.OAuthFlow(token_url="https://d"))),
    }
    card = c.AgentCard("A", "", "", (interface("a", "0.3"),), security_schemes=schemes)
    received = DIALECT.decode_card(DIALECT.encode_card(card))
    assert received.security_schemes == {
        "code": c.OAuth2Scheme(c.OAuthFlows(authorization_code=c.OAuthFlow(token_url="https://t"))),
        "device": c.OAuth2Scheme(c.OAuthFlows()),
    }
    assert received.capabilities == c.AgentCapabilities(False, False, False)


def test_a_replay_across_an_old_question_says_final_only_at_its_end() -> None:
    question = StatusUpdate("t1", "c1", TaskStatus(TaskState.INPUT_REQUIRED))
    done = StatusUpdate("t1", "c1", TaskStatus(TaskState.COMPLETED))
    assert DIALECT.encode_event(question).status_update.final
    assert not DIALECT.encode_event(question, ends=False).status_update.final
    assert DIALECT.encode_event(done, ends=True).status_update.final
    assert DIALECT.encode_event(Task("t1", "c1", done.status), ends=True).task.id == "t1"


@pytest.mark.parametrize(("name", "config_id"), [("c1", "c1"), ("None", None)])
def test_a_webhook_to_register_may_have_its_id_in_its_name(name: str, config_id: str | None) -> None:
    message = DIALECT.rpc(ops.CREATE_PUSH_CONFIG).request(
        parent="tasks/t1",
        config={"name": f"tasks/t1/pushNotificationConfigs/{name}", "push_notification_config": {"url": "u"}},
    )
    expected = r.CreatePushConfigRequest("t1", PushConfig("u", "t1", config_id))
    assert DIALECT.decode_request(ops.CREATE_PUSH_CONFIG, message) == expected
    message.config_id = "None"
    assert DIALECT.decode_request(ops.CREATE_PUSH_CONFIG, message) == expected


@pytest.mark.parametrize(("stated", "version"), [("", "0.3"), ("0.2.6", "0.2"), ("1.0", "0.3")])
def test_the_endpoints_of_a_card_speak_a_version_before_1_0(stated: str, version: str) -> None:
    card = message_class("a2a.v1.AgentCard")(name="n", url="u", protocol_version=stated)
    assert DIALECT.decode_card(card).interfaces[0].version == version


def test_a_scheme_of_a_later_release_is_left_out() -> None:
    card = message_class("a2a.v1.AgentCard")(name="n", url="u")
    card.security_schemes["x"].SetInParent()
    assert DIALECT.decode_card(card).security_schemes == {}


def test_a_result_that_0_3_does_not_have_is_unsupported() -> None:
    with pytest.raises(UnsupportedOperationError, match="has no ListTasks"):
        DIALECT.decode_result(ops.LIST_TASKS, message_class("a2a.v1.Task")())
    with pytest.raises(UnsupportedOperationError, match="answers SendStreamingMessage with a stream"):
        DIALECT.encode_result(ops.SEND_STREAMING_MESSAGE, None)
