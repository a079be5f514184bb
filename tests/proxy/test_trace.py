"""What a trace shows: both sides of a conversation, each in its own dialect, and no secrets."""

from __future__ import annotations

import io
import os
import threading
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from parley import Agent, Client, Turn
from parley.cli.output.trace_text import TraceText, render
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.authorization import GivenCredential, encode_credential
from parley.protocol.cards import ApiKeyLocation, ApiKeyScheme, Binding
from parley.protocol.errors import InvalidParamsError, TaskNotFoundError, UnavailableError
from parley.protocol.events import StatusUpdate
from parley.protocol.masking import MASK
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.push import PushAuthentication, PushConfig
from parley.protocol.tasks import Task, TaskState, TaskStatus
from parley.protocol.versions import Version
from parley.proxy import trace_json
from parley.proxy.trace import AgentCall, Direction, Trace, TraceLine, json_writer
from parley.server.app import App
from parley.server.webhooks.guard import WebhookPolicy
from parley.stores.sqlite.store import SqliteStore
from tests.conformance.matrix import GRPC, JSONRPC, REST, V0_1, V0_3, V1_0
from tests.conformance.serve import conformance_agent
from tests.deadlines import fail_after
from tests.proxy.proxies import caller, card_at, on_ports, proxy_of

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 1, 2, 12, 0, 0, 5000, tzinfo=UTC)


