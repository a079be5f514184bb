"""The console of an app: that of `parley serve`, `parley proxy`, and `parley console`, whose app has no agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from parley.agents.agent import Agent
from parley.console.api.errors import ConsoleError
from parley.console.backend import ConsoleCaller, Feature, OwnAgent, OwnerFilter, Right, ServerKind
from parley.console.sessions import SessionCredentials
from parley.engine.engine import Engine
from parley.protocol.cards import SecurityScheme
from parley.protocol.errors import UnauthenticatedError
from parley.server.app import App
from parley.server.bindings.http import AsgiRequest
from parley.server.contracts import CallerAuthenticator

FEATURES: Mapping[ServerKind, Sequence[Feature]] = {
    "serve": ("agents", "chat", "tasks", "trees", "wire", "checks", "remote"),
    "proxy": ("agents", "chat", "wire", "checks", "remote"),
    "console": ("agents", "chat", "wire", "checks", "remote"),
}


class ServedBackend:
    """What a console knows of an app.

    `security` is the server's own authentication. A proxy that forwards credentials has none: its callers log in at the
    agent, with the schemes of the agent's card, and the proxy cannot tell whether they are right.
    """

    def __init__(
        self,
        app: App,
        *,
        security: CallerAuthenticator | None,
        kind: ServerKind = "serve",
        is_loopback: bool = True,
        name: str | None = None,
    ) -> None:
        self._app = app
        self._kind: ServerKind = kind
        self._security = security
        self._name = name
        admits_anonymous = security is None or {} in security.requirements
        self._needs_login = not admits_anonymous or (security is not None and not is_loopback)

    @property
    def app(self) -> App:
        """The ASGI app."""
        return self._app

    @property
    def kind(self) -> ServerKind:
        """Which server it is."""
        return self._kind

    @property
    def name(self) -> str:
        """The name of its only agent, or that of the program."""
        agents = self._app.agents
        return self._name or (agents[0].name if len(agents) == 1 else "Parley")

    @property
    def engine(self) -> Engine | None:
        """The engine; None if its agents run elsewhere."""
        return self._app.local_engine if self._kind == "serve" else None

    def features(self, caller: ConsoleCaller | None) -> Sequence[Feature]:
        """What the page offers, to every caller."""
        return FEATURES[self._kind]

    @property
    def schemes(self) -> Mapping[str, SecurityScheme]:
        """The schemes of the server; for a proxy without any, those of the agent."""
        shown = self._security or self._app.shared.security
        return {} if shown is None else shown.schemes

    @property
    def needs_login(self) -> bool:
        """Whether callers without credentials may do nothing. On a network, the console always needs a login."""
        return self._needs_login

    async def authenticate(self, request: AsgiRequest) -> ConsoleCaller:
        """Identify the caller as the agents' endpoints do."""
        identity = await self._app.shared.authenticate(request.credentials, request.address)
        if self._needs_login and not identity.name:
            raise UnauthenticatedError
        scheme, _, subject = identity.name.partition(":")
        return ConsoleCaller(
            identity=identity,
            name="" if self._security is None else unquote(subject) or scheme,  # of a proxy, it is a hash
            tenant=identity.tenant or "",
            tenant_name=identity.tenant or "",
            scopes=identity.scopes,
        )

    def require(self, caller: ConsoleCaller, right: Right) -> None:
        """Every caller whom the server admits may do everything."""

    def owners(self, caller: ConsoleCaller) -> OwnerFilter:
        """The caller's own tasks. Without a tenant of its own, a caller may name any."""
        return OwnerFilter(caller.identity.tenant, caller.identity.name)

    def agents(self, caller: ConsoleCaller) -> Sequence[OwnAgent]:
        """All agents: an app serves them to every caller whom it admits."""
        return [self._view(agent) for agent in self._app.agents]

    def find_agent(self, caller: ConsoleCaller, agent_id: str) -> OwnAgent | None:
        """One of the agents."""
        return self._view(self._app.table.agent(agent_id)[0]) if agent_id in self._app.table else None

    def agent_of_program(self, program_id: str, tenant: str) -> OwnAgent | None:
        """The agent with this id: the engine has no other."""
        return self._view(self._app.table.agent(program_id)[0]) if program_id in self._app.table else None

    async def waiting_approvals(self, caller: ConsoleCaller) -> int:
        """Only hosts have approvals."""
        raise ConsoleError("unsupported", "Only hosts have approvals")

    def tenant_headers(self, tenant: str) -> Mapping[str, str]:
        """There are no operators here."""
        raise ConsoleError("unsupported", "Only operators of a host choose a tenant")

    def check_link(self, purpose: str | None) -> str:
        """There are no links here."""
        raise ConsoleError("unsupported", "This server has no links to log in with")

    async def redeem_link(self, purpose: str) -> SessionCredentials:
        """There are no links here."""
        raise ConsoleError("unsupported", "This server has no links to log in with")

    async def forget(self, credentials: SessionCredentials) -> None:
        """All credentials were brought by people."""

    async def cost_of_call(self, tenant: str, task_id: str, number: int) -> tuple[str, str] | None:
        """Costs are not known here."""
        return None

    def tenant_name(self, tenant: str) -> str:
        """Tenants have no names here."""
        return tenant

    def _view(self, agent: Agent) -> OwnAgent:
        return OwnAgent(
            id=agent.id,
            program_id=agent.id,
            name=agent.name,
            description=agent.description,
            path=self._app.table.url_of(agent.id, "") or "/",
            skills=len(agent.card(everything=False).skills),
            streams=agent.streaming,
        )
