"""Several processes of one host on one store: what one changes, the others know; quotas and conversations hold for all.

The processes are hosts in one event loop (`replica_hosts`), each with its own memory. Those in real processes are in
`test_cluster_sigkill`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any, cast

import httpx2
import pytest

from parley.engine.clock import SystemClock
from parley.engine.limits import Limits
from parley.host.data.change_notes import ChangedRecords, ChangeNotes, NotedRecords
from parley.host.data.keys import AGENTS, CONVERSATIONS, HOST, STOPS, TENANTS
from parley.host.data.tenant import Quotas
from parley.host.host import AppOptions
from parley.host.models.model import ModelRequest
from parley.protocol.tasks import TaskState
from parley.stores.interface import DeleteRecord, PutRecord, RecordKey, Store, Write
from parley.testing.clock import FakeClock
from parley.testing.crashing_store import CrashingStore
from tests.host.a2a_calls import call, message, result
from tests.host.api_calls import constitution, echo_models, event_named
from tests.host.approving_host import RULE, definition
from tests.host.approving_host import models as writing_models
from tests.host.function_model import FunctionModel
from tests.host.replica_hosts import replica_hosts
from tests.host.running_host import ReadEvent, RunningHost, read_events, running_host
from tests.host.stores import MemoryDatabase, MemoryStore, ProcessDatabase

pytestmark = [pytest.mark.anyio, pytest.mark.deadline(60)]

HINTED = pytest.mark.parametrize("has_hints", [True, False], ids=["hints", "no hints"])


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Ask again until something is so. The host of the test has a time limit."""
    while not await is_so():
        await asyncio.sleep(0.01)


async def say(client: httpx2.AsyncClient, text: str, *, agent: str = "writer", **members: Any) -> dict[str, Any]:
    events = await read_events(client, "POST", f"/v1/agents/{agent}/chat", json={"message": text, **members})
    return event_named(events, "done")


async def begun_stream(client: httpx2.AsyncClient, path: str, text: str) -> asyncio.Task[list[ReadEvent]]:
    """The events of a message, whose stream has begun."""
    has_begun = asyncio.Event()
    reading = asyncio.create_task(read_events(client, "POST", path, json={"message": text}, on_begin=has_begun.set))
    beginning = asyncio.create_task(has_begun.wait())
    await asyncio.wait({reading, beginning}, return_when=asyncio.FIRST_COMPLETED)
    beginning.cancel()
    return reading


# --- what is noted ----------------------------------------------------------------------------------------------------


def put(collection: str, tenant: str, id: str) -> PutRecord:
    return PutRecord(RecordKey(collection, tenant, id), {})


async def test_a_change_is_noted_with_its_collection_and_tenant_and_seen_once() -> None:
    database, clock = MemoryDatabase(), FakeClock()
    here, there = (MemoryStore(database).records for _ in range(2))
    noted, notes = NotedRecords(here, clock, by="here"), ChangeNotes(there, by="there")
    await notes.begin()
    await noted.write(put(AGENTS, "7", "a"), put(AGENTS, "7", "b"), put(STOPS, "8", "a"), put(CONVERSATIONS, "7", "1"))
    assert await notes.look() == [ChangedRecords(AGENTS, "7"), ChangedRecords(STOPS, "8")]
    assert await notes.look() == []
    await noted.write(DeleteRecord(RecordKey(AGENTS, "7", "a")))
    await noted.write(put(TENANTS, HOST, "0000000000000012"))
    assert await notes.look() == [ChangedRecords(AGENTS, "7"), ChangedRecords(TENANTS, "12")]


async def test_a_process_does_not_read_its_own_changes_again_unless_another_one_came_in_between() -> None:
    database, clock = MemoryDatabase(), FakeClock()
    records = MemoryStore(database).records
    here, there = NotedRecords(records, clock, by="here"), NotedRecords(records, clock, by="there")
    notes = ChangeNotes(records, by="here")
    await notes.begin()
    await here.write(put(AGENTS, "7", "a"))
    assert await notes.look() == []
    await there.write(put(AGENTS, "7", "a"))
    await here.write(put(AGENTS, "7", "a"))
    assert await notes.look() == [ChangedRecords(AGENTS, "7")]


