"""How messages and webhooks are kept in SQLite."""

from __future__ import annotations

import sqlite3

from parley.stores.interface import SendRecord
from parley.stores.rows import Value, decode_send

PUT_SEND = "INSERT OR REPLACE INTO sends VALUES {rows}"

PUT_WEBHOOK = """
    INSERT INTO push_configs (tenant, task, id, owner, config, version, delivered_seq) VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (tenant, task, id) DO UPDATE SET config = excluded.config, version = excluded.version, failure = NULL
    """
"""Keeps a webhook; if it replaces one with its id, it keeps what was delivered to that one, and fails no more."""

PUT_IN_OUTBOX = "INSERT OR IGNORE INTO outbox (tenant, owner, task, holder) VALUES {rows}"
"""Notes that the webhooks of tasks are behind; a task that is in the outbox of a worker stays there."""


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
