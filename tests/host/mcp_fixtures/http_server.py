"""The same server over streamable HTTP, on a real port in the test's own event loop.

async with http_server() as server:
    … call `server.url` …
    assert server.requests[0].method == "initialize"
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.host.mcp_fixtures import behaviour
from tests.host.mcp_fixtures.behaviour import NEVER


@dataclass(frozen=True)
class McpRequest:
    """A request as it came."""

    method: str
    params: dict[str, Any]
    headers: dict[str, str]


@dataclass
class HttpMcpServer:
    """A server; `mode` as in `behaviour`, or `redirect`, `unauthorized`, `gzip`, `sse`, `forgets`."""

    mode: str = ""
    url: str = ""
    requests: list[McpRequest] = field(default_factory=list[McpRequest])
    sessions: set[str] = field(default_factory=set[str])
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a call is cancelled."""
    called: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a tool is called."""
    resumptions: int = 0
    together: asyncio.Barrier | None = None
    """Tools are listed when so many servers are asked for them."""
    redirect_to: str = "http://169.254.169.254/latest/meta-data"

    async def receive(self, request: Request) -> Response:
        if request.method == "GET" and self.mode == "ends_streams":
            self.resumptions += 1
            return Response("id: 1\nretry: 0\ndata:\n\n", media_type="text/event-stream")
        if request.method != "POST":
            return Response(status_code=405)
        message = json.loads(await request.body())
        method, params, headers = message["method"], message.get("params", {}), dict(request.headers)
        self.requests.append(McpRequest(method, params, headers))
        if method == "notifications/cancelled":
            self.cancelled.set()
        match self.mode:
            case "redirect":
                return RedirectResponse(self.redirect_to, status_code=307)
            case "unauthorized":
                return Response("<html>Log in: hunter2-hunter2</html>", status_code=401, media_type="text/html")
            case "forgets" if "mcp-session-id" in headers:
                return Response(status_code=404)
            case "gzip" if method == "tools/list":
                return Response(b"\x1f\x8b", headers={"content-encoding": "gzip"}, media_type="application/json")
            case _:
                pass
        if "id" not in message:
            return Response(status_code=202)
        return await self._answer(message["id"], method, params, headers)

    async def _answer(self, id: int, method: str, params: dict[str, Any], headers: dict[str, str]) -> Response:
        session = headers.get("mcp-session-id")
        if method not in ("initialize", "server/discover") and session not in self.sessions:
            return JSONResponse({"jsonrpc": "2.0", "id": id, "error": {"code": -32600, "message": "no session"}}, 404)
        if method == "tools/list" and self.together is not None:
            await self.together.wait()
        if method == "tools/call":
            self.called.set()
            if self.mode == "ends_streams":
                return Response("id: 1\nretry: 0\ndata:\n\n", media_type="text/event-stream")
            if params["name"] == "flood":
                return StreamingResponse(_flood(), media_type="text/event-stream")
            if params["name"] == "huge":
                kind = "text/event-stream" if self.mode == "sse" else "application/json"
                return StreamingResponse(_huge(id, self.mode == "sse"), media_type=kind)
        try:
            result = behaviour.answer(self.mode, method, params, headers)
        except LookupError:
            return JSONResponse({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "unknown"}})
        if result is NEVER:
            await asyncio.Event().wait()
        made = {"mcp-session-id": f"s{len(self.sessions)}"} if method == "initialize" else {}
        self.sessions |= set(made.values())
        return JSONResponse({"jsonrpc": "2.0", "id": id, "result": result}, headers=made)


async def _flood() -> AsyncIterator[bytes]:
    event = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
    while True:
        yield f"data: {json.dumps(event)}\n\n".encode()
        await asyncio.sleep(0)  # a client that has left is noticed meanwhile


async def _huge(id: int, is_stream: bool) -> AsyncIterator[bytes]:
    prefix = "data: " if is_stream else ""
    yield f'{prefix}{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"'.encode()
    for _ in range(1_600):
        yield b"x" * 65_536
    yield b'"}]}}\n\n'


@asynccontextmanager
async def http_server(mode: str = "") -> AsyncGenerator[HttpMcpServer]:
    """A server that runs until the block ends."""
    served = HttpMcpServer(mode)
    app = Starlette(routes=[Route("/mcp", served.receive, methods=["GET", "POST", "DELETE"])])
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical", timeout_graceful_shutdown=0)
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[method-assign]
    started = asyncio.Event()
    startup = server.startup

    async def announce(sockets: Any = None) -> None:
        await startup(sockets)
        started.set()

    server.startup = announce  # type: ignore[method-assign]
    running = asyncio.create_task(server.serve())
    try:
        await started.wait()
        port = server.servers[0].sockets[0].getsockname()[1]
        served.url = f"http://127.0.0.1:{port}/mcp"
        yield served
    finally:
        server.force_exit = server.should_exit = True
        await running
