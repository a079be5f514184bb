"""Looking for damage in a file: quickly when it is opened."""

from __future__ import annotations

import logging
import sqlite3
import threading
from pathlib import Path

from parley.stores.interface import StoreUnavailableError
from parley.stores.sqlite_watch import DAMAGE_CURE

logger = logging.getLogger(__name__)

QUICK_SECONDS = 1.0
"""How long opening a file may take longer for its sake: half a gigabyte is looked through meanwhile."""


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
        raise StoreUnavailableError(f"{path}: the file is damaged ({summary}). {DAMAGE_CURE}")
