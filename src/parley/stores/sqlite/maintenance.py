"""Maintenance of a file: check all of it, and copy it. Both work also while a server uses it.

A connection that only reads sees one state of the file, whatever the server writes meanwhile, and makes no writer wait;
the write-ahead log cannot shrink until it is done.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path

from msgspec import Struct

from parley.stores.interface import StoreUnavailableError
from parley.stores.sqlite.check import Contents, check_pages, count_contents
from parley.stores.sqlite.file import check_application, explained, migrations
from parley.stores.sqlite.file_health import DAMAGE
from parley.stores.sqlite.rules import check_rules

Report = Callable[[str], None]
"""Called with the progress of the work."""

MAX_FINDINGS = 100
"""Faults that a check names at most: a reader of more has seen enough."""

PAGES_AT_ONCE = 2_000
"""Pages of a copy between two words on how far it is: eight megabytes."""


class Findings(Struct, frozen=True):
    """What a check has found: what is wrong, or how much there is.

    `unchecked` says why the rules were not checked, if they were not.
    """

    wrong: tuple[str, ...]
    contents: Contents | None
    unchecked: str | None = None


class FileMaintenance:
    """Work on a file in a thread, which another thread may interrupt."""

    def __init__(self, path: Path, report: Report) -> None:
        self._path = path
        self._report = report
        self._connection: sqlite3.Connection | None = None
        self._is_interrupted = False

    def interrupt(self) -> None:
        """Let the work end soon, with an error."""
        self._is_interrupted = True
        if self._connection is not None:
            self._connection.interrupt()

    def check(self) -> Findings:
        """Look at every page and every row.

        Raises:
            FileNotFoundError: there is no such file.
            StoreUnavailableError: it is not a store, or cannot be read at all.
        """
        with self._reader() as reader:
            unchecked = _age(reader)
            self._report("Checking the pages …")
            wrong = list(islice(_readable(check_pages(reader), "pages"), MAX_FINDINGS))
            if unchecked is not None:
                return Findings(tuple(wrong), None, unchecked)
            wrong += islice(_readable(check_rules(reader, self._report), "rows"), MAX_FINDINGS - len(wrong))
            return Findings(tuple(wrong), count_contents(reader) if not wrong else None)

    def back_up(self, target: Path) -> Contents:
        """Copy the file, as it is at this moment, to a file that does not exist yet.

        Only this user can read the copy. It is whole or not there, on disk, and checked.

        Raises:
            FileNotFoundError: there is no such file, or no such directory.
            FileExistsError: the target exists.
            StoreUnavailableError: it is not a store, is damaged, or cannot be copied.
        """
        with self._reader() as reader:
            if (age := _age(reader)) is not None:
                raise StoreUnavailableError(f"{self._path}: {age}")
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))  # the name is ours
            try:
                with _unfinished(target) as file:
                    with explained(target):
                        contents = self._copy(reader, file)
                    os.replace(file, target)
                with suppress(PermissionError):  # of Windows, which does not open directories
                    _sync(target.parent, os.O_RDONLY)
            except BaseException:
                target.unlink()
                raise
            return contents

    def _copy(self, reader: sqlite3.Connection, file: Path) -> Contents:
        def report(_: int, left: int, total: int) -> None:
            if self._is_interrupted:  # which a copy does not hear of
                raise InterruptedError
            self._report(f"Copying: {(total - left) * 100 // max(total, 1)} % …")

        with closing(sqlite3.connect(file, isolation_level=None)) as copy:
            reader.backup(copy, pages=PAGES_AT_ONCE, progress=report)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, which also opens where nothing can be written
            self._report("Checking the copy …")
            if (wrong := next(_readable(check_pages(copy), "pages"), None)) is not None:
                raise StoreUnavailableError(
                    f"{self._path}: the file is damaged ({wrong}), and so would be its copy. parley store check "
                    "shows more."
                )
            contents = count_contents(copy)
        _sync(file, os.O_RDWR)
        return contents

    @contextmanager
    def _reader(self) -> Generator[sqlite3.Connection]:
        """A connection that cannot write, and sees one state of the file."""
        if not stat.S_ISREG(self._path.stat().st_mode):  # which says why, if it is not there
            raise StoreUnavailableError(f"{self._path}: this is not a file.")  # SQLite would wait for a pipe for ever
        with explained(self._path):
            uri = f"{self._path.resolve().as_uri()}?mode=ro"
            reader = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
            with closing(reader):
                self._connection = reader
                try:
                    check_application(reader, self._path)
                    reader.execute("BEGIN")
                    yield reader
                finally:
                    self._connection = None


def _readable(findings: Iterator[str], what: str) -> Generator[str]:
    """Findings, until damage keeps from finding more, which is one too."""
    try:
        yield from findings
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF not in DAMAGE:
            raise
        yield f"The rest of the {what} cannot be read: {error}"


def _age(reader: sqlite3.Connection) -> str | None:
    """Why a file's tables are not as this Parley knows them, if they are not."""
    (version,) = reader.execute("PRAGMA user_version").fetchone()
    known = len(migrations())
    if version == known:
        return None
    if version == 0:
        return "The file is empty: no server has used it yet."
    if version < known:
        return f"An older Parley wrote this file (schema {version}, this one knows {known}). Start the server once."
    return f"A newer Parley wrote this file (schema {version}, this one knows {known}). Upgrade Parley."


@contextmanager
def _unfinished(target: Path) -> Generator[Path]:
    """A file beside the target that only this user can read, which is deleted afterwards unless it was renamed."""
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-", suffix=".part")
    os.close(descriptor)
    try:
        yield Path(name)
    finally:
        for file in (name, f"{name}-journal", f"{name}-wal", f"{name}-shm"):
            Path(file).unlink(missing_ok=True)


def _sync(path: Path, access: int) -> None:
    """Bring a file, or the names in a directory, to the disk."""
    descriptor = os.open(path, access)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
