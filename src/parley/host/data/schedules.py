"""The schedules of all tenants, as tenants read and change them.

A change that moves the ticks of a schedule writes its state too, together with the revision that it was read with. So
it cannot overlap with a decision about a tick, of which `schedule_ticks` says more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec
from msgspec import structs, to_builtins

from parley.engine.clock import Clock
from parley.host.data.audit import Audit, AuditAction, changed_members
from parley.host.data.epoch import milliseconds, seconds
from parley.host.data.errors import AlreadyExistsError, LimitReachedError, StaleRevisionError
from parley.host.data.keys import SCHEDULES
from parley.host.data.schedule import Schedule, ScheduleNotFoundError, ScheduleRun, StoredSchedule, TickState
from parley.host.data.schedule_records import (
    KEPT_RUNS,
    decode_schedule,
    put_state,
    runs_of,
    schedule_key,
    state_key,
)
from parley.host.data.transactions import Decision, TenantTransactions
from parley.stores.interface import DeleteRecord, PutRecord, Record, RecordChange, Records

MAX_SCHEDULES = 1_000
"""Schedules of one tenant, unless its quota says otherwise."""

MAX_PAGE = 200
Change: TypeAlias = Callable[[StoredSchedule], tuple[Schedule, TickState]]
"""What a schedule and its state become."""


class Schedules:
    """The schedules of all tenants."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self._audit = Audit(records, clock)
        self._transactions = TenantTransactions(records, clock)

    # --- what tenants do ----------------------------------------------------------------------------------------------

    async def get(self, tenant: str, schedule_id: str) -> StoredSchedule:
        """One schedule with its state.

        Raises:
            ScheduleNotFoundError: the tenant has none with this id.
        """
        record = await self._records.get(schedule_key(tenant, schedule_id))
        if record is None:
            raise ScheduleNotFoundError
        return await self._with_state(record)

    async def list(
        self, tenant: str, *, after: tuple[int, str] | None = None, limit: int = MAX_PAGE
    ) -> Sequence[StoredSchedule]:
        """Schedules of a tenant, the newest first; `after` is the place and the id of the last of the page before."""
        found = await self._records.list(SCHEDULES, tenant, after=after, limit=min(max(limit, 1), MAX_PAGE))
        return [await self._with_state(record) for record in found]

    async def create(self, tenant: str, schedule: Schedule, state: TickState, *, most: int | None) -> StoredSchedule:
        """A new schedule; `most` is how many the tenant may have, None for the limit of all tenants.

        Raises:
            AlreadyExistsError: the tenant has a schedule with this id.
            LimitReachedError: the tenant has too many schedules.
        """
        most = MAX_SCHEDULES if most is None else min(most, MAX_SCHEDULES)

        async def decide() -> Decision[StoredSchedule]:
            if await self._records.get(schedule_key(tenant, schedule.id)) is not None:
                raise AlreadyExistsError(f"schedule '{schedule.id}' already exists for this tenant")
            # Other processes may create schedules at the same time: the bound is exact within one process.
            if await self._records.count(SCHEDULES, tenant) >= most:
                raise LimitReachedError(f"a tenant may have {most} schedules; delete one first")
            put = PutRecord(
                schedule_key(tenant, schedule.id), to_builtins(schedule), milliseconds(self._clock.now()), expected=0
            )
            entry = await self._audit.entry(
                "create_schedule",
                f"{tenant}/{schedule.id}",
                actor=schedule.created_by,
                kind="schedule",
                after={"revision": 1, "agent": schedule.agent_id},
            )
            created = StoredSchedule(tenant, schedule, 1, put.sort, state, 1)
            return created, [put, put_state(tenant, schedule.id, state, revision=0), entry]

        return await self._transactions.run(tenant, decide)

    async def change(
        self,
        tenant: str,
        schedule_id: str,
        change: Change,
        *,
        actor: str,
        action: AuditAction = "update_schedule",
        revision: int | None = None,
    ) -> StoredSchedule:
        """The schedule and its state as `change` makes them. `revision` is the one that the caller has seen; None: any.

        Raises:
            ScheduleNotFoundError: the tenant has none with this id.
            StaleRevisionError: the schedule has another revision.
        """

        async def decide() -> Decision[StoredSchedule]:
            before = await self.get(tenant, schedule_id)
            _check_revision(before, revision)
            schedule, state = change(before)
            changed = changed_members(before.schedule, schedule)
            if not changed and state == before.state:
                return before, ()
            schedule = structs.replace(schedule, updated_at=seconds(self._clock.now()))
            put = PutRecord(
                schedule_key(tenant, schedule_id), to_builtins(schedule), before.sort, expected=before.revision
            )
            entry = await self._audit.entry(
                action,
                f"{tenant}/{schedule_id}",
                actor=actor,
                kind="schedule",
                before={"revision": before.revision},
                after={"revision": before.revision + 1, "changed": list(changed)},
            )
            changes: list[RecordChange] = [put, entry]
            after = structs.replace(before, schedule=schedule, revision=before.revision + 1)
            if state != before.state:
                changes.append(put_state(tenant, schedule_id, state, revision=before.state_revision))
                after = structs.replace(after, state=state, state_revision=before.state_revision + 1)
            return after, changes

        return await self._transactions.run(tenant, decide)

    async def delete(self, tenant: str, schedule_id: str, *, actor: str, revision: int | None = None) -> None:
        """Delete a schedule and its history. Runs go on.

        Raises:
            ScheduleNotFoundError: the tenant has none with this id.
            StaleRevisionError: the schedule has another revision.
        """

        async def decide() -> Decision[None]:
            before = await self.get(tenant, schedule_id)
            _check_revision(before, revision)
            runs = await self._records.list(runs_of(schedule_id), tenant, limit=2 * KEPT_RUNS)
            entry = await self._audit.entry(
                "delete_schedule",
                f"{tenant}/{schedule_id}",
                actor=actor,
                kind="schedule",
                before={"revision": before.revision},
            )
            return None, [
                DeleteRecord(schedule_key(tenant, schedule_id), before.revision),
                DeleteRecord(state_key(tenant, schedule_id), before.state_revision),
                *(DeleteRecord(run.key) for run in runs),
                entry,
            ]

        await self._transactions.run(tenant, decide)

    async def runs(
        self, tenant: str, schedule_id: str, *, after: tuple[int, str] | None = None, limit: int = MAX_PAGE
    ) -> Sequence[tuple[int, ScheduleRun]]:
        """What became of the last ticks, newest first, each with its place in the list."""
        found = await self._records.list(runs_of(schedule_id), tenant, after=after, limit=min(max(limit, 1), MAX_PAGE))
        return [(record.sort, msgspec.convert(record.value, ScheduleRun)) for record in found]

    async def _with_state(self, record: Record) -> StoredSchedule:
        return decode_schedule(record, await self._records.get(state_key(record.key.tenant, record.key.id)))


def _check_revision(stored: StoredSchedule, revision: int | None) -> None:
    if revision not in (None, stored.revision):
        raise StaleRevisionError(
            f"schedule '{stored.id}' has changed since revision {revision}; it has revision {stored.revision} now"
        )
