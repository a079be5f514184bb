"""Durations in words, numbers and timedeltas."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from parley.agents.durations import parse_duration
from parley.protocol.errors import LocalProtocolError


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("90 s", 90),
        ("1.5 hours", 5_400),
        ("3 days", 259_200),
        ("2 Weeks", 1_209_600),
        ("1h30m", 5_400),
        (" 1 hour, 30 min 5secs ", 5_405),
        ("250ms", 0.25),
        ("0 s", 0),
        (90, 90),
        (0.5, 0.5),
        (timedelta(days=3), 259_200),
    ],
)
def test_a_duration_is_text_with_units_a_number_of_seconds_or_a_timedelta(value: Any, seconds: float) -> None:
    assert parse_duration(value) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("", "numbers with units"),
        ("90", "numbers with units"),
        ("soon", "numbers with units"),
        ("3 days or so", "numbers with units"),
        ("3 days,", "numbers with units"),
        ("-3 days", "numbers with units"),
        ("1 month", "no unit 'month'"),
        ("1h 2h", "'h' is there twice"),
        (-1, "negative"),
        (timedelta(seconds=-1), "negative"),
        (float("nan"), "not finite"),
        (float("inf"), "not finite"),
        (1e300, "too long"),
        (10**400, "too long"),
        ("9" * 500 + " s", "not finite"),
        ("99999999999 weeks", "too long"),
        (True, "must be text"),
        (None, "must be text"),
    ],
)
def test_anything_else_is_one_error_that_says_why_and_what_to_write(value: Any, reason: str) -> None:
    with pytest.raises(LocalProtocolError, match=reason) as caught:
        parse_duration(value)
    assert caught.value.message.startswith("Invalid duration: ")
    assert "Write for example '90 s'" in caught.value.message
    assert len(caught.value.message) < 300
