"""Log lines: what stands in them, what cannot get into them, and whose they are."""

import asyncio
import io
import json
import logging
import warnings
from typing import Any

import pytest
import uvicorn
from opentelemetry.sdk.trace import TracerProvider

from parley import Agent, Turn
from parley.engine.caller import Caller
from parley.safe_text import escaped
from parley.server.telemetry.logs import JsonFormatter, TextFormatter, configure_logging, redact
from parley.server.telemetry.telemetry import Telemetry
from parley.server.telemetry.tracing import Tracing
from tests.bounded import bounded
from tests.restored_logging import restored_logging as restored_logging  # a fixture
from tests.server.calls import a_call

pytestmark = pytest.mark.anyio


def record(message: str, *args: Any, **members: Any) -> logging.LogRecord:
    values = {"name": "parley.test", "levelname": "INFO", "levelno": 20, "msg": message, "args": args}
    return logging.makeLogRecord({**values, "created": 1767225600.0, **members})


def as_json(made: logging.LogRecord) -> dict[str, Any]:
    line = JsonFormatter().format(made)
    assert "\n" not in line
    assert line.isascii()
    return json.loads(line)


def test_a_line_of_json_has_the_records_members_and_its_extra_fields() -> None:
    assert as_json(record("Hello %s", "Zoë", size=3, parts=("a", {"b": None}))) == {
        "time": "2026-01-01T00:00:00.000Z",
        "level": "info",
        "logger": "parley.test",
        "message": "Hello Zoë",
        "size": 3,
        "parts": ["a", {"b": None}],
    }


def test_a_line_of_text_is_one_line() -> None:
    made = record("Hello %s", "Zoë\n2026-01-01 INFO forged", size=3, place="here there", list=["a"])
    assert TextFormatter().format(made) == (
        "2026-01-01T00:00:00.000Z INFO parley.test: Hello Zoë\\n2026-01-01 INFO forged"
        ' size=3 place="here there" list="[\\"a\\"]"'
    )


def test_a_traceback_in_text_stands_behind_bars() -> None:
    try:
        raise ValueError("odd\n2026-01-01T00:00:00.000Z INFO parley: forged\x1b[2J")
    except ValueError as error:
        made = record("Failed", exc_info=(ValueError, error, error.__traceback__), stack_info="Stack:\n  here")
    first, *rest = TextFormatter().format(made).split("\n")
    assert first == "2026-01-01T00:00:00.000Z INFO parley.test: Failed"
    assert all(line.startswith("  | ") for line in rest)
    assert rest[-4:] == [
        "  | ValueError: odd",
        "  | 2026-01-01T00:00:00.000Z INFO parley: forged\\x1b[2J",
        "  | Stack:",
        "  |   here",
    ]
    line = as_json(made)
    assert line["exception"].startswith("Traceback (most recent call last):\n")
    assert line["exception"].endswith("forged\x1b[2J\nStack:\n  here")


def test_no_exception_is_no_exception() -> None:
    assert "exception" not in as_json(record("Fine", exc_info=(None, None, None)))


@pytest.mark.parametrize(
    "unseen", ["\r", "\x00", "\x1b", "\x7f", "\x85", "\x9b", "\u2028", "\u202e", "\u2066", "\ud800"]
)
def test_characters_that_move_a_cursor_are_shown(unseen: str) -> None:
    assert escaped(f"a{unseen}b") == f"a{unseen.encode('unicode_escape').decode()}b"
    assert unseen not in TextFormatter().format(record("%s", unseen, field=unseen))
    assert as_json(record("%s", unseen))["message"] == unseen


def test_a_record_whose_arguments_do_not_fit_is_not_lost() -> None:
    assert as_json(record("%d apples", "many"))["message"] == "%d apples ('many',)"


def test_extra_fields_of_any_kind_become_json() -> None:
    nested: dict[str, Any] = {}
    nested["again"] = nested
    line = as_json(record("Odd", level="mine", when=float("nan"), thing=object, nested=nested, text="a\nb"))
    assert line["level"] == "info"
    assert line["extra_level"] == "mine"
    assert line["when"] == "nan"
    assert line["thing"] == "<class 'object'>"
    assert line["text"] == "a\nb"


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("Authorization: Bearer abc.def", "Authorization: [redacted]"),
        ("{'authorization': 'Basic YTpi', 'accept': 'x'}", "{'authorization': [redacted], 'accept': 'x'}"),
        ("(b'cookie', b'session=1; b=2')", "(b'cookie', [redacted])"),
        ("sent bearer abcdefghij to them", "sent bearer [redacted] to them"),
        ("token was eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln!", "token was [redacted]!"),
        ('GET /?api_key=4711&x=1 HTTP/1.1"', 'GET /?api_key=[redacted]&x=1 HTTP/1.1"'),
        ("password='a b c', user='x'", "password=[redacted], user='x'"),
        ("postgres://parley:hunter2@db/tasks", "postgres://[redacted]@db/tasks"),
        ("12 tokens were used; the token is unknown", "12 tokens were used; the token is unknown"),
        ("http://127.0.0.1:8080/agents", "http://127.0.0.1:8080/agents"),
    ],
)
def test_what_looks_like_a_secret_is_replaced(text: str, redacted: str) -> None:
    assert redact(text) == redacted
    assert as_json(record("%s", text, field=text))["field"] == redacted
    assert redacted in TextFormatter().format(record("%s", text))


