"""Errors on gRPC arrive as the errors they were, whichever version told them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.dialects.protobuf_pool import message_class
from parley.dialects.protobuf_status import GRPC_CODES, decode_status, encode_status, encode_status_text
from parley.protocol import errors as e
from parley.protocol.tasks import TaskState

EVERY_ERROR = pytest.mark.parametrize("error_class", e.WIRE_ERRORS, ids=lambda error: error.__name__)
TEXT_CODES = {value: name for name, value in GRPC_CODES.items()}


@EVERY_ERROR
def test_an_error_of_1_0_arrives_with_its_details(error_class: type[e.A2AError]) -> None:
    status = encode_status(error_class("No luck", details={"taskId": "t1"}))

    received = decode_status(TEXT_CODES[status.code], status.message, status.SerializeToString())

    assert (type(received), received.message, received.details, received.path) == (
        error_class,
        "No luck",
        {"taskId": "t1"},
        None,
    )


@EVERY_ERROR
def test_an_error_of_0_3_arrives_by_its_name(error_class: type[e.A2AError]) -> None:
    received = decode_status(*encode_status_text(error_class("No luck")))
    assert (type(received), received.message) == (error_class, "No luck")


@pytest.mark.parametrize(("path", "field"), [("$.message.parts[0]", "message.parts[0]"), ("$", "")])
def test_a_path_travels_as_a_field_violation(path: str, field: str) -> None:
    status = encode_status(e.InvalidParamsError("Missing", path=path))

    violations = message_class("google.rpc.BadRequest").FromString(status.details[1].value).field_violations
    received = decode_status("INVALID_ARGUMENT", "Missing", status.SerializeToString())

    assert [(violation.field, violation.description) for violation in violations] == [(field, "Missing")]
    assert received.path == path


def test_a_status_says_what_section_10_6_wants() -> None:
    status = encode_status(e.TaskNotFoundError.for_task("t1"))
    (detail,) = status.details
    info = message_class("google.rpc.ErrorInfo").FromString(detail.value)
    assert (status.code, status.message) == (5, "Task not found")
    assert detail.type_url == "type.googleapis.com/google.rpc.ErrorInfo"
    assert (info.reason, info.domain, dict(info.metadata)) == ("TASK_NOT_FOUND", "a2a-protocol.org", {"taskId": "t1"})


def test_the_reason_outweighs_a_status_code_of_1_0_0() -> None:
    status = encode_status(e.PushNotificationNotSupportedError()).SerializeToString()
    assert type(decode_status("UNIMPLEMENTED", "no", status)) is e.PushNotificationNotSupportedError


def test_a_finished_task_is_refused_in_the_words_of_each_version() -> None:
    error = e.TaskFinishedError.for_task("t1", TaskState.COMPLETED)
    assert encode_status(error).code == GRPC_CODES["FAILED_PRECONDITION"]
    assert encode_status_text(error) == ("INVALID_ARGUMENT", f"InvalidParamsError: {error.message}")


def test_the_text_of_0_3_says_where() -> None:
    error = e.InvalidParamsError("Missing", path="$.message")
    assert encode_status_text(error) == ("INVALID_ARGUMENT", "InvalidParamsError: Missing (at $.message)")


@pytest.mark.parametrize(
    ("name", "error_class"),
    [
        ("JSONParseError", e.ParseError),
        ("AuthenticatedExtendedCardNotConfiguredError", e.ExtendedCardNotConfiguredError),
        ("ExtendedAgentCardNotConfiguredError", e.ExtendedCardNotConfiguredError),
    ],
)
def test_the_names_of_a2a_sdk_are_understood(name: str, error_class: type[e.A2AError]) -> None:
    assert type(decode_status("UNKNOWN", f"{name}: why")) is error_class


@pytest.mark.parametrize(
    ("code", "error_class"),
    [
        ("NOT_FOUND", e.TaskNotFoundError),
        ("UNIMPLEMENTED", e.UnsupportedOperationError),
        ("UNAVAILABLE", e.UnavailableError),
        ("UNAUTHENTICATED", e.UnauthenticatedError),
    ],
)
def test_a_bare_code_is_better_than_nothing(code: str, error_class: type[e.A2AError]) -> None:
    received = decode_status(code, "proxy says:\tno")
    assert (type(received), received.message) == (error_class, f"gRPC status {code}: proxy says: no")


@pytest.mark.parametrize(("code", "number"), [("DEADLINE_EXCEEDED", 4), ("MADE_UP", 2)])
def test_what_nobody_defined_is_kept_as_it_came(code: str, number: int) -> None:
    received = decode_status(code, "too late")
    assert isinstance(received, e.UnknownRemoteError)
    assert (received.message, received.code, received.data) == (f"gRPC status {code}: too late", number, code)
    assert decode_status(code, "").message == f"gRPC status {code}"


def test_somebody_elses_reason_is_no_a2a_error() -> None:
    info = message_class("google.rpc.ErrorInfo")(reason="TASK_NOT_FOUND", domain="example.org", metadata={"k": "v"})
    detail = {"type_url": "type.googleapis.com/google.rpc.ErrorInfo", "value": info.SerializeToString()}
    status = message_class("google.rpc.Status")(code=13, details=[detail]).SerializeToString()
    received = decode_status("INTERNAL", "broken", status)
    assert (type(received), received.details) == (e.InternalError, {"k": "v"})


@given(st.binary())
def test_a_trailer_of_garbage_leaves_code_and_text(garbage: bytes) -> None:
    assert isinstance(decode_status("INTERNAL", "broken", garbage), e.A2AError)
    detail = {"type_url": "type.googleapis.com/google.rpc.ErrorInfo", "value": garbage}
    status = message_class("google.rpc.Status")(details=[detail]).SerializeToString()
    assert isinstance(decode_status("INTERNAL", "broken", status), e.A2AError)


def test_a_bad_request_without_violations_points_nowhere() -> None:
    detail = {"type_url": "type.googleapis.com/google.rpc.BadRequest", "value": b""}
    status = message_class("google.rpc.Status")(details=[detail]).SerializeToString()
    assert decode_status("INVALID_ARGUMENT", "bad", status).path is None
