"""The MCP SDK, which is an extra: whether it is installed, and the modules that import it, loaded when one is needed.

Importing the SDK takes a second or two, so it happens in a thread. A host without MCP servers never imports it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeAlias

from parley.protocol.errors import ParleyError

if TYPE_CHECKING:
    from parley.host.mcp.link import McpLink
    from parley.host.mcp.server_config import McpServerConfig
    from parley.host.mcp.session import McpSession

    SessionOpener: TypeAlias = Callable[[McpServerConfig, McpLink], AbstractAsyncContextManager[McpSession]]

INSTALL_MCP = "pip install 'parley-a2a[mcp]'"


class McpExtraMissingError(ParleyError):
    """MCP servers are configured, and the extra that calls them is not installed."""


def check_installed() -> None:
    """Check that MCP servers can be called. Raises McpExtraMissingError."""
    if find_spec("mcp") is None:
        raise McpExtraMissingError(f"MCP servers cannot be called without an extra: {INSTALL_MCP}")


async def load_session(config: McpServerConfig, link: McpLink) -> AbstractAsyncContextManager[McpSession]:
    """A session with a server, which is not open yet. Raises McpExtraMissingError."""
    check_installed()
    open_session = await asyncio.to_thread(_load)
    return open_session(config, link)


def _load() -> SessionOpener:
    from parley.host.mcp.session import open_session, quiet_loggers

    quiet_loggers()
    return open_session
