"""Cron expressions with five fields, in a time zone: which moments they mean, and which field is wrong.

Where clocks are put forward or back, it follows Debian's cron, as `cronsim` implements it: a job at a fixed hour and
minute runs once on such a day (at the first moment after a gap, and at the first of two equal hours), and a job whose
minute or hour begins with `*` runs by the time that really passes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from parley.host.schedules.errors import InvalidTimingError

MAX_EXPRESSION = 200
"""Characters: a list of all sixty minutes has 169."""

NAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
"""Names that may stand for an expression."""

_FIELDS = {
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day-of-month": "1 to 31, L or LW",
    "month": "1 to 12 or JAN to DEC",
    "day-of-week": "0 to 7 or SUN to SAT, such as MON-FRI, 5L or MON#2",
}
"""The fields in their order, and what each may hold."""

_ZONE_NAME = re.compile(r"(?!posix/|right/|localtime$|posixrules$)[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+){0,2}", re.ASCII)
"""Names of the IANA database. What else lies in the folder of a system depends on that system."""

MAX_ZONE = 64


class CronExpression:
    """One expression in one time zone."""

    def __init__(self, text: str, zone: tzinfo) -> None:
        """Raises InvalidTimingError, which names the field that is wrong."""
        if len(text) > MAX_EXPRESSION:
            raise InvalidTimingError("cron", f"must have at most {MAX_EXPRESSION} characters")
        self.zone = zone
        self._expression = _checked(text)
        if self.next_after(datetime.now(UTC)) is None:
            raise InvalidTimingError("cron", "there is no such day in the next 50 years")

    def next_after(self, moment: datetime) -> datetime | None:
        """The first tick after a moment, in UTC; None if there is none in 50 years."""
        return next(self.ticks_after(moment), None)

    def ticks_after(self, moment: datetime) -> Iterator[datetime]:
        """All ticks after a moment, in UTC, each later than the one before."""
        for tick in CronSim(self._expression, moment.astimezone(self.zone)):
            utc = tick.astimezone(UTC)
            # A moment in the second of two equal hours may be followed by a tick in the first, which is over.
            if utc > moment:
                yield utc
                moment = utc


@lru_cache(maxsize=512)
def zone_named(name: str) -> tzinfo:
    """A time zone by its name in the IANA database.

    Raises:
        InvalidTimingError: there is none with this name.
    """
    if name == "UTC":
        return UTC  # also on a system without the database
    try:
        if len(name) <= MAX_ZONE and _ZONE_NAME.fullmatch(name):
            return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass
    shown = name if len(name) <= MAX_ZONE else f"{name[:MAX_ZONE]}…"
    raise InvalidTimingError(
        "time_zone", f"there is no time zone '{shown}'; write one such as 'Europe/Berlin' or 'UTC'"
    )


def _checked(text: str) -> str:
    """An expression that can be read, with five fields."""
    stripped = text.strip()
    if stripped.startswith("@"):
        if stripped not in NAMES:
            raise InvalidTimingError("cron", f"there is no name '{stripped}'; there are {', '.join(NAMES)}")
        return NAMES[stripped]
    parts = stripped.split()
    if len(parts) == 6:
        raise InvalidTimingError("cron", "has 6 fields; seconds are not supported, one minute is the shortest interval")
    if len(parts) != 5:
        raise InvalidTimingError("cron", f"has {len(parts)} fields; it must have 5: {', '.join(_FIELDS)}")
    for number, (part, (field, allowed)) in enumerate(zip(parts, _FIELDS.items(), strict=True)):
        alone = ["0", "0", "*", "*", "*"]
        alone[number] = part
        if not _can_be_read(alone):
            raise InvalidTimingError("cron", f"the {field} field '{part}' is not valid; it may hold {allowed}")
    if not _can_be_read(parts):
        raise InvalidTimingError("cron", f"the day-of-month field '{parts[2]}' is a day that the months do not have")
    return " ".join(parts)


def _can_be_read(parts: list[str]) -> bool:
    try:
        CronSim(" ".join(parts), datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError:
        return False
    return True
