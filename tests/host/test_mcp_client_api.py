"""The MCP servers of tenants over the native API."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from parley.stores.sqlite.store import SqliteStore
from tests.host.mcp_fixtures.configured import operators
from tests.host.mcp_fixtures.http_server import http_server
from tests.host.running_host import running_host

pytestmark = pytest.mark.anyio


async def test_a_tenant_adds_reads_replaces_and_removes_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARLEY_SECRET_1_KEY", "k-from-the-environment")
    async with http_server() as server, running_host(mcp_servers=operators()) as running:
        client, other = running.acme.client, running.globex.client
        body = {"url": server.url, "headers": {"Authorization": "Bearer ${KEY}", "X-Key": "stored-secret"}}
        made = await client.put("/v1/mcp/servers/own", json=body)
        assert made.status_code == 201, made.text
        assert made.json()["header_names"] == ["Authorization", "X-Key"]
        listed = (await client.get("/v1/mcp/servers")).json()
        assert [(one["name"], one["source"], one["status"]["state"]) for one in listed["servers"]] == [
            ("fixture", "operator", "idle"),
            ("own", "tenant", "idle"),
        ]
        read = (await client.get("/v1/mcp/servers/own")).json()
        assert read["status"]["state"] == "connected"
        assert "echo" in read["status"]["tools"]
        assert read["tools"][0]["name"] == "echo"
        headers = server.requests[0].headers
        assert (headers["authorization"], headers["x-key"]) == ("Bearer k-from-the-environment", "stored-secret")
        kept = {"url": server.url, "headers": {"X-Key": None}, "tools": ["echo"], "revision": 1}
        assert (await client.put("/v1/mcp/servers/own", json=kept)).json()["revision"] == 2
        assert (await client.get("/v1/mcp/servers/own")).json()["status"]["tools"] == ["echo"]
        assert server.requests[-1].headers["x-key"] == "stored-secret"
        assert (await client.put("/v1/mcp/servers/own", json=kept)).status_code == 409
        audit = (await running.admin.get("/v1/admin/audit")).text
        assert "put_mcp_server" in audit
        assert (await other.get("/v1/mcp/servers/own")).status_code == 404
        assert (await client.delete("/v1/mcp/servers/own")).json() == {"deleted": True}
        assert (await client.get("/v1/mcp/servers/own")).status_code == 404
        shown = made.text + json.dumps(listed) + json.dumps(read) + audit
        assert "stored-secret" not in shown
        assert "k-from-the-environment" not in shown


@pytest.mark.parametrize(
    ("name", "body", "status", "error"),
    [
        ("own", {"command": "sh"}, 400, "$.command: only the operator can add a server that runs as a process"),
        ("own", {}, 400, "$.url: is required"),
        ("own", {"url": "https://10.0.0.1/mcp"}, 400, "$.url: The URL leads to https://10.0.0.1, which is not public"),
        ("own", {"url": "http://example.com/"}, 400, "which is not encrypted"),
        ("own", {"url": "grpcs://example.com/"}, 400, "$.url: must start with http:// or https://"),
        ("own", {"url": "https://example.com/", "headers": {"Host": "x"}}, 400, "$.headers.Host: This header is set"),
        ("own", {"url": "https://example.com/", "headers": {"A": "x\ny"}}, 400, "$.headers.A: The value of a header"),
        ("own", {"url": "https://example.com/", "headers": {"A": "${a b}"}}, 400, "$.headers.A: A placeholder"),
        ("own", {"url": "https://example.com/", "headers": {"A": None}}, 400, "$.headers.A: has no value"),
        ("own", {"url": "https://example.com/", "timeout_seconds": 0}, 400, "$.timeout_seconds"),
        ("own", {"url": "https://example.com/", "unknown": 1}, 400, "unknown"),
        ("a b", {"url": "https://example.com/"}, 400, "$.name: must be 1 to 64 letters"),
        ("line%0A", {"url": "https://example.com/"}, 400, "$.name: must be 1 to 64 letters"),
        ("fixture", {"url": "https://example.com/"}, 409, "MCP server 'fixture' belongs to the operator"),
    ],
)
async def test_what_cannot_be_a_server_of_a_tenant_is_refused_and_changes_nothing(
    name: str, body: dict[str, Any], status: int, error: str
) -> None:
    async with running_host(mcp_servers=operators()) as running:
        reply = await running.acme.client.put(f"/v1/mcp/servers/{name}", json=body)
        assert (reply.status_code, error in reply.json()["error"]) == (status, True), reply.text
        assert (await running.acme.client.get("/v1/mcp/servers")).json()["count"] == 1


async def test_a_secret_is_not_sent_to_another_url_than_it_was_stored_for() -> None:
    async with running_host(mcp_servers=operators()) as running:
        client = running.acme.client
        await client.put("/v1/mcp/servers/own", json={"url": "https://a.example/", "headers": {"X-Key": "secret"}})
        stolen = {"url": "https://b.example/", "headers": {"X-Key": None}}
        assert (await client.put("/v1/mcp/servers/own", json=stolen)).status_code == 400


async def test_a_secret_that_is_not_set_is_named_and_the_server_not_called() -> None:
    async with http_server() as server, running_host(mcp_servers=operators()) as running:
        body = {"url": server.url, "headers": {"Authorization": "Bearer ${KEY}"}}
        await running.acme.client.put("/v1/mcp/servers/own", json=body)
        read = (await running.acme.client.get("/v1/mcp/servers/own")).json()
    assert read["status"]["state"] == "failed"
    assert "The environment variable PARLEY_SECRET_1_KEY is not set" in read["status"]["last_error"]
    assert not server.requests


async def test_a_server_whose_headers_cannot_be_read_is_not_called_and_stops_no_other(tmp_path: Path) -> None:
    file = tmp_path / "host.db"
    async with (
        http_server() as server,
        running_host(store=SqliteStore(file), mcp_servers=operators()) as running,
    ):
        client, body = running.acme.client, {"url": server.url, "headers": {"X-Key": "secret"}}
        for name in ("broken", "whole"):
            await client.put(f"/v1/mcp/servers/{name}", json=body)
        with closing(sqlite3.connect(file)) as shell, shell:
            of_whole = "(SELECT value FROM records WHERE collection = 'mcp_servers' AND id = 'whole')"
            shell.execute(f"UPDATE records SET value = {of_whole} WHERE collection = 'mcp_servers' AND id = 'broken'")
        assert (await client.get("/v1/mcp/servers/whole")).json()["status"]["state"] == "connected"
        listed = (await client.get("/v1/mcp/servers")).json()["servers"]
        broken = (await client.get("/v1/mcp/servers/broken")).json()
        export = await running.admin.get(f"/v1/admin/tenants/{running.acme.id}/export")
        kept = {**body, "headers": {"X-Key": None}}
        assert (await client.put("/v1/mcp/servers/broken", json=kept)).status_code == 400
        assert (await client.put("/v1/mcp/servers/broken", json=body)).json()["revision"] == 2
        assert (await client.get("/v1/mcp/servers/broken")).json()["status"]["state"] == "connected"
    own = {one["name"]: one["status"]["state"] for one in listed if one["source"] == "tenant"}
    assert own == {"broken": "failed", "whole": "connected"}
    assert broken["header_names"] == ["X-Key"]
    assert broken["status"]["last_error"] == (
        "The MCP server broken cannot be called: The host cannot read the values of its headers; set them again."
    )
    assert "the header X-Key of the MCP server broken" in export.text


async def test_to_look_at_servers_takes_no_connection_from_those_who_use_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.host.mcp.roster.MAX_CONNECTIONS", 1)
    async with http_server() as server, running_host(mcp_servers=operators()) as running:
        for tenant in (running.acme, running.globex):
            assert (await tenant.client.put("/v1/mcp/servers/crm", json={"url": server.url})).status_code == 201
        assert (await running.acme.client.get("/v1/mcp/servers/crm")).json()["status"]["state"] == "connected"
        listed = (await running.globex.client.get("/v1/mcp/servers")).json()["servers"]
        assert {one["status"]["state"] for one in listed} == {"idle"}
        assert (await running.acme.client.get("/v1/mcp/servers")).json()["servers"][-1]["status"][
            "state"
        ] == "connected"


async def test_a_tenant_may_have_twenty_servers() -> None:
    async with running_host() as running:
        replies = [
            await running.acme.client.put(f"/v1/mcp/servers/s{number}", json={"url": "https://example.com/"})
            for number in range(21)
        ]
    assert [reply.status_code for reply in replies] == [201] * 20 + [413]


async def test_a_host_without_the_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    async with running_host() as running:
        reply = await running.acme.client.put("/v1/mcp/servers/own", json={"url": "https://example.com/"})
    assert reply.status_code == 409
    assert "pip install 'parley-a2a[mcp]'" in reply.json()["error"]
