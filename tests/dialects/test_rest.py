"""REST requests in both directions, and the shapes of 0.3 bodies."""

import json
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from parley.dialects import v0_3, v0_3_protojson, v1_0
from parley.dialects.rest import decode_rest_request, encode_rest_request
from parley.protocol import operations as ops
from parley.protocol.errors import InvalidParamsError, LocalProtocolError, ParseError, UnsupportedOperationError
from parley.protocol.operations import OPERATIONS, Operation, routes_of
from parley.protocol.push import PushAuthentication, PushConfig
from parley.protocol.requests import (
    CancelTaskRequest,
    CreatePushConfigRequest,
    GetPushConfigRequest,
    GetTaskRequest,
    ListPushConfigsRequest,
    ListTasksRequest,
    SendMessageRequest,
)
from parley.protocol.versions import Version
from parley.wire.rest import build_path, encode_query, match, parse_query, read_query
from tests import losses, strategies
from tests.losses import Losses

V0_3, V1_0 = Version.V0_3, Version.V1_0
NO_ID = {GetPushConfigRequest: lambda q: GetPushConfigRequest(q.task_id, q.id or q.task_id)}
LOSSES = {V1_0: Losses(losses.RULES_1_0), V0_3: Losses(losses.RULES_0_3_PROTOJSON | NO_ID)}


def over_http(version: Version, operation: Operation, request: Any) -> Any:
    """Through a request line and a body, as client and server would."""
    sent = encode_rest_request(version, operation, request)
    verb, path = build_path(operation, version, parameters=sent.parameters, tenant=sent.tenant)
    found = match(version, verb, path)
    query = read_query(found.route, parse_query(encode_query(sent.query)))
    received, _ = decode_rest_request(
        version, found.operation, parameters=found.parameters, query=query, body=sent.body, tenant=found.tenant
    )
    return received


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
@given(data=st.data())
def test_a_request_crosses_a_request_line_and_a_body(operation: Operation, data: Any) -> None:
    request = data.draw(strategies.requests[operation.name])
    for version in (V0_3, V1_0):
        if operation in [known for _, known in routes_of(version)]:
            note(version)
            assert_it_crosses(version, operation, request)


def assert_it_crosses(version: Version, operation: Operation, request: Any) -> None:
    if version is V1_0 and getattr(request, "tenant", None) in ("tasks", "v1"):
        request = type(request)(**{**{n: getattr(request, n) for n in request.__struct_fields__}, "tenant": "acme"})

    expected = LOSSES[version].remaining(request)
    if (
        version is V0_3
        and hasattr(expected, "metadata")
        and operation not in (ops.SEND_MESSAGE, ops.SEND_STREAMING_MESSAGE)
    ):
        # Metadata of requests without a body has no place in a query.
        expected = Losses({operation.request: losses.without(metadata={})}).remaining(expected)
    assert over_http(version, operation, request) == expected


PUSH = PushConfig("https://hook", "t1", "c1", authentication=PushAuthentication(("Bearer",)))
HOOK = {"url": "https://hook", "id": "c1", "authentication": {"schemes": ["Bearer"]}}
NAME = "tasks/t1/pushNotificationConfigs/c1"


@pytest.mark.parametrize(
    ("body", "answers_in"),
    [
        ({"parent": "tasks/t1", "configId": "c1", "config": {"name": NAME, "pushNotificationConfig": HOOK}}, "proto"),
        ({"parent": "tasks/t1", "config_id": "c1", "config": {"push_notification_config": HOOK}}, "proto"),
        ({"config": {"taskId": "t1", "pushNotificationConfig": HOOK}}, "core"),
        ({"taskId": "t1", "pushNotificationConfig": HOOK}, "core"),
        (HOOK, "core"),
        ({"configId": "c1", "config": {"pushNotificationConfig": {**HOOK, "id": ""}}}, "proto"),
    ],
)
def test_a_webhook_is_found_in_every_body_that_peers_send(body: dict[str, Any], answers_in: str) -> None:
    request, dialect = decode_rest_request(
        V0_3, ops.CREATE_PUSH_CONFIG, parameters={"id": "t1"}, query={}, body=json.dumps(body).encode()
    )
    assert request == CreatePushConfigRequest("t1", PUSH)
    assert dialect is (v0_3.REST_DIALECT if answers_in == "core" else v0_3_protojson.REST_DIALECT)


@pytest.mark.parametrize("body", [b'{"config": 5}', b"[]", b'{"pushNotificationConfig": 5}', b""])
def test_a_body_without_a_webhook_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidParamsError):
        decode_rest_request(V0_3, ops.CREATE_PUSH_CONFIG, parameters={"id": "t1"}, query={}, body=body)


@pytest.mark.parametrize(
    ("body", "dialect"),
    [
        (
            {"message": {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "x"}]}},
            v0_3.REST_DIALECT,
        ),
        (
            {"message": {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "x"}]}},
            v0_3_protojson.REST_DIALECT,
        ),
        (
            {"request": {"message_id": "m", "role": "ROLE_USER", "content": [{"text": "x"}]}},
            v0_3_protojson.REST_DIALECT,
        ),
    ],
)
def test_0_3_is_answered_in_the_shape_it_asked_in(body: dict[str, Any], dialect: Any) -> None:
    request, answers_in = decode_rest_request(
        V0_3, ops.SEND_MESSAGE, parameters={}, query={}, body=json.dumps(body).encode()
    )
    assert answers_in is dialect
    assert request.message.text == "x"  # pyright: ignore[reportAttributeAccessIssue]


