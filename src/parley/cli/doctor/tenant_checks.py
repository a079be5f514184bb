"""Checks of each tenant: whether it can work, and what of it waits or fails."""

from __future__ import annotations

from typing import Any

from parley.cli.doctor.examined_host import ExaminedHost
from parley.cli.doctor.finding import HostFinding, fine, warning

MOST_TENANTS = 100
"""Tenants that are looked at, newest first."""


async def check_tenants(host: ExaminedHost) -> list[HostFinding]:
    """What is wrong with the tenants."""
    _, value = await host.read("/v1/admin/tenants")
    tenants: list[dict[str, Any]] = value.get("tenants", [])
    if not tenants:
        return [warning("tenants", "There are no tenants.", "Create one: parley admin tenants create NAME.")]
    looked_at = sorted(tenants, key=lambda tenant: -tenant["id"])[:MOST_TENANTS]
    found = [finding for tenant in looked_at for finding in await _check_tenant(host, tenant)]
    if len(tenants) > MOST_TENANTS:
        text = f"Only the newest {MOST_TENANTS} of {len(tenants)} tenants were looked at."
        found.append(warning("tenants", text, "Look at one of the others: parley doctor --tenant ID."))
    return found or [fine("tenants", f"{len(tenants)} tenants, and nothing is wrong with them.")]


async def _check_tenant(host: ExaminedHost, tenant: dict[str, Any]) -> list[HostFinding]:
    tenant_id, about = str(tenant["id"]), f"tenant {tenant['id']} ({tenant['name']})"
    if tenant["disabled"]:
        advice = f"If that is over: parley admin tenants change {tenant_id} --no-disabled."
        return [warning(about, "It is disabled.", advice)]
    return []
