"""Spans, as an OpenTelemetry SDK gets them: who is whose parent, what is linked to what, and how things ended."""

import asyncio
from collections.abc import AsyncGenerator
from itertools import count
from typing import Any

import pytest
from opentelemetry import baggage, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NoOpTracerProvider, SpanContext, SpanKind, StatusCode, Tracer

from parley import Agent, Client, Turn
from parley.engine.limits import Limits
from parley.protocol import operations as ops
from parley.protocol.errors import InternalError, TaskNotFoundError
from parley.server.app import App
from parley.server.telemetry import tracing
from parley.server.telemetry.telemetry import Telemetry
from parley.server.telemetry.tracing import Tracing, current_trace_ids, inject_headers
from parley.stores.interface import Owner, TaskKey
from parley.testing.clock import FakeClock
from tests.bounded import bounded
from tests.server.calls import a_call

pytestmark = pytest.mark.anyio

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


class Spans:
    """What was traced."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.telemetry = Telemetry(tracing=Tracing(self.provider))
        self.tracer: Tracer = self.provider.get_tracer("test")

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def only(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span


@pytest.fixture
def spans() -> Spans:
    return Spans()


def context_of(span: ReadableSpan) -> SpanContext:
    assert span.context is not None
    return span.context


def links_of(span: ReadableSpan) -> list[SpanContext]:
    return [link.context for link in span.links]


def echo() -> Agent:
    agent = Agent("Echo")

    @agent.on_message
    async def say(turn: Turn) -> str:
        return turn.text

    return agent


def test_a_call_is_a_span_of_its_callers_trace(spans: Spans) -> None:
    call = a_call(headers={"traceparent": PARENT, "tracestate": "shop=1"})
    with spans.telemetry.call(call):
        call.task_id, call.context_id = "task-1", "context-1"
        assert current_trace_ids() is not None
    span = spans.only("SendMessage")
    assert span.kind is SpanKind.SERVER
    assert trace.format_trace_id(context_of(span).trace_id) == TRACE
    assert span.parent is not None
    assert trace.format_span_id(span.parent.span_id) == "b7ad6b7169203331"
    assert context_of(span).trace_state["shop"] == "1"
    assert dict(span.attributes or {}) == {
        "rpc.system": "a2a",
        "rpc.method": "SendMessage",
        "a2a.agent": "echo",
        "a2a.version": "1.0",
        "a2a.binding": "JSONRPC",
        "a2a.outcome": "ok",
        "a2a.task.id": "task-1",
        "a2a.context.id": "context-1",
    }
    assert current_trace_ids() is None


@pytest.mark.parametrize("parent", ["", "garbage", "00-00000000000000000000000000000000-b7ad6b7169203331-01"])
def test_a_caller_that_sends_no_good_parent_begins_a_trace(spans: Spans, parent: str) -> None:
    with spans.telemetry.call(a_call(headers={"traceparent": parent})):
        pass
    assert spans.only("SendMessage").parent is None


@pytest.mark.parametrize(
    ("error", "attributes", "status"),
    [
        (
            TaskNotFoundError(),
            {"a2a.outcome": "TASK_NOT_FOUND", "error.type": "TASK_NOT_FOUND", "a2a.error.code": -32001},
            StatusCode.UNSET,
        ),
        (
            InternalError(),
            {"a2a.outcome": "INTERNAL_ERROR", "error.type": "INTERNAL_ERROR", "a2a.error.code": -32603},
            StatusCode.ERROR,
        ),
        (ValueError("odd"), {"a2a.outcome": "INTERNAL_ERROR", "error.type": "INTERNAL_ERROR"}, StatusCode.ERROR),
        (asyncio.CancelledError(), {"a2a.outcome": "DISCONNECTED"}, StatusCode.UNSET),
    ],
    ids=lambda value: type(value).__name__,
)
def test_only_our_own_faults_are_errors_of_a_span(
    spans: Spans, error: BaseException, attributes: dict[str, Any], status: StatusCode
) -> None:
    with pytest.raises(type(error)), spans.telemetry.call(a_call(ops.GET_TASK)):
        raise error
    span = spans.only("GetTask")
    ending = {name: value for name, value in (span.attributes or {}).items() if name in ("a2a.outcome", "error.type")}
    ending |= {name: value for name, value in (span.attributes or {}).items() if name == "a2a.error.code"}
    assert ending == attributes
    assert span.status.status_code is status
    assert [event.name for event in span.events] == (["exception"] if isinstance(error, ValueError) else [])


def test_a_server_inside_a_traced_application_goes_on_inside_its_span(spans: Spans) -> None:
    outer = trace.set_span_in_context(
        trace.NonRecordingSpan(
            SpanContext(int(TRACE, 16), 0x1111111111111111, is_remote=False, trace_flags=trace.TraceFlags(1))
        )
    )
    call = a_call(headers={"traceparent": PARENT, "baggage": "a=b"})
    with spans.tracer.start_as_current_span("middleware", outer) as middleware, spans.telemetry.call(call):
        assert baggage.get_baggage("a") == "b"
    span = spans.only("SendMessage")
    assert span.parent is not None
    assert span.parent.span_id == middleware.get_span_context().span_id


async def test_send_run_and_push_are_linked(spans: Spans) -> None:
    telemetry = spans.telemetry
    async with bounded(echo(), observer=telemetry) as client:
        with telemetry.call(a_call(headers={"traceparent": PARENT})):
            task = await client.send("hi")
        telemetry.delivered(TaskKey(Owner("", ""), task.id), "echo", "hook", "delivered", 0.25)
    send, run, push = spans.only("SendMessage"), spans.only("run"), spans.only("push")
    assert run.parent is None
    assert context_of(run).trace_id != context_of(send).trace_id
    assert links_of(run) == [context_of(send)]
    assert dict(run.attributes or {}) == {
        "a2a.agent": "echo",
        "a2a.version": "1.0",
        "a2a.run.attempt": 1,
        "a2a.task.id": task.id,
        "a2a.context.id": task.context_id,
        "a2a.run.outcome": "completed",
    }
    assert links_of(push) == [context_of(run)]
    assert push.kind is SpanKind.CLIENT
    assert push.start_time is not None
    assert push.end_time == push.start_time + 250_000_000
    assert dict(push.attributes or {}) == {
        "a2a.agent": "echo",
        "a2a.push.config_id": "hook",
        "a2a.push.outcome": "delivered",
        "a2a.task.id": task.id,
    }


async def test_runs_that_waited_for_their_turn_are_linked_to_their_own_sends(spans: Spans) -> None:
    telemetry = spans.telemetry
    async with bounded(echo(), observer=telemetry, limits=Limits(runs_at_once=1)) as client:

        async def send(text: str) -> str:
            call = a_call()
            with telemetry.call(call):
                call.task_id = (await client.send(text)).id
            return call.task_id

        await asyncio.gather(*(send(f"message {number}") for number in range(3)))
    sends = {(span.attributes or {})["a2a.task.id"]: context_of(span) for span in spans.named("SendMessage")}
    runs = {(span.attributes or {})["a2a.task.id"]: links_of(span) for span in spans.named("run")}
    assert runs == {task_id: [context] for task_id, context in sends.items()}


async def test_a_run_that_is_begun_again_after_a_restart_has_no_link(spans: Spans) -> None:
    agent = Agent("Slow")
    begun = asyncio.Event()
    attempts = count(1)

    @agent.on_message
    async def work(turn: Turn) -> str:
        begun.set()
        if next(attempts) == 1:
            await asyncio.Event().wait()
        return "done"

    telemetry = spans.telemetry
    async with bounded(agent, observer=telemetry) as client:
        with telemetry.call(a_call()):
            task = await client.start("Go")
            await begun.wait()
            await client.crash()
            await client.restart()
            await client.finished(task)
    first, again = spans.named("run")
    assert links_of(first) == [context_of(spans.only("SendMessage"))]
    assert links_of(again) == []
    assert again.parent is None
    assert (again.attributes or {})["a2a.run.attempt"] == 2


async def test_a_run_that_asks_is_no_error(spans: Spans) -> None:
    agent = Agent("Asking")

    @agent.on_message
    async def ask(turn: Turn) -> str:
        return (await turn.ask("Where to?")).text

    async with bounded(agent, observer=spans.telemetry) as client:
        await client.send("Go", task=await client.send("Take me there"))
    asked, answered = spans.named("run")
    assert (asked.attributes or {})["a2a.run.outcome"] == "input-required"
    assert asked.status.status_code is StatusCode.UNSET
    assert (answered.attributes or {})["a2a.run.outcome"] == "completed"


async def test_a_run_that_ends_in_a_sleep_is_no_error(spans: Spans) -> None:
    agent, clock = Agent("Sleeping"), FakeClock()

    @agent.on_message
    async def sleep(turn: Turn) -> None:
        await turn.sleep("1 hour")

    async with bounded(agent, observer=spans.telemetry, clock=clock) as client:
        task = await client.start("Go")
        await client.asleep(task)
        await clock.advance(3_600)
        await client.finished(task)
    assert [(run.attributes or {})["a2a.run.outcome"] for run in spans.named("run")] == ["asleep", "completed"]
    assert [run.status.status_code for run in spans.named("run")] == [StatusCode.UNSET] * 2


async def test_a_run_that_raises_has_its_exception_in_its_span(spans: Spans) -> None:
    agent = Agent("Failing")

    @agent.on_message
    async def fail(turn: Turn) -> str:
        raise ValueError("no such thing")

    async with bounded(agent, observer=spans.telemetry) as client:
        await client.send("Go")
    run = spans.only("run")
    assert (run.attributes or {})["a2a.run.outcome"] == "failed"
    assert run.status.status_code is StatusCode.ERROR
    assert [(event.attributes or {})["exception.message"] for event in run.events] == ["no such thing"]


async def test_a_run_that_is_canceled_or_cut_off_says_so(spans: Spans) -> None:
    agent = Agent("Waiting")
    begun = asyncio.Semaphore(0)

    @agent.on_message
    async def wait(turn: Turn) -> None:
        begun.release()
        await asyncio.Event().wait()

    async with bounded(agent, observer=spans.telemetry) as client:
        task = await client.start("One")
        await begun.acquire()
        await client.cancel(task)
        await client.start("Two")
        await begun.acquire()
    assert [(run.attributes or {})["a2a.run.outcome"] for run in spans.named("run")] == ["canceled", "cut-off"]


async def test_a_run_that_rejects_its_task_is_no_error(spans: Spans) -> None:
    agent = Agent("Rejecting")

    @agent.on_message
    async def reject(turn: Turn) -> None:
        await turn.reject("Not that")

    async with bounded(agent, observer=spans.telemetry) as client:
        await client.send("Go")
    run = spans.only("run")
    assert (run.attributes or {})["a2a.run.outcome"] == "rejected"
    assert run.status.status_code is StatusCode.UNSET


async def test_a_handler_passes_its_trace_and_its_senders_baggage_on(spans: Spans) -> None:
    agent = Agent("Calling")
    sent: dict[str, str] = {}

    @agent.on_message
    async def call_somebody(turn: Turn) -> str:
        sent.update(inject_headers({"accept": "text/plain"}))
        return "done"

    telemetry = spans.telemetry
    async with bounded(agent, observer=telemetry) as client:
        with telemetry.call(a_call(headers={"traceparent": PARENT, "baggage": "tier=gold"})):
            task = await client.send("Go")
    run = context_of(spans.only("run"))
    parent = f"00-{trace.format_trace_id(run.trace_id)}-{trace.format_span_id(run.span_id)}-{run.trace_flags:02x}"
    assert sent == {"accept": "text/plain", "traceparent": parent, "baggage": "tier=gold"}
    assert telemetry.webhook_headers(TaskKey(Owner("", ""), task.id)) == {"traceparent": parent}


async def test_only_so_many_tasks_are_remembered(spans: Spans, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "TASKS_REMEMBERED", 2)
    telemetry = spans.telemetry
    async with bounded(echo(), observer=telemetry) as client:
        tasks = [await client.send(text) for text in ("one", "two", "three")]
    keys = [TaskKey(Owner("", ""), task.id) for task in tasks]
    assert [bool(telemetry.webhook_headers(key)) for key in keys] == [False, True, True]
    telemetry.delivered(keys[0], "echo", "hook", "failed", 0.0)
    push = spans.only("push")
    assert links_of(push) == []
    assert push.status.status_code is StatusCode.ERROR


async def test_without_a_provider_there_is_nothing_to_link() -> None:
    telemetry = Telemetry(tracing=Tracing(NoOpTracerProvider()))
    async with bounded(echo(), observer=telemetry) as client:
        with telemetry.call(a_call()):
            task = await client.send("hi")
    assert telemetry.webhook_headers(TaskKey(Owner("", ""), task.id)) == {}


async def test_a_stream_may_end_in_another_asyncio_task_than_it_began_in(
    spans: Spans, caplog: pytest.LogCaptureFixture
) -> None:
    telemetry = spans.telemetry

    async def follow() -> AsyncGenerator[int]:
        with telemetry.call(a_call(ops.SUBSCRIBE_TO_TASK)), telemetry.stream(a_call(ops.SUBSCRIBE_TO_TASK)):
            yield 1
            yield 2

    stream = follow()
    assert await anext(stream) == 1

    async def read_on() -> list[int]:
        return [number async for number in stream]

    assert await asyncio.create_task(read_on()) == [2]
    assert (spans.only("SubscribeToTask").attributes or {})["a2a.outcome"] == "ok"
    assert caplog.records == []


async def test_a_delegated_task_is_traced_to_the_run_that_delegates(spans: Spans) -> None:
    async def echo(turn: Turn) -> Any:
        return turn.text

    remote, local, parent = Agent("Remote"), Agent("Local"), Agent("Parent")
    for agent in (remote, local):
        agent.on_message(echo)
    app = App(remote, telemetry=spans.telemetry)
    other_server = Client("http://other.example", app=app)

    @parent.on_message
    async def relay(turn: Turn) -> Any:
        yield turn.delegate(other_server)
        yield turn.delegate("local")

    async with app.running(), bounded(parent, observer=spans.telemetry, others=[local]) as client:
        await client.send("go")
    of = {str(span.attributes["a2a.agent"]): span for span in spans.named("run") if span.attributes}
    run = context_of(of["parent"])
    call = spans.only("SendStreamingMessage")
    assert call.parent is not None
    assert (call.parent.trace_id, call.parent.span_id) == (run.trace_id, run.span_id)
    assert links_of(of["local"]) == [run]
    assert links_of(of["remote"]) == [context_of(call)]
