"""One SQLite file: its lock, connections and schema, and what its errors mean to people.

Connections write ahead (WAL), so that readers and the writer never wait for each other, and sync fully: what was
committed survives the loss of power. Every `sqlite3.Error` becomes a `StoreUnavailableError` here, once.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from importlib import resources
from pathlib import Path

import msgspec

from parley.stores.interface import StoreError, StoreUnavailableError
from parley.stores.sqlite.check import check_quickly

APPLICATION_ID = 0x50726C79
""""Prly" in a file's header: the file is ours, and not another program's database."""

WRITER_STATEMENTS = 256
"""Statements that the writer keeps prepared: all that it has."""

OPENING_SECONDS = 0.05
"""How long one that would share a file tries to be alone first: of several that open it at once, one succeeds."""

_MEANINGS = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_BUSY: "another process holds the database",
    sqlite3.SQLITE_LOCKED: "another process holds the database",
    sqlite3.SQLITE_CORRUPT: "the file is damaged",
    sqlite3.SQLITE_NOTADB: "the file is not an SQLite database, or is damaged",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened; does its directory exist, and may it be written to?",
    sqlite3.SQLITE_READONLY: "the file may only be read",
    sqlite3.SQLITE_IOERR: "the disk fails",
}


EXPLAINED = (sqlite3.Error, UnicodeEncodeError, msgspec.MsgspecError)
"""What the database and the decoders raise, and what becomes a `StoreError`."""


def explain(error: Exception, path: Path) -> StoreError:
    """An error of the database, in words that say what to do about it."""
    match error:
        case StoreError():
            return error
        case UnicodeEncodeError():
            return StoreError("A name cannot be kept or looked for: it is not valid Unicode.")
        case msgspec.MsgspecError():
            return StoreUnavailableError(f"{path}: the file is damaged: {error}")
        case _:
            meaning = meaning_of(error)
            return StoreUnavailableError(f"{path}: {meaning} ({error})" if meaning else f"{path}: {error}")


def meaning_of(error: Exception) -> str | None:
    """What an error of the database means to people, without paths; None for those that should not happen."""
    code = getattr(error, "sqlite_errorcode", None)
    # The low byte is the kind of error, the rest its variety (SQLITE_IOERR_WRITE, …).
    return _MEANINGS.get(code & 0xFF) if code is not None else None


@contextmanager
def explained(path: Path) -> Generator[None]:
    """Turns what the database and the decoders raise into a `StoreError`."""
    try:
        yield
    except EXPLAINED as error:
        raise explain(error, path) from error


def connect_reader(path: Path) -> sqlite3.Connection:
    """A connection that cannot write. It may pass from thread to thread, in one at a time."""
    reader = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    reader.execute("PRAGMA query_only = ON")
    return reader


def open_writer(path: Path, stack: ExitStack, *, is_shared: bool, busy_timeout: float) -> sqlite3.Connection:
    """The writing connection of this store, with the schema up to date. The file is let go when the stack unwinds.

    Raises:
        StoreUnavailableError: the file is in use, newer than this Parley, another program's, damaged or out of reach.
    """
    with explained(path):
        lock = _Lock(path, stack, busy_timeout)
        is_alone = lock.exclude(seconds=OPENING_SECONDS if is_shared else 0)
        if not is_alone and not (is_shared and lock.share()):
            raise lock.refusal()
        writer = stack.enter_context(closing(_connect_writer(path, busy_timeout)))
        check_application(writer, path)
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA synchronous = FULL")
        writer.execute("PRAGMA fullfsync = ON")  # macOS: fsync alone does not reach the platter; ignored elsewhere
        writer.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten; some builds of SQLite have it off
        writer.execute("PRAGMA temp_store = MEMORY")  # what it takes to undo a statement must not become a file
        writer.execute("PRAGMA foreign_keys = OFF")  # a script may replace a table by another
        check_quickly(writer, path)
        migrate(writer, path, migrations(), is_alone=is_alone)
        writer.execute("PRAGMA foreign_keys = ON")
        if is_alone:
            if writer.execute("SELECT 1 FROM leases").fetchone():  # another program may lock the file
                writer.execute("DELETE FROM leases")  # their workers are gone
            if is_shared and not lock.share():
                raise lock.refusal()
        return writer


def _connect_writer(path: Path, busy_timeout: float) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=busy_timeout, isolation_level=None, cached_statements=WRITER_STATEMENTS)


class _Lock:
    """Says whether other processes use a file, and keeps them away as long as the stack does not unwind.

    The lock is an open transaction on an empty database beside the file: SQLite's own locks work on every platform,
    hold between two stores of one process as well, and vanish with the process however it ends. The empty file stays
    behind: removing it would let two processes each lock a file of that name.
    """

    def __init__(self, path: Path, stack: ExitStack, busy_timeout: float) -> None:
        self._path = path
        self._file = path.with_name(f"{path.name}-owner")
        self._busy_timeout = busy_timeout
        for file in (path, self._file):
            _create_for_owner_only(file)
        with explained(self._file):
            self._connection = stack.enter_context(closing(sqlite3.connect(self._file, isolation_level=None)))

    def exclude(self, *, seconds: float) -> bool:
        """Take the lock exclusively. Return False if another process still has it after this many seconds."""
        return self._take("BEGIN EXCLUSIVE", seconds)

    def share(self) -> bool:
        """Let others share the file, and keep those away that would not; False if one does not share it."""
        if self._connection.in_transaction:
            self._connection.execute("COMMIT")
        # One that was alone may be bringing the schema up to date.
        return self._take("BEGIN; SELECT count(*) FROM sqlite_schema", self._busy_timeout)

    def refusal(self) -> StoreUnavailableError:
        """Why the file cannot be used."""
        return StoreUnavailableError(
            f"{self._path}: another Parley process uses this file. Stop it first, or give this one a file of its own."
        )

    def _take(self, statements: str, busy_timeout: float) -> bool:
        with explained(self._file):
            self._connection.execute(f"PRAGMA busy_timeout = {round(busy_timeout * 1_000)}")
            try:
                for statement in statements.split("; "):
                    self._connection.execute(statement).fetchall()
            except sqlite3.DatabaseError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                return False
            return True


def _create_for_owner_only(file: Path) -> None:
    """Make a file that does not exist yet, which only this user can read: it will hold conversations."""
    with suppress(OSError):  # it exists, or cannot be made, which SQLite reports
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def check_application(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a database that is not ours.

    Raises:
        StoreUnavailableError: another program's.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application != APPLICATION_ID and (application or tables):
        raise StoreUnavailableError(f"{path}: this database belongs to another program. Choose another file.")


def migrations() -> Sequence[str]:
    """The scripts that build the schema, oldest first; the n-th leads to version n."""
    folder = resources.files("parley.stores.sqlite") / "migrations"
    return [script.read_text("utf-8") for script in sorted(folder.iterdir(), key=lambda script: script.name)]


def migrate(connection: sqlite3.Connection, path: Path, scripts: Sequence[str], *, is_alone: bool = True) -> None:
    """Run the scripts that the file has not seen yet, all in one transaction, while no other process uses it.

    Raises:
        StoreUnavailableError: the file has seen more scripts than there are, or others use it that know fewer.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(scripts):
        raise StoreUnavailableError(
            f"{path}: a newer Parley wrote this file (schema {version}, this one knows {len(scripts)}). Upgrade Parley."
        )
    if version == len(scripts):
        return
    if not is_alone:
        raise StoreUnavailableError(
            f"{path}: an older Parley uses this file (schema {version}, this one knows {len(scripts)}). Stop it first."
        )
    stamp = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {len(scripts)};"
    try:
        connection.executescript("\n".join(["BEGIN IMMEDIATE;", *scripts[version:], stamp, "COMMIT;"]))
    finally:
        if connection.in_transaction:  # a script failed
            connection.execute("ROLLBACK")
