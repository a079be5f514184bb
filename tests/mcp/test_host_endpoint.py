"""What `/mcp` refuses, and what becomes of sessions and calls whose clients leave, seen over raw HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import msgspec
import pytest

from parley.host.access.principal import Principal
from parley.host.access.scopes import Scope
from parley.host.catalogue import GivenAgent
from parley.host.data.roles import Grant
from parley.host.data.tenant import Quotas
from parley.host.mcp_server import tenant_servers
from tests.host.running_host import HostTenant, RunningHost, running_host
from tests.mcp.sample_agent import Helper

pytestmark = pytest.mark.anyio

ACCEPT = {"Accept": "application/json, text/event-stream"}
NEWEST = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": NEWEST,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}


def rpc(method: str, params: dict[str, Any] | None = None, *, id: int | None = 1) -> dict[str, Any]:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params or {}}
    return message if id is None else {**message, "id": id}


async def post(client: httpx2.AsyncClient, message: Any, **headers: str) -> httpx2.Response:
    return await client.post("/mcp", json=message, headers={**ACCEPT, **headers})


def answer_in(reply: httpx2.Response) -> dict[str, Any]:
    """The JSON-RPC message of a reply, which may be a stream."""
    if reply.headers["content-type"].startswith("text/event-stream"):
        (*_, data) = [line.removeprefix("data: ") for line in reply.text.splitlines() if line.startswith("data: ")]
        return msgspec.json.decode(data)
    return reply.json()


async def handshake(tenant: HostTenant, version: str = "2025-06-18") -> dict[str, str]:
    """The headers of a new session."""
    info = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    reply = await post(tenant.client, rpc("initialize", info))
    assert answer_in(reply)["result"]["protocolVersion"] == version
    headers = {"mcp-session-id": reply.headers["mcp-session-id"], "mcp-protocol-version": version}
    assert (await post(tenant.client, rpc("notifications/initialized", id=None), **headers)).status_code == 202
    return headers


def newest(method: str, params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """A request of 2026-07-28 with the headers that it needs."""
    headers = {"mcp-protocol-version": NEWEST, "mcp-method": method}
    headers |= {"mcp-name": params["name"]} if "name" in params else {}
    return rpc(method, {**params, "_meta": META}), headers


def hosting(helper: Helper, **settings: Any) -> Any:
    return running_host(given_agents=(GivenAgent(helper.agent),), **settings)


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18"])
async def test_older_versions_of_mcp_are_served(version: str) -> None:
    async with hosting(Helper()) as running:
        session = await handshake(running.acme, version)
        call = rpc("tools/call", {"name": "helper", "arguments": {"message": "files"}}, id=2)
        result = answer_in(await post(running.acme.client, call, **session))["result"]
        kinds = [block["type"] for block in result["content"]]
        assert kinds == (["resource_link"] if version == "2025-06-18" else ["text"])
        unknown = rpc("resources/read", {"uri": "agent://nobody/card"}, id=3)
        assert answer_in(await post(running.acme.client, unknown, **session))["error"]["code"] == -32002
        ended = await running.acme.client.delete("/mcp", headers=session)
        assert ended.status_code == 200
        assert (await post(running.acme.client, call, **session)).status_code == 404


async def test_a_wrong_or_missing_token_is_refused() -> None:
    async with running_host() as running:
        stranger = await running.client("atr_wrong")
        for client in (running.anonymous, stranger):
            reply = await post(client, rpc("ping"))
            assert reply.status_code == 401
            assert reply.headers["www-authenticate"].startswith("Bearer")
            assert reply.json()["error"]["data"]["reason"] == "UNAUTHENTICATED"


async def test_a_session_belongs_to_the_token_that_began_it() -> None:
    async with running_host() as running:
        session = await handshake(running.acme)
        other_tenant = await post(running.globex.client, rpc("tools/list", id=2), **session)
        assert other_tenant.status_code == 404
        other = await limited_client(running, {Scope.CALL, Scope.READ})
        same_tenant = await post(other, rpc("tools/list", id=2), **session)
        assert same_tenant.status_code == 404
        assert (await post(running.acme.client, rpc("tools/list", id=2), **session)).status_code == 200


async def test_a_token_that_may_only_read_lists_agents_and_cannot_call_them() -> None:
    async with hosting(Helper()) as running:
        reader = await limited_client(running, {Scope.READ})
        listing, headers = newest("tools/list", {})
        assert len(answer_in(await post(reader, listing, **headers))["result"]["tools"]) == 2
        call, headers = newest("tools/call", {"name": "helper", "arguments": {"message": "hi"}})
        error = answer_in(await post(reader, call, **headers))["error"]
        assert (error["code"], "scope 'call'" in error["message"]) == (-32600, True)
        auditor = await limited_client(running, {Scope.AUDIT})
        assert (await post(auditor, listing, **headers)).status_code == 403


async def limited_client(running: RunningHost, scopes: set[Scope]) -> httpx2.AsyncClient:
    """A client with another token of the tenant."""
    owner = Principal(f"tenant:{running.acme.id}", running.acme.id)
    _, token = await running.host.access_tokens.create("limited", Grant(scopes=tuple(scopes)), by=owner)
    return await running.client(token)


async def test_bad_requests_get_precise_errors() -> None:
    async with running_host() as running:
        client = running.acme.client
        session = await handshake(running.acme)
        nonsense = await client.post(
            "/mcp", content=b"{nonsense", headers={**ACCEPT, **session, "Content-Type": "application/json"}
        )
        assert (nonsense.status_code, nonsense.json()["error"]["code"]) == (400, -32700)
        text = await client.post("/mcp", content=b"hi", headers={**ACCEPT, "Content-Type": "text/plain"})
        assert text.status_code == 415
        huge = await client.post(
            "/mcp", content=b" " * (9 << 20), headers={**ACCEPT, "Content-Type": "application/json"}
        )
        assert (huge.status_code, huge.json()["error"]["code"]) == (413, -32600)
        unknown = answer_in(await post(client, rpc("tools/destroy", id=2), **session))
        assert unknown["error"]["code"] == -32601
        page = await client.post("/mcp", json=rpc("ping"), headers={**ACCEPT, "Origin": "https://evil.example"})
        assert page.status_code == 403
        rebound = await client.post("/mcp", json=rpc("ping"), headers={**ACCEPT, "Host": "evil.example"})
        assert rebound.status_code == 421
        wrong_version = await post(client, rpc("tools/list"), **{"mcp-protocol-version": "1999-01-01"})
        assert wrong_version.status_code == 400


async def test_a_tenant_has_a_number_of_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenant_servers, "SESSIONS", 2)
    async with running_host() as running:
        first = await handshake(running.acme)
        await handshake(running.acme)
        info = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
        assert (await post(running.acme.client, rpc("initialize", info))).status_code == 503
        await handshake(running.globex)  # another tenant has its own
        await running.acme.client.delete("/mcp", headers=first)
        await handshake(running.acme)


async def test_an_idle_session_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenant_servers, "IDLE_SECONDS", 0.05)
    async with running_host() as running:
        session = await handshake(running.acme)
        server = servers_of(running)[running.acme.id]
        while server._manager._server_instances:  # pyright: ignore
            await asyncio.sleep(0.01)
        assert (await post(running.acme.client, rpc("ping", id=2), **session)).status_code == 404


def servers_of(running: RunningHost) -> dict[str, Any]:
    return running.host._http.mcp._servers._servers  # pyright: ignore


async def test_a_client_of_the_newest_version_that_vanishes_cancels_its_task() -> None:
    helper = Helper()
    async with hosting(helper) as running:
        message, headers = newest("tools/call", {"name": "helper", "arguments": {"message": "wait"}})
        calling = asyncio.create_task(post(running.acme.client, message, **headers))
        await helper.begun.wait()
        calling.cancel()  # closes the connection
        await helper.canceled.wait()


async def test_a_client_of_an_older_version_that_vanishes_leaves_its_task_to_finish() -> None:
    """MCP until 2025-11-25: a lost connection is not a cancellation."""
    helper = Helper()
    async with hosting(helper) as running:
        session = await handshake(running.acme)
        call = rpc("tools/call", {"name": "helper", "arguments": {"message": "wait"}}, id=2)
        calling = asyncio.create_task(post(running.acme.client, call, **session))
        await helper.begun.wait()
        calling.cancel()
        await asyncio.wait([calling])
        helper.gate.set()
        while await states(running) != ["completed"]:
            await asyncio.sleep(0.01)
        assert not helper.canceled.is_set()


async def states(running: RunningHost) -> list[str]:
    return [task["state"] for task in (await running.acme.client.get("/v1/requests")).json()["requests"]]


async def test_a_session_that_is_ended_cancels_its_calls() -> None:
    helper = Helper()
    async with hosting(helper) as running:
        session = await handshake(running.acme)
        call = rpc("tools/call", {"name": "helper", "arguments": {"message": "wait"}}, id=2)
        calling = asyncio.create_task(post(running.acme.client, call, **session))
        await helper.begun.wait()
        await running.acme.client.delete("/mcp", headers=session)
        await helper.canceled.wait()
        await asyncio.wait([calling])


async def test_a_host_that_stops_ends_sessions_and_leaves_their_tasks_to_the_next_start(tmp_path: Any) -> None:
    helper = Helper()
    store = f"sqlite:///{tmp_path}/host.db"
    async with hosting(helper, store=store) as running:
        session = await handshake(running.acme)
        call = rpc("tools/call", {"name": "helper", "arguments": {"message": "wait"}}, id=2)
        calling = asyncio.create_task(post(running.acme.client, call, **session))
        await helper.begun.wait()
        token = running.acme.token
    await asyncio.gather(calling, return_exceptions=True)
    again = Helper()
    again.gate.set()
    async with hosting(again, store=store, tenants=()) as running:
        client = await running.client(token)
        while (task := (await client.get("/v1/requests")).json()["requests"][0])["state"] != "completed":
            await asyncio.sleep(0.01)
        assert task["agent_id"] == "helper"


async def test_a_host_that_stops_ends_streams_that_wait_for_changes() -> None:
    read: asyncio.Task[str] | None = None
    async with running_host() as running:
        session = await handshake(running.acme)
        client = httpx2.AsyncClient(base_url=running.url, headers=running.acme.client.headers, timeout=20, verify=False)
        read = asyncio.create_task(read_all(client, {**ACCEPT, **session}))
        message, headers = newest("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        listening = asyncio.create_task(client.post("/mcp", json=message, headers={**ACCEPT, **headers}))
        server = servers_of(running)[running.acme.id]
        while not server._waiting or len(server.mcp.changes._listeners) < 2:  # pyright: ignore
            await asyncio.sleep(0.01)
    assert "data" not in await read  # the stream has ended, and not broken off
    assert '"result"' in (await listening).text
    await client.aclose()


async def read_all(client: httpx2.AsyncClient, headers: dict[str, str]) -> str:
    async with client.stream("GET", "/mcp", headers=headers) as reply:
        return (await reply.aread()).decode()


async def test_a_disabled_tenant_loses_its_sessions() -> None:
    async with running_host() as running:
        await handshake(running.acme)
        await running.host.tenants.update(running.acme.id, disabled=True)
        assert running.acme.id not in servers_of(running)
        assert (await post(running.acme.client, rpc("ping"))).status_code == 401


async def test_a_server_without_sessions_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_host() as running:
        await handshake(running.acme)
        monkeypatch.setattr(tenant_servers, "IDLE_SECONDS", -1.0)
        servers = running.host._http.mcp._servers  # pyright: ignore
        servers._drop_unused()  # pyright: ignore
        assert not servers_of(running)


async def test_a_host_without_the_extra_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.host.mcp_server.endpoint.find_spec", lambda _: None)
    async with running_host() as running:
        reply = await post(running.acme.client, rpc("ping"))
        assert reply.status_code == 501
        assert "pip install 'parley-a2a[mcp]'" in reply.json()["error"]["message"]
        assert (await post(running.anonymous, rpc("ping"))).status_code == 401


async def test_quotas_of_the_tenant_are_those_of_a2a() -> None:
    async with hosting(Helper(), quotas=Quotas(requests_per_minute=1)) as running:
        message, headers = newest("tools/call", {"name": "helper", "arguments": {"message": "hi"}})
        assert answer_in(await post(running.acme.client, message, **headers))["result"]["isError"] is False
        refused = answer_in(await post(running.acme.client, message, **headers))["result"]
        assert refused["isError"] is True
        assert "Too many requests" in refused["content"][0]["text"]