def test_the_path_counts_more_than_the_body() -> None:
    request, dialect = decode_rest_request(
        V1_0,
        ops.CANCEL_TASK,
        parameters={"id": "t1"},
        query={},
        body=b'{"id": "t2", "tenant": "evil", "metadata": {"why": 1}}',
        tenant="acme",
    )
    assert request == CancelTaskRequest("t1", {"why": 1}, "acme")
    assert dialect is v1_0.REST_DIALECT


def test_a_tenant_in_the_path_of_a_send_counts_more_than_the_body() -> None:
    body = b'{"tenant": "evil", "message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}}'
    request, _ = decode_rest_request(V1_0, ops.SEND_MESSAGE, parameters={}, query={}, body=body, tenant="acme")
    assert request.tenant == "acme"


def test_a_query_is_read_into_the_request() -> None:
    query: dict[str, str | int | bool] = {"historyLength": 3}
    request, _ = decode_rest_request(V1_0, ops.GET_TASK, parameters={"id": "t1"}, query=query)
    assert request == GetTaskRequest("t1", 3)


@pytest.mark.parametrize(
    ("version", "body", "error"),
    [(V1_0, b"{", ParseError), (V0_3, b"{", ParseError), (V1_0, b"[" * 100_000, InvalidParamsError)],
)
def test_a_body_that_is_no_json_is_refused(version: Version, body: bytes, error: type[Exception]) -> None:
    for operation in (ops.SEND_MESSAGE, ops.CREATE_PUSH_CONFIG):
        with pytest.raises(error):
            decode_rest_request(version, operation, parameters={"id": "t"}, query={}, body=body)


def test_a_webhook_in_a_send_below_a_tenant_has_no_tenant_of_its_own() -> None:
    body = b"""{"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}, "configuration":
        {"taskPushNotificationConfig": {"url": "https://hook", "tenant": "evil", "taskId": "t9"}}}"""
    request, _ = decode_rest_request(V1_0, ops.SEND_MESSAGE, parameters={}, query={}, body=body, tenant="acme")
    assert isinstance(request, SendMessageRequest)
    assert (request.tenant, request.configuration.push_config) == ("acme", PushConfig("https://hook"))


def test_the_pages_of_0_3_webhooks_are_asked_for_in_the_query() -> None:
    request = ListPushConfigsRequest("t1", 20, "after-20")
    assert encode_rest_request(V0_3, ops.LIST_PUSH_CONFIGS, request).query == {"pageSize": 20, "pageToken": "after-20"}
    assert over_http(V0_3, ops.LIST_PUSH_CONFIGS, request) == request


def test_no_history_in_a_query_of_0_3_is_all_of_it() -> None:
    query: dict[str, str | int | bool] = {"historyLength": 0}
    assert decode_rest_request(V0_3, ops.GET_TASK, parameters={"id": "t"}, query=query)[0] == GetTaskRequest("t")
    assert decode_rest_request(V1_0, ops.GET_TASK, parameters={"id": "t"}, query=query)[0] == GetTaskRequest("t", 0)


@pytest.mark.parametrize(("config_id", "expected"), [("c1", "c1"), ("None", None)])
def test_a_webhook_of_0_3_may_have_its_id_in_its_name(config_id: str, expected: str | None) -> None:
    config = {"name": f"tasks/t1/pushNotificationConfigs/{config_id}", "pushNotificationConfig": {"url": "u"}}
    for body in ({"config": config}, {"config": config, "configId": "None"}):
        request, _ = decode_rest_request(
            V0_3, ops.CREATE_PUSH_CONFIG, parameters={"id": "t1"}, query={}, body=json.dumps(body).encode()
        )
        assert request == CreatePushConfigRequest("t1", PushConfig("u", "t1", expected))


def test_an_operation_without_a_route_is_refused_on_either_side() -> None:
    with pytest.raises(LocalProtocolError, match=r"A2A 0.3 has no REST route for ListTasks"):
        encode_rest_request(V0_3, ops.LIST_TASKS, ListTasksRequest())
    with pytest.raises(LocalProtocolError, match=r"A2A 0.1 has no REST route for GetTask"):
        encode_rest_request(Version.V0_1, ops.GET_TASK, GetTaskRequest("t"))
    with pytest.raises(UnsupportedOperationError, match=r"A2A 0.3 has no REST route for ListTasks"):
        decode_rest_request(V0_3, ops.LIST_TASKS, parameters={}, query={})


TWICE = '[{"text": "a", "text": "b"}]'


@pytest.mark.parametrize(
    ("version", "operation", "body", "path"),
    [
        (
            V1_0,
            ops.SEND_MESSAGE,
            f'{{"message": {{"messageId": "m", "role": "ROLE_USER", "parts": {TWICE}}}}}',
            "$.message.parts[0].text",
        ),
        (
            V0_3,
            ops.SEND_MESSAGE,
            f'{{"request": {{"messageId": "m", "role": "ROLE_USER", "content": {TWICE}}}}}',
            "$.request.content[0].text",
        ),
        (V0_3, ops.CREATE_PUSH_CONFIG, '{"config": {"url": "https://a", "url": "https://b"}}', "$.config.url"),
        (V1_0, ops.CREATE_PUSH_CONFIG, '{"url": "https://a", "url": "https://b"}', "$.url"),
    ],
)
def test_a_name_that_comes_twice_is_refused(version: Version, operation: Operation, body: str, path: str) -> None:
    parameters = {"id": "t"} if operation is ops.CREATE_PUSH_CONFIG else {}
    with pytest.raises(InvalidParamsError, match="Duplicate name in an object") as caught:
        decode_rest_request(version, operation, parameters=parameters, query={}, body=body.encode())
    assert caught.value.path == path
