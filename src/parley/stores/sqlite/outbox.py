"""The webhooks of tasks in SQLite, and which of them are behind.

`push_configs` holds the webhooks. A task has a row in `outbox` if, and only if, one of its webhooks is behind.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from itertools import islice

from parley.protocol.push import PushConfig
from parley.protocol.versions import Version
from parley.sealed.sealer import Sealer
from parley.stores.encoding import encode
from parley.stores.interface import ConflictError, DeadLetter, DeliveryFailure, Owner, TaskKey, Webhook
from parley.stores.interface.delivery_state import add_dead_letter, dead_letters_up_to
from parley.stores.rows import WEBHOOK, decode_webhook, encode_webhook, read_dead_letters, write_dead_letters
from parley.stores.sqlite.access import SqliteAccess
from parley.stores.sqlite.lists import distinct, merged, one_moment
from parley.stores.sqlite.rows import PUT_IN_OUTBOX, PUT_WEBHOOK
from parley.stores.sqlite.tasks import read_head


class SqliteOutbox:
    """Webhooks, and which of them are behind."""

    def __init__(self, access: SqliteAccess, sealer: Sealer) -> None:
        self._access = access
        self._sealer = sealer

    async def put(
        self,
        key: TaskKey,
        config: PushConfig,
        *,
        version: Version = Version.V1_0,
        after: int | None = None,
        holder: str = "",
    ) -> None:
        """Keep a webhook of a task; if it replaces one with its id, it keeps what was delivered to that one.

        Raises:
            ConflictError: this owner has no such task, or has it no longer.
        """
        row = encode_webhook(self._sealer, key, config, version, 0)

        def put(writer: sqlite3.Connection) -> None:
            head = read_head(writer, key)
            if head is None:
                raise ConflictError
            delivered_seq = head.last_seq if after is None else min(after, head.last_seq)
            writer.execute(PUT_WEBHOOK, (*row[:-1], delivered_seq))
            writer.execute("UPDATE tasks SET has_webhooks = 1 WHERE tenant = ? AND id = ?", _names(key)[:2])
            writer.execute(PUT_IN_OUTBOX.format(rows="(?, ?, ?, ?)"), (*_outbox_key(key), holder))
            _delete_if_delivered(writer, key)

        await self._access.submit(put, holder)

    async def configs(self, key: TaskKey) -> Sequence[PushConfig]:
        """A task's webhooks, by id."""
        return [webhook.config for webhook in await self.webhooks(key)]

    async def delete(self, key: TaskKey, config_id: str) -> None:
        """Delete a webhook, if there is one."""

        def delete(writer: sqlite3.Connection) -> None:
            names = _names(key)
            writer.execute(f"DELETE FROM push_configs WHERE {_OF_TASK} AND id = ?", (*names, config_id))
            writer.execute(
                f"""
                UPDATE tasks SET has_webhooks = EXISTS (SELECT 1 FROM push_configs WHERE {_OF_TASK})
                WHERE tenant = ? AND id = ? AND owner = ?
                """,
                (*names, *names),
            )
            _delete_if_delivered(writer, key)

        await self._access.submit(delete, *_names(key), config_id)

    async def webhooks(self, key: TaskKey) -> Sequence[Webhook]:
        """A task's webhooks with what was delivered to them, by id."""
        return self._access.read_now(lambda reader: _read_webhooks(reader, self._sealer, key))

    async def claim(self, keys: Sequence[TaskKey], *, holder: str, live: frozenset[str]) -> Sequence[TaskKey]:
        """Put tasks that are in the outbox of no live worker into that of `holder`; which ones are in it now."""

        def claim(writer: sqlite3.Connection) -> list[TaskKey]:
            return [key for key in keys if _claim(writer, key, holder, live)]

        return await self._access.submit(claim, holder)

    async def mark_delivered(
        self,
        key: TaskKey,
        config_id: str,
        seq: int,
        *,
        holder: str,
        begun_after: int = 0,
        dead_letter: DeadLetter | None = None,
    ) -> bool:
        """Note that all events up to a number were delivered to a webhook; False if the caller must stop."""
        values = (*_names(key), config_id, begun_after, *_outbox_key(key), holder)

        def mark(writer: sqlite3.Connection) -> bool:
            statement = f"UPDATE push_configs SET delivered_seq = max(delivered_seq, ?), failure = NULL WHERE {_MINE}"
            is_marked = writer.execute(statement, (seq, *values)).rowcount > 0
            if is_marked and dead_letter is not None:
                letters = add_dead_letter(_read_letters(writer, key, config_id), dead_letter)
                _write_letters(writer, key, config_id, letters)
            _delete_if_delivered(writer, key)
            return is_marked

        return await self._access.submit(mark, *_names(key), config_id, holder)

    async def note_failure(
        self, key: TaskKey, config_id: str, failure: DeliveryFailure, *, holder: str, begun_after: int = 0
    ) -> bool:
        """Keep the failure of a webhook; False if the caller must stop."""
        values = (encode(failure), *_names(key), config_id, begun_after, *_outbox_key(key), holder)

        def note(writer: sqlite3.Connection) -> bool:
            return writer.execute(f"UPDATE push_configs SET failure = ? WHERE {_MINE}", values).rowcount > 0

        return await self._access.submit(note, *_names(key), config_id, holder)

    async def failing(
        self, owner: Owner, *, agent: str | None = None, after: tuple[str, str] | None = None, limit: int
    ) -> Sequence[Webhook]:
        """An owner's webhooks that have a failure or dead letters, by task and id."""
        conditions, values = "", [owner.tenant, owner.name]
        if agent is not None:
            conditions += " AND t.agent = ?"
            values.append(agent)
        if after is not None:
            conditions += " AND (p.task, p.id) > (?, ?)"
            values += after
        statement = f"""
            SELECT p.task, t.agent, {WEBHOOK} FROM push_configs AS p INDEXED BY push_configs_failing
            CROSS JOIN tasks AS t ON t.tenant = p.tenant AND t.id = p.task
            WHERE (p.failure IS NOT NULL OR p.dead_letters IS NOT NULL) AND p.tenant = ? AND p.owner = ? {conditions}
            ORDER BY p.task, p.id LIMIT ?
        """
        rows = await self._access.read_in_thread(lambda reader: reader.execute(statement, (*values, limit)).fetchall())
        return [decode_webhook(self._sealer, TaskKey(owner, task), row) for task, *row in rows]

    async def rewind(self, key: TaskKey, config_id: str, seq: int, *, holder: str) -> bool:
        """Let a webhook get the events after a number again, if they were delivered. False if it is not there."""

        def rewind(writer: sqlite3.Connection) -> bool:
            statement = "UPDATE push_configs SET delivered_seq = min(delivered_seq, ?), failure = NULL"
            names = (*_names(key), config_id)
            found = writer.execute(f"{statement} WHERE {_OF_TASK} AND id = ?", (seq, *names)).rowcount > 0
            if found:
                letters = _read_letters(writer, key, config_id)
                if (kept := dead_letters_up_to(letters, seq)) != letters:
                    _write_letters(writer, key, config_id, kept)
                writer.execute(PUT_IN_OUTBOX.format(rows="(?, ?, ?, ?)"), (*_outbox_key(key), holder))
                _delete_if_delivered(writer, key)
            return found

        return await self._access.submit(rewind, *_names(key), config_id, holder)

    async def backlog(self) -> int:
        """How many tasks of all owners have a webhook that is behind."""
        statement = "SELECT count(*) FROM outbox INDEXED BY outbox_by_holder"
        (count,) = await self._access.read_in_thread(lambda reader: reader.execute(statement).fetchone())
        return count

    async def undelivered(
        self,
        *,
        holder: str,
        live: frozenset[str],
        after: TaskKey | Owner | None,
        limit: int,
        owner: Owner | None = None,
    ) -> Sequence[TaskKey]:
        """Tasks in the outbox of `holder`, or of no live worker, of one owner or of all, by tenant, owner and task."""
        return await self._access.read_in_thread(
            lambda reader: _read_undelivered(reader, live - {holder}, after=after, limit=limit, owner=owner)
        )


