"""Whether a file in use can still be trusted: it is the file at its path, and nothing in it was found damaged.

SQLite goes on writing into a file whose name was deleted or given to another file, and what it writes there is gone
with the process. A damaged page shows only when it is read. So the writer checks the file after each transaction,
before it acknowledges anything, which takes a few microseconds; and every error of the database is noted here. What was
found stays: until the file is opened again, nothing is acknowledged.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from parley.stores.interface import StoreUnavailableError

logger = logging.getLogger(__name__)

DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
"""Kinds of errors that say so."""

DAMAGED = "The database file is damaged"
DAMAGE_ADVICE = (  # a write-ahead log that was left behind would damage the backup, too: hence the help
    "Stop the server, look at the damage with parley store check, and go back to a backup as parley store backup "
    "--help says."
)
GONE = "The database file was deleted or moved away while it was in use"
REPLACED = "Another file was put in the place of the database file while it was in use"
LOG_GONE = "The database's write-ahead log was deleted, moved away or replaced while it was in use"
GONE_ADVICE = (
    "Stop the server, put the file back, or a backup as parley store backup --help says, and start the server again."
)


_Identity: TypeAlias = tuple[int, int] | None
"""Which file has a name: its device and number there; None if none has."""


class _Problem(Struct, frozen=True):
    """What is wrong; what to do about it, which only the log says; whether the file has left its path."""

    what: str
    advice: str
    is_out_of_place: bool


class FileHealth:
    """The state of a database file and its write-ahead log."""

    def __init__(self, path: Path) -> None:
        self._database = str(path)
        self._log = f"{path}-wal"
        self._in_use: tuple[_Identity, _Identity] | None = None
        self._problem: _Problem | None = None

    def start(self) -> None:
        """Remember the files at the path: they were opened just now."""
        self._problem = None
        self._in_use = (_identify(self._database), _identify(self._log))

    def stop(self) -> None:
        """Stop checking: the files are closed."""
        self._in_use = None

    def problem(self) -> str | None:
        """What is wrong, without paths; None while all is well."""
        self._look()
        return f"{self._problem.what}." if self._problem is not None else None

    def require_sound(self) -> None:
        """Pass if nothing wrong is known.

        Raises:
            StoreUnavailableError: something is; what, and what to do about it.
        """
        if self._problem is not None:
            raise self._refusal(self._problem)

    def require_in_place(self) -> None:
        """Pass if the path leads to the file in use.

        Raises:
            StoreUnavailableError: it does not; what has happened, and what to do about it.
        """
        self._look()
        if self._problem is not None and self._problem.is_out_of_place:
            raise self._refusal(self._problem)

    def note_error(self, error: Exception) -> None:
        """Note an error of the database: it may say that the file is damaged."""
        code = getattr(error, "sqlite_errorcode", None)
        if isinstance(error, sqlite3.Error) and code is not None and code & 0xFF in DAMAGE:
            self._find(_Problem(DAMAGED, DAMAGE_ADVICE, False), f" ({error})")

    def _look(self) -> None:
        if self._problem is not None or self._in_use is None:
            return
        with suppress(OSError):  # SQLite reports what else is wrong
            database, log = _identify(self._database), _identify(self._log)
            if database != self._in_use[0]:
                self._find(_Problem(REPLACED if database else GONE, GONE_ADVICE, True))
            elif log != self._in_use[1]:
                self._find(_Problem(LOG_GONE, GONE_ADVICE, True))

    def _find(self, problem: _Problem, details: str = "") -> None:
        if self._problem is None:
            self._problem = problem
            logger.critical(
                "%s: %s%s. Nothing is stored any more. %s", self._database, problem.what, details, problem.advice
            )

    def _refusal(self, problem: _Problem) -> StoreUnavailableError:
        return StoreUnavailableError(f"{self._database}: {problem.what}. {problem.advice}")


def _identify(file: str) -> _Identity:
    try:
        found = os.stat(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino
