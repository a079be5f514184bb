"""Agents and catalogues elsewhere that a tenant registers: checked, watched, and called like other remote agents."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from joserfc.jwk import ECKey

from parley import Agent, Turn
from parley.host.catalogue import GivenAgent
from parley.host.data.registry_checks import CheckOutcome, RegistryChecks
from parley.host.models.model import ModelRequest
from parley.host.registry.timing import CheckTiming
from parley.host.registry.watcher import RegistryWatcher
from parley.host.remote.config import RemoteAgents
from parley.protocol.errors import LocalProtocolError
from parley.server.app import App
from tests.client.test_discovery import KEY, Site, document, signed
from tests.host.api_calls import constitution, echo_models
from tests.host.function_model import FunctionModel
from tests.host.running_host import HostTenant, RunningHost, read_events, running_host
from tests.server.serving import echo_agent, running, serving

pytestmark = pytest.mark.anyio

AGENTS = "/v1/catalog/agents"
SOURCES = "/v1/catalog/sources"
CARD = "/.well-known/agent-card.json"
CATALOG = "/.well-known/ai-catalog.json"
LOCAL = RemoteAgents(allow_private_hosts=("127.0.0.1",))
NEVER = CheckTiming(poll_seconds=3_600)
SECRET = "s3cret-token-of-the-remote-agent"
_HEALTHY = CheckOutcome("healthy")


@asynccontextmanager
async def local_host(**settings: Any) -> AsyncGenerator[RunningHost]:
    """A host whose tenants may register agents on this machine, and which checks nothing by itself."""
    chosen = {"models": echo_models(), "remote_agents": LOCAL, "check_timing": NEVER, **settings}
    async with running_host(**chosen) as found:
        yield found


async def register(tenant: HostTenant, url: str, **more: Any) -> dict[str, Any]:
    reply = await tenant.client.post(AGENTS, json={"url": url, **more})
    assert reply.status_code == 201, reply.text
    return reply.json()


async def check(tenant: HostTenant, name: str, **body: Any) -> tuple[str, str]:
    """The state and the reason that a check finds."""
    reply = await tenant.client.post(f"{AGENTS}/{name}/check", json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()["state"], reply.json()["reason"]


def jwks(key: ECKey = KEY, key_id: str = "k1") -> dict[str, Any]:
    return {"keys": [{**key.as_dict(private=False), "kid": key_id, "use": "sig"}]}


def signed_card(key: ECKey = KEY, key_id: str = "k1") -> bytes:
    return json.dumps(signed(key, key_id=key_id)).encode()


async def test_a_registered_agent_is_called_like_one_that_the_operator_lists() -> None:
    async def reply(request: ModelRequest) -> AsyncIterator[str]:
        if request.results:
            yield f"It says: {request.results[-1].body}"
        else:
            yield "/a2a call echo hello out there\n"

    model = FunctionModel(reply)
    async with running(App(echo_agent())) as http, local_host(models={"parley/router": model}) as host:
        added = await register(host.acme, str(http.base_url))
        assert (added["name"], added["card"]["name"], added["health"]["state"]) == ("echo", "Echo", "healthy")
        events = await read_events(host.acme.client, "POST", "/v1/orchestrate", json={"message": "go"})
        assert events[-1].payload["content"] == "It says: hello out there"
        assert [entry.id for entry in model.requests[0].roster if entry.is_remote] == ["echo"]
        found = (await host.acme.client.get("/v1/catalog")).json()["entries"]
        assert [entry["url"] for entry in found if entry["displayName"] == "Echo"] == [str(http.base_url)]
        assert (await host.globex.client.get(f"{AGENTS}/echo")).status_code == 404
        assert (await host.globex.client.get(AGENTS)).json() == {"count": 0, "agents": []}
        assert (await host.acme.client.delete(f"{AGENTS}/echo")).status_code == 200
        events = await read_events(host.acme.client, "POST", "/v1/orchestrate", json={"message": "again"})
        assert "No remote agent is called 'echo'; there are none" in events[-1].payload["content"]


async def test_an_agent_of_python_delegates_to_a_registered_one_by_its_name() -> None:
    caller = Agent("caller", id="caller", description="Asks others.")

    @caller.on_message
    async def ask(turn: Turn) -> str:
        try:
            return (await turn.delegate(turn.text, "hi")).text
        except LocalProtocolError as error:
            return error.message

    async with running(App(echo_agent())) as http, local_host(given_agents=(GivenAgent(caller),)) as host:
        await host.acme.client.post("/v1/agents", json=constitution())
        await register(host.acme, str(http.base_url), name="far")

        async def said(name: str) -> str:
            events = await read_events(host.acme.client, "POST", "/v1/agents/caller/chat", json={"message": name})
            return events[-1].payload["content"]

        assert await said("far") == "hi"
        (request,) = (await host.acme.client.get("/v1/requests")).json()["requests"]
        tree = (await host.acme.client.get(f"/v1/requests/{request['request_id']}/tree")).json()
        assert [(child["agent_id"], child["is_remote"]) for child in tree["children"]] == [("far", True)]
        assert await said("writer") == "writer heard hi"  # agents of the host first
        assert (
            await said("never")
            == "No remote agent is called 'never'; there are: far. Agents of this host: writer, caller"
        )


async def test_tokens_go_to_the_agent_and_are_never_shown() -> None:
    site = Site({CARD: document()})
    async with serving(site) as http, local_host() as host:
        url = str(http.base_url)
        added = await register(host.acme, url, name="far", credentials={"token": SECRET})
        assert added["has_token"] is True
        shown = [
            json.dumps(added),
            (await host.acme.client.get(AGENTS)).text,
            (await host.acme.client.get(f"{AGENTS}/far")).text,
            (await host.acme.client.get("/v1/catalog")).text,
            (await host.admin.get("/v1/admin/audit")).text,
        ]
        assert not any(SECRET in text for text in shown)
        assert (await host.host.registry.configs("1"))["far"].token == SECRET
        await host.acme.client.delete(f"{AGENTS}/far")
        assert await host.host.registry.agents.token("1", "far") is None
        audit = (await host.admin.get("/v1/admin/audit")).json()["entries"]
        assert [(one["action"], one["target_id"], one["target_kind"]) for one in audit[:2]] == [
            ("unregister_agent", "1/far", "registered_agent"),
            ("register_agent", "1/far", "registered_agent"),
        ]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"url": "https://10.0.0.1/a"}, "$.url: the agent cannot be registered: The URL leads to https://10.0.0.1, wh"),
        ({"url": "http://agents.example"}, "which is not encrypted"),
        ({"url": "ftp://agents.example"}, "$.url: Invalid URL"),
        ({"url": "https://u:p@agents.example"}, "$.url: Invalid URL: it must not contain a user name."),
        ({"url": "https://a.example", "name": "no spaces"}, "$.name"),
        ({"url": "https://a.example", "name": "line\n"}, "$.name"),
        ({"url": "https://a.example", "credentials": {"token": "line\n"}}, "$.credentials.token"),
        ({"url": "https://a.example", "credentials": {"token": "a b"}}, "$.credentials.token"),
        (
            {"url": "https://a.example", "signatures": {"mode": "required"}},
            "$.signatures.jwks: signatures are required",
        ),
        ({"url": "https://a.example", "signatures": {"jwks": {"keys": []}}}, "$.signatures.jwks: has no key"),
        ({"url": "https://a.example", "signatures": {"jwks": {}}}, "$.signatures.jwks"),
        ({"url": "https://a.example", "more": 1}, "unknown field `more`"),
    ],
)
async def test_a_registration_that_is_not_valid_is_refused_with_the_reason(body: Any, reason: str) -> None:
    async with running_host(tenants=("acme",)) as host:
        reply = await host.acme.client.post(AGENTS, json=body)
        assert reply.status_code == 400
        assert reason in reply.json()["error"]
        assert (await host.acme.client.get(AGENTS)).json()["count"] == 0


async def test_what_cannot_be_called_is_refused() -> None:
    site = Site({"/none": b"<html>", "/empty.json": b"{}", "/forbidden.json": document(url="https://10.0.0.1/")})
    async with serving(site) as http, local_host() as host:
        for path in ("/none", "/empty.json", "/forbidden.json"):
            reply = await host.acme.client.post(AGENTS, json={"url": f"{str(http.base_url).rstrip('/')}{path}"})
            assert reply.status_code == 400, reply.text
        assert (await host.acme.client.post(AGENTS, json={"url": "http://127.0.0.1:1"})).status_code == 400


async def test_names_are_unique() -> None:
    async with running(App(echo_agent())) as http, local_host() as host:
        await host.acme.client.post("/v1/agents", json=constitution())
        await register(host.acme, str(http.base_url))
        for name in ("echo", "writer", "index", None):
            body = {"url": str(http.base_url), **({"name": name} if name else {})}
            assert (await host.acme.client.post(AGENTS, json=body)).status_code == 409, name
        await register(host.globex, str(http.base_url))


async def test_a_card_that_loses_its_signature_or_is_signed_with_another_key_is_refused() -> None:
    other = ECKey.generate_key("P-256", private=True)
    site = Site({CARD: signed_card()})
    async with serving(site) as http, local_host() as host:
        url = str(http.base_url)
        body = {"url": url, "name": "never", "signatures": {"mode": "required", "jwks": jwks(other)}}
        assert "No signature of the card" in (await host.acme.client.post(AGENTS, json=body)).json()["error"]
        added = await register(host.acme, url, name="far", signatures={"jwks": jwks()})
        assert (added["card"]["is_verified"], added["card"]["signers"]) == (True, ["k1"])
        assert await check(host.acme, "far") == ("healthy", "")
        for card in (signed_card(other), signed_card(other, "k2"), document()):
            site.pages[CARD] = card
            for body in ({}, {"accept": True}):
                state, reason = await check(host.acme, "far", **body)
                assert state == "signature_invalid", reason
        client = await host.host.remote.client(host.acme.tenant, "far")
        with pytest.raises(Exception, match="signatures"):
            await client.copy().__aenter__()
        site.pages[CARD] = signed_card()
        assert await check(host.acme, "far") == ("healthy", "")


async def test_a_card_that_changes_is_reported_until_it_is_accepted() -> None:
    site = Site({CARD: document()})
    async with serving(site) as http, local_host() as host:
        await register(host.acme, str(http.base_url), name="far")
        site.pages[CARD] = document(name="Changed")
        assert await check(host.acme, "far") == ("card_changed", "its name changed")
        assert await check(host.acme, "far") == ("card_changed", "its name changed")
        assert await check(host.acme, "far", accept=True) == ("healthy", "")
        assert await check(host.acme, "far") == ("healthy", "")
        assert (await host.acme.client.get(f"{AGENTS}/far")).json()["card"]["name"] == "Changed"
        site.pages[CARD] = signed_card()
        state, reason = await check(host.acme, "far")
        assert (state, reason.partition(";")[0]) == ("card_changed", "it was signed with no key and is signed with k1")
        del site.pages[CARD]
        state, reason = await check(host.acme, "far")
        assert (state, reason.partition(":")[0]) == ("unreachable", "No agent card was found")


async def test_of_several_processes_one_makes_a_check_and_failures_come_less_often() -> None:
    site = Site({CARD: document()})
    async with serving(site) as http, local_host() as host:
        await register(host.acme, str(http.base_url), name="far")
        registry, records = host.host.registry, host.host.store.records
        watcher = RegistryWatcher(registry, is_active=lambda tenant: True)
        assert await watcher.run_due() == 0  # it was checked just now
        later = _LaterClock()
        registry._clock = later  # pyright: ignore[reportPrivateUsage]
        queues = [RegistryChecks(records, later) for _ in range(2)]
        claimed = [await queue.claim_due(10) for queue in queues]
        assert [len(checks) for checks in claimed] == [1, 0]
        asked = len(site.asked)
        pauses: list[float] = []
        site.pages.clear()
        (one,) = claimed[0]
        for _ in range(4):
            found = await registry.run_check(one)
            assert found is not None
            (record,) = await records.list("registry_checks", "", limit=10)
            pauses.append(record.sort / 1000 - later.now().timestamp())
            later.ahead += timedelta(hours=2)
            (one,) = await queues[1].claim_due(10)
        assert len(site.asked) > asked
        assert (found.state, found.failures) == ("unreachable", 4)
        assert [round(after / before) for before, after in pairwise(pauses)] == [2, 2, 2]
        await registry.agents.remove("1", "far", actor="tenant:1")
        assert await queues[0].finish(one, _HEALTHY, due=later.now()) is None  # what was removed does not come back
        assert await records.list("registry_checks", "", limit=10) == []


async def test_the_watcher_makes_due_checks_in_the_background() -> None:
    site = Site({CARD: document()})
    timing = CheckTiming(agent_seconds=0, poll_seconds=0.01)
    async with serving(site) as http, local_host(check_timing=timing) as host:
        await register(host.acme, str(http.base_url), name="far")
        site.pages[CARD] = document(name="Changed")
        while (await host.acme.client.get(f"{AGENTS}/far")).json()["health"]["state"] != "card_changed":
            pass


async def test_an_agent_that_hangs_does_not_hold_up_the_checks_of_others() -> None:
    site = Site({CARD: document()})
    together: list[asyncio.Barrier] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        for barrier in together:
            await barrier.wait()
        await site(scope, receive, send)

    async with serving(app) as http, local_host(check_timing=CheckTiming(agent_seconds=0, poll_seconds=3_600)) as host:
        for number in range(8):
            await register(host.acme, str(http.base_url), name=f"far{number}")
        together.append(asyncio.Barrier(8))  # no card is there before all are asked for
        assert await host.host.registry_watcher.run_due() == 8
        healths = [one["health"]["state"] for one in (await host.acme.client.get(AGENTS)).json()["agents"]]
        assert healths == ["healthy"] * 8


async def test_agents_of_a_disabled_tenant_are_not_called() -> None:
    site = Site({CARD: document()})
    async with serving(site) as http, local_host(check_timing=CheckTiming(agent_seconds=0, poll_seconds=3_600)) as host:
        await register(host.acme, str(http.base_url), name="far")
        await host.admin.patch("/v1/admin/tenants/1", json={"disabled": True})
        asked = len(site.asked)
        assert await host.host.registry_watcher.run_due() == 1
        assert len(site.asked) == asked


async def test_the_entries_of_an_added_catalogue_are_found_and_refreshed() -> None:
    entry = {
        "identifier": "urn:air:far.example:agent:weather",
        "displayName": "Weather",
        "mediaType": "application/a2a-agent-card+json",
        "url": "https://far.example/weather",
        "tags": ["forecast"],
    }
    inline = {**entry, "identifier": "urn:x:inline", "displayName": "Inline", "data": json.loads(document())}
    del inline["url"]
    tool = {**entry, "identifier": "urn:x:tool", "displayName": "Tool", "mediaType": "application/mcp-server-card+json"}
    broken = {**entry, "identifier": "urn:x:broken", "trustManifest": {"identity": "urn:x:other"}}
    large = {**inline, "identifier": "urn:x:large", "data": {**inline["data"], "description": "x" * 300_000}}
    page = json.dumps({"specVersion": "1.0", "entries": [entry, inline, tool, broken, large]}).encode()
    site = Site({CATALOG: page})
    async with serving(site) as http, local_host() as host:
        reply = await host.acme.client.post(SOURCES, json={"url": str(http.base_url), "name": "partners"})
        assert reply.status_code == 201, reply.text
        assert (reply.json()["entry_count"], reply.json()["is_complete"]) == (3, True)
        assert "trustManifest.identity" in reply.json()["problems"][0]
        assert reply.json()["problems"][1] == "urn:x:large: Its data has more than 262144 bytes"
        catalog = (await host.acme.client.get("/v1/catalog")).json()["entries"]
        assert [one["displayName"] for one in catalog if one["mediaType"].endswith("ai-catalog+json")] == ["partners"]

        async def found(**query: str) -> list[tuple[str, str, bool]]:
            hits = (await host.acme.client.get("/v1/catalog/search", params=query)).json()["entries"]
            return [(hit["display_name"], hit["source"], hit["is_callable"]) for hit in hits if "source" in hit]

        assert await found(q="weather") == [("Weather", "partners", True)]
        assert await found(q="tool", tag="forecast") == [("Tool", "partners", False)]
        assert await found(q="inline") == [("Inline", "partners", True)]
        site.pages[CATALOG] = json.dumps({"specVersion": "1.0", "entries": [{**entry, "displayName": "Rain"}]}).encode()
        assert (await host.acme.client.post(f"{SOURCES}/partners/check")).json()["state"] == "healthy"
        assert await found(q="weather rain") == [("Rain", "partners", True)]
        assert await found(q="tool") == []
        del site.pages[CATALOG]
        assert (await host.acme.client.post(f"{SOURCES}/partners/check")).json()["state"] == "unreachable"
        assert await found(q="rain") == [("Rain", "partners", True)]  # what was known stays
        assert (await host.globex.client.get(f"{SOURCES}/partners")).status_code == 404
        assert (await host.acme.client.delete(f"{SOURCES}/partners")).status_code == 200
        assert await found() == []
        assert (await host.acme.client.post(SOURCES, json={"url": str(http.base_url)})).status_code == 400


async def test_a_catalogue_of_another_host_is_read_with_its_token() -> None:
    async with local_host() as far, local_host() as near:
        await far.acme.client.post("/v1/agents", json=constitution("poet"))
        url = f"{far.url}/v1/catalog"
        assert (await near.acme.client.post(SOURCES, json={"url": url})).status_code == 400
        added = await near.acme.client.post(SOURCES, json={"url": url, "credentials": {"token": far.acme.token}})
        assert added.status_code == 201, added.text
        hits = (await near.acme.client.get("/v1/catalog/search", params={"q": "poet"})).json()["entries"]
        assert [hit["display_name"] for hit in hits] == ["Poet"]
        await register(near.acme, hits[0]["url"], credentials={"token": far.acme.token})


class _LaterClock:
    """The real clock, some hours ahead."""

    def __init__(self) -> None:
        from parley.engine.clock import SystemClock

        self._clock = SystemClock()
        self.ahead = timedelta(hours=2)

    def now(self) -> Any:
        return self._clock.now() + self.ahead

    def monotonic(self) -> float:
        return self._clock.monotonic()
