"""A host without a port whose schedules go by scripted time, and run when the test says so.

async with scheduling_host(clock) as here:
    await here.create(cron="0 * * * *")
    await here.pass_time(hours=1)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from parley.host.api.schedule_views import NewSchedule, new_schedule
from parley.host.constitution import read_constitution
from parley.host.data.schedule import ScheduleRun, StoredSchedule
from parley.host.data.tenant import Tenant
from parley.host.host import Host, HostSettings
from parley.host.models.builtin.table import BUILTIN_MODELS
from parley.host.models.registry import ModelRegistry
from parley.host.schedules.service import HostSchedules
from parley.host.task_views import RequestView
from parley.stores.interface import Store
from parley.testing.clock import FakeClock
from tests.host.api_calls import constitution, echo_models
from tests.host.stores import MemoryStore


class StillSchedules(HostSchedules):
    """Schedules whose ticker runs only when a test calls it."""

    def start(self) -> None:
        pass


@dataclass(slots=True)
class SchedulingHost:
    """A host, its scripted time, and one of its tenants."""

    host: Host
    clock: FakeClock
    tenant: Tenant

    async def create(self, **members: Any) -> StoredSchedule:
        """A schedule that sends `hello` to the agent `writer`."""
        given: dict[str, Any] = {"id": "daily", "name": "Daily", "agent_id": "writer", "message": "hello", **members}
        body = NewSchedule(**given)
        now = int(self.clock.now().timestamp())
        schedule = new_schedule(body, id=body.id or "", actor=f"tenant:{self.tenant.id}", now=now)
        return await self.host.schedules.create(self.tenant, schedule)

    async def pass_time(self, **time: float) -> None:
        """Let time pass, and run what is due then."""
        self.clock.jump(timedelta(**time).total_seconds())
        await self.host.schedules.ticker.run_due()

    async def runs(self, schedule_id: str = "daily") -> list[ScheduleRun]:
        """The history of a schedule, oldest first."""
        found = await self.host.schedules.runs(self.tenant.id, schedule_id, after=None, limit=200)
        return [run for _, run in reversed(found)]

    async def outcomes(self, schedule_id: str = "daily") -> list[str]:
        """What became of each tick, oldest first."""
        return [run.outcome for run in await self.runs(schedule_id)]

    async def state(self, schedule_id: str = "daily") -> StoredSchedule:
        return await self.host.schedules.get(self.tenant.id, schedule_id)

    async def requests(self) -> list[RequestView]:
        """All requests of the tenant, newest first."""
        return await self.host.views.requests(self.tenant.id, 200)

    async def until_idle(self) -> None:
        """Wait until nothing is at work."""
        for run in list(self.host.engine.runs.all):
            await run.wait_for_end()


@asynccontextmanager
async def scheduling_host(
    clock: FakeClock, *, store: Store | None = None, tenant: str | None = None, ticks_by_itself: bool = False
) -> AsyncGenerator[SchedulingHost]:
    """A host with the tenant `acme`, whose agents repeat what they hear; with a `tenant`, one that has it already."""
    host = Host(HostSettings(admin_token="", has_starters=False), store=store or MemoryStore(), drain_seconds=0)
    host.models = ModelRegistry(host.settings.models, builtin={**BUILTIN_MODELS, **echo_models()})
    kind = HostSchedules if ticks_by_itself else StillSchedules
    host.schedules = kind(
        host.records,
        clock,
        host.engine,
        host.conversations,
        host.quotas,
        tenant=host.tenant,
        find_program=host.find_program,
    )
    async with asyncio.timeout(20), host.app.running():
        if tenant is None:
            created, _ = await host.create_tenant("acme")
            stored = await host.agents.create(created.id, read_constitution(constitution("writer")))
            host.catalogue.put(stored)
            tenant = created.id
        yield SchedulingHost(host, clock, host.tenants.get(tenant))