async def test_no_change_is_missed_if_many_tenants_change_at_once_and_clocks_differ() -> None:
    database, behind = MemoryDatabase(), FakeClock()
    ahead = FakeClock(behind.now() + timedelta(hours=1))
    records = MemoryStore(database).records
    fast, slow = NotedRecords(records, ahead, by="fast"), NotedRecords(records, behind, by="slow")
    notes = ChangeNotes(records, by="reader")
    await notes.begin()
    for number in range(450):
        await fast.write(put(AGENTS, str(number), "a"))
    assert len(await notes.look()) == 450
    slow.newest_seen = notes.newest
    await slow.write(put(AGENTS, "3", "a"))
    assert await notes.look() == [ChangedRecords(AGENTS, "3")]


# --- changes ----------------------------------------------------------------------------------------------------------


@HINTED
async def test_an_agent_that_one_process_stores_is_called_at_another_at_once(has_hints: bool) -> None:
    async with replica_hosts(models=echo_models(), has_hints=has_hints) as (one, two):
        assert (await one.acme.client.post("/v1/agents", json=constitution())).status_code == 201
        sent = await result(two.acme.client, "SendMessage", message("hello"), agent="writer")
        assert sent["task"]["artifacts"][0]["parts"][0]["text"] == "writer heard hello"
        assert (await say(two.acme.client, "again"))["content"] == "writer heard again"


@HINTED
async def test_changed_pinned_rolled_back_and_deleted_agents_are_followed(has_hints: bool) -> None:
    async with replica_hosts(models=echo_models(), has_hints=has_hints) as (one, two):
        client = one.acme.client
        await client.post("/v1/agents", json=constitution())

        async def goal() -> str:
            found = two.host.catalogue.find(two.acme.id, "writer")
            return "" if found is None or found.stored is None else found.stored.live.goal

        async def becomes(text: str) -> None:
            async def is_so() -> bool:
                return await goal() == text

            await until(is_so)

        await becomes("Does writer work.")
        await client.patch("/v1/agents/writer", json=constitution(goal="Second."))
        await becomes("Second.")
        await client.post("/v1/agents/writer/rollback", json={"version": 1})
        await becomes("Does writer work.")
        await client.post("/v1/agents/writer/pin", json={"version": 2})
        await becomes("Second.")
        await client.delete("/v1/agents/writer")
        await becomes("")
        assert (await two.acme.client.get("/v1/agents/writer")).status_code == 404


@HINTED
async def test_the_work_of_a_deleted_agent_stops_in_every_process(has_hints: bool) -> None:
    async with replica_hosts(models=echo_models(), has_hints=has_hints) as (one, two):
        await one.acme.client.post("/v1/agents", json=constitution())
        waiting = asyncio.create_task(say(two.acme.client, "wait"))
        await until(lambda: _has_runs(two))
        await one.acme.client.delete("/v1/agents/writer")
        assert (await waiting)["error"] == "The agent was deleted."


@HINTED
async def test_the_kill_switch_ends_work_in_every_process_and_resuming_lets_all_go_on(has_hints: bool) -> None:
    async with replica_hosts(3, models=echo_models(), has_hints=has_hints) as hosts:
        one, two, three = hosts
        await one.acme.client.post("/v1/agents", json=constitution())
        waiting = [asyncio.create_task(say(host.acme.client, "wait")) for host in (two, three)]
        for host in (two, three):
            await until(lambda host=host: _has_runs(host))
        await one.acme.client.post("/v1/agents/writer/stop", json={"reason": "It spends too much."})
        for ended in waiting:
            assert (await ended)["error"] == "The agent was stopped: It spends too much."
        for host in hosts:
            assert (await host.acme.client.post("/v1/agents/writer/chat", json={"message": "hi"})).status_code == 409
        await two.acme.client.post("/v1/agents/writer/resume")

        async def works() -> bool:
            return three.host.stop_of(three.acme.id, "writer") is None

        await until(works)
        assert (await say(three.acme.client, "hi"))["ok"] is True


