"""What a SQLite file keeps of an owner, and how deleted bytes leave the file.

The writer runs with `secure_delete`: what it deletes is overwritten with zeros in the same transaction. Copies of the
pages from before remain in the WAL until a checkpoint has moved all of it and truncated it, which `erase` does.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from parley.stores.interface import ContextKey, Owner, SendKey, SendRecord
from parley.stores.rows import decode_send
from parley.stores.sqlite.access import SqliteAccess

CHECKPOINT_SECONDS = 5.0
"""How long a checkpoint waits for readers of older pages. Our own reads take less."""


class SqliteOwnerData:
    """Context values and sends by owner."""

    def __init__(self, access: SqliteAccess) -> None:
        self._access = access

    async def owners(self, *, after: Owner | None = None, limit: int) -> Sequence[Owner]:
        """Owners of tasks, context values or sends, by tenant and name."""
        since = (after.tenant, after.name) if after is not None else ("", "")
        compared = ">" if after is not None else ">="
        parts = [
            f"SELECT DISTINCT tenant, owner FROM {table} WHERE (tenant, owner) {compared} (?, ?)"
            for table in ("tasks", "context_values", "sends")
        ]
        statement = f"{' UNION '.join(parts)} ORDER BY 1, 2 LIMIT ?"
        rows = await self._access.read_in_thread(
            lambda reader: reader.execute(statement, (*since * len(parts), limit)).fetchall()
        )
        return [Owner(tenant, name) for tenant, name in rows]

    async def contexts(
        self, owner: Owner, *, agent: str | None = None, context_id: str | None = None
    ) -> Sequence[ContextKey]:
        """The contexts of an owner that hold values."""
        rows = await self._access.read_in_thread(lambda reader: _read_contexts(reader, owner, agent, context_id))
        return [ContextKey(owner, *row) for row in rows]

    async def delete_context(self, context: ContextKey) -> int:
        """Delete all values of a context; how many there were."""
        columns = (context.owner.tenant, context.owner.name, context.agent, context.context_id)
        statement = "DELETE FROM context_values WHERE tenant = ? AND owner = ? AND agent = ? AND context = ?"
        return await self._access.submit(lambda writer: writer.execute(statement, columns).rowcount, *columns)

    async def sends(
        self, owner: Owner, *, after: SendKey | None = None, limit: int
    ) -> Sequence[tuple[SendKey, SendRecord]]:
        """What became of an owner's messages, by message id and digest."""
        return await self._access.read_in_thread(lambda reader: _read_sends(reader, owner, after, limit))

    async def delete_sends(self, owner: Owner, sends: Sequence[SendKey]) -> int:
        """Delete the records of messages; how many there were."""
        statement = "DELETE FROM sends WHERE tenant = ? AND owner = ? AND message_id = ? AND digest = ?"
        rows = [(owner.tenant, owner.name, send.message_id, send.digest) for send in sends]
        return await self._access.submit(
            lambda writer: sum(writer.execute(statement, row).rowcount for row in rows),
            owner.tenant,
            owner.name,
            *(send.message_id for send in sends),
        )

    async def erase(self) -> bool:
        """Move the WAL into the file and truncate it; False if a reader of older pages kept it from that."""
        return await self._access.read_in_thread(self._checkpoint)

    def _checkpoint(self, _: sqlite3.Connection) -> bool:
        # A connection of its own: a checkpoint cannot run inside the writer's transaction, and readers may not write.
        connection = sqlite3.connect(self._access.path, timeout=CHECKPOINT_SECONDS, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous = FULL")
            (outcome,) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            connection.close()
        return outcome[0] == 0


def _read_contexts(
    reader: sqlite3.Connection, owner: Owner, agent: str | None, context_id: str | None
) -> list[tuple[str, str]]:
    return reader.execute(
        """
        SELECT DISTINCT agent, context FROM context_values
        WHERE tenant = ? AND owner = ? AND (? IS NULL OR agent = ?) AND (? IS NULL OR context = ?)
        ORDER BY agent, context
        """,
        (owner.tenant, owner.name, agent, agent, context_id, context_id),
    ).fetchall()


def _read_sends(
    reader: sqlite3.Connection, owner: Owner, after: SendKey | None, limit: int
) -> list[tuple[SendKey, SendRecord]]:
    since = (after.message_id, after.digest) if after is not None else ("", b"")
    rows = reader.execute(
        """
        SELECT message_id, digest, sent_at, task, reply, holder FROM sends
        WHERE tenant = ? AND owner = ? AND (message_id, digest) > (?, ?)
        ORDER BY message_id, digest LIMIT ?
        """,
        (owner.tenant, owner.name, *since, limit),
    )
    return [(SendKey(message_id, digest), decode_send(*record)) for message_id, digest, *record in rows]
