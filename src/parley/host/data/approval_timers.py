"""Timers of approvals: when one expires, and when a task that waits for one is looked at again.

All tenants share one list, in the order of time, so that one look finds the next timer. A timer is removed when what it
stands for is done, and a process that is late finds nothing to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from parley.host.data.keys import APPROVAL_TIMERS, HOST
from parley.stores.interface import DeleteRecord, PutRecord, RecordKey, Records

TimerKind: TypeAlias = Literal["expire", "wake"]

PAGE = 100


class ApprovalTimer(Struct, frozen=True):
    """One timer of an approval."""

    kind: TimerKind
    tenant: str
    approval_id: str


class ApprovalTimers:
    """The timers of all tenants."""

    def __init__(self, records: Records) -> None:
        self._records = records

    async def next(self) -> Sequence[tuple[ApprovalTimer, int]]:
        """The next timers and their times in milliseconds since 1970, the earliest first."""
        found = await self._records.list(APPROVAL_TIMERS, HOST, limit=PAGE, newest_first=False)
        return [(_decode(record.key.id), record.sort) for record in found]

    async def set(self, timer: ApprovalTimer, due: int) -> None:
        """Set a timer to another time."""
        await self._records.write(put_timer(timer, due))

    async def remove(self, timer: ApprovalTimer) -> None:
        """Remove a timer, if it is there."""
        await self._records.write(remove_timer(timer))


def put_timer(timer: ApprovalTimer, due: int) -> PutRecord:
    """The change that sets a timer. Write it with what it belongs to."""
    return PutRecord(_key(timer), {}, due)


def remove_timer(timer: ApprovalTimer) -> DeleteRecord:
    """The change that removes a timer. Write it with what it belongs to."""
    return DeleteRecord(_key(timer))


def _key(timer: ApprovalTimer) -> RecordKey:
    return RecordKey(APPROVAL_TIMERS, HOST, f"{timer.kind}/{timer.tenant}/{timer.approval_id}")


def _decode(id: str) -> ApprovalTimer:
    kind, tenant, approval_id = id.split("/", 2)
    return ApprovalTimer("expire" if kind == "expire" else "wake", tenant, approval_id)
