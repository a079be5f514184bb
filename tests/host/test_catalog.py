"""The catalogues of a host: what is public, what a tenant finds, and that nothing else is shown."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from parley import Agent
from parley.ai_catalog.model import CATALOG_TYPE
from parley.client.client import Client
from parley.host.api import catalog
from parley.host.catalogue import GivenAgent
from parley.host.remote.config import RemoteAgentConfig, RemoteAgents
from tests.ai_catalog.schema import check_catalog
from tests.host.api_calls import constitution, echo_models
from tests.host.running_host import RunningHost, running_host

pytestmark = pytest.mark.anyio

PUBLIC = "/.well-known/ai-catalog.json"


async def entries_of(client: httpx2.AsyncClient, path: str) -> dict[str, dict[str, Any]]:
    """The entries of a catalogue by the names that people see. The catalogue must be valid."""
    reply = await client.get(path)
    assert (reply.status_code, reply.headers["content-type"]) == (200, CATALOG_TYPE), reply.text
    check_catalog(reply.json())
    return {entry["displayName"]: entry for entry in reply.json()["entries"]}


async def publish(running: RunningHost, agent: str = "writer", *, public: bool = True) -> dict[str, Any]:
    reply = await running.acme.client.put(f"/v1/agents/{agent}/public", json={"public": public})
    assert reply.status_code == 200, reply.text
    return reply.json()


async def test_no_agent_is_public_until_it_is_made_so_and_not_any_more_when_it_is_made_private() -> None:
    async with running_host(models=echo_models()) as running:
        for tenant in (running.acme, running.globex):
            await tenant.client.post("/v1/agents", json=constitution(examples=["write a poem"]))
        assert await entries_of(running.anonymous, PUBLIC) == {}
        assert (await running.acme.client.get("/v1/agents/writer/public")).json() == {"public": False}
        state = await publish(running)
        assert (await running.acme.client.get("/v1/agents/writer/public")).json() == state
        (entry,) = (await entries_of(running.anonymous, PUBLIC)).values()
        assert entry["url"] == state["card_url"]
        assert entry["identifier"].endswith(":writer")
        assert (entry["mediaType"], entry["tags"]) == ("application/a2a-agent-card+json", ["text"])
        assert {"description", "version", "updatedAt"} <= entry.keys()
        card = await running.anonymous.get(entry["url"])
        assert card.status_code == 200
        assert card.json() == (await running.acme.client.get("/v1/a2a/agents/writer/agent-card.json")).json()
        assert card.json()["security"] == [{"bearer": []}]
        assert (await running.anonymous.post(card.json()["url"], json={})).status_code == 401
        assert await publish(running, public=False) == {"public": False}
        assert await entries_of(running.anonymous, PUBLIC) == {}
        assert (await running.anonymous.get(entry["url"])).status_code == 404
        assert await publish(running) == state  # the handle stays
        audit = (await running.admin.get("/v1/admin/audit")).json()["entries"]
        assert [(one["target_id"], one["after"]) for one in audit if one["action"] == "set_agent_public"] == [
            ("1/writer", {"public": True}),
            ("1/writer", {"public": False}),
            ("1/writer", {"public": True}),
        ]


async def test_an_agent_that_takes_the_name_of_a_deleted_public_one_is_not_public(monkeypatch: Any) -> None:
    async with running_host(models=echo_models()) as running:
        await running.acme.client.post("/v1/agents", json=constitution())
        state = await publish(running)
        stored = await running.host.agents.get("1", "writer")
        await running.acme.client.delete("/v1/agents/writer")
        assert await entries_of(running.anonymous, PUBLIC) == {}
        later = running.host.clock.now().replace(year=2100)
        monkeypatch.setattr(type(running.host.clock), "now", lambda clock: later)
        await running.acme.client.post("/v1/agents", json=constitution())
        assert (await running.host.agents.get("1", "writer")).created_at > stored.created_at
        assert await entries_of(running.anonymous, PUBLIC) == {}
        assert (await running.anonymous.get(state["card_url"])).status_code == 404
        assert (await running.acme.client.get("/v1/agents/writer/public")).json() == {"public": False}


async def test_a_new_agent_is_private_also_if_it_takes_the_name_within_the_same_second(monkeypatch: Any) -> None:
    async with running_host(models=echo_models()) as running:
        now = running.host.clock.now()
        monkeypatch.setattr(type(running.host.clock), "now", lambda clock: now)
        await running.acme.client.post("/v1/agents", json=constitution())
        state = await publish(running)
        assert len(await entries_of(running.anonymous, PUBLIC)) == 1
        await running.acme.client.delete("/v1/agents/writer")
        await running.acme.client.post("/v1/agents", json=constitution())
        assert await entries_of(running.anonymous, PUBLIC) == {}
        assert (await running.anonymous.get(state["card_url"])).status_code == 404


async def test_the_public_agents_of_a_disabled_tenant_are_gone() -> None:
    async with running_host(models=echo_models()) as running:
        await running.acme.client.post("/v1/agents", json=constitution())
        state = await publish(running)
        await running.admin.patch("/v1/admin/tenants/1", json={"disabled": True})
        assert await entries_of(running.anonymous, PUBLIC) == {}
        assert (await running.anonymous.get(state["card_url"])).status_code == 404


async def test_agents_of_the_operator_are_public_if_the_settings_say_so_and_tenants_cannot_publish_them() -> None:
    agents = [Agent(name, id=name, description=f"Does {name}.") for name in ("open", "closed")]
    for agent in agents:
        agent.on_message(lambda turn: turn.text)
    given = tuple(map(GivenAgent, agents))
    async with running_host(given_agents=given, public_agents=("open", "missing")) as running:
        (entry,) = (await entries_of(running.anonymous, PUBLIC)).values()
        assert entry["displayName"] == "open"
        async with Client("open", catalog=running.url, credentials=running.globex.token) as client:
            assert (await client.send("hello")).text == "hello"
        for agent, status in (("closed", 409), ("index", 409), ("never", 404)):
            reply = await running.acme.client.put(f"/v1/agents/{agent}/public", json={"public": True})
            assert reply.status_code == status
        assert (await running.anonymous.get("/v1/public/agents/closed/agent-card.json")).status_code == 404


async def test_a_tenant_finds_its_own_shared_and_remote_agents_and_no_others() -> None:
    shared = Agent("shared", id="shared", description="For all.")
    shared.on_message(lambda turn: turn.text)
    remote = RemoteAgents(tenants={"acme": {"far": RemoteAgentConfig("far", "https://far.example/a2a", "s3cret")}})
    async with running_host(given_agents=(GivenAgent(shared),), remote_agents=remote) as running:
        await running.acme.client.post("/v1/agents", json=constitution())
        found = await entries_of(running.acme.client, "/v1/catalog")
        assert set(found) == {"index", "Writer", "shared", "far"}
        assert found["far"]["url"] == "https://far.example/a2a"
        assert "s3cret" not in str(found)
        assert (await running.acme.client.get(found["Writer"]["url"])).status_code == 200
        assert set(await entries_of(running.globex.client, "/v1/catalog")) == {"index", "shared"}
        assert (await running.anonymous.get("/v1/catalog")).status_code == 401


async def test_catalogues_are_sent_again_only_if_they_have_changed() -> None:
    async with running_host(models=echo_models()) as running:
        for client, path in ((running.anonymous, PUBLIC), (running.acme.client, "/v1/catalog")):
            first = await client.get(path)
            head = await client.head(path)
            assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", first.headers["etag"])
            known = {"if-none-match": first.headers["etag"]}
            again = await client.get(path, headers=known)
            assert (again.status_code, again.content) == (304, b"")
            if path == PUBLIC:
                await running.acme.client.post("/v1/agents", json=constitution())
                await publish(running)
            else:
                await running.acme.client.post("/v1/agents", json=constitution("another"))
            assert (await client.get(path, headers=known)).status_code == 200
            assert (await client.post(path, json={})).status_code == 405


async def test_a_long_catalogue_has_pages_and_a_client_finds_a_name_on_any_of_them(monkeypatch: Any) -> None:
    defaults = dict(catalog.catalog_document.__kwdefaults__ or {})
    monkeypatch.setattr(catalog.catalog_document, "__kwdefaults__", {**defaults, "page_entries": 2})
    async with running_host(models=echo_models()) as running:
        for number in range(4):
            await running.acme.client.post("/v1/agents", json=constitution(f"writer-{number}"))
        pages = await entries_of(running.acme.client, "/v1/catalog")
        assert {page["mediaType"] for page in pages.values()} == {CATALOG_TYPE}
        found = [name for page in pages.values() for name in await entries_of(running.acme.client, page["url"])]
        assert set(found) == {"index", *(f"Writer-{number}" for number in range(4))}
        for page in ("4", "0", "-1", "x"):
            reply = await running.acme.client.get(f"/v1/catalog?page={page}")
            assert reply.status_code in ((200,) if page == "0" else (400, 404))
        url = f"{running.url}/v1/catalog"
        async with Client("writer-3", catalog=url, credentials=running.acme.token) as client:
            assert (await client.send("hi")).text == "writer-3 heard hi"


async def test_search_finds_by_text_skill_and_tag_in_pages() -> None:
    async with running_host(models=echo_models()) as running:
        client = running.acme.client
        await client.post("/v1/agents", json=constitution("currency", goal="Converts amounts of money."))
        await client.post("/v1/agents", json=constitution("units", goal="Converts lengths.", capabilities=["/fetch"]))

        async def names(**query: Any) -> list[str]:
            reply = await client.get("/v1/catalog/search", params=query)
            assert reply.status_code == 200, reply.text
            return [hit["name"] for hit in reply.json()["entries"]]

        assert await names(q="convert money") == ["currency"]
        assert set(await names(q="conversions")) == {"currency", "units"}
        assert await names(q="currencies") == ["currency"]
        assert await names(q="nothing of this") == []
        assert await names(tag="/fetch") == ["units"]
        assert await names(skill="chat", q="lengths") == ["units"]
        assert await names(skill="never") == []
        page = (await client.get("/v1/catalog/search", params={"limit": 2})).json()
        assert (page["total"], len(page["entries"]), page["next_offset"]) == (3, 2, 2)
        assert len(await names(limit=2, offset=2)) == 1
        assert (await client.get("/v1/catalog/search", params={"q": "x" * 501})).status_code == 400
        assert (await running.globex.client.get("/v1/catalog/search", params={"q": "currency"})).json()["total"] == 0
