"""Durations as authors write them: `"3 days"`, `"1h30m"`, seconds, or a `timedelta`.

It reads English names of units with a fixed length. Months and years vary, so they are refused. It knows nothing of
clocks: a duration is not a moment.
"""

from __future__ import annotations

import re
from datetime import timedelta
from math import isfinite
from typing import TypeAlias

from parley.protocol.errors import LocalProtocolError

Duration: TypeAlias = str | float | timedelta
"""Text with units, a number of seconds, or a `timedelta`."""

_NAMES = {
    0.001: "ms msec msecs millisecond milliseconds",
    1: "s sec secs second seconds",
    60: "m min mins minute minutes",
    3_600: "h hr hrs hour hours",
    86_400: "d day days",
    604_800: "w week weeks",
}
_SECONDS = {name: seconds for seconds, names in _NAMES.items() for name in names.split()}

_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*,?", re.ASCII)

_CURE = "Write for example '90 s', '1h30m', '1.5 hours', '3 days' or '2 weeks', or give seconds or a timedelta."


def parse_duration(value: Duration) -> timedelta:
    """A duration, which is zero or positive: `"1h30m"` → `timedelta(minutes=90)`.

    Raises:
        LocalProtocolError: the value is not a duration; the message says why and what to write.
    """
    seconds = value
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, str):
        seconds = _parse_text(value)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise _invalid(value, "It must be text, a number of seconds or a timedelta")
    if seconds < 0:
        raise _invalid(value, "It is negative")
    try:
        if not isfinite(seconds):
            raise _invalid(value, "It is not finite")
        return value if isinstance(value, timedelta) else timedelta(seconds=seconds)
    except OverflowError as exc:
        raise _invalid(value, "It is too long") from exc


def _parse_text(text: str) -> float:
    """The seconds of a text such as `"1 hour, 30 min"`."""
    lowered, position, total = text.strip().lower(), 0, 0.0
    units: list[float] = []
    while part := _PART.match(lowered, position):
        number, name = part.groups()
        unit = _SECONDS.get(name)
        if unit is None:
            raise _invalid(text, f"There is no unit {name!r}")
        if unit in units:
            raise _invalid(text, f"The unit {name!r} is there twice")
        units.append(unit)
        total += float(number) * unit
        position = part.end()
    if not units or position != len(lowered) or lowered.endswith(","):
        raise _invalid(text, "It must consist of numbers with units")
    return total


def _invalid(value: object, reason: str) -> LocalProtocolError:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else f"{shown[:60]}…"
    return LocalProtocolError(f"Invalid duration: {shown}. {reason}. {_CURE}")
