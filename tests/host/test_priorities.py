"""Priorities of requests: they order the requests of one tenant, and mean nothing to the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from parley.host.fair_gate import FairGate, TurnOrder
from parley.host.host import AppOptions
from parley.host.models.model import ModelRequest
from parley.host.priorities import LEVELS, turn_time
from parley.protocol.extensions import PRIORITY
from parley.testing.crashing_store import CrashingStore
from tests.host.a2a_calls import message, result
from tests.host.api_calls import constitution
from tests.host.function_model import FunctionModel
from tests.host.running_host import RunningHost, running_host
from tests.host.stores import MemoryDatabase, MemoryStore, ProcessDatabase

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class OneAtATime:
    """A model that notes what it was asked, and answers when it may."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may_answer = asyncio.Event()
        self.is_asked = asyncio.Event()

    @property
    def models(self) -> dict[str, Any]:
        return {"parley/router": FunctionModel(self._reply)}

    async def _reply(self, request: ModelRequest) -> AsyncIterator[str]:
        self.asked.append(request.query)
        self.is_asked.set()
        await self.may_answer.wait()
        yield "done"


async def send(running: RunningHost, text: str, tenant: str = "acme", **body: Any) -> str:
    reply = await running.tenants[tenant].client.post("/v1/requests", json={"message": text, **body})
    assert reply.status_code == 202, reply.text
    return reply.json()["request_id"]


async def end_of_all(running: RunningHost, ids: Sequence[str], client: Any = None) -> list[str]:
    client = client or running.acme.client
    return [(await client.get(f"/v1/requests/{id}?wait=10")).json()["request"]["state"] for id in ids]


def order(task_id: str, priority: str, minutes_after_noon: float) -> TurnOrder:
    return TurnOrder(True, turn_time(NOON + timedelta(minutes=minutes_after_noon), LEVELS[priority]), task_id)


async def test_a_gate_takes_turns_between_tenants_and_orders_the_runs_of_each_by_priority_and_age() -> None:
    gate, entered = FairGate(1), list[str]()

    async def enter(tenant: str, turn: TurnOrder) -> None:
        async with gate.entered(tenant, turn):
            entered.append(turn.task_id)

    waiting = [
        ("busy", order("normal", "normal", 0)),
        ("busy", order("low", "low", 0)),
        ("busy", order("high", "high", 2)),  # less than three minutes after a normal one
        ("busy", order("late high", "high", 4)),  # more than that, but less than six after a low one
        ("busy", order("later high", "high", 7)),
        ("calm", order("calm low", "low", 0)),
    ]
    async with gate.entered("busy"):
        runs = [asyncio.create_task(enter(*one)) for one in waiting]
        await asyncio.sleep(0)
        assert gate.queue("busy") == ["high", "normal", "late high", "low", "later high"]
        assert gate.move("busy", order("low", "high", 0))
        assert not gate.move("calm", order("low", "high", 0))
    await asyncio.gather(*runs)
    assert entered == ["low", "calm low", "high", "normal", "late high", "later high"]


async def test_requests_begin_by_their_priority_and_each_tenant_gets_its_turn() -> None:
    model = OneAtATime()
    async with running_host(models=model.models, runs_at_once=1) as running:
        ids = [await send(running, "first")]
        await model.is_asked.wait()
        hasty = constitution("hasty", priority="high")
        bodies: dict[str, dict[str, Any]] = {
            "low": {"priority": "low"},
            "normal": {},
            "own": {"agent_def": hasty},
            "9": {"priority": 9},
        }
        ids += [await send(running, text, **body) for text, body in bodies.items()]
        metadata = {PRIORITY: "low"}
        params = message("a2a low", metadata=metadata) | {"configuration": {"returnImmediately": True}}
        ids.append((await result(running.acme.client, "SendMessage", params))["task"]["id"])
        await send(running, "globex low", tenant="globex", priority="low")
        model.may_answer.set()
        assert await end_of_all(running, ids) == ["completed"] * 6
        assert model.asked == ["first", "9", "globex low", "own", "normal", "low", "a2a low"]


async def test_a_restart_keeps_the_order_and_goes_on_with_what_was_at_work_first() -> None:
    database, first = MemoryDatabase(), OneAtATime()
    async with running_host(
        models=first.models, runs_at_once=1, tenants=("acme",), store=MemoryStore(database)
    ) as running:
        token = running.acme.token
        ids = [await send(running, "at work", priority="low")]
        await first.is_asked.wait()
        for priority in ("low", "normal", "high"):
            ids.append(await send(running, priority, priority=priority))
        moved = await running.acme.client.patch(f"/v1/queue/{ids[1]}", json={"priority": 9})
        assert (moved.status_code, moved.json()["position"]) == (200, 1)
    second = OneAtATime()
    second.may_answer.set()
    async with running_host(models=second.models, runs_at_once=1, tenants=(), store=MemoryStore(database)) as running:
        assert await end_of_all(running, ids, await running.client(token)) == ["completed"] * 4
        assert second.asked == ["at work", "low", "high", "normal"]


async def test_a_crash_while_a_request_waits_does_not_count_as_an_attempt_to_work_on_it() -> None:
    database, token, ids = ProcessDatabase(), "", list[str]()
    for _ in range(4):  # the first time, the work makes progress
        store, model = CrashingStore(MemoryStore(database)), OneAtATime()
        tenants: Sequence[str] = () if token else ("acme",)
        options: AppOptions = {"drain_seconds": 0}
        async with running_host(
            models=model.models, runs_at_once=1, tenants=tenants, store=cast("Any", store), options=options
        ) as running:
            if not token:
                token = running.acme.token
                ids = [await send(running, "at work"), await send(running, "waiting")]
            await model.is_asked.wait()
            assert model.asked == ["at work"]
            store.has_crashed = True
    model = OneAtATime()
    model.may_answer.set()
    async with running_host(models=model.models, runs_at_once=1, tenants=(), store=MemoryStore(database)) as running:
        assert await end_of_all(running, ids, await running.client(token)) == ["failed", "completed"]
        assert model.asked == ["waiting"]
