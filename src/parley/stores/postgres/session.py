"""One connection of the writer, and the transactions on it.

Most batches are appends to tasks whose heads are known: they take one statement, which is its own transaction. Any
other batch, and one that failed so, is a transaction that locks the heads first. Each notes its number in the process's
row of `writers`. Should the connection break before the answer to a commit comes, the next session waits for the end of
that transaction, keeps the broken one from writing any more, and learns whether it was committed. That also holds where
another server has taken over: the row and the data come from the same place.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import groupby

import asyncpg

from parley.stores.appends import Append, StagedHead, TaskId
from parley.stores.interface import SendRecord, StoreError
from parley.stores.postgres.address import Address
from parley.stores.postgres.batch import (
    LOAD_HEADS,
    LOAD_SENDS,
    MARK_BATCH,
    NEXT_NUMBERS,
    NUMBERS_AT_ONCE,
    Batch,
    SendId,
)
from parley.stores.postgres.connecting import connect
from parley.stores.postgres.errors import is_lost
from parley.stores.postgres.jobs import Change, Job, Outcome, RecordsWrite, in_order_of_tables
from parley.stores.postgres.record_writes import write_records
from parley.stores.postgres.statements import load_statements
from parley.stores.rows import decode_send

_STATEMENTS = load_statements("writers")

ANSWER_SECONDS = 10.0
"""How long a transaction may take; afterwards the connection counts as lost.

So a server that has vanished is noticed, at about the time at which a lease expires.
"""

KNOWN_HEADS = 4_096
"""Heads that are remembered: of all tasks at work in a busy process, about half a kilobyte each. They may be wrong."""

RACES = (
    asyncpg.UniqueViolationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.DivisionByZeroError,  # a head or a message was not as expected: see `batch`
)
"""Errors that say that another process was faster: each job of the transaction is then tried again."""


class SessionReplacedError(OSError):
    """The process's row in `writers` names another session, or is gone: this one cannot write any more."""


