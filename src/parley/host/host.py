"""The host: one engine for the agents of all tenants, with an orchestrator, remote agents and an API of its own.

    host = Host(HostSettings(store="sqlite:///parley.db"))
    await serve(host.app, …)

This module assembles the parts and tells them of changes. `catalogue` knows which agents there are, `orchestration` how
they work, `api` and `a2a` how they are called, and `data` what is kept.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import sys
from collections.abc import Generator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypedDict, Unpack
from urllib.parse import quote
from weakref import WeakValueDictionary

from parley.agents.delegation.delegation import MOST_DEPTH, depth_of
from parley.engine.caller import Caller
from parley.engine.clock import SystemClock
from parley.engine.engine import Engine
from parley.engine.limits import Limits
from parley.engine.runs.run import Run
from parley.host.a2a.cards import AGENTS_PATH
from parley.host.abandoned_tasks import fail_tasks_without_agent
from parley.host.catalogue import Catalogue, GivenAgent
from parley.host.commands.web_fetch import WebFetcher
from parley.host.commands.web_search import SearchProvider
from parley.host.constitution import read_constitution
from parley.host.data.agents import StoredAgents
from parley.host.data.artifacts import Artifacts
from parley.host.data.audit import Audit
from parley.host.data.conversations import Conversations
from parley.host.data.idempotency import IdempotencyKeys
from parley.host.data.memory import Memory
from parley.host.data.scratchpads import Scratchpads
from parley.host.data.tenant import Quotas, Tenant
from parley.host.data.tenants import Tenants
from parley.host.data.usage import Usage
from parley.host.fair_gate import RUNS_AT_ONCE, FairGate
from parley.host.http import HostHttp
from parley.host.models.builtin.table import BUILTIN_MODELS
from parley.host.models.model import ModelMessage, RosterEntry
from parley.host.models.registry import ModelRegistry, ModelRegistrySettings
from parley.host.orchestration.narration import UNAUTHORIZED, failure_metadata
from parley.host.orchestration.services import ModelCall
from parley.host.origin import EXTERNAL
from parley.host.quotas import QuotaBook
from parley.host.remote.config import RemoteAgents
from parley.host.remote.roster import RemoteRoster
from parley.host.starters import STARTERS
from parley.host.task_views import TaskViews
from parley.host.tenant_scheme import TenantTokenScheme
from parley.server.app import App
from parley.server.security.authentication import Security
from parley.server.security.throttle import too_many
from parley.stores.urls import open_store

if TYPE_CHECKING:
    from datetime import timedelta

    from parley.client.guard import Guard
    from parley.engine.webhooks.delivery_limits import DeliveryLimits
    from parley.server.bindings.http import AsgiRequest
    from parley.server.limits import ServerLimits
    from parley.server.pages.signer import Signer
    from parley.server.security.credentials import Identity
    from parley.server.site import Site
    from parley.server.telemetry.telemetry import Telemetry
    from parley.server.webhooks.guard import WebhookPolicy
    from parley.stores.interface import Store, TaskKey

logger = logging.getLogger(__name__)

MOST_WAITING = 1_000
"""Requests of one tenant that wait for their turn: minutes of work. A caller is better told to come back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSettings:
    """How a host behaves."""

    admin_token: str
    """Without it, the admin API is closed: empty."""
    quotas: Quotas = field(default_factory=Quotas)
    """The quotas of tenants that have none of their own."""
    models: ModelRegistrySettings = field(default_factory=ModelRegistrySettings)
    remote_agents: RemoteAgents = field(default_factory=RemoteAgents)
    search: SearchProvider | None = None
    fetcher: WebFetcher = field(default_factory=WebFetcher)
    runs_at_once: int = RUNS_AT_ONCE
    given_agents: tuple[GivenAgent, ...] = ()
    has_starters: bool = True
    """Whether new tenants get the starter agents."""
    public_url: str | None = None
    has_metrics: bool = True
    """Whether `/v1/metrics` is there. It needs no token, so it is for hosts whose callers may know of one another."""


class AppOptions(TypedDict, total=False):
    """The options of `App` that a host passes on."""

    limits: ServerLimits | None
    engine_limits: Limits | None
    signer: Signer | None
    cors_origins: Sequence[str]
    telemetry: Telemetry | None
    webhooks: WebhookPolicy | None
    file_guard: Guard | None
    delivery_limits: DeliveryLimits | None
    retention: timedelta | None
    drain_seconds: float


