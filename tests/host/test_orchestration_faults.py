"""What orchestrations keep to when limits are tight, agents change, and hosts stop in the middle."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest
from msgspec import structs

from parley import Agent
from parley.agents.turn import Turn
from parley.engine.clock import SystemClock
from parley.engine.limits import Limits
from parley.host.catalogue import GivenAgent
from parley.host.data.agents import StoredAgents
from parley.host.data.tenant import TenantSettings
from parley.host.host import AppOptions
from parley.host.models.model import ModelRequest
from parley.protocol.messages import RawPart
from parley.server.limits import ServerLimits
from parley.server.security.throttle import RateLimits
from tests.host.a2a_calls import documented_message, result
from tests.host.function_model import FunctionModel
from tests.host.running_host import HostTenant, ReadEvent, read_events, running_host
from tests.host.stores import MemoryDatabase, MemoryStore

pytestmark = pytest.mark.anyio


async def add_agent(tenant: HostTenant, agent_id: str, **fields: Any) -> None:
    definition = {
        "id": agent_id,
        "name": agent_id,
        "role": "worker",
        "goal": "Works.",
        "model": "parley/test",
        **fields,
    }
    reply = await tenant.client.post("/v1/agents", json=definition)
    assert reply.status_code == 201, reply.text


async def chat(tenant: HostTenant, agent_id: str, text: str = "go", *, until: str | None = None) -> list[ReadEvent]:
    path = f"/v1/agents/{agent_id}/chat"
    return await read_events(tenant.client, "POST", path, json={"message": text}, until=until)


def end_of(events: list[ReadEvent]) -> dict[str, Any]:
    return events[-1].payload


async def test_agents_that_call_one_another_in_a_circle_do_not_wait_for_ever() -> None:
    """The runs deep in a chain must not queue behind those that wait for them."""

    async def circle(request: ModelRequest) -> AsyncIterator[str]:
        other = {"a": "b", "b": "a"}[request.agent_id]
        yield "Done." if request.results or "Depth: 2" in request.messages[-1].text else f"/agent {other} go\n"

    limits = Limits(runs_at_once=2)
    models = {"parley/test": FunctionModel(circle)}
    async with running_host(models=models, runs_at_once=2, options={"engine_limits": limits}) as running:
        for tenant in (running.acme, running.globex):
            await add_agent(tenant, "a")
            await add_agent(tenant, "b")
        all_events = await asyncio.gather(*(chat(running.acme, "a") for _ in range(8)), chat(running.globex, "a"))
        assert [end_of(events)["content"] for events in all_events] == ["Done."] * 9


async def test_the_gate_sees_all_text_that_would_be_sent_also_that_beside_commands() -> None:
    checked: list[str] = []

    async def talk(request: ModelRequest) -> AsyncIterator[str]:
        if request.agent_id.endswith("-advisor"):
            checked.append(request.query.partition("ANSWER:\n")[2])
            yield "HALT: secret" if "SECRET" in checked[-1] else "CONTINUE"
        elif request.query == "loop":
            yield "SECRET\n/mem read\n"
        else:
            yield "fine" if request.results else "SECRET\n/mem read\n"

    async with running_host(models={"parley/test": FunctionModel(talk)}, tenants=("acme",)) as running:
        await add_agent(running.acme, "careful", advisor={"model": "parley/test", "mode": "gate"})
        for text, seen in (("once", "SECRET\n\nfine"), ("loop", "\n\n".join(["SECRET"] * 6) + "\n")):
            done = end_of(await chat(running.acme, "careful", text))
            assert (done["error_code"], done["content"], checked[-1]) == ("advisor_halt", "", seen)


async def test_a_long_conversation_is_told_from_its_newest_messages() -> None:
    told: list[int] = []

    async def answer(request: ModelRequest) -> AsyncIterator[str]:
        told.append(sum(len(one.text) for one in request.messages))
        yield "ok"

    async with running_host(models={"parley/router": FunctionModel(answer)}, tenants=("acme",)) as running:
        client = running.acme.client
        conversation = (await client.post("/v1/conversations", json={})).json()["id"]
        path = f"/v1/conversations/{conversation}/messages"
        for text in ("x" * 200_000, "y" * 100_000, "short"):
            events = await read_events(client, "POST", path, json={"message": text})
            assert end_of(events)["content"] == "ok"
        assert told[2] < 110_000  # the second message and not the first


async def test_a_run_that_begins_again_is_the_agent_that_it_began_as() -> None:
    """A file that was delivered stays, although the agent may not write any more."""
    database, asked_again = MemoryDatabase(), asyncio.Event()

    async def save(request: ModelRequest) -> AsyncIterator[str]:
        if not request.results:
            yield "/write a.txt\nhello\n/endwrite\n"
        else:
            yield "Saved."
            await asked_again.wait()

    models = {"parley/test": FunctionModel(save)}
    async with running_host(models=models, tenants=("acme",), store=MemoryStore(database)) as running:
        await add_agent(running.acme, "scribe", capabilities=["/write"])
        (received, *_) = await chat(running.acme, "scribe", until="text")
        token, tenant_id = running.acme.token, running.acme.id
    agents = StoredAgents(MemoryStore(database).records, SystemClock())
    before = (await agents.get(tenant_id, "scribe")).constitution
    await agents.replace(tenant_id, structs.replace(before, capabilities=("/fetch",)))
    asked_again.set()
    async with running_host(models=models, tenants=(), store=MemoryStore(database)) as running:
        client = await running.client(token)
        path = f"/v1/requests/{received.payload['request_id']}/events"
        events = await read_events(client, "GET", path)
    assert [(event.name, event.payload["ok"]) for event in events if event.name == "tool_call"] == [("tool_call", True)]
    assert [event.payload["content"] for event in events if event.name == "file"] == ["hello"]
    assert (end_of(events)["ok"], end_of(events)["content"]) == (True, "Saved.")


def two_texts() -> Agent:
    agent = Agent("Reporter", description="Writes a report and a summary.", id="reporter")

    @agent.on_message
    async def report(turn: Turn) -> AsyncGenerator[Any]:
        await turn.artifact("report").write("long ")
        await turn.artifact("report").write("report")
        yield {"price": 42}
        yield "summary"

    return agent


async def test_texts_of_several_artifacts_are_told_apart_and_data_reaches_the_model() -> None:
    async def ask(request: ModelRequest) -> AsyncIterator[str]:
        yield request.results[0].body if request.results else "/agent reporter go\n"

    models = {"parley/router": FunctionModel(ask)}
    async with running_host(models=models, tenants=("acme",), given_agents=(GivenAgent(two_texts()),)) as running:
        events = await chat(running.acme, "reporter")
        texts = [event.payload for event in events if event.name == "text"]
        assert [(one.get("artifact"), one["delta"]) for one in texts if one["delta"]] == [
            ("report", "long "),
            ("report", "report"),
            (None, "summary"),
        ]
        done = end_of(await read_events(running.acme.client, "POST", "/v1/orchestrate", json={"message": "go"}))
        assert '{"price":42}' in done["content"]


async def test_a_question_in_a_conversation_is_answered_with_both_ids_and_the_stream_goes_on() -> None:
    agent = Agent("Waiter", description="Takes orders.", id="waiter")

    @agent.on_message
    async def order(turn: Turn) -> str:
        return f"One {(await turn.ask('What?')).text}."

    async with running_host(tenants=("acme",), given_agents=(GivenAgent(agent),)) as running:
        client = running.acme.client
        await running.host.tenants.update(running.acme.id, settings=TenantSettings(input_required=True))
        conversation = (await client.post("/v1/conversations", json={"agent_id": "waiter"})).json()["id"]
        path = f"/v1/conversations/{conversation}/messages"
        events = await read_events(client, "POST", path, json={"message": "Hi"})
        assert events[-1].name == "input_required"
        request_id = events[0].payload["request_id"]
        ids = {"taskId": request_id, "contextId": f"urn:parley:conversation:{conversation}"}
        task = await result(client, "message/send", documented_message("tea", **ids), agent="waiter")
        assert task["status"]["state"] == "completed"
        rest = await read_events(client, "GET", f"/v1/requests/{request_id}/events?since_seq={events[-1].id}")
        assert "request_received" not in [event.name for event in rest]
        assert end_of(rest)["content"] == "One tea."


async def test_a_turn_has_a_bound_of_commands_and_agents() -> None:
    async def greedy(request: ModelRequest) -> AsyncIterator[str]:
        if request.agent_id == "helper" or request.results:
            yield "ok"
        else:
            calls = "/agent helper go\n" * 16
            yield f"/parallel\n{calls}/endparallel\n" * 3 + "/mem read\n" * 100 + f"/parallel\n{calls}/endparallel\n"

    models = {"parley/router": FunctionModel(greedy), "parley/test": FunctionModel(greedy)}
    async with running_host(models=models, tenants=("acme",)) as running:
        await add_agent(running.acme, "helper")
        events = await read_events(running.acme.client, "POST", "/v1/orchestrate", json={"message": "go"})
        assert len([event for event in events if event.name == "sub_agent_response"]) == 48
        tools = [event.payload["ok"] for event in events if event.name == "tool_call"]
        assert (tools.count(True), tools.count(False)) == (16, 84)


async def test_a_stream_that_is_one_too_many_begins_no_work() -> None:
    rates = RateLimits(streams=1)
    options: AppOptions = {"limits": ServerLimits(rates=rates)}
    hold = asyncio.Event()

    async def wait(request: ModelRequest) -> AsyncIterator[str]:
        yield "I wait."
        await hold.wait()

    models = {"parley/router": FunctionModel(wait)}
    async with running_host(models=models, tenants=("acme",), options=options) as running:
        client = running.acme.client
        async with client.stream("POST", "/v1/orchestrate", json={"message": "go"}) as first:
            assert first.status_code == 200
            second = await client.post("/v1/orchestrate", json={"message": "go"})
            assert second.status_code == 429
            assert len((await client.get("/v1/requests")).json()["requests"]) == 1
            hold.set()


async def test_files_of_other_agents_get_names_that_are_safe() -> None:
    agent = Agent("Courier", description="Brings files.", id="courier")

    @agent.on_message
    async def bring(turn: Turn) -> AsyncGenerator[Any]:
        for name in ("../../etc/passwd", "a\nb", "notes.md"):
            yield RawPart(b"x", "x\r\ny", name)

    async def ask(request: ModelRequest) -> AsyncIterator[str]:
        yield "Thanks." if request.results else "/agent courier go\n"

    models = {"parley/router": FunctionModel(ask)}
    async with running_host(models=models, tenants=("acme",), given_agents=(GivenAgent(agent),)) as running:
        events = await read_events(running.acme.client, "POST", "/v1/orchestrate", json={"message": "go"})
        assert [event.payload["path"] for event in events if event.name == "file"] == ["file-1", "file-2", "notes.md"]


async def test_a_built_in_model_reads_a_bounded_text_and_fills_no_endless_table() -> None:
    async with running_host(tenants=("acme",), with_starters=True) as running:
        done = end_of(await chat(running.acme, "text", "count words: " + "a " * 50_000))
        assert done["content"].startswith("That is more than I can read")
        table = "make a table of " + "," * 5_000 + "\n" + "a\n" * 5_000
        done = end_of(await chat(running.acme, "drafts", table))
        assert (done["ok"], done["files_bytes"] < 100_000) == (True, True)
        references = "it, " * 400 + "[earlier result: " + "x" * 50_000 + "]"
        assert end_of(await chat(running.acme, "units", references))["ok"] is True
