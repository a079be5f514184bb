"""An MCP server that agents may use: how it is reached, what it may take, and which of its tools are offered.

These are plain values. They hold secrets (variables, headers, arguments), which no `repr` shows and which `redact`
removes from texts. Nothing is opened here, and nothing of the MCP SDK is imported.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TypeAlias

DEFAULT_TIMEOUT_SECONDS = 60.0
"""For one call of a tool. Most SDKs wait as long."""

DEFAULT_CONNECT_SECONDS = 30.0
"""For the start of a server and its handshake: `npx` and `uvx` may install it first."""

DEFAULT_MAX_RESULT_BYTES = 4 * 1024 * 1024
"""For one message of a server: a screenshot, and far more text than a model reads."""

MAX_RESULT_BYTES = 64 * 1024 * 1024
"""What an operator may allow for one message."""

SHORTEST_SECRET = 6
"""Shorter values are not removed from texts: they would match words."""


@dataclass(frozen=True, slots=True)
class McpProcess:
    """A server that the host starts as a process and talks to over its standard input and output."""

    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Variables beside the few that every process needs; the host's own are not passed on."""
    cwd: str | None = None


@dataclass(frozen=True, slots=True)
class McpUrl:
    """A server that is called over streamable HTTP."""

    url: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    allowed_hosts: tuple[str, ...] = ()
    """Hosts that may have private addresses and no TLS; `.example.com` allows all below it."""


McpTarget: TypeAlias = McpProcess | McpUrl


@dataclass(frozen=True, slots=True)
class McpServerConfig:
    """One server. Two equal values are the same server, and may share a connection."""

    name: str
    endpoint: McpTarget
    description: str = ""
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    connect_seconds: float = DEFAULT_CONNECT_SECONDS
    tools: tuple[str, ...] = ()
    """Names of the tools that are offered, where `*` matches anything; empty: all of them."""
    max_result_bytes: int = DEFAULT_MAX_RESULT_BYTES
    passes_identity: bool = False
    """Whether the server is told for which tenant and principal it is called."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Values that must not appear in any text."""
    is_operators: bool = True
    """Whether the operator has configured it, and not a tenant."""

    def offers(self, tool: str) -> bool:
        """Whether a tool is on the allow list."""
        return not self.tools or any(fnmatchcase(tool, pattern) for pattern in self.tools)

    @staticmethod
    def secrets_in(header: str) -> tuple[str, ...]:
        """The value of a header and, without its scheme, the credential in it: `Bearer s3cret` → `s3cret`."""
        return header, header.partition(" ")[2].strip()

    def redact(self, text: str) -> str:
        """The text without the server's secrets."""
        for secret in self.secrets:
            if len(secret) >= SHORTEST_SECRET and secret in text:
                text = text.replace(secret, "…")
        return text
