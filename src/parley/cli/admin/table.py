"""All commands of `parley admin`, by group."""

from __future__ import annotations

from collections.abc import Mapping

from parley.cli.admin import access_rows, agent_rows, catalog_rows, schedule_rows, tenant_rows, work_rows
from parley.cli.admin.command import AdminCommand

GROUPS: Mapping[str, str] = {
    "tenants": "Tenants: create, disable, stop, export and import them.",
    "agents": "Agents of a tenant: versions, drafts, and the kill switch.",
    "catalog": "Registered agents, added catalogues, and which agents are public.",
    "schedules": "Messages to agents by cron expression.",
    "queue": "Requests that are at work or wait.",
    "approvals": "What waits for approval, and the rules.",
    "mcp": "MCP servers that agents use.",
    "budgets": "How much a tenant may spend.",
    "usage": "What was used, and what it cost.",
    "tokens": "Access tokens of a tenant.",
    "accounts": "Service accounts of a tenant.",
    "roles": "Roles: named sets of scopes.",
    "audit": "Who changed what, and when.",
}

COMMANDS: tuple[AdminCommand, ...] = (
    *tenant_rows.COMMANDS,
    *agent_rows.COMMANDS,
    *catalog_rows.COMMANDS,
    *schedule_rows.COMMANDS,
    *work_rows.COMMANDS,
    *access_rows.COMMANDS,
)
