"""In-task authorization in the metadata of messages: requests, credentials, and what stays of them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from parley.protocol.authorization import (
    MAX_CREDENTIAL,
    AnswerWay,
    GivenCredential,
    RequestedAuthorization,
    decode_authorization,
    decode_credential,
    encode_authorization,
    encode_credential,
    refusal_in,
    stored_credential,
    without_credential,
)
from parley.protocol.errors import InvalidParamsError
from parley.protocol.extensions import AUTHORIZATION_REQUEST
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.tasks import TaskState, TaskStatus

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def message(metadata: Any) -> Message:
    return Message("m-1", Role.USER, (TextPart("x"),), metadata=metadata)


def given(**members: Any) -> Message:
    return message({AUTHORIZATION_REQUEST: members})


@pytest.mark.parametrize(
    "request_",
    [
        RequestedAuthorization(),
        RequestedAuthorization("ApiKey", "https://login.example", ("read",), AnswerWay.CALLBACK, NOON),
    ],
)
def test_a_request_is_read_as_it_was_written(request_: RequestedAuthorization) -> None:
    status = TaskStatus(TaskState.AUTH_REQUIRED, message(encode_authorization(request_)), NOON)
    assert decode_authorization(status) == request_


def test_other_statuses_ask_for_nothing_and_odd_members_are_left_out() -> None:
    assert decode_authorization(TaskStatus(TaskState.WORKING, given(), NOON)) is None
    assert decode_authorization(TaskStatus(TaskState.AUTH_REQUIRED, None, NOON)) is None
    assert decode_authorization(TaskStatus(TaskState.AUTH_REQUIRED, message({}), NOON)) is None
    odd = given(scheme=1, url=2, scopes=3, answer=4, expiresAt="soon")
    assert decode_authorization(TaskStatus(TaskState.AUTH_REQUIRED, odd, NOON)) == RequestedAuthorization()
    mixed = given(scopes=["read", 5], expiresAt="2026-01-31T12:00:00")
    asked = RequestedAuthorization(scopes=("read",), expires_at=NOON)
    assert decode_authorization(TaskStatus(TaskState.AUTH_REQUIRED, mixed, NOON)) == asked


@pytest.mark.parametrize(
    "url",
    [
        *("file:///home/ada/evil.desktop", "javascript:alert(1)", "vscode://open?x", "--gpu-launcher=/tmp/evil", "-P"),
        *("https://a.example/ --profile", "https://a.example/\n", "https://", "", "ftp://a.example", "//a.example"),
        "https://a.example/" + "x" * 10_000,
    ],
)
def test_what_is_no_page_of_the_web_is_no_url_to_open(url: str) -> None:
    status = TaskStatus(TaskState.AUTH_REQUIRED, given(url=url, answer="callback"), NOON)
    assert decode_authorization(status) == RequestedAuthorization(answer=AnswerWay.CALLBACK)


@pytest.mark.parametrize("credential", [GivenCredential("s3cret"), GivenCredential("s3cret", "ApiKey", NOON)])
def test_a_credential_is_read_as_it_was_written_and_its_text_is_in_no_repr(credential: GivenCredential) -> None:
    assert decode_credential(message(encode_credential(credential))) == credential
    assert "s3cret" not in repr(credential)


def test_a_message_without_a_credential_gives_none() -> None:
    assert decode_credential(message({})) is None
    assert decode_credential(given(error="access_denied")) is None


@pytest.mark.parametrize(
    ("metadata", "path"),
    [
        ("text", ""),
        ({"masked": "id"}, ""),
        ({"credential": ""}, ".credential"),
        ({"credential": 5}, ".credential"),
        ({"credential": "x" * (MAX_CREDENTIAL + 1)}, ".credential"),
        ({"credential": "x", "scheme": ""}, ".scheme"),
        ({"credential": "x", "scheme": 5}, ".scheme"),
        ({"credential": "x", "expiresAt": "soon"}, ".expiresAt"),
    ],
)
def test_an_invalid_credential_is_refused_with_its_path(metadata: Any, path: str) -> None:
    with pytest.raises(InvalidParamsError) as refusal:
        decode_credential(message({AUTHORIZATION_REQUEST: metadata}))
    assert refusal.value.path == f"$.message.metadata['{AUTHORIZATION_REQUEST}']{path}"


def test_what_stays_of_a_credential_names_where_it_is_kept() -> None:
    sent = given(credential="s3cret", scheme="Bearer")
    kept = without_credential(sent, "id-1")
    assert kept.metadata == {AUTHORIZATION_REQUEST: {"scheme": "Bearer", "masked": "id-1"}}
    assert stored_credential(kept) == "id-1"
    assert stored_credential(without_credential(sent)) is None
    assert stored_credential(message({})) is None
    plain = message({})
    assert without_credential(plain) is plain
    assert refusal_in(given(error="access_denied")) == "access_denied"
    assert (refusal_in(given(error=5)), refusal_in(plain)) == (None, None)
