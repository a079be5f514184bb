"""What waits for the holders of tasks, in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from parley.sealed.sealer import Sealer
from parley.stores.encoding import encode
from parley.stores.interface import ConflictError, InboxItem
from parley.stores.rows import decode_items
from parley.stores.secret_fields import seal_item
from parley.stores.sqlite.access import SqliteAccess
from parley.stores.sqlite.tasks import read_head
from parley.stores.unreadable_rows import UnreadableRows


class SqliteInbox:
    """What waits for the holders of tasks."""

    def __init__(self, access: SqliteAccess, sealer: Sealer) -> None:
        self._access = access
        self._sealer = sealer
        self._unreadable = UnreadableRows("inbox")

    async def post(self, item: InboxItem) -> None:
        """Leave an item for the holder of a task.

        Raises:
            ConflictError: no worker holds the task.
        """
        owner = item.key.owner
        row = (owner.tenant, owner.name, item.key.task_id, item.id, encode(seal_item(self._sealer, item)))

        def post(writer: sqlite3.Connection) -> None:
            head = read_head(writer, item.key)
            if head is None or not head.holder:
                raise ConflictError
            writer.execute("INSERT OR IGNORE INTO inbox (tenant, owner, task, id, item) VALUES (?, ?, ?, ?, ?)", row)

        await self._access.submit(post)

    async def items(self, holder: str) -> Sequence[InboxItem]:
        """The items for tasks that a worker holds now, oldest first."""
        if self._access.read_now(lambda reader: reader.execute("SELECT 1 FROM inbox LIMIT 1").fetchone()) is None:
            return ()
        return await self._access.read_in_thread(
            lambda reader: decode_items(self._sealer, self._unreadable, _read_items(reader, holder))
        )

    async def has(self, item: InboxItem) -> bool:
        """Whether an item still waits."""
        return self._access.read_now(
            lambda reader: reader.execute(f"SELECT 1 FROM inbox WHERE {_ITEM}", _names(item)).fetchone() is not None
        )

    async def withdraw(self, item: InboxItem) -> bool:
        """Delete an item; False if it was taken, or withdrawn before."""
        return await self._access.submit(
            lambda writer: writer.execute(f"DELETE FROM inbox WHERE {_ITEM}", _names(item)).rowcount > 0
        )


_ITEM = "tenant = ? AND task = ? AND id = ? AND owner = ?"


def _names(item: InboxItem) -> tuple[str, str, str, str]:
    return item.key.owner.tenant, item.key.task_id, item.id, item.key.owner.name


def _read_items(reader: sqlite3.Connection, holder: str) -> list[str]:
    rows = reader.execute(
        """
        SELECT item FROM inbox CROSS JOIN tasks ON tasks.tenant = inbox.tenant AND tasks.id = inbox.task
        WHERE holder = ? ORDER BY inbox.number
        """,
        (holder,),
    )
    return [item for (item,) in rows]
