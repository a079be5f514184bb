"""What a transport and the session above it tell each other about one connection: that it has ended, and why.

The first reason counts. A link also carries what the transport of HTTP must know of the call in progress.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextvars import ContextVar

CALL_HEADERS: ContextVar[Mapping[str, str] | None] = ContextVar("parley_mcp_call_headers", default=None)
"""Headers of the call in progress beside those that are configured. The SDK carries the context to the transport."""


class McpLink:
    """The state of one connection."""

    def __init__(self, *, on_tools_changed: Callable[[], None] = lambda: None) -> None:
        self.over = asyncio.Event()
        """Set when the connection has ended or must end."""
        self.reason = ""
        self.is_session_lost = False
        """Whether the server does not know the session any more, so that a call was not carried out."""
        self.malformed_tools: list[str] = []
        """The names of listed tools that are not tools as MCP defines them, as far as they have one."""
        self.on_tools_changed = on_tools_changed

    def end(self, reason: str) -> None:
        """End the connection for this reason."""
        if not self.over.is_set():
            self.reason = reason
            self.over.set()

    def lose_session(self) -> None:
        """End the connection because the server has forgotten the session."""
        self.is_session_lost = True
        self.end("the server has ended the session")
