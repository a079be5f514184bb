"""What a token allows: five scopes, and roles as named sets of them.

A scope means the same in A2A, the native API, MCP and the command line. No scope includes another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Scope(StrEnum):
    """One thing that a token may allow within its tenant."""

    CALL = "call"
    """Send messages to agents, cancel what runs, and keep conversations, files and memory."""
    READ = "read"
    """Read agents, tasks, conversations, files and usage."""
    MANAGE = "manage"
    """Change agents, schedules, budgets, remote agents, MCP servers and tokens."""
    APPROVE = "approve"
    """Decide what waits for approval."""
    AUDIT = "audit"
    """Read the audit."""


ALL_SCOPES = frozenset(Scope)

ROLES: Mapping[str, frozenset[Scope]] = {
    "owner": ALL_SCOPES,
    "developer": frozenset({Scope.CALL, Scope.READ, Scope.MANAGE}),
    "caller": frozenset({Scope.CALL, Scope.READ}),
    "viewer": frozenset({Scope.READ}),
    "approver": frozenset({Scope.READ, Scope.APPROVE}),
    "auditor": frozenset({Scope.READ, Scope.AUDIT}),
}
"""The roles that every tenant has. A tenant may define others."""
