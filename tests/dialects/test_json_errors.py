"""Errors in JSON-RPC and REST, in every dialect, written and read."""

import json
from typing import Any

import pytest

from parley.dialects.json_errors import code_of, decode_error, decode_rest_error, encode_error, encode_rest_error
from parley.protocol import errors as e
from parley.protocol.tasks import TaskState
from parley.protocol.versions import Version

V0_1, V0_2, V0_3, V1_0 = Version


@pytest.mark.parametrize("version", Version)
@pytest.mark.parametrize("error_type", e.WIRE_ERRORS, ids=lambda error: error.__name__)
def test_an_error_comes_back_over_jsonrpc(version: Version, error_type: type[e.A2AError]) -> None:
    error = error_type("Because", path="$.message.parts[0]")

    again = decode_error(version, encode_error(version, error))

    assert (type(again), again.message, again.path) == (error_type, "Because", "$.message.parts[0]")


@pytest.mark.parametrize("version", [V0_3, V1_0])
@pytest.mark.parametrize("error_type", e.WIRE_ERRORS, ids=lambda error: error.__name__)
def test_an_error_comes_back_over_rest(version: Version, error_type: type[e.A2AError]) -> None:
    status, body = encode_rest_error(version, error_type("Because", details={"taskId": "t1"}))

    again = decode_rest_error(status, body)

    assert (type(again), again.message, again.details) == (error_type, "Because", {"taskId": "t1"})


def test_1_0_attaches_error_info_and_the_member_at_fault() -> None:
    error = e.InvalidParamsError("Too long", path="$.message.parts[0].text", details={"limit": "5"})
    assert json.loads(encode_error(V1_0, error)) == {
        "code": -32602,
        "message": "Too long (at $.message.parts[0].text)",
        "data": [
            {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "INVALID_PARAMS",
                "domain": "a2a-protocol.org",
                "metadata": {"limit": "5"},
            },
            {
                "@type": "type.googleapis.com/google.rpc.BadRequest",
                "fieldViolations": [{"field": "message.parts[0].text", "description": "Too long"}],
            },
        ],
    }


def test_0_3_says_the_facts_plainly() -> None:
    assert json.loads(encode_error(V0_3, e.TaskNotFoundError.for_task("t1"))) == {
        "code": -32001,
        "message": "Task not found",
        "data": {"reason": "TASK_NOT_FOUND", "taskId": "t1"},
    }
    assert json.loads(encode_error(V0_3, e.InvalidParamsError("Bad", path="$.id")))["data"]["path"] == "$.id"


@pytest.mark.parametrize(
    ("version", "code", "http"), [(V0_1, -32004, None), (V0_2, -32602, None), (V0_3, -32602, 422), (V1_0, -32004, 400)]
)
def test_a_message_to_a_finished_task_is_refused_as_each_dialect_does(
    version: Version, code: int, http: int | None
) -> None:
    error = e.TaskFinishedError.for_task("t1", TaskState.COMPLETED)
    assert code_of(version, error) == code
    if http:
        assert encode_rest_error(version, error)[0] == http


def test_0_3_rest_answers_both_kinds_of_readers() -> None:
    status, body = encode_rest_error(V0_3, e.TaskNotCancelableError())
    report = json.loads(body)
    assert (status, report["message"], report["error"]["status"]) == (409, "Task cannot be canceled", "UNIMPLEMENTED")
    assert "message" not in json.loads(encode_rest_error(V1_0, e.TaskNotCancelableError())[1])


@pytest.mark.parametrize(
    ("code", "error_type"),
    [
        (-32006, e.UnsupportedOperationError),
        (-32007, e.UnauthenticatedError),
        (-32008, e.PermissionDeniedError),
        (-32009, e.UnsupportedOperationError),
        (-32010, e.RateLimitedError),
        (-32011, e.UnavailableError),
        (-32001, e.TaskNotFoundError),
    ],
)
def test_0_1_gives_numbers_meanings_of_its_own(code: int, error_type: type[e.A2AError]) -> None:
    assert type(decode_error(V0_1, b'{"code": %d, "message": "no"}' % code)) is error_type


def test_the_reason_counts_more_than_the_code() -> None:
    raw = b"""{"code": -32603, "message": "x", "data": [null, {"@type": "t", "reason": "VERSION_NOT_SUPPORTED",
        "metadata": {"n": ["list"], "ok": "yes"}}]}"""
    error = decode_error(V1_0, raw)
    assert type(error) is e.VersionNotSupportedError
    assert error.details == {"ok": "yes"}


