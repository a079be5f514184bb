"""What became of messages, in SQLite."""

from __future__ import annotations

import sqlite3
from datetime import datetime

from parley.stores.encoding import decode_message, decode_time, encode_time, require_encodable
from parley.stores.interface import Owner, SendKey, SendRecord
from parley.stores.sqlite.access import SqliteAccess
from parley.stores.sqlite.recent_sends import RecentSends
from parley.stores.sqlite.transaction import encode_send


class SqliteSends:
    """What became of messages."""

    def __init__(self, access: SqliteAccess) -> None:
        self._access = access
        self._recent_sends: RecentSends | None = None

    def open(self, reader: sqlite3.Connection) -> None:
        """Learn which messages were sent lately."""
        self._recent_sends = RecentSends(reader)

    def close(self) -> None:
        """Forget them."""
        self._recent_sends = None

    async def find(self, owner: Owner, send: SendKey, *, since: datetime) -> SendRecord | None:
        """What became of a message that was sent at or after a moment."""
        since_at = encode_time(since)
        require_encodable(owner.tenant, owner.name, send.message_id)
        if self._recent_sends is not None and self._recent_sends.is_new(owner, send, since_at):
            return None
        return self._access.look(lambda reader: _read_send(reader, owner, send, since_at))

    async def put(self, owner: Owner, send: SendKey, record: SendRecord) -> None:
        """Remember a message that created no task."""
        row = encode_send(owner, send, record)
        self.note(owner, send, record)
        await self._access.execute("INSERT OR REPLACE INTO sends VALUES (?, ?, ?, ?, ?, ?, ?)", *row)

    def note(self, owner: Owner, send: SendKey, record: SendRecord) -> None:
        """Know of a message that is about to be written."""
        if self._recent_sends is not None:
            self._recent_sends.note(owner, send, encode_time(record.sent_at))

    async def delete_before(self, moment: datetime) -> None:
        """Forget messages that nobody may repeat any more."""
        await self._access.execute("DELETE FROM sends WHERE sent_at < ?", encode_time(moment))


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
