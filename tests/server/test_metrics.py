"""Metrics, as a scraper reads them."""

import asyncio
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from parley import Agent, Turn, __version__
from parley.engine.limits import Limits
from parley.protocol import operations as ops
from parley.protocol.cards import Binding
from parley.protocol.errors import WIRE_ERRORS, TaskNotFoundError, UnauthenticatedError
from parley.server.app import App
from parley.server.telemetry.log_context import outcome_of
from parley.server.telemetry.metrics import Metrics
from parley.server.telemetry.telemetry import Telemetry
from parley.stores.interface import Owner, TaskKey
from tests.bounded import bounded
from tests.server.calls import a_call

pytestmark = pytest.mark.anyio


def scrape(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    """The samples of a name, by the values of their labels, which come in the order of the labels' names."""
    _, text = metrics.render()
    families = parse_text(text.decode())
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    return {tuple(sample.labels.values()): sample.value for sample in samples}


def test_calls_are_counted_by_what_was_asked_and_how_it_ended() -> None:
    metrics = Metrics()
    telemetry = Telemetry(metrics=metrics)
    for _ in range(2):
        with telemetry.call(a_call()):
            pass
    for error in (TaskNotFoundError(), ValueError(), asyncio.CancelledError()):
        with pytest.raises(type(error)), telemetry.call(a_call(ops.GET_TASK)):
            raise error
    assert scrape(metrics, "parley_requests_total") == {
        ("echo", "JSONRPC", "1.0", "SendMessage", "ok"): 2.0,
        ("echo", "JSONRPC", "1.0", "GetTask", "TASK_NOT_FOUND"): 1.0,
        ("echo", "JSONRPC", "1.0", "GetTask", "INTERNAL_ERROR"): 1.0,
        ("echo", "JSONRPC", "1.0", "GetTask", "DISCONNECTED"): 1.0,
    }
    assert scrape(metrics, "parley_request_seconds_count") == {
        ("JSONRPC", "SendMessage"): 2.0,
        ("JSONRPC", "GetTask"): 3.0,
    }


def test_every_error_has_an_outcome_of_its_own() -> None:
    outcomes = [outcome_of(error()) for error in WIRE_ERRORS]
    assert outcomes == [error.row.reason for error in WIRE_ERRORS]
    assert len(set(outcomes)) == len(outcomes)


def test_requests_that_never_became_calls_are_counted_too() -> None:
    metrics = Metrics()
    Telemetry(metrics=metrics).refused("echo", Binding.GRPC, UnauthenticatedError())
    Telemetry().refused("echo", Binding.GRPC, UnauthenticatedError())
    assert scrape(metrics, "parley_refusals_total") == {("echo", "GRPC", "UNAUTHENTICATED"): 1.0}


def test_a_call_is_answered_when_its_stream_opens() -> None:
    metrics = Metrics()
    telemetry = Telemetry(metrics=metrics)
    call = a_call(ops.SUBSCRIBE_TO_TASK)
    with telemetry.call(call):
        assert scrape(metrics, "parley_request_seconds_count") == {}
        with telemetry.stream(call):
            assert scrape(metrics, "parley_streams_live") == {("echo", "JSONRPC"): 1.0}
            assert scrape(metrics, "parley_request_seconds_count") == {("JSONRPC", "SubscribeToTask"): 1.0}
    assert scrape(metrics, "parley_streams_live") == {("echo", "JSONRPC"): 0.0}
    assert scrape(metrics, "parley_request_seconds_count") == {("JSONRPC", "SubscribeToTask"): 1.0}


async def test_tasks_are_counted_as_they_enter_a_state() -> None:
    agent = Agent("Currency")

    @agent.on_message
    async def convert(turn: Turn) -> str:
        await turn.status("Thinking")
        answer = await turn.ask("To which currency?")
        await turn.status("Thinking once more")
        return f"{turn.text} in {answer.text}"

    metrics = Metrics()
    async with bounded(agent, observer=Telemetry(metrics=metrics)) as client:
        task = await client.send("100 USD")
        await client.send("EUR", task=task)
    assert scrape(metrics, "parley_task_states_total") == {
        ("currency", "submitted"): 1.0,
        ("currency", "working"): 2.0,
        ("currency", "input-required"): 1.0,
        ("currency", "completed"): 1.0,
    }
    (commits,) = scrape(metrics, "parley_commit_seconds_count").values()
    assert commits >= 2


async def test_runs_are_counted_when_somebody_looks() -> None:
    agent = Agent("Waiting")
    begun = asyncio.Event()

    @agent.on_message
    async def wait(turn: Turn) -> None:
        begun.set()
        await asyncio.Event().wait()

    metrics = Metrics()
    telemetry = Telemetry(metrics=metrics)
    async with bounded(agent, observer=telemetry, limits=Limits(runs_at_once=1)) as client:
        telemetry.watch_runs(client.engine.runs)
        Telemetry().watch_runs(client.engine.runs)
        for text in ("one", "two", "three"):
            await client.start(text)
        await begun.wait()
        assert scrape(metrics, "parley_runs_working") == {("waiting",): 1.0}
        assert scrape(metrics, "parley_runs_waiting") == {("waiting",): 2.0}


def test_deliveries_are_counted_by_outcome() -> None:
    metrics = Metrics()
    telemetry = Telemetry(metrics=metrics)
    key = TaskKey(Owner("", ""), "task")
    for outcome in ("delivered", "retried", "delivered"):
        telemetry.delivered(key, "echo", "hook", outcome, 0.1)
    assert scrape(metrics, "parley_deliveries_total") == {("echo", "delivered"): 2.0, ("echo", "retried"): 1.0}
    assert scrape(metrics, "parley_delivery_seconds_count") == {(): 3.0}


def test_webhooks_that_are_behind_are_counted_when_somebody_looks() -> None:
    """Without the names of owners and hosts, of which there may be any number."""

    class Outbox:
        pending, under_way, unanswered = 3, 2, 1

    metrics = Metrics()
    telemetry = Telemetry(metrics=metrics)
    agent = Agent("Echo")
    agent.on_message(lambda turn: turn.text)
    App(agent, telemetry=telemetry)
    names = ("parley_webhooks_pending", "parley_webhooks_under_way", "parley_webhook_hosts_unanswered")
    assert [scrape(metrics, name) for name in names] == [{(): 0.0}] * 3
    telemetry.watch_deliveries(Outbox())
    Telemetry().watch_deliveries(Outbox())
    assert [scrape(metrics, name) for name in names] == [{(): 3.0}, {(): 2.0}, {(): 1.0}]


def test_ids_never_become_labels() -> None:
    metrics = Metrics()
    telemetry = Telemetry(metrics=metrics)
    with telemetry.call(a_call(task_id="task-4711", context_id="context-4711", address="192.0.2.1")):
        pass
    _, text = metrics.render()
    assert b"task-4711" not in text
    assert b"context-4711" not in text
    assert b"alice" not in text
    assert b"192.0.2.1" not in text


def test_two_servers_in_one_process_share_no_metrics() -> None:
    one, other = Metrics(), Metrics()
    with Telemetry(metrics=one).call(a_call()):
        pass
    assert len(scrape(one, "parley_requests_total")) == 1
    assert scrape(other, "parley_requests_total") == {}
    assert scrape(other, "parley_info") == {(__version__,): 1.0}


@pytest.mark.parametrize(
    ("accept", "content_type", "parse"),
    [
        ("", "text/plain; version=0.0.4; charset=utf-8", parse_text),
        ("text/html, */*", "text/plain; version=0.0.4; charset=utf-8", parse_text),
        (
            "application/openmetrics-text; version=1.0.0",
            "application/openmetrics-text; version=1.0.0",
            parse_openmetrics,
        ),
    ],
)
def test_a_scraper_gets_the_format_it_asks_for(accept: str, content_type: str, parse: Any) -> None:
    found, text = Metrics().render(accept)
    assert found.startswith(content_type)
    assert "parley_runs_working" in {family.name for family in parse(text.decode())}
