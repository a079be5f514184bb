"""All commands of `parley admin`, by group."""

from __future__ import annotations

from collections.abc import Mapping

from parley.cli.admin import access_rows, tenant_rows
from parley.cli.admin.command import AdminCommand

GROUPS: Mapping[str, str] = {
    "tenants": "Tenants: create, disable, stop, export and import them.",
    "tokens": "Access tokens of a tenant.",
    "accounts": "Service accounts of a tenant.",
    "roles": "Roles: named sets of scopes.",
    "audit": "Who changed what, and when.",
}

COMMANDS: tuple[AdminCommand, ...] = (*tenant_rows.COMMANDS, *access_rows.COMMANDS)
