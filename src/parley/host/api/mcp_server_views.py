"""MCP servers as the native API shows them.

Values of headers are never shown: only their names are. Servers of the operator are shown without their addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import UNSET, Struct, UnsetType, structs

from parley.host.data.mcp_servers import StoredMcpServer
from parley.host.mcp.connection import ConnectionState, McpConnection
from parley.host.mcp.server_config import McpProcess, McpServerConfig
from parley.protocol.jsonvalue import JsonObject


class McpToolView(Struct, frozen=True):
    """A tool of a server."""

    name: str
    description: str
    input_schema: JsonObject


class RejectedToolView(Struct, frozen=True):
    """A tool that is not offered, and why."""

    name: str
    reason: str


class McpServerStatus(Struct, frozen=True, kw_only=True):
    """How a server is doing."""

    state: ConnectionState
    last_error: str = ""
    """Why it was last down, or gave no tools; empty while it answers."""
    retry_in_seconds: int = 0
    tools: Sequence[str] = ()
    """The names of the tools that it listed last."""


class McpServerView(Struct, frozen=True, kw_only=True):
    """A server. Those of the operator have no url, headers, revision or times."""

    name: str
    source: Literal["operator", "tenant"]
    transport: Literal["stdio", "http"]
    status: McpServerStatus
    description: str = ""
    url: str | UnsetType = UNSET
    header_names: Sequence[str] | UnsetType = UNSET
    allowed_tools: Sequence[str] = ()
    """The tools that are offered; empty: all of them."""
    identity: bool = False
    timeout_seconds: float | None = None
    revision: int | UnsetType = UNSET
    created_at: int | UnsetType = UNSET
    updated_at: int | UnsetType = UNSET
    tools: Sequence[McpToolView] | UnsetType = UNSET
    """Only where one server is read."""
    rejected_tools: Sequence[RejectedToolView] | UnsetType = UNSET
    has_more_tools: bool | UnsetType = UNSET
    """Whether the server lists more tools than the host looks at."""


class McpServerList(Struct, frozen=True):
    """All servers that a tenant may use."""

    count: int
    servers: Sequence[McpServerView]


def view_of_operators(config: McpServerConfig, status: McpServerStatus) -> McpServerView:
    """A server of the operator."""
    return McpServerView(
        name=config.name,
        source="operator",
        transport="stdio" if isinstance(config.endpoint, McpProcess) else "http",
        status=status,
        description=config.description,
        allowed_tools=config.tools,
        identity=config.passes_identity,
        timeout_seconds=config.timeout_seconds,
    )


def view_of_tenants(stored: StoredMcpServer, status: McpServerStatus) -> McpServerView:
    """A server that a tenant has added."""
    definition = stored.definition
    return McpServerView(
        name=stored.name,
        source="tenant",
        transport="http",
        status=status,
        description=definition.description,
        url=definition.url,
        header_names=sorted(definition.headers),
        allowed_tools=definition.tools,
        identity=definition.identity,
        timeout_seconds=definition.timeout_seconds,
        revision=stored.revision,
        created_at=stored.created_at,
        updated_at=stored.updated_at,
    )


def status_of(connection: McpConnection | None) -> McpServerStatus:
    """How the server of a connection is doing; None: it was not used yet."""
    if connection is None:
        return McpServerStatus(state=ConnectionState.IDLE)
    return McpServerStatus(
        state=connection.state,
        last_error=connection.last_error,
        retry_in_seconds=round(connection.retry_seconds),
        tools=list(connection.known_tools.tools) if connection.known_tools else (),
    )


def with_tools(view: McpServerView, connection: McpConnection) -> McpServerView:
    """The same with the tools that the server listed last."""
    known = connection.known_tools
    if known is None:
        return view
    tools = [McpToolView(tool.name, tool.description, tool.input_schema) for tool in known.tools.values()]
    rejected = [RejectedToolView(tool.name, tool.reason) for tool in known.rejected]
    return structs.replace(view, tools=tools, rejected_tools=rejected, has_more_tools=known.is_cut)
