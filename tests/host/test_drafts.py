"""Drafts of agents: only their author calls them, and publishing one does not undo what others have changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from parley.client.client import Client
from parley.client.credentials.credentials import Credentials
from parley.host.data.agent_drafts import AgentDrafts
from parley.host.models.model import ModelRequest
from parley.host.origin import ORIGIN
from parley.protocol.cards import Binding
from parley.server.run import Serving
from tests.host.a2a_calls import call, documented_message, message, path_of, result
from tests.host.api_calls import constitution, event_named
from tests.host.function_model import FunctionModel
from tests.host.running_host import RunningHost, read_events, running_host
from tests.host.stores import MemoryDatabase, MemoryStore

pytestmark = pytest.mark.anyio

DRAFT = "/v1/agents/writer/draft"
REST = {"A2A-Version": "1.0"}


async def shows_version(request: ModelRequest) -> AsyncIterator[str]:
    """Every version of the tests has another bound of tokens."""
    yield f"{request.agent_id} {request.max_tokens}"


MODELS = {"parley/router": FunctionModel(shows_version)}


def numbered(number: int) -> dict[str, Any]:
    return constitution("writer", max_tokens=100 + number)


async def colleague(running: RunningHost) -> httpx2.AsyncClient:
    """A client of another principal of the same tenant, which may do everything as well."""
    reply = await running.acme.client.post("/v1/access/tokens", json={"name": "bo", "role": "owner"})
    return await running.client(reply.json()["token"])


async def said(client: httpx2.AsyncClient, **body: Any) -> str:
    events = await read_events(client, "POST", "/v1/agents/writer/chat", json={"message": "hi", **body})
    return event_named(events, "done")["content"]


async def test_an_author_calls_its_draft_over_both_apis_and_others_call_the_agent() -> None:
    async with running_host(models=MODELS, tenants=("acme",)) as running:
        ada, bo = running.acme.client, await colleague(running)
        await ada.post("/v1/agents", json=numbered(1))
        saved = (await ada.post(DRAFT, json=numbered(2))).json()
        assert (saved["author"], saved["base_version"], saved["a2a_name"]) == ("tenant:1", 1, "writer@draft")
        assert (await ada.get(DRAFT)).json() == saved
        assert (await said(ada, draft=True), await said(ada), await said(bo)) == ("writer 102", *["writer 101"] * 2)
        old = await result(ada, "message/send", documented_message("hi"), agent="writer@draft")
        assert old["status"]["message"]["parts"][0]["text"] == "writer 102"
        assert (old["metadata"]["x-arbiter.draft"], old["metadata"]["x-arbiter.agent_version"]) == (True, 1)
        new = await result(ada, "SendMessage", message("hi"), agent="writer%40draft")
        assert new["task"]["status"]["message"]["parts"][0]["text"] == "writer 102"
        rest = await ada.post(f"{path_of('writer@draft')}/rest/message:send", json=message("hi"), headers=REST)
        assert rest.json()["task"]["status"]["message"]["parts"][0]["text"] == "writer 102"
        request = (await ada.get(f"/v1/requests/{old['id']}")).json()["request"]
        assert (request["agent_id"], request["is_draft"], request["agent_version"]) == ("writer", True, 1)


async def test_a_client_that_finds_the_card_of_a_draft_calls_the_draft() -> None:
    async with running_host(models=MODELS, tenants=("acme",), serving=Serving(port=0, grpc_port=0)) as running:
        await running.acme.client.post("/v1/agents", json=numbered(1))
        await running.acme.client.post(DRAFT, json={**numbered(2), "name": "New writer"})
        url = f"{running.url}{path_of('writer@draft')}"
        known = Credentials({"bearer": running.acme.token}, origins=["*"])
        for binding in (Binding.JSONRPC, Binding.HTTP_JSON):
            async with Client(url, credentials=known, bindings=[binding]) as client:
                assert client.card.name == "New writer"
                assert (await client.send("hi")).text == "writer 102"
        interfaces = (await running.acme.client.get(f"{url}/agent-card.json")).json()["supportedInterfaces"]
        assert {interface["protocolBinding"] for interface in interfaces} == {"JSONRPC", "HTTP+JSON"}  # no gRPC


async def test_the_draft_of_another_principal_looks_like_an_agent_that_never_was() -> None:
    async with running_host(models=MODELS, tenants=("acme", "globex")) as running:
        ada, bo, globex = running.acme.client, await colleague(running), running.globex.client
        await ada.post("/v1/agents", json=numbered(1))
        await globex.post("/v1/agents", json=numbered(1))
        await ada.post(DRAFT, json=numbered(2))

        async def calls(client: httpx2.AsyncClient, name: str) -> list[Any]:
            path, body = path_of(f"{name}@draft"), {"jsonrpc": "2.0", "id": 1, "params": message("hi")}
            replies = [
                await client.post(path, json={**body, "method": "SendMessage"}),
                await client.post(path, json={**body, "method": "message/send", "params": documented_message("hi")}),
                await client.get(f"{path}/agent-card.json"),
                await client.post(f"{path}/rest/message:send", json=message("hi"), headers=REST),
                await client.post(f"/v1/agents/{name}/chat", json={"message": "hi", "draft": True}),
            ]
            assert not any("writer 102" in reply.text for reply in replies)
            return [(reply.status_code, reply.text.replace(name, "<name>")) for reply in replies]

        for client in (bo, globex):
            assert await calls(client, "writer") == await calls(client, "ghost")
            assert (await client.get(DRAFT)).status_code == 404
            assert (await client.post(f"{DRAFT}/publish", json={})).status_code == 404
            assert (await client.delete(DRAFT)).json() == {"deleted": False}
        listed = (await bo.get("/v1/agents")).json()["agents"]
        assert [(agent["id"], agent.get("max_tokens")) for agent in listed] == [("index", 2048), ("writer", 101)]
        assert "draft" not in (await bo.get(f"{path_of('writer')}/agent-card.json")).text
        assert [entry.id for entry in running.host.roster(running.acme.id)] == ["writer"]
        assert (await ada.get(DRAFT)).json()["constitution"]["max_tokens"] == 102


async def test_a_caller_cannot_name_the_draft_of_another_principal_in_a_message() -> None:
    async with running_host(models=MODELS, tenants=("acme",)) as running:
        ada, bo = running.acme.client, await colleague(running)
        await ada.post("/v1/agents", json=numbered(1))
        await ada.post(DRAFT, json=numbered(2))
        stolen = {ORIGIN: {"draft_of": "tenant:1"}}
        for agent, client in (("writer", bo), ("writer@draft", ada)):
            refused = await call(client, "SendMessage", message("hi", metadata=stolen), agent=agent)
            assert refused["error"]["code"] == -32602
        # The author's own draft can be named, and nothing else of the origin.
        own = await result(ada, "SendMessage", message("hi", metadata=stolen), agent="writer")
        assert own["task"]["status"]["message"]["parts"][0]["text"] == "writer 102"
        forged = {ORIGIN: {"draft_of": "tenant:1", "conversation": 1}}
        refused = await call(ada, "SendMessage", message("hi", metadata=forged), agent="writer")
        assert refused["error"]["code"] == -32602


async def test_only_the_author_goes_on_with_a_task_of_a_draft() -> None:
    begun = asyncio.Event()

    async def waits(request: ModelRequest) -> AsyncIterator[str]:
        begun.set()
        await asyncio.Event().wait()
        yield ""

    async with running_host(models={"parley/router": FunctionModel(waits)}, tenants=("acme",)) as running:
        ada, bo = running.acme.client, await colleague(running)
        await ada.post("/v1/agents", json=numbered(1))
        await ada.post(DRAFT, json=numbered(2))
        params = {**message("hi"), "configuration": {"returnImmediately": True}}
        task = (await result(ada, "SendMessage", params, agent="writer@draft"))["task"]
        await begun.wait()
        more = {"taskId": task["id"]}
        refused = await call(bo, "SendMessage", message("and?", **more), agent="writer")
        assert refused["error"]["code"] == -32032
        accepted = {**message("and?", **more), "configuration": {"returnImmediately": True}}
        for agent in ("writer", "writer@draft"):
            assert (await result(ada, "SendMessage", accepted, agent=agent))["task"]["id"] == task["id"]


async def test_publishing_makes_a_version_unless_the_agent_has_changed_since() -> None:
    async with running_host(models=MODELS, tenants=("acme",)) as running:
        ada, bo = running.acme.client, await colleague(running)
        await ada.post("/v1/agents", json=numbered(1))
        await ada.post(DRAFT, json=numbered(3))
        await bo.patch("/v1/agents/writer", json=numbered(2))
        refused = await ada.post(f"{DRAFT}/publish", json={"note": "Third."})
        assert (refused.status_code, refused.json()["current_version"]) == (409, 2)
        assert refused.json()["diff"] == [{"member": "max_tokens", "before": 101, "after": 102}]
        assert (await ada.get(DRAFT)).json()["current_version"] == 2
        for base, status in ((9, 404), ("x", 400), (2, 200)):
            assert (await ada.post(DRAFT, json={**numbered(3), "base_version": base})).status_code == status
        published = await ada.post(f"{DRAFT}/publish", json={"note": "Third."})
        assert (published.json()["version"], published.headers["etag"]) == (3, '"3"')
        assert ((await ada.get(DRAFT)).status_code, await said(bo)) == (404, "writer 103")
        newest = (await bo.get("/v1/agents/writer/versions")).json()["versions"][0]
        assert (newest["by"], newest["note"]) == ("tenant:1", "Third.")


async def test_a_draft_that_is_not_valid_is_not_saved() -> None:
    async with running_host(tenants=("acme",)) as running:
        client = running.acme.client
        await client.post("/v1/agents", json=numbered(1))
        for path, body, status in (
            (DRAFT, {**numbered(2), "temperature": 9}, 400),
            (DRAFT, {**numbered(2), "id": "other"}, 400),
            ("/v1/agents/ghost/draft", constitution("ghost"), 404),
            ("/v1/agents/index/draft", constitution("index"), 400),
        ):
            assert (await client.post(path, json=body)).status_code == status, path
        assert (await client.get(DRAFT)).status_code == 404
        reply = await client.post("/v1/agents/writer/chat", json={"message": "x", "draft": True, "agent_def": {}})
        assert reply.json()["error"].startswith("$.draft: ")


async def test_an_agent_has_so_many_drafts_and_they_go_with_it() -> None:
    async with running_host(tenants=("acme",)) as running:
        ada, bo, agents = running.acme.client, await colleague(running), running.host.agents
        await ada.post("/v1/agents", json=numbered(1))
        parts = (agents._records, agents._changes, agents._transactions)  # pyright: ignore[reportPrivateUsage]
        agents.drafts = AgentDrafts(*parts, most=1)
        assert [(await one.post(DRAFT, json=numbered(2))).status_code for one in (ada, bo, ada)] == [200, 409, 200]
        await ada.delete("/v1/agents/writer")
        await ada.post("/v1/agents", json=numbered(1))
        assert (await ada.get(DRAFT)).status_code == 404


async def test_a_run_of_a_draft_keeps_its_content_when_the_draft_changes_and_the_host_restarts() -> None:
    begun, go_on, database = asyncio.Event(), asyncio.Event(), MemoryDatabase()

    async def works(request: ModelRequest) -> AsyncIterator[str]:
        begun.set()
        await go_on.wait()
        yield str(request.max_tokens)

    models = {"parley/router": FunctionModel(works)}
    async with running_host(models=models, tenants=("acme",), store=MemoryStore(database)) as running:
        client, token = running.acme.client, running.acme.token
        await client.post("/v1/agents", json=numbered(1))
        await client.post(DRAFT, json=numbered(2))
        body = {"message": "hi", "draft": True}
        (received,) = await read_events(client, "POST", "/v1/agents/writer/chat", json=body, until="request_received")
        await begun.wait()
        await client.post(DRAFT, json=numbered(3))
        await client.delete(DRAFT)
    go_on.set()
    async with running_host(models=models, tenants=(), store=MemoryStore(database)) as running:
        path = f"/v1/requests/{received.payload['request_id']}/events"
        done = event_named(await read_events(await running.client(token), "GET", path), "done")
        assert done["content"] == "102"
