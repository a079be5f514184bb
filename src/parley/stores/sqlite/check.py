"""Checks of the pages of a file: a quick one when it is opened, and one of all pages; and how much a file holds."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Generator
from pathlib import Path

from msgspec import Struct

from parley.stores.interface import StoreUnavailableError
from parley.stores.sqlite.file_health import DAMAGE_ADVICE

logger = logging.getLogger(__name__)

QUICK_SECONDS = 1.0
"""Seconds that the check may add to opening a file: enough for half a gigabyte."""


def check_quickly(connection: sqlite3.Connection, path: Path) -> None:
    """Look for damage for `QUICK_SECONDS` at most; what takes longer is left to `parley store check`.

    Raises:
        StoreUnavailableError: the file is damaged.
    """
    # A progress handler would not do: SQLite before 3.42 does not call it while it walks through a tree.
    alarm = threading.Timer(QUICK_SECONDS, connection.interrupt)
    alarm.start()
    try:
        (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        logger.info("%s is large and was not looked through when it was opened; parley store check does that.", path)
        return
    finally:
        alarm.cancel()
        alarm.join()  # afterwards it interrupts nothing else
    if found != "ok":
        summary = " ".join(found.split())
        raise StoreUnavailableError(f"{path}: the file is damaged ({summary}). {DAMAGE_ADVICE}")


def check_pages(connection: sqlite3.Connection) -> Generator[str]:
    """What is wrong with the pages, the indexes and the references of the whole file, a sentence each."""
    # One mistake first: sqlite3 drops a row that it has if the next one cannot be read.
    known: set[str] = set()
    for most in (1, 100):
        rows = connection.execute(f"PRAGMA integrity_check({most})")
        lines = [line.strip() for (text,) in rows for line in text.splitlines()]
        found = [line for line in lines if line not in known and line != "ok" and not line.startswith("***")]
        yield from found
        if not found:
            break
        known.update(found)
    for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        yield f"Row {row} of {table} refers to {parent} that are not there"


class Contents(Struct, frozen=True):
    """How much a file holds."""

    tasks: int
    running: int
    waiting: int
    """Tasks that wait for their caller's answer."""
    events: int
    webhooks: int
    contexts: int
    records: int

    def __str__(self) -> str:
        tasks = f"{_count(self.tasks, 'task')} ({self.running:,} running, {self.waiting:,} waiting for an answer)"
        webhooks, conversations = _count(self.webhooks, "webhook"), _count(self.contexts, "conversation")
        records = f", {_count(self.records, 'record')}" if self.records else ""  # only a host has them
        stored = f"values that agents stored for {conversations}"
        return f"{tasks}, {_count(self.events, 'event')}, {webhooks}, {stored}{records}"


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def count_contents(connection: sqlite3.Connection) -> Contents:
    """How much a file of the present schema holds."""
    row = connection.execute(
        """
        SELECT
            (SELECT count(*) FROM tasks),
            (SELECT count(*) FROM tasks WHERE state IN ('submitted', 'working')),
            (SELECT count(*) FROM tasks WHERE state IN ('input-required', 'auth-required')),
            (SELECT coalesce(sum(last_seq), 0) FROM tasks),
            (SELECT count(*) FROM push_configs),
            (SELECT count(*) FROM (SELECT DISTINCT tenant, owner, agent, context FROM context_values)),
            (SELECT count(*) FROM records WHERE collection <> 'store_keys')
        """
    ).fetchone()
    return Contents(*row)
