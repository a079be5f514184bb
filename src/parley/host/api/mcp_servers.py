"""MCP servers: those that a tenant may use, how they are doing, and adding, replacing and removing the tenant's own."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from msgspec import Meta, Struct

from parley.host.access.scopes import Scope
from parley.host.api.agents import Deleted
from parley.host.api.mcp_server_views import (
    McpServerList,
    McpServerStatus,
    McpServerView,
    status_of,
    view_of_operators,
    view_of_tenants,
    with_tools,
)
from parley.host.api.route import Answer, ApiCall, ApiReply, ApiRoute, BodyReader
from parley.host.data.mcp_servers import McpServerDefinition, StoredMcpServer
from parley.host.errors import BadRequest, Conflict
from parley.host.mcp.connection import ConnectionState, McpConnection
from parley.host.mcp.errors import McpToolError
from parley.host.mcp.sdk import McpExtraMissingError, check_installed
from parley.host.mcp.tenant_servers import MAX_TENANT_RESULT_BYTES, MAX_TENANT_SECONDS, check_definition

LOOK_SECONDS = 10.0
"""How long reading one server waits for its tools."""

NO_PROCESSES = (
    "only the operator can add a server that runs as a process, because it runs on the host; "
    "give the 'url' of a server that speaks streamable HTTP"
)


class McpServerInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A server to add, or to put in the place of another."""

    url: Annotated[str, Meta(max_length=2_048)] | None = None
    headers: dict[str, Annotated[str, Meta(max_length=8_192)] | None] = {}
    """`${NAME}` in a value is the variable PARLEY_SECRET_<id of the tenant>_<NAME> of the host; null keeps a value."""
    description: Annotated[str, Meta(max_length=1_000)] = ""
    timeout_seconds: Annotated[float, Meta(gt=0, le=MAX_TENANT_SECONDS)] | None = None
    max_result_bytes: Annotated[int, Meta(ge=1_024, le=MAX_TENANT_RESULT_BYTES)] | None = None
    tools: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=128)], ...], Meta(max_length=200)] = ()
    """The tools that are offered, where `*` matches anything; empty: all of them."""
    identity: bool = False
    """Whether the server is told for which tenant and principal it is called."""
    revision: Annotated[int, Meta(ge=0)] | None = None
    """The revision that the caller has seen, 0 for a server that must be new; null: any."""
    command: str | None = None
    """Refused: a process would run on the host."""


async def list_servers(call: ApiCall[None]) -> Answer:
    """All servers of the tenant."""
    own = {server.name: server for server in await call.host.mcp_servers.list(call.tenant.id)}
    servers = [await _view(call, name, own.get(name)) for name in await call.host.mcp.server_names(call.tenant)]
    return Answer(McpServerList(len(servers), servers))


async def get_server(call: ApiCall[None]) -> Answer:
    """One server with its tools, which it is asked for. One that does not answer soon is shown as it is known."""
    name = call.path["id"]
    stored = await _stored(call, name)
    connection: McpConnection | None = None
    error = ""
    try:
        connection = await call.host.mcp.connection(call.tenant, name)
        async with asyncio.timeout(LOOK_SECONDS):
            await connection.tools()
    except TimeoutError:
        error = f"it did not list its tools within {LOOK_SECONDS:g} seconds"
    except McpToolError as failure:
        error = failure.message
    view = await _view(call, name, stored, error=error)
    return Answer(view if connection is None else with_tools(view, connection))


