"""The ASGI app: one or more agents with their store, security and limits.

    app = App(agent, store="sqlite:///parley.db")

Served alone, the app starts and stops with the ASGI lifespan. When it is mounted into another app, that app must call
`async with app.running()` in its own lifespan. One agent is served at the root, several each at `/agents/{id}`, except
for the one that `root` names.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import datetime, timedelta

import msgspec
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from parley import __version__
from parley.agents.agent import Agent
from parley.agents.authorization import CALLBACK_PATH
from parley.agents.delegation.peers import Peers, names_in
from parley.ai_catalog.model import WELL_KNOWN_PATH
from parley.client.file_fetcher import FileFetcher
from parley.client.guard import Guard
from parley.cluster.hints import Hints
from parley.engine.clock import random_id
from parley.engine.engine import Engine
from parley.engine.limits import Limits
from parley.engine.owner_data import OwnerDataOperations
from parley.engine.webhooks.deliveries import Deliveries
from parley.engine.webhooks.delivery_limits import DeliveryLimits
from parley.engine.webhooks.notifications import Notification
from parley.keys.signing_key import SigningKeys
from parley.network.addresses import is_listed, is_loopback
from parley.network.urls import host_of as host_in
from parley.protocol.errors import A2AError, MethodNotFoundError, UnavailableError
from parley.protocol.versions import Version
from parley.server import health
from parley.server.agent_table import AgentTable, check_agent
from parley.server.app_resources import AppResources, CheckWebhook
from parley.server.bindings.authorization_request import AUTHORIZATION_REQUEST
from parley.server.bindings.body_budget import BodyBudget
from parley.server.bindings.cursor import CURSOR
from parley.server.bindings.http import AsgiRequest, reply_error
from parley.server.bindings.idempotent_send import idempotent_send
from parley.server.bindings.streams import StreamMonitor
from parley.server.contracts import (
    CONSOLE_PATH,
    CSRF_HEADER,
    CallerAuthenticator,
    ConversationObserver,
    ExtraRoute,
    HostedAgents,
    OperationsEngine,
    RemoteOperations,
    ServerConsole,
)
from parley.server.conversation_observers import joined_observers
from parley.server.health import Health
from parley.server.limits import ServerLimits
from parley.server.pages.cards import Cards, host_of
from parley.server.pages.catalog import show_catalog
from parley.server.security.credentials import Identity
from parley.server.security.resource_metadata import (
    RESOURCE_METADATA_PATH,
    ResourceMetadata,
    issuers_of,
    metadata_url,
)
from parley.server.security.throttle import Throttle
from parley.server.service import Service
from parley.server.site import Site
from parley.server.telemetry.metrics import Metrics
from parley.server.telemetry.telemetry import Telemetry
from parley.server.webhooks.auth_settings import WebhookAuthSettings
from parley.server.webhooks.authentication import WebhookAuthenticator
from parley.server.webhooks.guard import PUBLIC_ONLY, WebhookPolicy, check_webhook
from parley.server.webhooks.sender import WebhookSender
from parley.stores.interface import Store
from parley.stores.urls import open_store, opened
from parley.wire.rest import MethodNotAllowedError

logger = logging.getLogger(__name__)

NOT_STARTED = "The app is not running. Put `async with app.running():` into the lifespan of the outer app."
"""ASGI servers do not call the lifespan of a mounted app."""


class App:
    """Agents as an ASGI app.

    `root` is the id of the agent at the root, beside which the others are at `/agents/{id}`; without it, a single agent
    is there, unless there may be `many`.
    `public_url` is the URL that cards name; without it, cards name the host of the request. `signer` signs them if that
    host is known to be the app's own, and tokens for webhooks: a `KeyRing`, `GivenKeys` or `Signer`. `webhooks` says
    which webhooks may be called; None turns push notifications off. `webhook_auth` is how they are authenticated to,
    beyond what their configs contain; a proxy gives the authenticator of its own deliveries. `file_guard` says from
    which hosts handlers may read files that messages name by URL, by default from public ones over https. `hints`
    notifies other apps that share the store. Finished tasks are deleted after `retention`, those of an agent after what
    `agent_retention` or the agent itself says: the shortest that applies wins. `catalog` is the URL of an AI Catalog:
    `turn.delegate` finds names there that no agent of the app has.
    """

    def __init__(
        self,
        *agents: Agent,
        many: bool = False,
        root: str | None = None,
        store: str | Store = "memory:",
        security: CallerAuthenticator | None = None,
        limits: ServerLimits | None = None,
        engine_limits: Limits | None = None,
        public_url: str | None = None,
        signer: SigningKeys | None = None,
        card_version: Version | None = None,
        cors_origins: Sequence[str] = (),
        telemetry: Telemetry | None = None,
        webhooks: WebhookPolicy | None = PUBLIC_ONLY,
        webhook_auth: WebhookAuthSettings | WebhookAuthenticator | None = None,
        file_guard: Guard | None = None,
        delivery_limits: DeliveryLimits | None = None,
        retention: timedelta | None = None,
        agent_retention: Mapping[str, timedelta] | None = None,
        drain_seconds: float = 10.0,
        hints: Hints | None = None,
        remote: RemoteOperations | None = None,
        conversation_observer: ConversationObserver | None = None,
        extra_route: ExtraRoute | None = None,
        hosted: HostedAgents | None = None,
        catalog: str | None = None,
    ) -> None:
        """Assemble the app; nothing is opened yet.

        Three parameters are for a proxy: `remote` runs the operations instead of an engine, `conversation_observer`
        sees every request and reply, and `extra_route` serves what is not part of A2A. `hosted` is for a host: it
        answers all requests, and says which agent a caller means.

        Raises:
            ValueError: there is no agent, an agent has no handler, two agents have the same id, none has that of
                `root`, or webhooks shall be signed without a key.
        """
        if not agents and not many and hosted is None:
            raise ValueError("An app needs at least one agent, or many=True to add agents later")
        root = _root_of(agents, root, many=many)
        self.is_unauthenticated = security is None
        self.limits = limits or ServerLimits()
        self.store = open_store(store) if isinstance(store, str) else store
        self.monitor = StreamMonitor(self.limits)
        self.bodies = BodyBudget(self.limits.bodies_bytes)
        self._security = security
        self.cors_origins = tuple(cors_origins)
        self._public_url = public_url.rstrip("/") if public_url else None
        self._telemetry = telemetry
        self._extra_route = extra_route
        self.conversation_observers = () if conversation_observer is None else (conversation_observer,)
        self._hosted = hosted
        self._console: ServerConsole | None = None
        self._hints = hints
        self._grpc: tuple[str | None, int] | None = None
        self._own_hosts: tuple[str, ...] = ()
        self._has_logged_unsigned = False
        self.is_running = False
        self._was_started = False
        self._has_logged_not_started = False
        # A proxy signs its cards, but not its calls to webhooks: their keys would be those of another agent's URL.
        token_signer = signer if remote is None else None
        authentication = (
            webhook_auth
            if isinstance(webhook_auth, WebhookAuthenticator)
            else WebhookAuthenticator(webhook_auth, signer=token_signer, issuer_of=self._issuer_of)
        )
        self._sender = WebhookSender(
            webhooks or PUBLIC_ONLY, extra_headers=self._trace_headers, authentication=authentication
        )
        self._deliveries = Deliveries(self.store, self._sender, limits=delivery_limits, observer=telemetry)
        self.local_engine = Engine(
            self.store,
            limits=engine_limits,
            retention=retention,
            agent_retention=agent_retention,
            drain_seconds=drain_seconds,
            observer=telemetry,
            deliveries=self._deliveries,
            hints=hints,
            files=FileFetcher(file_guard),
            new_id=random_id if hosted is None else hosted.new_id,
            find_agent=None if hosted is None else hosted.agent_named,
        )
        self.local_engine.public_url = self._public_url
        if catalog is not None:
            self.local_engine.shared(Peers).find_remote = names_in(catalog)
        self.health = Health(self.local_engine.store_health)
        self.engine: OperationsEngine = remote or self.local_engine
        # Behind a proxy without a route for notifications, the agent calls webhooks, and knows its own schemes.
        declared = authentication if remote is None or extra_route is not None else None
        seconds = self.local_engine.limits.idempotency_seconds
        added = (CURSOR, idempotent_send(seconds)) if seconds else (CURSOR,)
        added = (*added, AUTHORIZATION_REQUEST)
        if hosted is not None:
            added = (*added, *hosted.extensions)
        self.shared = AppResources(
            limits=self.limits,
            security=security,
            throttle=Throttle(self.limits.rates),
            monitor=self.monitor,
            bodies=self.bodies,
            observer=telemetry,
            conversation_observer=conversation_observer,
            signer=signer,
            may_sign_for=self._may_sign_for,
            card_version=card_version,
            extensions=added if remote is None else (),  # the card of a remote agent names what that agent has
            check_webhook=None if webhooks is None else _webhook_check(webhooks, declared),
            webhook_auth=declared,
            grpc_target=self._grpc_target,
            find_extended_card=None if remote is None else remote.get_extended_card,
            owner_data=OwnerDataOperations(self.local_engine) if remote is None and hosted is None else None,
        )
        self.table = AgentTable(root, self._make_site)
        if telemetry is not None:
            self._watch(telemetry, signer, calls_webhooks=remote is None)
        for agent in agents:
            self._put(agent, self.local_engine.add)
        self._handle: ASGIApp = _for_pages_of(cors_origins, self._answer) if cors_origins else self._answer

    def install_console(self, console: ServerConsole) -> None:
        """Serve a console below `/console`, and accept its sessions. The app is not running yet."""
        self._console = console

    def _watch(self, telemetry: Telemetry, signer: SigningKeys | None, *, calls_webhooks: bool) -> None:
        """Let telemetry read what others count. A proxy calls the webhooks of its remote agent by itself."""
        telemetry.watch_runs(self.engine.runs)
        if calls_webhooks:
            telemetry.watch_deliveries(self._deliveries)
        if signer is not None:
            telemetry.watch_keys(signer)
        telemetry.watch_agents(self.table)

    def _make_site(self, agent: Agent, since: datetime, grpc_tenant: str | None) -> Site:
        cards = Cards(agent, self.shared, since=since, grpc_tenant=grpc_tenant)
        return Site(Service(agent, self.engine.agent(agent.id), cards, self.shared))

    def _trace_headers(self, notification: Notification) -> dict[str, str]:
        return {} if self._telemetry is None else self._telemetry.webhook_headers(notification.key)

    def _issuer_of(self, agent_id: str) -> str | None:
        """The URL of an agent as tokens name it; None if the app knows neither its public URL nor its port."""
        own_url = self._public_url or self.local_engine.replica.get("url")
        return self.url_of(agent_id, own_url) if isinstance(own_url, str) else None

    # --- agents -------------------------------------------------------------------------------------------------------

    @property
    def agents(self) -> tuple[Agent, ...]:
        """The agents that are served, in the order in which they were added."""
        return self.table.agents

    def add(self, agent: Agent) -> None:
        """Serve one more agent at `/agents/{id}`, from now on; the app may be running.

        Raises:
            ValueError: the agent has no handler, its id is taken, or the app is a proxy.
        """
        self._check_local()
        self._put(agent, self.local_engine.add)

    def replace(self, agent: Agent) -> None:
        """Serve an agent in place of the one with its id. Runs keep the agent that they began with.

        Raises:
            ValueError: the agent has no handler, there is none with its id, or the app is a proxy.
        """
        self._check_local()
        self._put(agent, self.local_engine.replace)

    def remove(self, agent_id: str) -> None:
        """Stop serving an agent. Its runs end by themselves; its tasks stay in the store.

        Raises:
            ValueError: there is no such agent, or the app is a proxy.
        """
        self._check_local()
        self.local_engine.remove(agent_id)
        self.table.remove(agent_id)
        if self._telemetry is not None:
            self._telemetry.remove_agent(agent_id)

    def _put(self, agent: Agent, put: Callable[[Agent], None]) -> None:
        check_agent(agent)
        put(agent)
        self.table.put(agent)

    def _check_local(self) -> None:
        if self.engine is not self.local_engine:
            raise ValueError("A proxy serves the one agent behind it")

    # --- lifespan -----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[App]:
        """Open the store, resume the tasks of an earlier process, and serve until the block ends.

        Raises:
            RuntimeError: the app was started before. Its engines have drained and cannot start again.
        """
        if self._was_started:
            raise RuntimeError("This app was started before; create a new App to run again")
        self._was_started = True
        async with AsyncExitStack() as stack:
            if self._telemetry is not None:
                self._telemetry.open()
                stack.push_async_callback(self._telemetry.close)
            stack.callback(self.shared.signing.close)
            await stack.enter_async_context(opened(self.store))
            stack.callback(self.health.store.close)
            if self._hints is not None:
                await stack.enter_async_context(self._hints)
            if self._hosted is not None:
                await stack.enter_async_context(self._hosted)
            await stack.enter_async_context(self._sender)
            await stack.enter_async_context(self._deliveries)
            if self._security is not None:
                stack.push_async_callback(self._security.close)
            await stack.enter_async_context(self.engine)
            if self._hosted is not None:
                await self._hosted.started()
            self.monitor.start()
            stack.callback(self.monitor.stop)
            if self._console is not None:
                await stack.enter_async_context(self._console)
            self.is_running = True
            try:
                yield self
            finally:
                await self.drain()
                self.is_running = False

    async def drain(self) -> None:
        """Accept no more work, give runs time to finish, and end streams with an error that tells readers to retry."""
        self.health.is_draining = True
        if self._console is not None:
            self._console.drain()
        if self._hosted is not None:
            self._hosted.drain()
        await self.engine.drain()

    @property
    def own_urls(self) -> list[str]:
        """The URLs under which callers, and the agent behind a proxy, know this app."""
        urls = [self._public_url] if self._public_url else []
        return urls if self._extra_route is None else [*urls, self._extra_route.url]

    @property
    def metrics(self) -> Metrics | None:
        """The metrics of its agents and calls, if they are counted."""
        return None if self._telemetry is None else self._telemetry.metrics

    def describe_replica(self, name: str, url: str, *, hosts: Sequence[str] = ()) -> None:
        """Say what operators are shown of this app among those that share its store, and its other host names."""
        started_at = self.local_engine.clock.now().isoformat()
        self._own_hosts = (host_in(url), *hosts)
        self.local_engine.public_url = self.local_engine.public_url or url
        self.local_engine.replica.update(name=name, url=url, version=__version__, started_at=started_at)

    def _may_sign_for(self, url: str) -> bool:
        """Whether a URL is known to be the app's own. Without a public URL, its host is what the caller has sent."""
        host = host_in(url)
        if self._public_url is not None or is_loopback(host) or (host and is_listed(host, self._own_hosts)):
            return True
        if not self._has_logged_unsigned:
            self._has_logged_unsigned = True
            logger.warning(
                "Cards for the host %s are not signed, because any caller can name any host. "
                "Give the URL of the server: --public-url, or App(public_url=…)",
                host,
            )
        return False

    def announce_grpc(self, port: int, public_url: str | None = None) -> None:
        """Add a gRPC server on this port to the cards. Its host is that of the HTTP URL in the card.

        Cards name a bare `host:port`, because SDKs dial that; a public URL is written as given.
        """
        self._grpc = (public_url, port)

    def url_of(self, agent_id: str, origin: str) -> str:
        """The URL of an agent, for callers who reach the app at this origin."""
        table = self.table if self._hosted is None else self._hosted
        return table.url_of(agent_id, self._public_url or origin)

    def site_named(self, name: str, identity: Identity) -> Site | None:
        """The site of the agent that a caller names, or of the one at the root; None if there is none."""
        return self.table.site(name) if self._hosted is None else self._hosted.site_named(name, identity)

    def _grpc_target(self, base_url: str) -> str | None:
        if self._grpc is None:
            return None
        public_url, port = self._grpc
        return public_url or f"{host_of(base_url)}:{port}"

    @contextmanager
    def observing(self, observer: ConversationObserver) -> Generator[None]:
        """Report every request and reply to one more observer until the block ends."""
        self._observe((*self.conversation_observers, observer))
        try:
            yield
        finally:
            self._observe(tuple(one for one in self.conversation_observers if one is not observer))

    def _observe(self, observers: tuple[ConversationObserver, ...]) -> None:
        self.conversation_observers = observers
        self.shared.conversation_observer = joined_observers(observers)

    # --- requests -----------------------------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI connection: an HTTP request or the lifespan."""
        match scope["type"]:
            case "http":
                await self._handle(scope, receive, send)
            case "lifespan":
                await self._follow_lifespan(receive, send)
            case _:
                await send({"type": "websocket.close"})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = AsgiRequest(scope, receive, send)
        path = request.path
        request.base_url = self._public_url or request.origin
        if self._security is not None:
            request.find_resource_metadata = self._find_resource_metadata
        if not self.is_running:
            await self._reply_not_running(request)
        elif path in health.PATHS:
            await self.health.answer(request, path)
        elif (
            self._console is not None
            and (CSRF_HEADER in request.headers or path.startswith(CONSOLE_PATH))
            and await self._console.answer(request)
        ):
            return
        elif path == CALLBACK_PATH and self.engine is self.local_engine:
            # Not above: few agents send people to authorization servers, and the others need no OAuth client.
            from parley.server.authorization_callback import AuthorizationCallback

            await AuthorizationCallback(self.local_engine).receive(request)
        elif path == "/" and request.verb == "GET" and self._leads_to_console(request):
            await request.reply(307, b"", b"text/plain", [(b"location", b"console/")])
        elif self._hosted is not None:  # also the metrics: tenants must not see those of others
            await self._hosted.receive(request)
        elif path == "/metrics" and (metrics := self.metrics) is not None:
            await self._show_metrics(request, metrics)
        elif self._extra_route is not None and path.startswith(self._extra_route.path):
            await self._extra_route.receive(request)
        elif path.startswith(RESOURCE_METADATA_PATH) and issuers_of(self._security):
            await self._show_resource_metadata(request, path.removeprefix(RESOURCE_METADATA_PATH))
        elif path == WELL_KNOWN_PATH:
            await show_catalog(self.table, request, cache=self.shared.pages)
        elif (found := self.table.find(path)) is not None:
            site, rest = found
            request.base_url = self.table.url_of(site.service.agent_id, request.base_url)
            await site(request, rest)
        else:
            await self._answer_without_agent(request, path)

    def _leads_to_console(self, request: AsgiRequest) -> bool:
        """Whether a request for `/` is a person's who looks for something to see."""
        return self._console is not None and self.table.is_directory("/") and request.accepts_html()

    async def _reply_not_running(self, request: AsgiRequest) -> None:
        """Reply that the app is not running; if it was never started, say how to start it, and log that once."""
        if self.health.is_draining:
            error = UnavailableError("The server is not running")
        else:
            error = UnavailableError(NOT_STARTED)
            if not self._has_logged_not_started:
                self._has_logged_not_started = True
                logger.error(NOT_STARTED)
        await reply_error(request, Version.V1_0, error)

    async def _show_metrics(self, request: AsgiRequest, metrics: Metrics) -> None:
        """Reply with the metrics, to callers who may call the agents."""
        try:
            await self.shared.authenticate(request.credentials, request.address)
        except Exception as error:  # here a request ends
            await reply_error(request, Version.V1_0, error)
        else:
            content_type, text = metrics.render(request.headers.get("accept", ""))
            await request.reply(200, text, content_type.encode())

    def resource_metadata_of(self, url: str) -> str | None:
        """The URL of the protected resource metadata of the whole app, for callers who reach it at a URL."""
        app_url = self._public_url or url
        return metadata_url(app_url, app_url) if issuers_of(self._security) else None

    def _find_resource_metadata(self, request: AsgiRequest) -> str | None:
        app_url = self._public_url or request.origin
        resource = app_url if self._hosted is not None else request.base_url  # all of a host is one resource
        return metadata_url(app_url, resource) if issuers_of(self._security) else None

    async def _show_resource_metadata(self, request: AsgiRequest, path: str) -> None:
        """Reply with the protected resource metadata of the app, or of the agent at a path of it."""
        found = self.table.find(path) if path not in ("", "/") else None
        assert self._security is not None, "It has issuers"
        if request.verb not in ("GET", "HEAD"):
            await reply_error(request, Version.V1_0, MethodNotAllowedError(["GET", "HEAD"]))
        elif path in ("", "/") or (found is not None and found[1] in ("", "/")):
            scopes = sorted({scope for one in self._security.requirements for of in one.values() for scope in of})
            resource = request.base_url.rstrip("/") + path.rstrip("/")
            metadata = ResourceMetadata(resource, issuers_of(self._security), scopes_supported=scopes)
            await request.reply(200, msgspec.json.encode(metadata))
        else:
            await reply_error(request, Version.V1_0, MethodNotFoundError("No agent at this URL; see /agents"))

    async def _answer_without_agent(self, request: AsgiRequest, path: str) -> None:
        try:
            if not (self.table.is_directory(path) and request.verb in ("GET", "HEAD")):
                raise MethodNotFoundError("No agent at this URL; see /agents")
            body = self.table.directory(request.base_url, request.query)
        except A2AError as error:
            await reply_error(request, Version.V1_0, error)
        else:
            await request.reply(200, body)

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


def _root_of(agents: Sequence[Agent], root: str | None, *, many: bool) -> str | None:
    """The id of the agent that is served at the root, if one is. Raises ValueError if there is no agent `root`."""
    if root is not None and root not in (ids := [agent.id for agent in agents]):
        raise ValueError(f"No agent has the id {root!r}, to be served at the root; there are: {', '.join(ids)}")
    return agents[0].id if root is None and len(agents) == 1 and not many else root


def _webhook_check(policy: WebhookPolicy, authentication: WebhookAuthenticator | None) -> CheckWebhook:
    """What refuses push configs when they are registered; `authentication` is of the schemes that the card offers."""
    return lambda config, path, version: check_webhook(
        config, policy, path=path, version=version, authentication=authentication
    )


def _for_pages_of(origins: Sequence[str], app: ASGIApp) -> ASGIApp:
    """An app that web pages of these origins may call."""
    return CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=["GET", "POST", "PATCH", "DELETE"],
        allow_headers=["*"],
        expose_headers=[
            "A2A-Extensions",
            "X-A2A-Extensions",
            "ETag",
            "Mcp-Session-Id",
            "Retry-After",
            "WWW-Authenticate",
        ],
    )
