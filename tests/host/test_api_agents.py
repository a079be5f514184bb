"""Agents over the native API."""

from __future__ import annotations

from typing import Any

import pytest

from parley import Agent
from parley.agents.turn import Turn
from parley.host.catalogue import GivenAgent
from parley.host.data.agents import StoredAgents
from tests.host.api_calls import constitution, echo_models, event_named
from tests.host.running_host import read_events, running_host

pytestmark = pytest.mark.anyio


def greeter() -> GivenAgent:
    agent = Agent("Greeter", id="greeter", description="Greets.")

    @agent.on_message
    async def greet(turn: Turn) -> str:
        return f"Hello, {turn.text}"

    return GivenAgent(agent)


PYTHON_VIEW = {"id": "greeter", "name": "Greeter", "description": "Greets.", "kind": "python"}


async def test_the_list_has_the_master_then_stored_agents_newest_first_then_those_of_python() -> None:
    async with running_host(tenants=("acme",), given_agents=(greeter(),)) as running:
        client = running.acme.client
        for agent_id in ("one", "two"):
            assert (await client.post("/v1/agents", json=constitution(agent_id))).status_code == 201
        reply = (await client.get("/v1/agents")).json()
        assert reply["count"] == 4
        assert [agent["id"] for agent in reply["agents"]] == ["index", "two", "one", "greeter"]
        assert reply["agents"][3] == PYTHON_VIEW
        index = reply["agents"][0]
        assert (index["role"], index["brevity"], "created_at" in index) == ("orchestrator", "lite", False)
        assert (await client.get("/v1/agents/index")).json() == index
        assert (await client.get("/v1/agents/greeter")).json() == PYTHON_VIEW


async def test_a_stored_agent_is_shown_with_all_that_was_sent() -> None:
    sent = constitution(
        temperature=0.7,
        max_tokens=99,
        rules=["Be kind."],
        capabilities=["/fetch"],
        advisor={"model": "parley/text", "mode": "gate"},
        memory={"auto_tag": True},
    )
    async with running_host(tenants=("acme",)) as running:
        client = running.acme.client
        created = await client.post("/v1/agents", json={"agent_def": sent})
        assert created.status_code == 201
        shown = created.json()
        assert {name: shown[name] for name in ("id", "temperature", "max_tokens", "rules", "capabilities")} == {
            name: sent[name] for name in ("id", "temperature", "max_tokens", "rules", "capabilities")
        }
        assert (shown["advisor"]["mode"], shown["advisor_model"]) == ("gate", "parley/text")
        assert shown["memory"]["auto_tag"] is True
        assert shown["created_at"] == shown["updated_at"] > 0
        assert (await client.get("/v1/agents/writer")).json() == shown


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (constitution("index"), "$.id: 'index' is reserved"),
        (constitution("no spaces"), "$.id: must be 1 to 64"),
        ({"id": "x"}, "$.name: is required"),
        (constitution(temperature=9), "$.temperature: "),
        ({"agent_def": constitution(temperature=9)}, "$.agent_def.temperature: "),
        ({"agent_def": "x"}, "$.agent_def: must be an object"),
    ],
)
async def test_a_constitution_that_is_not_valid_is_not_stored(body: Any, error: str) -> None:
    async with running_host(tenants=("acme",)) as running:
        reply = await running.acme.client.post("/v1/agents", json=body)
        assert (reply.status_code, reply.json()["error"][: len(error)]) == (400, error)
        assert (await running.acme.client.get("/v1/agents")).json()["count"] == 1


async def test_a_name_that_is_taken_is_refused_with_the_agent_that_has_it() -> None:
    async with running_host(tenants=("acme",), given_agents=(greeter(),)) as running:
        client = running.acme.client
        first = (await client.post("/v1/agents", json=constitution())).json()
        reply = await client.post("/v1/agents", json=constitution(goal="Another goal."))
        assert reply.status_code == 409
        assert reply.json() == {"error": "agent 'writer' already exists for this tenant", "existing": first}
        reply = await client.post("/v1/agents", json=constitution("greeter"))
        assert reply.status_code == 409
        assert reply.json() == {"error": "agent 'greeter' belongs to the operator", "existing": PYTHON_VIEW}


async def test_a_tenant_has_so_many_agents_and_no_more() -> None:
    async with running_host(tenants=("acme",)) as running:
        running.host.agents = StoredAgents(running.host.store.records, running.host.clock, max_agents=1)
        client = running.acme.client
        assert (await client.post("/v1/agents", json=constitution("one"))).status_code == 201
        assert (await client.post("/v1/agents", json=constitution("two"))).status_code == 409


async def test_patch_replaces_the_whole_constitution_and_the_agent_follows() -> None:
    async with running_host(models=echo_models(), tenants=("acme",)) as running:
        client = running.acme.client
        await client.post("/v1/agents", json=constitution(rules=["Old rule."]))
        reply = await client.patch("/v1/agents/writer", json=constitution(name="New"))
        assert (reply.status_code, reply.json()["name"], "rules" in reply.json()) == (200, "New", False)
        card = await client.get("/v1/a2a/agents/writer/agent-card.json")
        assert card.json()["name"] == "New"
        for path, body, status in (
            ("/v1/agents/writer", constitution("other"), 400),
            ("/v1/agents/index", constitution("index"), 400),
            ("/v1/agents/ghost", constitution("ghost"), 404),
            ("/v1/agents/no%20id", constitution("x"), 404),
        ):
            assert (await client.patch(path, json=body)).status_code == status, path


async def test_a_deleted_agent_is_gone() -> None:
    async with running_host(tenants=("acme",), given_agents=(greeter(),)) as running:
        client = running.acme.client
        await client.post("/v1/agents", json=constitution())
        reply = await client.delete("/v1/agents/writer")
        assert (reply.status_code, reply.json()) == (200, {"deleted": True})
        gone = {"error": "no agent 'writer' for this tenant"}
        for method, path in (("GET", "/v1/agents/writer"), ("DELETE", "/v1/agents/writer")):
            reply = await client.request(method, path)
            assert (reply.status_code, reply.json()) == (404, gone)
        assert (await client.delete("/v1/agents/index")).status_code == 400
        assert (await client.delete("/v1/agents/greeter")).status_code == 409


async def test_a_message_goes_to_the_agent_in_the_path() -> None:
    async with running_host(models=echo_models(), tenants=("acme",), given_agents=(greeter(),)) as running:
        client = running.acme.client
        await client.post("/v1/agents", json=constitution())
        events = await read_events(client, "POST", "/v1/agents/writer/chat", json={"message": "hi"})
        assert event_named(events, "done")["content"] == "writer heard hi"
        events = await read_events(client, "POST", "/v1/agents/greeter/chat", json={"message": "Bo"})
        assert event_named(events, "done")["content"] == "Hello, Bo"
        reply = await client.post("/v1/agents/other/chat", json={"message": "hi"})
        assert (reply.status_code, reply.json()) == (404, {"error": "no agent 'other' for this tenant"})