@HINTED
async def test_a_tenant_is_known_everywhere_when_it_is_created_and_stopped_everywhere_when_it_is_disabled(
    has_hints: bool,
) -> None:
    async with replica_hosts(models=echo_models(), has_hints=has_hints) as (one, two):
        created = await one.admin.post("/v1/admin/tenants", json={"name": "globex"})
        client = await two.client(created.json()["token"])
        assert {agent["id"] for agent in (await client.get("/v1/agents")).json()["agents"]} >= {"calculator"}
        assert (await say(client, "hello", agent="index"))["ok"] is True
        waiting = await begun_stream(client, "/v1/agents/index/chat", "wait")
        path = f"/v1/admin/tenants/{created.json()['id']}"
        assert (await two.admin.get(path)).json()["name"] == "globex"
        await one.admin.patch(path, json={"disabled": True})
        assert event_named(await waiting, "done")["error"] == "The tenant was disabled."
        assert (await client.get("/v1/agents")).status_code == 401


@HINTED
async def test_a_token_that_is_revoked_or_replaced_in_one_process_ends_streams_in_the_others(has_hints: bool) -> None:
    ticks = Ticking()
    async with replica_hosts(models=ticks.models, has_hints=has_hints) as (one, two):
        made = (await one.acme.client.post("/v1/access/tokens", json={"name": "ci", "role": "developer"})).json()
        client = await two.client(made["token"])
        streaming = await begun_stream(client, "/v1/orchestrate", "go")
        await one.acme.client.delete(f"/v1/access/tokens/{made['id']}")
        assert "done" not in [event.name for event in await streaming]
        assert (await client.get("/v1/agents")).status_code == 401
        owner = await begun_stream(two.acme.client, "/v1/orchestrate", "go")
        await until(lambda: _has_runs(two, 2))
        await one.admin.post(f"/v1/admin/tenants/{one.acme.id}/rotate-token", json={})
        await owner
        await until(lambda: _is_idle(two))


@HINTED
async def test_budgets_roles_and_public_marks_are_followed(has_hints: bool) -> None:
    async with replica_hosts(models=echo_models(), has_hints=has_hints) as (one, two):
        await one.acme.client.post("/v1/agents", json=constitution())
        await one.acme.client.put("/v1/budgets", json={"tenant": {"day": {"tokens": 5}}})

        async def has_budget() -> bool:
            return two.host.budgets.policies.known(two.acme.id) is not None

        await until(has_budget)
        assert (await two.anonymous.get("/.well-known/ai-catalog.json")).json()["entries"] == []
        await one.acme.client.put("/v1/agents/writer/public", json={"public": True})

        async def is_public() -> bool:
            return len((await two.anonymous.get("/.well-known/ai-catalog.json")).json()["entries"]) == 1

        await until(is_public)


async def test_unknown_names_cost_the_store_few_queries() -> None:
    async with replica_hosts(models=echo_models()) as (one, _):
        looks, notes = 0, one.host.replicas._follower._notes  # pyright: ignore
        look = notes.look

        async def counted() -> Any:
            nonlocal looks
            looks += 1
            return await look()

        notes.look = counted
        assert (await one.acme.client.get("/v1/agents/unknown")).status_code == 404
        assert looks > 0
        looks = 0
        await asyncio.gather(*[one.host.find_program(one.acme.id, f"unknown-{number}") for number in range(60)])
        assert looks <= 10, looks


# --- tasks ------------------------------------------------------------------------------------------------------------


async def test_an_approval_that_is_decided_at_one_process_continues_the_task_of_another() -> None:
    async with replica_hosts(models=writing_models(), runs_at_once=8) as (one, two):
        await one.acme.client.post("/v1/agents", json=definition(approvals=[RULE]))
        events = await read_events(one.acme.client, "POST", "/v1/agents/writer/chat", json={"message": "Note it."})
        request_id = events[0].payload["request_id"]
        (approval,) = (await two.acme.client.get("/v1/approvals")).json()["approvals"]
        decided = await two.acme.client.post(f"/v1/approvals/{approval['id']}", json={"decision": "approve"})
        assert decided.status_code == 200, decided.text

        async def is_done() -> bool:
            events = await read_events(one.acme.client, "GET", f"/v1/requests/{request_id}/events")
            return events[-1].name == "done" and events[-1].payload["ok"]

        await until(is_done)


