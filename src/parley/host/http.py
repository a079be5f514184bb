"""Which part of the host answers an HTTP request: the stub card, A2A endpoints of agents, MCP, or the native API."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from parley.host.a2a.cards import AGENTS_PATH, stub_card
from parley.host.a2a.dispatch import DispatchEndpoint
from parley.host.a2a.site import CARD_PATHS
from parley.host.api.native_api import NativeApi
from parley.host.draft_names import is_callable_name
from parley.host.error_replies import reply_error
from parley.host.errors import MethodNotAllowed, PathNotFound
from parley.host.mcp_server.endpoint import MCP_PATH, McpEndpoint
from parley.server.bindings.failures import ClientDisconnected
from parley.server.bindings.http import JSON, AsgiRequest
from parley.server.pages.cards import PUBLIC_SECONDS
from parley.server.pages.signer import KEYS_PATH
from parley.server.site import reply_keys

if TYPE_CHECKING:
    from parley.host.host import Host

STUB_PATH = "/.well-known/agent-card.json"
A2A_PATH = "/v1/a2a"
"""What begins so needs a token, whether it exists or not: the stub card names this URL to callers without one."""


class HostHttp:
    """All HTTP requests to a host."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._api = NativeApi(host)
        self.mcp = McpEndpoint(host)

    async def receive(self, request: AsgiRequest) -> None:
        """Answer a request, whatever its path. Every error is JSON."""
        try:
            if request.path == STUB_PATH:
                await self._show_stub(request)
            elif request.path.endswith(KEYS_PATH) and self._host.app.shared.signer is not None:
                await self._show_keys(request)
            elif request.path == MCP_PATH:
                await self.mcp.receive(request)
            elif request.path.startswith(A2A_PATH):
                await self._call_agent(request)
            else:
                await self._api.handle(request)
        except ClientDisconnected:
            return
        except Exception as error:  # here a request ends
            await reply_error(request, error)

    async def _show_stub(self, request: AsgiRequest) -> None:
        if request.verb not in ("GET", "HEAD"):
            raise MethodNotAllowed("GET", "HEAD")
        headers = [(b"cache-control", b"public, max-age=%d" % PUBLIC_SECONDS), (b"vary", b"Host")]
        await request.reply(200, stub_card(request.base_url), JSON, headers)

    async def _show_keys(self, request: AsgiRequest) -> None:
        """The public keys: at the root, and below the URL of every agent, whether it exists or not."""
        if request.path != KEYS_PATH and not request.path.startswith(AGENTS_PATH):
            raise PathNotFound
        if request.verb not in ("GET", "HEAD"):
            raise MethodNotAllowed("GET", "HEAD")
        await reply_keys(request, self._host.app.shared.signer)

    async def _call_agent(self, request: AsgiRequest) -> None:
        """Answer a request to an agent of the caller's tenant. An agent of another tenant is unknown."""
        host = self._host
        if host.operator.acts_for_tenant(request):
            identity = await host.operator.identity(request)
        else:
            identity = await host.app.shared.authenticate(request.credentials, request.address)
        if not request.path.startswith(AGENTS_PATH):
            raise PathNotFound
        segment, slash, rest = request.path.removeprefix(AGENTS_PATH).partition("/")
        agent_id, path = unquote(segment), slash + rest
        tenant = host.tenant(identity.tenant or "")
        site = None if tenant is None else await host.site_for(tenant, agent_id, identity)
        if site is not None:
            request.base_url = host.url_of(agent_id, request.base_url)
            await site(request, path, identity)
        elif path == "" and request.verb == "POST" and is_callable_name(agent_id):
            await DispatchEndpoint(None, host.app.shared)(request, identity)
        elif path in CARD_PATHS and is_callable_name(agent_id):
            raise PathNotFound(f"no agent '{agent_id}' for this tenant")
        else:
            raise PathNotFound
