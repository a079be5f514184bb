"""One MCP server for each tenant that uses MCP, with its sessions. It needs the extra `mcp`.

A session belongs to the principal that began it: to any other one, and to every other tenant, its id is unknown. A
tenant's server is dropped when it was not used for as long as its sessions live.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from parley.host.access.principal import Principal
from parley.host.data.tenant import Tenant
from parley.host.mcp_server.agents_of_caller import AgentsOfCaller
from parley.host.mcp_server.endpoint import MAX_BODY_BYTES
from parley.mcp.callable_agents import CallableAgents
from parley.mcp.server import AgentServer, RequestContext

if TYPE_CHECKING:
    from parley.host.host import Host
    from parley.server.bindings.http import AsgiRequest

SESSIONS = 200
"""Sessions of one tenant. Clients of 2026-07-28 have none."""

IDLE_SECONDS = 30 * 60.0
"""After which a session without requests ends. A client that comes back begins another one."""

AGENTS = "parley.mcp.agents"
"""The member of a request's scope that holds the agents that it sees."""


def agents_of(ctx: RequestContext) -> CallableAgents:
    """The agents that the request of a message sees."""
    assert ctx.request is not None  # the SDK attaches it to every message over HTTP
    return ctx.request.scope[AGENTS]


class TenantServers:
    """The MCP servers of a host's tenants."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._servers: dict[str, TenantServer] = {}
        host.catalogue.on_change(self._agents_changed)
        host.tenants.on_change(self._tenant_changed)

    async def answer(self, request: AsgiRequest, body: bytes, tenant: Tenant, principal: Principal) -> None:
        """Let the server of the tenant answer a request."""
        server = self._servers.get(tenant.id)
        if server is None:
            self._drop_unused()
            server = self._servers[tenant.id] = TenantServer()
        await server.answer(request, body, AgentsOfCaller(self._host, tenant, principal, request), principal)

    def drain(self) -> None:
        """End all streams that wait for changes."""
        for server in self._servers.values():
            server.drain()

    async def close(self) -> None:
        """End all sessions."""
        servers = [*self._servers.values()]
        self._servers.clear()
        for server in servers:
            server.close()
        await asyncio.gather(*[server.closed() for server in servers])

    def _agents_changed(self, tenant_id: str) -> None:
        if (server := self._servers.get(tenant_id)) is not None:
            server.mcp.changes.changed()

    def _tenant_changed(self, tenant: Tenant) -> None:
        if tenant.disabled and (server := self._servers.pop(tenant.id, None)) is not None:
            server.close()

    def _drop_unused(self) -> None:
        now = time.monotonic()
        for tenant_id, server in [*self._servers.items()]:
            if server.is_unused(now):
                del self._servers[tenant_id]
                server.close()


class TenantServer:
    """The MCP server of one tenant. It runs in a task of its own, which the SDK's sessions belong to."""

    def __init__(self) -> None:
        self.mcp = AgentServer(agents_of)
        self._manager = StreamableHTTPSessionManager(
            self.mcp, session_idle_timeout=IDLE_SECONDS, max_sessions=SESSIONS, max_request_body_size=MAX_BODY_BYTES
        )
        self._is_ready = asyncio.Event()
        self._stop = asyncio.Event()
        self._active = 0
        self._used_at = time.monotonic()
        self._waiting: set[asyncio.Future[None]] = set()
        """Streams on which clients of older versions wait for changes."""
        self._running = asyncio.create_task(self._run())

    def is_unused(self, now: float) -> bool:
        """Whether no session can be left: they end when they are idle for as long."""
        return self._active == 0 and now - self._used_at > IDLE_SECONDS

    async def answer(self, request: AsgiRequest, body: bytes, agents: CallableAgents, principal: Principal) -> None:
        """Answer a request."""
        self._active += 1
        try:
            await self._is_ready.wait()
            owner = AuthenticatedUser(AccessToken(token="", client_id=principal.name, scopes=[]))
            forwarded = request.forward_to(self._manager.handle_request, body, {"user": owner, AGENTS: agents})
            if request.verb == "GET":
                await self._answer_until_drained(request, asyncio.ensure_future(forwarded))
            else:
                await forwarded
        finally:
            self._active -= 1
            self._used_at = time.monotonic()

    async def _answer_until_drained(self, request: AsgiRequest, answering: asyncio.Future[None]) -> None:
        self._waiting.add(answering)
        try:
            await asyncio.wait([answering])
        finally:
            self._waiting.discard(answering)
            if not answering.done():  # this request itself is canceled
                answering.cancel()
        if answering.cancelled():
            await request.send_chunk(b"", is_last=True)
        else:
            answering.result()

    def drain(self) -> None:
        """End all streams that wait for changes."""
        self.mcp.listen.close()
        for answering in self._waiting:
            answering.cancel()

    def close(self) -> None:
        """Begin to end all sessions."""
        self.drain()
        self._stop.set()

    async def closed(self) -> None:
        """Return when all sessions have ended."""
        await asyncio.gather(self._running, return_exceptions=True)

    async def _run(self) -> None:
        async with self._manager.run():
            self._is_ready.set()
            await self._stop.wait()
