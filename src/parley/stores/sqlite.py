"""The task log in one SQLite file: the embedded store.

Changes go to the writer's thread (`sqlite_writer`). Reads run beside it, in one of two places:

- Lookups by key (a head, a send that may be a repeat, webhooks, a context's memory, a task of up to `SMALL_TASK`
  characters) run where they are called, on the event loop. They take some ten microseconds and never wait for the
  writer; handing them to a thread and back costs several times as much.
- Reads whose size nobody knows before (pages of events, lists, large tasks) run in a few threads.

A read sees everything whose write was awaited before it.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from msgspec import structs

from parley.protocol.events import TaskEvent
from parley.protocol.jsonvalue import JsonValue
from parley.protocol.push import PushConfig
from parley.protocol.tasks import TaskState
from parley.protocol.versions import Version
from parley.stores.encoding import (
    decode_artifacts,
    decode_events,
    decode_message,
    decode_push_config,
    decode_task,
    decode_time,
    decode_value,
    encode,
    encode_time,
    require_encodable,
)
from parley.stores.interface import (
    ConflictError,
    ContextKey,
    Owner,
    SendKey,
    SendRecord,
    StoredTask,
    StoreError,
    StoreUnavailableError,
    TaskFilter,
    TaskHead,
    TaskHeads,
    TaskKey,
    Webhook,
    Write,
)
from parley.stores.sqlite_file import EXPLAINED, connect_reader, explain, explained
from parley.stores.sqlite_sends import RecentSends
from parley.stores.sqlite_transaction import PUT_WEBHOOK, encode_send, encode_webhook, encode_write
from parley.stores.sqlite_watch import FileWatch
from parley.stores.sqlite_writer import SqliteWriter

T = TypeVar("T")

SMALL_TASK = 32_768
"""Characters of JSON that the event loop may decode by itself: well under a millisecond."""

READ_THREADS = 4
"""Long reads at a time. More would only share the interpreter's lock among more."""

DELETED_AT_ONCE = 50
"""Tasks that one transaction of `delete_finished` forgets, so that other writes get their turn between two."""

LARGEST_INTEGER = 2**63 - 1

_HEAD = "id, agent, context, state, status_at, created_at, last_seq, created_in, attempts, size"


