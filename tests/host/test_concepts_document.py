"""The document about A2A in the host, statement by statement, against a host on a real port.

The quotations are from the document. Methods, errors and framing are in `test_dispatch_document`, calls to remote
agents in `test_two_hosts`. Where a test shows something else, `docs/host-compatibility.md` has the reason.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from parley.host.host import AppOptions
from parley.host.models.model import ModelRequest
from parley.host.remote.config import RemoteAgentConfig, RemoteAgents
from tests.host.a2a_calls import call, documented_message, path_of, result, streamed
from tests.host.frame_reader import folded_text, open_stream, texts
from tests.host.function_model import FunctionModel
from tests.host.running_host import read_events, running_host

pytestmark = pytest.mark.anyio

STUB = "/.well-known/agent-card.json"
BEARER = {"type": "http", "scheme": "bearer"}
DOCUMENTED_CAPABILITIES = {"streaming": True, "pushNotifications": False, "stateTransitionHistory": False}


async def say_hello(request: ModelRequest) -> AsyncIterator[str]:
    yield "Hello."


async def answer_in_two_pieces(request: ModelRequest) -> AsyncIterator[str]:
    yield "The sub-"
    yield "agent's answer"


async def store_agent(client: httpx2.AsyncClient, agent_id: str, **fields: Any) -> dict[str, Any]:
    body = {"id": agent_id, "name": agent_id.title(), "role": "worker", "goal": f"Does {agent_id}.", **fields}
    reply = await client.post("/v1/agents", json=body)
    assert reply.status_code == 201, reply.text
    return reply.json()


async def card_of(client: httpx2.AsyncClient, agent: str, **headers: str) -> dict[str, Any]:
    reply = await client.get(f"{path_of(agent)}/agent-card.json", headers=headers)
    assert reply.status_code == 200, reply.text
    return reply.json()


# --- cards ------------------------------------------------------------------------------------------------------------


async def test_the_stub_tells_everyone_how_to_authenticate_and_names_no_agent() -> None:
    """“intentionally minimal — it doesn't enumerate any agents; it just tells callers how to authenticate”"""
    async with running_host() as running:
        await store_agent(running.acme.client, "hidden")
        reply = await running.anonymous.get(STUB)
        stub = reply.json()
        assert (reply.status_code, "hidden" in reply.text, "index" in reply.text) == (200, False, False)
        assert {name: stub[name] for name in ("protocolVersion", "name", "url", "version", "preferredTransport")} == {
            "protocolVersion": "1.0",
            "name": "parley",
            "url": f"{running.url}/v1/a2a",
            "version": "stub",
            "preferredTransport": "JSONRPC",
        }
        assert "/v1/a2a/agents/<agent_id>/agent-card.json with a tenant's bearer token" in stub["description"]
        assert stub["capabilities"] == DOCUMENTED_CAPABILITIES
        assert stub["defaultInputModes"] == ["text/plain"]
        assert stub["defaultOutputModes"] == ["text/plain", "application/json"]
        [skill] = stub["skills"]
        assert (skill["id"], skill["name"], skill["tags"]) == ("discover", "discover", ["discovery", "auth-required"])
        assert stub["securitySchemes"]["bearer"].items() >= BEARER.items()
        assert stub["security"] == [{"bearer": []}]


async def test_the_path_of_older_cards_is_not_served() -> None:
    """“The earlier v0.x path /.well-known/agent.json is not served”"""
    async with running_host(tenants=()) as running:
        assert (await running.anonymous.get("/.well-known/agent.json")).status_code == 404


