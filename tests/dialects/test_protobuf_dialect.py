"""What both protobuf dialects share: free-form JSON, timestamps, and who is to blame."""

from __future__ import annotations

from datetime import UTC, datetime
from math import inf, nan
from typing import Any

import pytest

from parley.dialects.protobuf_dialect import ProtobufDialect
from parley.dialects.protobuf_pool import message_class, parse_reply, parse_request
from parley.dialects.protobuf_v0_3 import DIALECT as V0_3
from parley.dialects.protobuf_v1_0 import DIALECT as V1_0
from parley.dialects.protobuf_values import MAX_DEPTH
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.errors import (
    InvalidParamsError,
    LocalProtocolError,
    PeerProtocolError,
    UnsupportedOperationError,
)
from parley.protocol.events import StatusUpdate
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.messages import DataPart, Message, Role, TextPart
from parley.protocol.tasks import Task, TaskState, TaskStatus

DIALECTS = pytest.mark.parametrize("dialect", [V0_3, V1_0], ids=lambda dialect: str(dialect.version))


def a_message(**changes: Any) -> Message:
    return Message(**{"message_id": "m1", "role": Role.USER, "parts": (TextPart("hi"),)} | changes)


def trip(dialect: ProtobufDialect, message: Message) -> Message:
    """Send a message through a package's bytes."""
    wire = dialect.encode_event(message).SerializeToString()
    received = dialect.decode_event(parse_reply(message_class(f"{dialect.package}.StreamResponse"), wire))
    assert isinstance(received, Message)
    return received


# --- free-form JSON ---------------------------------------------------------------------------------------------------


def nested(depth: int, *, lists: bool) -> JsonObject:
    value: JsonValue = 1
    for _ in range(depth - 1):
        value = [value] if lists else {"inner": value}
    return {"outer": value}


@DIALECTS
@pytest.mark.parametrize("lists", [True, False], ids=["lists", "objects"])
def test_json_survives_as_deep_as_we_let_it_go_in_the_deepest_place_there_is(
    dialect: ProtobufDialect, lists: bool
) -> None:
    part = DataPart(nested(MAX_DEPTH - 1, lists=lists), metadata=nested(MAX_DEPTH, lists=lists))
    message = a_message(parts=(part, DataPart([nested(MAX_DEPTH - 2, lists=lists)])))
    event = StatusUpdate("t1", "c1", TaskStatus(TaskState.WORKING, message))
    task = Task("t1", "c1", TaskStatus(TaskState.WORKING, message))

    update = dialect.encode_event(event).SerializeToString()
    snapshot = dialect.encode_event(task).SerializeToString()

    response = message_class(f"{dialect.package}.StreamResponse")
    assert dialect.decode_event(parse_reply(response, update)) == event
    assert dialect.decode_event(parse_reply(response, snapshot)) == task


@DIALECTS
@pytest.mark.parametrize("lists", [True, False], ids=["lists", "objects"])
def test_json_that_nests_deeper_than_peers_can_read_is_not_sent(dialect: ProtobufDialect, lists: bool) -> None:
    with pytest.raises(LocalProtocolError, match="deeper than 31 levels"):
        dialect.encode_event(a_message(metadata=nested(MAX_DEPTH + 1, lists=lists)))


@DIALECTS
@pytest.mark.parametrize("lists", [True, False], ids=["lists", "objects"])
def test_json_that_nests_deeper_than_we_could_send_on_is_refused(dialect: ProtobufDialect, lists: bool) -> None:
    request = dialect.encode_request(ops.SEND_MESSAGE, r.SendMessageRequest(a_message()))
    request.metadata.update(nested(MAX_DEPTH + 1, lists=lists))
    with pytest.raises(InvalidParamsError) as caught:
        dialect.decode_request(ops.SEND_MESSAGE, request)
    assert (caught.value.path, caught.value.message) == ("$.metadata", "Nested deeper than 31 levels")


def test_what_1_0_lets_in_can_be_said_in_0_3() -> None:
    """A list is the hard case: 0.3 has to wrap it in an object, which costs a level."""
    deepest = nested(MAX_DEPTH, lists=True)["outer"]
    message = a_message(parts=(DataPart(deepest),))
    assert trip(V1_0, message) == trip(V0_3, message) == message
    with pytest.raises(PeerProtocolError, match="Nested deeper"):
        trip(V1_0, a_message(parts=(DataPart([deepest]),)))


@DIALECTS
def test_whole_numbers_come_back_as_integers_while_doubles_are_exact(dialect: ProtobufDialect) -> None:
    sent: JsonObject = {"exact": 2**53, "whole": 3.0, "beyond": 2**60, "half": 0.5, "flag": True}
    received = trip(dialect, a_message(metadata=sent)).metadata
    assert {name: (value, type(value)) for name, value in received.items()} == {
        "exact": (2**53, int),
        "whole": (3, int),
        "beyond": (float(2**60), float),
        "half": (0.5, float),
        "flag": (True, bool),
    }


