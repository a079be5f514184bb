"""The values of contexts in PostgreSQL."""

from __future__ import annotations

import asyncio
from datetime import datetime

import asyncpg

from parley.protocol.jsonvalue import JsonValue
from parley.stores.encoding import decode_value, encode, encode_time
from parley.stores.interface import CONVERSATION, ContextKey
from parley.stores.postgres.access import PostgresAccess
from parley.stores.postgres.jobs import Tables
from parley.stores.postgres.statements import load_statements
from parley.stores.postgres.tasks import SMALL_TASK

_STATEMENTS = load_statements("contexts")


class PostgresContexts:
    """What agents keep for conversations."""

    def __init__(self, access: PostgresAccess) -> None:
        self._access = access

    async def put(self, context: ContextKey, name: str, value: JsonValue, *, at: datetime) -> None:
        """Keep a value for a context; None deletes it."""
        text = encode(value) if value is not None else None
        await self._change(context, name, "put" if text is not None else "delete", text, encode_time(at))

    async def get(self, context: ContextKey) -> dict[str, JsonValue]:
        """All values kept for a context, except for conversations."""
        rows = await self._access.fetch(_STATEMENTS["get"], *_columns(context), CONVERSATION)
        return {name: decode_value(value) for name, value in rows}

    async def conversations(self, context: ContextKey) -> list[str]:
        """The names of a context's conversations."""
        rows = await self._access.fetch(_STATEMENTS["names"], *_columns(context), CONVERSATION)
        return [name for (name,) in rows]

    async def value(self, context: ContextKey, name: str) -> JsonValue:
        """One value of a context."""
        text = await self._access.fetch_value(_STATEMENTS["value"], *_columns(context), name)
        if text is None:
            return None
        return decode_value(text) if len(text) <= SMALL_TASK else await asyncio.to_thread(decode_value, text)

    async def delete_unmarked(self, context: ContextKey, name: str, *, marks: str) -> None:
        """Delete a value of a context, unless a mark names it."""
        await self._change(context, name, "delete_unmarked", marks, encode(name))

    async def delete_unused(
        self, *, before: datetime, limit: int, tenant: str | None = None, agent: str | None = None
    ) -> int:
        """Delete the values of contexts that have no task left and were last written before a moment."""
        return await self._access.delete_old(_STATEMENTS["delete_unused"], encode_time(before), limit, tenant, agent)

    async def _change(self, context: ContextKey, name: str, statement: str, *values: str | int | None) -> None:
        columns = _columns(context)
        wanted = (*columns, name) if statement == "delete" else (*columns, name, *values)

        async def change(writer: asyncpg.Connection) -> None:
            await writer.fetchval(_STATEMENTS["lock"], *columns)
            await writer.execute(_STATEMENTS[statement], *wanted)

        await self._access.submit(change, *columns, name, tables=Tables.CONTEXTS)


def _columns(context: ContextKey) -> tuple[str, str, str, str]:
    return context.owner.tenant, context.owner.name, context.agent, context.context_id
