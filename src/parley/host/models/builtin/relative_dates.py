"""Words whose date depends on the clock: today, tomorrow, "until 2026-12-25". There is no clock here.

If the request or the agent's instructions say which day today is, dates replace them; otherwise they stay as they are.
"""

from __future__ import annotations

import re
from datetime import date

from parley.host.models.builtin.date_text import DATE, add_days, read_date

_TODAY = re.compile(
    rf"\b(?:(?:if|when|assuming|given that)\s+)?today\s*(?:is|=|:|being)\s*(?:\w+day,?\s+)?(?:the\s+)?(?P<date>{DATE})",
    re.IGNORECASE | re.ASCII,
)
_DAYS_FROM_TODAY = {"yesterday": -1, "today": 0, "now": 0, "tomorrow": 1}
_WORD = re.compile(rf"\b({'|'.join(_DAYS_FROM_TODAY)})\b", re.IGNORECASE | re.ASCII)
_UNTIL = re.compile(r"\b(?:until|till|since)\b", re.IGNORECASE | re.ASCII)
_PERIOD = r"(\d{1,7}|an?|one|two|three)\s+((?:day|week|fortnight|month|year)s?)"
_PHRASES = [
    (
        re.compile(rf"\b(?:until|till)\s+({DATE})(?!\s+(?:from|since)\b)", re.IGNORECASE | re.ASCII),
        r"from {today} to \1",
    ),
    (re.compile(rf"\bsince\s+({DATE})", re.IGNORECASE | re.ASCII), r"from \1 to {today}"),
    (re.compile(rf"\bin\s+{_PERIOD}\b(?!\s+(?:from|after)\b)", re.IGNORECASE | re.ASCII), r"\1 \2 after {today}"),
    (re.compile(rf"\b{_PERIOD}\s+ago\b", re.IGNORECASE | re.ASCII), r"\1 \2 before {today}"),
]


def with_relative_dates(text: str, instructions: str) -> str:
    """The text with dates for everything that is relative to today, if it or the instructions say which day that is.

    Raises:
        NoSuchDateError: today is said to be a date that does not exist, or is at an end of the calendar.
    """
    said, known = _TODAY.search(text), _TODAY.search(instructions)
    found = said or known
    if found is None:
        return text
    today = read_date(found["date"])
    rest = text if said is None else text[: said.start()] + text[said.end() :]
    rest = _WORD.sub(lambda word: _relative_to(today, word[1]).isoformat(), rest)
    if not re.search(rf"{DATE}.*{DATE}", rest, re.IGNORECASE | re.ASCII | re.DOTALL):
        for pattern, replacement in _PHRASES:
            rest = pattern.sub(replacement.format(today=today), rest)
    return rest.strip(" .,;:()?!")


def needs_today(text: str) -> bool:
    """Whether the text names a day that depends on the clock."""
    return any(pattern.search(text) for pattern in (_WORD, _UNTIL, *(pattern for pattern, _ in _PHRASES)))


def _relative_to(today: date, word: str) -> date:
    return add_days(today, _DAYS_FROM_TODAY[word.lower()])