@DIALECTS
@pytest.mark.parametrize(
    "value",
    [nan, -inf, 10**400, datetime(2026, 1, 1, tzinfo=UTC), "\ud800"],
    ids=["nan", "inf", "huge", "time", "half"],
)
def test_what_protobuf_cannot_say_is_our_own_fault(dialect: ProtobufDialect, value: Any) -> None:
    with pytest.raises(LocalProtocolError):
        dialect.encode_event(a_message(metadata={"bad": value}))


@DIALECTS
def test_a_number_that_no_int32_holds_is_our_own_fault(dialect: ProtobufDialect) -> None:
    with pytest.raises(LocalProtocolError, match="Protobuf cannot represent this value"):
        dialect.encode_request(ops.GET_TASK, r.GetTaskRequest("t1", 2**31))


def request_with_metadata(dialect: ProtobufDialect, value: Any) -> Any:
    request = dialect.encode_request(ops.SEND_MESSAGE, r.SendMessageRequest(a_message()))
    request.metadata.fields["it"].MergeFrom(value)
    return request


@DIALECTS
def test_a_number_that_json_lacks_is_refused_with_its_path(dialect: ProtobufDialect) -> None:
    infinite = message_class("google.protobuf.Value")(number_value=inf)
    with pytest.raises(InvalidParamsError) as caught:
        dialect.decode_request(ops.SEND_MESSAGE, request_with_metadata(dialect, infinite))
    assert (caught.value.path, caught.value.message) == ("$.metadata", "A JSON number cannot be infinite or NaN")


@DIALECTS
def test_a_value_of_no_kind_is_null(dialect: ProtobufDialect) -> None:
    request = request_with_metadata(dialect, message_class("google.protobuf.Value")())
    received = dialect.decode_request(ops.SEND_MESSAGE, request)
    assert isinstance(received, r.SendMessageRequest)
    assert received.metadata == {"it": None}


# --- timestamps -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "nanos"), [(-62_135_596_801, 0), (253_402_300_800, 0), (0, -1), (0, 1_000_000_000), (2**62, 0)]
)
@DIALECTS
def test_a_timestamp_out_of_range_is_the_peers_fault(dialect: ProtobufDialect, seconds: int, nanos: int) -> None:
    task = dialect.encode_result(ops.GET_TASK, Task("t1", None, TaskStatus(TaskState.WORKING)))
    task.status.timestamp.seconds, task.status.timestamp.nanos = seconds, nanos
    with pytest.raises(PeerProtocolError) as caught:
        dialect.decode_result(ops.GET_TASK, task)
    assert (caught.value.path, caught.value.message) == ("$.status.timestamp", "Timestamp out of range")


@DIALECTS
def test_a_timestamp_is_kept_to_the_microsecond(dialect: ProtobufDialect) -> None:
    task = dialect.encode_result(ops.GET_TASK, Task("t1", None, TaskStatus(TaskState.WORKING)))
    task.status.timestamp.seconds, task.status.timestamp.nanos = -1, 123_456_789
    received = dialect.decode_result(ops.GET_TASK, task)
    assert isinstance(received, Task)
    assert received.status.timestamp == datetime(1969, 12, 31, 23, 59, 59, 123456, tzinfo=UTC)


# --- the verbs --------------------------------------------------------------------------------------------------------


@DIALECTS
def test_an_operation_is_found_by_its_rpc(dialect: ProtobufDialect) -> None:
    for operation in ops.OPERATIONS:
        if dialect.speaks(operation):
            assert dialect.rpc(operation).path == f"/{dialect.service}/{operation.rpcs[dialect.version]}"


def test_0_3_has_no_list_of_tasks() -> None:
    assert [operation.name for operation in ops.OPERATIONS if not V0_3.speaks(operation)] == ["ListTasks"]
    for ask in (
        lambda: V0_3.rpc(ops.LIST_TASKS),
        lambda: V0_3.encode_request(ops.LIST_TASKS, r.ListTasksRequest()),
        lambda: V0_3.decode_request(ops.LIST_TASKS, None),
    ):
        with pytest.raises(UnsupportedOperationError, match=r"A2A 0\.3 has no ListTasks"):
            ask()


@DIALECTS
def test_a_request_survives_the_bytes_it_travels_in(dialect: ProtobufDialect) -> None:
    request = r.SendMessageRequest(a_message(), r.SendConfiguration(history_length=3))
    wire = dialect.encode_request(ops.SEND_MESSAGE, request).SerializeToString()
    received = parse_request(dialect.rpc(ops.SEND_MESSAGE).request, wire)
    assert dialect.decode_request(ops.SEND_MESSAGE, received) == request
