"""An app on real ports, in the test's own event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from parley import Agent
from parley.engine.caller import ANONYMOUS_CALLER
from parley.engine.owner_data import EVERYTHING, DeletedData, Selection
from parley.protocol.cards import Binding
from parley.protocol.versions import Version
from parley.server.app import App
from parley.server.listener.listener import Listener
from tests.deadlines import fail_after

SPOKEN = [
    (Version.V0_1, Binding.JSONRPC),
    (Version.V0_2, Binding.JSONRPC),
    (Version.V0_3, Binding.JSONRPC),
    (Version.V1_0, Binding.JSONRPC),
    (Version.V0_3, Binding.HTTP_JSON),
    (Version.V1_0, Binding.HTTP_JSON),
    (Version.V0_3, Binding.GRPC),
    (Version.V1_0, Binding.GRPC),
]
"""Every version, over every binding that it has."""


def echo_agent(name: str = "Echo", **options: Any) -> Agent:
    """An agent that says what it hears, asks when it hears `ask`, and waits for ever when it hears `wait`."""
    agent = Agent(name, description="Says what it hears", **options)

    @agent.on_message
    async def echo(turn: Any) -> Any:
        match turn.text.split():
            case ["ask"]:
                yield (await turn.ask("What?")).text
            case ["wait"]:
                await turn.status("waiting")
                await asyncio.Event().wait()
            case ["count", number]:
                for chunk in range(int(number)):
                    yield f"{chunk} "
            case _:
                yield turn.text

    return agent


@asynccontextmanager
async def serving(asgi: Any, *, seconds: float = 20) -> AsyncGenerator[httpx2.AsyncClient]:
    """A client of an ASGI app that listens on a free port."""
    with fail_after(seconds):
        door = socket.create_server(("127.0.0.1", 0))
        listener = Listener(asgi)
        await listener.start([door])
        try:
            url = f"http://127.0.0.1:{door.getsockname()[1]}"
            async with httpx2.AsyncClient(base_url=url, timeout=seconds) as client:
                yield client
        finally:
            await listener.close(grace=0.1)


@asynccontextmanager
async def running(app: App, *, seconds: float = 20) -> AsyncGenerator[httpx2.AsyncClient]:
    """A client of an app that runs and listens."""
    async with app.running(), serving(app, seconds=seconds) as client:
        yield client


def send(text: str, *, message_id: str, method: str = "SendMessage", id: Any = 1, **params: Any) -> dict[str, Any]:
    """A request of 1.0 over JSON-RPC."""
    message = {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": text}], **params.pop("message", {})}
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {"message": message, **params}}


async def deleted_data(app: App, selection: Selection = EVERYTHING) -> DeletedData:
    """Delete what callers without credentials have, also at work, as they cannot over HTTP; how much that was."""
    assert app.shared.owner_data is not None
    return await app.shared.owner_data.delete(ANONYMOUS_CALLER, selection, cancels=True)


async def exported_data(app: App) -> str:
    """All that callers without credentials have, as lines of JSON."""
    assert app.shared.owner_data is not None
    return b"".join([line async for line in app.shared.owner_data.export(ANONYMOUS_CALLER, EVERYTHING)]).decode()
