"""Several processes of one host, as hosts that share a store and an event loop.

    async with replica_hosts(models=…) as (one, two):
        await one.acme.client.post("/v1/agents", json=…)
        await two.acme.client.get("/v1/agents/…")

Each has its own port, engine, lease and memory. With `has_hints=False` they look at the store from time to time only.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from parley.cluster.hints import LocalHints
from parley.engine.limits import Limits
from parley.host.host import AppOptions
from tests.host.running_host import HostTenant, RunningHost, running_host
from tests.host.stores import MemoryDatabase, MemoryStore


@asynccontextmanager
async def replica_hosts(
    number: int = 2,
    *,
    has_hints: bool = True,
    tenants: tuple[str, ...] = ("acme",),
    options: AppOptions | None = None,
    **settings: Any,
) -> AsyncGenerator[tuple[RunningHost, ...]]:
    """Hosts on one store. The tenants are created by the first; all have clients with their tokens."""
    database, hints = MemoryDatabase(), LocalHints() if has_hints else None
    async with AsyncExitStack() as stack:
        hosts: list[RunningHost] = []
        for index in range(number):
            chosen = AppOptions(hints=hints, engine_limits=Limits(poll_seconds=0.1))
            chosen.update(options or {})
            running = running_host(
                store=MemoryStore(database), tenants=tenants if index == 0 else (), options=chosen, **settings
            )
            hosts.append(await stack.enter_async_context(running))
        for host in hosts[1:]:
            await share_tenants(hosts[0], host)
        yield tuple(hosts)


async def share_tenants(source: RunningHost, target: RunningHost) -> None:
    """Give a host clients with the tokens of another one's tenants."""
    for name, tenant in source.tenants.items():
        target.tenants[name] = HostTenant(tenant.tenant, tenant.token, await target.client(tenant.token))
