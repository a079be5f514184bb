"""Every object through both protobufs and back: what comes out is what went in, less the documented losses."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from msgspec import structs

from parley.dialects import protobuf_v0_3, protobuf_v1_0
from parley.dialects.protobuf_dialect import ProtobufDialect
from parley.dialects.protobuf_pool import message_class, parse_reply, parse_request
from parley.protocol import cards as c
from parley.protocol import messages as m
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.errors import LocalProtocolError, ParleyError
from parley.protocol.events import ArtifactUpdate, StatusUpdate, StreamEvent
from parley.protocol.operations import OPERATIONS, Operation
from parley.protocol.push import PushAuthentication, PushConfig
from parley.protocol.tasks import Artifact, Task, TaskState, TaskStatus
from tests import losses, strategies
from tests.losses import Losses, without

V0_3, V1_0 = protobuf_v0_3.DIALECT, protobuf_v1_0.DIALECT
DIALECTS = pytest.mark.parametrize("dialect", [V0_3, V1_0], ids=lambda dialect: str(dialect.version))

# --- what each package loses, beyond what its JSON does ---------------------------------------------------------------

FLOW_MEMBERS = {
    "authorization_code": ("scopes", "authorization_url", "token_url", "refresh_url", "pkce_required"),
    "client_credentials": ("scopes", "token_url", "refresh_url"),
    "implicit": ("scopes", "authorization_url", "refresh_url"),
    "password": ("scopes", "token_url", "refresh_url"),
    "device_code": ("scopes", "device_authorization_url", "token_url", "refresh_url"),
}


def own_members(flows: c.OAuthFlows) -> c.OAuthFlows:
    """Each flow is a message of its own, with the members it needs."""
    given = {name: getattr(flows, name) for name in FLOW_MEMBERS}
    return c.OAuthFlows(
        **{
            name: c.OAuthFlow(**{member: getattr(flow, member) for member in FLOW_MEMBERS[name]})
            for name, flow in given.items()
            if flow
        }
    )


def plain_flags(capabilities: c.AgentCapabilities) -> c.AgentCapabilities:
    """0.3 cannot tell absent from false."""
    said = (capabilities.streaming, capabilities.push_notifications, capabilities.extended_card)
    return c.AgentCapabilities(*map(bool, said), extensions=capabilities.extensions)


def sdk_none(config_id: str | None) -> str | None:
    """a2a-sdk 0.3 writes "None" for no id."""
    return None if config_id == "None" else config_id


no_slot = without(tenant=None, metadata={})
LOSSES = {
    "1.0": Losses(losses.RULES_1_0 | {c.OAuthFlows: own_members}),
    "0.3": Losses(
        losses.RULES_0_3_PROTOJSON
        | {
            r.GetTaskRequest: lambda q: r.GetTaskRequest(q.task_id, q.history_length or None),
            r.CancelTaskRequest: no_slot,
            r.SubscribeToTaskRequest: no_slot,
            r.GetPushConfigRequest: lambda q: r.GetPushConfigRequest(q.task_id, sdk_none(q.id or q.task_id)),
            r.ListPushConfigsRequest: no_slot,
            r.DeletePushConfigRequest: lambda q: r.DeletePushConfigRequest(q.task_id, sdk_none(q.id) or q.task_id),
            c.OAuthFlows: lambda flows: own_members(structs.replace(flows, device_code=None)),
            c.AgentCapabilities: plain_flags,
        }
    ),
}

# --- one of everything ------------------------------------------------------------------------------------------------

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MESSAGE = m.Message(
    "m1",
    m.Role.USER,
    (
        m.TextPart("hi"),
        m.RawPart(b"\x00", "a/b", "f"),
        m.UrlPart("https://a"),
        m.DataPart([None, True, 1.5, {"k": []}]),
    ),
    metadata={"trace": "x"},
)
TASK = Task(
    "t1", "c1", TaskStatus(TaskState.INPUT_REQUIRED, MESSAGE, NOON), (Artifact("a1", MESSAGE.parts),), (MESSAGE,)
)
WEBHOOK = PushConfig("https://hook", "t1", "p1", "secret", PushAuthentication(("Bearer",), "token"))
FLOW = c.OAuthFlow({"read": "to read"}, "https://authorize", "https://token")
CARD = c.AgentCard(
    "A",
    "An agent",
    "1",
    (c.AgentInterface("https://b", "JSONRPC", "0.3"), c.AgentInterface("https://a", "GRPC", "0.3")),
    c.AgentCapabilities(True, False, True, extensions=(c.AgentExtension("urn:x", params={"k": 1}),)),
    (c.AgentSkill("s1", "S", "A skill", security=({"http": ()},)),),
    provider=c.AgentProvider("Org", "https://org"),
    security_schemes={
        "key": c.ApiKeyScheme(c.ApiKeyLocation.HEADER, "X-Key"),
        "http": c.HttpAuthScheme("Bearer"),
        "oauth": c.OAuth2Scheme(c.OAuthFlows(authorization_code=FLOW)),
        "none": c.OAuth2Scheme(c.OAuthFlows()),
        "oidc": c.OpenIdConnectScheme("https://oidc"),
        "mtls": c.MutualTlsScheme("a certificate"),
    },
    security=({"oauth": ("read",)},),
    signatures=(c.CardSignature("p", "s", {"kid": "k"}),),
)

REQUESTS: list[tuple[Operation, r.Request]] = [
    (
        ops.SEND_MESSAGE,
        r.SendMessageRequest(MESSAGE, r.SendConfiguration(("text/plain",), PushConfig("https://hook"), 3, True)),
    ),
    (ops.SEND_STREAMING_MESSAGE, r.SendMessageRequest(MESSAGE, metadata={"k": "v"})),
    (ops.GET_TASK, r.GetTaskRequest("t1", 2)),
    (ops.LIST_TASKS, r.ListTasksRequest("c1", TaskState.WORKING, 50, "next", 0, NOON, True, "acme")),
    (ops.CANCEL_TASK, r.CancelTaskRequest("t1")),
    (ops.SUBSCRIBE_TO_TASK, r.SubscribeToTaskRequest("t1")),
    (ops.CREATE_PUSH_CONFIG, r.CreatePushConfigRequest("t1", WEBHOOK)),
    (ops.GET_PUSH_CONFIG, r.GetPushConfigRequest("t1", "p1")),
    (ops.LIST_PUSH_CONFIGS, r.ListPushConfigsRequest("t1", 10, "next")),
    (ops.DELETE_PUSH_CONFIG, r.DeletePushConfigRequest("t1", "p1")),
    (ops.GET_EXTENDED_CARD, r.GetExtendedCardRequest()),
]
RESULTS: list[tuple[Operation, r.Result]] = [
    (ops.SEND_MESSAGE, TASK),
    (ops.SEND_MESSAGE, MESSAGE),
    (ops.GET_TASK, TASK),
    (ops.LIST_TASKS, r.TaskPage((TASK,), "next", 1, 2)),
    (ops.CANCEL_TASK, TASK),
    (ops.CREATE_PUSH_CONFIG, WEBHOOK),
    (ops.GET_PUSH_CONFIG, WEBHOOK),
    (ops.LIST_PUSH_CONFIGS, r.PushConfigPage((WEBHOOK,), "next")),
    (ops.DELETE_PUSH_CONFIG, None),
    (ops.GET_EXTENDED_CARD, CARD),
]
EVENTS: list[StreamEvent] = [
    TASK,
    MESSAGE,
    StatusUpdate("t1", "c1", TASK.status),
    ArtifactUpdate("t1", "c1", TASK.artifacts[0], True, True, {"k": "v"}),
]


@DIALECTS
def test_one_of_everything_arrives_as_it_was_sent(dialect: ProtobufDialect) -> None:
    for operation, request in REQUESTS:
        if dialect.speaks(operation):
            assert dialect.decode_request(operation, dialect.encode_request(operation, request)) == request
    for operation, result in RESULTS:
        if dialect.speaks(operation):
            assert dialect.decode_result(operation, dialect.encode_result(operation, result)) == result
    for event in EVENTS:
        assert dialect.decode_event(dialect.encode_event(event)) == event
    assert dialect.decode_card(dialect.encode_card(CARD)) == CARD


# --- the properties ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """An operation in a package."""

    dialect: ProtobufDialect
    operation: Operation

    def __repr__(self) -> str:
        return f"{self.dialect.version} {self.operation.name}"

    def send(self, request: r.Request) -> bytes | None:
        """The bytes of a request; none where an id has a slash, for which 0.3 has no name."""
        return serialized(lambda: self.dialect.encode_request(self.operation, request), request)

    def answer(self, result: r.Result) -> bytes | None:
        """The bytes of a result, with the same exception."""
        return serialized(lambda: self.dialect.encode_result(self.operation, result), result)


def serialized(encode: Any, value: Any) -> bytes | None:
    try:
        return encode().SerializeToString()
    except LocalProtocolError:
        if "/" in repr(value):
            return None
        raise


def remaining(dialect: ProtobufDialect, value: Any) -> Any:
    return LOSSES[dialect.version].remaining(value)


def with_ids(dialect: ProtobufDialect, result: Any) -> Any:
    """In an answer of 0.3, a webhook without an id goes by its task's."""
    if isinstance(result, PushConfig) and dialect is V0_3:
        return structs.replace(result, id=result.id or sdk_none(result.task_id))
    if isinstance(result, r.PushConfigPage):
        return structs.replace(result, configs=tuple(with_ids(dialect, config) for config in result.configs))
    return result