def test_extra_fields_with_secret_names_are_replaced_and_counts_are_not() -> None:
    line = as_json(record("Used", token="t", input_tokens=12, headers={"X-Api-Key": b"k", "Accept": "*/*"}))
    assert line["token"] == "[redacted]"
    assert line["input_tokens"] == 12
    assert line["headers"] == {"X-Api-Key": "[redacted]", "Accept": "*/*"}


def test_lines_of_a_call_have_its_ids_as_far_as_they_are_known() -> None:
    telemetry = Telemetry()
    call = a_call()
    with telemetry.call(call):
        assert TextFormatter().format(record("Early")).endswith(": Early agent=echo caller=alice")
        call.caller = Caller("bob", "acme")
        call.task_id, call.context_id = "task-1", "context-1"
        with telemetry.stream(call):
            assert as_json(record("Late", task="another")) == {
                "time": "2026-01-01T00:00:00.000Z",
                "level": "info",
                "logger": "parley.test",
                "message": "Late",
                "agent": "echo",
                "task": "another",
                "context": "context-1",
                "tenant": "acme",
                "caller": "bob",
            }
    assert TextFormatter().format(record("After")).endswith(": After")


@pytest.mark.parametrize("format", ["json", "text"])
async def test_lines_of_a_real_run_have_the_ids_of_its_task_caller_and_trace(format: Any) -> None:
    agent = Agent("Logging")

    @agent.on_message
    async def work(turn: Turn) -> str:
        logging.getLogger("my.agent").info("At work on %r", turn.text, extra={"step": 1})
        await asyncio.sleep(0)
        raise ValueError("broken")

    written = io.StringIO()
    configure_logging(format, "info", stream=written)
    telemetry = Telemetry(tracing=Tracing(TracerProvider(shutdown_on_exit=False)))
    async with bounded(agent, observer=telemetry, caller=Caller("alice", "acme")) as client:
        with telemetry.call(a_call()):
            task = await client.send("one\ntwo")
    lines = written.getvalue().splitlines()
    if format == "text":
        assert f"my.agent: At work on 'one\\ntwo' agent=logging task={task.id} context={task.context_id}" in lines[0]
        assert " tenant=acme caller=alice trace_id=" in lines[0]
        return
    at_work, failed = (json.loads(line) for line in lines)
    span_ids = {at_work.pop("trace_id"), at_work.pop("span_id")}
    assert {len(span_id) for span_id in span_ids} == {32, 16}
    assert at_work.pop("time").endswith("Z")
    assert at_work == {
        "level": "info",
        "logger": "my.agent",
        "message": "At work on 'one\\ntwo'",
        "agent": "logging",
        "task": task.id,
        "context": task.context_id,
        "tenant": "acme",
        "caller": "alice",
        "step": 1,
    }
    assert failed["logger"] == "parley.engine.runs.supervisor"
    assert failed["level"] == "error"
    assert failed["exception"].endswith("ValueError: broken")


def test_lines_of_uvicorn_grpc_and_warnings_look_like_ours() -> None:
    written = io.StringIO()
    uvicorn.Config("nothing:here")  # sets up its own handlers
    configure_logging("json", logging.INFO, stream=written)
    arguments = ("127.0.0.1:1", "GET", "/?api_key=4711", "1.1", 200)
    logging.getLogger("uvicorn.access").info('%s - "%s %s HTTP/%s" %d', *arguments)
    logging.getLogger("uvicorn.error").info("Started", extra={"color_message": "\x1b[1mStarted"})
    logging.getLogger("grpc._server").error("Exception calling application")
    logging.getLogger("grpc._server").info("Chatter")
    logging.getLogger("httpx2").info("HTTP Request: POST https://hooks.example/secret")
    logging.getLogger("httpcore2.http11").debug("send_request_headers")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("Old", DeprecationWarning, stacklevel=1)
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    assert [(line["logger"], line["level"]) for line in lines] == [
        ("uvicorn.access", "info"),
        ("uvicorn.error", "info"),
        ("grpc._server", "error"),
        ("py.warnings", "warning"),
    ]
    assert lines[0]["message"] == '127.0.0.1:1 - "GET /?api_key=[redacted] HTTP/1.1" 200'
    assert set(lines[1]) == {"time", "level", "logger", "message"}


def test_the_level_holds_for_all() -> None:
    written = io.StringIO()
    configure_logging("text", "error", stream=written)
    logging.getLogger("parley").warning("Not now")
    logging.getLogger("asyncio").warning("Not now")
    logging.getLogger("parley").error("Now")
    (line,) = written.getvalue().splitlines()
    assert line.endswith(" ERROR parley: Now")