class SqliteTaskLog:
    """A store of tasks in a file of this machine, for one process at a time."""

    def __init__(self, path: str | Path, *, busy_timeout: float = 5.0) -> None:
        """A log in the file at `path`, which need not exist; `busy_timeout` seconds to wait for others who lock it."""
        # Absolute, and without links: two ways to write one path must meet at one lock.
        self._path = Path(path).resolve()
        self._watch = FileWatch(self._path)
        self._writer = SqliteWriter(self._path, self._watch, busy_timeout=busy_timeout)
        self._reader: sqlite3.Connection | None = None
        self._recent_sends: RecentSends | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._thread_readers: list[sqlite3.Connection] = []

    # --- opening and closing ------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Take the file, create it if need be, and bring its schema up to date.

        Raises:
            StoreUnavailableError: it cannot be opened; the message says why and what to do.
        """
        await self._writer.start()
        try:
            with explained(self._path):
                self._reader = connect_reader(self._path)
                self._recent_sends = RecentSends(self._reader)
        except StoreError:
            self._close_reader()
            await self._writer.stop()
            raise
        self._threads = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="parley-sqlite-reader")

    async def close(self) -> None:
        """Write what is queued, end the reads under way, and let go of the file."""
        await self._close_readers()
        await self._writer.stop()  # last: the last connection to close folds the WAL into the file

    async def _close_readers(self) -> None:
        threads, self._threads = self._threads, None
        self._close_reader()
        if threads is not None:
            await asyncio.to_thread(threads.shutdown)
        while self._thread_readers:
            self._thread_readers.pop().close()

    def _close_reader(self) -> None:
        reader, self._reader = self._reader, None
        self._recent_sends = None
        if reader is not None:
            reader.close()

    def trouble(self) -> str | None:
        """Why nothing can be written, as far as the file and the last write tell; None while all is well."""
        trouble = self._watch.trouble()
        if trouble is None and (refusal := self._writer.refusal) is not None:
            return f"The store could not be written: {refusal}."
        return trouble

    # --- tasks --------------------------------------------------------------------------------------------------------

    def write(self, write: Write) -> asyncio.Future[None]:
        """Append events to a task, or create it. It is in line when this returns, and on disk when it is awaited.

        Raises:
            ConflictError: `expected_seq` is not the task's last number, or the task exists already.
            StoreError: it holds something that cannot be kept.
            StoreUnavailableError: nothing was written.
        """
        try:
            append = encode_write(write)
        except StoreError as error:
            refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            refused.set_exception(error)
            return refused
        for send, record in write.sends:
            self._note_send(write.key.owner, send, record)
        return self._writer.submit(append)

    async def head(self, key: TaskKey) -> TaskHead | None:
        """A task's head, or None if this owner has no such task."""
        return self._look(lambda reader: _read_head(reader, key))

    async def task(self, key: TaskKey) -> StoredTask | None:
        """A task as of one moment, or None if this owner has no such task."""
        head = await self.head(key)
        if head is None:
            return None
        if head.size > SMALL_TASK:
            (task,) = await self.tasks([key])
        else:
            (task,) = self._look(lambda reader: _read_tasks(reader, [key], artifacts=True, size=None))
        return task

    async def tasks(
        self, keys: Sequence[TaskKey], *, artifacts: bool = True, size: int | None = None
    ) -> Sequence[StoredTask | None]:
        """Tasks, each as of one moment, and not much more than `size` characters; None for those not there."""
        return await self._read(lambda reader: _read_tasks(reader, keys, artifacts=artifacts, size=size))

    async def events(
        self, key: TaskKey, *, after: int, limit: int, size: int | None = None
    ) -> Sequence[tuple[int, TaskEvent]]:
        """A task's events after a number, oldest first, at most `limit`, and not much more than `size` characters."""
        return await self._read(lambda reader: _read_events(reader, key, after=after, limit=limit, size=size))

    async def list(self, owner: Owner, query: TaskFilter) -> TaskHeads:
        """An owner's tasks."""
        return await self._read(lambda reader: _read_list(reader, owner, query))

    async def unfinished(self) -> Sequence[TaskHead]:
        """Tasks of all owners that are submitted or working, the oldest first."""
        return await self._read(_read_unfinished)

    async def delete(self, key: TaskKey) -> bool:
        """Forget a task with its events, sends and webhooks; whether there was one."""
        return await self._submit(lambda writer: _delete(writer, key), key.owner.tenant, key.owner.name, key.task_id)

    async def delete_finished(self, *, before: datetime, limit: int) -> int:
        """Forget tasks of all owners that ended before a moment, the oldest first; how many, at most `limit`."""
        ended_before = encode_time(before)
        deleted = 0
        while deleted < limit:
            at_once = min(limit - deleted, DELETED_AT_ONCE)
            batch = await self._submit(lambda writer, n=at_once: _delete_finished(writer, ended_before, n))
            deleted += batch
            if batch < at_once:
                break
        return deleted

    # --- sends --------------------------------------------------------------------------------------------------------

    async def find_send(self, owner: Owner, send: SendKey, *, since: datetime) -> SendRecord | None:
        """What became of a message that was sent at or after a moment."""
        since_at = encode_time(since)
        require_encodable(owner.tenant, owner.name, send.message_id)
        if self._recent_sends is not None and self._recent_sends.is_new(owner, send, since_at):
            return None
        return self._look(lambda reader: _read_send(reader, owner, send, since_at))

    async def remember_send(self, owner: Owner, send: SendKey, record: SendRecord) -> None:
        """Remember a message that created no task."""
        row = encode_send(owner, send, record)
        self._note_send(owner, send, record)
        await self._execute("INSERT OR REPLACE INTO sends VALUES (?, ?, ?, ?, ?, ?, ?)", *row)

    def _note_send(self, owner: Owner, send: SendKey, record: SendRecord) -> None:
        if self._recent_sends is not None:
            self._recent_sends.note(owner, send, encode_time(record.sent_at))

    async def forget_sends(self, *, before: datetime) -> None:
        """Forget messages that nobody may repeat any more."""
        await self._execute("DELETE FROM sends WHERE sent_at < ?", encode_time(before))

    # --- webhooks -----------------------------------------------------------------------------------------------------

    async def put_push_config(
        self, key: TaskKey, config: PushConfig, *, version: Version = Version.V1_0, after: int | None = None
    ) -> None:
        """Keep a webhook of a task, in place of an earlier one with its id, and in its place.

        Raises:
            ConflictError: this owner has no such task, or has it no longer.
        """
        row = encode_webhook(key, config, version, 0)

        def put(writer: sqlite3.Connection) -> None:
            head = _read_head(writer, key)
            if head is None:
                raise ConflictError
            place = head.last_seq if after is None else min(after, head.last_seq)
            writer.execute(PUT_WEBHOOK, (*row[:-1], place))

        await self._submit(put)

    async def push_configs(self, key: TaskKey) -> Sequence[PushConfig]:
        """A task's webhooks, by id."""
        return self._look(lambda reader: _read_push_configs(reader, key))

    async def delete_push_config(self, key: TaskKey, config_id: str) -> None:
        """Forget a webhook, if there is one."""
        await self._execute(
            "DELETE FROM push_configs WHERE tenant = ? AND task = ? AND id = ? AND owner = ?",
            *(key.owner.tenant, key.task_id, config_id, key.owner.name),
        )

    async def webhooks(self, key: TaskKey) -> Sequence[Webhook]:
        """A task's webhooks with their places, by id."""
        return self._look(lambda reader: _read_webhooks(reader, key))

    async def mark_delivered(self, key: TaskKey, config_id: str, seq: int) -> bool:
        """Note that a webhook has been told of everything up to a number; whether it is still there."""
        names = (key.owner.tenant, key.task_id, config_id, key.owner.name)
        return await self._submit(lambda writer: _mark_delivered(writer, names, seq), *names)

    async def undelivered(
        self, *, after: Webhook | Owner | None, limit: int, owner: Owner | None = None
    ) -> Sequence[Webhook]:
        """Webhooks of one owner or of all that are behind their tasks, by tenant, owner, task and id."""
        return await self._read(lambda reader: _read_undelivered(reader, after, limit, owner))

    # --- the memory of contexts ---------------------------------------------------------------------------------------

    async def remember(self, context: ContextKey, name: str, value: JsonValue, *, at: datetime) -> None:
        """Keep a value for a context; None forgets it."""
        place = (*_context_columns(context), name)
        if value is None:
            await self._execute(f"DELETE FROM context_values WHERE {_OF_CONTEXT} AND name = ?", *place)
        else:
            await self._execute(
                "INSERT OR REPLACE INTO context_values VALUES (?, ?, ?, ?, ?, ?, ?)",
                *(*place, encode(value), encode_time(at)),
            )

    async def recall(self, context: ContextKey) -> dict[str, JsonValue]:
        """All values kept for a context."""
        return self._look(lambda reader: _read_values(reader, context))

    async def forget_contexts(self, *, before: datetime, limit: int) -> int:
        """Forget the values of contexts that have no task left and were last written before a moment."""
        written_before = encode_time(before)
        contexts = await self._read(lambda reader: _read_forgotten(reader, written_before, limit))
        return await self._submit(lambda writer: _forget_contexts(writer, contexts, written_before)) if contexts else 0

    # --- where things run ---------------------------------------------------------------------------------------------

    def _look(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """Ask here and now."""
        if self._reader is None:
            raise self._not_open()
        try:
            return question(self._reader)
        except EXPLAINED as error:  # as `explained` does, which costs as much as the question
            self._watch.note(error)
            raise explain(error, self._path) from error

    async def _read(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """Ask in a thread."""
        if self._threads is None:
            raise self._not_open()
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._read_in_thread, question)

    def _read_in_thread(self, question: Callable[[sqlite3.Connection], T]) -> T:
        with explained(self._path):
            try:
                reader = self._thread_readers.pop()
            except IndexError:  # all are in use
                self._watch.require_in_place()
                reader = connect_reader(self._path)
            try:
                return question(reader)
            except EXPLAINED as error:
                self._watch.note(error)
                raise
            finally:
                self._thread_readers.append(reader)

    async def _submit(self, change: Callable[[sqlite3.Connection], T], *names: str) -> T:
        require_encodable(*names)
        return await self._writer.submit(change)

    async def _execute(self, statement: str, *values: str | int | bytes | None) -> None:
        """Run a statement that cannot conflict."""
        names = [value for value in values if isinstance(value, str)]
        await self._submit(lambda writer: writer.execute(statement, values), *names)

    def _not_open(self) -> StoreUnavailableError:
        return StoreUnavailableError(f"{self._path}: the store is not open.")


# --- questions --------------------------------------------------------------------------------------------------------


@contextmanager
def _one_moment(reader: sqlite3.Connection) -> Generator[None]:
    """Makes several questions see one state of the file."""
    reader.execute("BEGIN")
    try:
        yield
    finally:
        reader.execute("COMMIT")


def _read_head(reader: sqlite3.Connection, key: TaskKey) -> TaskHead | None:
    row = reader.execute(
        f"SELECT {_HEAD} FROM tasks WHERE tenant = ? AND id = ? AND owner = ?",
        (key.owner.tenant, key.task_id, key.owner.name),
    ).fetchone()
    return _decode_head(key.owner, row) if row is not None else None


def _decode_head(owner: Owner, row: Sequence[Any]) -> TaskHead:
    task_id, agent, context, state, status_at, created_at, last_seq, created_in, attempts, size = row
    return TaskHead(
        TaskKey(owner, task_id),
        agent,
        context,
        TaskState(state),
        decode_time(status_at),
        decode_time(created_at),
        last_seq,
        Version(created_in),
        attempts,
        size,
    )


def _read_tasks(
    reader: sqlite3.Connection, keys: Sequence[TaskKey], *, artifacts: bool, size: int | None
) -> list[StoredTask | None]:
    tasks: list[StoredTask | None] = []
    read = 0
    with _one_moment(reader):
        for key in keys:
            if size is not None and read > size:
                break
            task, length = _read_task(reader, key, artifacts=artifacts)
            tasks.append(task)
            read += length
    return tasks


def _read_task(reader: sqlite3.Connection, key: TaskKey, *, artifacts: bool) -> tuple[StoredTask | None, int]:
    """A task, and how many characters were read of it. For a block of `_one_moment`."""
    row = reader.execute(
        f"""
        SELECT number, snapshot_seq, snapshot, {"artifacts" if artifacts else "NULL"}, {_HEAD}
        FROM tasks LEFT JOIN snapshots ON snapshots.tenant = tasks.tenant AND snapshots.task = tasks.id
        WHERE tasks.tenant = ? AND tasks.id = ? AND owner = ?
        """,
        (key.owner.tenant, key.task_id, key.owner.name),
    ).fetchone()
    if row is None:
        return None, 0
    number, snapshot_seq, outline, made, *head = row
    rows = reader.execute(
        f"""
        SELECT events FROM events WHERE task = ? AND last_seq > ? {"" if artifacts else "AND NOT is_unlisted"}
        ORDER BY last_seq
        """,
        (number, snapshot_seq),
    ).fetchall()
    snapshot = decode_task(outline) if outline is not None else None
    if snapshot is not None and made is not None:
        snapshot = structs.replace(snapshot, artifacts=decode_artifacts(made))
    events = tuple([event for (text,) in rows for event in decode_events(text)])
    read = len(outline or "") + len(made or "") + sum([len(text) for (text,) in rows])
    return StoredTask(_decode_head(key.owner, head), snapshot, snapshot_seq, events), read


def _read_events(
    reader: sqlite3.Connection, key: TaskKey, *, after: int, limit: int, size: int | None
) -> tuple[tuple[int, TaskEvent], ...]:
    # A peer names the number it wants to go on from: it may be larger than any database's.
    after = min(after, LARGEST_INTEGER)
    rows = reader.execute(
        """
        SELECT events.last_seq, events FROM tasks CROSS JOIN events ON task = number
        WHERE tenant = ? AND id = ? AND owner = ? AND events.last_seq > ?
        ORDER BY events.last_seq
        """,
        (key.owner.tenant, key.task_id, key.owner.name, after),
    )
    page: list[tuple[int, TaskEvent]] = []
    read = 0
    with closing(rows):
        for last_seq, text in rows:
            events = decode_events(text)
            first_seq = last_seq - len(events) + 1
            before = max(0, after + 1 - first_seq)  # a page may begin within a row, and end within one
            page += enumerate(events[before:], first_seq + before)
            read += len(text)
            if len(page) >= limit or (size is not None and read > size):
                break
    return tuple(page[:limit])


def _read_list(reader: sqlite3.Connection, owner: Owner, query: TaskFilter) -> TaskHeads:
    conditions = ["tenant = ?", "owner = ?"]
    values: list[str | int] = [owner.tenant, owner.name]
    for condition, value in (
        ("agent = ?", query.agent),
        ("context = ?", query.context_id),
        ("state = ?", query.state.value if query.state is not None else None),
        ("status_at >= ?", encode_time(query.status_at_or_after) if query.status_at_or_after is not None else None),
    ):
        if value is not None:
            conditions.append(condition)
            values.append(value)
    matching = " AND ".join(conditions)
    page, place = "", []
    if query.after is not None:
        status_at = encode_time(query.after[0])
        page = "AND status_at <= ? AND (status_at < ? OR id > ?)"  # the first half is what the index can do
        place = [status_at, status_at, query.after[1]]
    tasks = f"tasks INDEXED BY {_choose_index(query)}"
    with _one_moment(reader):
        (total,) = reader.execute(f"SELECT count(*) FROM {tasks} WHERE {matching}", values).fetchone()
        rows = reader.execute(
            f"SELECT {_HEAD} FROM {tasks} WHERE {matching} {page} ORDER BY status_at DESC, id LIMIT ?",
            [*values, *place, query.limit],
        ).fetchall()
    return TaskHeads(tuple([_decode_head(owner, row) for row in rows]), total)


def _choose_index(query: TaskFilter) -> str:
    """The narrowest index. SQLite by itself guesses that a tenant has ten tasks, and reads them all."""
    if query.context_id is not None:
        return "tasks_by_context"
    return "tasks_by_state" if query.state is not None else "tasks_by_status"


def _read_unfinished(reader: sqlite3.Connection) -> tuple[TaskHead, ...]:
    rows = reader.execute(
        f"SELECT tenant, owner, {_HEAD} FROM tasks WHERE state IN ('submitted', 'working') ORDER BY created_at"
    ).fetchall()
    return tuple([_decode_head(Owner(tenant, owner), row) for tenant, owner, *row in rows])


def _read_send(reader: sqlite3.Connection, owner: Owner, send: SendKey, since: int) -> SendRecord | None:
    row = reader.execute(
        """
        SELECT sent_at, task, reply FROM sends
        WHERE tenant = ? AND owner = ? AND message_id = ? AND digest = ? AND sent_at >= ?
        """,
        (owner.tenant, owner.name, send.message_id, send.digest, since),
    ).fetchone()
    if row is None:
        return None
    sent_at, task_id, reply = row
    return SendRecord(decode_time(sent_at), task_id, decode_message(reply) if reply is not None else None)


def _read_push_configs(reader: sqlite3.Connection, key: TaskKey) -> tuple[PushConfig, ...]:
    rows = reader.execute(
        "SELECT config FROM push_configs WHERE tenant = ? AND task = ? AND owner = ? ORDER BY id",
        (key.owner.tenant, key.task_id, key.owner.name),
    ).fetchall()
    return tuple([decode_push_config(config) for (config,) in rows])


_WEBHOOK = """
    SELECT p.tenant, p.owner, p.task, t.agent, p.config, p.version, p.delivered_seq, t.last_seq
    FROM push_configs AS p CROSS JOIN tasks AS t ON t.tenant = p.tenant AND t.id = p.task
"""


def _read_webhooks(reader: sqlite3.Connection, key: TaskKey) -> tuple[Webhook, ...]:
    rows = reader.execute(
        f"{_WEBHOOK} WHERE p.tenant = ? AND p.task = ? AND p.owner = ? ORDER BY p.id",
        (key.owner.tenant, key.task_id, key.owner.name),
    ).fetchall()
    return tuple([_decode_webhook(row) for row in rows])


def _read_undelivered(
    reader: sqlite3.Connection, after: Webhook | Owner | None, limit: int, owner: Owner | None
) -> tuple[Webhook, ...]:
    conditions, values = ["p.delivered_seq < t.last_seq"], list[str | int]()
    if owner is not None:
        conditions.append("p.tenant = ? AND p.owner = ?")
        values += [owner.tenant, owner.name]
    if isinstance(after, Owner):
        conditions.append("(p.tenant, p.owner) > (?, ?)")
        values += [after.tenant, after.name]
    elif after is not None:
        conditions.append("(p.tenant, p.owner, p.task, p.id) > (?, ?, ?, ?)")
        values += [after.key.owner.tenant, after.key.owner.name, after.key.task_id, after.config.id or ""]
    rows = reader.execute(
        f"{_WEBHOOK} WHERE {' AND '.join(conditions)} ORDER BY p.tenant, p.owner, p.task, p.id LIMIT ?",
        (*values, limit),
    ).fetchall()
    return tuple([_decode_webhook(row) for row in rows])


def _decode_webhook(row: Sequence[Any]) -> Webhook:
    tenant, owner, task_id, agent, config, version, delivered_seq, last_seq = row
    key = TaskKey(Owner(tenant, owner), task_id)
    return Webhook(key, agent, decode_push_config(config), Version(version), delivered_seq, last_seq)


def _mark_delivered(writer: sqlite3.Connection, names: tuple[str, str, str, str], seq: int) -> bool:
    marked = writer.execute(
        """
        UPDATE push_configs SET delivered_seq = max(delivered_seq, ?)
        WHERE tenant = ? AND task = ? AND id = ? AND owner = ?
        """,
        (seq, *names),
    )
    return marked.rowcount > 0


_OF_CONTEXT = "tenant = ? AND owner = ? AND agent = ? AND context = ?"


def _context_columns(context: ContextKey) -> tuple[str, str, str, str]:
    return context.owner.tenant, context.owner.name, context.agent, context.context_id


def _read_values(reader: sqlite3.Connection, context: ContextKey) -> dict[str, JsonValue]:
    rows = reader.execute(
        f"SELECT name, value FROM context_values WHERE {_OF_CONTEXT}", _context_columns(context)
    ).fetchall()
    return {name: decode_value(value) for name, value in rows}


def _read_forgotten(reader: sqlite3.Connection, written_before: int, limit: int) -> list[tuple[str, str, str, str]]:
    """Contexts whose values may be forgotten."""
    return reader.execute(
        f"""
        SELECT DISTINCT tenant, owner, agent, context FROM context_values AS old INDEXED BY context_values_by_time
        WHERE written_at < ? AND {_NOT_IN_USE} LIMIT ?
        """,
        (written_before, written_before, limit),
    ).fetchall()


_NOT_IN_USE = """
    NOT EXISTS (
        SELECT 1 FROM context_values AS new
        WHERE new.tenant = old.tenant AND new.owner = old.owner AND new.agent = old.agent
            AND new.context = old.context AND new.written_at >= ?
    ) AND NOT EXISTS (
        SELECT 1 FROM tasks INDEXED BY tasks_by_context
        WHERE tasks.tenant = old.tenant AND tasks.owner = old.owner AND tasks.agent = old.agent
            AND tasks.context = old.context
    )
"""


# --- deletions --------------------------------------------------------------------------------------------------------


def _delete(writer: sqlite3.Connection, key: TaskKey) -> bool:
    """Forget one task; snapshot and webhooks go with its row."""
    owner, task_id = key.owner, key.task_id
    number = writer.execute(
        "SELECT number FROM tasks WHERE tenant = ? AND id = ? AND owner = ?", (owner.tenant, task_id, owner.name)
    ).fetchone()
    if number is None:
        return False
    writer.execute("DELETE FROM tasks WHERE number = ?", number)
    writer.execute("DELETE FROM events WHERE task = ?", number)
    writer.execute(
        "DELETE FROM sends INDEXED BY sends_by_task WHERE task = ? AND tenant = ? AND owner = ?",
        (task_id, owner.tenant, owner.name),
    )
    return True


def _delete_finished(writer: sqlite3.Connection, ended_before: int, limit: int) -> int:
    rows = writer.execute(
        """
        SELECT tenant, owner, id FROM tasks
        WHERE state IN ('completed', 'failed', 'canceled', 'rejected') AND status_at < ? ORDER BY status_at LIMIT ?
        """,
        (ended_before, limit),
    ).fetchall()
    for tenant, owner, task_id in rows:
        _delete(writer, TaskKey(Owner(tenant, owner), task_id))
    return len(rows)


def _forget_contexts(
    writer: sqlite3.Connection, contexts: Sequence[tuple[str, str, str, str]], written_before: int
) -> int:
    """Forget the values of those contexts that are still not in use."""
    forgotten = 0
    for context in contexts:
        deleted = writer.execute(
            f"DELETE FROM context_values AS old WHERE {_OF_CONTEXT} AND {_NOT_IN_USE}", (*context, written_before)
        )
        forgotten += deleted.rowcount > 0
    return forgotten