async def put_server(call: ApiCall[McpServerInput]) -> Answer:
    """Add or replace a server of the tenant."""
    name, body, configured = call.path["id"], call.body, call.host.mcp.configured
    if body.command is not None:
        raise BadRequest(f"$.command: {NO_PROCESSES}")
    if body.url is None:
        raise BadRequest("$.url: is required")
    _check_is_not_operators(call, name)
    if not configured.tenant_servers:
        raise Conflict("the operator does not let tenants add MCP servers")
    try:
        check_installed()
    except McpExtraMissingError as error:
        raise Conflict(f"this host cannot call MCP servers yet. {error.message}") from None
    definition = McpServerDefinition(
        url=body.url,
        headers=body.headers,
        description=body.description,
        timeout_seconds=body.timeout_seconds,
        max_result_bytes=body.max_result_bytes,
        tools=body.tools,
        identity=body.identity,
    )
    check_definition(name, definition, configured.allow_private_hosts_of_tenants)
    servers = call.host.mcp_servers
    stored = await servers.put(call.tenant.id, name, definition, actor=call.actor, revision=body.revision)
    call.host.mcp.forget(call.tenant, name)
    return Answer(await _view(call, name, stored), 201 if stored.revision == 1 else 200)


async def delete_server(call: ApiCall[None]) -> Answer:
    """Remove a server of the tenant. Calls in progress fail."""
    name = call.path["id"]
    _check_is_not_operators(call, name)
    await call.host.mcp_servers.delete(call.tenant.id, name, actor=call.actor)
    call.host.mcp.forget(call.tenant, name)
    return Answer(Deleted())


def _check_is_not_operators(call: ApiCall[Any], name: str) -> None:
    if name in call.host.mcp.operators_servers(call.tenant):
        raise Conflict(f"MCP server '{name[:64]}' belongs to the operator")


async def _stored(call: ApiCall[None], name: str) -> StoredMcpServer | None:
    """A server of the tenant; None if it is one of the operator's. Raises McpServerNotFoundError."""
    if name in call.host.mcp.operators_servers(call.tenant):
        return None
    return await call.host.mcp_servers.get(call.tenant.id, name[:64])


async def _view(call: ApiCall[Any], name: str, stored: StoredMcpServer | None, *, error: str = "") -> McpServerView:
    """A server as it is known now, without asking it anything. `error` is why it was not."""
    operators = call.host.mcp.operators_servers(call.tenant)
    try:
        status = status_of(await call.host.mcp.known_connection(call.tenant, name))
        status = McpServerStatus(
            state=status.state,
            last_error=status.last_error or error,
            retry_in_seconds=status.retry_in_seconds,
            tools=status.tools,
        )
    except McpToolError as failure:  # a secret is not set, for example
        status = McpServerStatus(state=ConnectionState.FAILED, last_error=failure.message)
    if stored is None or name in operators:
        return view_of_operators(operators[name], status)
    return view_of_tenants(stored, status)


ROUTES = (
    ApiRoute(
        method="GET",
        path="/v1/mcp/servers",
        handler=list_servers,
        scope=Scope.MANAGE,
        summary="List the MCP servers",
        description="Those that the operator gives, then the tenant's own. No server is called for this.",
        replies=[ApiReply(McpServerList)],
    ),
    ApiRoute(
        method="GET",
        path="/v1/mcp/servers/{id}",
        handler=get_server,
        scope=Scope.MANAGE,
        summary="Read an MCP server and its tools",
        description="The server is asked for its tools; one that does not answer is shown with the error.",
        replies=[ApiReply(McpServerView)],
        errors=[404],
    ),
    ApiRoute(
        method="PUT",
        path="/v1/mcp/servers/{id}",
        handler=put_server,
        scope=Scope.MANAGE,
        summary="Add or replace an MCP server",
        description="Over HTTP only. Values of headers are kept and never shown.",
        body=BodyReader(McpServerInput),
        replies=[ApiReply(McpServerView), ApiReply(McpServerView, 201)],
        errors=[409, 413],
    ),
    ApiRoute(
        method="DELETE",
        path="/v1/mcp/servers/{id}",
        handler=delete_server,
        scope=Scope.MANAGE,
        summary="Remove an MCP server",
        replies=[ApiReply(Deleted)],
        errors=[404, 409],
    ),
)