async def test_a_task_is_read_and_canceled_at_any_process() -> None:
    async with replica_hosts(models=echo_models()) as (one, two):
        started = await one.acme.client.post("/v1/requests", json={"message": "wait"})
        request_id = started.json()["request_id"]
        reading = asyncio.create_task(read_events(two.acme.client, "GET", f"/v1/requests/{request_id}/events"))
        await until(lambda: _has_runs(one))
        reply = await two.acme.client.post(f"/v1/requests/{request_id}/cancel")
        assert reply.json()["cancelled"] is True
        assert (await reading)[-1].payload["ok"] is False


async def test_the_requester_is_known_if_a_process_dies_right_after_the_first_write_of_a_task() -> None:
    """Four eyes compare the requester with the approver. In a shared store its run begins one write later."""
    database = ProcessDatabase()
    store = CrashingStore(MemoryStore(database))
    async with running_host(models=writing_models(), store=cast("Store", store), tenants=("acme",)) as one:
        await one.acme.client.post("/v1/agents", json=definition(approvals=[RULE]))
        body = {"name": "ci", "scopes": ["call", "read"]}
        made = (await one.acme.client.post("/v1/access/tokens", json=body)).json()
        client, tenant_id, token = await one.client(made["token"]), one.acme.id, one.acme.token
        store.decide = lambda write: "after" if isinstance(write, Write) else None
        sending = asyncio.create_task(call(client, "SendMessage", message("Note it."), agent="writer"))
        await store.crashed.wait()
        sending.cancel()
    async with running_host(models=writing_models(), store=MemoryStore(database), tenants=()) as two:
        client = await two.client(token)

        async def waits() -> bool:
            return bool((await client.get("/v1/approvals")).json()["approvals"])

        await until(waits)
        (approval,) = (await client.get("/v1/approvals")).json()["approvals"]
        assert approval["requested_by"] == f"token:{tenant_id}/{made['id']}"


async def test_a_second_decision_is_refused_at_any_process_and_never_taken_as_a_message() -> None:
    async with replica_hosts(models=writing_models(deciding_twice)) as (one, two):
        await one.acme.client.post("/v1/agents", json=definition(approvals=[RULE]))
        task = (await result(one.acme.client, "SendMessage", message("Note it."), agent="writer"))["task"]
        decision = [{"data": {"decision": "approve"}}]
        first = message("", taskId=task["id"], contextId=task["contextId"], parts=decision)
        sending = asyncio.create_task(call(one.acme.client, "SendMessage", first, agent="writer"))
        await until(lambda: _has_runs(one))
        second = message("", taskId=task["id"], contextId=task["contextId"], parts=decision)
        reply = await call(two.acme.client, "SendMessage", second, agent="writer")
        assert "decided already" in reply["error"]["message"], reply
        sending.cancel()


async def deciding_twice(request: ModelRequest) -> AsyncIterator[str]:
    """Writes a note, and is at work for ever afterwards."""
    if not request.results:
        yield "/mem write The note.\n"
        return
    yield "Done."
    await asyncio.Event().wait()


async def test_a_session_of_mcp_is_unknown_to_other_processes_which_makes_clients_begin_another_one() -> None:
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    async with replica_hosts(models=echo_models()) as (one, two):
        begun = await one.acme.client.post("/mcp", json=begin, headers=headers)
        assert begun.status_code == 200, begun.text
        in_session = {**headers, "Mcp-Session-Id": begun.headers["mcp-session-id"]}
        replies = [await host.acme.client.post("/mcp", json=listing, headers=in_session) for host in (one, two)]
        assert [reply.status_code for reply in replies] == [200, 404]


# --- conversations ----------------------------------------------------------------------------------------------------


