"""The writer: every change from this process, in the order of the calls, many in one transaction.

It takes whatever waits and commits it together, so the busier the store, the more writes share a commit. Before it
takes more, the callers of the last commit go on: most of them write again at once. A change that conflicts fails
alone. If a transaction fails as a whole, because another process was faster or because of one of its values, each of
its changes gets a transaction of its own.

Where the server is so slow that transactions fail, those that waited too long meanwhile fail without being tried.

If the connection is lost, changes wait for another one, each for `patience` seconds at most. What was sent and not
answered is looked up first (`session`). A change that failed was not written; only where the outcome could not be
looked up in time does its error say that it may have been.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any
from uuid import uuid4

import asyncpg

from parley.stores.appends import Append
from parley.stores.interface import ConflictError, LeaseLostError, StoreError, StoreUnavailableError
from parley.stores.postgres.address import Address
from parley.stores.postgres.errors import DRIVER_ERRORS, explain, is_lost, meaning_of
from parley.stores.postgres.jobs import Change, Job, Outcome, RecordsWrite, resolve, size_of
from parley.stores.postgres.session import ANSWER_SECONDS, RACES, WriterSession, end_session, open_session

logger = logging.getLogger(__name__)

MAX_BATCH = 1_000
"""Changes in a transaction: their callers wait as long as it takes."""

MAX_CHANGES = 50
"""Changes in a transaction that are not appends: each asks the server up to three times, one after the other."""

MAX_BATCH_SIZE = 8_000_000
"""Characters in a transaction."""

TURNS_OF_CALLERS = 4
"""Turns of the event loop between two transactions.

