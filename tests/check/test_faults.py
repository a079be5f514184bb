"""Faults that other people's servers have are found, each by its rule and by no other."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from parley.check.findings import Report, Verdict
from parley.check.options import CheckOptions
from parley.check.run import check
from parley.protocol.cards import AgentExtension, Binding
from parley.protocol.operations import methods_of
from parley.protocol.versions import Version
from parley.server.app import App
from tests.check.faulty import Faulty, Headers
from tests.check.test_own_server import REQUIRED, TOKEN, secured
from tests.server.serving import echo_agent, serving

pytestmark = pytest.mark.anyio

METHODS = methods_of(Version.V1_0)
numbers = itertools.count()


async def checked(app: App, version: Version = Version.V1_0, **fault: Any) -> Report:
    async with app.running(), serving(Faulty(app, **fault), seconds=30) as client:
        return await check(
            str(client.base_url), CheckOptions(timeout=10), bindings=[Binding.JSONRPC], versions=[version]
        )


def rules(report: Report, verdict: Verdict) -> set[str]:
    return {found.rule for found in report.findings if found.verdict is verdict}


def in_message(**members: Any) -> Any:
    """Spoil the message of every send."""

    def ask(request: Any, headers: Headers) -> None:
        message = request.get("params", {}).get("message") if isinstance(request.get("params"), dict) else None
        for name in members:
            if message and name in message:
                message[name] = members[name]() if members[name] else message.pop(name) and None
                if message[name] is None:
                    del message[name]

    return ask


def in_params(*dropped: str, **changed: Any) -> Any:
    """Spoil the params of every request for a list or a task."""

    def ask(request: Any, headers: Headers) -> None:
        params = request.get("params")
        if request.get("method") not in ("ListTasks", "GetTask") or not isinstance(params, dict):
            return
        for name in dropped:
            params.pop(name, None)
        if request["method"] == "ListTasks":
            params.update(changed)

    return ask


def unknown_method_is_500(request: Any, headers: Headers) -> int | None:
    return None if request.get("method") in METHODS else 500


def page_size_is_clamped(request: Any, headers: Headers) -> None:
    if request.get("method") == "ListTasks" and "pageSize" in request["params"]:
        request["params"]["pageSize"] = min(100, max(1, request["params"]["pageSize"]))


def unknown_status_is_dropped(request: Any, headers: Headers) -> None:
    if request.get("method") == "ListTasks" and request["params"].get("status") == "TASK_STATE_NAPPING":
        del request["params"]["status"]


def version_is_not_read(request: Any, headers: Headers) -> None:
    headers["a2a-version"] = "1.0"


def role_is_not_validated(request: Any, headers: Headers) -> None:
    params = request.get("params")
    if isinstance(params, dict) and isinstance(params.get("message"), dict):
        params["message"]["role"] = "ROLE_USER"


def id_is_always_1(request: Any, kind: str, body: bytes) -> bytes:
    if kind != "application/json" or not body.startswith(b'{"jsonrpc"'):
        return body
    return json.dumps({**json.loads(body), "id": 1}).encode()


def page_token_is_omitted(request: Any, kind: str, body: bytes) -> bytes:
    return body.replace(b'"nextPageToken":"",', b"").replace(b',"nextPageToken":""', b"")


def frames_of(body: bytes) -> list[bytes]:
    return [frame + b"\n\n" for frame in body.replace(b"\r\n", b"\n").split(b"\n\n") if b"data:" in frame]


def first_frame_is_lost(request: Any, kind: str, body: bytes) -> bytes:
    if not kind.startswith("text/event-stream") or request["method"] != "SendStreamingMessage":
        return body
    return b"".join(frames_of(body)[1:])


def last_frame_is_lost(request: Any, kind: str, body: bytes) -> bytes:
    return b"".join(frames_of(body)[:-1]) if kind.startswith("text/event-stream") else body


def chunk_comes_twice(request: Any, kind: str, body: bytes) -> bytes:
    if not kind.startswith("text/event-stream"):
        return body
    frames = frames_of(body)
    (index,) = [index for index, frame in enumerate(frames) if b"artifactUpdate" in frame]
    again = frames[index].replace(b'"artifactUpdate":{', b'"artifactUpdate":{"append":true,')
    return b"".join((*frames[: index + 1], again, *frames[index + 1 :]))


def times_have_no_z(request: Any, kind: str, body: bytes) -> bytes:
    return body.replace(b'Z"', b'+00:00"')


def states_are_short(request: Any, kind: str, body: bytes) -> bytes:
    return body.replace(b"TASK_STATE_COMPLETED", b"completed")


def details_are_missing(request: Any, kind: str, body: bytes) -> bytes:
    value = json.loads(body) if kind == "application/json" else {}
    if "error" in value:
        value["error"].pop("data", None)
        return json.dumps(value).encode()
    return body


def without_capability(name: str) -> Any:
    def answer(request: Any, kind: str, body: bytes) -> bytes:
        return body.replace(b'"%s":true' % name.encode(), b'"%s":false' % name.encode())

    return answer


def content_type_is_text(headers: Headers) -> None:
    if headers["content-type"] == "application/json" and "etag" not in headers:
        headers["content-type"] = "text/plain"


@pytest.mark.parametrize(
    ("fault", "broken"),
    [
        ({"ask": unknown_method_is_500}, {"G1.59"}),
        ({"ask": in_message(taskId=None)}, {"G1.1", "G1.2"}),
        ({"ask": in_message(contextId=None)}, {"G1.5"}),
        ({"ask": page_size_is_clamped}, {"G1.19"}),
        ({"ask": unknown_status_is_dropped}, {"G1.22"}),
        ({"ask": version_is_not_read}, {"G1.43"}),
        ({"ask": in_params("historyLength")}, {"G1.15"}),
        ({"ask": in_params(includeArtifacts=True)}, {"G1.21"}),
        ({"ask": in_params("status", "contextId")}, {"G1.22"}),
        ({"ask": in_params("pageToken")}, {"G1.19"}),
        ({"answer": page_token_is_omitted}, {"G1.20"}),
        ({"answer": first_frame_is_lost}, {"G1.25"}),
        ({"answer": last_frame_is_lost}, {"G1.26"}),
        ({"answer": chunk_comes_twice}, {"G1.27"}),
        ({"answer": times_have_no_z}, {"G1.46"}),
        ({"answer": without_capability("streaming")}, {"G1.24"}),
        ({"answer": without_capability("pushNotifications")}, {"G1.32"}),
        ({"header": content_type_is_text}, {"G1.59"}),
    ],
    ids=lambda value: getattr(next(iter(value.values())), "__name__", None) if isinstance(value, dict) else "",
)
async def test_a_planted_fault_is_found_by_its_rule(fault: Any, broken: set[str]) -> None:
    report = await checked(App(echo_agent()), **fault)
    assert rules(report, Verdict.FAILED) == broken


@pytest.mark.parametrize(
    ("fault", "broken"),
    [
        ({"ask": role_is_not_validated}, {"G1.45"}),
        ({"answer": details_are_missing}, {"G1.58"}),
        ({"header": lambda headers: headers.pop("etag", None)}, {"G1.55"}),
    ],
)
async def test_a_broken_recommendation_is_a_warning(fault: Any, broken: set[str]) -> None:
    report = await checked(App(echo_agent()), **fault)
    assert rules(report, Verdict.FAILED) == set()
    assert rules(report, Verdict.WARNED) == broken


async def test_an_id_that_is_not_mirrored_is_found() -> None:
    report = await checked(App(echo_agent()), answer=id_is_always_1)
    assert "G1.59" in rules(report, Verdict.FAILED)


async def test_states_in_another_spelling_are_found() -> None:
    report = await checked(App(echo_agent()), answer=states_are_short)
    assert {"G1.7", "G1.46"} <= rules(report, Verdict.FAILED)


async def test_two_tasks_for_one_message_are_allowed() -> None:
    """The specification leaves it to the server whether a message that comes twice is one task."""
    report = await checked(App(echo_agent()), ask=in_message(messageId=lambda: f"m-{next(numbers)}"))
    assert rules(report, Verdict.FAILED) == set()


def let_in(request: Any, headers: Headers) -> None:
    headers["authorization"] = f"Bearer {TOKEN}"


def let_in_to_the_extended_card(request: Any, headers: Headers) -> None:
    if request.get("method") == "GetExtendedAgentCard":
        let_in(request, headers)


async def test_declared_authentication_that_is_not_enforced_is_found() -> None:
    report = await checked(secured(), ask=let_in)
    assert rules(report, Verdict.FAILED) == {"G1.48", "G1.49", "G1.54"}


async def test_an_extended_card_for_everybody_is_found() -> None:
    report = await checked(secured(), ask=let_in_to_the_extended_card)
    assert rules(report, Verdict.FAILED) == {"G1.54"}


async def test_a_refusal_without_a_challenge_is_a_warning() -> None:
    report = await checked(secured(), header=lambda headers: headers.pop("www-authenticate", None))
    assert rules(report, Verdict.WARNED) == {"G1.48"}


async def test_a_required_extension_that_is_not_enforced_is_found() -> None:
    def ask(request: Any, headers: Headers) -> None:
        headers["a2a-extensions"] = REQUIRED

    app = App(echo_agent(extensions=[AgentExtension(REQUIRED, required=True)]))
    report = await checked(app, ask=ask)
    assert rules(report, Verdict.FAILED) == {"G1.40"}


async def test_faults_of_0_3_are_found() -> None:
    def ask(request: Any, headers: Headers) -> int | None:
        return 500 if request.get("method") == "parley/check/nonsense" else None

    def answer(request: Any, kind: str, body: bytes) -> bytes:
        return body.replace(b'"final":true', b'"final":false')

    report = await checked(App(echo_agent()), Version.V0_3, ask=ask, answer=answer)
    assert rules(report, Verdict.FAILED) == {"G2.10", "G2.18"}


async def test_a_server_that_answers_nonsense_passes_nothing_that_matters() -> None:
    def answer(request: Any, kind: str, body: bytes) -> bytes:
        return body if request is None else b"<html>"

    report = await checked(App(echo_agent()), answer=answer)
    assert "G1.7" in rules(report, Verdict.FAILED)
    assert not {"G1.1", "G1.2", "G1.8", "G1.16", "G1.23", "G1.25"} & rules(report, Verdict.PASSED)
