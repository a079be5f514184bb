"""The ASGI app: agents, their store and their rules, assembled.

    app = App(agent, store="sqlite:///parley.db")

Served by itself, it opens and closes with the server's lifespan. Mounted into another app, whoever mounts it wraps its
own lifespan around `async with app.running()`. One agent is served at the root, several each at `/agents/{id}`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from urllib.parse import quote, unquote

import msgspec
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from parley.agents.agent import Agent
from parley.engine.deliveries import Deliveries
from parley.engine.delivery_limits import DeliveryLimits
from parley.engine.engine import Engine
from parley.engine.limits import Limits
from parley.engine.notifications import Notification
from parley.engine.store_health import StoreHealth
from parley.protocol.errors import MethodNotFoundError, UnavailableError
from parley.protocol.versions import Version
from parley.server import health
from parley.server.bindings.body_budget import BodyRoom
from parley.server.bindings.http import HttpRequest, refuse
from parley.server.bindings.streams import Pulse
from parley.server.contracts import Doorkeeper, Operations, RemoteOperations, SideDoor, Tap
from parley.server.health import Health
from parley.server.limits import ServerLimits
from parley.server.pages.cards import Cards, Signer, host_of
from parley.server.security.throttle import Throttle
from parley.server.service import Service
from parley.server.site import Site
from parley.server.telemetry.metrics import Metrics
from parley.server.telemetry.telemetry import Telemetry
from parley.server.webhooks.guard import PUBLIC_ONLY, WebhookPolicy, check_webhook
from parley.server.webhooks.sender import WebhookSender
from parley.stores.interface import TaskLog
from parley.stores.locate import open_store, opened

logger = logging.getLogger(__name__)

NEVER_STARTED = "The app is not running. Put `async with app.running():` into the lifespan of the outer app."
"""For those who mount the app: the lifespan of a mounted app is never called."""


class App:
    """Agents as an ASGI app.

    `public_url` is where callers reach it; without it, the URLs in cards are those of the request that asks for one.
    `webhooks` says which may be called; None offers no push notifications at all.
    """

    def __init__(
        self,
        *agents: Agent,
        store: str | TaskLog = "memory:",
        security: Doorkeeper | None = None,
        limits: ServerLimits | None = None,
        engine_limits: Limits | None = None,
        public_url: str | None = None,
        signer: Signer | None = None,
        card_version: Version | None = None,
        cors_origins: Sequence[str] = (),
        telemetry: Telemetry | None = None,
        webhooks: WebhookPolicy | None = PUBLIC_ONLY,
        delivery_limits: DeliveryLimits | None = None,
        retention: timedelta | None = None,
        drain_seconds: float = 10.0,
        remote: RemoteOperations | None = None,
        tap: Tap | None = None,
        side_door: SideDoor | None = None,
    ) -> None:
        """Assemble the app; nothing is opened yet.

        `remote` does the work instead of an engine, if the one agent is elsewhere; `tap` hears all that is said;
        `side_door` is where that agent comes in.

        Raises:
            ValueError: there is no agent, one without a handler, or two with one id.
        """
        if not agents:
            raise ValueError("An app needs at least one agent")
        if len({agent.id for agent in agents}) < len(agents):
            raise ValueError("Two agents have the same id; give one of them another with Agent(…, id=…)")
        for agent in agents:
            agent.check()
            if "/" in agent.id:
                raise ValueError(f"The id {agent.id!r} cannot have a slash: it is a part of paths and of tenants")
        self.agents = agents
        self.is_open = security is None
        self.limits = limits or ServerLimits()
        self.log = open_store(store) if isinstance(store, str) else store
        self.pulse = Pulse(self.limits)
        self.bodies = BodyRoom(self.limits.bodies_bytes)
        self._security = security
        self.cors_origins = tuple(cors_origins)
        self._public_url = public_url.rstrip("/") if public_url else None
        self._telemetry = telemetry
        self._webhooks = webhooks
        self._tap = tap
        self._side_door = side_door
        self._grpc: tuple[str | None, int] | None = None
        self.is_running = False
        self._was_started = False
        self._has_complained = False
        self._throttle = Throttle(self.limits.rates)
        self.health = Health(StoreHealth(self.log))
        self._sender = WebhookSender(webhooks or PUBLIC_ONLY, extra_headers=self._trace_headers)
        self._deliveries = Deliveries(self.log, self._sender, limits=delivery_limits, observer=telemetry)
        if telemetry is not None and remote is None:  # a remote agent's webhooks are called elsewhere
            telemetry.watch_deliveries(self._deliveries)
        self.services: dict[str, Service] = {}
        for agent in agents:
            cards = Cards(
                agent,
                security=security,
                signer=signer,
                has_push=webhooks is not None,
                remembers_messages=(engine_limits or Limits()).idempotency_seconds,
                is_remote=remote is not None,
                default_version=card_version,
                grpc_target=self._grpc_target,
                grpc_tenant=agent.id if len(agents) > 1 else None,
            )
            engine = remote or Engine(
                agent,
                self.log,
                limits=engine_limits,
                retention=retention,
                drain_seconds=drain_seconds,
                observer=telemetry,
                deliveries=self._deliveries,
                store_health=self.health.store,
            )
            self.services[agent.id] = self._service(agent, engine, cards, remote)
        self._sites = {name: Site(service, self.pulse, self.bodies) for name, service in self.services.items()}
        self._handle: ASGIApp = self._answer
        if cors_origins:
            self._handle = CORSMiddleware(
                self._answer,
                allow_origins=cors_origins,
                allow_methods=["GET", "POST", "DELETE"],
                allow_headers=["*"],
                expose_headers=["A2A-Extensions", "X-A2A-Extensions", "ETag", "Retry-After", "WWW-Authenticate"],
            )

    def _service(self, agent: Agent, engine: Operations, cards: Cards, remote: RemoteOperations | None) -> Service:
        if self._telemetry is not None:
            self._telemetry.watch_runs(agent.id, engine.runs)
        policy = self._webhooks or PUBLIC_ONLY
        return Service(
            engine,
            cards,
            security=self._security,
            throttle=self._throttle,
            limits=self.limits,
            extensions=agent.extensions,
            observer=self._telemetry,
            check_webhook=lambda config, path: check_webhook(config, policy, path=path),
            find_extended_card=None if remote is None else remote.get_extended_card,
            tap=self._tap,
        )

    def _trace_headers(self, notification: Notification) -> dict[str, str]:
        return {} if self._telemetry is None else self._telemetry.webhook_headers(notification.key)

    # --- life ---------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[App]:
        """Open the store, take up what a crash left behind, and serve until the block ends.

        Raises:
            RuntimeError: the app runs already, or has run: its engines have drained.
        """
        if self._was_started:
            raise RuntimeError("This app has run already; make a new App to run again")
        self._was_started = True
        async with AsyncExitStack() as stack:
            if self._telemetry is not None:
                self._telemetry.open()
                stack.push_async_callback(self._telemetry.close)
            await stack.enter_async_context(opened(self.log))
            stack.callback(self.health.store.close)
            await stack.enter_async_context(self._sender)
            await stack.enter_async_context(self._deliveries)
            if self._security is not None:
                stack.push_async_callback(self._security.close)
                await self._security.open()
            for service in self.services.values():
                await stack.enter_async_context(service.engine)
            self.pulse.start()
            stack.callback(self.pulse.stop)
            self.is_running = True
            try:
                yield self
            finally:
                await self.drain()
                self.is_running = False

    async def drain(self) -> None:
        """Take no more work, let runs finish for a while, and cut streams off with an error that says to come back."""
        self.health.is_draining = True
        await asyncio.gather(*(service.engine.drain() for service in self.services.values()))

    @property
    def own_urls(self) -> list[str]:
        """Where callers, and the agent behind a proxy, were told to reach the app."""
        urls = [self._public_url] if self._public_url else []
        return urls if self._side_door is None else [*urls, self._side_door.url]

    def announce_grpc(self, port: int, public_url: str | None = None) -> None:
        """Put a gRPC server that listens at this port into the cards, at the host that their readers know.

        SDKs dial a bare `host:port`, so that is what cards say; a public URL is written as it is given.
        """
        self._grpc = (public_url, port)

    def url_of(self, agent_id: str, origin: str) -> str:
        """Where an agent is for callers who know the app by this origin."""
        base_url = self._public_url or origin
        return base_url if len(self.agents) == 1 else f"{base_url}/agents/{quote(agent_id, safe='')}"

    def _grpc_target(self, base_url: str) -> str | None:
        if self._grpc is None:
            return None
        public_url, port = self._grpc
        return public_url or f"{host_of(base_url)}:{port}"

    # --- requests -----------------------------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or follow the server's lifespan."""
        match scope["type"]:
            case "http":
                await self._handle(scope, receive, send)
            case "lifespan":
                await self._follow_lifespan(receive, send)
            case _:
                await send({"type": "websocket.close"})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = HttpRequest(scope, receive, send)
        path = request.path
        request.base_url = self._public_url or request.origin
        if not self.is_running:
            await self._refuse_to_start(request)
        elif path in health.PATHS:
            await self.health.answer(request, path)
        elif path == "/metrics" and self._telemetry is not None and self._telemetry.metrics is not None:
            await self._show_metrics(request, self._telemetry.metrics)
        elif self._side_door is not None and path.startswith(self._side_door.path):
            await self._side_door.receive(request)
        elif len(self._sites) == 1:
            (site,) = self._sites.values()
            await site(request, path)
        else:
            await self._answer_for_many(request, path)

    async def _refuse_to_start(self, request: HttpRequest) -> None:
        """Say that the app is not running; if it never was, say what its author has forgotten, to the log once."""
        if self.health.is_draining:
            error = UnavailableError("The server is not running")
        else:
            error = UnavailableError(NEVER_STARTED)
            if not self._has_complained:
                self._has_complained = True
                logger.error(NEVER_STARTED)
        await refuse(request, Version.V1_0, error)

    async def _show_metrics(self, request: HttpRequest, metrics: Metrics) -> None:
        """The metrics, for whoever may call the agents."""
        try:
            service = next(iter(self.services.values()))
            await service.authenticate(request.credentials, request.address)
        except Exception as error:  # here a request ends
            await refuse(request, Version.V1_0, error)
        else:
            content_type, text = metrics.render(request.headers.get("accept", ""))
            await request.reply(200, text, content_type.encode())

    async def _answer_for_many(self, request: HttpRequest, path: str) -> None:
        _, _, below = path.partition("/agents/")
        segment, slash, rest = below.partition("/")
        site = self._sites.get(unquote(segment)) if path.startswith("/agents/") else None
        if site is not None:
            request.base_url = self.url_of(unquote(segment), request.base_url)
            await site(request, slash + rest)
        elif path in ("", "/", "/agents", "/agents/") and request.verb in ("GET", "HEAD"):
            await request.reply(200, self._directory(request.base_url))
        else:
            await refuse(request, Version.V1_0, MethodNotFoundError("No agent is here; /agents lists them all"))

    def _directory(self, base_url: str) -> bytes:
        """The agents that are served here, and where their cards are."""
        entries = [
            {
                "id": agent.id,
                "name": agent.name,
                "description": agent.description,
                "url": (url := self.url_of(agent.id, base_url)),
                "card": f"{url}/.well-known/agent-card.json",
            }
            for agent in self.agents
        ]
        return msgspec.json.encode({"agents": entries})

    async def _follow_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        kind = "startup"
        try:
            async with self.running():
                await send({"type": "lifespan.startup.complete"})
                kind = "shutdown"
                await receive()
        except Exception as error:  # here the server ends
            logger.exception("The app cannot run")
            await send({"type": f"lifespan.{kind}.failed", "message": str(error)})
        else:
            await send({"type": "lifespan.shutdown.complete"})