A caller that was answered has then written again, if it does so at once, and shares the next commit instead of waiting
for the one after that: a quarter fewer commits when many send.
"""

MAX_TRIES = 10
"""How often a change that meets others at the same moment is tried alone."""

MAX_SLOW_TRIES = 2
"""How often a change that takes too long by itself is tried."""

LATE_SECONDS = 20.0
"""How long a change waits for others that the server is too slow for. Each of these takes seconds to fail."""

LONGEST_PAUSE = 0.5
"""Seconds between two attempts to connect."""


class PostgresWriter:
    """All writing to a database from this store."""

    def __init__(self, address: Address, *, patience: float) -> None:
        self._address = address
        self._patience = patience
        self._id = uuid4().hex
        self._queue: deque[Job] = deque()
        self._is_waiting = asyncio.Event()
        self._session: WriterSession | None = None
        self._lost_at = 0.0
        self._is_slow = False
        """Whether the server has ended the last transaction, because it took too long, or did not answer in time."""
        self._took_too_long = False
        """Whether the jobs that come next were in a transaction that got no answer in time."""
        self._unanswered: tuple[int, list[Outcome]] | None = None
        self._running: asyncio.Task[None] | None = None
        self._is_stopping = False
        self.refusal: str | None = None
        """Why the last transaction failed, if the database was the reason; None after one that succeeded."""

    async def start(self) -> None:
        """Connect and begin to write."""
        self._session = await open_session(self._address, self._id)
        self._is_stopping = False
        self.refusal = None
        self._running = asyncio.create_task(self._run(), name="parley-postgres-writer")

    async def stop(self) -> None:
        """Write what was submitted, then close the connection."""
        running, self._running = self._running, None
        if running is None:
            return
        self._is_stopping = True
        self._is_waiting.set()
        await running
        session, self._session = self._session, None
        if session is not None:
            try:
                async with asyncio.timeout(self._patience):
                    await end_session(session, self._id)
            except DRIVER_ERRORS:
                session.connection.terminate()

    def submit(self, change: Append | Change | RecordsWrite) -> asyncio.Future[Any]:
        """Queue a change. The future is done when the change is durable."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        if self._running is None:
            done.set_exception(StoreUnavailableError(f"{self._address.name}: the store is not open."))
            return done
        self._queue.append(Job(change, done, loop.time()))
        self._is_waiting.set()
        return done

    async def _run(self) -> None:
        while True:
            await self._is_waiting.wait()
            self._is_waiting.clear()
            while self._queue:
                await self._write(self._take())
                for _ in range(TURNS_OF_CALLERS):
                    await asyncio.sleep(0)
            if self._is_stopping:
                return

    def _take(self) -> list[Job]:
        jobs: list[Job] = []
        size = changes = 0
        while self._queue and len(jobs) < MAX_BATCH and size <= MAX_BATCH_SIZE and changes < MAX_CHANGES:
            job = self._queue.popleft()
            size += size_of(job)
            changes += isinstance(job.change, Change)
            jobs.append(job)
        return jobs

    async def _write(self, jobs: list[Job]) -> None:
        """Write jobs, together if that is possible, and tell their callers."""
        units = deque([jobs])
        while units:
            unit = units.popleft()
            try:
                units.extendleft(reversed(await self._write_unit(unit)))
            except Exception as error:  # of any kind: the writer goes on, and the callers get the error
                logger.exception("A transaction failed in an unexpected way")
                if self._session is not None:
                    self._drop(self._session)
                self._unanswered = None
                resolve([(job, None, explain(error, self._address.name)) for job in unit])

    async def _write_unit(self, unit: list[Job]) -> list[list[Job]]:
        """Run jobs in a transaction, once there is a connection; the jobs to run again, in their transactions."""
        took_too_long, self._took_too_long = self._took_too_long, False
        session = self._session or await self._reconnect(unit)
        if session is None:
            return []  # all of them have waited too long
        unanswered, self._unanswered = self._unanswered, None
        if unanswered is not None and unanswered[0] == session.last_batch:
            resolve(unanswered[1] or [(job, None, None) for job in unit])
            return []
        if took_too_long and unit:
            return self._halve(unit)
        if self._is_slow:
            self._fail_late(unit)
        return await self._try(session, unit) if unit else []

    async def _try(self, session: WriterSession, unit: list[Job]) -> list[list[Job]]:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                outcomes = await session.run(unit)
        except DRIVER_ERRORS as error:
            if is_lost(error, session.connection):
                self._note_loss(session, error)
                self._took_too_long = isinstance(error, TimeoutError)
                return [unit]
            self._is_slow = isinstance(error, asyncpg.QueryCanceledError | asyncpg.LockNotAvailableError)
            await self._roll_back(session)
            if len(unit) > 1:
                return [[job] for job in unit]
            (job,) = unit
            job.tries += 1
            if isinstance(error, RACES) and job.tries < MAX_TRIES:
                return [unit]
            resolve([(job, None, self._refusal_of(job, error))])
            return []
        self.refusal, self._is_slow = None, False
        resolve(outcomes)
        return []

    def _halve(self, unit: list[Job]) -> list[list[Job]]:
        """The jobs of a transaction that got no answer in time, and was not committed, in smaller ones."""
        self._is_slow = True
        if len(unit) > 1:
            middle = len(unit) // 2
            return [unit[:middle], unit[middle:]]
        (job,) = unit
        job.tries += 1
        if job.tries < MAX_SLOW_TRIES:
            return [unit]
        resolve([(job, None, self._too_late())])
        return []

    def _too_late(self) -> StoreUnavailableError:
        text = "the database took too long. Nothing of this was written, and it may be tried again."
        return StoreUnavailableError(f"{self._address.name}: {text}")

    def _fail_late(self, unit: list[Job]) -> None:
        """Fail the jobs of a unit that waited too long for others; none of them was written."""
        earliest = asyncio.get_running_loop().time() - LATE_SECONDS

        def is_late(job: Job) -> bool:
            return job.queued_at < earliest

        resolve([(job, None, self._too_late()) for job in unit if is_late(job)])
        unit[:] = [job for job in unit if not is_late(job)]

    def _refusal_of(self, job: Job, error: BaseException) -> StoreError:
        if isinstance(error, asyncpg.UniqueViolationError) and isinstance(job.change, Append):
            # The last resort: the row of the task lets the append pass, and the log does not.
            return LeaseLostError() if job.change.write.expected_holder else ConflictError()
        self.refusal = meaning_of(error) or self.refusal
        return explain(error, self._address.name)

    async def _roll_back(self, session: WriterSession) -> None:
        try:
            async with asyncio.timeout(self._patience):
                await session.roll_back()
        except DRIVER_ERRORS as error:
            self._note_loss(session, error)

    # --- connections --------------------------------------------------------------------------------------------------

    def _note_loss(self, session: WriterSession, error: BaseException) -> None:
        logger.warning("%s: the connection of the writer is lost (%s).", self._address.name, type(error).__name__)
        self._unanswered = session.unanswered
        self._drop(session)
        self.refusal = meaning_of(error)

    def _drop(self, session: WriterSession) -> None:
        session.connection.terminate()
        self._session = None
        self._lost_at = asyncio.get_running_loop().time()

    async def _reconnect(self, unit: list[Job]) -> WriterSession | None:
        """Connect again. Jobs that wait too long for that fail; None if none of the unit is left."""
        pause = 0.02
        while True:
            try:
                async with asyncio.timeout(max(self._patience, 1.0)):
                    self._session = await open_session(self._address, self._id)
                self.refusal = None
                logger.info("%s: the writer has a connection again.", self._address.name)
                return self._session
            except DRIVER_ERRORS as error:
                self.refusal = meaning_of(error) or self.refusal
                if not self._fail_impatient(unit, error):
                    return None
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _fail_impatient(self, unit: list[Job], error: BaseException) -> list[Job]:
        """Fail the jobs that have waited too long; those of the unit that are left."""
        now = asyncio.get_running_loop().time()

        def is_patient(job: Job) -> bool:
            return now < max(job.queued_at, self._lost_at) + self._patience

        what = self._refusal_text(error, is_uncertain=self._unanswered is not None)
        resolve([(job, None, StoreUnavailableError(what)) for job in unit if not is_patient(job)])
        unit[:] = [job for job in unit if is_patient(job)]
        if not unit:
            self._unanswered = None
        text = self._refusal_text(error, is_uncertain=False)
        resolve([(job, None, StoreUnavailableError(text)) for job in self._queue if not is_patient(job)])
        self._queue = deque([job for job in self._queue if is_patient(job)])
        return unit

    def _refusal_text(self, error: BaseException, *, is_uncertain: bool) -> str:
        meaning = meaning_of(error) or "the database fails"
        if is_uncertain:
            return (
                f"{self._address.name}: {meaning}, and its answer to a commit got lost. The write may have happened: "
                "read before you try it again."
            )
        return f"{self._address.name}: {meaning}. Nothing of this was written, and it may be tried again."