class Host:
    """A host and its app. The app runs it; everything else goes through its attributes."""

    def __init__(
        self, settings: HostSettings, *, store: str | Store = "memory:", **options: Unpack[AppOptions]
    ) -> None:
        """Nothing is opened yet.

        Raises:
            ValueError: a setting is invalid.
        """
        self.settings = settings
        self.store = open_store(store) if isinstance(store, str) else store
        self.clock = clock = SystemClock()
        records = self.store.records
        self.tenants = Tenants(records, clock)
        self.agents = StoredAgents(records, clock)
        self.conversations = Conversations(records, clock)
        self.artifacts = Artifacts(records, clock)
        self.memory = Memory(records, clock)
        self.scratchpads = Scratchpads(records, clock)
        self.usage = Usage(records, clock)
        self.audit = Audit(records, clock)
        self.idempotency = IdempotencyKeys(records)
        self.models = ModelRegistry(settings.models, builtin=BUILTIN_MODELS)
        self.remote = RemoteRoster(settings.remote_agents)
        self.fetcher = settings.fetcher
        self.search = settings.search
        self.submissions: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        """The submissions in progress, by tenant and idempotency key."""
        self._gates: dict[int, FairGate] = {}
        self._from_outside: set[TaskKey] = set()
        self._disabled: set[str] = set()
        self._cancelling: set[asyncio.Task[Any]] = set()
        # The gates limit runs, by depth and by tenant. A limit by agent could stop those that others wait for.
        limits = options.get("engine_limits") or Limits()
        options["engine_limits"] = replace(limits, runs_at_once=sys.maxsize)
        self.app = App(
            hosted=self,
            store=self.store,
            security=Security({"bearer": TenantTokenScheme(self.tenants)}),
            public_url=settings.public_url,
            **options,
        )
        self.engine: Engine = self.app.local_engine
        self.views = TaskViews(self.engine)
        self.quotas = QuotaBook(
            settings.quotas,
            active=self.active_requests,
            tokens_today=self.usage.tokens_today,
            clock=clock.monotonic,
        )
        self.catalogue = Catalogue(self.engine, self, self, lambda: self.app.shared, settings.given_agents)
        self._http = HostHttp(self)
        self._stack = AsyncExitStack()
        self.tenants.on_change(self._tenant_changed)

    # --- life ---------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Host:
        """Load tenants, agents and usage; the store is open."""
        await self.tenants.load()
        await self.usage.load()
        async for stored in self.agents.all():
            self.catalogue.put(stored)
        self._stack.push_async_callback(self.models.close)
        self._stack.push_async_callback(self.remote.close)
        return self

    async def started(self) -> None:
        """End tasks whose agents were deleted before the host stopped."""
        await fail_tasks_without_agent(self.engine)

    async def __aexit__(self, *error: object) -> None:
        """Close what is open beside the engine."""
        for task in self._cancelling:
            task.cancel()
        await self._stack.aclose()

    async def create_tenant(self, name: str, *, with_starters: bool | None = None) -> tuple[Tenant, str]:
        """A new tenant, and its token, which is shown only now. It gets the starter agents as the settings say."""
        tenant, token = await self.tenants.create(name)
        if self.settings.has_starters if with_starters is None else with_starters:
            for starter in STARTERS:
                self.catalogue.put(await self.agents.create(tenant.id, read_constitution(starter), actor="host"))
        return tenant, token

    def _tenant_changed(self, tenant: Tenant) -> None:
        """Follow a tenant that was loaded, created or changed. The work of a disabled one stops at once."""
        was_disabled = tenant.id in self._disabled
        if tenant.disabled:
            self._disabled.add(tenant.id)
            if not was_disabled:
                self.stop_work(tenant.id, "The tenant was disabled.")
        else:
            self._disabled.discard(tenant.id)
        self.catalogue.put_tenant(tenant)

    def stop_work(self, tenant_id: str, reason: str) -> None:
        """Cancel everything that is at work for a tenant. The tasks say why."""
        runs = [run for run in self.engine.runs.all if run.key.owner.tenant == tenant_id]
        self._cancel(runs, reason, UNAUTHORIZED)

    def remove_agent(self, tenant_id: str, agent_id: str) -> None:
        """Follow the deletion of an agent: it takes no more messages, and its work stops."""
        program_id = self.catalogue.program_id(tenant_id, agent_id)
        self.catalogue.remove(tenant_id, agent_id)
        runs = [run for run in self.engine.runs.all if run.program.id == program_id]
        self._cancel(runs, "The agent was deleted.", "not_found")

    def _cancel(self, runs: Sequence[Run], reason: str, kind: str) -> None:
        for run in runs:
            run.final_metadata = {**run.final_metadata, **failure_metadata(reason, kind)}
            task = asyncio.get_running_loop().create_task(self.engine.runs.cancel(run))
            self._cancelling.add(task)
            task.add_done_callback(self._cancelling.discard)

    # --- for the app --------------------------------------------------------------------------------------------------

    def new_id(self) -> str:
        """A task's id: 16 hexadecimal digits, as documented."""
        return secrets.token_hex(8)

    def agent_named(self, name: str, caller: Caller) -> str | None:
        """The engine's id of the agent that a caller means."""
        return self.catalogue.program_id(caller.tenant, name)

    def site_named(self, name: str, identity: Identity) -> Site | None:
        """The site of the agent that a caller means, for gRPC."""
        tenant = self.tenant(identity.tenant or "")
        site = None if tenant is None else self.catalogue.site(tenant, name)
        return None if site is None else site.site

    def url_of(self, agent_id: str, base_url: str) -> str:
        """The URL of an agent, by the engine's id or its own."""
        return f"{base_url}{AGENTS_PATH}{quote(agent_id.rpartition('/')[2], safe='')}"

    async def receive(self, request: AsgiRequest) -> None:
        """Answer an HTTP request."""
        await self._http.receive(request)

    # --- for programs and turns ---------------------------------------------------------------------------------------

    def gate(self, depth: int) -> FairGate:
        """The gate of runs that are so deep in a chain of delegations. Callers may say that they are deeper still."""
        depth = min(depth, MOST_DEPTH)
        gate = self._gates.get(depth)
        if gate is None:
            gate = self._gates[depth] = FairGate(self.settings.runs_at_once)
        return gate

    def tenant(self, tenant_id: str) -> Tenant | None:
        """A tenant; None if it was disabled or never was."""
        return self.tenants.active(tenant_id)

    def check_quotas(self, tenant: Tenant) -> None:
        """Count one more request of a tenant. Raises RateLimitedError."""
        if sum(gate.waiting(tenant.id) for gate in self._gates.values()) >= MOST_WAITING:
            raise too_many("requests wait already", 1)
        self.quotas.check(tenant)

    def active_requests(self, tenant_id: str) -> int:
        """How many requests of a tenant are at work or wait, without what their agents delegated."""
        return sum(1 for run in self.engine.runs.all if run.key.owner.tenant == tenant_id and self._is_request(run))

    def _is_request(self, run: Run) -> bool:
        """Whether no agent of this host has begun a run: what its message says of that may be forged."""
        return depth_of(run.message) == 0 or EXTERNAL in run.caller.claims or run.key in self._from_outside

    @contextmanager
    def at_work_from_outside(self, key: TaskKey) -> Generator[None]:
        """A block in which a run is at work that came from outside; its caller does not show that any more."""
        self._from_outside.add(key)
        try:
            yield
        finally:
            self._from_outside.discard(key)

    def roster(self, tenant_id: str) -> tuple[RosterEntry, ...]:
        """The agents of a tenant that others may call."""
        return self.catalogue.roster(tenant_id)

    async def history(self, tenant_id: str, conversation: int, *, before: str) -> Sequence[ModelMessage]:
        """What was said in a conversation before a request."""
        return await self.views.history(tenant_id, conversation, before=before)

    def tokens_left(self, tenant: Tenant) -> int | None:
        """How many tokens a tenant may still use today."""
        return self.quotas.tokens_left(tenant)

    def storage_limit(self, tenant: Tenant) -> int | None:
        """How many bytes a tenant may keep; None for the limit of all tenants."""
        return self.quotas.storage_bytes(tenant)

    async def record_usage(self, tenant_id: str, request_id: str, agent_id: str, call: ModelCall, number: int) -> None:
        """Keep the tokens and the cost of a request's model call, which has this number among its calls."""
        priced = (*call, self.models.cost_of(*call))
        await self.usage.record(tenant_id, request_id, agent_id, [priced], first=number)

    def now_text(self) -> str:
        """The present date for prompts."""
        return datetime.now(UTC).date().isoformat()
