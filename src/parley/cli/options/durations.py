"""Durations as options take them: text with units, such as `1h30m`, or a number of seconds."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta

import typer

from parley.agents.durations import parse_duration
from parley.protocol.errors import LocalProtocolError

LONGEST = timedelta(days=36_525)
"""A hundred years: longer than any setting needs, and no moment that it leads to is beyond the calendar."""

_UNITS = {"d": 86_400, "h": 3_600, "m": 60}


def read_duration(text: str, option: str) -> timedelta:
    """The time of an option that needs a unit, such as `30d`: a number alone could be meant as days.

    Raises:
        BadParameter: it is not a duration, or it is zero.
    """
    duration = _parse(text)
    if not duration:
        advice = "Write for example 90s, 12h, 1h30m or 30d, up to 100 years."
        raise typer.BadParameter(f"Invalid duration: {text!r}. {advice}", param_hint=option)
    return duration


def read_retention(text: str, option: str) -> tuple[timedelta | None, Mapping[str, timedelta]]:
    """How long finished tasks are kept, and those of single agents: `30d,currency=7d`.

    Raises:
        BadParameter: a part of it is not a duration, or is there twice.
    """
    kept: dict[str, timedelta] = {}
    for part in text.split(",") if text else ():
        agent, is_of_agent, duration = part.rpartition("=")
        if agent.strip() in kept or (is_of_agent and not agent.strip()):
            raise typer.BadParameter(f"Invalid: {text!r}. Write for example 30d,currency=7d.", param_hint=option)
        kept[agent.strip()] = read_duration(duration.strip(), option)
    return kept.pop("", None), kept


def read_seconds(text: str) -> float:
    """The seconds of `"1h30m"` or `"5400"`.

    Raises:
        ValueError: it is not a duration.
    """
    value: str | float = text
    with suppress(ValueError):
        value = float(text)
    duration = _parse(value)
    if duration is None:
        advice = "Write for example 90s, 10m or 1h30m, or a number of seconds, up to 100 years."
        raise ValueError(f"Invalid duration: {text!r}. {advice}")
    return duration.total_seconds()


def seconds_as_text(seconds: float) -> str:
    """A short text that `read_seconds` reads as so many seconds: 5400 → `"90m"`."""
    unit = next((name for name, length in _UNITS.items() if seconds and seconds % length == 0), "")
    return f"{seconds / _UNITS[unit]:g}{unit}" if unit else f"{seconds:g}s"


def _parse(value: str | float) -> timedelta | None:
    try:
        duration = parse_duration(value)
    except LocalProtocolError:
        return None
    return duration if duration <= LONGEST else None
