"""Budgets of a host: who sets them, what they stop, and what callers hear of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

from parley import Agent
from parley.agents.turn import Turn
from parley.host.budget_limits import BUDGET
from parley.host.catalogue import GivenAgent
from parley.host.models.model import ModelError, ModelRequest
from parley.host.models.registry import ModelRegistrySettings
from tests.host.a2a_calls import call, documented_message, path_of, request, result
from tests.host.api_calls import constitution, event_named
from tests.host.function_model import USAGE, FunctionModel
from tests.host.running_host import HostTenant, ReadEvent, RunningHost, read_events, running_host
from tests.host.stores import MemoryDatabase, MemoryStore, ProcessStore
from tests.suspending import suspending

pytestmark = pytest.mark.anyio

CALL_TOKENS = USAGE.input_tokens + USAGE.output_tokens
PAID = "test/paid"


@pytest.fixture
def prices(tmp_path: Path) -> ModelRegistrySettings:
    """A cent for each token of the model `test/paid`."""
    file = tmp_path / "prices.toml"
    file.write_text(f'["{PAID}"]\ninput = 10000\noutput = 10000\n')
    return ModelRegistrySettings(prices_file=file)


async def set_budgets(running: RunningHost, **budgets: Any) -> None:
    reply = await running.admin.put(f"/v1/admin/tenants/{running.acme.id}/budgets", json=budgets)
    assert reply.status_code == 200, reply.text


async def add_agent(tenant: HostTenant, agent_id: str = "writer", **members: Any) -> None:
    reply = await tenant.client.post("/v1/agents", json=constitution(agent_id, **{"model": PAID, **members}))
    assert reply.status_code == 201, reply.text


async def chat(tenant: HostTenant, agent_id: str = "writer", text: str = "go", **body: Any) -> list[ReadEvent]:
    path = f"/v1/agents/{agent_id}/chat"
    return await read_events(tenant.client, "POST", path, json={"message": text, **body})


async def spent(tenant: HostTenant) -> list[tuple[str, str, int, int]]:
    """Scope, period, spent and reserved tokens of each budget."""
    budgets = (await tenant.client.get("/v1/budgets")).json()["budgets"]
    return [
        (one["agent"] or one["scope"], one["period"], one["spent"]["tokens"], one["reserved"]["tokens"])
        for one in budgets
    ]


async def hello(request: ModelRequest) -> AsyncIterator[str]:
    yield "hello"


def bound_of(running: RunningHost, model: FunctionModel) -> int:
    """What the last call of a model could have taken."""
    return running.host.budgets.estimate(PAID, model.requests[-1]).tokens


# --- setting them -----------------------------------------------------------------------------------------------------


async def test_operator_and_tenant_set_budgets_and_the_lowest_holds() -> None:
    async with running_host() as running:
        acme, path = running.acme.client, f"/v1/admin/tenants/{running.acme.id}/budgets"
        assert (await acme.get("/v1/budgets")).json()["budgets"] == []
        await set_budgets(running, tenant={"day": {"tokens": 1000, "cost": "2.50"}}, request={"tokens": 500})
        own = {"tenant": {"day": {"cost": 2}}, "agents": {"writer": {"month": {"tokens": 9}}}, "request": {"cost": "1"}}
        shown = (await acme.put("/v1/budgets", json={**own, "revision": 1})).json()
        assert (shown["currency"], shown["revision"]) == ("USD", 2)
        assert shown["request"] == {"tokens": 500, "cost": "1"}
        day, month = shown["budgets"]
        assert day | {"ends_at": ""} == {
            "scope": "tenant",
            "agent": None,
            "period": "day",
            "limit": {"tokens": 1000, "cost": "2"},
            "spent": {"tokens": 0, "cost": "0"},
            "reserved": {"tokens": 0, "cost": "0"},
            "left": {"tokens": 1000, "cost": "2"},
            "ends_at": "",
        }
        assert (month["agent"], month["left"], month["ends_at"][-10:]) == (
            "writer",
            {"tokens": 9, "cost": None},
            "T00:00:00Z",
        )
        assert (await running.admin.get(path)).json() == shown
        assert (await running.globex.client.get("/v1/budgets")).json()["budgets"] == []
        entries = (await running.admin.get("/v1/admin/audit")).json()["entries"]
        audited = [one for one in entries if one["action"] == "set_budgets"]
        assert [(one["actor"], one["target_id"]) for one in audited] == [
            ("tenant:1", "1/budgets"),
            ("admin", "1/budgets"),
        ]
        assert audited[0]["after"]["budgets"]["request"] == {"cost": "1"}


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ({"tenant": {"day": {"tokens": 1001}}}, 400, "$.tenant.day.tokens: must not be above the operator's 1000"),
        ({"tenant": {"day": {"cost": "2.51"}}}, 400, "$.tenant.day.cost: must not be above the operator's 2.5"),
        ({"tenant": {"week": {"tokens": 1}}}, 400, "$.tenant: "),
        ({"tenant": {"day": {}}}, 400, "$.tenant.day: must have tokens, cost or both"),
        ({"tenant": {"day": {"tokens": -1}}}, 400, "$.tenant.day.tokens: "),
        ({"tenant": {"day": {"tokens": 1, "euro": 1}}}, 400, "$.tenant.day: "),
        ({"request": {"cost": "1e99"}}, 400, "$.request: cost must be from 0"),
        ({"agents": {"no agent": {}}}, 400, "$.agents"),
        ({"request": {"tokens": 1}, "revision": 7}, 409, "the budgets have changed since revision 7"),
    ],
)
async def test_a_budget_that_is_not_valid_is_refused_and_changes_nothing(
    body: dict[str, Any], status: int, error: str
) -> None:
    async with running_host() as running:
        await set_budgets(running, tenant={"day": {"tokens": 1000, "cost": "2.5"}})
        before = (await running.acme.client.get("/v1/budgets")).json()
        reply = await running.acme.client.put("/v1/budgets", json=body)
        assert (reply.status_code, reply.json()["error"][: len(error)]) == (status, error)
        assert (await running.acme.client.get("/v1/budgets")).json() == before


# --- what they stop ---------------------------------------------------------------------------------------------------


async def test_a_call_that_would_break_a_budget_is_not_made_and_the_task_says_why(
    prices: ModelRegistrySettings,
) -> None:
    model = FunctionModel(hello)
    async with running_host(models={PAID: model}, model_settings=prices) as running:
        await add_agent(running.acme, max_tokens=100)
        await chat(running.acme)
        bound = bound_of(running, model)
        limit = Decimal(bound + CALL_TOKENS) / 100
        await set_budgets(running, tenant={"day": {"cost": str(limit)}})
        assert event_named(await chat(running.acme), "done")["ok"]
        done = event_named(await chat(running.acme), "done")
        assert (done["error_code"], len(model.requests)) == ("budget_exceeded", 2)
        text = f"The budget of the tenant for a day stops the model call: limit {limit} USD, spent 0.3, reserved 0, "
        assert done["error"].startswith(f"{text}needed up to {Decimal(bound) / 100}. It renews at 20")
        task = await result(running.acme.client, "message/send", documented_message("go"), agent="writer")
        assert (task["status"]["state"], task["metadata"]["x-arbiter.error_type"]) == ("failed", "budget_exceeded")
        assert await spent(running.acme) == [("tenant", "day", 2 * CALL_TOKENS, 0)]
        metrics = (await running.anonymous.get("/v1/metrics")).text
        assert 'arbiter_budget_stops_total{scope="tenant",tenant="1"} 2.0' in metrics
        assert 'arbiter_tokens_total{kind="input",tenant="1"} 20.0' in metrics
        assert 'arbiter_cost_total{currency="USD",tenant="1"} 0.3' in metrics


async def test_a_request_is_refused_when_its_budget_is_used_up_on_every_surface() -> None:
    async with running_host(models={PAID: FunctionModel(hello)}) as running:
        await add_agent(running.acme)
        await add_agent(running.acme, "other", model=PAID)
        await set_budgets(running, agents={"writer": {"total": {"tokens": 0}}})
        reply = await running.acme.client.post("/v1/agents/writer/chat", json={"message": "go"})
        assert (reply.status_code, reply.headers["retry-after"]) == (429, "3600")
        assert reply.json() == {
            "error": "The budget of the agent 'writer' in total is used up: 0 of 0 tokens. It does not renew.",
            "reason": "budget",
            "retry_after_seconds": 3600,
        }
        over_rpc = await running.acme.client.post(
            path_of("writer"), json=request("message/send", documented_message("go"))
        )
        assert (over_rpc.status_code, "is used up" in over_rpc.text) == (429, True)
        assert event_named(await chat(running.acme, "other"), "done")["ok"]
        metrics = (await running.anonymous.get("/v1/metrics")).text
        assert 'arbiter_rate_limited_total{reason="budget",tenant="1"} 1.0' in metrics


async def test_fifty_runs_at_once_make_no_more_calls_than_the_budget_allows() -> None:
    stopped, may_answer = 0, asyncio.Event()

    async def wait(request: ModelRequest) -> AsyncIterator[str]:
        if request.query == "go":
            await may_answer.wait()
        yield "hello"

    model = FunctionModel(wait)
    async with running_host(models={PAID: model}) as running:
        await add_agent(running.acme)
        await chat(running.acme, text="at")
        limit = 10 * bound_of(running, model) + CALL_TOKENS
        await set_budgets(running, tenant={"month": {"tokens": limit}})

        async def run() -> dict[str, Any]:
            nonlocal stopped
            done = event_named(await chat(running.acme), "done")
            stopped += not done["ok"]
            if stopped == 40:
                may_answer.set()
            return done

        ends = await asyncio.gather(*[run() for _ in range(50)])
        assert sorted([end.get("error_code", "") for end in ends]) == [""] * 10 + ["budget_exceeded"] * 40
        assert len(model.requests) == 11
        assert await spent(running.acme) == [("tenant", "month", 11 * CALL_TOKENS, 0)]


async def test_two_hosts_on_one_store_cannot_exceed_a_budget_together() -> None:
    database, model = MemoryDatabase(), FunctionModel(hello)
    async with running_host(store=MemoryStore(database), models={PAID: model}) as here:
        await add_agent(here.acme, max_tokens=10)
        await chat(here.acme)
        await set_budgets(here, tenant={"total": {"tokens": bound_of(here, model) + 3 * CALL_TOKENS}})
        async with running_host(store=MemoryStore(database), models={PAID: model}, tenants=()) as there:
            clients = [here.acme.client, await there.client(here.acme.token)] * 10
            chats = [
                read_events(client, "POST", "/v1/agents/writer/chat", json={"message": "go"}) for client in clients
            ]
            ends = [event_named(events, "done") for events in await asyncio.gather(*chats)]
        calls = 1 + sum(end["ok"] for end in ends)
        assert calls == len(model.requests) < 5
        assert await spent(here.acme) == [("tenant", "total", calls * CALL_TOKENS, 0)]


async def test_an_answer_is_shortened_to_what_a_budget_has_left_and_readers_are_told() -> None:
    model = FunctionModel(hello)
    async with running_host(models={PAID: model}) as running:
        await add_agent(running.acme, max_tokens=5_000)
        await chat(running.acme)
        events = await chat(running.acme, budget={"tokens": bound_of(running, model) - 4_000})
        assert event_named(events, "done")["ok"]
        assert event_named(events, "budget") == {"agent": "writer", "stream_id": 0, "max_tokens": 1_000}
        assert [one.max_tokens for one in model.requests] == [5_000, 1_000]


async def test_the_gate_of_an_advisor_is_a_model_call_like_any_other() -> None:
    async def answer(request: ModelRequest) -> AsyncIterator[str]:
        yield "CONTINUE" if request.agent_id.endswith("-advisor") else "hello"

    model = FunctionModel(answer)
    async with running_host(models={PAID: model}) as running:
        await add_agent(running.acme, max_tokens=10, advisor={"model": PAID, "mode": "gate", "prompt": "x" * 9_000})
        assert event_named(await chat(running.acme), "done")["ok"]
        gate = bound_of(running, model)
        done = event_named(await chat(running.acme, budget={"tokens": gate}), "done")
        assert (done["error_code"], len(model.requests)) == ("budget_exceeded", 3)
        assert event_named(await chat(running.acme, budget={"tokens": gate + CALL_TOKENS}), "done")["ok"]


@pytest.mark.parametrize(("says", "charged"), [("", False), ("half an ans", True)])
async def test_a_call_that_failed_is_charged_only_if_the_provider_had_begun_to_answer(says: str, charged: bool) -> None:
    async def fail(request: ModelRequest) -> AsyncIterator[str]:
        if says:
            yield says
        raise ModelError("the provider failed")

    model = FunctionModel(fail)
    async with running_host(models={PAID: model}) as running:
        await add_agent(running.acme)
        await set_budgets(running, tenant={"day": {"tokens": 100_000}})
        assert event_named(await chat(running.acme), "done")["error_code"] == "provider_error"
        assert await spent(running.acme) == [("tenant", "day", bound_of(running, model) if charged else 0, 0)]


# --- requests ---------------------------------------------------------------------------------------------------------


async def test_a_request_that_is_canceled_at_any_moment_leaves_nothing_reserved() -> None:
    store = suspending(ProcessStore(), Random(7))
    async with running_host(models={PAID: FunctionModel(hello)}, store=store, tenants=("acme",)) as running:
        acme = running.acme
        await add_agent(acme)
        await set_budgets(running, tenant={"total": {"tokens": 10**9}})
        for turns in range(0, 120, 2):
            begun = await acme.client.post("/v1/requests", json={"message": "go", "agent": "writer"})
            for _ in range(turns):
                await asyncio.sleep(0)
            await acme.client.post(f"/v1/requests/{begun.json()['request_id']}/cancel")
        while (await spent(acme))[0][3] or running.host.engine.runs.all:
            await asyncio.sleep(0)


async def test_the_budget_of_a_request_holds_for_the_whole_tree_and_a_stopped_sub_agent_is_an_error_result() -> None:
    """Also below an agent of Python, which knows nothing of budgets."""

    async def delegate(request: ModelRequest) -> AsyncIterator[str]:
        if request.agent_id == "leaf":
            yield "leaf"
        elif request.results:
            yield request.results[0].body
        else:
            yield f"/agent {request.query} go\n"

    middle = Agent("Middle", description="Passes on.", id="middle")

    @middle.on_message
    async def pass_on(turn: Turn) -> str:
        return (await turn.delegate("leaf", "go")).text

    model = FunctionModel(delegate)
    async with running_host(models={PAID: model}, given_agents=(GivenAgent(middle),)) as running:
        await add_agent(running.acme, max_tokens=10, capabilities=["/agent"])
        await add_agent(running.acme, "leaf", max_tokens=10)
        for below in ("leaf", "middle"):
            model.requests.clear()
            done = event_named(await chat(running.acme, text=below), "done")
            assert (done["content"], len(model.requests)) == ("leaf", 3)
            bounds = [running.host.budgets.estimate(PAID, one).tokens for one in model.requests]
            enough = max(bounds[0], bounds[1] + CALL_TOKENS, bounds[2] + 2 * CALL_TOKENS)
            assert event_named(await chat(running.acme, text=below, budget={"tokens": enough}), "done")["ok"]
            before = len(model.requests)
            done = event_named(await chat(running.acme, text=below, budget={"tokens": bounds[0]}), "done")
            assert done["error_code"] == "budget_exceeded"
            stopped_at = 2 if bounds[1] + CALL_TOKENS <= bounds[0] else 1
            assert len(model.requests) - before == stopped_at


async def test_a_constitution_bounds_its_own_part_of_a_request() -> None:
    async def delegate(request: ModelRequest) -> AsyncIterator[str]:
        yield (
            "leaf" if request.agent_id == "leaf" else request.results[0].body if request.results else "/agent leaf go\n"
        )

    async with running_host(models={PAID: FunctionModel(delegate)}) as running:
        await add_agent(running.acme, capabilities=["/agent"])
        await add_agent(running.acme, "leaf", budget={"tokens": 3})
        shown = (await running.acme.client.get("/v1/agents/leaf")).json()
        assert shown["budget"] == {"tokens": 3}
        done = event_named(await chat(running.acme), "done")
        assert done["ok"]
        assert done["content"].startswith("The budget of the request stops the model call: limit 3 tokens, spent 0,")
        assert event_named(await chat(running.acme, "leaf"), "done")["error_code"] == "budget_exceeded"


async def test_a_message_over_a2a_sets_the_budget_of_its_task() -> None:
    async with running_host(models={PAID: FunctionModel(hello)}) as running:
        acme = running.acme.client
        await add_agent(running.acme)
        params = documented_message("go", metadata={BUDGET: {"tokens": 3}})
        task = await result(acme, "message/send", params, agent="writer")
        assert task["metadata"]["x-arbiter.error_type"] == "budget_exceeded"
        wrong: list[tuple[Any, str]] = [({"tokens": "x"}, ".tokens"), (3, ""), ({"cost": "NaN"}, "")]
        for budget, path in wrong:
            refused = await call(
                acme, "message/send", documented_message("go", metadata={BUDGET: budget}), agent="writer"
            )
            assert refused["error"]["code"] == -32602
            assert f"metadata['{BUDGET}']{path}" in str(refused["error"])
        later = documented_message("go", metadata={BUDGET: {"tokens": 3}}, taskId=task["id"])
        refused = await call(acme, "message/send", later, agent="writer")
        assert "Only the first message of a task" in str(refused["error"])


# --- whose call it is -------------------------------------------------------------------------------------------------


async def test_calls_are_counted_for_the_principal_that_began_the_request_also_after_a_restart() -> None:
    database, asked_again = MemoryDatabase(), asyncio.Event()

    async def delegate(request: ModelRequest) -> AsyncIterator[str]:
        if request.agent_id == "leaf":
            yield "leaf"
            await asked_again.wait()
        else:
            yield request.results[0].body if request.results else "/agent leaf go\n"

    middle = Agent("Middle", description="Passes on.", id="middle")

    @middle.on_message
    async def pass_on(turn: Turn) -> str:
        return (await turn.delegate("writer", "go")).text

    options: dict[str, Any] = {"models": {PAID: FunctionModel(delegate)}, "given_agents": (GivenAgent(middle),)}
    async with running_host(store=MemoryStore(database), **options) as running:
        acme, tenant_id = running.acme, running.acme.id
        await add_agent(acme, capabilities=["/agent"])
        await add_agent(acme, "leaf")
        made = (await acme.client.post("/v1/access/tokens", json={"name": "ci", "role": "caller"})).json()
        client = await running.client(made["token"])
        params = documented_message("go") | {"configuration": {"blocking": False}}
        task = await result(client, "message/send", params, agent="middle")
        while not any(
            run.program.id.endswith("leaf") and run.journal.number_emitted for run in running.host.engine.runs.all
        ):
            await asyncio.sleep(0)
        token = made["token"]
    asked_again.set()
    async with running_host(store=MemoryStore(database), tenants=(), **options) as running:
        client = await running.client(token)
        await read_events(client, "GET", f"/v1/requests/{task['id']}/events")
        report = (await client.get("/v1/usage?group_by=caller,agent")).json()
        callers = {(row["caller"], row["agent"]): row["calls"] for row in report["rows"]}
        principal = next(iter(callers))[0]
        assert principal.startswith(f"token:{tenant_id}/")
        assert callers == {(principal, "leaf"): 1, (principal, "writer"): 2}
