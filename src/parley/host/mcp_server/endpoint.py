"""`/mcp`: authenticates a request, bounds it, and hands it to the MCP server of the caller's tenant.

Errors before that are JSON-RPC errors with the status that says what to do. The SDK is imported in a thread when it is
first needed, because that takes a second. Requests of web pages are refused at the port, as all others are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

import msgspec
from opentelemetry import context, propagate

from parley.host.access.principal import Principal, principal_of
from parley.host.access.scopes import Scope
from parley.host.data.tenant import Tenant
from parley.host.origin import owner_name
from parley.protocol.errors import (
    A2AError,
    ErrorRow,
    PermissionDeniedError,
    UnauthenticatedError,
    UnavailableError,
    UnsupportedOperationError,
)
from parley.server.bindings.failures import ClientDisconnected, as_wire_error, headers_of_error
from parley.server.bindings.http import JSON, AsgiRequest

if TYPE_CHECKING:
    from collections.abc import Generator

    from parley.host.host import Host
    from parley.host.mcp_server.tenant_servers import TenantServers

MCP_PATH = "/mcp"

MAX_BODY_BYTES = 8 * 1024 * 1024
"""Of one request: files of 6 MiB in base64. The SDK parses it at once, which holds up all other requests."""

INSTALL_MCP = "pip install 'parley-a2a[mcp]'"


class McpNotInstalledError(UnsupportedOperationError):
    """MCP is not installed on this host"""

    row = ErrorRow(-32603, 501, "UNIMPLEMENTED", "UNSUPPORTED_OPERATION", 501, "UNIMPLEMENTED")


class McpEndpoint:
    """Answers requests to `/mcp`, from the host's start to its stop."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._servers: TenantServers | None = None
        self._loading: asyncio.Task[TenantServers] | None = None

    async def receive(self, request: AsgiRequest) -> None:
        """Answer a request."""
        try:
            tenant, principal = await self._admit(request)
            servers = self._servers or await self._load()
            await self._answer(request, servers, tenant, principal)
        except ClientDisconnected:
            return
        except Exception as error:  # here a request ends
            await _reply_error(request, as_wire_error(error))

    def drain(self) -> None:
        """Stop waiting for changes with clients, so that they do not hold up the host's stop."""
        if self._servers is not None:
            self._servers.drain()

    async def close(self) -> None:
        """End all sessions. Their tasks go on."""
        if self._loading is not None:
            self._loading.cancel()
        if self._servers is not None:
            await self._servers.close()

    async def _admit(self, request: AsgiRequest) -> tuple[Tenant, Principal]:
        """The caller. Raises A2AError if it may not use MCP."""
        identity = await self._host.app.shared.authenticate(request.credentials, request.address)
        tenant = self._host.tenant(identity.tenant or "")
        if tenant is None:
            raise UnauthenticatedError
        principal = principal_of(tenant.id, identity.scopes, identity.claims)
        if not (principal.may(Scope.CALL) or principal.may(Scope.READ)):
            raise PermissionDeniedError(
                f"This needs the scope '{Scope.CALL}' or '{Scope.READ}', which this token does not have."
            )
        return tenant, principal

    async def _load(self) -> TenantServers:
        if find_spec("mcp") is None:
            raise McpNotInstalledError(f"MCP is not installed on this host. The operator can add it: {INSTALL_MCP}")
        if self._host.app.health.is_draining:
            raise UnavailableError("The host is stopping")
        if self._loading is None:
            self._loading = asyncio.create_task(self._import())
        return await asyncio.shield(self._loading)

    async def _import(self) -> TenantServers:
        module = await asyncio.to_thread(import_module, "parley.host.mcp_server.tenant_servers")
        servers = cast("TenantServers", module.TenantServers(self._host))
        self._servers = servers
        return servers

    async def _answer(self, request: AsgiRequest, servers: TenantServers, tenant: Tenant, principal: Principal) -> None:
        shared, name = self._host.app.shared, owner_name(tenant.id)
        is_stream = request.verb == "GET"
        with shared.throttle.admit_stream(name, request.address) if is_stream else shared.throttle.admit(name):
            body = b""
            if request.verb == "POST":
                limits = replace(shared.limits, body_bytes=min(MAX_BODY_BYTES, shared.limits.body_bytes))
                body = await request.read_json_body(limits, shared.bodies)
            with _traced(request.headers):
                await servers.answer(request, body, tenant, principal)


@contextmanager
def _traced(headers: Mapping[str, str]) -> Generator[None]:
    """A block in the trace that the headers name. A trace in the parameters of a message comes before it."""
    token = context.attach(propagate.extract(headers))
    try:
        yield
    finally:
        context.detach(token)


async def _reply_error(request: AsgiRequest, error: A2AError) -> None:
    text = f"{error.path}: {error.message}" if error.path else error.message
    failure = {"code": error.row.code, "message": text, "data": {"reason": error.row.reason}}
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": failure})
    await request.reply(error.row.http, body, JSON, headers_of_error(error))
