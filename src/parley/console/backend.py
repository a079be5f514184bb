"""What differs between the servers that have a console: `parley serve`, `parley up`, `parley proxy`, `parley console`.

`served.ServedBackend` is that of an `App` with its agents, of a proxy and of a console without agents of its own;
`hosted.HostedBackend` is that of a host. Routes and channels use only this protocol, so they work on all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from parley.console.sessions import SessionCredentials
from parley.engine.engine import Engine
from parley.protocol.cards import SecurityScheme
from parley.server.app import App
from parley.server.bindings.http import AsgiRequest
from parley.server.security.credentials import Identity
from parley.stores.interface import Owner

ServerKind: TypeAlias = Literal["serve", "host", "proxy", "console"]

Right: TypeAlias = Literal["read", "call"]
"""What a token of a host may allow: to see tasks and the wire, or to make the server call something."""

Feature: TypeAlias = Literal["agents", "chat", "tasks", "trees", "wire", "checks", "remote", "approvals", "operate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleCaller:
    """The authenticated caller of the console: a session's, or a program's that sends its own credentials.

    An operator who has not chosen a tenant has the tenant `""`, and may see all tenants.
    """

    identity: Identity
    name: str
    """For people: `ada`, `the tenant Acme`, `operator`; empty if anonymous."""
    tenant: str = ""
    tenant_name: str = ""
    scopes: frozenset[str] = frozenset()
    is_operator: bool = False

    @property
    def is_anonymous(self) -> bool:
        """Whether the caller has presented no credentials, which is enough on an open server."""
        return not self.identity.name


@dataclass(frozen=True, slots=True)
class OwnerFilter:
    """Whose tasks a caller may see. None stands for any.

    A caller whose credentials belong to no tenant may name one in each request, so its tasks may be in any tenant.
    """

    tenant: str | None
    name: str | None

    def admits(self, owner: Owner) -> bool:
        """Whether the tasks of an owner may be seen."""
        return self.tenant in (None, owner.tenant) and self.name in (None, owner.name)

    def within(self, tenant: str | None) -> OwnerFilter | None:
        """The same filter for one tenant; None if that tenant may not be seen. `None` changes nothing."""
        if tenant is None or tenant == self.tenant:
            return self
        return OwnerFilter(tenant, self.name) if self.tenant is None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnAgent:
    """An agent of this server that a caller may see."""

    id: str
    """As callers know it: `currency`, `index`."""
    program_id: str
    """As the engine and the store know it (`TaskHead.agent`): on a host `3/currency`."""
    name: str
    description: str
    path: str
    """The path of its A2A endpoint, to which the browser posts: `/`, `/agents/currency`, `/v1/a2a/agents/currency`."""
    skills: int
    streams: bool
    rest_path: str | None = None
    """What the routes of its REST binding are below, if it is not the path itself."""
    stop_reason: str | None = None
    """Why it takes no messages now; None if it does."""


class ConsoleBackend(Protocol):
    """What a console knows of the server that it is part of."""

    @property
    def app(self) -> App:
        """The ASGI app. Its `shared` has the limits, the throttle and the budget of long bodies."""
        ...

    @property
    def kind(self) -> ServerKind:
        """Which server it is."""
        ...

    @property
    def name(self) -> str:
        """The name of the server for people: that of its only agent, or of the kind of server."""
        ...

    @property
    def engine(self) -> Engine | None:
        """The engine that runs the tasks, with their store; None for a proxy and for a console without agents."""
        ...

    def features(self, caller: ConsoleCaller | None) -> Sequence[Feature]:
        """What the page offers to a caller."""
        ...

    @property
    def schemes(self) -> Mapping[str, SecurityScheme]:
        """The schemes with which one logs in here, by name; empty if the server is open."""
        ...

    @property
    def needs_login(self) -> bool:
        """Whether callers without credentials may do nothing."""
        ...

    async def authenticate(self, request: AsgiRequest) -> ConsoleCaller:
        """Identify the caller by the credentials in the headers; those of a session are there already.

        Wrong credentials count against the address, as everywhere.

        Raises:
            UnauthenticatedError, PermissionDeniedError, RateLimitedError, UnavailableError: the caller is not admitted.
        """
        ...

    def require(self, caller: ConsoleCaller, right: Right) -> None:
        """Refuse a caller whose token does not allow something. Raises PermissionDeniedError."""
        ...

    def owners(self, caller: ConsoleCaller) -> OwnerFilter:
        """Whose tasks the caller may see."""
        ...

    def agents(self, caller: ConsoleCaller) -> Sequence[OwnAgent]:
        """The agents of this server that the caller may call. An operator without a tenant has none."""
        ...

    def find_agent(self, caller: ConsoleCaller, agent_id: str) -> OwnAgent | None:
        """One of these agents, by its id."""
        ...

    def agent_of_program(self, program_id: str, tenant: str) -> OwnAgent | None:
        """The agent behind `TaskHead.agent` of a task in a tenant; None if it is not served any more."""
        ...

    async def waiting_approvals(self, caller: ConsoleCaller) -> int:
        """How many approvals of the caller's tenant wait for a decision. Raises ConsoleError if there are none here."""
        ...

    def tenant_headers(self, tenant: str) -> Mapping[str, str]:
        """The headers with which an operator acts for a tenant. Raises ConsoleError if the server has no operators."""
        ...

    def check_link(self, purpose: str | None) -> str:
        """What a new link is for, as the store keeps it; None stands for the first tenant.

        Raises:
            ConsoleError: the server has no such links, or there is no such tenant.
        """
        ...

    async def redeem_link(self, purpose: str) -> SessionCredentials:
        """The credentials for a session that begins with a link, by what the link is for.

        Raises:
            ConsoleError: the server has no such links, or what it is for is gone.
        """
        ...

    async def forget(self, credentials: SessionCredentials) -> None:
        """Revoke credentials that `redeem_link` has made. Those that people have brought stay valid."""
        ...

    async def cost_of_call(self, tenant: str, task_id: str, number: int) -> tuple[str, str] | None:
        """What a model call of a task has cost, as decimal text, and the currency; None if that is not known.

        Calls of a task are numbered from 0, in their order.
        """
        ...

    def tenant_name(self, tenant: str) -> str:
        """The name of a tenant for people; the id itself where tenants have no names."""
        ...
