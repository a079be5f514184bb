"""The writer's thread: every change of a file, in the order of the calls, many in one transaction.

Changes are collected during one iteration of the event loop and handed to the thread together. It takes whatever waits,
runs it between BEGIN and COMMIT, syncs the disk once, and wakes the event loop once. So the busier the store, the more
writes share a sync, and the two threads synchronize twice per transaction, not twice per write. A change that
conflicts fails alone; an error of the database rolls back the whole transaction, fails all changes in it, and leaves
the writer ready for the next. Only a file that is damaged, or no longer at its path, is not written to again
(`file_health`).
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct

from parley.stores.appends import Append
from parley.stores.interface import StoreError, StoreUnavailableError
from parley.stores.sqlite.file import explain, meaning_of, open_writer
from parley.stores.sqlite.file_health import FileHealth
from parley.stores.sqlite.transaction import Transaction

T = TypeVar("T")

# A transaction of this many single events takes about as long as a sync or two, and its callers wait that long.
MAX_BATCH = 2_000

BUSY_MILLISECONDS = 3
"""How long SQLite waits for another process before it is asked again."""


class _Job(Struct, frozen=True):
    """A change, and the future of its caller."""

    change: Append | Callable[[sqlite3.Connection], Any]
    done: asyncio.Future[Any]


_Outcome: TypeAlias = tuple["asyncio.Future[Any]", Any, StoreError | None]


class SqliteWriter:
    """All writing to a file from this store."""

    def __init__(self, path: Path, health: FileHealth, *, is_shared: bool, busy_timeout: float) -> None:
        self._path = path
        self._is_shared = is_shared
        self._health = health
        self._busy_timeout = busy_timeout
        self._collected: list[_Job] = []
        self._jobs: SimpleQueue[list[_Job] | None] = SimpleQueue()
        self._stopped: asyncio.Future[None] | None = None
        self.refusal: str | None = None
        """Why the last transaction failed, if the file or the disk was the reason; None after one that succeeded."""

    async def start(self) -> None:
        """Open the file and begin to write.

        Raises:
            StoreUnavailableError: the file cannot be opened, and why.
        """
        loop = asyncio.get_running_loop()
        started: asyncio.Future[None] = loop.create_future()
        stopped: asyncio.Future[None] = loop.create_future()
        # A daemon, so that the process can exit without `stop`. The writes that are lost then were not acknowledged.
        threading.Thread(target=self._run, args=(started, stopped), name="parley-sqlite-writer", daemon=True).start()
        await started
        self._stopped = stopped

    async def stop(self) -> None:
        """Write what was submitted, then close the file."""
        stopped, self._stopped = self._stopped, None
        if stopped is not None:
            self._hand_over()
            self._jobs.put(None)
            await stopped

    def submit(self, change: Append | Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Queue a change. The future is done when the change is on disk.

        A callable checks before it changes, and raises `StoreError` only before.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        if self._stopped is None:
            done.set_exception(StoreUnavailableError(f"{self._path}: the store is not open."))
            return done
        if not self._collected:
            loop.call_soon(self._hand_over)
        self._collected.append(_Job(change, done))
        return done

    def _hand_over(self) -> None:
        collected, self._collected = self._collected, []
        if collected:
            self._jobs.put(collected)

    def _run(self, started: asyncio.Future[None], stopped: asyncio.Future[None]) -> None:
        with ExitStack() as stack:
            try:
                connection = open_writer(self._path, stack, is_shared=self._is_shared, busy_timeout=self._busy_timeout)
            except Exception as error:  # of any kind: the caller of `start` waits for it
                stack.close()  # and may try again at once
                self._wake([(started, None, self._explain(error))])
                return
            connection.execute(f"PRAGMA busy_timeout = {BUSY_MILLISECONDS}")
            self._health.start()
            self.refusal = None
            self._wake([(started, None, None)])
            while batch := self._take():
                self._wake(self._commit(connection, batch))
            self._health.stop()
        self._wake([(stopped, None, None)])

    def _take(self) -> list[_Job]:
        """Wait for jobs and return all that are queued; an empty list at the end."""
        batch: list[_Job] = []
        jobs = self._jobs.get()
        while jobs is not None:
            batch += jobs
            if len(batch) >= MAX_BATCH:
                return batch
            try:
                jobs = self._jobs.get_nowait()
            except Empty:
                return batch
        if batch:
            self._jobs.put(None)  # put the stop marker back for the next call
        return batch

    def _commit(self, connection: sqlite3.Connection, batch: list[_Job]) -> list[_Outcome]:
        try:
            self._health.require_sound()
            self._begin(connection)
            outcomes = self._change(connection, batch)
            connection.execute("COMMIT")
            self._health.require_in_place()
            self.refusal = None
        except Exception as error:  # of any kind: the transaction ends here, and all its callers get the error
            self._health.note_error(error)
            self.refusal = meaning_of(error)
            self._roll_back(connection)
            return [(job.done, None, self._explain(error)) for job in batch]
        return outcomes

    def _begin(self, connection: sqlite3.Connection) -> None:
        """Begin a transaction, and try often while another process has one.

        SQLite's busy handler waits up to 100 ms between two tries: too long to hit the gap between two transactions of
        a busy process.
        """
        deadline = monotonic() + self._busy_timeout
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() >= deadline:
                    raise

    def _change(self, connection: sqlite3.Connection, batch: list[_Job]) -> list[_Outcome]:
        transaction = Transaction(connection, (job.change for job in batch if isinstance(job.change, Append)))
        outcomes: list[_Outcome] = []
        for job in batch:
            try:
                if isinstance(job.change, Append):
                    outcomes.append((job.done, transaction.append(job.change), None))
                else:
                    outcomes.append((job.done, job.change(transaction.connection()), None))
            except StoreError as error:
                outcomes.append((job.done, None, error))
        transaction.flush()
        return outcomes

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        # Some errors (disk full, I/O) have rolled back already. If ROLLBACK fails, the next BEGIN fails, too.
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")

    def _explain(self, error: Exception) -> StoreError:
        explained = explain(error, self._path)
        explained.__cause__ = error if explained is not error else None
        return explained

    def _wake(self, outcomes: list[_Outcome]) -> None:
        with suppress(RuntimeError):  # the loop is closed: no caller waits any more
            outcomes[0][0].get_loop().call_soon_threadsafe(_resolve, outcomes)


def _resolve(outcomes: list[_Outcome]) -> None:
    for done, result, error in outcomes:
        if done.done():  # the caller was cancelled
            continue
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)
