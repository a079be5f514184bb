"""The host: one engine for the agents of all tenants, with an orchestrator, remote agents and an API of its own.

    host = Host(HostSettings(admin_token="…"), store="sqlite:///parley.db")
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

from parley.agents.delegation.delegation import depth_of
from parley.agents.delegation.peers import Peers
from parley.cluster.hints import Hints
from parley.engine.caller import Caller
from parley.engine.clock import SystemClock
from parley.engine.engine import Engine
from parley.engine.limits import Limits
from parley.engine.runs.run import Run
from parley.host.a2a.cards import AGENTS_PATH
from parley.host.a2a.extensions import HOST_EXTENSIONS
from parley.host.abandoned_tasks import fail_tasks_without_agent
from parley.host.access.principal import principal_of
from parley.host.admission_elsewhere import AdmissionElsewhere
from parley.host.api.catalog_search import CatalogSearch
from parley.host.api.public_catalog import PublicCatalog
from parley.host.approvals.desk import ApprovalDesk
from parley.host.approvals.expiry import ApprovalExpiry
from parley.host.approvals.recovery import recover_approvals
from parley.host.bearer_scheme import HostBearerScheme
from parley.host.budgets.budgets import Budgets
from parley.host.budgets.scopes import CallAccount
from parley.host.catalogue import Catalogue, GivenAgent
from parley.host.changes_elsewhere import ChangesElsewhere
from parley.host.commands.web_fetch import WebFetcher
from parley.host.commands.web_search import SearchProvider
from parley.host.constitution import is_agent_id, read_constitution
from parley.host.conversation_turns import ConversationTurns
from parley.host.data.access_tokens import AccessTokens
from parley.host.data.agents import StoredAgents
from parley.host.data.approval_timers import ApprovalTimers
from parley.host.data.approvals import Approvals
from parley.host.data.artifacts import Artifacts
from parley.host.data.audit import Audit
from parley.host.data.catalog_sources import CatalogSources
from parley.host.data.conversation_holders import ConversationHolders
from parley.host.data.conversations import Conversations
from parley.host.data.idempotency import IdempotencyKeys
from parley.host.data.mcp_servers import StoredMcpServers
from parley.host.data.memory import Memory
from parley.host.data.public_agents import PublicAgents
from parley.host.data.registered_agents import RegisteredAgents
from parley.host.data.registry_checks import RegistryChecks
from parley.host.data.roles import TenantRoles
from parley.host.data.run_requests import RunRequests
from parley.host.data.scratchpads import Scratchpads
from parley.host.data.service_accounts import ServiceAccounts
from parley.host.data.stops import Stop, Stops
from parley.host.data.tenant import Quotas, Tenant, retention_of
from parley.host.data.tenants import Tenants
from parley.host.data.usage import Usage
from parley.host.data.usage_reports import UsageReports
from parley.host.draft_names import drafted_agent
from parley.host.fair_gate import RUNS_AT_ONCE
from parley.host.http import HostHttp
from parley.host.kill_switch import KillSwitch
from parley.host.mcp.config import McpServers
from parley.host.mcp.roster import McpRoster
from parley.host.models.builtin.table import BUILTIN_MODELS
from parley.host.models.model import ModelMessage, RosterEntry
from parley.host.models.registry import ModelRegistry, ModelRegistrySettings
from parley.host.operator_access import OperatorAccess
from parley.host.orchestration.narration import UNAUTHORIZED, failure_metadata
from parley.host.orchestration.services import ModelCall
from parley.host.origin import EXTERNAL
from parley.host.owner_records import HostDataOperations
from parley.host.people import People, PeopleSettings
from parley.host.quotas import QuotaBook
from parley.host.registry.registry import Registry
from parley.host.registry.timing import CheckTiming
from parley.host.registry.watcher import RegistryWatcher
from parley.host.remote.config import RemoteAgents
from parley.host.remote.roster import RemoteRoster, UnknownRemoteAgentError
from parley.host.replicas import Replicas
from parley.host.run_request_handler import RunRequestHandler
from parley.host.schedules.service import HostSchedules
from parley.host.starters import STARTERS
from parley.host.task_views import TaskViews
from parley.host.transfer.service import TenantTransfer
from parley.host.turns import Turns
from parley.protocol.errors import LocalProtocolError
from parley.server.app import App
from parley.server.security.authentication import Security
from parley.server.security.throttle import too_many
from parley.stores.urls import open_store

if TYPE_CHECKING:
    from datetime import timedelta

    from parley.client.client import Client
    from parley.client.guard import Guard
    from parley.engine.webhooks.delivery_limits import DeliveryLimits
    from parley.host.a2a.site import HostedSite
    from parley.keys.signing_key import SigningKeys
    from parley.protocol.cards import AgentExtension
    from parley.server.bindings.http import AsgiRequest
    from parley.server.limits import ServerLimits
    from parley.server.security.credentials import Identity
    from parley.server.site import Site
    from parley.server.telemetry.telemetry import Telemetry
    from parley.server.webhooks.auth_settings import WebhookAuthSettings
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
    mcp_servers: McpServers = field(default_factory=McpServers)
    search: SearchProvider | None = None
    fetcher: WebFetcher = field(default_factory=WebFetcher)
    runs_at_once: int = RUNS_AT_ONCE
    given_agents: tuple[GivenAgent, ...] = ()
    public_agents: tuple[str, ...] = ()
    """The ids of given agents for all tenants that are in the public catalogue."""
    check_timing: CheckTiming = field(default_factory=CheckTiming)
    """When registered agents and catalogues are checked."""
    has_starters: bool = True
    """Whether new tenants get the starter agents."""
    people: PeopleSettings = field(default_factory=PeopleSettings)
    """Who may log in with OpenID Connect."""
    public_url: str | None = None
    has_metrics: bool = True
    """Whether `/v1/metrics` is there. It needs no token, so it is for hosts whose callers may know of one another."""


class AppOptions(TypedDict, total=False):
    """The options of `App` that a host passes on."""

    limits: ServerLimits | None
    engine_limits: Limits | None
    signer: SigningKeys | None
    cors_origins: Sequence[str]
    telemetry: Telemetry | None
    webhooks: WebhookPolicy | None
    webhook_auth: WebhookAuthSettings | None
    file_guard: Guard | None
    delivery_limits: DeliveryLimits | None
    retention: timedelta | None
    drain_seconds: float
    hints: Hints | None


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
        self.replicas = Replicas(self.store, clock)
        self.records = records = self.replicas.records
        self.tenants = Tenants(records, clock)
        self.roles = TenantRoles(records, clock)
        self.accounts = ServiceAccounts(records, clock, self.roles)
        self.access_tokens = AccessTokens(records, clock, self.roles, self.accounts)
        self.people = People(settings.people, self.roles) if settings.people.issuers else None
        self.agents = StoredAgents(records, clock)
        self.stops = Stops(records, clock)
        self.conversations = Conversations(records, clock)
        self.artifacts = Artifacts(records, clock)
        self.memory = Memory(records, clock)
        self.scratchpads = Scratchpads(records, clock)
        self.usage = Usage(records, clock)
        self.usage_reports = UsageReports(self.usage)
        self.budgets = Budgets(records, clock, self.usage, lambda: self.models)
        self.approvals = ApprovalDesk(lambda: self.engine, Approvals(records, clock))
        self.approval_expiry = ApprovalExpiry(self.approvals, ApprovalTimers(records), clock)
        self.audit = Audit(records, clock)
        self.idempotency = IdempotencyKeys(records)
        self.models = ModelRegistry(settings.models, builtin=BUILTIN_MODELS)
        checks = RegistryChecks(records, clock)
        self.registry = Registry(
            RegisteredAgents(records, clock, checks),
            CatalogSources(records, clock, checks),
            checks,
            allowed_hosts=settings.remote_agents.allow_private_hosts,
            clock=clock,
            timing=settings.check_timing,
        )
        self.public_agents = PublicAgents(records, clock)
        self.catalog_search = CatalogSearch(self)
        self.registry_watcher = RegistryWatcher(self.registry, is_active=lambda tenant: self.tenant(tenant) is not None)
        self.remote = RemoteRoster(settings.remote_agents, self.registry)
        self.mcp_servers = StoredMcpServers(records, clock)
        self.mcp = McpRoster(settings.mcp_servers, self.mcp_servers)
        self.fetcher = settings.fetcher
        self.search = settings.search
        self.submissions: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        """The submissions in progress, by tenant and idempotency key."""
        self._from_outside: set[TaskKey] = set()
        self._disabled: set[str] = set()
        self._cancelling: set[asyncio.Task[Any]] = set()
        # The gates limit runs, by depth and by tenant. A limit by agent could stop those that others wait for.
        limits = options.get("engine_limits") or Limits()
        options["engine_limits"] = replace(limits, runs_at_once=sys.maxsize)
        scheme = HostBearerScheme(
            self.tenants, self.access_tokens, self.people, look_for_missing=self.replicas.look_for_missing
        )
        self.app = App(
            hosted=self,
            store=self.store,
            security=Security({"bearer": scheme}),
            public_url=settings.public_url,
            **options,
        )
        self.engine: Engine = self.app.local_engine
        self.app.shared.owner_data = HostDataOperations(self.engine)
        self.engine.tenant_retention = lambda: retention_of(self.tenants.list())
        holders = ConversationHolders(
            records,
            self.store,
            is_here=lambda key: self.engine.runs.find(key) is not None,
            may_be_alive=self.engine.claims.may_be_alive,
        )
        requests = RunRequests(records, clock)
        conversation_turns = ConversationTurns(self.engine, holders, requests)
        self.turns = Turns(self.engine, settings.runs_at_once, conversation_turns)
        self.run_requests = RunRequestHandler(requests, self.engine, self.turns)
        self.kill_switch = KillSwitch(self.stops, self.engine)
        self.engine.shared(Peers).find_remote = self.remote_named
        self.views = TaskViews(self.engine)
        self.quotas = QuotaBook(
            settings.quotas,
            active=lambda tenant: self.own_active_requests(tenant) + self.replicas.active_requests(tenant),
            tokens_today=self.usage.tokens_today,
            clock=clock.monotonic,
        )
        self.admission = AdmissionElsewhere(self)
        self.catalogue = Catalogue(
            self.engine,
            self,
            self,
            lambda: self.app.shared,
            settings.given_agents,
            tokens=self.access_tokens,
            admission=self.admission,
        )
        self.schedules = HostSchedules(
            records,
            clock,
            self.engine,
            self.conversations,
            self.quotas,
            tenant=self.tenant,
            find_program=self.find_program,
        )
        self.transfer = TenantTransfer(self.engine, self.tenants, clock, learn_tenant=self._tenant_imported)
        self.public_catalog = PublicCatalog(self)
        self.operator = OperatorAccess(self)
        self._http = HostHttp(self)
        self._stack = AsyncExitStack()
        self.tenants.on_change(self._tenant_changed)
        self.tenants.on_token_replaced(lambda id: self.stop_work(id, "The token of the tenant was replaced."))
        self.replicas.attach(self)

    # --- life ---------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Host:
        """Load tenants, agents and usage; the store is open."""
        await self.replicas.begin()
        self._stack.callback(self.replicas.close)
        await self.transfer.remove_cut_off()
        await self.tenants.load()
        await self.usage.load()
        await self.budgets.load()
        await self.stops.refresh()
        async for stored in self.agents.all():
            self.catalogue.put(stored)
        self._stack.push_async_callback(self.models.close)
        self._stack.push_async_callback(self.kill_switch.close)
        self._stack.push_async_callback(self.remote.close)
        self._stack.push_async_callback(self.registry_watcher.close)
        self._stack.push_async_callback(self.mcp.close)
        self._stack.push_async_callback(self._http.mcp.close)
        return self

    async def started(self) -> None:
        """End tasks whose agents were deleted before the host stopped, and run what is due by schedule."""
        await self.replicas.start()
        await fail_tasks_without_agent(self.engine)
        if self.tenants.list():  # otherwise the first one is still to be created
            await self.name_useless_grants()
        self.registry_watcher.start()
        await self.turns.open()
        self.schedules.start()
        self.engine.in_background(recover_approvals(self.engine, self.approvals))
        self.engine.in_background(self.approval_expiry.run())
        if self.store.is_shared:
            self.engine.in_background(self.budgets.keep_refreshing())

    async def name_useless_grants(self) -> None:
        """Log the grants of people that give nothing, because their tenant or their role is unknown."""
        if self.people is not None:
            for fault in await self.people.useless_grants([tenant.id for tenant in self.tenants.list()]):
                logger.warning("People: %s", fault)

    def use_people(self, settings: PeopleSettings) -> None:
        """Let in the people of these issuers from now on, in place of those before.

        Raises:
            ValueError: an issuer is not valid; nothing has changed. A host that began without issuers stays without.
        """
        if self.people is None:
            raise ValueError("A host that began without issuers stays without")
        self.people.use(settings)
        self.app.shared.security_was_replaced()
        self.engine.in_background(self.name_useless_grants())

    def drain(self) -> None:
        """End streams of MCP that wait for changes."""
        self._http.mcp.drain()

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

    async def find_program(self, tenant_id: str, name: str) -> str | None:
        """The engine's id of the agent that a name means to a tenant, also if another process has just created it."""
        found = self.catalogue.program_id(tenant_id, name)
        if found is None and is_agent_id(name) and await self.replicas.look_for_missing():
            found = self.catalogue.program_id(tenant_id, name)
        return found

    async def know_tenant(self, tenant_id: str) -> None:
        """Learn of a tenant that another process may have just created."""
        if not self.tenants.has(tenant_id):
            await self.replicas.look_for_missing()

    async def learn_tenant(self, tenant_id: str) -> None:
        """Read everything of a new tenant that is kept in memory: it may have been imported."""
        await self.usage.load_tenant(tenant_id)
        await self.budgets.load_tenant(tenant_id)
        await self.stops.refresh()
        await ChangesElsewhere(self).follow_agents(tenant_id)

    async def _tenant_imported(self, tenant_id: str) -> None:
        await self.learn_tenant(tenant_id)
        self.engine.in_background(recover_approvals(self.engine, self.approvals))

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
        self.stops.forget(tenant_id, agent_id)
        runs = [run for run in self.engine.runs.all if run.program.id == program_id]
        self._cancel(runs, "The agent was deleted.", "not_found")
        self.approvals.agent_deleted(tenant_id)

    def _cancel(self, runs: Sequence[Run], reason: str, kind: str) -> None:
        for run in runs:
            run.final_metadata = {**run.final_metadata, **failure_metadata(reason, kind)}
            task = asyncio.get_running_loop().create_task(self.engine.runs.cancel(run))
            self._cancelling.add(task)
            task.add_done_callback(self._cancelling.discard)

    # --- for the app --------------------------------------------------------------------------------------------------

    @property
    def extensions(self) -> tuple[AgentExtension, ...]:
        """The extensions that all agents have."""
        return HOST_EXTENSIONS

    def new_id(self) -> str:
        """A task's id: 16 hexadecimal digits, as documented."""
        return secrets.token_hex(8)

    def agent_named(self, name: str, caller: Caller) -> str | None:
        """The engine's id of the agent that a caller means."""
        return self.catalogue.program_id(caller.tenant, name)

    async def remote_named(self, name: str, caller: Caller) -> Client | None:
        """A client of the remote or registered agent that a caller means; None if the caller's tenant is not active.

        Raises:
            LocalProtocolError: there is none; the message names those that there are.
        """
        tenant = self.tenant(caller.tenant)
        try:
            return None if tenant is None else await self.remote.client(tenant, name)
        except UnknownRemoteAgentError as error:
            local = ", ".join([entry.id for entry in self.roster(caller.tenant)][:50]) or "none"
            raise LocalProtocolError(f"{error.message}. Agents of this host: {local}") from error

    def site_named(self, name: str, identity: Identity) -> Site | None:
        """The site of the agent that a caller means, for gRPC."""
        tenant = self.tenant(identity.tenant or "")
        site = None if tenant is None else self.catalogue.site(tenant, name)
        return None if site is None else site.site

    async def site_for(self, tenant: Tenant, name: str, identity: Identity) -> HostedSite | None:
        """The site of the agent that a caller of a tenant means, or of the caller's own draft of an agent."""
        drafted = drafted_agent(name)
        await self.find_program(tenant.id, drafted or name)
        if drafted is None:
            return self.catalogue.site(tenant, name)
        author = principal_of(tenant.id, identity.scopes, identity.claims).name
        draft = await self.agents.drafts.find(tenant.id, drafted, author) if is_agent_id(drafted) else None
        return None if draft is None else self.catalogue.draft_site(tenant, draft)

    def url_of(self, agent_id: str, base_url: str) -> str:
        """The URL of an agent, by the engine's id or its own."""
        return f"{base_url}{AGENTS_PATH}{quote(agent_id.rpartition('/')[2], safe='')}"

    async def receive(self, request: AsgiRequest) -> None:
        """Answer an HTTP request."""
        await self._http.receive(request)

    # --- for programs and turns ---------------------------------------------------------------------------------------

    def tenant(self, tenant_id: str) -> Tenant | None:
        """A tenant; None if it was disabled or never was."""
        return self.tenants.active(tenant_id)

    def check_undecided(self, tenant_id: str, task_id: str) -> None:
        """Refuse a decision for a task whose approval is decided. Raises NotWaitingError, which says by whom."""
        self.approvals.check_undecided(tenant_id, task_id)

    def task_waits(self, key: TaskKey) -> None:
        """Look at a task that waits for input now: what it waits for may have come a moment before."""
        self.approvals.task_waits(key)

    def task_released(self, key: TaskKey) -> None:
        """Withdraw what a task waited for that has ended without a run."""
        self.approvals.task_released(key)

    def check_quotas(self, tenant: Tenant) -> None:
        """Count one more request of a tenant. Raises RateLimitedError."""
        if self.turns.waiting(tenant.id) + self.replicas.waiting(tenant.id) >= MOST_WAITING:
            raise too_many("requests wait already", 1)
        self.quotas.check(tenant)

    def check_message_quotas(self, tenant: Tenant) -> None:
        """Count one more message of a tenant to a task that is at work. Raises RateLimitedError."""
        self.quotas.check_message(tenant)

    def own_active_requests(self, tenant_id: str) -> int:
        """How many requests of a tenant are at work or wait in this process, without what their agents delegated."""
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

    def stop_of(self, tenant_id: str, agent_id: str) -> Stop | None:
        """Why an agent of a tenant is stopped; None if it is not."""
        return self.stops.find(tenant_id, agent_id)

    def roster(self, tenant_id: str) -> tuple[RosterEntry, ...]:
        """The agents of a tenant that others may call."""
        return self.catalogue.roster(tenant_id)

    async def history(self, tenant_id: str, conversation: int, *, before: str) -> Sequence[ModelMessage]:
        """What was said in a conversation before a request."""
        return await self.views.history(tenant_id, conversation, before=before)

    async def tokens_left(self, tenant: Tenant) -> int | None:
        """How many tokens a tenant may still use today, whichever process has counted them."""
        if self.store.is_shared and self.quotas.tokens_left(tenant) is not None:
            await self.usage.refresh(tenant.id)
        return self.quotas.tokens_left(tenant)

    def storage_limit(self, tenant: Tenant) -> int | None:
        """How many bytes a tenant may keep; None for the limit of all tenants."""
        return self.quotas.storage_bytes(tenant)

    def check_budgets(self, tenant: Tenant, agent_id: str) -> None:
        """Refuse a request if the budget of the tenant or the agent is used up. Raises RateLimitedError."""
        self.budgets.check_admission(tenant.id, agent_id)

    async def record_usage(self, account: CallAccount, call: ModelCall, *, is_reserved: bool = False) -> None:
        """Keep the tokens and the cost of a model call. If a budget holds for it, the budget is settled with it."""
        model, usage = call
        cost = self.models.cost_of(model, usage)
        is_budgeted = is_reserved or await self.budgets.holds_for(account)
        await self.usage.record(
            account.tenant,
            account.task_id,
            account.agent,
            [(model, usage, cost)],
            first=account.number,
            caller=account.caller,
            conversation=account.conversation,
            settlement=(lambda: self.budgets.settlement(account, usage, cost)) if is_budgeted else None,
        )

    def now_text(self) -> str:
        """The present date for prompts."""
        return datetime.now(UTC).date().isoformat()
