"""What waits for the writer: appends, changes of records, and other changes, each with the future of its caller.

All jobs of a transaction become visible at once. So those that touch different tables may be done in another order than
they came in: tables are then locked in the same order by every process, and two of them seldom wait for each other in a
circle (PostgreSQL ends that after a second). For the same reason a change says which task's row it locks, and a
transaction locks all of them at its beginning.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from enum import IntEnum
from typing import Any, TypeAlias

import asyncpg
from msgspec import Struct

from parley.stores.appends import Append, TaskId
from parley.stores.interface import StoreError
from parley.stores.record_changes import EncodedChange


class Tables(IntEnum):
    """Which tables a change touches, in the order in which they are locked."""

    TASKS = 0
    """Tasks and all that belongs to them. These changes stay in the order of the calls."""
    CONTEXTS = 1
    RECORDS = 2
    NUMBERS = 3


class Change(Struct, frozen=True):
    """A change of another kind. It checks before it changes, and raises `StoreError` only before."""

    run: Callable[[asyncpg.Connection], Awaitable[Any]]
    tables: Tables
    task: TaskId | None = None
    """The task whose row it locks, if it locks one."""


class RecordsWrite(Struct, frozen=True):
    """Changes of records that are made together."""

    changes: Sequence[EncodedChange]


class Job(Struct):
    """A change, the future of its caller, when it was queued, and how often it was tried."""

    change: Append | Change | RecordsWrite
    done: asyncio.Future[Any]
    queued_at: float
    tries: int = 0


Outcome: TypeAlias = tuple[Job, Any, StoreError | None]


def in_order_of_tables(jobs: Sequence[Job]) -> list[Job]:
    """Jobs in the order in which tables are locked; those of one table stay in their order."""
    return sorted(jobs, key=_tables_of)


def _tables_of(job: Job) -> Tables:
    match job.change:
        case Append():
            return Tables.TASKS
        case RecordsWrite():
            return Tables.RECORDS
        case change:
            return change.tables


def size_of(job: Job) -> int:
    """About how many characters a job sends to the database."""
    match job.change:
        case Append(events=events, snapshot=snapshot):
            return sum([len(text) for _, text, _, _ in events]) + (
                sum(map(len, snapshot)) if snapshot is not None else 0
            )
        case RecordsWrite(changes=changes):
            return sum([len(change.value or "") for change in changes])
        case _:
            return 0


def resolve(outcomes: Sequence[Outcome]) -> None:
    """Tell the callers."""
    for job, result, error in outcomes:
        if job.done.done():  # the caller was cancelled
            continue
        if error is None:
            job.done.set_result(result)
        else:
            job.done.set_exception(error)
