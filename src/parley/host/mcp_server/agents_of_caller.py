"""The agents of a tenant as one request to `/mcp` sees them, called in process over A2A with the caller's own token.

So scopes, quotas, limits and the audit are those of A2A: nothing here decides what a call may do.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from parley.client.client import Client
from parley.client.options import Retries
from parley.client.transports.transport import CallOptions
from parley.host.a2a.cards import HostedCards
from parley.host.access.principal import Principal
from parley.host.access.scopes import Scope
from parley.host.data.tenant import Tenant
from parley.mcp.callable_agents import NamedAgent
from parley.network.urls import parse_url
from parley.protocol.cards import AgentInterface, Binding
from parley.protocol.errors import PermissionDeniedError, UnauthenticatedError
from parley.protocol.versions import Version

if TYPE_CHECKING:
    from starlette.types import Receive, Send
    from starlette.types import Scope as AsgiScope

    from parley.host.host import Host
    from parley.server.bindings.http import AsgiRequest

FORWARDED = ("authorization", "parley-tenant")
"""Headers that say who calls."""

NO_RETRIES = Retries(attempts=1, outage=0)
"""There is no network in between: a host that does not answer is stopping."""


@dataclass(frozen=True, slots=True)
class CallerHeaders:
    """The credentials of a request, which every call that it makes presents."""

    headers: Mapping[str, str]

    async def apply(self, options: CallOptions, interface: AgentInterface) -> CallOptions:
        """The same request with the caller's credentials."""
        return replace(options, headers={**options.headers, **self.headers})

    async def renew(self, error: UnauthenticatedError | PermissionDeniedError) -> bool:
        """There are no others."""
        return False


class AgentsOfCaller:
    """The agents that one request sees."""

    def __init__(self, host: Host, tenant: Tenant, principal: Principal, request: AsgiRequest) -> None:
        self._host = host
        self._tenant = tenant
        self._principal = principal
        self._base_url = request.base_url
        self._address = request.address
        self._credentials = CallerHeaders({n: request.headers[n] for n in FORWARDED if n in request.headers})

    @property
    def is_stopping(self) -> bool:
        """Whether the host drains."""
        return self._host.app.health.is_draining

    async def page(self, *, after: str, limit: int) -> Sequence[NamedAgent]:
        """Agents in the order of their ids."""
        names = sorted({agent.id for agent in self._host.catalogue.agents(self._tenant.id)})
        start = bisect_right(names, after)
        found = [await self.find(name) for name in names[start : start + limit]]
        return [agent for agent in found if agent is not None]

    async def find(self, name: str) -> NamedAgent | None:
        """The agent with an id."""
        await self._host.find_program(self._tenant.id, name)
        cards = self._cards(name)
        if cards is None:
            return None
        await cards.prepare(self._url(name))
        return NamedAgent(name, cards.card(self._url(name)))

    def card_document(self, agent: NamedAgent) -> bytes:
        """The card as the agent's URL shows it."""
        cards = self._cards(agent.name)
        return b"{}" if cards is None else cards.document(self._url(agent.name)).body

    def connect(self, agent: NamedAgent) -> AbstractAsyncContextManager[Client]:
        """A client in process. Raises PermissionDeniedError for a token that may only read."""
        return self._connected(agent)

    @asynccontextmanager
    async def _connected(self, agent: NamedAgent) -> AsyncGenerator[Client]:
        self._principal.require(Scope.CALL)
        client = Client(
            agent.card,
            credentials=self._credentials,
            bindings=[Binding.JSONRPC],
            versions=[Version.V1_0],
            retries=NO_RETRIES,
            app=self._call_host,
        )
        async with client:
            yield client

    async def _call_host(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """The host's app, called from the caller's address. Its public URL may have a path that the app does not."""
        root = parse_url(self._base_url).path.rstrip("/")
        await self._host.app({**scope, "client": (self._address, 0), "root_path": root}, receive, send)

    def _url(self, name: str) -> str:
        return self._host.url_of(name, self._base_url)

    def _cards(self, name: str) -> HostedCards | None:
        site = self._host.catalogue.site(self._tenant, name)
        cards = None if site is None else site.site.service.cards
        return cards if isinstance(cards, HostedCards) else None