_OF_TASK = "tenant = ? AND task = ? AND owner = ?"

_MINE = f"""
    {_OF_TASK} AND id = ? AND delivered_seq >= ? AND NOT EXISTS (
        SELECT 1 FROM outbox WHERE tenant = ? AND owner = ? AND task = ? AND holder NOT IN ('', ?)
    )
"""
"""A webhook that was not rewound below a number, and whose task is in the outbox of no other worker."""


def _names(key: TaskKey) -> tuple[str, str, str]:
    return key.owner.tenant, key.task_id, key.owner.name


def _outbox_key(key: TaskKey) -> tuple[str, str, str]:
    return key.owner.tenant, key.owner.name, key.task_id


def _read_webhooks(reader: sqlite3.Connection, sealer: Sealer, key: TaskKey) -> list[Webhook]:
    rows = reader.execute(
        f"""
        SELECT t.agent, {WEBHOOK}
        FROM push_configs AS p CROSS JOIN tasks AS t ON t.tenant = p.tenant AND t.id = p.task
        WHERE p.tenant = ? AND p.task = ? AND p.owner = ? ORDER BY p.id
        """,
        _names(key),
    )
    return [decode_webhook(sealer, key, row) for row in rows]


def _read_letters(writer: sqlite3.Connection, key: TaskKey, config_id: str) -> tuple[DeadLetter, ...]:
    statement = f"SELECT dead_letters FROM push_configs WHERE {_OF_TASK} AND id = ?"
    (text,) = writer.execute(statement, (*_names(key), config_id)).fetchone()
    return read_dead_letters(text)


