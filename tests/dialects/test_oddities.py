"""What sources and peers write against their own schema, and what each dialect makes of it."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from parley.dialects import carried, v0_1, v0_2, v0_3, v0_3_protojson, v1_0
from parley.dialects.dialect import JsonDialect
from parley.dialects.rest import decode_rest_request
from parley.protocol import operations as ops
from parley.protocol.errors import InvalidParamsError, LocalProtocolError, PeerProtocolError, UnsupportedOperationError
from parley.protocol.events import ArtifactUpdate, StatusUpdate
from parley.protocol.messages import DataPart, Message, RawPart, Role, TextPart, UrlPart
from parley.protocol.push import PushAuthentication, PushConfig
from parley.protocol.requests import CreatePushConfigRequest, ListTasksRequest, SendConfiguration, SendMessageRequest
from parley.protocol.tasks import Artifact, Task, TaskState, TaskStatus
from parley.protocol.versions import Version


def decode(dialect: JsonDialect, operation: ops.Operation, value: Any) -> Any:
    return dialect.decode_request(operation, json.dumps(value).encode())


def refused(dialect: JsonDialect, operation: ops.Operation, value: Any) -> tuple[str, str | None]:
    with pytest.raises(InvalidParamsError) as caught:
        decode(dialect, operation, value)
    return caught.value.message, caught.value.path


@pytest.mark.parametrize("credentials", [5, True, ["x"], {"a": 1}])
def test_the_credentials_of_a_webhook_of_0_1_are_a_text(credentials: Any) -> None:
    """A fuzzer found them stored as they came, and then no gRPC caller could list the webhook."""
    authentication = {"schemes": ["Bearer"], "credentials": credentials}
    config = {"url": "https://hooks.example", "authentication": authentication}
    message, path = refused(v0_1.DIALECT, ops.CREATE_PUSH_CONFIG, {"id": "t-1", "pushNotificationConfig": config})
    assert (message, path) == ("authentication.credentials must be a string", "$.pushNotificationConfig")


# --- 0.1 --------------------------------------------------------------------------------------------------------------


def send_0_1(**members: Any) -> dict[str, Any]:
    return {"id": "t1", "message": {"role": "user", "parts": [{"type": "text", "text": "hi"}]}, **members}


def test_0_1_samples_say_data_for_parts_and_for_bytes() -> None:
    message = {"role": "user", "data": [{"type": "file", "file": {"data": "aGk=", "mimeType": "text/plain"}}]}
    assert decode(v0_1.DIALECT, ops.SEND_MESSAGE, send_0_1(message=message)).message.parts == (
        RawPart(b"hi", media_type="text/plain"),
    )


def test_0_1_gives_no_history_unless_asked_and_lets_callers_name_tasks() -> None:
    assert decode(v0_1.DIALECT, ops.SEND_MESSAGE, send_0_1(sessionId="s1")) == SendMessageRequest(
        Message("", Role.USER, (TextPart("hi"),), context_id="s1", task_id="t1"),
        SendConfiguration(history_length=0),
        caller_names_task=True,
    )


def test_0_1_takes_one_scheme_without_its_list_and_keeps_what_else_authentication_says() -> None:
    push = {"url": "https://hook", "authentication": {"schemes": "Bearer", "issuer": "https://id"}}
    request = decode(v0_1.DIALECT, ops.CREATE_PUSH_CONFIG, {"id": "t1", "pushNotificationConfig": push})
    assert request.config.authentication == PushAuthentication(("Bearer",), extra={"issuer": "https://id"})


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (send_0_1(message={"role": "user", "parts": []}), "$.message"),
        (send_0_1(message={"parts": [{"type": "text", "text": "x"}]}), "$"),
        (send_0_1(message={"role": "user", "parts": [{"type": "file", "file": {}}]}), "$.message.parts[0].file"),
        (send_0_1(pushNotification={"url": "u", "authentication": {"schemes": [1]}}), "$.pushNotification"),
        (send_0_1(pushNotification={"url": "u", "authentication": {}}), "$.pushNotification"),
        (send_0_1(id=""), "$.id"),
    ],
)
def test_0_1_refuses_what_nobody_could_mean(value: Any, path: str) -> None:
    assert refused(v0_1.DIALECT, ops.SEND_MESSAGE, value)[1] == path


def test_0_1_assumes_that_the_agent_speaks_in_a_status_and_that_time_is_utc() -> None:
    raw = b"""{"id": "t1", "sessionId": "s1", "status": {"state": "input-required", "timestamp": "2026-01-02T03:04:05",
        "message": {"parts": [{"type": "text", "text": "which?"}]}}, "history": [
        {"role": "user", "parts": [{"text": "go"}]}]}"""
    assert v0_1.DIALECT.decode_result(ops.GET_TASK, raw) == Task(
        "t1",
        "s1",
        TaskStatus(
            TaskState.INPUT_REQUIRED,
            Message("t1-status", Role.AGENT, (TextPart("which?"),), "s1", "t1"),
            datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        ),
        history=(Message("t1-1", Role.USER, (TextPart("go"),), "s1", "t1"),),
    )


def test_0_1_has_no_word_for_rejected_and_carries_it() -> None:
    update = StatusUpdate("t1", None, TaskStatus(TaskState.REJECTED))
    (frame,) = v0_1.DIALECT.encode_event(update)
    assert json.loads(frame) == {
        "id": "t1",
        "status": {"state": "failed"},
        "final": True,
        "metadata": {"parley.state": "rejected"},
    }


def test_a_carried_state_that_does_not_fit_is_only_metadata() -> None:
    raw = b'{"id": "t1", "status": {"state": "working"}, "metadata": {"parley.state": "rejected"}}'
    event = v0_1.DIALECT.decode_event(raw)
    assert event == StatusUpdate("t1", None, TaskStatus(TaskState.WORKING), {"parley.state": "rejected"})


def test_an_event_of_0_1_is_a_status_or_an_artifact() -> None:
    for raw in (
        b'{"id": "t1"}',
        b'{"id": "t1", "status": {"state": "working"}, "artifact": {"parts": [{"text": "x"}]}}',
    ):
        with pytest.raises(PeerProtocolError, match="exactly one of status and artifact"):
            v0_1.DIALECT.decode_event(raw)


def test_an_artifact_of_0_1_is_named_after_its_slot() -> None:
    raw = b'{"id": "t1", "artifact": {"index": 2, "append": true, "lastChunk": null, "parts": [{"text": "x"}]}}'
    event: Any = v0_1.DIALECT.decode_event(raw)
    assert event.artifact == Artifact("artifact-2", (TextPart("x"),), index=2)
    (again,) = v0_1.DIALECT.encode_event(event)
    assert "metadata" not in json.loads(again)["artifact"]


def test_0_1_lacks_what_came_later() -> None:
    with pytest.raises(UnsupportedOperationError, match=r"A2A 0.1 has no ListTasks"):
        v0_1.DIALECT.encode_request(ops.LIST_TASKS, ListTasksRequest())


# --- 0.2 and 0.3 ------------------------------------------------------------------------------------------------------


def send_0_3(message: dict[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    usual = {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}
    return {"message": usual | (message or {}), **members}


def test_0_3_samples_put_the_message_id_outside_the_message() -> None:
    value = send_0_3({"messageId": ""}, messageId="m9")
    assert decode(v0_3.DIALECT, ops.SEND_MESSAGE, value).message.message_id == "m9"
    assert refused(v0_3.DIALECT, ops.SEND_MESSAGE, send_0_3({"messageId": ""}))[0] == "The message has no messageId"


@pytest.mark.parametrize(("blocking", "returns_at_once"), [(None, False), (True, False), (False, True)])
def test_0_3_waits_unless_told_not_to(blocking: bool | None, returns_at_once: bool) -> None:
    request = decode(v0_3.DIALECT, ops.SEND_MESSAGE, send_0_3(configuration={"blocking": blocking}))
    assert request.configuration.return_immediately is returns_at_once


def test_0_3_files_have_one_content() -> None:
    for file in ({}, {"bytes": "aGk=", "uri": "http://x"}, {"bytes": "aGk=", "data": "aGk="}):
        value = send_0_3({"parts": [{"kind": "file", "file": file}]})
        assert refused(v0_3.DIALECT, ops.SEND_MESSAGE, value)[1] == "$.message.parts[0].file"


@pytest.mark.parametrize("dialect", [v0_2.DIALECT, v0_3.DIALECT])
def test_a_part_of_a_request_says_its_kind_and_one_of_an_answer_should(dialect: JsonDialect) -> None:
    """What a caller leaves out is an error; what an agent leaves out is found out from what is there."""
    message = {"kind": "message", "messageId": "m", "role": "agent", "parts": [{"text": "hi"}]}
    assert refused(dialect, ops.SEND_MESSAGE, {"message": message})[1] == "$.message.parts[0]"
    answer: Any = dialect.decode_result(ops.SEND_MESSAGE, json.dumps(message).encode())
    assert answer.parts == decode(v0_3.REST_DIALECT, ops.SEND_MESSAGE, {"message": message}).message.parts
    assert answer.parts == (TextPart("hi"),)


def test_a_webhook_of_0_3_over_rest_may_leave_out_the_schemes_which_protobuf_repeats() -> None:
    config = {"url": "https://hook", "authentication": {}}
    asked, _ = decode_rest_request(
        Version.V0_3,
        ops.CREATE_PUSH_CONFIG,
        parameters={"id": "t-1"},
        query={},
        body=json.dumps({"config": {"pushNotificationConfig": config}}).encode(),
    )
    assert asked == CreatePushConfigRequest(
        "t-1", PushConfig("https://hook", "t-1", authentication=PushAuthentication(()))
    )
    send = {"message": {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "hi"}]}}
    value = {**send, "configuration": {"pushNotification": config}}
    sent = decode(v0_3_protojson.REST_DIALECT, ops.SEND_MESSAGE, value)
    assert sent.configuration.push_config.authentication == PushAuthentication(())


def test_the_underscore_of_the_0_2_1_documents_is_read() -> None:
    raw = b'{"kind": "task", "id": "t", "contextId": "c", "status": {"state": "input_required"}}'
    task: Any = v0_2.DIALECT.decode_result(ops.GET_TASK, raw)
    assert task.status.state is TaskState.INPUT_REQUIRED


def test_0_2_always_lists_the_accepted_output_modes() -> None:
    request = decode(v0_2.DIALECT, ops.SEND_MESSAGE, send_0_3())
    assert json.loads(v0_2.DIALECT.encode_request(ops.SEND_MESSAGE, request))["configuration"] == {
        "acceptedOutputModes": [],
        "blocking": True,
    }


def test_an_update_is_no_answer_to_a_send() -> None:
    update = (
        b'{"kind": "status-update", "taskId": "t", "contextId": "c", "final": true, "status": {"state": "working"}}'
    )
    with pytest.raises(PeerProtocolError):
        v0_3.DIALECT.decode_result(ops.SEND_MESSAGE, update)
    assert v0_3.DIALECT.decode_event(update) == StatusUpdate("t", "c", TaskStatus(TaskState.WORKING), final=True)


def test_non_object_data_crosses_0_3_by_the_convention_of_the_sdk() -> None:
    (frame,) = v0_3.DIALECT.encode_event(Message("m", Role.AGENT, (DataPart([1, 2], metadata={"k": 1}),)))
    wire: Any = json.loads(frame)
    assert wire["parts"] == [
        {"kind": "data", "data": {"value": [1, 2]}, "metadata": {"k": 1, "data_part_compat": True}}
    ]


def test_carried_values_of_the_wrong_type_stay_metadata() -> None:
    odd = {carried.MEDIA_TYPE: 5, carried.FILENAME: "", carried.REFERENCE_TASK_IDS: ["a", 1], "x": "y"}
    assert carried.unpack_part(odd) == (None, None, odd)
    assert carried.unpack_texts(odd, carried.REFERENCE_TASK_IDS) == ((), odd)
    assert carried.unpack_texts({}, carried.EXTENSIONS) == ((), {})
    data, marked = {"value": 1, "unit": "km"}, {carried.DATA_VALUE: True}
    assert carried.unwrap_data(data, marked) == DataPart(data, metadata=marked)


# --- ProtoJSON: 1.0, and 0.3 over REST --------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", [v1_0.DIALECT, v0_3_protojson.REST_DIALECT])
def test_a_status_whose_state_was_left_out_is_unspecified(dialect: JsonDialect) -> None:
    task: Any = dialect.decode_result(ops.GET_TASK, b'{"id": "t", "status": {}}')
    assert task.status.state is TaskState.UNKNOWN
    assert json.loads(dialect.encode_result(ops.GET_TASK, task))["status"] == {"state": "TASK_STATE_UNSPECIFIED"}


@pytest.mark.parametrize("dialect", [v1_0.DIALECT, v0_3_protojson.REST_DIALECT, v0_3.REST_DIALECT])
def test_an_answer_is_exactly_one_of_its_kinds(dialect: JsonDialect) -> None:
    for raw in (b"{}", b'{"task": {"id": "t", "status": {"state": 2}}, "message": null, "statusUpdate": 1}'):
        with pytest.raises(PeerProtocolError):
            dialect.decode_event(raw)
    with pytest.raises(PeerProtocolError, match="exactly one of task and message"):
        dialect.decode_result(ops.SEND_MESSAGE, b'{"statusUpdate": {}}')


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose own time is not UTC."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_tokyo")
def test_a_timestamp_is_brought_to_utc_and_must_stay_in_range() -> None:
    raw = b'{"id": "t", "status": {"state": "TASK_STATE_WORKING", "timestamp": "%s"}}'
    task: Any = v1_0.DIALECT.decode_result(ops.GET_TASK, raw % b"2026-01-02T03:04:05.5+02:00")
    assert task.status.timestamp == datetime(2026, 1, 2, 1, 4, 5, 500_000, tzinfo=UTC)
    task = v1_0.DIALECT.decode_result(ops.GET_TASK, raw % b"2026-01-02T03:04:05")  # as fasta2a writes it
    assert task.status.timestamp == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    for odd in (b"0001-01-01T00:00:00+14:00", b"yesterday"):
        with pytest.raises(PeerProtocolError) as caught:
            v1_0.DIALECT.decode_result(ops.GET_TASK, raw % odd)
        assert caught.value.path is not None
        assert caught.value.path.startswith("$.status")


def test_a_webhook_of_1_0_names_its_task() -> None:
    assert refused(v1_0.DIALECT, ops.CREATE_PUSH_CONFIG, {"url": "https://hook"})[0] == "The config has no taskId"


def test_authentication_without_a_scheme_has_no_place_in_1_0() -> None:
    config = PushConfig("https://hook", "t", authentication=PushAuthentication(()))
    assert json.loads(v1_0.DIALECT.encode_result(ops.GET_PUSH_CONFIG, config)) == {"url": "https://hook", "taskId": "t"}


def test_the_unspecified_state_filters_nothing() -> None:
    assert decode(v1_0.DIALECT, ops.LIST_TASKS, {"status": "TASK_STATE_UNSPECIFIED"}) == ListTasksRequest()


def test_0_3_protojson_knows_the_protobufs_own_names() -> None:
    message = {"role": "ROLE_USER", "message_id": "m", "content": [{"file": {"file_with_uri": "http://x"}}]}
    request = decode(v0_3_protojson.REST_DIALECT, ops.SEND_MESSAGE, {"request": message})
    assert request.message == Message("m", Role.USER, (UrlPart("http://x"),))
    task: Any = v0_3_protojson.REST_DIALECT.decode_result(
        ops.GET_TASK, json.dumps({"id": "t", "status": {"state": 2, "update": message}}).encode()
    )
    assert task.status.message == request.message


def test_0_3_protojson_reads_file_bytes_written_plainly_or_as_base64_text() -> None:
    def content(encoded: str) -> bytes:
        part = {"file": {"fileWithBytes": encoded}}
        message = {"role": "ROLE_USER", "messageId": "m", "content": [part]}
        return decode(v0_3_protojson.REST_DIALECT, ops.SEND_MESSAGE, {"message": message}).message.parts[0].raw

    assert content("YUdrPQ==") == b"hi"  # base64 of the text aGk=
    assert content("aGkh") == b"hi!"  # base64 of hi!
    assert content("aGkhIQ==") == b"hi!!"  # four bytes that are no base64
    assert content("YUdraCEhISE=") == b"aGkh!!!!"  # nor are these, although they begin so


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({}, "$"),
        ({"message": {"role": "ROLE_USER", "messageId": "m", "content": [{}]}}, "$.message.content[0]"),
        ({"message": {"role": "ROLE_USER", "messageId": "m", "content": [{"file": {}}]}}, "$.message.content[0].file"),
    ],
)
def test_0_3_protojson_refuses_what_is_missing(value: Any, path: str) -> None:
    assert refused(v0_3_protojson.REST_DIALECT, ops.SEND_MESSAGE, value)[1] == path


def test_0_3_protojson_wants_a_task_as_parent() -> None:
    value = {"parent": "tasks/", "config": {"pushNotificationConfig": {"url": "u"}}}
    assert refused(v0_3_protojson.REST_DIALECT, ops.CREATE_PUSH_CONFIG, value)[0].startswith("parent must name a task")


def test_a_webhook_of_0_3_whose_name_is_odd_has_no_task() -> None:
    raw = b'{"name": "somewhere", "pushNotificationConfig": {"url": "u"}}'
    assert v0_3_protojson.REST_DIALECT.decode_result(ops.GET_PUSH_CONFIG, raw) == PushConfig("u")


def test_what_a_dialect_demands_and_a_value_lacks_is_our_own_fault() -> None:
    from_0_1 = decode(v0_1.DIALECT, ops.SEND_MESSAGE, send_0_1())
    with pytest.raises(LocalProtocolError, match="The message has no messageId"):
        v0_3.DIALECT.encode_request(ops.SEND_MESSAGE, from_0_1)


def test_an_inline_webhook_belongs_to_the_task_and_tenant_of_its_send() -> None:
    push = {"url": "https://hook", "id": "p", "taskId": "t9", "tenant": "evil"}
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}
    value = {"message": message, "tenant": "acme", "configuration": {"taskPushNotificationConfig": push}}
    request = decode(v1_0.DIALECT, ops.SEND_MESSAGE, value)
    assert (request.tenant, request.configuration.push_config) == ("acme", PushConfig("https://hook", id="p"))


def test_1_0_reads_the_skill_where_1_1_is_proposed_to_have_it() -> None:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "go"}], "metadata": {"skillId": "a", "k": 1}}
    request = decode(v1_0.DIALECT, ops.SEND_MESSAGE, {"message": message, "configuration": {"skillId": "b"}})
    assert request.message.metadata == {"skillId": "b", "k": 1}
    with pytest.raises(InvalidParamsError) as refusal:
        decode(v1_0.DIALECT, ops.SEND_MESSAGE, {"message": message, "configuration": {"skillId": 5}})
    assert refusal.value.path == "$.configuration.skillId"


def test_0_1_needs_the_slot_of_a_streamed_artifact() -> None:
    update = ArtifactUpdate("t", None, Artifact("a", (TextPart("x"),)))
    with pytest.raises(LocalProtocolError, match="needs the artifact's slot"):
        v0_1.DIALECT.encode_event(update)


@pytest.mark.parametrize("dialect", [v0_1.DIALECT, v0_3.DIALECT, v1_0.DIALECT], ids=["0.1", "0.3", "1.0"])
def test_half_a_surrogate_pair_is_our_own_fault(dialect: JsonDialect) -> None:
    message = Message("m", Role.AGENT, (TextPart("\ud800"),))
    with pytest.raises(LocalProtocolError, match="surrogates not allowed"):
        dialect.encode_event(message)
    with pytest.raises(LocalProtocolError, match="surrogates not allowed"):
        dialect.encode_result(ops.GET_TASK, Task("t", None, TaskStatus(TaskState.WORKING, message)))


def test_a_whole_number_may_be_written_with_a_point_as_json_schema_has_it() -> None:
    for dialect in (v0_1.DIALECT, v0_2.DIALECT, v0_3.DIALECT, v1_0.DIALECT):
        request: Any = dialect.decode_request(ops.GET_TASK, b'{"id": "t", "historyLength": 7.0}')
        assert request.history_length == 7
        with pytest.raises(InvalidParamsError, match="historyLength"):
            dialect.decode_request(ops.GET_TASK, b'{"id": "t", "historyLength": 7.5}')


def test_a_snapshot_that_0_1_cannot_say_is_our_own_fault() -> None:
    nothing_said = TaskStatus(TaskState.WORKING, Message("m", Role.AGENT, ()))
    with pytest.raises(LocalProtocolError, match="at least one part"):
        v0_1.DIALECT.encode_event(Task("t", None, nothing_said))


def test_a_result_that_a_dialect_does_not_have_is_unsupported() -> None:
    for dialect in (v0_1.DIALECT, v0_3.DIALECT):
        with pytest.raises(UnsupportedOperationError, match="has no ListTasks"):
            dialect.decode_result(ops.LIST_TASKS, b"{}")
        with pytest.raises(UnsupportedOperationError, match="has no ListTasks"):
            dialect.encode_result(ops.LIST_TASKS, None)
        with pytest.raises(UnsupportedOperationError, match="answers SendStreamingMessage with a stream"):
            dialect.decode_result(ops.SEND_STREAMING_MESSAGE, b"{}")


@pytest.mark.parametrize("message", [{}, {"role": "ROLE_AGENT"}, {"role": 0}, {"role": "ROLE_UNSPECIFIED"}])
def test_an_empty_status_message_of_0_3_protojson_is_none(message: Any) -> None:
    for name in ("message", "update"):
        raw = json.dumps({"id": "t", "status": {"state": 2, name: message}}).encode()
        task: Any = v0_3_protojson.REST_DIALECT.decode_result(ops.GET_TASK, raw)
        assert task.status == TaskStatus(TaskState.WORKING)


@pytest.mark.parametrize(
    "message",
    [
        {"messageId": "m"},
        {"messageId": "m", "content": [{"text": "x"}]},
        {"role": "ROLE_AGENT", "content": [{"text": "x"}]},
    ],
)
def test_half_a_status_message_of_0_3_protojson_is_refused(message: Any) -> None:
    raw = json.dumps({"id": "t", "status": {"state": 2, "message": message}}).encode()
    with pytest.raises(PeerProtocolError, match="needs messageId, role and content"):
        v0_3_protojson.REST_DIALECT.decode_result(ops.GET_TASK, raw)


@pytest.mark.parametrize(("name", "config_id"), [("c1", "c1"), ("None", None), ("", None)])
def test_a_webhook_of_0_3_protojson_may_have_its_id_in_its_name(name: str, config_id: str | None) -> None:
    config = {"name": f"tasks/t/pushNotificationConfigs/{name}", "pushNotificationConfig": {"url": "u"}}
    expected = PushConfig("u", "t", config_id)
    dialect = v0_3_protojson.REST_DIALECT
    assert dialect.decode_result(ops.GET_PUSH_CONFIG, json.dumps(config).encode()) == expected
    request = decode(dialect, ops.CREATE_PUSH_CONFIG, {"parent": "tasks/t", "config": config})
    assert request.config == expected
    request = decode(dialect, ops.CREATE_PUSH_CONFIG, {"parent": "tasks/t", "configId": "None", "config": config})
    assert request.config == expected


def test_an_event_or_answer_of_1_0_may_be_tagged_by_kind_instead_of_wrapped() -> None:
    """As langgraph-api 0.16 writes all events of a stream but the first."""
    update = b'{"taskId": "t", "contextId": "c", "kind": "status-update", "status": {"state": "TASK_STATE_WORKING"}}'
    assert v1_0.DIALECT.decode_event(update) == StatusUpdate("t", "c", TaskStatus(TaskState.WORKING))
    task: Any = v1_0.DIALECT.decode_result(ops.SEND_MESSAGE, b'{"kind": "task", "id": "t", "status": {}}')
    assert task.id == "t"
    for wrong in (b'{"kind": 1}', b'{"kind": "status"}', b'{"kind": "task", "task": null}'):
        with pytest.raises(PeerProtocolError, match="exactly one of"):
            v1_0.DIALECT.decode_event(wrong)