class Overlapping:
    """A model that notes how many of its calls are at work at once, and what it was asked, in order."""

    def __init__(self) -> None:
        self.at_work = self.most = 0
        self.queries: list[str] = []
        self.go_on = asyncio.Event()

    async def _reply(self, request: ModelRequest) -> AsyncIterator[str]:
        self.at_work += 1
        self.most = max(self.most, self.at_work)
        self.queries.append(request.query)
        try:
            if request.query == "hold":
                await self.go_on.wait()
            await asyncio.sleep(0.01)  # long enough for others to begin, if they may
            yield "said"
        finally:
            self.at_work -= 1

    @property
    def models(self) -> dict[str, Any]:
        return {"parley/router": FunctionModel(self._reply)}


class Ticking:
    """A model that never stops talking."""

    async def _reply(self, request: ModelRequest) -> AsyncIterator[str]:
        while True:
            yield "tick "
            await asyncio.sleep(0.02)

    @property
    def models(self) -> dict[str, Any]:
        return {"parley/router": FunctionModel(self._reply)}


@HINTED
async def test_one_request_of_a_conversation_is_at_work_in_all_processes(has_hints: bool) -> None:
    model = Overlapping()
    async with replica_hosts(3, models=model.models, has_hints=has_hints, seconds=50) as hosts:
        number = (await hosts[0].acme.client.post("/v1/conversations", json={})).json()["id"]
        path = f"/v1/conversations/{number}/messages"
        sends = [
            read_events(host.acme.client, "POST", path, json={"message": f"{n} {index}"})
            for n in range(4)
            for index, host in enumerate(hosts)
        ]
        done = await asyncio.gather(*sends)
        assert [events[-1].payload["ok"] for events in done] == [True] * 12
        assert (model.most, len(model.queries)) == (1, 12)


async def test_a_request_that_waits_looks_again_only_when_its_own_conversation_was_left() -> None:
    """Otherwise each request of a process costs as many queries as requests wait in all others."""
    model, looks = Overlapping(), 0
    options = AppOptions(engine_limits=Limits(poll_seconds=3600))
    async with replica_hosts(models=model.models, options=options, seconds=50) as (one, two):
        turns = two.host.turns.conversations
        look = turns._task_before  # pyright: ignore

        async def counted(*arguments: Any) -> str | None:
            nonlocal looks
            looks += 1
            return await look(*arguments)

        turns._task_before = counted  # pyright: ignore

        async def begin(host: RunningHost, number: int, text: str) -> asyncio.Task[Any]:
            path = f"/v1/conversations/{number}/messages"
            return asyncio.create_task(read_events(host.acme.client, "POST", path, json={"message": text}))

        async def waits() -> bool:
            return any(run.is_queued for run in two.host.engine.runs.all)

        numbers = [(await one.acme.client.post("/v1/conversations", json={})).json()["id"] for _ in range(6)]
        sends = [await begin(one, numbers[0], "hold")]
        await until(lambda: _has_runs(one))
        sends.append(await begin(two, numbers[0], "next"))
        await until(waits)
        for host in (one, two):
            await asyncio.gather(*[await begin(host, number, "other") for number in numbers[1:]])
        assert looks == 1 + len(numbers[1:])
        model.go_on.set()
        assert [(await sent)[-1].payload["ok"] for sent in sends] == [True, True]


class BehindClock(SystemClock):
    """A clock that is a minute behind."""

    def now(self) -> datetime:
        return super().now() - timedelta(minutes=1)


async def test_one_request_is_at_work_also_if_the_clocks_of_processes_differ() -> None:
    """What the process with the wrong clock takes counts as earlier than what is at work already."""
    model = Overlapping()
    async with replica_hosts(models=model.models, seconds=50) as (one, two):
        two.host.engine.clock = BehindClock()
        number = (await one.acme.client.post("/v1/conversations", json={})).json()["id"]
        path = f"/v1/conversations/{number}/messages"
        first = asyncio.create_task(read_events(one.acme.client, "POST", path, json={"message": "hold"}))
        await until(lambda: _has_runs(one))
        second = asyncio.create_task(read_events(two.acme.client, "POST", path, json={"message": "next"}))

        async def waits() -> bool:
            return any(run.is_queued for run in two.host.engine.runs.all) or model.most > 1

        await until(waits)
        model.go_on.set()
        assert [(await sent)[-1].payload["ok"] for sent in (first, second)] == [True, True]
        assert (model.most, model.queries) == (1, ["hold", "next"])


