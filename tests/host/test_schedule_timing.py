"""When schedules run: cron expressions, intervals and moments, clock changes, and ticks that were missed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from parley.host.data.schedule import Schedule, Timing
from parley.host.schedules.due import MOST_COUNTED, DueTick, due_tick, first_tick
from parley.host.schedules.errors import InvalidTimingError
from parley.host.schedules.timing import ticks_of

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
BERLIN = "Europe/Berlin"


def local_ticks(timing: Timing, after: datetime, number: int) -> list[str]:
    zone = UTC if timing.time_zone == "UTC" else ZoneInfo(timing.time_zone)
    return [tick.astimezone(zone).isoformat() for tick in islice(ticks_of(timing).ticks_after(after), number)]


def test_a_cron_expression_is_read_in_its_time_zone() -> None:
    assert local_ticks(Timing("0 9 * * MON-FRI", time_zone=BERLIN), NOON, 3) == [
        "2026-01-02T09:00:00+01:00",
        "2026-01-05T09:00:00+01:00",
        "2026-01-06T09:00:00+01:00",
    ]
    assert local_ticks(Timing("@monthly"), NOON, 1) == ["2026-02-01T00:00:00+00:00"]


def test_an_interval_counts_from_its_beginning_and_a_moment_comes_once() -> None:
    interval = Timing(every="90 minutes", anchor=int(NOON.timestamp()))
    assert local_ticks(interval, NOON, 2) == ["2026-01-01T13:30:00+00:00", "2026-01-01T15:00:00+00:00"]
    assert local_ticks(interval, NOON - timedelta(days=1), 1) == ["2026-01-01T13:30:00+00:00"]
    once = Timing(at="2026-03-01T09:00:00.5+01:00")
    assert local_ticks(once, NOON, 5) == ["2026-03-01T08:00:00+00:00"]
    assert local_ticks(once, datetime(2026, 3, 1, 8, tzinfo=UTC), 5) == []
    assert ticks_of(Timing(every="PT15M")) is not None


@pytest.mark.parametrize(
    ("timing", "reason"),
    [
        (Timing("* * * * * *"), "$.cron: has 6 fields; seconds are not supported, one minute is the shortest interval"),
        (Timing("* * *"), "$.cron: has 3 fields; it must have 5: minute, hour, day-of-month, month, day-of-week"),
        (Timing("61 * * * *"), "$.cron: the minute field '61' is not valid; it may hold 0 to 59"),
        (Timing("0 25 * * *"), "$.cron: the hour field '25' is not valid; it may hold 0 to 23"),
        (Timing("0 0 32 * *"), "$.cron: the day-of-month field '32' is not valid; it may hold 1 to 31, L or LW"),
        (Timing("0 0 1 13 *"), "$.cron: the month field '13' is not valid; it may hold 1 to 12 or JAN to DEC"),
        (Timing("0 0 * * MOON"), "$.cron: the day-of-week field 'MOON' is not valid; "),
        (Timing("*/0 * * * *"), "$.cron: the minute field '*/0' is not valid; "),
        (Timing("9-5 * * * *"), "$.cron: the minute field '9-5' is not valid; "),
        (Timing("0 0 30 2 *"), "$.cron: the day-of-month field '30' is a day that the months do not have"),
        (Timing("0 0 */29 2 1#5"), "$.cron: there is no such day in the next 50 years"),
        (Timing("@reboot"), "$.cron: there is no name '@reboot'; there are @yearly, "),
        (Timing("9" * 5_000 + " * * * *"), "$.cron: must have at most 200 characters"),
        (Timing("\N{SUPERSCRIPT TWO} * * * *"), "$.cron: the minute field"),
        (Timing("0 9 * * *", every="1 hour"), "$.cron: there must be exactly one of cron, every and at"),
        (Timing(), "$.cron: there must be exactly one of cron, every and at"),
        (Timing("0 9 * * *", time_zone="Mars/Olympus"), "$.time_zone: there is no time zone 'Mars/Olympus'; "),
        (Timing("0 9 * * *", time_zone="../../etc/passwd"), "$.time_zone: there is no time zone"),
        (Timing("0 9 * * *", time_zone="America"), "$.time_zone: there is no time zone"),
        (Timing("0 9 * * *", time_zone="localtime"), "$.time_zone: there is no time zone"),
        (Timing("0 9 * * *", time_zone=""), "$.time_zone: there is no time zone"),
        (Timing(every="1 second"), "$.every: must be from 1 minute to 366 days"),
        (Timing(every="PT59S"), "$.every: must be from 1 minute to 366 days"),
        (Timing(every="400 days"), "$.every: must be from 1 minute to 366 days"),
        (Timing(every="90.5 seconds"), "$.every: must be whole seconds"),
        (Timing(every="often"), "$.every: must be an interval such as '15 minutes', '2h' or 'PT15M'"),
        (Timing(every="P"), "$.every: must be an interval"),
        (Timing(at="2026-03-01T09:00:00"), "$.at: must be a moment with its offset, such as "),
        (Timing(at="tomorrow"), "$.at: must be a moment with its offset, such as "),
        (Timing(at="9999-12-31T23:59:59-12:00"), "$.at: is out of range"),
    ],
    ids=lambda value: repr(value)[:60] if isinstance(value, Timing) else "",
)
def test_what_cannot_be_read_is_refused_with_the_field_at_fault(timing: Timing, reason: str) -> None:
    with pytest.raises(InvalidTimingError) as refused:
        ticks_of(timing)
    assert refused.value.message.startswith(reason)


@pytest.mark.parametrize(
    ("cron", "after", "expected"),
    [
        # On 29 March 2026, 02:00 to 03:00 does not exist in Berlin.
        ("30 2 * * *", "2026-03-28T12:00", ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]),
        ("0,30 2,3 * * *", "2026-03-29T00:00", ["2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00"]),
        ("0 * * * *", "2026-03-29T01:00", ["2026-03-29T03:00:00+02:00", "2026-03-29T04:00:00+02:00"]),
        # On 25 October 2026, 02:00 to 03:00 comes twice.
        ("30 2 * * *", "2026-10-24T12:00", ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]),
        ("0 * * * *", "2026-10-25T01:00", ["2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00"]),
    ],
)
def test_a_fixed_hour_runs_once_when_clocks_change_and_an_interval_goes_on(
    cron: str, after: str, expected: list[str]
) -> None:
    moment = datetime.fromisoformat(after).replace(tzinfo=ZoneInfo(BERLIN))
    assert local_ticks(Timing(cron, time_zone=BERLIN), moment, 2) == expected


@pytest.mark.parametrize("cron", ["30 2 * * *", "*/20 * * * *", "0 */2 * * *", "15 1-3 * * *", "59 23 * * *"])
@pytest.mark.parametrize("zone", [BERLIN, "America/New_York", "Africa/Cairo", "America/Santiago", "UTC"])
def test_the_ticks_are_the_same_whenever_one_asks(cron: str, zone: str) -> None:
    """A restart in a repeated hour must not find a tick again that has passed, and must not lose one."""
    ticks = ticks_of(Timing(cron, time_zone=zone))
    for first in (
        datetime(2026, 3, 7, tzinfo=UTC),
        datetime(2026, 10, 24, tzinfo=UTC),
        datetime(2026, 4, 4, tzinfo=UTC),
    ):
        end = first + timedelta(days=3)
        whole = [tick for tick in islice(ticks.ticks_after(first), 300) if tick <= end]
        moment = first
        while moment < end:
            following = next(ticks.ticks_after(moment))
            assert following > moment
            if following <= end:
                assert following == next(tick for tick in whole if tick > moment)
            moment += timedelta(minutes=13)


# --- missed ticks -----------------------------------------------------------------------------------------------------


def schedule(cron: str = "*/10 * * * *", **members: Any) -> Schedule:
    given: dict[str, Any] = {"timing": Timing(cron), **members}
    return Schedule(id="x", name="x", agent_id="x", message="x", created_by="x", created_at=0, updated_at=0, **given)


def seconds(text: str) -> int:
    return int(datetime.fromisoformat(f"2026-01-01T{text}+00:00").timestamp())


@pytest.mark.parametrize(
    ("policy", "now", "expected"),
    [
        ("run_once", "11:59:59", DueTick(tick=None, next_tick=seconds("12:00"))),
        ("skip", "12:00:00", DueTick(tick=seconds("12:00"), next_tick=seconds("12:10"))),
        ("skip", "12:00:59", DueTick(tick=seconds("12:00"), next_tick=seconds("12:10"))),
        ("skip", "12:35:00", DueTick(tick=None, next_tick=seconds("12:40"), missed=4)),
        ("skip", "12:30:05", DueTick(tick=seconds("12:30"), next_tick=seconds("12:40"), missed=3)),
        ("run_once", "12:05:00", DueTick(tick=seconds("12:00"), is_missed=True, next_tick=seconds("12:10"))),
        ("run_once", "12:35", DueTick(tick=seconds("12:30"), is_missed=True, next_tick=seconds("12:40"), missed=3)),
        ("run_all", "12:35", DueTick(tick=seconds("12:00"), is_missed=True, next_tick=seconds("12:10"))),
    ],
)
def test_missed_ticks_are_left_out_run_once_or_all_run(policy: Any, now: str, expected: DueTick) -> None:
    moment = datetime.fromisoformat(f"2026-01-01T{now}+00:00")
    assert due_tick(schedule(missed=policy), seconds("12:00"), moment) == expected


def test_after_years_only_the_latest_ticks_are_run_and_few_are_looked_at() -> None:
    now = NOON + timedelta(days=4_000)
    every_minute = schedule("* * * * *", missed="run_all")
    due = due_tick(every_minute, int(NOON.timestamp()), now)
    assert (due.tick, due.missed) == (int(now.timestamp()) - 99 * 60, MOST_COUNTED)
    yearly = due_tick(schedule("0 0 1 1 *", missed="run_all"), int(NOON.timestamp()), now)
    assert (yearly.tick, yearly.missed) == (int(NOON.timestamp()), 0)


def test_a_schedule_ends_with_its_last_moment_or_run() -> None:
    until = schedule("0 * * * *", ends_at=seconds("13:00"))
    assert first_tick(until, after=NOON) == seconds("13:00")
    assert first_tick(until, after=NOON + timedelta(hours=1)) is None
    assert due_tick(until, seconds("13:00"), NOON + timedelta(hours=3)).next_tick is None
    assert first_tick(schedule(max_runs=2), after=NOON, runs=2) is None
    assert first_tick(schedule(enabled=False), after=NOON) is None