async def test_the_card_of_a_stored_agent_derives_from_its_constitution() -> None:
    """“Each A2A AgentCard is built from the agent's Constitution at fetch time”"""
    async with running_host() as running:
        client = running.acme.client
        fields = {"name": "Scout", "role": "researcher", "goal": "finds things"}
        stored = await store_agent(client, "scout", **fields, capabilities=["/fetch", "/search", "research", "/fetch"])
        card = await card_of(client, "scout")
        assert {name: card[name] for name in card if name in TABLE} == {
            "protocolVersion": "1.0",
            "name": "Scout",
            "description": "researcher — finds things",
            "url": f"{running.url}/v1/a2a/agents/scout",
            "version": str(stored["updated_at"]),
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain", "application/json"],
            "security": [{"bearer": []}],
            "preferredTransport": "JSONRPC",
        }
        assert card["capabilities"].items() >= DOCUMENTED_CAPABILITIES.items()
        assert [(skill["id"], skill["name"], skill["tags"]) for skill in card["skills"]] == [
            ("chat", "chat", ["text"]),
            ("fetch-url", "fetch-url", ["/fetch"]),
            ("web-search", "web-search", ["/search"]),
            ("research", "research", ["research"]),
        ]
        assert list(card["securitySchemes"]) == ["bearer"]
        assert card["securitySchemes"]["bearer"].items() >= BEARER.items()
        await client.patch("/v1/agents/scout", json={**fields, "goal": "finds people"})
        assert (await card_of(client, "scout"))["description"] == "researcher — finds people"


TABLE = {
    "protocolVersion",
    "name",
    "description",
    "url",
    "version",
    "defaultInputModes",
    "defaultOutputModes",
    "security",
    "preferredTransport",
}
"""The rows of the document's table, without those whose value is compared in parts."""


async def test_the_card_of_the_master_has_its_own_version_and_one_skill() -> None:
    """“version: … "index" for the master”, “One synthetic chat skill”"""
    async with running_host() as running:
        card = await card_of(running.acme.client, "index")
        assert (card["version"], [skill["id"] for skill in card["skills"]]) == ("index", ["chat"])
        assert card["url"] == f"{running.url}/v1/a2a/agents/index"


async def test_cards_name_the_public_url_or_else_the_host_that_the_caller_named() -> None:
    """“<public_base_url>/v1/a2a/agents/<id>”, “without it, arbiter falls back to http://<Host header>”"""
    async with running_host(public_url="https://agents.example/") as running:
        assert (await card_of(running.acme.client, "index"))["url"] == "https://agents.example/v1/a2a/agents/index"
        assert (await running.anonymous.get(STUB)).json()["url"] == "https://agents.example/v1/a2a"
    async with running_host() as running:
        card = await card_of(running.acme.client, "index", Host="localhost:4711")
        assert card["url"] == "http://localhost:4711/v1/a2a/agents/index"


async def test_a_card_is_for_its_tenant_only() -> None:
    """“A leaked token never surfaces another tenant's agent.”"""
    async with running_host() as running:
        await store_agent(running.acme.client, "scout", goal="of Acme")
        path = f"{path_of('scout')}/agent-card.json"
        assert (await running.anonymous.get(path)).status_code == 401
        refused = await running.globex.client.get(path)
        assert (refused.status_code, refused.json()) == (404, {"error": "no agent 'scout' for this tenant"})
        await store_agent(running.globex.client, "scout", goal="of Globex")
        for tenant, goal in ((running.acme, "of Acme"), (running.globex, "of Globex")):
            assert (await card_of(tenant.client, "scout"))["description"] == f"worker — {goal}"


# --- the event mapping ------------------------------------------------------------------------------------------------