async def test_requests_that_came_to_two_processes_out_of_order_do_not_wait_for_one_another() -> None:
    """In both, the first in line was created after a request that waits behind the other's first in line."""
    model = Overlapping()
    async with replica_hosts(3, models=model.models, seconds=50) as hosts:
        number = (await hosts[0].acme.client.post("/v1/conversations", json={})).json()["id"]
        path = f"/v1/conversations/{number}/messages"
        one, two, busy = hosts

        def begin(host: RunningHost, text: str) -> asyncio.Task[Any]:
            return asyncio.create_task(read_events(host.acme.client, "POST", path, json={"message": text}))

        async def wait_in_line(number: int) -> None:
            async def are_queued() -> bool:
                return all(sum(run.is_queued for run in host.host.engine.runs.all) == number for host in (one, two))

            await until(are_queued)

        sends = [begin(busy, "hold")]
        await until(lambda: _has_runs(busy))
        sends += [begin(one, "third"), begin(two, "fourth")]
        await wait_in_line(1)
        for host, text in ((one, "first"), (two, "second")):
            host.host.engine.clock = BehindClock()
            sends.append(begin(host, text))
        await wait_in_line(2)
        model.go_on.set()
        assert [(await sent)[-1].payload["ok"] for sent in sends] == [True] * 5
        assert (model.most, set(model.queries[1:3])) == (1, {"first", "second"})


async def test_messages_to_several_processes_are_answered_in_the_order_in_which_they_were_taken() -> None:
    model = Overlapping()
    async with replica_hosts(models=model.models, seconds=50) as hosts:
        number = (await hosts[0].acme.client.post("/v1/conversations", json={})).json()["id"]
        for index in range(10):
            client, path = hosts[index % 2].acme.client, f"/v1/conversations/{number}/messages"
            await read_events(client, "POST", path, json={"message": str(index)}, until="request_received")

        async def all_done() -> bool:
            return len(model.queries) == 10

        await until(all_done)
        assert model.queries == [str(index) for index in range(10)]


@HINTED
async def test_a_message_that_is_not_to_wait_is_refused_while_another_process_works_in_its_conversation(
    has_hints: bool,
) -> None:
    async with replica_hosts(models=echo_models(), has_hints=has_hints) as (one, two):
        sending = asyncio.create_task(
            call(one.acme.client, "SendMessage", message("wait", contextId="ours"), agent="index")
        )
        await until(lambda: _has_runs(one))
        refusing = message("hi", contextId="ours", metadata={"urn:parley:when-busy:1": "refuse"})
        reply = await call(two.acme.client, "SendMessage", refusing, agent="index")
        assert "is at work" in reply["error"]["message"], reply
        elsewhere = message("hi", contextId="other", metadata={"urn:parley:when-busy:1": "refuse"})
        assert "result" in await call(two.acme.client, "SendMessage", elsewhere, agent="index")
        sending.cancel()


@HINTED
async def test_a_message_that_interrupts_cancels_the_work_of_another_process_and_says_so(has_hints: bool) -> None:
    async with replica_hosts(models=echo_models(), has_hints=has_hints) as (one, two):
        number = (await one.acme.client.post("/v1/conversations", json={})).json()["id"]
        path = f"/v1/conversations/{number}/messages"
        first = asyncio.create_task(read_events(one.acme.client, "POST", path, json={"message": "wait"}))
        await until(lambda: _has_runs(one))
        second = await read_events(two.acme.client, "POST", path, json={"message": "hi", "when_busy": "interrupt"})
        assert second[-1].payload["content"] == "index heard hi"
        done = (await first)[-1].payload
        assert (done["error"], done["error_code"]) == ("The request was interrupted by a newer message.", "interrupted")


# --- the queue --------------------------------------------------------------------------------------------------------


