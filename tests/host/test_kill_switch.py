"""The kill switch: what is stopped ends at once and says why, takes no messages, and stays stopped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from parley import Agent
from parley.agents.turn import Turn
from parley.engine.clock import SystemClock
from parley.engine.limits import Limits
from parley.host.catalogue import GivenAgent
from parley.host.data.change_notes import NotedRecords
from parley.host.data.stops import Stops
from parley.host.data.tenant import TenantSettings
from parley.host.host import AppOptions
from parley.host.models.model import ModelRequest
from parley.testing.crashing_store import CrashingStore
from tests.host.a2a_calls import call, documented_message, message, path_of, result, streamed
from tests.host.api_calls import constitution, event_named
from tests.host.frame_reader import open_stream
from tests.host.function_model import FunctionModel
from tests.host.running_host import read_events, running_host
from tests.host.stores import MemoryDatabase, MemoryStore, ProcessDatabase

pytestmark = pytest.mark.anyio

WHY = {"reason": "It spends too much."}
TEXT = "The agent was stopped: It spends too much."


class Hanging:
    """A model that says something and then hangs when the query is `wait`, and counts how often it was cut off."""

    def __init__(self) -> None:
        self.cut_off = 0
        self.model = FunctionModel(self._reply)

    async def _reply(self, request: ModelRequest) -> AsyncIterator[str]:
        yield f"{request.agent_id} began."
        try:
            if "wait" in request.query:
                await asyncio.Event().wait()
        finally:
            self.cut_off += "wait" in request.query

    @property
    def models(self) -> dict[str, Any]:
        return {"parley/router": self.model}


async def add(client: httpx2.AsyncClient, *agents: str) -> None:
    for agent_id in agents:
        assert (await client.post("/v1/agents", json=constitution(agent_id))).status_code == 201


async def stop(client: httpx2.AsyncClient, agent_id: str = "writer") -> None:
    reply = await client.post(f"/v1/agents/{agent_id}/stop", json=WHY)
    assert (reply.status_code, reply.json()["stopped"]["reason"]) == (200, WHY["reason"])


async def begin(client: httpx2.AsyncClient, agent_id: str = "writer", *, until: str = "text") -> str:
    """A request that does not end by itself."""
    path = f"/v1/agents/{agent_id}/chat"
    events = await read_events(client, "POST", path, json={"message": "wait"}, until=until)
    return event_named(events, "request_received")["request_id"]


async def end_of(client: httpx2.AsyncClient, request_id: str) -> dict[str, Any]:
    return event_named(await read_events(client, "GET", f"/v1/requests/{request_id}/events"), "done")


# --- work that is stopped ---------------------------------------------------------------------------------------------


async def test_readers_and_senders_of_every_dialect_hear_why_a_hanging_run_ends() -> None:
    hanging = Hanging()
    async with running_host(models=hanging.models, tenants=("acme",)) as running:
        client = running.acme.client
        await add(client, "writer")
        sends = [
            asyncio.create_task(result(client, "message/send", documented_message("wait"), agent="writer")),
            asyncio.create_task(result(client, "SendMessage", message("wait"), agent="writer")),
        ]
        async with (
            open_stream(client, "message/stream", documented_message("wait"), agent="writer") as old,
            open_stream(client, "SendStreamingMessage", message("wait"), agent="writer") as new,
        ):
            await old.take(2)
            await new.take(2)
            native = asyncio.create_task(read_events(client, "GET", f"/v1/requests/{await begin(client)}/events"))
            while len(hanging.model.requests) < 5:
                await asyncio.sleep(0)
            await stop(client)
            last = (await old.rest())[-1].result
            assert (last["kind"], last["final"], last["status"]["state"]) == ("status-update", True, "canceled")
            assert last["status"]["message"]["parts"][0]["text"] == TEXT
            assert last["metadata"]["x-arbiter.error_type"] == "stopped"
            assert last["metadata"]["x-arbiter.stopped_by"] == "tenant:1"
            update = (await new.rest())[-1].result["statusUpdate"]
            assert update["status"]["state"] == "TASK_STATE_CANCELED"
            assert update["status"]["message"]["parts"][0]["text"] == TEXT
        done = event_named(await native, "done")
        assert (done["ok"], done["error"], done["error_code"]) == (False, TEXT, "stopped")
        blocked, real = [await sent for sent in sends]
        assert (blocked["status"]["state"], real["task"]["status"]["state"]) == ("canceled", "TASK_STATE_CANCELED")
        assert blocked["metadata"]["x-arbiter.agent_version"] == 1
        assert (hanging.cut_off, running.host.engine.runs.all) == (5, ())


async def test_a_handler_that_ignores_its_cancellation_holds_nothing_up() -> None:
    agent, begun, over = Agent("Mule", id="mule", description="Is stubborn."), asyncio.Event(), asyncio.Event()

    @agent.on_message
    async def work(turn: Turn) -> str:
        begun.set()
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                continue
        return "done"

    options: AppOptions = {"engine_limits": Limits(cancel_seconds=60)}  # longer than the test may take
    async with running_host(tenants=("acme",), given_agents=(GivenAgent(agent),), options=options) as running:
        client = running.acme.client
        sent = asyncio.create_task(result(client, "message/send", documented_message("go"), agent="mule"))
        await begun.wait()
        await stop(client, "mule")
        assert (await sent)["status"]["message"]["parts"][0]["text"] == TEXT
        over.set()


async def test_a_run_that_waits_for_its_turn_is_stopped_and_others_go_on() -> None:
    hanging = Hanging()
    async with running_host(models=hanging.models, tenants=("acme",), runs_at_once=1) as running:
        client = running.acme.client
        await add(client, "writer", "reader")
        working = await begin(client, "reader")
        waiting = await begin(client, until="request_received")
        await stop(client)
        assert (await end_of(client, waiting))["error"] == TEXT
        assert [one.agent_id for one in hanging.model.requests] == ["reader"]
        (run,) = running.host.engine.runs.all
        assert run.key.task_id == working


async def test_what_a_stopped_agent_has_delegated_ends_with_it() -> None:
    begun = asyncio.Event()

    async def works(request: ModelRequest) -> AsyncIterator[str]:
        if request.agent_id == "boss":
            yield "/agent writer go\n"
        else:
            begun.set()
            await asyncio.Event().wait()

    async with running_host(models={"parley/router": FunctionModel(works)}, tenants=("acme",)) as running:
        client = running.acme.client
        await add(client, "writer", "boss")
        request_id = await begin(client, "boss", until="agent_start")
        await begun.wait()
        await stop(client, "boss")
        assert (await end_of(client, request_id))["error"] == TEXT
        while running.host.engine.runs.all:
            await asyncio.sleep(0)
        (child,) = (await client.get(f"/v1/requests/{request_id}/tree")).json()["children"]
        assert (child["agent_id"], child["state"]) == ("writer", "canceled")


async def test_an_agent_whose_sub_agent_is_stopped_is_told_why_and_goes_on() -> None:
    begun, prompts = asyncio.Event(), list[str]()

    async def works(request: ModelRequest) -> AsyncIterator[str]:
        if request.agent_id == "writer":
            begun.set()
            await asyncio.Event().wait()
        elif len(request.results) < 2:
            yield "/agent writer go\n"
        else:
            prompts.extend(result.body for result in request.results)
            yield "I go on alone."

    async with running_host(models={"parley/router": FunctionModel(works)}, tenants=("acme",)) as running:
        client = running.acme.client
        await add(client, "writer", "boss")
        request_id = await begin(client, "boss", until="agent_start")
        await begun.wait()
        await stop(client)
        assert (await end_of(client, request_id))["content"] == "I go on alone."
    assert prompts[0] == TEXT  # its run was stopped
    assert TEXT in prompts[1]  # and the next message was refused


# --- while it is stopped ----------------------------------------------------------------------------------------------


async def test_messages_to_a_stopped_agent_are_refused_in_every_dialect_and_taken_when_it_is_resumed() -> None:
    async with running_host(models=Hanging().models, tenants=("acme",)) as running:
        client = running.acme.client
        await add(client, "writer")
        await stop(client)
        old = (await call(client, "message/send", documented_message("hi"), agent="writer"))["error"]
        assert (old["code"], old["message"], old["data"]["stoppedBy"]) == (-32004, TEXT, "tenant:1")
        new = (await call(client, "SendMessage", message("hi"), agent="writer"))["error"]
        assert (new["code"], new["data"][0]["metadata"]["cause"]) == (-32004, WHY["reason"])
        rest = f"{path_of('writer')}/rest/message:send"
        reply = await client.post(rest, json=message("hi"), headers={"A2A-Version": "1.0"})
        assert (reply.status_code, reply.json()["error"]["status"]) == (400, "FAILED_PRECONDITION")
        native = await client.post("/v1/agents/writer/chat", json={"message": "hi"})
        assert (native.status_code, native.json()["error"]) == (409, TEXT)
        assert (native.json()["error_code"], native.json()["stopped_by"]) == ("stopped", "tenant:1")
        assert "retry-after" not in native.headers
        shown = [agent.get("stopped", {}).get("reason") for agent in (await client.get("/v1/agents")).json()["agents"]]
        assert shown == [None, WHY["reason"]]
        for _ in range(2):
            resumed = await client.post("/v1/agents/writer/resume")
            assert (resumed.status_code, "stopped" in resumed.json()) == (200, False)
        frames = await streamed(client, "message/stream", documented_message("hi"), agent="writer")
        assert frames[-1]["status"]["state"] == "completed"
        entries = (await running.admin.get("/v1/admin/audit")).json()["entries"]
        assert [(entry["action"], entry["actor"]) for entry in entries[:2]] == [
            ("resume_agent", "tenant:1"),
            ("stop_agent", "tenant:1"),
        ]


def asker() -> Agent:
    agent = Agent("Asker", id="asker", description="Asks, or sleeps.")

    @agent.on_message
    async def ask(turn: Turn) -> str:
        if turn.text == "sleep":
            await turn.sleep("1 hour")
        return f"heard {(await turn.ask('What?')).text}"

    return agent


async def test_a_question_waits_for_the_end_of_a_stop() -> None:
    async with running_host(tenants=("acme",), given_agents=(GivenAgent(asker()),)) as running:
        client = running.acme.client
        await running.host.tenants.update(running.acme.id, settings=TenantSettings(input_required=True))
        asked = await result(client, "message/send", documented_message("go"), agent="asker")
        await stop(client, "asker")
        answer = documented_message("tea", taskId=asked["id"])
        assert (await call(client, "message/send", answer, agent="asker"))["error"]["code"] == -32004
        waiting = await result(client, "tasks/get", {"id": asked["id"]}, agent="asker")
        assert waiting["status"]["state"] == "input-required"
        await client.post("/v1/agents/asker/resume")
        answered = await result(client, "message/send", answer, agent="asker")
        assert answered["artifacts"][0]["parts"][0]["text"] == "heard tea"


async def test_a_task_whose_sleep_ends_during_a_stop_wakes_up_afterwards() -> None:
    async with running_host(tenants=("acme",), given_agents=(GivenAgent(asker()),)) as running:
        client, engine = running.acme.client, running.host.engine
        params = {**message("sleep"), "configuration": {"returnImmediately": True}}
        task_id = (await result(client, "SendMessage", params, agent="asker"))["task"]["id"]
        while engine.runs.all:
            await asyncio.sleep(0)
        await stop(client, "asker")
        in_two_hours = engine.clock.now() + timedelta(hours=2)
        await engine.claims.claim_some(in_two_hours)
        assert engine.runs.all == ()
        await client.post("/v1/agents/asker/resume")
        await engine.claims.claim_some(in_two_hours)
        assert [run.key.task_id for run in engine.runs.all] == [task_id]


async def test_a_stop_concerns_the_agent_of_one_tenant_only() -> None:
    greeter = Agent("Greeter", id="greeter", description="Greets.")

    @greeter.on_message
    async def greet(turn: Turn) -> str:
        return f"Hello, {turn.text}"

    async with running_host(models=Hanging().models, given_agents=(GivenAgent(greeter),)) as running:
        acme, globex = running.acme.client, running.globex.client
        for agent_id in ("greeter", "index"):
            await stop(acme, agent_id)
            assert (await call(acme, "message/send", documented_message("hi"), agent=agent_id))["error"][
                "code"
            ] == -32004
            task = await result(globex, "message/send", documented_message("hi"), agent=agent_id)
            assert task["status"]["state"] == "completed"
        assert (await acme.post("/v1/orchestrate", json={"message": "hi"})).status_code == 409
        assert {one["agent_id"] for one in (await acme.get("/v1/stops")).json()["stops"]} == {"greeter", "index"}
        assert (await globex.get("/v1/stops")).json() == {"stopped": False, "stops": []}


async def test_a_tenant_stops_itself_and_cannot_resume_what_the_operator_has_stopped() -> None:
    hanging = Hanging()
    async with running_host(models=hanging.models) as running:
        acme, path = running.acme.client, f"/v1/admin/tenants/{running.acme.id}"
        await add(acme, "writer")
        runs = [await begin(acme, agent_id) for agent_id in ("writer", "index")]
        untouched = await begin(running.globex.client, "index")
        stopped = (await acme.post("/v1/stop", json={"reason": "Lunch."})).json()
        assert (stopped["stopped"], stopped["stops"][0]["target"]) == (True, "tenant")
        for request_id in runs:
            assert (await end_of(acme, request_id))["error"] == "The tenant was stopped: Lunch."
        assert [run.key.task_id for run in running.host.engine.runs.all] == [untouched]
        by_operator = await running.admin.post(f"{path}/stop", json={"reason": "An invoice is open."})
        assert [one["target"] for one in by_operator.json()["stops"]].count("operator") == 1
        assert (await acme.post("/v1/resume")).json()["stopped"] is True
        refused = await acme.post("/v1/agents/writer/chat", json={"message": "hi"})
        assert (refused.status_code, refused.json()["stopped_by"]) == (409, "admin")
        assert (await acme.get("/v1/agents/writer")).json()["stopped"]["target"] == "operator"
        assert (await running.admin.post(f"{path}/resume")).json() == {"stopped": False, "stops": []}
        events = await read_events(acme, "POST", "/v1/agents/writer/chat", json={"message": "hi"})
        assert event_named(events, "done")["ok"] is True


async def test_a_stop_needs_an_agent_a_reason_and_the_scope() -> None:
    async with running_host(tenants=("acme",)) as running:
        client = running.acme.client
        for path, body, status in (
            ("/v1/agents/ghost/stop", WHY, 404),
            ("/v1/agents/@tenant/stop", WHY, 404),
            ("/v1/agents/index/stop", {}, 400),
            ("/v1/agents/index/stop", {"reason": " "}, 400),
            ("/v1/stop", {"reason": "x" * 201}, 400),
        ):
            assert (await client.post(path, json=body)).status_code == status, path
        token = (await client.post("/v1/access/tokens", json={"name": "c", "role": "caller"})).json()["token"]
        caller = await running.client(token)
        assert [(await caller.post(path, json=WHY)).status_code for path in ("/v1/stop", "/v1/resume")] == [403, 403]
        assert (await client.get("/v1/stops")).json() == {"stopped": False, "stops": []}


async def test_a_deleted_agent_leaves_no_stop_behind() -> None:
    async with running_host(models=Hanging().models, tenants=("acme",)) as running:
        client = running.acme.client
        await add(client, "writer")
        await stop(client)
        await client.delete("/v1/agents/writer")
        await add(client, "writer")
        assert "stopped" not in (await client.get("/v1/agents/writer")).json()
        await running.host.stops.refresh()
        assert (await client.get("/v1/stops")).json()["stops"] == []


# --- restarts, crashes and other processes ----------------------------------------------------------------------------


async def stop_in(database: MemoryDatabase, tenant_id: str) -> None:
    """Stop an agent as another process does."""
    await stops_elsewhere(database).stop(tenant_id, "writer", WHY["reason"], actor="ops")


def stops_elsewhere(database: MemoryDatabase) -> Stops:
    """The stops as another process changes them."""
    clock = SystemClock()
    return Stops(NotedRecords(MemoryStore(database).records, clock, by="another"), clock)


async def test_what_was_stopped_when_the_host_crashed_fails_at_the_next_start_and_stays_stopped() -> None:
    database, hanging = MemoryDatabase(), Hanging()
    async with running_host(models=hanging.models, tenants=("acme",), store=MemoryStore(database)) as running:
        await add(running.acme.client, "writer")
        request_id, token, tenant_id = await begin(running.acme.client), running.acme.token, running.acme.id
    await stop_in(database, tenant_id)  # and the host dies before it can end the work
    async with running_host(models=hanging.models, tenants=(), store=MemoryStore(database)) as running:
        client = await running.client(token)
        done = await end_of(client, request_id)
        assert (done["error"], done["error_code"]) == (TEXT, "stopped")
        request = (await client.get(f"/v1/requests/{request_id}")).json()["request"]
        assert (request["state"], len(hanging.model.requests)) == ("failed", 1)
        assert (await client.post("/v1/agents/writer/chat", json={"message": "hi"})).status_code == 409
    async with running_host(models=hanging.models, tenants=(), store=MemoryStore(database)) as running:
        client = await running.client(token)
        assert (await client.get("/v1/agents/writer")).json()["stopped"]["by"] == "ops"
        await client.post("/v1/agents/writer/resume")
        assert (await client.get("/v1/agents/writer")).json().get("stopped") is None


async def test_a_stop_by_another_process_ends_the_work_here() -> None:
    database, hanging = MemoryDatabase(), Hanging()
    async with running_host(models=hanging.models, tenants=("acme",), store=MemoryStore(database)) as running:
        client = running.acme.client
        await add(client, "writer")
        request_id = await begin(client)
        await stop_in(database, running.acme.id)
        assert (await end_of(client, request_id))["error"] == TEXT
        await stops_elsewhere(database).resume(running.acme.id, "writer", actor="ops")
        await running.host.replicas.look_for_missing()
        events = await read_events(client, "POST", "/v1/agents/writer/chat", json={"message": "hi"})
        assert event_named(events, "done")["ok"] is True


@pytest.mark.parametrize("action", ["stop", "resume"])
async def test_a_crash_at_any_write_leaves_a_switch_on_or_off_with_its_entry_in_the_audit(action: str) -> None:
    outcomes: list[tuple[bool, int]] = []
    for number in (1, 2):
        for cut in ("before", "after"):
            database, left = ProcessDatabase(), [number]
            if action == "resume":
                await stop_in(database, "1")
            store = CrashingStore(MemoryStore(database))

            def decide(_: Any, left: list[int] = left, cut: Any = cut) -> Any:
                left[0] -= 1
                return cut if left[0] == 0 else None

            store.decide = decide
            stops: Any = Stops(store.records, SystemClock())  # pyright: ignore[reportArgumentType]
            change = (
                stops.stop("1", "writer", "x", actor="a")
                if action == "stop"
                else stops.resume("1", "writer", actor="a")
            )
            at_work = asyncio.ensure_future(change)
            await store.crashed.wait()
            await asyncio.sleep(0)
            at_work.cancel()
            records = MemoryStore(database).records
            found = Stops(records, SystemClock())
            await found.refresh()
            outcomes.append((found.find("1", "writer") is not None, await records.count("audit", "")))
    before, after = ((False, 0), (True, 1)) if action == "stop" else ((True, 1), (False, 2))
    assert outcomes == [before, before, before, after]
