"""Checks of each tenant: whether it can work, and what of it waits or fails."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from parley.cli.doctor.examined_host import ExaminedHost
from parley.cli.doctor.finding import HostFinding, fine, problem, warning

MOST_TENANTS = 100
"""Tenants that are looked at, the newest first."""
LONG_QUEUE = 100
LONG_WAIT = 86_400
"""Seconds after which an approval has waited for long."""


async def check_tenants(host: ExaminedHost) -> list[HostFinding]:
    """What is wrong with the tenants, or with the one that was named."""
    _, value = await host.read("/v1/admin/tenants")
    tenants: list[dict[str, Any]] = value.get("tenants", [])
    if not tenants:
        return [warning("tenants", "There are no tenants.", "Create one: parley admin tenants create NAME.")]
    wanted = host.connection.tenant
    looked_at = [tenant for tenant in tenants if wanted in (None, str(tenant["id"]))]
    if not looked_at:
        return [problem("tenants", f"There is no tenant {wanted}.", "List them: parley admin tenants list.")]
    looked_at = sorted(looked_at, key=lambda tenant: -tenant["id"])[:MOST_TENANTS]
    found = [finding for tenant in looked_at for finding in await _check_tenant(host, tenant)]
    if wanted is None and len(tenants) > MOST_TENANTS:
        text = f"Only the newest {MOST_TENANTS} of {len(tenants)} tenants were looked at."
        found.append(warning("tenants", text, "Look at one of the others: parley doctor --tenant ID."))
    return found or [fine("tenants", f"Tenants looked at: {len(looked_at)}. Nothing is wrong with them.")]


async def _check_tenant(host: ExaminedHost, tenant: dict[str, Any]) -> list[HostFinding]:
    tenant_id, about = str(tenant["id"]), f"tenant {tenant['id']} ({tenant['name']})"
    if tenant["disabled"]:
        advice = f"If that is over: parley admin tenants change {tenant_id} --no-disabled."
        return [warning(about, "It is disabled.", advice)]
    found: list[tuple[str, str]] = []
    for check in CHECKS:
        found += await check(host, tenant_id)
    return [warning(about, text, advice) for text, advice in found]


# --- one tenant: texts and advice -------------------------------------------------------------------------------------


async def _check_stops(host: ExaminedHost, tenant: str) -> list[tuple[str, str]]:
    stops = await host.rows("/v1/stops", "stops", tenant=tenant)
    return [
        (
            f"{stop['agent_id'] or 'Everything'} is stopped by {stop['by']}: {stop['reason']}",
            f"If that is over: parley admin agents {_resumption(stop)} --tenant {tenant}.",
        )
        for stop in stops
    ]


def _resumption(stop: dict[str, Any]) -> str:
    return f"resume {stop['agent_id']}" if stop["agent_id"] else "resume-all"


async def _check_mcp_servers(host: ExaminedHost, tenant: str) -> list[tuple[str, str]]:
    servers = await host.rows("/v1/mcp/servers", "servers", tenant=tenant)
    return [
        (
            f"The MCP server {server['name']} is down: {server['status']['last_error']}",
            f"Look at it: parley admin mcp show {server['name']} --tenant {tenant}.",
        )
        for server in servers
        if server["status"]["last_error"]
    ]


async def _check_registered_agents(host: ExaminedHost, tenant: str) -> list[tuple[str, str]]:
    agents = await host.rows("/v1/catalog/agents", "agents", tenant=tenant)
    return [
        (
            f"The registered agent {agent['name']} is {agent['health']['state']}: {agent['health']['reason']}",
            f"Check it again: parley admin catalog check {agent['name']} --tenant {tenant}.",
        )
        for agent in agents
        if agent["health"] is not None and agent["health"]["state"] != "healthy"
    ]


async def _check_schedules(host: ExaminedHost, tenant: str) -> list[tuple[str, str]]:
    schedules = await host.rows("/v1/schedules", "schedules", tenant=tenant)
    return [
        (
            f"The schedule {schedule['id']} was paused: {schedule['pause_reason']}",
            f"If that is mended: parley admin schedules resume {schedule['id']} --tenant {tenant}.",
        )
        for schedule in schedules
        if schedule["pause_reason"]
    ]


async def _check_budgets(host: ExaminedHost, tenant: str) -> list[tuple[str, str]]:
    budgets = await host.rows("/v1/budgets", "budgets", tenant=tenant)
    return [
        (
            f"The budget of {budget['agent'] or 'the tenant'} for this {budget['period']} is used up.",
            f"Raise it: parley admin budgets show --tenant {tenant} says what there is.",
        )
        for budget in budgets
        if any(left is not None and float(left) <= 0 for left in budget["left"].values())
    ]


async def _check_approvals(host: ExaminedHost, tenant: str) -> list[tuple[str, str]]:
    approvals = await host.rows("/v1/approvals", "approvals", tenant=tenant)
    old = [approval for approval in approvals if approval["requested_at"] < time.time() - LONG_WAIT]
    if not old:
        return []
    text = f"Approvals that have waited for more than a day: {len(old)}."
    return [(text, f"Decide them: parley admin approvals list --tenant {tenant}.")]


async def _check_queue(host: ExaminedHost, tenant: str) -> list[tuple[str, str]]:
    _, queue = await host.read("/v1/queue?limit=1", tenant=tenant)
    waiting = queue.get("waiting", 0)
    if waiting < LONG_QUEUE:
        return []
    return [(f"Requests that wait: {waiting}.", "Raise --runs-at-once, or look at what takes so long.")]


CHECKS: Sequence[Callable[[ExaminedHost, str], Awaitable[list[tuple[str, str]]]]] = (
    _check_stops,
    _check_mcp_servers,
    _check_registered_agents,
    _check_schedules,
    _check_budgets,
    _check_approvals,
    _check_queue,
)
