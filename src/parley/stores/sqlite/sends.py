"""What became of messages, in SQLite."""

from __future__ import annotations

import sqlite3
from datetime import datetime

from parley.stores.encoding import encode_time, require_encodable
from parley.stores.interface import Owner, RepeatedSendError, SendKey, SendRecord, Write
from parley.stores.rows import encode_send
from parley.stores.sqlite.access import SqliteAccess
from parley.stores.sqlite.recent_sends import RecentSends
from parley.stores.sqlite.rows import PUT_SEND, read_send

DELETED_AT_ONCE = 1_000
"""Old messages that one transaction deletes, so that other writes, also of other processes, get their turn."""

_DIGESTS = "SELECT digest FROM sends WHERE tenant = ? AND owner = ? AND message_id = ? AND sent_at >= ?"


class SqliteSends:
    """What became of messages."""

    def __init__(self, access: SqliteAccess) -> None:
        self._access = access
        self._recent_sends: RecentSends | None = None

    def open(self, reader: sqlite3.Connection) -> None:
        """Learn which messages were sent lately: only where no other process can write."""
        self._recent_sends = RecentSends(reader)

    def close(self) -> None:
        """Drop what is known of them."""
        self._recent_sends = None

    async def find(self, owner: Owner, send: SendKey, *, since: datetime) -> SendRecord | None:
        """What became of a message that was sent at or after a moment."""
        since_at = encode_time(since)
        require_encodable(owner.tenant, owner.name, send.message_id)
        if self._is_new(owner, send, since_at):
            return None
        key = (owner.tenant, owner.name, send.message_id, send.digest)
        return self._access.read_now(lambda reader: read_send(reader, key, since_at))

    async def digests(self, owner: Owner, message_id: str, *, since: datetime) -> frozenset[bytes]:
        """The contents with which a message id was sent at or after a moment."""
        require_encodable(owner.tenant, owner.name, message_id)
        values = (owner.tenant, owner.name, message_id, encode_time(since))
        return self._access.read_now(lambda reader: frozenset(row[0] for row in reader.execute(_DIGESTS, values)))

    async def put(
        self, owner: Owner, send: SendKey, record: SendRecord, *, since: datetime | None = None, holder: str = ""
    ) -> None:
        """Keep the record of a message that created no task; with `since`, unless it is a repeat.

        Raises:
            RepeatedSendError: there is a record from that moment on, and `holder` does not work on it.
        """
        row = encode_send(owner, send, record)
        since_at = encode_time(since) if since is not None else None
        self._note(owner, send, record)

        def put(writer: sqlite3.Connection) -> None:
            found = read_send(writer, row[:4], since_at) if since_at is not None else None
            if found is not None and not found.is_in_work(holder):
                raise RepeatedSendError(found)
            writer.execute(PUT_SEND.format(rows="(?, ?, ?, ?, ?, ?, ?, ?)"), row)

        await self._access.submit(put)

    def note(self, write: Write) -> datetime | None:
        """Know of the messages of a write, which is about to come; from when on they must be looked for in the file."""
        since, owner = write.sends_since, write.key.owner
        if since is not None and all(self._is_new(owner, send, encode_time(since)) for send, _ in write.sends):
            since = None
        for send, record in write.sends:
            self._note(owner, send, record)
        return since

    def _note(self, owner: Owner, send: SendKey, record: SendRecord) -> None:
        if self._recent_sends is not None:
            self._recent_sends.note(owner, send, encode_time(record.sent_at))

    def _is_new(self, owner: Owner, send: SendKey, since: int) -> bool:
        return self._recent_sends is not None and self._recent_sends.is_new(owner, send, since)

    async def delete_before(self, moment: datetime) -> None:
        """Delete the records of messages that were sent before a moment."""
        while await self._access.submit(lambda writer: _delete_before(writer, encode_time(moment))) == DELETED_AT_ONCE:
            pass


def _delete_before(writer: sqlite3.Connection, sent_before: int) -> int:
    oldest = "SELECT rowid FROM sends INDEXED BY sends_by_time WHERE sent_at < ? ORDER BY sent_at LIMIT ?"
    return writer.execute(f"DELETE FROM sends WHERE rowid IN ({oldest})", (sent_before, DELETED_AT_ONCE)).rowcount
