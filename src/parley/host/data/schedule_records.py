"""How schedules are kept: what a tenant says, how far the schedule has come, and what became of its last ticks.

The state of a schedule is a record of the host, in the order of when it is due, so that one short list finds what is
due among all tenants.
"""

from __future__ import annotations

import msgspec
from msgspec import to_builtins

from parley.host.data.keys import HOST, SCHEDULE_RUNS, SCHEDULE_TICKS, SCHEDULES
from parley.host.data.schedule import Schedule, ScheduleRun, StoredSchedule, TickState
from parley.stores.interface import PutRecord, Record, RecordKey

KEPT_RUNS = 200
"""Entries in the history of a schedule; older ones are deleted. The requests themselves are kept as all others are."""

NEVER = 2**62
"""The place of states that are not due."""


def schedule_key(tenant: str, schedule_id: str) -> RecordKey:
    """The record of what a tenant says of a schedule."""
    return RecordKey(SCHEDULES, tenant, schedule_id)


def state_key(tenant: str, schedule_id: str) -> RecordKey:
    """The record of a schedule's state."""
    return RecordKey(SCHEDULE_TICKS, HOST, f"{tenant}/{schedule_id}")


def runs_of(schedule_id: str) -> str:
    """The collection of a schedule's history."""
    return f"{SCHEDULE_RUNS}/{schedule_id}"


def put_state(tenant: str, schedule_id: str, state: TickState, *, revision: int) -> PutRecord:
    """The change that keeps a state."""
    sort = NEVER if state.due is None else state.due * 1000
    return PutRecord(state_key(tenant, schedule_id), to_builtins(state), sort, expected=revision)


def put_run(tenant: str, schedule_id: str, run: ScheduleRun) -> PutRecord:
    """The change that adds an entry to the history."""
    return PutRecord(RecordKey(runs_of(schedule_id), tenant, run.id), to_builtins(run), run.at)


def decode_schedule(record: Record, state: Record | None) -> StoredSchedule:
    """A schedule of its two records."""
    return StoredSchedule(
        record.key.tenant,
        msgspec.convert(record.value, Schedule),
        record.revision,
        record.sort,
        msgspec.convert(state.value, TickState) if state is not None else TickState(),
        state.revision if state is not None else 0,
    )
