"""Schedules at work: each tick is one run, in one process or several, whatever crashes in between."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from parley.host.data.tenant import Quotas
from parley.host.origin import origin_of
from parley.stores.interface import Owner, Store, TaskKey
from parley.stores.sqlite.store import SqliteStore
from parley.testing.clock import FakeClock
from parley.testing.crashing_store import CrashingStore, Cut
from tests.host.scheduling import SchedulingHost, scheduling_host
from tests.host.stores import MemoryDatabase, MemoryStore, ProcessDatabase

pytestmark = pytest.mark.anyio

EIGHT = datetime(2026, 1, 1, 8, tzinfo=UTC)


def clock() -> FakeClock:
    return FakeClock(EIGHT)


async def test_a_tick_sends_the_message_once_as_the_schedule() -> None:
    async with scheduling_host(clock()) as here:
        await here.create(cron="0 9 * * *")
        await here.pass_time(minutes=59)
        assert await here.runs() == []
        await here.pass_time(minutes=1)
        await here.pass_time(minutes=1)
        (run,) = await here.runs()
        assert (run.outcome, run.tick, run.count) == ("started", int(EIGHT.timestamp()) + 3_600, 1)
        await here.until_idle()
        (request,) = await here.requests()
        assert (request.request_id, request.agent_id, request.state) == (run.request_id, "writer", "completed")
        key = TaskKey(Owner(here.tenant.id, f"bearer:{here.tenant.id}"), run.request_id)
        (task,) = [await here.host.engine.views.task(key, f"{here.tenant.id}/writer")]
        origin = origin_of(task.history[0])
        assert (origin.surface, origin.principal) == ("schedule", f"schedule:{here.tenant.id}/daily")
        await here.pass_time(hours=24)
        assert await here.outcomes() == ["started", "started"]


async def test_the_ticker_wakes_by_itself_and_when_a_schedule_is_created() -> None:
    time = clock()
    async with scheduling_host(time, ticks_by_itself=True) as here:
        await here.create(cron="*/5 * * * *")
        for number in (1, 2):
            await time.advance(300)
            while len(await here.runs()) < number:
                await asyncio.sleep(0.01)
                await time.advance(0.5)  # it may not have slept yet when time passed
            await here.until_idle()
        assert await here.outcomes() == ["started", "started"]


async def test_several_processes_on_one_store_run_each_tick_once(tmp_path: Path) -> None:
    path, time = tmp_path / "host.db", clock()
    async with scheduling_host(time, store=SqliteStore(path, shared=True)) as here:
        for number in range(20):
            await here.create(id=f"s{number}", cron="0 * * * *", overlap="allow")
        others = [scheduling_host(time, store=SqliteStore(path, shared=True), tenant=here.tenant.id) for _ in range(2)]
        async with others[0] as second, others[1] as third:
            for _ in range(3):
                time.jump(3_600)
                await asyncio.gather(*(one.host.schedules.ticker.run_due() for one in (here, second, third)))
            for one in (here, second, third):
                await one.until_idle()
        assert [await here.outcomes(f"s{number}") for number in range(20)] == [["started"] * 3] * 20
        requests = await here.requests()
        assert (len(requests), {request.state for request in requests}) == (60, {"completed"})


async def test_a_process_runs_schedules_of_tenants_and_agents_that_another_one_created() -> None:
    database, time = MemoryDatabase(), clock()
    async with (
        scheduling_host(time, store=MemoryStore(database)) as before,
        scheduling_host(time, store=MemoryStore(database)) as here,
    ):
        await here.create(cron="0 * * * *")
        time.jump(3_600)
        await before.host.schedules.ticker.run_due()
        assert await here.outcomes() == ["started"]
        await before.until_idle()


# --- crashes ----------------------------------------------------------------------------------------------------------


async def run_with_crash(database: MemoryDatabase, time: FakeClock, tenant: str, at: int, cut: Cut) -> bool:
    """Run a host that crashes around its n-th write since the tick; return whether it got that far."""
    store = CrashingStore(MemoryStore(database))
    writes = 0

    def decide(_: object) -> Cut:
        nonlocal writes
        writes += 1
        return cut if writes == at else None

    async with scheduling_host(time, store=cast("Store", store), tenant=tenant) as here:
        store.decide = decide
        ticking = asyncio.create_task(here.host.schedules.ticker.run_due())
        crashing = asyncio.create_task(store.crashed.wait())
        idle = asyncio.create_task(idle_after(ticking, here))
        await asyncio.wait([crashing, idle], return_when=asyncio.FIRST_COMPLETED)
        has_crashed = store.has_crashed
        store.has_crashed = True  # what it writes while it stops does not count either
        for task in (ticking, crashing, idle):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
    return has_crashed


async def idle_after(ticking: asyncio.Task[float], here: SchedulingHost) -> None:
    await ticking
    await here.until_idle()


@pytest.mark.parametrize("cut", ["before", "after"])
@pytest.mark.parametrize("conversation", ["none", "new"])
async def test_a_crash_at_any_write_of_a_tick_neither_loses_nor_doubles_it(cut: Cut, conversation: str) -> None:
    at = 0
    while True:
        at += 1
        database, time = ProcessDatabase(), clock()
        async with scheduling_host(time, store=MemoryStore(database)) as here:
            await here.create(cron="0 9 * * *", conversation=conversation)
            tenant = here.tenant.id
        time.jump(3_600)
        has_crashed = await run_with_crash(database, time, tenant, at, cut)
        async with scheduling_host(time, store=MemoryStore(database), tenant=tenant) as here:
            await here.host.schedules.ticker.run_due()
            await here.until_idle()
            requests, runs = await here.requests(), await here.runs()
            assert [run.outcome for run in runs] == ["started"], at
            assert [(request.request_id, request.state) for request in requests] == [
                (runs[0].request_id, "completed")
            ], at
            stored = await here.state()
            assert (stored.state.runs, stored.state.pending) == (1, None)
            assert stored.state.next_tick == int(EIGHT.timestamp()) + 25 * 3_600
        if not has_crashed:
            break
    assert at > 5


async def test_a_claim_is_taken_over_when_its_worker_is_dead_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    database, time = MemoryDatabase(), clock()
    async with scheduling_host(time, store=MemoryStore(database)) as here:
        await here.create(cron="0 9 * * *")
        worker = here.host.engine.lease.worker
        async with scheduling_host(time, store=MemoryStore(database), tenant=here.tenant.id) as other:
            time.jump(3_600)
            await claim_without_sending(here)
            pending = (await here.state()).state.pending
            assert pending is not None
            assert pending.holder == worker
            await other.host.schedules.ticker.run_due()
            assert await other.runs() == []
            await here.host.store.leases.release(worker)
            with monkeypatch.context() as away:  # the store was away: that proves nothing
                away.setattr(other.host.engine.lease, "seconds_of_doubt", lambda live=None: 1.0)
                await other.host.schedules.ticker.run_due()
                assert await other.runs() == []
            await other.host.schedules.ticker.run_due()
            assert [(run.outcome, run.request_id) for run in await other.runs()] == [("started", pending.task_id)]
            await here.host.schedules.ticker.run_due()
            await other.until_idle()
            assert len(await other.requests()) == 1


async def claim_without_sending(here: SchedulingHost) -> None:
    """What a process does that dies between the claim of a tick and its message."""
    runner: Any = here.host.schedules.ticker._runner  # pyright: ignore[reportPrivateUsage]
    await runner._ticks.decide(here.tenant.id, "daily", runner._claim)


# --- missed ticks and clocks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("skip", [("missed", 8, 3), ("started", 12, 1)]),
        ("run_once", [("missed", 9, 2), ("started", 11, 1), ("started", 12, 1)]),
        ("run_all", [("started", hour, 1) for hour in (9, 10, 11, 12)]),
    ],
)
async def test_ticks_that_passed_while_the_host_was_down_follow_the_policy(policy: str, expected: list[Any]) -> None:
    expected = [(outcome, 9 if hour == 8 else hour, count) for outcome, hour, count in expected]
    async with scheduling_host(clock()) as here:
        await here.create(cron="0 * * * *", missed=policy, overlap="allow")
        await here.pass_time(hours=3, minutes=30)
        await here.pass_time(minutes=30)
        found = [(run.outcome, datetime.fromtimestamp(run.tick, UTC).hour, run.count) for run in await here.runs()]
        assert found == expected


async def test_a_clock_that_is_put_back_or_forward_runs_no_tick_twice() -> None:
    async with scheduling_host(clock()) as here:
        await here.create(cron="0 * * * *", overlap="allow")
        await here.pass_time(hours=1)
        await here.pass_time(hours=-1)
        await here.pass_time(hours=1)
        assert [run.tick for run in await here.runs()] == [int(EIGHT.timestamp()) + 3_600]
        await here.pass_time(hours=10)
        await here.pass_time(hours=-9)
        await here.host.schedules.resume(here.tenant, "daily", actor="x")
        assert await here.outcomes() == ["started", "missed", "started"]


async def test_a_tick_that_was_run_is_not_run_again_when_its_schedule_is_changed_after_the_clock_was_put_back() -> None:
    async with scheduling_host(clock()) as here:
        await here.create(cron="0 * * * *", overlap="allow")
        await here.pass_time(hours=1)
        await here.host.schedules.pause(here.tenant, "daily", actor="x")
        here.clock.jump(-3_600)
        await here.host.schedules.resume(here.tenant, "daily", actor="x")
        await here.pass_time(hours=1)
        await here.until_idle()
        assert len(await here.requests()) == 1


# --- overlap ----------------------------------------------------------------------------------------------------------


async def test_a_tick_is_skipped_while_the_run_before_is_at_work_unless_overlap_is_allowed() -> None:
    async with scheduling_host(clock()) as here:
        await here.create(id="one", cron="0 * * * *", message="wait")
        await here.create(id="many", cron="0 * * * *", message="wait", overlap="allow")
        for _ in range(2):
            await here.pass_time(hours=1)
        first, second = await here.runs("one")
        assert (first.outcome, second.outcome) == ("started", "skipped")
        assert second.reason == f"the run before is still at work: {first.request_id}"
        assert await here.outcomes("many") == ["started", "started"]


async def test_missed_ticks_that_are_all_run_wait_for_one_another() -> None:
    async with scheduling_host(clock()) as here:
        await here.create(cron="0 * * * *", missed="run_all")
        await here.pass_time(hours=3, minutes=30)
        for _ in range(4):
            await here.until_idle()
            await here.pass_time(seconds=6)
        assert await here.outcomes() == ["started"] * 3
        assert len({request.request_id for request in await here.requests()}) == 3


# --- refusals ---------------------------------------------------------------------------------------------------------


async def test_a_refused_tick_says_why_and_is_not_repeated() -> None:
    async with scheduling_host(clock()) as here:
        await here.create(cron="0 * * * *")
        await here.host.agents.delete(here.tenant.id, "writer")
        here.host.remove_agent(here.tenant.id, "writer")
        await here.pass_time(hours=1)
        await here.pass_time(minutes=30)
        await here.host.tenants.update(here.tenant.id, disabled=True)
        await here.pass_time(minutes=30)
        assert [(run.outcome, run.reason) for run in await here.runs()] == [
            ("refused", "no agent 'writer' for this tenant"),
            ("refused", "The tenant is disabled."),
        ]
        assert await here.requests() == []


async def test_a_tick_that_a_quota_refuses_is_tried_again_as_often_as_the_schedule_says() -> None:
    async with scheduling_host(clock()) as here:
        await here.host.tenants.update(here.tenant.id, quotas=Quotas(tokens_per_day=0))
        await here.create(id="some", cron="0 * * * *", retries=2)
        await here.create(id="none", cron="0 * * * *", retries=0)
        await here.pass_time(hours=1)
        assert (await here.outcomes("some"), await here.outcomes("none")) == ([], ["refused"])
        await here.pass_time(minutes=1)
        await here.host.tenants.update(here.tenant.id, quotas=Quotas())
        await here.pass_time(minutes=1)
        assert await here.outcomes("some") == ["started"]
        await here.until_idle()
        await here.host.tenants.update(here.tenant.id, quotas=Quotas(tokens_per_day=0))
        await here.pass_time(minutes=58)
        for _ in range(3):
            await here.pass_time(minutes=1)
        *_, last = await here.runs("some")
        assert (last.outcome, "token_limit" in last.reason) == ("refused", True)


async def test_a_schedule_that_is_refused_again_and_again_is_paused_with_the_reason() -> None:
    async with scheduling_host(clock()) as here:
        await here.create(cron="0 * * * *")
        await here.host.agents.delete(here.tenant.id, "writer")
        here.host.remove_agent(here.tenant.id, "writer")
        for _ in range(25):
            await here.pass_time(hours=1)
        stored = await here.state()
        assert (await here.outcomes(), stored.schedule.enabled, stored.revision) == (["refused"] * 20, False, 2)
        assert stored.schedule.pause_reason.startswith("20 ticks in a row were refused. The last reason: no agent")
        (entry,) = await here.host.audit.list(limit=1)
        assert (entry.actor, entry.action, entry.target_id) == ("host", "pause_schedule", f"{here.tenant.id}/daily")


# --- conversations and ends -------------------------------------------------------------------------------------------


async def test_runs_share_a_conversation_or_get_one_each() -> None:
    async with scheduling_host(clock()) as here:
        kept = await here.host.conversations.create(here.tenant.id, agent_id="writer")
        await here.create(id="kept", cron="0 * * * *", conversation=kept.id)
        await here.create(id="new", cron="0 * * * *", conversation="new")
        for _ in range(2):
            await here.pass_time(hours=1)
            await here.until_idle()
        told = await here.host.views.messages(here.tenant.id, kept.id)
        assert [message.content for message in told] == ["hello", "writer heard hello"] * 2
        numbers = [run.conversation_id for run in await here.runs("new")]
        created = [await here.host.conversations.get(here.tenant.id, number) for number in numbers]
        assert len({one.id for one in created} | {kept.id}) == 3
        assert [(one.title, one.origin, one.agent_id) for one in created] == [("Daily", "schedule", "writer")] * 2
        await here.host.conversations.delete(here.tenant.id, kept.id)
        await here.pass_time(hours=1)
        *_, last = await here.runs("kept")
        assert (last.outcome, last.reason) == ("refused", f"there is no conversation {kept.id} any more")


async def test_a_refused_tick_leaves_no_conversation_behind() -> None:
    async with scheduling_host(clock()) as here:
        await here.host.tenants.update(here.tenant.id, quotas=Quotas(tokens_per_day=0))
        await here.create(cron="0 * * * *", conversation="new", retries=0)
        await here.pass_time(hours=1)
        assert await here.outcomes() == ["refused"]
        assert await here.host.conversations.list(here.tenant.id) == []


async def test_a_schedule_ends_after_its_moment_or_its_last_run() -> None:
    async with scheduling_host(clock()) as here:
        await here.create(id="once", at="2026-01-01T10:00:00+01:00")
        await here.create(id="twice", every="1 hour", max_runs=2, overlap="allow")
        await here.create(id="until", cron="0 * * * *", ends_at="2026-01-01T09:30:00Z", overlap="allow")
        for _ in range(4):
            await here.pass_time(hours=1)
        assert [await here.outcomes(each) for each in ("once", "twice", "until")] == [
            ["started"],
            ["started"] * 2,
            ["started"],
        ]
        assert [(await here.state(each)).state.next_tick for each in ("once", "twice", "until")] == [None] * 3


async def test_the_history_of_a_schedule_is_bounded() -> None:
    async with scheduling_host(clock()) as here:
        await here.host.tenants.update(here.tenant.id, disabled=True)
        await here.create(cron="* * * * *")
        for _ in range(25):
            await here.pass_time(minutes=1)
        assert (await here.state()).schedule.enabled is False
        tenant, records = here.tenant.id, here.host.store.records
        assert await records.count("schedule_runs/daily", tenant) == 20
        await here.host.schedules.delete(tenant, "daily", actor="x")
        assert await records.count("schedule_runs/daily", tenant) == 0
        assert await here.host.schedules.ticker.run_due() == 30.0