def test_a_code_that_nobody_defined_is_passed_on() -> None:
    error = decode_error(V0_3, b'{"code": -32099, "message": "brewing failed", "data": {"pot": 1}}')
    assert isinstance(error, e.UnknownRemoteError)
    assert (error.code, error.message, error.data) == (-32099, "brewing failed", {"pot": 1})
    assert code_of(V1_0, error) == -32099


def test_an_error_without_a_message_says_what_its_class_says() -> None:
    assert decode_error(V0_3, b'{"code": -32001, "message": ""}').message == "Task not found"


@pytest.mark.parametrize("raw", [b"nonsense", b"[]", b'{"message": "x"}', b'{"code": "x"}'])
def test_what_is_no_jsonrpc_error_is_the_peers_fault(raw: bytes) -> None:
    with pytest.raises(e.PeerProtocolError):
        decode_error(V1_0, raw)


@pytest.mark.parametrize(
    ("status", "body", "error_type", "message"),
    [
        (404, {"message": "Task not found"}, e.TaskNotFoundError, "Task not found"),
        (404, {"message": "Method not found"}, e.MethodNotFoundError, "Method not found"),
        (409, {"error": {"code": 409, "message": "too late"}}, e.TaskNotCancelableError, "too late"),
        (
            415,
            {"type": "about:blank", "title": "Bad type", "detail": "no png"},
            e.ContentTypeNotSupportedError,
            "HTTP status 415: no png",
        ),
        (
            404,
            {"type": "https://a2a-protocol.org/errors/task-not-found", "title": "Task not found", "detail": "no t-1"},
            e.TaskNotFoundError,
            "no t-1",
        ),
        (502, None, e.InvalidAgentResponseError, "HTTP status 502: null"),
        (418, ["teapot"], e.UnknownRemoteError, 'HTTP status 418: ["teapot"]'),
        (404, {"detail": "Not Found"}, e.TaskNotFoundError, "HTTP status 404: Not Found"),
        (500, {"error": "boom"}, e.InternalError, "HTTP status 500: boom"),
        (422, {"detail": [{"msg": "x"}]}, e.InvalidParamsError, 'HTTP status 422: {"detail": [{"msg": "x"}]}'),
        (
            400,
            {"error": {"message": "x", "details": [{"fieldViolations": ["odd"]}, {"fieldViolations": []}]}},
            e.InvalidRequestError,
            "x",
        ),
    ],
)
def test_rest_errors_are_read_in_every_form(status: int, body: Any, error_type: type, message: str) -> None:
    error = decode_rest_error(status, json.dumps(body).encode())
    assert (type(error), error.message) == (error_type, message)


def test_a_rest_error_without_json_is_known_by_its_status() -> None:
    error = decode_rest_error(503, b"<html>\n <b>busy</b>\x1b[2J" + b"x" * 1000, phrase="Service Unavailable")
    assert type(error) is e.UnavailableError
    assert error.message.startswith("HTTP status 503 Service Unavailable: <html> <b>busy</b>␛[2J")
    assert len(error.message) < 250
    assert decode_rest_error(404, b"", phrase="Not Found").message == "HTTP status 404 Not Found"
    assert decode_rest_error(404, b'{"detail": "Not Found"}', phrase="Not Found").message == "HTTP status 404 Not Found"


@pytest.mark.parametrize("code", [0, 1, 404, -1, -31999])
def test_a_code_outside_the_range_of_json_rpc_servers_is_passed_on_as_an_internal_error(code: int) -> None:
    error = e.UnknownRemoteError("no", code=code)
    assert code_of(V1_0, error) == e.InternalError.row.code
    assert json.loads(encode_error(V0_3, error))["code"] == e.InternalError.row.code


def test_a_reason_of_another_domain_says_nothing() -> None:
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "TASK_NOT_FOUND", "domain": "billing.test"}
    raw = {"code": -32603, "message": "x", "data": [info]}
    assert type(decode_error(V1_0, json.dumps(raw).encode())) is e.InternalError
    info["domain"] = e.ERROR_DOMAIN
    assert type(decode_error(V1_0, json.dumps(raw).encode())) is e.TaskNotFoundError


def test_a_truth_value_is_no_status() -> None:
    error = decode_rest_error(200, b'{"error": {"code": true, "message": "odd"}}')
    assert isinstance(error, e.UnknownRemoteError)
    assert error.code == 200
