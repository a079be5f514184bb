"""Why a tool of an MCP server gave no result. Texts are safe to print, hold no secret, and are meant for agents."""

from __future__ import annotations

from typing import ClassVar

from parley.protocol.errors import ParleyError


class McpToolError(ParleyError):
    """There is no result."""

    max_text: ClassVar[int] = 1_000


class McpCallError(McpToolError):
    """The call is not valid, or the server refuses it."""


class McpUnavailableError(McpToolError):
    """The server is not there."""


class McpSessionLostError(McpToolError):
    """The server has forgotten the session; the call was not carried out and may be made again in another one."""


class UnknownMcpServerError(McpToolError):
    """The tenant has no such server, or the agent may not use it."""
