"""The webhooks of tasks in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from parley.protocol.push import PushConfig
from parley.protocol.versions import Version
from parley.stores.encoding import decode_push_config
from parley.stores.interface import ConflictError, Owner, TaskKey, Webhook
from parley.stores.sqlite.access import SqliteAccess
from parley.stores.sqlite.tasks import read_head
from parley.stores.sqlite.transaction import PUT_WEBHOOK, encode_webhook


class SqliteOutbox:
    """Webhooks, and which of them are behind."""

    def __init__(self, access: SqliteAccess) -> None:
        self._access = access

    async def put(
        self, key: TaskKey, config: PushConfig, *, version: Version = Version.V1_0, after: int | None = None
    ) -> None:
        """Keep a webhook of a task, in place of an earlier one with its id, and in its place.

        Raises:
            ConflictError: this owner has no such task, or has it no longer.
        """
        row = encode_webhook(key, config, version, 0)

        def put(writer: sqlite3.Connection) -> None:
            head = read_head(writer, key)
            if head is None:
                raise ConflictError
            delivered_seq = head.last_seq if after is None else min(after, head.last_seq)
            writer.execute(PUT_WEBHOOK, (*row[:-1], delivered_seq))

        await self._access.submit(put)

    async def configs(self, key: TaskKey) -> Sequence[PushConfig]:
        """A task's webhooks, by id."""
        return self._access.look(lambda reader: _read_push_configs(reader, key))

    async def delete(self, key: TaskKey, config_id: str) -> None:
        """Forget a webhook, if there is one."""
        await self._access.execute(
            "DELETE FROM push_configs WHERE tenant = ? AND task = ? AND id = ? AND owner = ?",
            *(key.owner.tenant, key.task_id, config_id, key.owner.name),
        )

    async def webhooks(self, key: TaskKey) -> Sequence[Webhook]:
        """A task's webhooks with their places, by id."""
        return self._access.look(lambda reader: _read_webhooks(reader, key))

    async def mark_delivered(self, key: TaskKey, config_id: str, seq: int) -> bool:
        """Note that a webhook has been told of everything up to a number; whether it is still there."""
        names = (key.owner.tenant, key.task_id, config_id, key.owner.name)
        return await self._access.submit(lambda writer: _mark_delivered(writer, names, seq), *names)

    async def undelivered(
        self, *, after: Webhook | Owner | None, limit: int, owner: Owner | None = None
    ) -> Sequence[Webhook]:
        """Webhooks of one owner or of all that are behind their tasks, by tenant, owner, task and id."""
        return await self._access.read(lambda reader: _read_undelivered(reader, after, limit, owner))


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
