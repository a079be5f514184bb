"""The model `parley/dates`: calculates with dates.

It has no clock: today's date is the one that the request, or otherwise the agent's instructions, say it is.
"""

from __future__ import annotations

import re
from calendar import isleap
from collections.abc import Callable
from datetime import date

from parley.host.models.builtin.date_text import (
    DATE,
    MONTHS,
    WEEKDAYS,
    NoSuchDateError,
    add_days,
    add_months,
    find_dates,
)
from parley.host.models.builtin.questions import MOST_CHARACTERS, answer_all
from parley.host.models.builtin.references import question_of, with_values
from parley.host.models.builtin.relative_dates import needs_today, with_relative_dates
from parley.host.models.model import ModelRequest

HELP = (
    "I calculate with dates: days between two of them, a date some days, weeks, months or years before or after "
    "another, weekdays and leap years. For example: “days between 2026-01-01 and 2026-11-17”, "
    "“90 days after 2026-03-01”, “weekday of 4 July 2026” or “is 2028 a leap year”."
)
NO_CLOCK = "I have no clock, so I do not know today's date. Please give it, for example: “today is 2026-11-17, …”."

_PERIOD = r"(?P<count>\d{1,7}|an?|one|two|three)\s+(?P<unit>day|week|fortnight|month|year)s?"
_COUNTS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3}
_DAYS = {"day": 1, "week": 7, "fortnight": 14}
_LATER = [
    re.compile(pattern, re.IGNORECASE | re.ASCII)
    for pattern in (
        rf"{_PERIOD}\s+(?:after|from|later than|following|past)\s+{DATE}",
        rf"{DATE}\s*(?:\+|plus)\s*{_PERIOD}",
        rf"add\s+{_PERIOD}\s+to\s+{DATE}",
        rf"in\s+{_PERIOD}\s+(?:from|after)\s+{DATE}",
        rf"{_PERIOD}\s+later.*{DATE}",
    )
]
_EARLIER = [
    re.compile(pattern, re.IGNORECASE | re.ASCII)
    for pattern in (
        rf"{_PERIOD}\s+(?:before|prior to|earlier than|ahead of)\s+{DATE}",
        rf"{DATE}\s*(?:-|−|minus)\s*{_PERIOD}",
        rf"(?:subtract|take)\s+{_PERIOD}\s+from\s+{DATE}",
    )
]
_BETWEEN = re.compile(
    rf"{DATE},?\s*(?:and|to|until|till|[-–—])\s*{DATE}|(?:until|till|to)\s+{DATE},?\s+(?:from|since)\s+{DATE}",
    re.IGNORECASE | re.ASCII,
)
_LEAP = re.compile(
    r"\b(?P<before>\d{1,4})\b[^\d]*\bleap year|\bleap year[^\d]*\b(?P<after>\d{1,4})\b", re.IGNORECASE | re.ASCII
)
_UNCLEAR = re.compile(r"\b\d{1,2}[/.]\d{1,2}[/.]\d{2,4}\b")
_WEEKDAY = re.compile(r"\b(?:week\s*day|weekend|(?:what|which) day|day of the week)\b", re.IGNORECASE | re.ASCII)


def reply(request: ModelRequest) -> str:
    """The answers to the date questions of a request."""
    question = with_values(question_of(request))
    if len(question) <= MOST_CHARACTERS:
        try:
            question = with_relative_dates(question, request.system)
        except NoSuchDateError as error:
            return str(error)
    return answer_all(question, answer, otherwise=NO_CLOCK if needs_today(question[:MOST_CHARACTERS]) else HELP)


def answer(question: str) -> str | None:
    """A sentence about one or two dates; None if the question holds no such question, or several."""
    try:
        dates = find_dates(question)
        for attempt in _ATTEMPTS:
            sentence = attempt(question, dates)
            if sentence is not None:
                return sentence
    except NoSuchDateError as error:
        return str(error)
    return None


def _unclear(question: str, dates: list[date]) -> str | None:
    found = _UNCLEAR.search(question)
    if found is None:
        return None
    return f"The date {found[0]} can be read in two ways. Please write dates like 2026-07-04."


def _leap_year(question: str, dates: list[date]) -> str | None:
    found = _LEAP.search(question)
    if found is None:
        return None
    year = dates[0].year if dates else int(found["before"] or found["after"])
    return f"{year} is {'' if isleap(year) else 'not '}a leap year."


def _shifted(question: str, dates: list[date]) -> str | None:
    if len(dates) != 1:
        return None
    for patterns, sign, word in ((_LATER, 1, "after"), (_EARLIER, -1, "before")):
        for pattern in patterns:
            found = pattern.search(question)
            if found is not None:
                return _shifted_by(dates[0], found, sign, word, names_weekday=_WEEKDAY.search(question) is not None)
    return None


def _shifted_by(start: date, found: re.Match[str], sign: int, word: str, *, names_weekday: bool) -> str:
    written, unit = found["count"].lower(), found["unit"].lower()
    count = _COUNTS[written] if written in _COUNTS else int(written)
    if unit in _DAYS:
        result = add_days(start, sign * count * _DAYS[unit])
    else:
        result = add_months(start, sign * count * (12 if unit == "year" else 1))
    weekday = f", a {WEEKDAYS[result.weekday()]}" if names_weekday else ""
    return f"{_counted(count, unit)} {word} {start} is {result}{weekday}."


def _between(question: str, dates: list[date]) -> str | None:
    if len(dates) != 2 or not _BETWEEN.search(question) or _WEEKDAY.search(question):
        return None
    days = abs((dates[1] - dates[0]).days)
    first, last = min(dates), max(dates)
    if re.search(r"\bweeks?\b", question, re.IGNORECASE | re.ASCII):
        weeks, rest = divmod(days, 7)
        remainder = f" and {_counted(rest, 'day')}" if rest else ""
        return f"The time from {first} to {last} is {_counted(weeks, 'week')}{remainder}."
    return f"The time from {first} to {last} is {_counted(days, 'day')}."


def _about_one(question: str, dates: list[date]) -> str | None:
    if len(dates) != 1:
        return None
    day = dates[0]
    if re.search(r"\bday of the year\b", question, re.IGNORECASE | re.ASCII):
        return f"{day} is day {day.timetuple().tm_yday} of {day.year}."
    if _WEEKDAY.search(question):
        return f"{day.day} {MONTHS[day.month - 1]} {day.year} is a {WEEKDAYS[day.weekday()]}."
    if re.search(r"\bweek\b", question, re.IGNORECASE | re.ASCII):
        year, week, _ = day.isocalendar()
        return f"{day} is in ISO week {week} of {year}."
    if re.search(r"\b(?:what|which|the) date\b", question, re.IGNORECASE | re.ASCII):
        return f"The date is {day}."
    return None


_ATTEMPTS: tuple[Callable[[str, list[date]], str | None], ...] = (_unclear, _leap_year, _shifted, _between, _about_one)


def _counted(count: int, unit: str) -> str:
    return f"{count:,} {unit}" if count == 1 else f"{count:,} {unit}s"
