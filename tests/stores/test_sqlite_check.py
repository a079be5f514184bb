"""Looking for damage in a file."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from parley.stores.sqlite.check import check_quickly


def test_a_check_that_takes_too_long_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    """And the log says so."""
    caplog.set_level("INFO")
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.set_progress_handler(lambda: 1, 1)  # interrupts at once, as the alarm does after its time
        check_quickly(connection, Path("tasks.db"))
        connection.set_progress_handler(None, 1)
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert "was not looked through when it was opened; parley store check does that" in caplog.text
