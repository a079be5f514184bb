"""How messages and webhooks become rows, and rows become what they were."""

from __future__ import annotations

import sqlite3
from typing import TypeAlias

from parley.protocol.push import PushConfig
from parley.protocol.versions import Version
from parley.stores.encoding import decode_message, decode_time, encode, encode_time, require_encodable
from parley.stores.interface import Owner, SendKey, SendRecord, TaskKey

Value: TypeAlias = str | int | bytes | None
"""What a column holds."""

PUT_SEND = "INSERT OR REPLACE INTO sends VALUES {rows}"

PUT_WEBHOOK = """
    INSERT INTO push_configs (tenant, task, id, owner, config, version, delivered_seq) VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (tenant, task, id) DO UPDATE SET config = excluded.config, version = excluded.version
    """
"""Keeps a webhook; if it replaces one with its id, it keeps what was delivered to that one."""

PUT_IN_OUTBOX = "INSERT OR IGNORE INTO outbox (tenant, owner, task, holder) VALUES {rows}"
"""Notes that the webhooks of tasks are behind; a task that is in the outbox of a worker stays there."""


def encode_send(owner: Owner, send: SendKey, record: SendRecord) -> tuple[Value, ...]:
    """What became of a message, as a row of `sends`; its first four columns are the key.

    Raises:
        StoreError: it holds something that cannot be kept.
    """
    require_encodable(owner.tenant, owner.name, send.message_id, record.task_id or "", record.holder)
    reply = encode(record.reply) if record.reply is not None else None
    return (
        *(owner.tenant, owner.name, send.message_id, send.digest),
        *(encode_time(record.sent_at), record.task_id, reply, record.holder),
    )


def decode_send(sent_at: int, task_id: str | None, reply: str | None, holder: str) -> SendRecord:
    """What became of a message, from the columns after the key."""
    return SendRecord(decode_time(sent_at), task_id, decode_message(reply) if reply is not None else None, holder)


def read_send(connection: sqlite3.Connection, key: tuple[Value, ...], since: int) -> SendRecord | None:
    """What became of a message that was sent at or after a moment."""
    row = connection.execute(
        """
        SELECT sent_at, task, reply, holder FROM sends
        WHERE tenant = ? AND owner = ? AND message_id = ? AND digest = ? AND sent_at >= ?
        """,
        (*key, since),
    ).fetchone()
    return decode_send(*row) if row is not None else None


def encode_webhook(key: TaskKey, config: PushConfig, version: Version, after: int) -> tuple[Value, ...]:
    """A webhook that gets the events after a number, as a row of `push_configs`.

    Raises:
        StoreError: it holds something that cannot be kept.
    """
    owner, config_id = key.owner, config.id or ""
    require_encodable(owner.tenant, owner.name, key.task_id, config_id)
    return (owner.tenant, key.task_id, config_id, owner.name, encode(config), version.value, after)
