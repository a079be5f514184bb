"""What a database of PostgreSQL keeps of an owner."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg

from parley.stores.interface import ContextKey, Owner, SendKey, SendRecord
from parley.stores.postgres.access import PostgresAccess
from parley.stores.postgres.jobs import Tables
from parley.stores.postgres.statements import load_statements
from parley.stores.rows import decode_send

_STATEMENTS = load_statements("owner_data")
_CONTEXTS = load_statements("contexts")


class PostgresOwnerData:
    """Context values and sends by owner."""

    def __init__(self, access: PostgresAccess) -> None:
        self._access = access

    async def owners(self, *, after: Owner | None = None, limit: int) -> Sequence[Owner]:
        """Owners of tasks, context values or sends, by tenant and name."""
        since = (after.tenant, after.name) if after is not None else (None, None)
        rows = await self._access.fetch(_STATEMENTS["owners"], *since, limit)
        return [Owner(tenant, name) for tenant, name in rows]

    async def contexts(
        self, owner: Owner, *, agent: str | None = None, context_id: str | None = None
    ) -> Sequence[ContextKey]:
        """The contexts of an owner that hold values."""
        rows = await self._access.fetch(_STATEMENTS["contexts"], owner.tenant, owner.name, agent, context_id)
        return [ContextKey(owner, of_agent, context) for of_agent, context in rows]

    async def delete_context(self, context: ContextKey) -> int:
        """Delete all values of a context; return how many there were."""
        columns = (context.owner.tenant, context.owner.name, context.agent, context.context_id)

        async def delete(writer: asyncpg.Connection) -> int:
            await writer.fetchval(_CONTEXTS["lock"], *columns)
            return await writer.fetchval(_STATEMENTS["delete_context"], *columns)

        return await self._access.submit(delete, *columns, tables=Tables.CONTEXTS)

    async def sends(
        self, owner: Owner, *, after: SendKey | None = None, limit: int
    ) -> Sequence[tuple[SendKey, SendRecord]]:
        """What became of an owner's messages, by message id and digest."""
        since = (after.message_id, after.digest) if after is not None else (None, None)
        rows = await self._access.fetch(_STATEMENTS["sends"], owner.tenant, owner.name, *since, limit)
        return [(SendKey(message_id, digest), decode_send(*record)) for message_id, digest, *record in rows]

    async def delete_sends(self, owner: Owner, sends: Sequence[SendKey]) -> int:
        """Delete the records of messages; return how many there were."""
        ids = [send.message_id for send in sends]
        digests = [send.digest for send in sends]
        return await self._access.fetch_value(_STATEMENTS["delete_sends"], owner.tenant, owner.name, ids, digests)

    async def erase(self) -> bool:
        """Nothing: the database reuses the space of deleted rows by its own VACUUM."""
        return True