def _write_letters(writer: sqlite3.Connection, key: TaskKey, config_id: str, letters: tuple[DeadLetter, ...]) -> None:
    statement = f"UPDATE push_configs SET dead_letters = ? WHERE {_OF_TASK} AND id = ?"
    writer.execute(statement, (write_dead_letters(letters), *_names(key), config_id))


def _delete_if_delivered(writer: sqlite3.Connection, key: TaskKey) -> None:
    """Take a task out of the outbox if all its webhooks have caught up."""
    writer.execute(
        """
        DELETE FROM outbox WHERE tenant = ? AND owner = ? AND task = ? AND NOT EXISTS (
            SELECT 1 FROM push_configs AS p CROSS JOIN tasks AS t ON t.tenant = p.tenant AND t.id = p.task
            WHERE p.tenant = outbox.tenant AND p.task = outbox.task AND p.delivered_seq < t.last_seq
        )
        """,
        _outbox_key(key),
    )


def _claim(writer: sqlite3.Connection, key: TaskKey, holder: str, live: frozenset[str]) -> bool:
    where = "tenant = ? AND owner = ? AND task = ?"
    row = writer.execute(f"SELECT holder FROM outbox WHERE {where}", _outbox_key(key)).fetchone()
    if row is None or (row[0] != holder and row[0] in live):
        return False
    if row[0] != holder:
        writer.execute(f"UPDATE outbox SET holder = ? WHERE {where}", (holder, *_outbox_key(key)))
    return True


def _read_undelivered(
    reader: sqlite3.Connection,
    others: frozenset[str],
    *,
    after: TaskKey | Owner | None,
    limit: int,
    owner: Owner | None,
) -> list[TaskKey]:
    conditions, values = "", list[str]()
    if owner is not None:
        conditions += " AND tenant = ? AND owner = ?"
        values += [owner.tenant, owner.name]
    if isinstance(after, Owner):
        conditions += " AND (tenant, owner) > (?, ?)"
        values += [after.tenant, after.name]
    elif after is not None:
        conditions += " AND (tenant, owner, task) > (?, ?, ?)"
        values += _outbox_key(after)
    source = "outbox INDEXED BY outbox_by_holder WHERE"
    statement = f"SELECT tenant, owner, task FROM {source} holder = ? {conditions} ORDER BY tenant, owner, task"
    with one_moment(reader):
        holders = [holder for holder in distinct(reader, "holder", f"{source} TRUE") if holder not in others]
        parts = [(holder, *values) for holder in holders]
        with closing(merged(reader, statement, parts, key=lambda row: row)) as rows:
            return [TaskKey(Owner(tenant, name), task_id) for tenant, name, task_id in islice(rows, limit)]
