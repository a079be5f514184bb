"""Usage in reports: sums of some days, grouped by what the reader asks for.

Reports are made of the sums of days. Only one by conversation reads calls, so its days and calls are bounded.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import date
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from parley.host.data.errors import InvalidValueError
from parley.host.data.usage import Usage
from parley.host.data.usage_days import UsageSums

Dimension: TypeAlias = Literal["tenant", "day", "agent", "caller", "model", "conversation"]
"""What usage can be grouped by."""

DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)

MOST_DAYS = 366
MOST_CALL_DAYS = 31
"""Days of a report by conversation."""
MOST_READ = 200_000
"""Sums or calls that a report reads: some seconds of work."""
MOST_ROWS = 10_000


class ReportTooLongError(InvalidValueError):
    """The report would have too many rows, or read too much; ask for fewer days or groups."""


class ReportRow(Struct, frozen=True):
    """The sums of one group; `group` has a value for each dimension that was asked for."""

    group: Mapping[Dimension, str]
    sums: UsageSums


class UsageReports:
    """Reports of usage."""

    def __init__(self, usage: Usage) -> None:
        self._usage = usage

    async def report(
        self, tenants: Sequence[str], day_from: date, day_to: date, *, group_by: Sequence[Dimension]
    ) -> Sequence[ReportRow]:
        """What tenants have used from one day to another, both included, in the order of the groups.

        Raises:
            ReportTooLongError: it is about too many days, or has too many rows.
        """
        most_days = MOST_CALL_DAYS if "conversation" in group_by else MOST_DAYS
        if (day_to - day_from).days >= most_days:
            raise ReportTooLongError(f"must be at most {most_days} days after from", "to")
        rows: dict[tuple[str, ...], UsageSums] = {}
        read = 0
        for tenant in tenants:
            async for facts, sums in self._each(tenant, day_from, day_to, by_call="conversation" in group_by):
                read += 1
                group = tuple([facts[dimension] for dimension in group_by])
                rows[group] = rows.get(group, UsageSums()) + sums
                if len(rows) > MOST_ROWS or read > MOST_READ:
                    raise ReportTooLongError("is too long a report; ask for fewer days or groups", "group_by")
        return [ReportRow(dict(zip(group_by, group, strict=True)), rows[group]) for group in sorted(rows)]

    async def _each(
        self, tenant: str, day_from: date, day_to: date, *, by_call: bool
    ) -> AsyncIterator[tuple[Mapping[Dimension, str], UsageSums]]:
        """All sums, or calls, with their values of the dimensions."""
        if by_call:
            async for day, call in self._usage.dated_calls(tenant, day_from, day_to):
                yield (
                    {
                        "tenant": tenant,
                        "day": day.isoformat(),
                        "agent": call.agent,
                        "caller": call.caller,
                        "model": call.model,
                        "conversation": str(call.conversation or ""),
                    },
                    call.sums,
                )
            return
        async for one in self._usage.days.each(tenant, day_from, day_to):
            yield (
                {
                    "tenant": tenant,
                    "day": one.day.isoformat(),
                    "agent": one.agent,
                    "caller": one.caller,
                    "model": one.model,
                },
                one.sums,
            )