class WriterSession:
    """A connection that writes."""

    def __init__(self, connection: asyncpg.Connection, writer: str, session: int, last_batch: int) -> None:
        self.connection = connection
        self.last_batch = last_batch
        """The last transaction of this process that is known to be committed."""
        self.unanswered: tuple[int, list[Outcome]] | None = None
        """The transaction whose commit was sent and not answered, and what its callers get if it was committed."""
        self._writer = writer
        self._session = session
        self._heads: OrderedDict[TaskId, StagedHead] = OrderedDict()
        self._numbers = range(0)

    async def run(self, jobs: list[Job]) -> list[Outcome]:
        """Run jobs in one transaction; what their callers get when it is committed.

        Raises:
            asyncpg.PostgresError, OSError, …: nothing was committed, unless `unanswered` is set.
        """
        appends = [job.change for job in jobs if isinstance(job.change, Append)]
        if len(appends) == len(jobs) and await self._append_at_once(appends):
            return [(job, None, None) for job in jobs]
        return await self._run_transaction(jobs)

    async def roll_back(self) -> None:
        """End a transaction that failed."""
        if self.connection.is_in_transaction():
            await self.connection.execute("ROLLBACK")

    # --- one statement ------------------------------------------------------------------------------------------------

    async def _append_at_once(self, appends: Sequence[Append]) -> bool:
        """Write appends with one statement, by the heads that are known; False if that was not possible."""
        heads: dict[TaskId, StagedHead | None] = {}
        for append in appends:
            if append.task_id not in heads:
                head = self._heads.pop(append.task_id, None)
                if head is None and append.write.new is None:
                    return False
                heads[append.task_id] = head
        await self._reserve_numbers(len(appends))
        batch = Batch(heads, self._next_number)
        try:
            for append in appends:
                if batch.repeats_a_send(append):
                    return False
                batch.stage(append)
        except StoreError:  # by what is known: the transaction that follows knows better
            return False
        number = self.last_batch + 1
        statement, values = batch.statement(number, self._writer, self._session)
        self.unanswered = (number, [])
        try:
            await self.connection.fetchval(statement, *values)
        except RACES:
            self.unanswered = None
            return False
        except asyncpg.PostgresError as error:
            if not is_lost(error):
                self.unanswered = None
            raise
        self._committed(number)
        self._remember(batch)
        return True

    # --- a transaction ------------------------------------------------------------------------------------------------

    async def _run_transaction(self, jobs: list[Job]) -> list[Outcome]:
        number = self.last_batch + 1
        await self._reserve_numbers(sum([isinstance(job.change, Append) for job in jobs]))
        await self.connection.execute("BEGIN")
        if await self.connection.fetchval(MARK_BATCH, number, self._writer, self._session) is None:
            raise SessionReplacedError("This session of the writer was replaced by another one")
        await self._lock_tasks(jobs)
        outcomes: list[Outcome] = []
        batches: list[Batch] = []
        for kind, group in groupby(in_order_of_tables(jobs), key=lambda job: type(job.change)):
            if kind is Append:
                outcomes += await self._append(list(group), number, batches)
            elif kind is RecordsWrite:
                outcomes += await _write_records(self.connection, list(group))
            else:
                outcomes += [await _change(self.connection, job) for job in group]
        self.unanswered = (number, outcomes)
        try:
            answer = await self.connection.execute("COMMIT")
        except asyncpg.PostgresError as error:
            if not is_lost(error):
                self.unanswered = None
            raise
        if answer != "COMMIT":
            self.unanswered = None
            raise asyncpg.TransactionRollbackError(f"The transaction ended with {answer}")
        self._committed(number)
        for batch in batches:
            self._remember(batch)
        return outcomes

    async def _lock_tasks(self, jobs: Sequence[Job]) -> None:
        """Lock the tasks of all jobs in one statement: changes between appends would lock them in another order."""
        changes = [job.change for job in jobs if isinstance(job.change, Change)]
        ids = {job.change.task_id for job in jobs if isinstance(job.change, Append)}
        ids |= {change.task for change in changes if change.task is not None}
        if changes and len(ids) > 1:
            await self.connection.fetch(LOAD_HEADS, [tenant for tenant, _ in ids], [task for _, task in ids])

    async def _append(self, jobs: list[Job], number: int, batches: list[Batch]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        batch = await self._load(jobs)
        sent = await self._load_sends(jobs)
        is_staged = False
        for job in jobs:
            append = job.change
            assert isinstance(append, Append)
            try:
                if is_staged and batch.repeats_a_send(append):
                    await self._flush(batch, number)  # so that the message is found
                    batch, sent = await self._load(jobs), await self._load_sends(jobs)
                    is_staged = False
                batch.stage(append, sent)
                is_staged = True
                outcomes.append((job, None, None))
            except StoreError as error:
                outcomes.append((job, None, error))
        if is_staged:
            await self._flush(batch, number)
        batches.append(batch)
        return outcomes

    async def _load(self, jobs: Sequence[Job]) -> Batch:
        ids = list({job.change.task_id for job in jobs if isinstance(job.change, Append)})
        heads: dict[TaskId, StagedHead | None] = dict.fromkeys(ids)
        rows = await self.connection.fetch(LOAD_HEADS, [tenant for tenant, _ in ids], [task for _, task in ids])
        for row in rows:
            heads[row[0], row[1]] = StagedHead(*row)
        return Batch(heads, self._next_number)

    async def _load_sends(self, jobs: Sequence[Job]) -> dict[SendId, SendRecord]:
        """The messages of jobs that are in the store, and within the window of their job."""
        since: dict[SendId, int] = {}
        for job in jobs:
            if isinstance(job.change, Append) and job.change.sends_since is not None:
                for row in job.change.sends:
                    since[row[:4]] = min(job.change.sends_since, since.get(row[:4], job.change.sends_since))
        if not since:
            return {}
        rows = await self.connection.fetch(LOAD_SENDS, *[list(column) for column in zip(*since, strict=True)])
        return {tuple(row[:4]): decode_send(*row[4:]) for row in rows if row[4] >= since[tuple(row[:4])]}

    async def _flush(self, batch: Batch, number: int) -> None:
        statement, values = batch.statement(number, self._writer, self._session)
        await self.connection.fetchval(statement, *values)

    # --- what is known ------------------------------------------------------------------------------------------------

    def _committed(self, number: int) -> None:
        self.unanswered = None
        self.last_batch = number

    def _remember(self, batch: Batch) -> None:
        for task_id, head in batch.heads_after():
            if head.holder:  # the others are not written to soon
                self._heads[task_id] = head
        while len(self._heads) > KNOWN_HEADS:
            self._heads.popitem(last=False)

    async def _reserve_numbers(self, count: int) -> None:
        """Make sure that there are numbers for this many new tasks."""
        if len(self._numbers) < count:
            first = await self.connection.fetchval(NEXT_NUMBERS)
            self._numbers = range(first, first + NUMBERS_AT_ONCE)

    def _next_number(self) -> int:
        number, self._numbers = self._numbers[0], self._numbers[1:]
        return number


async def open_session(address: Address, writer: str) -> WriterSession:
    """Open a connection that writes for a process. Transactions on its previous connection have ended by then."""
    connection = await connect(address, answer_seconds=ANSWER_SECONDS, is_writer=True)
    try:
        (row,) = await connection.fetch(_STATEMENTS["begin_session"], writer)
    except BaseException:
        connection.terminate()
        raise
    return WriterSession(connection, writer, session=row[0], last_batch=row[1])


async def end_session(session: WriterSession, writer: str) -> None:
    """Delete the row of a process that writes no more, and close its connection."""
    await session.connection.execute(_STATEMENTS["end_session"], writer)
    await session.connection.close()


async def _change(connection: asyncpg.Connection, job: Job) -> Outcome:
    assert isinstance(job.change, Change)
    try:
        return job, await job.change.run(connection), None
    except StoreError as error:
        return job, None, error


async def _write_records(connection: asyncpg.Connection, jobs: Sequence[Job]) -> list[Outcome]:
    writes = [job.change.changes for job in jobs if isinstance(job.change, RecordsWrite)]
    errors = await write_records(connection, writes)
    return [(job, None, error) for job, error in zip(jobs, errors, strict=True)]
