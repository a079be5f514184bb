"""Agents of a host use the reference MCP servers that PyPI and npm offer, each as a real process. `make mcp`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from parley.host.mcp.config import McpServers, read_mcp_servers
from parley.host.models.model import ModelRequest
from tests.host.function_model import FunctionModel
from tests.host.running_host import read_events, running_host
from tests.interop.javascript import find_node
from tests.peer_environments import ROOT, python_of
from tests.services.postgres import free_port

pytestmark = [pytest.mark.anyio, pytest.mark.deadline(120)]

EVERYTHING = ROOT / ".peers/mcp-js/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
AGENT = {"id": "worker", "name": "Worker", "role": "worker", "goal": "Work.", "model": "parley/scripted"}


class Page(BaseHTTPRequestHandler):
    """Serves one page."""

    def do_GET(self) -> None:
        body = b"<html><body><article><h1>Parley</h1><p>Agents talk.</p></article></body></html>"
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def page() -> Generator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@contextmanager
def everything_over_http() -> Generator[str]:
    node, _ = find_node()
    command = [str(node), str(EVERYTHING), "streamableHttp"]
    port = free_port()
    env = {"PORT": str(port), "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while "listening" not in (line := process.stderr.readline()).lower():
            assert line, "it has ended"
        try:
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "The first commit"]):
        identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
        subprocess.run(["git", *identity, *command], cwd=tmp_path, check=True)
    return tmp_path


def servers(repository: Path, http_url: str) -> McpServers:
    scripts = python_of("mcp-servers").parent
    node, _ = find_node()
    listed = {
        "time": {"command": str(scripts / "mcp-server-time"), "args": ["--local-timezone", "UTC"]},
        "git": {"command": str(scripts / "mcp-server-git"), "args": ["--repository", str(repository)]},
        "fetch": {
            "command": str(scripts / "mcp-server-fetch"),
            "args": ["--ignore-robots-txt", "--allow-private-ips"],
        },
        "everything": {"command": str(node), "args": [str(EVERYTHING), "stdio"], "env": {"KEY": "${TOKEN}"}},
        "remote": {"url": http_url},
    }
    document = {"servers": listed, "allow_private_hosts": ["127.0.0.1"]}
    return read_mcp_servers(json.dumps(document).encode(), {"TOKEN": "a-secret-of-the-operator"})


async def test_agents_use_the_reference_servers(repository: Path) -> None:
    with page() as url, everything_over_http() as http_url:
        commands = [
            "/mcp tools time",
            '/mcp call time convert_time {"source_timezone":"UTC","time":"12:00","target_timezone":"Asia/Tokyo"}',
            f'/mcp call git git_log {{"repo_path":"{repository}","max_count":1}}',
            f'/mcp call fetch fetch {{"url":"{url}"}}',
            '/mcp call everything echo {"message":"over stdio"}',
            '/mcp call everything get-structured-content {"location":"Chicago"}',
            '/mcp call everything trigger-long-running-operation {"duration":0.2,"steps":2}',
            "/mcp call everything get-tiny-image",
            "/mcp call everything get-env",
            '/mcp call everything get-sum {"a":"one"}',
            '/mcp call remote echo {"message":"over http"}',
            "/mcp call remote get-tiny-image",
        ]

        async def reply(request: ModelRequest) -> AsyncIterator[str]:
            yield "\n".join(commands) if len(request.messages) == 1 else "Done."

        model = FunctionModel(reply)
        async with running_host(
            models={"parley/scripted": model}, mcp_servers=servers(repository, http_url), seconds=100
        ) as running:
            client = running.acme.client
            assert (await client.post("/v1/agents", json=AGENT)).status_code == 201
            events = await read_events(client, "POST", "/v1/agents/worker/chat", json={"message": "Go."})
            states = {
                one["name"]: one["status"]["state"] for one in (await client.get("/v1/mcp/servers")).json()["servers"]
            }
    told = model.requests[1].messages[-1].text
    for expected in (
        'time get_current_time {"timezone": string} — Get current time',
        '"time_difference": "+9.0h"',
        "Message: The first commit",
        "Agents talk.",
        "Echo: over stdio",
        '{"temperature":',
        "Long running operation completed",
        "given to the user as get-tiny-image-1.png",
        '"KEY": "…"',
        "ERR: Invalid arguments for everything get-sum: a: must be a number; b: is missing",
        "Echo: over http",
    ):
        assert expected in told, told
    assert "a-secret-of-the-operator" not in told
    assert set(states.values()) == {"connected"}
    files = [event.payload for event in events if event.name == "file"]
    assert [file["path"] for file in files] == ["get-tiny-image-1.png"] * 2
    assert all(event.payload["ok"] for event in events if event.name == "tool_call" and "get-sum" not in str(event))
