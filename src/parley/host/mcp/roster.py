"""The MCP servers that tenants may use, the operator's and their own, with the connections to them.

A connection belongs to one tenant; only processes of the operator that are not told who calls are shared by all. A
server whose definition has changed gets another connection, whichever process of the host has changed it, because
definitions are read from the store for every use. The number of connections is bounded: one that is not in use makes
room for another.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from parley.host.data.mcp_servers import StoredMcpServer, StoredMcpServers
from parley.host.mcp.allowance import ToolAllowance
from parley.host.mcp.config import McpServers
from parley.host.mcp.connection import ConnectionSettings, McpConnection
from parley.host.mcp.errors import McpCallError, McpToolError, McpUnavailableError, UnknownMcpServerError
from parley.host.mcp.placeholders import PlaceholderError
from parley.host.mcp.results import ToolOutput
from parley.host.mcp.server_config import McpProcess, McpServerConfig
from parley.host.mcp.tenant_servers import config_of
from parley.host.mcp.tools import McpTool
from parley.host.remote.roster import TenantIdentity
from parley.protocol.jsonvalue import JsonObject
from parley.safe_text import printable_line

logger = logging.getLogger(__name__)

MAX_CONNECTIONS = 200
"""Of all tenants together, each a process or some sockets."""

WAIT_SECONDS = 2.0
"""How long a turn waits for lists of tools before its model is called without them."""

CALLER_META = "parley/caller"
"""The member of `_meta` that tells a server who calls."""


@dataclass(frozen=True, slots=True)
class ToolCaller:
    """For whom a tool is called."""

    tenant: TenantIdentity
    principal: str
    """Its name, as the audit has it."""


class McpRoster:
    """The servers and connections of all tenants."""

    def __init__(
        self,
        servers: McpServers,
        stored: StoredMcpServers,
        *,
        settings: ConnectionSettings | None = None,
        environment: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
        wait_seconds: float | None = None,
    ) -> None:
        self.configured = servers
        self._stored = stored
        self._settings = settings or ConnectionSettings()
        self._environment = environment
        self._clock = clock
        self._wait_seconds = WAIT_SECONDS if wait_seconds is None else wait_seconds
        self._connections: dict[tuple[str, McpServerConfig], McpConnection] = {}
        self._closing: set[asyncio.Task[None]] = set()

    # --- for agents ---------------------------------------------------------------------------------------------------

    async def tools(self, tenant: TenantIdentity, allowance: ToolAllowance, server: str) -> Sequence[McpTool]:
        """The tools of one server that an agent may use. Raises McpToolError."""
        connection = await self._connection(tenant, allowance, server)
        found = (await connection.tools()).tools.values()
        return [tool for tool in found if allowance.has_tool(server, tool.name)]

    async def ready_tools(self, tenant: TenantIdentity, allowance: ToolAllowance) -> Sequence[McpTool]:
        """The tools of all servers that an agent may use, as far as they are known within a short time."""
        names = [name for name in await self.server_names(tenant) if allowance.has_server(name)]
        if not names:
            return ()
        lists = [asyncio.create_task(self._tools_or_none(tenant, allowance, name)) for name in names]
        try:
            await asyncio.wait(lists, timeout=self._wait_seconds)
            return [tool for found in lists if found.done() for tool in found.result()]
        finally:
            for waiting in lists:
                waiting.cancel()  # the connection goes on: the next turn has its tools

    async def call(
        self, caller: ToolCaller, allowance: ToolAllowance, server: str, tool: str, arguments: JsonObject
    ) -> ToolOutput:
        """What a tool answers.

        Raises:
            McpToolError: the agent may not use it, the arguments are invalid, or there is no answer.
        """
        connection = await self._connection(caller.tenant, allowance, server)
        if not allowance.has_tool(server, tool):
            raise McpCallError(f"This agent may not use the tool {printable_line(tool[:100])!r} of {server}.")
        meta: JsonObject = {}
        headers: dict[str, str] = {}
        if connection.config.passes_identity:
            tenant = str(caller.tenant.id)
            meta[CALLER_META] = {"tenant": tenant, "principal": caller.principal}
            headers = {
                "parley-caller-tenant": tenant,
                "parley-caller-principal": quote(caller.principal, safe="/:@+=,;!*'() "),
            }
        return await connection.call(tool, arguments, meta=meta, headers=headers)

    async def server_names(self, tenant: TenantIdentity) -> Sequence[str]:
        """The names of all servers of a tenant."""
        operators = self.configured.of(str(tenant.id), tenant.name)
        own = [server.name for server in await self._own(tenant)]
        return [*operators, *(name for name in own if name not in operators)]

    # --- for the API --------------------------------------------------------------------------------------------------

    def operators_servers(self, tenant: TenantIdentity) -> Mapping[str, McpServerConfig]:
        """The servers that the operator gives a tenant, by their names."""
        return self.configured.of(str(tenant.id), tenant.name)

    async def connection(self, tenant: TenantIdentity, server: str) -> McpConnection:
        """The connection to a server, which may not be open. Raises McpToolError."""
        return await self._connection(tenant, ToolAllowance(), server)

    async def known_connection(self, tenant: TenantIdentity, server: str) -> McpConnection | None:
        """The connection to a server if it was used; looking at one makes none. Raises McpToolError."""
        return self._connections.get(_key(tenant, await self._config(tenant, ToolAllowance(), server)))

    def forget(self, tenant: TenantIdentity, server: str) -> None:
        """Close the connections to a tenant's own server, because it was changed or removed."""
        for key, connection in list(self._connections.items()):
            if key[0] == str(tenant.id) and key[1].name == server and not key[1].is_operators:
                self._drop(key, connection)

    async def drop_outdated(self, tenant: TenantIdentity) -> None:
        """Close the connections to servers that a tenant has changed or removed in another process of the host."""
        own = {server.name: server for server in await self._own(tenant)}
        for key, connection in list(self._connections.items()):
            if key[0] == str(tenant.id) and not key[1].is_operators and not self._is_current(key[1], own):
                self._drop(key, connection)

    def _is_current(self, config: McpServerConfig, own: Mapping[str, StoredMcpServer]) -> bool:
        server = own.get(config.name)
        try:
            return server is not None and config == self._config_of(server)
        except PlaceholderError:
            return False

    def _config_of(self, server: StoredMcpServer) -> McpServerConfig:
        return config_of(server, self._environment, self.configured.allow_private_hosts_of_tenants)

    async def close(self) -> None:
        """Close all connections and stop all servers."""
        for key, connection in list(self._connections.items()):
            self._drop(key, connection)
        if self._closing:
            await asyncio.wait(set(self._closing))

    # --- connections --------------------------------------------------------------------------------------------------

    async def _tools_or_none(self, tenant: TenantIdentity, allowance: ToolAllowance, server: str) -> Sequence[McpTool]:
        try:
            return await self.tools(tenant, allowance, server)
        except McpToolError as error:
            logger.info("The tools of the MCP server %s are not offered: %s", server, error.message)
            return ()

    async def _own(self, tenant: TenantIdentity) -> Sequence[StoredMcpServer]:
        return await self._stored.list(str(tenant.id)) if self.configured.tenant_servers else ()

    async def _connection(self, tenant: TenantIdentity, allowance: ToolAllowance, server: str) -> McpConnection:
        config = await self._config(tenant, allowance, server)
        key = _key(tenant, config)
        connection = self._connections.get(key)
        if connection is None:
            self._make_room()
            connection = self._connections[key] = McpConnection(config, self._settings, clock=self._clock)
        return connection

    async def _config(self, tenant: TenantIdentity, allowance: ToolAllowance, server: str) -> McpServerConfig:
        """A server that an agent may use. Raises McpToolError."""
        operators = self.operators_servers(tenant)
        if allowance.has_server(server) and server in operators:
            return operators[server]
        own = {one.name: one for one in await self._own(tenant)}
        if not allowance.has_server(server) or server not in own:
            names = [name for name in (*operators, *own) if allowance.has_server(name)]
            listed = f"There are: {', '.join(dict.fromkeys(names))}." if names else "There are none."
            raise UnknownMcpServerError(f"No MCP server is called {printable_line(server[:100])!r}. {listed}")
        try:
            return self._config_of(own[server])
        except PlaceholderError as error:
            raise McpUnavailableError(f"The MCP server {server} cannot be called: {error.message}.") from None

    def _make_room(self) -> None:
        """Close the connection that was not used for the longest time if there are many. Raises McpUnavailableError."""
        if len(self._connections) < MAX_CONNECTIONS:
            return
        idle = [(one.last_used, key) for key, one in self._connections.items() if not one.is_busy]
        if not idle:
            raise McpUnavailableError("All connections to MCP servers are in use. Try again later.")
        _, key = min(idle, key=lambda entry: entry[0])
        self._drop(key, self._connections[key])

    def _drop(self, key: tuple[str, McpServerConfig], connection: McpConnection) -> None:
        del self._connections[key]
        closing = asyncio.get_running_loop().create_task(connection.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


def _key(tenant: TenantIdentity, config: McpServerConfig) -> tuple[str, McpServerConfig]:
    """What connections are kept by: those of one tenant have its id."""
    is_shared = config.is_operators and isinstance(config.endpoint, McpProcess) and not config.passes_identity
    return "" if is_shared else str(tenant.id), config