async def test_both_sides_are_shown_in_their_own_dialects() -> None:
    lines: list[TraceLine] = []
    with fail_after(20):
        async with (
            on_ports(App(conformance_agent("Open"))) as place,
            proxy_of(place["url"], versions=[V0_3], bindings=[JSONRPC], trace=Trace(lines.append)) as proxy,
            caller(proxy, V1_0, GRPC, authorization="Bearer secret-1") as peer,
        ):
            task = await peer.send("hello")
            with pytest.raises(TaskNotFoundError):
                await peer.get("absent")
    assert [(line.direction, line.kind, line.version, line.binding, line.what) for line in lines] == [
        (Direction.CALLER_TO_PROXY, "request", "1.0", "GRPC", "/lf.a2a.v1.A2AService/SendMessage"),
        (Direction.PROXY_TO_AGENT, "request", "0.3", "JSONRPC", "message/send"),
        (Direction.AGENT_TO_PROXY, "reply", "0.3", "JSONRPC", "SendMessage"),
        (Direction.PROXY_TO_CALLER, "reply", "1.0", "GRPC", "SendMessage"),
        (Direction.CALLER_TO_PROXY, "request", "1.0", "GRPC", "/lf.a2a.v1.A2AService/GetTask"),
        (Direction.PROXY_TO_AGENT, "request", "0.3", "JSONRPC", "tasks/get"),
        (Direction.AGENT_TO_PROXY, "error", "0.3", "JSONRPC", "TaskNotFoundError"),
        (Direction.PROXY_TO_CALLER, "error", "1.0", "GRPC", "TaskNotFoundError"),
    ]
    first, last = lines[0].exchange, lines[-1].exchange
    assert [line.exchange for line in lines] == [first] * 4 + [last] * 4
    assert lines[0].headers["authorization"] == lines[1].headers["authorization"] == "Bearer ••••"
    body = msgspec.to_builtins(lines[2].body)
    assert (body["id"], body["kind"], body["status"]["state"]) == (task.id, "task", "completed")
    assert msgspec.to_builtins(lines[3].body)["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize(("version", "binding"), [(V0_1, JSONRPC), (V1_0, REST)], ids=str)
async def test_streams_are_shown_event_by_event(version: Version, binding: Binding) -> None:
    lines: list[TraceLine] = []
    with fail_after(20):
        async with (
            on_ports(App(conformance_agent("Open"))) as place,
            proxy_of(place["url"], bindings=[GRPC], trace=Trace(lines.append)) as proxy,
            caller(proxy, version, binding) as peer,
        ):
            await peer.stream_of("count 2")
    kinds = ["Task", "StatusUpdate", "ArtifactUpdate", "ArtifactUpdate", "StatusUpdate"]
    for direction in (Direction.AGENT_TO_PROXY, Direction.PROXY_TO_CALLER):
        assert [line.what for line in lines if line.direction is direction and line.kind == "event"] == kinds


async def test_what_is_not_understood_or_breaks_is_shown_too() -> None:
    lines: list[TraceLine] = []
    with fail_after(30):
        async with on_ports(App(conformance_agent("Open"))) as place:
            proxying = proxy_of(place["url"], bindings=[REST], trace=Trace(lines.append))
            proxy = await proxying.__aenter__()
        try:
            async with caller(proxy, V1_0, REST) as peer:
                assert (await peer.http.post("/", content=b"{", headers=peer.http_headers())).json()["error"]
                with pytest.raises(UnavailableError):
                    await peer.send("hello")
                with pytest.raises(UnavailableError):
                    async with aclosing(peer.stream(ops.SEND_STREAMING_MESSAGE, peer.request(peer.message("x")))) as s:
                        await anext(s)
        finally:
            await proxying.__aexit__(None, None, None)
    shown = [(line.direction, line.kind, line.version, line.what) for line in lines]
    assert shown[0] == (Direction.PROXY_TO_CALLER, "error", "?", "ParseError")
    assert shown[1] == (Direction.CALLER_TO_PROXY, "request", "1.0", "POST /message:send")
    assert (Direction.AGENT_TO_PROXY, "error", "1.0", "UnreachableError") in shown
    assert (Direction.PROXY_TO_CALLER, "error", "1.0", "UnavailableError") in shown


async def test_webhooks_are_shown_without_their_secrets() -> None:
    lines: list[TraceLine] = []
    app = App(conformance_agent("Open"), webhooks=WebhookPolicy(allow_private=True))
    config = PushConfig(
        "http://127.0.0.1:9/secret-0/hook?key=secret-1",
        id="one",
        token="secret-2",
        authentication=PushAuthentication(("Bearer",), "secret-3"),
    )
    with fail_after(20):
        async with (
            on_ports(app) as place,
            proxy_of(place["url"], bindings=[JSONRPC], trace=Trace(lines.append)) as proxy,
            caller(proxy, V1_0, REST) as peer,
        ):
            message = Message("m-1", Role.USER, (TextPart("hello"),))
            task = await peer.call(ops.SEND_MESSAGE, r.SendMessageRequest(message, r.SendConfiguration((), config)))
            kept = await peer.call(ops.CREATE_PUSH_CONFIG, r.CreatePushConfigRequest(task.id, config))
            assert (kept.url, kept.token) == (config.url, MASK)
            await peer.call(ops.GET_PUSH_CONFIG, r.GetPushConfigRequest(task.id, "one"))
            page = await peer.call(ops.LIST_PUSH_CONFIGS, r.ListPushConfigsRequest(task.id))
            assert page.configs == (kept,)
            await peer.call(ops.DELETE_PUSH_CONFIG, r.DeletePushConfigRequest(task.id, "one"))
    shown = msgspec.json.encode(lines).decode()
    assert "secret" not in shown
    urls = [found.split('"')[0] for found in shown.split('"url":"')[1:]]
    assert len(urls) >= 8  # what was asked and answered on both sides
    assert set(urls) == {"http://127.0.0.1:9/…"}


@pytest.mark.parametrize("binding", [JSONRPC, REST, GRPC], ids=str)
async def test_the_credential_for_a_task_is_not_shown(binding: Binding) -> None:
    lines: list[TraceLine] = []
    given = encode_credential(GivenCredential("secret-1"))
    with fail_after(20):
        async with (
            on_ports(App(conformance_agent("Open"))) as place,
            proxy_of(place["url"], bindings=[binding], trace=Trace(lines.append)) as proxy,
            caller(proxy, V1_0, binding) as peer,
        ):
            message = Message("m-1", Role.USER, (TextPart("hello"),), metadata=given)
            with pytest.raises(InvalidParamsError):  # the agent has not asked for one
                await peer.call(ops.SEND_MESSAGE, r.SendMessageRequest(message))
    requests = [msgspec.json.encode(line).decode() for line in lines if line.kind == "request"]
    assert len(requests) == 2
    assert all("urn:parley:authorization-request:1" in request for request in requests)
    assert "secret" not in msgspec.json.encode(lines).decode()


@pytest.mark.parametrize(
    ("version", "binding"), [(V0_1, JSONRPC), (V0_3, JSONRPC), (V1_0, REST), (V1_0, GRPC)], ids=str
)
async def test_the_answer_in_words_to_a_demand_is_not_shown(version: Version, binding: Binding, tmp_path: Path) -> None:
    lines: list[TraceLine] = []
    agent = Agent("Bank")

    @agent.on_message
    async def handle(turn: Turn) -> str:
        await turn.require_auth("What is the key?", scheme="Code")
        return (await turn.ask("How much?")).text

    app = App(agent, store=SqliteStore(tmp_path / "tasks.db"))
    with fail_after(20):
        async with (
            on_ports(app) as place,
            proxy_of(card_at(place, version, binding), trace=Trace(lines.append)) as proxy,
            Client(proxy["url"]) as client,
        ):
            asked = await client.send("go")
            many = await asked.answer("secret-1")
            assert many.question == "How much?"
            await many.answer("ten euros")
    shown = [msgspec.json.encode(line).decode() for line in lines if line.kind == "request"]
    answers = [request for request in shown if "********" in request]
    assert {line.direction for line in lines if "********" in str(line.body) and line.kind == "request"} == {
        Direction.CALLER_TO_PROXY,
        Direction.PROXY_TO_AGENT,
    }
    assert len(answers) >= 2
    assert [request for request in shown if "ten euros" in request]
    assert "secret" not in msgspec.json.encode(lines).decode()


def test_the_credential_that_an_agent_repeats_is_not_shown() -> None:
    message = Message("m-1", Role.USER, (TextPart("hello"),), metadata=encode_credential(GivenCredential("secret-1")))
    task = Task("t-1", "c-1", TaskStatus(TaskState.WORKING, message), history=(message,))
    shown = [
        trace_json.show_event(task, V1_0, JSONRPC),
        trace_json.show_event(StatusUpdate("t-1", "c-1", task.status), V1_0, JSONRPC),
        trace_json.show_event(message, V0_3, JSONRPC),
        trace_json.show_result(ops.SEND_MESSAGE, task, V1_0, REST),
        trace_json.show_result(ops.GET_TASK, task, V1_0, GRPC),
        trace_json.show_result(ops.LIST_TASKS, r.TaskPage((task,), "", 1, 1), V1_0, JSONRPC),
    ]
    for body in shown:
        text = msgspec.json.encode(body).decode()
        assert "urn:parley:authorization-request:1" in text
        assert "secret" not in text


@pytest.mark.parametrize("binding", [JSONRPC, REST, GRPC], ids=str)
def test_an_error_that_quotes_a_webhook_shows_no_more_of_it_than_its_server(binding: Binding) -> None:
    error = InvalidParamsError("'https://ada:pw@hooks.example.com/T0/secret?key=secret' is refused", details={"n": "1"})
    shown = msgspec.json.encode(trace_json.show_error(error, V1_0, binding)).decode()
    assert "'https://hooks.example.com/…' is refused" in shown
    assert "secret" not in shown
    assert "pw" not in shown


def line(**fields: object) -> TraceLine:
    given = {
        "direction": Direction.CALLER_TO_PROXY,
        "kind": "request",
        "operation": "GetTask",
        "version": "1.0",
        "binding": "JSONRPC",
    }
    return msgspec.convert({"time": NOON.isoformat(), "exchange": 7, "what": "GetTask", **given, **fields}, TraceLine)


def test_people_get_indented_text_that_cannot_steer_their_terminal() -> None:
    out = io.StringIO()
    with TraceText(out) as write:
        write(line(headers={"x-a": "1"}, body={"id": "\u009b31m \u202e"}))
        write(line(what="Get\nTask\x1b[2J", body="cannot\x1b[2J"))
    assert out.getvalue().splitlines() == [
        "12:00:00.005  #7  caller → proxy  request  A2A 1.0 JSONRPC  GetTask",
        "    x-a: 1",
        "    {",
        '      "id": "�31m �"',
        "    }",
        "12:00:00.005  #7  caller → proxy  request  A2A 1.0 JSONRPC  Get␊Task␛[2J",
        "    cannot␛[2J",
    ]


def test_people_get_no_more_than_they_can_read() -> None:
    long = render(line(body={"raw": "A" * 5_000_000, "rows": list(range(5_000))}))
    assert "A… 4,999,000 more characters" in long
    assert long.splitlines()[-1].strip().endswith("more rows")
    assert len(long) < 20_000


def test_a_reader_that_stands_still_holds_nobody_up_and_hears_what_is_left_out() -> None:
    reader, writer = os.pipe()
    with open(writer, "w", encoding="utf-8") as out, open(reader, encoding="utf-8") as shown:
        trace = TraceText(out)
        with trace as write:
            for _ in range(5_000):
                write(line(body="x" * 500))
            first = shown.readline()
            while "were dropped" not in (row := shown.readline()):
                write(line(body="x" * 500))
            assert first.startswith("12:00:00.005  #7")
            assert row.startswith("… ")
            reading = threading.Thread(target=shown.read)
            reading.start()
        out.close()
        reading.join()


def test_a_trace_that_cannot_be_written_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def full(_: TraceLine) -> None:
        raise OSError("No space left on device")

    lines: list[TraceLine] = []
    trace = Trace(full, lines.append, now=lambda: NOON)
    for _ in range(2):
        trace.requested(AgentCall(ops.GET_TASK, V1_0, JSONRPC), r.GetTaskRequest("t"))
    assert len(lines) == 2
    assert [record.getMessage() for record in caplog.records] == [
        "A trace output failed and is no longer written: No space left on device"
    ]


def test_a_terminal_that_is_gone_disturbs_nobody() -> None:
    out = io.StringIO()
    out.close()
    with TraceText(out) as write:
        write(line())
        write(line())


def test_programs_get_a_json_object_a_line() -> None:
    out = io.StringIO()
    json_writer(out)(line(body={"id": "t-1"}))
    assert msgspec.json.decode(out.getvalue(), type=TraceLine) == line(body={"id": "t-1"})


def test_headers_of_a_cards_keys_are_masked_whatever_they_are_called() -> None:
    lines: list[TraceLine] = []
    trace = Trace(lines.append, now=lambda: NOON)
    trace.mask([ApiKeyScheme(ApiKeyLocation.HEADER, "X-Agent")])
    headers = {"x-agent": "a", "cookie": "b", "proxy-authorization": "Basic c", "host": "d", "x-request-id": "e"}
    trace.requested(AgentCall(ops.GET_TASK, V1_0, JSONRPC, headers), r.GetTaskRequest("t"))
    assert lines[0].headers == {
        "x-agent": "••••",
        "cookie": "••••",
        "proxy-authorization": "Basic ••••",
        "x-request-id": "e",
    }


def test_what_a_dialect_cannot_say_is_said_to_be_so() -> None:
    what, body = trace_json.show_request(ops.LIST_TASKS, r.ListTasksRequest(), V0_3, JSONRPC)
    assert what == "ListTasks"
    assert str(body).startswith("cannot be expressed in A2A 0.3: ")
    page = r.TaskPage((), "", 50, 0)
    assert str(trace_json.show_result(ops.LIST_TASKS, page, V0_3, JSONRPC)).startswith(
        "cannot be expressed in A2A 0.3: "
    )
    half = Message("m", Role.AGENT, (TextPart("\ud800"),))
    assert str(trace_json.show_event(half, V1_0, JSONRPC)).startswith("cannot be expressed in A2A 1.0: ")
    assert trace_json.show_error(TaskNotFoundError("x"), V0_3, GRPC) == {"code": "NOT_FOUND", "message": "x"}
    assert trace_json.show_request(ops.GET_TASK, r.GetTaskRequest("t", 3), V0_3, REST) == (
        "GET /v1/tasks/t?historyLength=3",
        None,
    )
