"""In-task authorization in the metadata of messages: requests, credentials, and what stays of them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from parley.protocol.authorization import (
    MAX_CREDENTIAL,
    AnswerWay,
    GivenCredential,
    RequestedAuthorization,
    credential_in_parts,
    decode_authorization,
    decode_credential,
    describing,
    encode_authorization,
    encode_credential,
    refusal_in,
    stored_credential,
    without_credential,
    without_credential_in_parts,
    without_description,
)
from parley.protocol.errors import InvalidParamsError
from parley.protocol.extensions import AUTHORIZATION_REQUEST
from parley.protocol.masking import MASK
from parley.protocol.messages import DataPart, Message, Part, Role, TextPart
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


# --- for clients that do not know the extension -----------------------------------------------------------------------

ASKED = RequestedAuthorization("ApiKey", takes_text=True)


def said(*parts: Part, metadata: Any = None) -> Message:
    return Message("m-1", Role.USER, parts, metadata=metadata or {})


@pytest.mark.parametrize(
    ("request_", "data"),
    [
        (RequestedAuthorization(), {"schemes": ["Bearer"]}),
        (
            RequestedAuthorization("ApiKey", "https://login.example", ("read",), takes_text=True),
            {"schemes": ["ApiKey"], "url": "https://login.example", "scopes": ["read"]},
        ),
    ],
)
def test_a_demand_is_in_a_data_part_too_and_people_are_shown_it_once(
    request_: RequestedAuthorization, data: dict[str, Any]
) -> None:
    question = TextPart("Your key, please")
    demand = describing(describing(said(question), request_), request_)
    assert demand.parts == (question, DataPart(data))
    assert decode_authorization(TaskStatus(TaskState.AUTH_REQUIRED, demand, NOON)) == request_
    assert without_description(demand) == (question,)
    assert without_description(said(question, DataPart({"schemes": []}))) == (question, DataPart({"schemes": []}))


@pytest.mark.parametrize(
    ("parts", "credential"),
    [
        ((TextPart(" s3cret\n"),), GivenCredential("s3cret", "ApiKey")),
        ((DataPart({"credentials": "s3cret"}),), GivenCredential("s3cret", "ApiKey")),
        ((TextPart("Here"), DataPart({"schemes": ["Basic"], "credentials": "a:b"})), GivenCredential("a:b", "Basic")),
    ],
)
def test_a_credential_is_found_in_a_data_part_or_in_a_lone_text(
    parts: tuple[Part, ...], credential: GivenCredential
) -> None:
    found = credential_in_parts(ASKED, said(*parts))
    assert found == credential
    hidden = without_credential_in_parts(said(*parts), credential, "c-1")
    assert credential.value not in str(hidden)
    assert stored_credential(hidden) == "c-1"
    assert len(hidden.parts) == len(parts)


@pytest.mark.parametrize(
    ("asked", "parts", "reason"),
    [
        (ASKED, (TextPart("I have logged in"),), "Send it as one text part without spaces"),
        (ASKED, (TextPart(MASK),), "Send it as one text part without spaces"),
        (ASKED, (TextPart("a"), TextPart("b")), "Send it as one text part without spaces"),
        (RequestedAuthorization(), (TextPart("s3cret"),), "Send it as a data part"),
        (ASKED, (DataPart({"credentials": 7}),), "must be a string"),
        (ASKED, (DataPart({"credentials": ""}),), "must have 1 to 16,384 characters, and has 0"),
        (ASKED, (DataPart({"credentials": MASK}),), "only stands for one"),
        (ASKED, (DataPart({"credentials": "k", "schemes": []}),), "must be a list with the name of the scheme"),
    ],
)
def test_an_answer_without_a_credential_gets_the_reason(
    asked: RequestedAuthorization, parts: tuple[Part, ...], reason: str
) -> None:
    found = credential_in_parts(asked, said(*parts))
    assert isinstance(found, str)
    assert reason in found


def test_the_text_of_a_credential_is_masked_wherever_it_stands() -> None:
    parts = (TextPart("It is s3cret."), TextPart("Bye"), DataPart({"credentials": "s3cret"}), DataPart([1]))
    hidden = without_credential_in_parts(said(*parts), GivenCredential("s3cret"), "c-1")
    assert hidden.parts == (TextPart(MASK), TextPart("Bye"), DataPart({"credentials": MASK}), DataPart([1]))