def cases_of(operation: Operation) -> Iterator[Case]:
    """An operation in each package that has it; the last one that is noted is the one that failed."""
    for dialect in (V0_3, V1_0):
        if dialect.speaks(operation):
            note(str(dialect.version))
            yield Case(dialect, operation)


EACH_REQUEST = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda op: op.name)
EACH_RESULT = pytest.mark.parametrize("operation", [op for op in OPERATIONS if not op.streams], ids=lambda op: op.name)


@EACH_REQUEST
@given(data=st.data())
def test_a_request_comes_back_as_it_went(operation: Operation, data: st.DataObject) -> None:
    request = data.draw(strategies.requests[operation.name])

    for case in cases_of(operation):
        wire = case.send(request)
        if wire is not None:
            received = parse_request(case.dialect.rpc(operation).request, wire)
            assert case.dialect.decode_request(operation, received) == remaining(case.dialect, request)


@EACH_RESULT
@given(data=st.data())
def test_a_result_comes_back_as_it_went(operation: Operation, data: st.DataObject) -> None:
    result = data.draw(strategies.results[operation.name])

    for case in cases_of(operation):
        wire = case.answer(result)
        if wire is not None:
            received = parse_reply(case.dialect.rpc(operation).response, wire)
            expected = remaining(case.dialect, with_ids(case.dialect, result))
            assert case.dialect.decode_result(operation, received) == expected


