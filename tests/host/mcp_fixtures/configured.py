"""The settings of a host whose operator gives all tenants the server `fixture`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from parley.host.mcp.config import McpServers
from parley.host.mcp.server_config import McpProcess, McpServerConfig

SERVER = str(Path(__file__).parent / "stdio_server.py")


def operators(**members: Any) -> McpServers:
    """A process that all tenants share."""
    env = tuple(members.pop("env", {}).items())
    server = McpServerConfig("fixture", McpProcess(sys.executable, (SERVER,), env), **members)
    return McpServers({"fixture": server}, allow_private_hosts_of_tenants=("127.0.0.1",))
