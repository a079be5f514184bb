"""An MCP server for the agents at some URLs, over standard input and output or over HTTP on this machine.

While it serves over standard output, nothing else is written there: the SDK sends what the process prints to standard
error.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from typing import cast

import anyio
import uvicorn
from mcp.server.stdio import stdio_server

from parley.mcp.remote_agents import REFRESH_SECONDS, AgentsAtUrls
from parley.mcp.server import AgentServer
from parley.mcp.standard_input import InputLines
from parley.protocol.errors import ParleyError

logger = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"


async def serve_stdio(agents: AgentsAtUrls) -> None:
    """Serve one client, until it closes standard input or the process is stopped. Calls in progress are canceled."""
    server = AgentServer(lambda _: agents)
    lines = InputLines()
    # The SDK only iterates over the lines.
    async with stdio_server(stdin=cast("anyio.AsyncFile[str]", lines)) as (read, write):
        serving = asyncio.create_task(server.run(read, write, server.create_initialization_options()))
        watching = asyncio.create_task(_watch(agents, server))
        if sys.platform != "win32":
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
        try:
            await asyncio.wait([serving])
        finally:
            watching.cancel()
            serving.cancel()
            await asyncio.gather(serving, watching, return_exceptions=True)
            lines.close()


async def serve_http(agents: AgentsAtUrls, port: int) -> None:
    """Serve the clients of this machine at `http://127.0.0.1:PORT/mcp`, until the process is stopped."""
    server = AgentServer(lambda _: agents)
    app = server.streamable_http_app(host=LOOPBACK)
    watching = asyncio.create_task(_watch(agents, server))
    try:
        await uvicorn.Server(uvicorn.Config(app, LOOPBACK, port, log_config=None, log_level="warning")).serve()
    finally:
        watching.cancel()


async def _watch(agents: AgentsAtUrls, server: AgentServer) -> None:
    """Look regularly whether the agents have changed, and tell the clients."""
    while True:
        await asyncio.sleep(REFRESH_SECONDS)
        try:
            if await agents.refresh():
                server.changes.changed()
        except ParleyError as error:
            logger.warning("The agents cannot be listed: %s", error)
