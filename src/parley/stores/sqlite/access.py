"""Where reads and changes of a file run.

Changes go to the writer's thread (`writer`). Reads run beside it:

- Lookups by key (a head, a send that may be a repeat, webhooks, the values of a context, a record, a task of up to
  `SMALL_TASK` characters) run where they are called, on the event loop. They take some ten microseconds and never wait
  for the writer; handing them to a thread and back costs several times as much.
- Reads of unknown size (pages of events, lists, large tasks) run in a few threads.

A read sees everything whose write was awaited before it.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from parley.stores.appends import Append
from parley.stores.encoding import require_encodable
from parley.stores.interface import StoreUnavailableError
from parley.stores.sqlite.file import EXPLAINED, connect_reader, explain, explained
from parley.stores.sqlite.file_health import FileHealth
from parley.stores.sqlite.writer import SqliteWriter

T = TypeVar("T")

READ_THREADS = 4
"""Long reads at a time. More would only share the interpreter's lock among more."""


class SqliteAccess:
    """Reads and changes of one file, for all parts of its store."""

    def __init__(self, path: Path, *, is_shared: bool, busy_timeout: float) -> None:
        self.path = path
        self._health = FileHealth(path)
        self._writer = SqliteWriter(path, self._health, is_shared=is_shared, busy_timeout=busy_timeout)
        self._reader: sqlite3.Connection | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._thread_readers: list[sqlite3.Connection] = []

    async def open(self) -> sqlite3.Connection:
        """Take the file, create it if need be, and bring its schema up to date; the connection of the event loop.

        Raises:
            StoreUnavailableError: it cannot be opened; the message says why and what to do.
        """
        await self._writer.start()
        try:
            with explained(self.path):
                self._reader = connect_reader(self.path)
        except StoreUnavailableError:
            await self._writer.stop()
            raise
        self._threads = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="parley-sqlite-reader")
        return self._reader

    async def close(self) -> None:
        """Write what is queued, end the reads under way, and let go of the file."""
        await self._close_readers()
        await self._writer.stop()  # last: the last connection to close folds the WAL into the file

    async def _close_readers(self) -> None:
        threads, self._threads = self._threads, None
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
        if threads is not None:
            await asyncio.to_thread(threads.shutdown)
        while self._thread_readers:
            self._thread_readers.pop().close()

    def problem(self) -> str | None:
        """Why nothing can be written, by the file and the last write; None if writes succeed."""
        problem = self._health.problem()
        if problem is None and (refusal := self._writer.refusal) is not None:
            return f"The store could not be written: {refusal}."
        return problem

    def append(self, append: Append) -> asyncio.Future[None]:
        """Put an append to a task in line; the future is done when it is on disk."""
        return self._writer.submit(append)

    def read_now(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Read at once, on the event loop."""
        if self._reader is None:
            raise self._not_open()
        try:
            return query(self._reader)
        except EXPLAINED as error:  # as `explained` does, which costs as much as the query
            self._health.note_error(error)
            raise explain(error, self.path) from error

    async def read_in_thread(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Read in a thread."""
        if self._threads is None:
            raise self._not_open()
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._read, query)

    def _read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        with explained(self.path):
            try:
                reader = self._thread_readers.pop()
            except IndexError:  # all are in use
                self._health.require_in_place()
                reader = connect_reader(self.path)
            try:
                return query(reader)
            except EXPLAINED as error:
                self._health.note_error(error)
                raise
            finally:
                self._thread_readers.append(reader)

    async def submit(self, change: Callable[[sqlite3.Connection], T], *names: str) -> T:
        """Make a change in the writer's thread, once the names in it are known to be valid text."""
        require_encodable(*names)
        return await self._writer.submit(change)

    async def execute(self, statement: str, *values: str | int | bytes | None) -> None:
        """Run a statement that cannot conflict."""
        names = [value for value in values if isinstance(value, str)]
        await self.submit(lambda writer: writer.execute(statement, values), *names)

    def _not_open(self) -> StoreUnavailableError:
        return StoreUnavailableError(f"{self.path}: the store is not open.")
