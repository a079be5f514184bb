"""Assembles a proxy: a client of one agent, and a server that offers it to everybody.

async with proxied("http://old-agent:9000") as app:
    await serve(app, Serving(port=8080, grpc_port=50051))
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from parley.client.calling import Authenticator
from parley.client.client import Client
from parley.client.credentials import Credentials
from parley.client.guard import Guard
from parley.client.options import Timeouts
from parley.protocol.cards import AgentCard, Binding
from parley.protocol.versions import Version
from parley.proxy.forwarding import ForwardedCredentials, Forwarding, pass_extensions
from parley.proxy.remote_agent import RemoteAgent
from parley.proxy.remote_engine import RemoteEngine
from parley.proxy.trace import Trace
from parley.server.app import App
from parley.server.contracts import Doorkeeper
from parley.server.limits import ServerLimits
from parley.server.telemetry import Telemetry
from parley.server.webhook_guard import PUBLIC_ONLY, WebhookPolicy


@asynccontextmanager
async def proxied(
    target: str | AgentCard,
    *,
    bindings: Sequence[Binding] = (),
    versions: Sequence[Version] = (),
    credentials: Credentials | Authenticator | None = None,
    trusted: Sequence[str] = (),
    security: Doorkeeper | None = None,
    guard: Guard | None = None,
    timeouts: Timeouts | None = None,
    limits: ServerLimits | None = None,
    public_url: str | None = None,
    telemetry: Telemetry | None = None,
    webhooks: WebhookPolicy | None = PUBLIC_ONLY,
    trace: Trace | None = None,
) -> AsyncGenerator[App]:
    """An app that serves the agent at `target`, which is called in one of `bindings` and `versions`.

    `credentials` are the proxy's own for the agent; without them, those of each caller are handed on, to the origin of
    `target` and to the `trusted` ones. `security` says who may call the proxy; callers' credentials are then for the
    proxy alone. `webhooks` says which ones may be registered at the agent, which calls them itself.

    Raises:
        ClientError, PeerProtocolError: the agent cannot be found, or offers nothing that is asked for.
    """
    forwards = credentials is None and security is None
    async with Client(
        target,
        credentials=ForwardedCredentials([_first_url(target), *trusted]) if forwards else credentials,
        bindings=bindings,
        versions=versions,
        interceptors=[pass_extensions],
        guard=guard,
        timeouts=timeouts,
    ) as client:
        if trace is not None:
            trace.mask(client.card.security_schemes.values())
            trace.mask(security.schemes.values() if security is not None else ())
            client.calls.connect = trace.listening(client.calls.connect)
        agent = RemoteAgent(client.card, keeps_security=forwards)
        door = Forwarding(client.card, own=security, forwards=forwards)
        app = App(
            agent,
            security=door,
            limits=limits,
            public_url=public_url,
            telemetry=telemetry,
            webhooks=webhooks if client.card.capabilities.push_notifications else None,
            remote=RemoteEngine(agent, client, are_credentials_ours=not forwards, keeps_apart=security is not None),
            tap=trace,
        )
        app.is_open = door.is_open
        yield app


def _first_url(target: str | AgentCard) -> str:
    """The URL that whoever starts the proxy has named: of the agent, or first in its card."""
    return target if isinstance(target, str) else target.interfaces[0].url