@HINTED
async def test_the_queue_shows_what_all_processes_have_and_any_of_them_changes_a_priority(has_hints: bool) -> None:
    async with replica_hosts(models=echo_models(), has_hints=has_hints, runs_at_once=1) as (one, two):
        first, second = [
            (await one.acme.client.post("/v1/requests", json={"message": "wait"})).json()["request_id"]
            for _ in range(2)
        ]
        third = (await two.acme.client.post("/v1/requests", json={"message": "wait"})).json()["request_id"]
        for host in (one, two):
            await until(lambda host=host: _has_runs(host))
        for host in (one, two):
            queue = (await host.acme.client.get("/v1/queue")).json()
            assert (queue["running"], queue["waiting"]) == (2, 1)
            assert {entry["request_id"]: entry["state"] for entry in queue["entries"]} == {
                first: "running",
                third: "running",
                second: "waiting",
            }
            assert len({entry["replica"] for entry in queue["entries"]}) == 2
            assert {entry["principal"] for entry in queue["entries"]} == {f"tenant:{one.acme.id}"}
        changed = await two.acme.client.patch(f"/v1/queue/{second}", json={"priority": "high"})
        assert (changed.status_code, changed.json()["level"]) == (200, 8)
        entry = one.host.turns.entry(one.acme.id, second)
        assert entry is not None
        assert entry.priority == 8
        refused = await two.acme.client.patch(f"/v1/queue/{first}", json={"priority": "high"})
        assert refused.status_code == 409
        await counted(one, two)
        everything = (await one.admin.get("/v1/admin/queue")).json()
        assert (everything["waiting"], everything["running"]) == (1, 2)


# --- quotas -----------------------------------------------------------------------------------------------------------


async def counted(*hosts: RunningHost) -> None:
    """Let every process write its counts and read those of the others."""
    counts = [host.host.replicas._counts for host in hosts]  # pyright: ignore
    for count in counts:
        assert count is not None
        await count.write()
    for count in counts:
        assert count is not None
        await count.read()


async def test_concurrent_requests_and_requests_per_minute_hold_for_all_processes() -> None:
    quotas = Quotas(concurrent_requests=2, requests_per_minute=4)
    async with replica_hosts(models=echo_models(), quotas=quotas) as (one, two):
        for host in (one, two):
            host.host.quotas._clock = lambda: 1_000.0  # pyright: ignore[reportPrivateUsage]  # stopped: none refill
        await counted(one, two)
        waiting = [asyncio.create_task(say(host.acme.client, "wait", agent="index")) for host in (one, two)]
        for host in (one, two):
            await until(lambda host=host: _has_runs(host))
        await counted(one, two)
        refused = await two.acme.client.post("/v1/requests", json={"message": "hi"})
        assert (refused.status_code, refused.json()["reason"]) == (429, "concurrent_request_limit")
        for host in (one, two):
            host.host.stop_work(host.acme.id, "Enough.")
        for ended in waiting:
            await ended
        await counted(one, two)
        for host in (one, two):
            assert (await host.acme.client.post("/v1/requests", json={"message": "hi"})).status_code == 202
        await counted(one, two)
        for host in (one, two):
            await until(lambda host=host: _is_idle(host))
        refused = await one.acme.client.post("/v1/requests", json={"message": "hi"})
        assert (refused.status_code, refused.json()["reason"]) == (429, "rate_limit")


async def test_the_tokens_of_a_day_are_those_of_all_processes() -> None:
    async with replica_hosts(models=echo_models(), quotas=Quotas(tokens_per_day=20)) as (one, two):
        for _ in range(2):  # 15 tokens each
            assert (await say(one.acme.client, "hi", agent="index"))["ok"] is True

        async def is_refused() -> bool:
            reply = await two.acme.client.post("/v1/requests", json={"message": "hi"})
            return reply.status_code == 429 and reply.json()["reason"] == "token_limit"

        await until(is_refused)


async def _has_runs(host: RunningHost, number: int = 1) -> bool:
    """Whether so many runs are at work: it is their turn, and all processes can know that, for the store says so."""
    turns, tasks = host.host.turns, host.host.store.tasks
    at_work = [entry for tenant in turns.tenants() for entry in turns.at_work(tenant) if not entry.run.is_closed]
    heads = [await tasks.head(entry.run.key) for entry in at_work]
    return [head.state for head in heads if head is not None] == [TaskState.WORKING] * number


async def _is_idle(host: RunningHost) -> bool:
    return all(run.is_closed for run in host.host.engine.runs.all)