async def test_every_event_of_a_run_has_its_documented_frame() -> None:
    """“Arbiter's internal events translate as follows” — all rows of the table but the failures."""

    async def orchestrate(request: ModelRequest) -> AsyncIterator[str]:
        if request.results:
            yield "Done: "
            yield request.results[-1].body
        else:
            yield "I look.\n"
            yield "/write notes/café.md\nça va\n/endwrite\n/fetch nowhere\n/agent scout Do it.\n"

    models = {"parley/router": FunctionModel(orchestrate), "parley/scout": FunctionModel(answer_in_two_pieces)}
    async with running_host(models=models) as running:
        client = running.acme.client
        await store_agent(client, "scout", model="parley/scout")
        frames = await streamed(client, "message/stream", documented_message("go", contextId="c-42"))
        assert frames[0]["status"]["state"] == "working"
        task_id = frames[0]["taskId"]
        updates = [frame for frame in frames if frame["kind"] == "artifact-update"]
        others = [update for update in updates if update["artifact"]["artifactId"] != f"{task_id}-text-0"]
        file, wrote, fetched, answered = others
        assert file["artifact"] == {
            "artifactId": f"{task_id}-file-0",
            "name": "notes/café.md",
            "parts": [
                {
                    "kind": "file",
                    "file": {
                        "bytes": base64.b64encode("ça va".encode()).decode(),
                        "name": "notes/café.md",
                        "mimeType": "text/plain",
                    },
                }
            ],
            "metadata": {"x-arbiter.file": True},
        }
        tools = [("tool-0", "write:notes/café.md", True), ("tool-1", "fetch:nowhere", False)]
        for update, (suffix, tool, ok) in zip((wrote, fetched), tools, strict=True):
            assert update["artifact"] == {
                "artifactId": f"{task_id}-{suffix}",
                "name": "tool_call",
                "parts": [{"kind": "data", "data": {"tool": tool, "ok": ok}}],
                "metadata": {"x-arbiter.tool_call": True},
            }
            assert update["metadata"] == {"x-arbiter.tool_call": True}
        assert answered["artifact"]["parts"] == [
            {"kind": "data", "data": {"agent": "scout", "depth": 1, "content": "The sub-agent's answer"}}
        ]
        assert [update["append"] for update in others] == [False] * 4
        told = "".join(part["text"] for one in updates if one not in others for part in one["artifact"]["parts"])
        end = frames[-1]
        assert (end["status"]["state"], end["final"]) == ("completed", True)
        assert end["status"]["message"]["parts"] == [{"kind": "text", "text": told}]
        assert told == "I look.\n\nDone: The sub-agent's answer"
        # 30 of three model calls, those of the sub-agent included
        assert (end["metadata"]["x-arbiter.input_tokens"], end["metadata"]["x-arbiter.output_tokens"]) == (30, 15)
        read = await result(client, "tasks/get", {"id": task_id})
        assert [one["artifactId"].removeprefix(task_id) for one in read["artifacts"]] == [
            "-text-0",
            "-file-0",
            "-tool-0",
            "-tool-1",
            "-sub-0",
        ]


async def test_files_are_not_kept_in_runs_that_come_over_a2a() -> None:
    """“/write --persist, /read, /list are inert in A2A-driven sessions; files … still flow as … frames”"""

    async def use_files(request: ModelRequest) -> AsyncIterator[str]:
        if request.results:
            yield "Done."
        else:
            yield "/write --persist keep.md\nabc\n/endwrite\n/read keep.md\n/list\n"

    model = FunctionModel(use_files)
    async with running_host(models={"parley/router": model}) as running:
        client = running.acme.client
        frames = await streamed(client, "message/stream", documented_message("go"))
        assert "keep.md" in [frame["artifact"]["name"] for frame in frames if "name" in frame.get("artifact", {})]
        assert [(one.name, one.ok) for one in model.requests[-1].results] == [
            ("write", True),
            ("read", False),
            ("list", False),
        ]
        assert "not kept" in model.requests[-1].results[0].body
        assert (await client.get("/v1/artifacts")).json()["artifacts"] == []


# --- one runtime, two APIs --------------------------------------------------------------------------------------------


async def test_an_agent_has_the_same_tools_whichever_api_calls_it() -> None:
    """“The two surfaces share the same per-request orchestrator setup”, “The same token … works”"""
    model = FunctionModel(say_hello)
    async with running_host(models={"parley/router": model}) as running:
        client = running.acme.client
        await store_agent(client, "scout")
        await result(client, "message/send", documented_message("hi"))
        await read_events(client, "POST", "/v1/orchestrate", json={"message": "hi"})
        over_a2a, native = model.requests
        assert over_a2a == native
        assert [entry.id for entry in over_a2a.roster] == ["scout"]


async def test_a_task_is_a_request_and_its_context_is_no_conversation() -> None:
    """“task_id … == arbiter request_id”, “A2A's contextId is opaque and is not mapped to conversations.”"""
    async with running_host(models={"parley/router": FunctionModel(say_hello)}) as running:
        client = running.acme.client
        task = await result(client, "message/send", documented_message("hi", contextId="c-42"))
        request = (await client.get(f"/v1/requests/{task['id']}")).json()["request"]
        assert (request["agent_id"], request["state"], request["conversation_id"]) == ("index", "completed", 0)
        assert (await client.get("/v1/conversations")).json()["count"] == 0
        assert (await running.globex.client.get(f"/v1/requests/{task['id']}")).status_code == 404


