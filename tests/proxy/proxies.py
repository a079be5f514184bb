"""Apps on real ports in the test's own event loop: an agent, and a proxy before it."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from parley.client.guard import Guard
from parley.protocol.cards import AgentCapabilities, AgentCard, AgentInterface, Binding
from parley.protocol.versions import Version
from parley.proxy.proxied import proxied
from parley.server.app import App
from parley.server.bindings.grpc import GrpcServer
from parley.server.listener.listener import Listener
from parley.server.webhooks.guard import WebhookPolicy
from tests.conformance.peer import Peer
from tests.services.postgres import free_port

Place = dict[str, str]


@asynccontextmanager
async def on_ports(app: App, *, port: int = 0) -> AsyncGenerator[Place]:
    """An app over HTTP and gRPC: `{"url": …, "grpc": …}`."""
    async with app.running():
        door = socket.create_server(("127.0.0.1", port))
        url = f"http://127.0.0.1:{door.getsockname()[1]}"
        listener, grpc_server = Listener(app), GrpcServer(app, http_url=url)
        await listener.start([door])
        grpc_port = await grpc_server.start("127.0.0.1", 0)
        try:
            yield {"url": url, "grpc": f"127.0.0.1:{grpc_port}"}
        finally:
            await grpc_server.stop()
            await listener.close(grace=0.1)


def card_at(place: Place, version: Version, binding: Binding, **capabilities: Any) -> AgentCard:
    """What the card of an agent would say that speaks one dialect over one binding."""
    url = place["grpc"] if binding is Binding.GRPC else f"{place['url']}{'/' if binding is Binding.JSONRPC else ''}"
    return AgentCard(
        "Old",
        "Speaks one dialect.",
        "1.0.0",
        (AgentInterface(url, binding, version),),
        AgentCapabilities(**{"streaming": True, "push_notifications": True, **capabilities}),
    )


@asynccontextmanager
async def proxy_of(target: str | AgentCard, **options: Any) -> AsyncGenerator[Place]:
    """A proxy before an agent, over HTTP and gRPC."""
    options = {"guard": Guard(allow_private=True), "webhooks": WebhookPolicy(allow_private=True), **options}
    async with proxied(target, **options) as app, on_ports(app) as place:
        yield place


@asynccontextmanager
async def relay_of(target: str | AgentCard, **options: Any) -> AsyncGenerator[Place]:
    """A proxy before an agent, which takes the agent's notifications and passes them on."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    options = {"guard": Guard(allow_private=True), "webhooks": WebhookPolicy(allow_private=True), **options}
    async with proxied(target, webhook_url=url, **options) as app, on_ports(app, port=port) as place:
        yield place


def caller(place: Place, version: Version, binding: Binding, **headers: str) -> Peer:
    """A caller at a place; use it as `async with caller(…) as peer:`."""
    return Peer(version, binding, {"memory/open": place}, headers=headers)
