"""The console of a host: the agents of the caller's tenant, and operators. No other module imports `parley.host`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from urllib.parse import quote

from parley.agents.agent import Agent
from parley.console.api.errors import ConsoleError
from parley.console.backend import ConsoleCaller, Feature, OwnAgent, OwnerFilter, Right, ServerKind
from parley.console.sessions import SessionCredentials
from parley.engine.engine import Engine
from parley.engine.store_errors import translated
from parley.host.a2a.cards import AGENTS_PATH, REST_PATH
from parley.host.access.principal import Principal, principal_of
from parley.host.access.scopes import ALL_SCOPES, Scope
from parley.host.api.catalog_entries import OriginEntry, tenant_entries
from parley.host.data.errors import HostDataError, NotFoundError
from parley.host.data.keys import APPROVALS_PENDING
from parley.host.data.roles import Grant
from parley.host.data.tenant import Tenant
from parley.host.errors import Unauthorized
from parley.host.host import Host
from parley.host.origin import owner_name
from parley.host.people import TENANT_HEADER
from parley.protocol.cards import SecurityScheme
from parley.protocol.errors import UnauthenticatedError
from parley.server.app import App
from parley.server.bindings.http import AsgiRequest
from parley.server.security.credentials import Identity

FEATURES: Sequence[Feature] = ("agents", "chat", "tasks", "trees", "wire", "checks", "remote", "approvals", "operate")

OPERATOR_NAME = "operator"

LINK_TOKEN_NAME = "Console link"
LINK_TOKEN_SECONDS = 7 * 86_400
"""As long as a session can last."""

CONSOLE = "console"
"""The principal that creates and revokes the tokens of links, in the audit."""


class HostedBackend:
    """What a console knows of a host."""

    def __init__(self, host: Host) -> None:
        self._host = host

    @property
    def host(self) -> Host:
        """The host, for what only hosts have."""
        return self._host

    async def remote_agents(self, tenant_id: str, base_url: str) -> Sequence[OriginEntry]:
        """The agents elsewhere that a tenant may call: those that the operator lists, and those it has registered."""
        tenant = self._host.tenant(tenant_id)
        if tenant is None:
            return []
        return [
            one for one in await tenant_entries(self._host, tenant, base_url) if one.origin in ("remote", "registered")
        ]

    @property
    def app(self) -> App:
        """The ASGI app."""
        return self._host.app

    @property
    def kind(self) -> ServerKind:
        """It is a host."""
        return "host"

    @property
    def name(self) -> str:
        """Hosts have no names."""
        return "Parley"

    @property
    def engine(self) -> Engine | None:
        """The engine of all tenants."""
        return self._host.engine

    def features(self, caller: ConsoleCaller | None) -> Sequence[Feature]:
        """Everything; what a caller may not do is refused where it is done."""
        return FEATURES

    @property
    def schemes(self) -> Mapping[str, SecurityScheme]:
        """Bearer tokens, of tenants, their people and the operator."""
        security = self._host.app.shared.security
        return {} if security is None else security.schemes

    @property
    def needs_login(self) -> bool:
        """Every request to a host needs a token."""
        return True

    # --- callers ------------------------------------------------------------------------------------------------------

    async def authenticate(self, request: AsgiRequest) -> ConsoleCaller:
        """Identify a tenant's principal, or the operator, who may act for a tenant."""
        if self._host.operator.is_operator(request):
            return await self._authenticate_operator(request)
        identity = await self._host.app.shared.authenticate(request.credentials, request.address)
        tenant = self._host.tenant(identity.tenant or "")
        if tenant is None:
            raise UnauthenticatedError
        return ConsoleCaller(
            identity=identity,
            name=_name(identity, tenant),
            tenant=tenant.id,
            tenant_name=tenant.name,
            scopes=identity.scopes,
        )

    async def _authenticate_operator(self, request: AsgiRequest) -> ConsoleCaller:
        """The operator, acting for a tenant if that is there: an operator may have just disabled it."""
        operator = self._host.operator
        await operator.admit(request)
        identity, tenant_name = Identity(OPERATOR_NAME), ""
        if operator.acts_for_tenant(request):
            with suppress(NotFoundError, Unauthorized):
                identity = await operator.identity(request)
                tenant_name = self.tenant_name(identity.tenant or "")
        return ConsoleCaller(
            identity=identity,
            name=OPERATOR_NAME,
            tenant=identity.tenant or "",
            tenant_name=tenant_name,
            scopes=identity.scopes,
            is_operator=True,
        )

    def require(self, caller: ConsoleCaller, right: Right) -> None:
        """Scopes mean the same as in A2A and the native API. An operator may do everything."""
        if not caller.is_operator:
            principal_of(caller.tenant, caller.scopes, caller.identity.claims).require(Scope(right))

    def owners(self, caller: ConsoleCaller) -> OwnerFilter:
        """The tasks of the caller's tenant; those of all tenants for an operator who has chosen none."""
        if caller.tenant:
            return OwnerFilter(caller.tenant, owner_name(caller.tenant))
        return OwnerFilter(None, None) if caller.is_operator else OwnerFilter("", caller.identity.name)

    async def waiting_approvals(self, caller: ConsoleCaller) -> int:
        """How many approvals of the caller's tenant wait; none for an operator who has chosen no tenant."""
        if not caller.tenant:
            return 0
        with translated:
            return await self._host.records.count(APPROVALS_PENDING, caller.tenant)

    def tenant_headers(self, tenant: str) -> Mapping[str, str]:
        """The header in which operators, and people with several tenants, name one."""
        return {TENANT_HEADER: tenant}

    async def cost_of_call(self, tenant: str, task_id: str, number: int) -> tuple[str, str] | None:
        """What the usage of the tenant says of a call, in the currency of the price list."""
        cost = await self._host.usage.cost_of_call(tenant, task_id, number)
        return None if cost is None else (cost, self._host.models.currency)

    def tenant_name(self, tenant: str) -> str:
        """The name of a tenant; its id if it is gone."""
        return self._host.tenants.get(tenant).name if self._host.tenants.has(tenant) else tenant

    # --- links --------------------------------------------------------------------------------------------------------

    def check_link(self, purpose: str | None) -> str:
        """The id of the tenant that a link logs in as: of the first one, if none is named."""
        active = [tenant.id for tenant in self._host.tenants.list() if not tenant.disabled]
        if purpose is None and active:
            return active[0]
        if purpose is None or purpose not in active:
            raise ConsoleError("not_found", "There is no such tenant, or it is disabled", path="$.tenant")
        return purpose

    async def redeem_link(self, purpose: str) -> SessionCredentials:
        """A new access token of the tenant, which the session alone has. The tenant's owners can revoke it."""
        try:
            _, token = await self._host.access_tokens.create(
                LINK_TOKEN_NAME,
                Grant(role="owner"),
                by=Principal(CONSOLE, self.check_link(purpose), ALL_SCOPES),
                lifetime_seconds=LINK_TOKEN_SECONDS,
            )
        except HostDataError as error:
            raise ConsoleError("conflict", error.message) from error
        return SessionCredentials({"authorization": f"Bearer {token}"}, is_from_link=True)

    async def forget(self, credentials: SessionCredentials) -> None:
        """Revoke the token of a link."""
        if not credentials.is_from_link:
            return
        principal = await self._host.access_tokens.find(credentials.headers["authorization"].removeprefix("Bearer "))
        if principal is not None:
            await self._host.access_tokens.revoke(principal.token, by=Principal(CONSOLE, principal.tenant))

    # --- agents -------------------------------------------------------------------------------------------------------

    def agents(self, caller: ConsoleCaller) -> Sequence[OwnAgent]:
        """The agents of the caller's tenant."""
        if not caller.tenant:
            return ()
        return [self._view(agent, caller.tenant) for agent in self._host.catalogue.agents(caller.tenant)]

    def find_agent(self, caller: ConsoleCaller, agent_id: str) -> OwnAgent | None:
        """One of these agents."""
        found = self._host.catalogue.find(caller.tenant, agent_id) if caller.tenant else None
        return None if found is None else self._view(found.agent, caller.tenant)

    def agent_of_program(self, program_id: str, tenant: str) -> OwnAgent | None:
        """The agent behind a task: the engine's id ends with its own, unless it was deleted."""
        found = self._host.catalogue.find(tenant, program_id.rpartition("/")[2])
        if found is None or self._host.catalogue.program_id(tenant, found.agent.id) != program_id:
            return None
        return self._view(found.agent, tenant)

    def _view(self, agent: Agent, tenant: str) -> OwnAgent:
        stop = self._host.stop_of(tenant, agent.id)
        return OwnAgent(
            id=agent.id,
            program_id=self._host.catalogue.program_id(tenant, agent.id) or agent.id,
            name=agent.name,
            description=agent.description,
            path=f"{AGENTS_PATH}{quote(agent.id, safe='')}",
            rest_path=f"{AGENTS_PATH}{quote(agent.id, safe='')}{REST_PATH}",
            skills=len(agent.card(everything=False).skills),
            streams=agent.streaming,
            stop_reason=None if stop is None else stop.reason,
        )


def _name(identity: Identity, tenant: Tenant) -> str:
    """The name of a principal for people: `ada@example.com`, `ci`, or the tenant's own."""
    kind, _, rest = principal_of(tenant.id, identity.scopes, identity.claims).name.partition(":")
    return tenant.name if kind in ("tenant", "token") else rest.partition("/")[2] or rest
