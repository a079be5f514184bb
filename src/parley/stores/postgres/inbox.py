"""What waits for the holders of tasks, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg

from parley.sealed.sealer import Sealer
from parley.stores.encoding import encode
from parley.stores.interface import ConflictError, InboxItem
from parley.stores.postgres.access import PostgresAccess
from parley.stores.postgres.statements import load_statements
from parley.stores.postgres.tasks import lock_task
from parley.stores.rows import decode_items
from parley.stores.secret_fields import seal_item
from parley.stores.unreadable_rows import UnreadableRows

_STATEMENTS = load_statements("inbox")


class PostgresInbox:
    """What waits for the holders of tasks."""

    def __init__(self, access: PostgresAccess, sealer: Sealer) -> None:
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

        async def post(writer: asyncpg.Connection) -> None:
            locked = await lock_task(writer, item.key)
            if locked is None or not locked[2]:
                raise ConflictError
            await writer.execute(_STATEMENTS["post"], *row)

        await self._access.submit(post, *row[:4], locks=item.key)

    async def items(self, holder: str) -> Sequence[InboxItem]:
        """The items for tasks that a worker holds now, oldest first."""
        rows = await self._access.fetch(_STATEMENTS["items"], holder)
        return decode_items(self._sealer, self._unreadable, [item for (item,) in rows])

    async def has(self, item: InboxItem) -> bool:
        """Whether an item still waits."""
        return await self._access.fetch_value(_STATEMENTS["has"], *_names(item)) is not None

    async def withdraw(self, item: InboxItem) -> bool:
        """Delete an item; False if it was taken, or withdrawn before."""

        async def withdraw(writer: asyncpg.Connection) -> bool:
            return await writer.fetchval(_STATEMENTS["withdraw"], *_names(item)) is not None

        return await self._access.submit(withdraw, *_names(item))


def _names(item: InboxItem) -> tuple[str, str, str, str]:
    return item.key.owner.tenant, item.key.task_id, item.id, item.key.owner.name
