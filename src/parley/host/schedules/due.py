"""Which tick of a schedule is run next, if several have passed: the policy for missed ticks, as a pure function.

A tick counts as missed when it is more than `LATE` old: no process was running, or all were suspended, or the clock was
put forward. It never looks at ticks before the state's next tick, so a clock that is put back repeats nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain, islice, takewhile

from msgspec import Struct

from parley.host.data.epoch import seconds
from parley.host.data.schedule import Schedule
from parley.host.schedules.timing import ticks_of

LATE = timedelta(minutes=1)

MOST_RUN = 100
"""Missed ticks that `run_all` runs, the latest of them: a day of ticks every quarter of an hour, and then no flood."""

MOST_COUNTED = 1_000
"""Missed ticks that are counted; a schedule of every minute may have missed millions."""

_FIRST_WINDOW = timedelta(hours=2)
"""Where the search for the latest ticks begins: 120 minutes, so more than `MOST_RUN` ticks of every minute."""


class DueTick(Struct, frozen=True, kw_only=True):
    """What is to be done about the ticks that have passed."""

    tick: int | None
    """The tick to run; None: only later ones remain."""
    is_missed: bool = False
    """Whether the tick to run is more than `LATE` old."""
    next_tick: int | None
    """The first tick after it."""
    missed: int = 0
    """How many ticks before it are not run, up to `MOST_COUNTED`."""


def first_tick(schedule: Schedule, *, after: datetime, runs: int = 0) -> int | None:
    """The first tick after a moment; None if the schedule is paused or has ended by then."""
    if not schedule.enabled or (schedule.max_runs is not None and runs >= schedule.max_runs):
        return None
    return _seconds(next(ticks_after(schedule, after), None))


def due_tick(schedule: Schedule, next_tick: int, now: datetime) -> DueTick:
    """What is to be done at a moment, if `next_tick` is the first tick that no decision was made about."""
    first, late = datetime.fromtimestamp(next_tick, UTC), now - LATE
    if first > now:
        return DueTick(tick=None, next_tick=next_tick)
    latest = _latest_ticks(schedule, first, now)
    chosen: datetime | None
    match schedule.missed:
        case "run_once":
            chosen = latest[-1] if latest[0] <= late else latest[0]
        case "run_all":
            chosen = latest[0]
        case "skip":
            chosen = next((tick for tick in latest if tick > late), None)
    left_out = takewhile(lambda tick: tick < chosen if chosen else tick <= late, _ticks_from(schedule, first))
    return DueTick(
        tick=_seconds(chosen),
        is_missed=chosen is not None and chosen <= late,
        next_tick=_seconds(next(ticks_after(schedule, chosen or latest[-1]), None)),
        missed=sum(1 for _ in islice(left_out, MOST_COUNTED)),
    )


def ticks_after(schedule: Schedule, moment: datetime) -> Iterator[datetime]:
    """The ticks after a moment, up to the end of the schedule."""
    ticks = ticks_of(schedule.timing).ticks_after(moment)
    ends_at = schedule.ends_at
    return ticks if ends_at is None else takewhile(lambda tick: tick.timestamp() <= ends_at, ticks)


def _ticks_from(schedule: Schedule, first: datetime) -> Iterator[datetime]:
    """A tick that is known, and those after it."""
    return chain([first], ticks_after(schedule, first))


def _latest_ticks(schedule: Schedule, first: datetime, now: datetime) -> list[datetime]:
    """The latest ticks from `first` to now, `MOST_RUN` at most. Millions may have passed, so not all are looked at."""
    window = _FIRST_WINDOW
    while True:
        begin = now - window
        ticks = ticks_after(schedule, begin) if begin > first else _ticks_from(schedule, first)
        found = list(takewhile(lambda tick: tick <= now, ticks))
        if len(found) >= MOST_RUN or begin <= first:
            return found[-MOST_RUN:]
        window *= 2


def _seconds(moment: datetime | None) -> int | None:
    return None if moment is None else seconds(moment)
