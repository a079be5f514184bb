"""What tickers read and write: which schedules are due, and decisions about their ticks.

A decision is one write that demands the revision of the state: of several processes that make it at once, one succeeds,
and the others decide again about what they find then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from msgspec import Struct, structs, to_builtins

from parley.engine.clock import Clock
from parley.host.data.audit import Audit
from parley.host.data.epoch import seconds
from parley.host.data.keys import HOST, SCHEDULE_TICKS
from parley.host.data.schedule import Schedule, ScheduleRun, StoredSchedule, TickState
from parley.host.data.schedule_records import (
    KEPT_RUNS,
    NEVER,
    decode_schedule,
    put_run,
    put_state,
    runs_of,
    schedule_key,
    state_key,
)
from parley.host.data.transactions import Decision, TenantTransactions
from parley.stores.interface import DeleteRecord, PutRecord, RecordChange, Records

PRUNED = 20
"""Entries of the history that one tick deletes at most: more than it adds."""


class DueSchedule(Struct, frozen=True):
    """A schedule that is to be looked at from a moment on, in milliseconds since 1970."""

    tenant: str
    id: str
    due_ms: int


class TickChange(Struct, frozen=True, kw_only=True):
    """What a decision changes: the state, entries for the history, and whether the schedule is paused, and why."""

    state: TickState
    runs: Sequence[ScheduleRun] = ()
    pause_reason: str = ""


DecideTick: TypeAlias = Callable[[StoredSchedule], Awaitable[TickChange | None]]
"""Decides about the ticks of a schedule; None: there is nothing to decide."""


class ScheduleTicks:
    """The states of all schedules."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self._audit = Audit(records, clock)
        self._transactions = TenantTransactions(records, clock)

    async def first_due(self, *, after: DueSchedule | None = None, limit: int) -> Sequence[DueSchedule]:
        """The schedules of all tenants that are due first, in that order. Some may be due in the future."""
        last = (after.due_ms, f"{after.tenant}/{after.id}") if after is not None else None
        found = await self._records.list(SCHEDULE_TICKS, HOST, after=last, limit=limit, newest_first=False)
        split = [(record.key.id.partition("/"), record.sort) for record in found if record.sort < NEVER]
        return [DueSchedule(tenant, schedule_id, sort) for (tenant, _, schedule_id), sort in split]

    async def decide(self, tenant: str, schedule_id: str, decide: DecideTick) -> StoredSchedule | None:
        """Make a decision and write it. Returns the schedule as it is then; None if nothing was written."""

        async def decide_once() -> Decision[StoredSchedule | None]:
            record = await self._records.get(schedule_key(tenant, schedule_id))
            if record is None:
                return None, ()
            before = decode_schedule(record, await self._records.get(state_key(tenant, schedule_id)))
            change = await decide(before)
            if change is None:
                return None, ()
            put = put_state(tenant, schedule_id, change.state, revision=before.state_revision)
            after = structs.replace(before, state=change.state, state_revision=before.state_revision + 1)
            changes: list[RecordChange] = [put, *(put_run(tenant, schedule_id, run) for run in change.runs)]
            if change.runs:
                changes += await self._old_runs(tenant, schedule_id)
            if change.pause_reason:
                after = structs.replace(after, schedule=self._paused(after, change.pause_reason))
                changes += await self._pausing(after)
            return after, changes

        return await self._transactions.run(tenant, decide_once)

    async def _old_runs(self, tenant: str, schedule_id: str) -> list[RecordChange]:
        """The changes that keep the history short."""
        collection = runs_of(schedule_id)
        surplus = await self._records.count(collection, tenant) - KEPT_RUNS
        if surplus <= 0:
            return []
        oldest = await self._records.list(collection, tenant, limit=min(surplus, PRUNED), newest_first=False)
        return [DeleteRecord(record.key) for record in oldest]

    def _paused(self, stored: StoredSchedule, reason: str) -> Schedule:
        return structs.replace(
            stored.schedule, enabled=False, pause_reason=reason, updated_at=seconds(self._clock.now())
        )

    async def _pausing(self, stored: StoredSchedule) -> list[RecordChange]:
        """The changes that keep a schedule as paused by the host."""
        put = PutRecord(
            schedule_key(stored.tenant, stored.id),
            to_builtins(stored.schedule),
            stored.sort,
            expected=stored.revision,
        )
        entry = await self._audit.entry(
            "pause_schedule",
            f"{stored.tenant}/{stored.id}",
            actor="host",
            kind="schedule",
            before={"revision": stored.revision},
            after={"revision": stored.revision + 1, "reason": stored.schedule.pause_reason},
        )
        return [put, entry]
