"""Agents elsewhere, good and bad, on ports of their own, for the tests of the console."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from parley import Agent
from parley.server.app import App
from tests.console.consoles import Browser
from tests.server.serving import echo_agent, running, serving

CARD_PATH = "/.well-known/agent-card.json"


@asynccontextmanager
async def agent_elsewhere(agent: Agent | None = None, **options: Any) -> AsyncGenerator[str]:
    """The URL of a server of an agent."""
    async with running(App(agent or echo_agent("Elsewhere"), drain_seconds=0.1, **options)) as client:
        yield str(client.base_url).rstrip("/")


def card(url: str, **members: Any) -> dict[str, Any]:
    """The card of a foreign agent at a URL."""
    return {
        "name": "Foreign",
        "description": "An agent",
        "version": "1",
        "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "capabilities": {"streaming": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "s", "name": "Skill", "description": "A skill", "tags": []}],
        **members,
    }


Answer = Callable[[Request], Awaitable[Response]]


class ForeignServer:
    """A server whose card and answers the test chooses. It keeps the headers of every request."""

    def __init__(self) -> None:
        self.url = ""
        self.card: Any = None
        self.answer: Answer = self._echo
        self.pages: dict[str, Answer] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        everything = ["GET", "POST", "HEAD", "PUT", "DELETE"]
        self.app = Starlette(routes=[Route("/{path:path}", self._receive, methods=everything)])

    async def _receive(self, request: Request) -> Response:
        path = f"/{request.path_params['path']}"
        self.requests.append((f"{request.method} {path}", dict(request.headers)))
        if path in self.pages:
            return await self.pages[path](request)
        if path == CARD_PATH:
            return JSONResponse(self.card if self.card is not None else card(self.url))
        if request.method == "POST":
            return await self.answer(request)
        return Response(status_code=404)

    async def _echo(self, request: Request) -> Response:
        body = json.loads(await request.body())
        text = body["params"].get("message", {"parts": [{"text": ""}]})["parts"][0]["text"]
        message = {"messageId": "a-1", "role": "ROLE_AGENT", "parts": [{"text": text}]}
        return JSONResponse({"jsonrpc": "2.0", "id": body["id"], "result": {"message": message}})


@asynccontextmanager
async def foreign_server() -> AsyncGenerator[ForeignServer]:
    """A running foreign server."""
    server = ForeignServer()
    async with serving(server.app) as client:
        server.url = str(client.base_url).rstrip("/")
        yield server


async def added(browser: Browser, url: str) -> dict[str, Any]:
    """The agent that a browser has added, as it is listed."""
    reply = await browser.post("/console/api/agents", {"url": url})
    assert reply.status_code == 200, reply.text
    return next(one for one in reply.json()["agents"] if one["address"].startswith(url.rstrip("/")))


async def details(browser: Browser, agent_id: str) -> dict[str, Any]:
    """Everything about an agent."""
    reply = await browser.get(f"/console/api/agents/{agent_id}")
    assert reply.status_code == 200, reply.text
    return reply.json()


async def hang(_: Request) -> Response:
    """Never answer."""
    await asyncio.Event().wait()
    raise AssertionError
