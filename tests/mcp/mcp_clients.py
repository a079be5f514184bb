"""The MCP SDK's own client, connected to a host's `/mcp` with a token, and what it gets."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, EmbeddedResource, TextContent

LEGACY = "legacy"
"""The handshake of 2025-11-25; `NEWEST` is 2026-07-28, which has none."""
NEWEST = "2026-07-28"
MODES = (LEGACY, NEWEST)


@asynccontextmanager
async def mcp_client(url: str, token: str, **settings: Any) -> AsyncGenerator[Client]:
    """A client of the host at a URL; `settings` are those of the SDK."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30, verify=False) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), **settings) as client,
    ):
        yield client


def text_of_result(result: Any) -> str:
    """All text in the content of a result."""
    assert isinstance(result, CallToolResult)
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


def files_of_result(result: Any) -> list[Any]:
    """The embedded resources in the content of a result."""
    assert isinstance(result, CallToolResult)
    return [block.resource for block in result.content if isinstance(block, EmbeddedResource)]
