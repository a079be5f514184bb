"""When a schedule runs: by a cron expression, at an interval, or once. From that follow its ticks.

Ticks are whole seconds, in UTC. They depend on the schedule alone and not on when one asks, so that two processes, or
one process before and after a restart, know the same ticks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice, pairwise, takewhile
from typing import Protocol

from parley.agents.durations import parse_duration
from parley.host.data.schedule import Timing
from parley.host.schedules.cron import CronExpression, zone_named
from parley.host.schedules.errors import InvalidTimingError
from parley.protocol.errors import LocalProtocolError

SHORTEST = timedelta(minutes=1)
LONGEST = timedelta(days=366)

MAX_TEXT = 64
"""Characters of an interval or a moment."""

CHECKED_TICKS, CHECKED_TIME = 200, timedelta(days=400)
"""Ticks whose intervals are compared with the shortest that a tenant may use: a cron expression has a pattern of a day,
in which two ticks may be close together."""

_ISO_DURATION = re.compile(r"P(?:(\d{1,4})D)?(?:T(?:(\d{1,5})H)?(?:(\d{1,6})M)?(?:(\d{1,8})S)?)?", re.ASCII)

_FIRST, _LAST = datetime(2000, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


class Ticks(Protocol):
    """The moments of a schedule."""

    def ticks_after(self, moment: datetime) -> Iterator[datetime]:
        """The ticks after a moment, in their order."""
        ...


class _Interval:
    def __init__(self, every: timedelta, anchor: datetime) -> None:
        self._every = every
        self._anchor = anchor

    def ticks_after(self, moment: datetime) -> Iterator[datetime]:
        passed = max(0, (moment - self._anchor) // self._every)
        tick = self._anchor + (passed + 1) * self._every
        while tick < _LAST:
            yield tick
            tick += self._every


class _Once:
    def __init__(self, moment: datetime) -> None:
        self._moment = moment

    def ticks_after(self, moment: datetime) -> Iterator[datetime]:
        if self._moment > moment:
            yield self._moment


@lru_cache(maxsize=4_096)
def ticks_of(timing: Timing) -> Ticks:
    """The ticks that a timing means.

    Raises:
        InvalidTimingError: a member is not valid, or there is not exactly one of `cron`, `every` and `at`.
    """
    if sum(1 for one in (timing.cron, timing.every, timing.at) if one) != 1:
        raise InvalidTimingError("cron", "there must be exactly one of cron, every and at")
    zone = zone_named(timing.time_zone)
    if timing.cron:
        return CronExpression(timing.cron, zone)
    if timing.every:
        return _Interval(read_interval(timing.every), datetime.fromtimestamp(timing.anchor, UTC))
    return _Once(read_moment(timing.at, "at"))


def read_interval(text: str) -> timedelta:
    """An interval such as `15 minutes`, `1h30m` or `PT15M`.

    Raises:
        InvalidTimingError: it cannot be read, or is shorter than a minute or longer than a year.
    """
    if len(text) > MAX_TEXT:
        raise InvalidTimingError("every", f"must have at most {MAX_TEXT} characters")
    iso = _ISO_DURATION.fullmatch(text.strip())
    if iso is not None and any(iso.groups()):
        days, hours, minutes, seconds = (int(number or 0) for number in iso.groups())
        interval = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    else:
        try:
            interval = parse_duration(text)
        except LocalProtocolError:
            raise InvalidTimingError("every", "must be an interval such as '15 minutes', '2h' or 'PT15M'") from None
    if not SHORTEST <= interval <= LONGEST:
        raise InvalidTimingError("every", "must be from 1 minute to 366 days")
    if interval % timedelta(seconds=1):
        raise InvalidTimingError("every", "must be whole seconds")
    return interval


def read_moment(text: str, member: str) -> datetime:
    """A moment such as `2026-03-01T09:00:00+01:00`, in UTC and whole seconds.

    Raises:
        InvalidTimingError: it cannot be read, or has no offset.
    """
    try:
        moment = datetime.fromisoformat(text) if len(text) <= MAX_TEXT else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InvalidTimingError(member, "must be a moment with its offset, such as '2026-03-01T09:00:00+01:00'")
    if not _FIRST.year < moment.year < _LAST.year:
        raise InvalidTimingError(member, "is out of range")
    return moment.astimezone(UTC).replace(microsecond=0)


def shortest_gap(ticks: Ticks, after: datetime) -> timedelta | None:
    """The shortest interval between two of the next ticks; None if there are fewer than two."""
    soon = takewhile(lambda tick: tick < after + CHECKED_TIME, ticks.ticks_after(after))
    found = list(islice(soon, CHECKED_TICKS))
    gaps = [later - earlier for earlier, later in pairwise(found)]
    return min(gaps, default=None)