@given(event=strategies.stream_events)
def test_a_stream_event_comes_back_as_it_went(event: Any) -> None:
    for dialect in (V0_3, V1_0):
        wire = dialect.encode_event(event).SerializeToString()
        received = parse_reply(message_class(f"{dialect.package}.StreamResponse"), wire)
        assert dialect.decode_event(received) == remaining(dialect, event), dialect.version


@st.composite
def damaged(draw: st.DrawFn, wire: bytes) -> bytes:
    """The bytes of a message with some of them replaced."""
    changed = bytearray(wire)
    for _ in range(draw(st.integers(1, 4)) if wire else 0):
        changed[draw(st.integers(0, len(wire) - 1))] = draw(st.integers(0, 255))
    return bytes(changed)


@EACH_REQUEST
@given(data=st.data())
def test_no_bytes_make_a_server_raise_anything_but_our_errors(operation: Operation, data: st.DataObject) -> None:
    request = data.draw(strategies.requests[operation.name])
    for case in cases_of(operation):
        wire = case.send(request) or b""
        with suppress(ParleyError):
            message = parse_request(case.dialect.rpc(operation).request, data.draw(st.binary() | damaged(wire)))
            case.dialect.decode_request(operation, message)


@EACH_RESULT
@given(data=st.data())
def test_no_bytes_make_a_client_raise_anything_but_our_errors(operation: Operation, data: st.DataObject) -> None:
    result = data.draw(strategies.results[operation.name])
    for case in cases_of(operation):
        wire = case.answer(result) or b""
        with suppress(ParleyError):
            message = parse_reply(case.dialect.rpc(operation).response, data.draw(st.binary() | damaged(wire)))
            case.dialect.decode_result(operation, message)
