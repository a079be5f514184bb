"""Dates in text: how the built-in models find, read and write them. Only dates whose meaning is certain are read."""

from __future__ import annotations

import re
from datetime import date, timedelta

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_MONTH = "(?:" + "|".join(f"{name}|{name[:3]}\\.?" for name in MONTHS) + "|Sept\\.?)"
DATE = (
    rf"(?:(?<![\w-])\d{{4}}-\d{{1,2}}-\d{{1,2}}(?![\w-])"
    rf"|\b\d{{1,2}}(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTH},?\s+\d{{4}}\b"
    rf"|\b{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?,?\s+\d{{4}}\b)"
)
"""A date: `2026-07-04`, `4 July 2026` or `July 4, 2026`."""

_DATE = re.compile(DATE, re.IGNORECASE | re.ASCII)


class NoSuchDateError(Exception):
    """A date that the calendar does not have. The message is a sentence for the user."""


def find_dates(text: str) -> list[date]:
    """The dates of a text, in order.

    Raises:
        NoSuchDateError: one of them does not exist, like 30 February.
    """
    return [read_date(found[0]) for found in _DATE.finditer(text)]


def read_date(text: str) -> date:
    """The date that a text matching `DATE` means.

    Raises:
        NoSuchDateError: there is no such date.
    """
    numbers = [int(number) for number in re.findall(r"\d+", text)]
    if len(numbers) == 3:
        year, month, day = numbers
    else:
        day, year = numbers
        name = re.search(_MONTH, text, re.IGNORECASE | re.ASCII)
        month = 1 + [month[:3].lower() for month in MONTHS].index(name[0][:3].lower() if name else "")
    try:
        return date(year, month, day)
    except ValueError:
        raise NoSuchDateError(f"There is no date {text.strip()}.") from None


def add_days(start: date, days: int) -> date:
    """The date so many days later, or earlier.

    Raises:
        NoSuchDateError: it is outside of the years 1 to 9999.
    """
    try:
        return start + timedelta(days=days)
    except OverflowError:
        raise NoSuchDateError("That date is outside of the years 1 to 9999.") from None


def add_months(start: date, months: int) -> date:
    """The same day so many months later, or earlier; the last day of that month if the month is shorter.

    Raises:
        NoSuchDateError: it is outside of the years 1 to 9999.
    """
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise NoSuchDateError("That date is outside of the years 1 to 9999.")
    for day in range(start.day, 27, -1):
        try:
            return date(year, month + 1, day)
        except ValueError:
            continue
    return date(year, month + 1, start.day)
