"""One SQLite file: who owns it, how connections to it are made, its schema, and what its errors mean to people.

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


def open_owned(path: Path, stack: ExitStack, *, busy_timeout: float) -> sqlite3.Connection:
    """The one writing connection, with the schema brought up to date. The file is let go when the stack unwinds.

    Raises:
        StoreUnavailableError: the file is in use, newer than this Parley, somebody else's, damaged or out of reach.
    """
    with explained(path):
        _own(path, stack)
        writer = stack.enter_context(closing(_connect_writer(path, busy_timeout)))
        check_application(writer, path)
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA synchronous = FULL")
        writer.execute("PRAGMA fullfsync = ON")  # macOS: fsync alone does not reach the platter; ignored elsewhere
        writer.execute("PRAGMA temp_store = MEMORY")  # what it takes to undo a statement must not become a file
        writer.execute("PRAGMA foreign_keys = OFF")  # a script may put a table in the place of another
        check_quickly(writer, path)
        migrate(writer, path, migrations())
        writer.execute("PRAGMA foreign_keys = ON")
        return writer


def _connect_writer(path: Path, busy_timeout: float) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=busy_timeout, isolation_level=None, cached_statements=WRITER_STATEMENTS)


def _own(path: Path, stack: ExitStack) -> None:
    """Keep other processes away for as long as this one lives.

    The lock is an open transaction on an empty database beside the file: SQLite's own locks work on every platform,
    hold between two logs of one process as well, and vanish with the process however it ends. The empty file stays
    behind: removing it would let two processes each lock a file of that name.
    """
    lock = path.with_name(f"{path.name}-owner")
    with explained(lock):
        for file in (path, lock):
            _create_for_owner_only(file)
        owner = stack.enter_context(closing(sqlite3.connect(lock, timeout=0, isolation_level=None)))
        try:
            owner.execute("BEGIN EXCLUSIVE")
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            raise StoreUnavailableError(
                f"{path}: another Parley process uses this file. Stop it first, or give this one a file of its own."
            ) from error


def _create_for_owner_only(file: Path) -> None:
    """Make a file that does not exist yet, for the eyes of this user alone: it will hold conversations."""
    with suppress(OSError):  # it exists, or cannot be made, of which SQLite will tell
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


def migrate(connection: sqlite3.Connection, path: Path, scripts: Sequence[str]) -> None:
    """Run the scripts that the file has not seen yet, all in one transaction.

    Raises:
        StoreUnavailableError: the file has seen more scripts than there are.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(scripts):
        raise StoreUnavailableError(
            f"{path}: a newer Parley wrote this file (schema {version}, this one knows {len(scripts)}). Upgrade Parley."
        )
    if version == len(scripts):
        return
    stamp = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {len(scripts)};"
    try:
        connection.executescript("\n".join(["BEGIN IMMEDIATE;", *scripts[version:], stamp, "COMMIT;"]))
    finally:
        if connection.in_transaction:  # a script failed
            connection.execute("ROLLBACK")
