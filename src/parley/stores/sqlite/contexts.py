"""The values of contexts in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime

from parley.protocol.jsonvalue import JsonValue
from parley.stores.encoding import decode_value, encode, encode_time
from parley.stores.interface import CONVERSATION, ContextKey
from parley.stores.sqlite.access import SqliteAccess


class SqliteContexts:
    """What agents keep for conversations."""

    def __init__(self, access: SqliteAccess) -> None:
        self._access = access

    async def put(self, context: ContextKey, name: str, value: JsonValue, *, at: datetime) -> None:
        """Keep a value for a context; None deletes it."""
        key = (*_context_columns(context), name)
        if value is None:
            await self._access.execute(f"DELETE FROM context_values WHERE {_OF_CONTEXT} AND name = ?", *key)
        else:
            await self._access.execute(
                "INSERT OR REPLACE INTO context_values VALUES (?, ?, ?, ?, ?, ?, ?)",
                *(*key, encode(value), encode_time(at)),
            )

    async def get(self, context: ContextKey) -> dict[str, JsonValue]:
        """All values kept for a context, except for conversations."""
        return self._access.read_now(lambda reader: _read_values(reader, context))

    async def conversations(self, context: ContextKey) -> list[str]:
        """The names of a context's conversations."""
        return self._access.read_now(lambda reader: _read_conversations(reader, context))

    async def value(self, context: ContextKey, name: str) -> JsonValue:
        """One value of a context. It may be large, so it is read in a thread."""
        return await self._access.read_in_thread(lambda reader: _read_value(reader, context, name))

    async def delete_unmarked(self, context: ContextKey, name: str, *, marks: str) -> None:
        """Delete a value of a context, unless a mark names it."""
        columns = _context_columns(context)
        await self._access.execute(
            f"""
            DELETE FROM context_values WHERE {_OF_CONTEXT} AND name = ? AND NOT EXISTS (
                SELECT 1 FROM context_values WHERE {_OF_CONTEXT} AND substr(name, 1, ?) = ? AND value = ?
            )
            """,
            *(*columns, name, *columns, len(marks), marks, encode(name)),
        )

    async def delete_unused(
        self, *, before: datetime, limit: int, tenant: str | None = None, agent: str | None = None
    ) -> int:
        """Delete the values of contexts that have no task left and were last written before a moment."""
        written_before = encode_time(before)
        contexts = await self._access.read_in_thread(
            lambda reader: _read_unused(reader, written_before, limit, tenant, agent)
        )
        return (
            await self._access.submit(lambda writer: _delete_unused(writer, contexts, written_before))
            if contexts
            else 0
        )


_OF_CONTEXT = "tenant = ? AND owner = ? AND agent = ? AND context = ?"

_IS_CONVERSATION = f"name GLOB '{CONVERSATION}*'"


def _context_columns(context: ContextKey) -> tuple[str, str, str, str]:
    return context.owner.tenant, context.owner.name, context.agent, context.context_id


def _read_values(reader: sqlite3.Connection, context: ContextKey) -> dict[str, JsonValue]:
    rows = reader.execute(
        f"SELECT name, value FROM context_values WHERE {_OF_CONTEXT} AND NOT {_IS_CONVERSATION}",
        _context_columns(context),
    ).fetchall()
    return {name: decode_value(value) for name, value in rows}


def _read_conversations(reader: sqlite3.Connection, context: ContextKey) -> list[str]:
    rows = reader.execute(
        f"SELECT name FROM context_values WHERE {_OF_CONTEXT} AND {_IS_CONVERSATION} ORDER BY name",
        _context_columns(context),
    ).fetchall()
    return [name for (name,) in rows]


def _read_value(reader: sqlite3.Connection, context: ContextKey, name: str) -> JsonValue:
    row = reader.execute(
        f"SELECT value FROM context_values WHERE {_OF_CONTEXT} AND name = ?", (*_context_columns(context), name)
    ).fetchone()
    return None if row is None else decode_value(row[0])


def _read_unused(
    reader: sqlite3.Connection, written_before: int, limit: int, tenant: str | None, agent: str | None
) -> list[tuple[str, str, str, str]]:
    """Contexts whose values may be deleted."""
    return reader.execute(
        f"""
        SELECT DISTINCT tenant, owner, agent, context FROM context_values AS old INDEXED BY context_values_by_time
        WHERE written_at < ? AND (? IS NULL OR tenant = ?) AND (? IS NULL OR agent = ?) AND {_NOT_IN_USE} LIMIT ?
        """,
        (written_before, tenant, tenant, agent, agent, written_before, limit),
    ).fetchall()


_NOT_IN_USE = """
    NOT EXISTS (
        SELECT 1 FROM context_values AS new
        WHERE new.tenant = old.tenant AND new.owner = old.owner AND new.agent = old.agent
            AND new.context = old.context AND new.written_at >= ?
    ) AND NOT EXISTS (
        SELECT 1 FROM tasks INDEXED BY tasks_by_context
        WHERE tasks.tenant = old.tenant AND tasks.owner = old.owner AND tasks.agent = old.agent
            AND tasks.context = old.context
    )
"""


def _delete_unused(
    writer: sqlite3.Connection, contexts: Sequence[tuple[str, str, str, str]], written_before: int
) -> int:
    """Delete the values of those contexts that are still not in use."""
    deleted_contexts = 0
    for context in contexts:
        deleted = writer.execute(
            f"DELETE FROM context_values AS old WHERE {_OF_CONTEXT} AND {_NOT_IN_USE}", (*context, written_before)
        )
        deleted_contexts += deleted.rowcount > 0
    return deleted_contexts