async def test_a_message_cannot_bring_its_own_agent() -> None:
    """“Inline agent definitions are not accepted via A2A metadata — agents are resolved from the URL :id”"""
    model = FunctionModel(say_hello)
    definition = {"id": "mine", "name": "Mine", "role": "r", "goal": "g"}
    async with running_host(models={"parley/router": model}) as running:
        sent = documented_message("hi", metadata={"agent_def": definition}) | {"metadata": {"agent_def": definition}}
        task = await result(running.acme.client, "message/send", sent)
        assert task["metadata"]["x-arbiter.agent_id"] == "index"
        assert [asked.agent_id for asked in model.requests] == ["index"]
        forged = documented_message("hi", metadata={"urn:parley:host-origin:1": {"agent_def": definition}})
        reply = await call(running.acme.client, "message/send", forged)
        assert reply["error"]["code"] == -32602


async def test_the_master_sees_remote_agents_beside_those_of_its_tenant() -> None:
    """“The master orchestrator sees them in its routing roster alongside local sub-agents”"""
    model = FunctionModel(say_hello)
    remote = RemoteAgents(
        {"weather": RemoteAgentConfig("weather", "http://127.0.0.1:1")}, allow_private_hosts=("127.0.0.1",)
    )
    async with running_host(models={"parley/router": model}, remote_agents=remote) as running:
        await store_agent(running.acme.client, "scout")
        await result(running.acme.client, "message/send", documented_message("hi"))
        [asked] = model.requests
        assert [(entry.id, entry.is_remote) for entry in asked.roster] == [("scout", False), ("weather", True)]


# --- persistence ------------------------------------------------------------------------------------------------------


async def test_tasks_survive_a_restart_and_none_stays_at_work(tmp_path: Path) -> None:
    """“Tasks persist in a new a2a_tasks SQLite table”"""

    async def stand_still(request: ModelRequest) -> AsyncIterator[str]:
        yield "One, "
        yield "two"
        if request.query != "end":
            await gone.wait()

    async def go_on(request: ModelRequest) -> AsyncIterator[str]:
        yield "One, "
        yield "three."

    gone = asyncio.Event()
    store, options = f"sqlite:///{tmp_path}/host.db", AppOptions(drain_seconds=0)
    cut: dict[str, str] = {}
    async with running_host(
        store=store, models={"parley/router": FunctionModel(stand_still)}, options=options
    ) as first:
        client = first.acme.client
        await store_agent(client, "scout", model="parley/router")
        ended = await result(client, "message/send", documented_message("end"))
        for agent in ("index", "scout"):
            async with open_stream(client, "message/stream", documented_message("go on"), agent=agent) as stream:
                [working, *_] = frames = await stream.take(3)
                assert texts(frames) == ["One, ", "two"]
                cut[agent] = working.result["taskId"]
    models = {"parley/router": FunctionModel(go_on)}
    async with running_host(store=store, models=models, tenants=(), options=options) as second:
        client = await second.client(first.acme.token)
        assert await result(client, "tasks/get", {"id": ended["id"]}) == ended
        for agent, task_id in cut.items():
            async with open_stream(client, "tasks/resubscribe", {"id": task_id}, agent=agent) as stream:
                frames = await stream.rest()
            assert frames[-1].result["status"]["message"]["parts"][0]["text"] == "One, three."
            task = await result(client, "tasks/get", {"id": task_id}, agent=agent)
            assert [part["text"] for one in task["artifacts"] for part in one["parts"]] == ["One, three."]
            async with open_stream(client, "tasks/resubscribe", {"id": task_id}, agent=agent, after="0") as stream:
                assert folded_text(await stream.rest()) == "One, three."
        states = [one["state"] for one in (await client.get("/v1/requests")).json()["requests"]]
        assert states == ["completed"] * 3
