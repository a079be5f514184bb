"""Moments as numbers: whole seconds since 1970 in values, milliseconds in the order of records.

The native API shows seconds. They are too coarse to order what was written within one second.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def seconds(moment: datetime) -> int:
    """A moment as whole seconds since 1970."""
    return (moment - _EPOCH) // timedelta(seconds=1)


def milliseconds(moment: datetime) -> int:
    """A moment as whole milliseconds since 1970."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def day_start(day: date) -> int:
    """The first millisecond of a day in UTC."""
    return milliseconds(datetime(day.year, day.month, day.day, tzinfo=UTC))
