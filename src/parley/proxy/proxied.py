"""Assembles a proxy: a client of one agent, and a server that offers the agent to others.

async with proxied("http://old-agent:9000") as app:
    await serve(app, Serving(port=8080, grpc_port=50051))
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from parley.client.calls import Authenticator
from parley.client.client import Client
from parley.client.credentials.credentials import Credentials
from parley.client.guard import Guard
from parley.client.options import Timeouts
from parley.client.transports.connections import Tls
from parley.engine.webhooks.deliveries import Deliveries
from parley.keys.signing_key import SigningKeys
from parley.protocol.cards import AgentCard, Binding
from parley.protocol.versions import Version
from parley.proxy.forwarding import ForwardedCredentials, ProxyAuthenticator, forward_extensions
from parley.proxy.id_mapping import IdMapping
from parley.proxy.ledger import Ledger
from parley.proxy.remote_agent import RemoteAgent
from parley.proxy.remote_engine import RemoteEngine
from parley.proxy.trace import Trace, TracedSender
from parley.proxy.upstream import Upstream
from parley.proxy.webhook_relay import WebhookRelay
from parley.server.app import App
from parley.server.contracts import CallerAuthenticator
from parley.server.limits import ServerLimits
from parley.server.telemetry.telemetry import Telemetry
from parley.server.webhooks.auth_settings import WebhookAuthSettings
from parley.server.webhooks.authentication import WebhookAuthenticator
from parley.server.webhooks.guard import PUBLIC_ONLY, WebhookPolicy
from parley.server.webhooks.sender import WebhookSender
from parley.stores.memory import MemoryStore


@asynccontextmanager
async def proxied(
    target: str | AgentCard,
    *,
    bindings: Sequence[Binding] = (),
    versions: Sequence[Version] = (),
    credentials: Credentials | Authenticator | None = None,
    trusted: Sequence[str] = (),
    security: CallerAuthenticator | None = None,
    guard: Guard | None = None,
    tls: Tls | None = None,
    timeouts: Timeouts | None = None,
    limits: ServerLimits | None = None,
    public_url: str | None = None,
    webhook_url: str | None = None,
    signer: SigningKeys | None = None,
    cors_origins: Sequence[str] = (),
    telemetry: Telemetry | None = None,
    webhooks: WebhookPolicy | None = PUBLIC_ONLY,
    webhook_auth: WebhookAuthSettings | None = None,
    trace: Trace | None = None,
    ledger: Ledger | None = None,
    serves_one_caller: bool = False,
) -> AsyncGenerator[App]:
    """An app that serves the agent at `target`, which is called in one of `bindings` and `versions`.

    `credentials` are the proxy's own for the agent; without them, each caller's credentials are forwarded, to the
    origin of `target` and to the `trusted` origins. `security` authenticates callers at the proxy; their credentials
    are then not forwarded. `webhooks` says which webhooks callers may register. The proxy calls them if it has a
    `webhook_url`, which is its URL for the agent; otherwise the agent calls them. `webhook_auth` is how the proxy
    authenticates to them, beyond what their configs contain. `ledger` keeps the owners of tasks.
    If the proxy `serves_one_caller`, the `credentials` are that caller's, who is told when the agent refuses them.

    Raises:
        ClientError, PeerProtocolError: the agent cannot be reached, or has no such interface.
    """
    forwards = credentials is None and security is None
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            Client(
                target,
                credentials=ForwardedCredentials([_first_url(target), *trusted]) if forwards else credentials,
                bindings=bindings,
                versions=versions,
                interceptors=[forward_extensions],
                guard=guard,
                tls=tls,
                timeouts=timeouts,
            )
        )
        if trace is not None:
            trace.mask(client.card.security_schemes.values())
            trace.mask(security.schemes.values() if security is not None else ())
            client.calls.connect = trace.connecting(client.calls.connect)
        protocol = f"A2A {client.calls.transport.version} over {client.interface.binding}"
        agent = RemoteAgent(client.card, protocol=protocol, keeps_security=forwards)
        authenticator = ProxyAuthenticator(client.card, own=security, forwards=forwards)
        upstream = Upstream(client, has_own_credentials=not forwards and not serves_one_caller)
        ids = IdMapping(upstream, ledger or Ledger(), isolates_callers=security is not None)
        if not client.card.capabilities.push_notifications:
            webhooks = None
        relay, authentication = None, WebhookAuthenticator(webhook_auth)
        if webhook_url is not None and webhooks is not None:
            store = MemoryStore()
            sender = await stack.enter_async_context(WebhookSender(webhooks, authentication=authentication))
            traced = sender if trace is None else TracedSender(sender, trace)
            deliveries = await stack.enter_async_context(Deliveries(store, traced, observer=telemetry))
            if telemetry is not None:
                telemetry.watch_deliveries(deliveries)
            relay = WebhookRelay(
                upstream,
                ids,
                agent=agent.id,
                url=webhook_url,
                store=store,
                deliveries=deliveries,
                limits=limits,
                trace=trace,
            )
        app = App(
            agent,
            security=authenticator,
            limits=limits,
            public_url=public_url,
            signer=signer,
            cors_origins=cors_origins,
            telemetry=telemetry,
            webhooks=webhooks,
            webhook_auth=authentication,
            remote=RemoteEngine(agent, upstream, ids, relay, None if trace is None else trace.demands),
            conversation_observer=trace,
            extra_route=relay,
        )
        app.is_unauthenticated = authenticator.is_unauthenticated
        yield app


def _first_url(target: str | AgentCard) -> str:
    """The URL that the operator has given: that of the agent, or the first in its card."""
    return target if isinstance(target, str) else target.interfaces[0].url
