"""Telemetry as a whole: what an engine and a server tell it, and what becomes of that."""

import asyncio
import json
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from parley import Agent, Turn
from parley.engine.caller import Caller
from parley.engine.limits import Limits
from parley.protocol import operations as ops
from parley.protocol.push import PushConfig
from parley.protocol.requests import CreatePushConfigRequest, DeletePushConfigRequest
from parley.protocol.versions import Version
from parley.server.telemetry import telemetry as telemetry_module
from parley.server.telemetry.audit import AuditTrail
from parley.server.telemetry.metrics import Metrics
from parley.server.telemetry.telemetry import Telemetry
from parley.server.telemetry.tracing import Tracing, current_trace_ids
from parley.stores.interface import Owner, TaskKey
from tests.bounded import bounded
from tests.server.calls import a_call

pytestmark = pytest.mark.anyio

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
ALICE = Caller("alice", "acme", version=Version.V0_3)


def asking() -> Agent:
    agent = Agent("Currency")

    @agent.on_message
    async def convert(turn: Turn) -> str:
        await turn.status("Thinking")
        answer = await turn.ask("To which currency?")
        return f"{turn.text} in {answer.text}"

    return agent


class Gate:
    """An agent whose first run never ends, and whose others do at once."""

    def __init__(self) -> None:
        self.agent = Agent("Gate")
        self.agent.on_message(self.handle)
        self.begun = asyncio.Event()
        self._runs = count(1)

    async def handle(self, turn: Turn) -> str:
        self.begun.set()
        if next(self._runs) == 1:
            await asyncio.Event().wait()
        await turn.status("Once more")
        return "done"


def audited(path: Path, **parts: Any) -> Telemetry:
    telemetry = Telemetry(audit=AuditTrail(path), now=lambda: NEW_YEAR, **parts)
    telemetry.open()
    return telemetry


def lines_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in path.read_text().splitlines()]


def steps_in(path: Path) -> list[tuple[str, str | None, str | None]]:
    return [(line["what"], line.get("from"), line.get("to")) for line in lines_in(path)]


async def test_the_audit_trail_has_the_whole_life_of_a_task(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    telemetry = audited(path, tracing=Tracing(TracerProvider(shutdown_on_exit=False)))
    traces: list[str] = []

    def call(operation: ops.Operation) -> Any:
        return telemetry.call(a_call(operation, ALICE.version, caller=ALICE))

    def note_trace() -> None:
        ids = current_trace_ids()
        assert ids is not None
        traces.append(ids[0])

    async with bounded(asking(), observer=telemetry, caller=ALICE) as client:
        with call(ops.SEND_MESSAGE):
            note_trace()
            task = await client.send("100 USD")
        webhooks = client.agent
        with call(ops.CREATE_PUSH_CONFIG):
            note_trace()
            config = PushConfig("https://hooks.example", id="hook")
            await webhooks.create_push_config(CreatePushConfigRequest(task.id, config), ALICE)
        with call(ops.DELETE_PUSH_CONFIG):
            note_trace()
            await webhooks.delete_push_config(DeletePushConfigRequest(task.id, "hook"), ALICE)
        with call(ops.CANCEL_TASK):
            note_trace()
            await client.cancel(task)
    await telemetry.close()
    lines = lines_in(path)
    sending, *_, registering, deleting, canceling, canceled = [line.pop("trace_id") for line in lines]
    assert [sending, registering, deleting, canceling] == traces
    assert canceled == canceling
    same = {
        "time": "2026-01-01T00:00:00Z",
        "tenant": "acme",
        "caller": "alice",
        "agent": "currency",
        "task": task.id,
        "dialect": "0.3",
    }
    changed = {**same, "context": task.context_id}
    assert lines == [
        {**changed, "what": "created", "to": "submitted"},
        {**changed, "what": "state", "from": "submitted", "to": "working"},
        {**changed, "what": "state", "from": "working", "to": "input-required"},
        {**same, "what": "push-config-created", "config": "hook"},
        {**same, "what": "push-config-deleted", "config": "hook"},
        {**changed, "what": "state", "from": "input-required", "to": "canceled"},
        {**same, "what": "cancel"},
    ]


async def test_a_task_goes_on_in_the_trail_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    gate = Gate()
    telemetry = audited(path)
    async with bounded(gate.agent, observer=telemetry) as client:
        task = await client.start("Go")
        await gate.begun.wait()
        await client.crash()
        await telemetry.close()
        client.observer = telemetry = audited(path)  # that of another process
        await client.restart()
        await client.finished(task)
    await telemetry.close()
    assert steps_in(path) == [
        ("created", None, "submitted"),
        ("state", "submitted", "working"),
        ("state", "working", "completed"),
    ]


async def test_a_task_that_waited_for_its_turn_when_the_process_died_goes_on_from_submitted(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    gate = Gate()
    telemetry = audited(path)
    async with bounded(gate.agent, observer=telemetry, limits=Limits(runs_at_once=1)) as client:
        await client.start("First")
        await gate.begun.wait()
        waiting = await client.start("Second")
        await client.crash()
        await telemetry.close()
        client.observer = telemetry = audited(path)
        await client.restart()
        await client.finished(waiting)
    await telemetry.close()
    steps = [(line["what"], line.get("from"), line["to"]) for line in lines_in(path) if line["task"] == waiting.id]
    assert steps == [
        ("created", None, "submitted"),
        ("state", "submitted", "working"),
        ("state", "working", "completed"),
    ]


async def test_what_a_forgotten_task_changes_from_is_not_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry_module, "STATES_REMEMBERED", 1)
    path = tmp_path / "audit.jsonl"
    telemetry = audited(path)
    async with bounded(asking(), observer=telemetry) as client:
        first = await client.send("100 USD")
        await client.send("200 USD")
        await client.send("EUR", task=first)
    await telemetry.close()
    assert [(line.get("from"), line["to"]) for line in lines_in(path) if line["task"] == first.id][-2:] == [
        (None, "working"),
        ("working", "completed"),
    ]


async def test_the_metrics_say_how_many_audit_lines_are_lost(tmp_path: Path) -> None:
    metrics = Metrics()
    telemetry = Telemetry(metrics=metrics, audit=AuditTrail("/dev/full"))
    telemetry.open()
    async with bounded(asking(), observer=telemetry) as client:
        await client.send("100 USD")
    await telemetry.close()
    _, text = metrics.render()
    assert b"\nparley_audit_lines_lost_total 3.0\n" in text


async def test_telemetry_without_parts_only_passes_by() -> None:
    telemetry = Telemetry()
    observer = telemetry
    telemetry.open()
    async with bounded(asking(), observer=observer) as client:
        with observer.call(a_call()):
            task = await client.send("100 USD")
        await client.cancel(task)
    key = TaskKey(Owner("", ""), task.id)
    observer.delivered(key, "currency", "hook", "failed", 0.0)
    assert telemetry.webhook_headers(key) == {}
    await telemetry.close()
