"""The webhooks of tasks in PostgreSQL, and which of them are behind.

`push_configs` holds the webhooks. A task has a row in `outbox` if, and only if, one of its webhooks is behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asyncpg

from parley.protocol.push import PushConfig
from parley.protocol.versions import Version
from parley.sealed.sealer import Sealer
from parley.stores.encoding import encode
from parley.stores.interface import ConflictError, DeadLetter, DeliveryFailure, Owner, TaskKey, Webhook
from parley.stores.interface.delivery_state import add_dead_letter, dead_letters_up_to
from parley.stores.postgres.access import PostgresAccess
from parley.stores.postgres.statements import load_statements
from parley.stores.postgres.tasks import lock_task
from parley.stores.rows import decode_webhook, encode_webhook, read_dead_letters, write_dead_letters

_STATEMENTS = load_statements("outbox")


class PostgresOutbox:
    """Webhooks, and which of them are behind."""

    def __init__(self, access: PostgresAccess, sealer: Sealer) -> None:
        self._access = access
        self._sealer = sealer

    async def put(
        self,
        key: TaskKey,
        config: PushConfig,
        *,
        version: Version = Version.V1_0,
        after: int | None = None,
        holder: str = "",
    ) -> None:
        """Keep a webhook of a task; if it replaces one with its id, it keeps what was delivered to that one.

        Raises:
            ConflictError: this owner has no such task, or has it no longer.
        """
        row = encode_webhook(self._sealer, key, config, version, 0)

        async def put(writer: asyncpg.Connection) -> None:
            locked = await lock_task(writer, key)
            if locked is None:
                raise ConflictError
            last_seq = locked[1]
            delivered_seq = last_seq if after is None else min(after, last_seq)
            await writer.execute(_STATEMENTS["put"], *row[:-1], delivered_seq)
            await writer.execute(_STATEMENTS["put_behind"], *_outbox_key(key), holder, last_seq)

        await self._access.submit(put, *_names(key), config.id or "", holder, locks=key)

    async def configs(self, key: TaskKey) -> Sequence[PushConfig]:
        """A task's webhooks, by id."""
        return [webhook.config for webhook in await self.webhooks(key)]

    async def delete(self, key: TaskKey, config_id: str) -> None:
        """Delete a webhook, if there is one."""

        async def delete(writer: asyncpg.Connection) -> None:
            locked = await lock_task(writer, key)
            if locked is not None:
                await writer.execute(_STATEMENTS["delete"], *_names(key), config_id)
                await writer.execute(_STATEMENTS["note_deletion"], *_names(key), locked[1])

        await self._access.submit(delete, *_names(key), config_id, locks=key)

    async def webhooks(self, key: TaskKey) -> Sequence[Webhook]:
        """A task's webhooks with what was delivered to them, by id."""
        rows = await self._access.fetch(_STATEMENTS["webhooks"], *_names(key))
        return [decode_webhook(self._sealer, key, row) for row in rows]

    async def claim(self, keys: Sequence[TaskKey], *, holder: str, live: frozenset[str]) -> Sequence[TaskKey]:
        """Put tasks that are in the outbox of no live worker into that of `holder`; return those that are in it now."""
        columns = [list(column) for column in zip(*map(_outbox_key, keys), strict=True)] or [[], [], []]

        async def claim(writer: asyncpg.Connection) -> list[TaskKey]:
            rows = await writer.fetch(_STATEMENTS["claim"], *columns, holder, list(live))
            mine = {(tenant, owner, task) for tenant, owner, task in rows}
            return [key for key in keys if _outbox_key(key) in mine]

        return await self._access.submit(claim, holder, *[name for column in columns for name in column], *live)

    async def mark_delivered(
        self,
        key: TaskKey,
        config_id: str,
        seq: int,
        *,
        holder: str,
        begun_after: int = 0,
        dead_letter: DeadLetter | None = None,
    ) -> bool:
        """Note that all events up to a number were delivered to a webhook; False if the caller must stop."""
        values = (*_names(key), config_id, seq, holder, begun_after)

        async def mark(writer: asyncpg.Connection) -> bool:
            is_marked = await writer.fetchval(_STATEMENTS["mark_delivered"], *values) > 0
            if is_marked and dead_letter is not None:
                letters = add_dead_letter(await _read_letters(writer, key, config_id), dead_letter)
                await _write_letters(writer, key, config_id, letters)
            return is_marked

        return await self._access.submit(mark, *_names(key), config_id, holder, locks=key)

    async def note_failure(
        self, key: TaskKey, config_id: str, failure: DeliveryFailure, *, holder: str, begun_after: int = 0
    ) -> bool:
        """Keep the failure of a webhook; False if the caller must stop."""
        values = (*_names(key), config_id, encode(failure), holder, begun_after)

        async def note(writer: asyncpg.Connection) -> bool:
            return await writer.fetchval(_STATEMENTS["note_failure"], *values) > 0

        return await self._access.submit(note, *_names(key), config_id, holder, locks=key)

    async def failing(
        self, owner: Owner, *, agent: str | None = None, after: tuple[str, str] | None = None, limit: int
    ) -> Sequence[Webhook]:
        """An owner's webhooks that have a failure or dead letters, by task and id."""
        task, config_id = after or (None, None)
        values = (owner.tenant, owner.name, agent, task, config_id, limit)
        rows = await self._access.fetch(_STATEMENTS["failing"], *values)
        return [decode_webhook(self._sealer, TaskKey(owner, task), row) for task, *row in rows]

    async def rewind(self, key: TaskKey, config_id: str, seq: int, *, holder: str) -> bool:
        """Let a webhook get the events after a number again, if they were delivered. False if it is not there."""

        async def rewind(writer: asyncpg.Connection) -> bool:
            locked = await lock_task(writer, key)
            if locked is None or not await writer.fetchval(_STATEMENTS["rewind"], *_names(key), config_id, seq):
                return False
            letters = await _read_letters(writer, key, config_id)
            if (kept := dead_letters_up_to(letters, seq)) != letters:
                await _write_letters(writer, key, config_id, kept)
            await writer.execute(_STATEMENTS["put_behind"], *_outbox_key(key), holder, locked[1])
            return True

        return await self._access.submit(rewind, *_names(key), config_id, holder, locks=key)

    async def backlog(self) -> int:
        """How many tasks of all owners have a webhook that is behind."""
        return await self._access.fetch_value(_STATEMENTS["backlog"])

    async def undelivered(
        self,
        *,
        holder: str,
        live: frozenset[str],
        after: TaskKey | Owner | None,
        limit: int,
        owner: Owner | None = None,
    ) -> Sequence[TaskKey]:
        """Tasks in the outbox of `holder`, or of no live worker, of one owner or of all, by tenant, owner and task."""
        conditions, values = "", list[Any]([list(live - {holder}), limit])
        if owner is not None:
            conditions += " AND tenant = $3 AND owner = $4"
            values += [owner.tenant, owner.name]
        first = len(values) + 1
        if isinstance(after, Owner):
            conditions += f" AND (tenant, owner) > (${first}, ${first + 1})"
            values += [after.tenant, after.name]
        elif after is not None:
            conditions += f" AND (tenant, owner, task) > (${first}, ${first + 1}, ${first + 2})"
            values += _outbox_key(after)
        rows = await self._access.fetch(_STATEMENTS["undelivered"].replace("{conditions}", conditions), *values)
        return [TaskKey(Owner(tenant, name), task_id) for tenant, name, task_id in rows]


def _names(key: TaskKey) -> tuple[str, str, str]:
    return key.owner.tenant, key.task_id, key.owner.name


def _outbox_key(key: TaskKey) -> tuple[str, str, str]:
    return key.owner.tenant, key.owner.name, key.task_id


async def _read_letters(writer: asyncpg.Connection, key: TaskKey, config_id: str) -> tuple[DeadLetter, ...]:
    return read_dead_letters(await writer.fetchval(_STATEMENTS["read_dead_letters"], *_names(key), config_id))


async def _write_letters(
    writer: asyncpg.Connection, key: TaskKey, config_id: str, letters: tuple[DeadLetter, ...]
) -> None:
    await writer.execute(_STATEMENTS["write_dead_letters"], *_names(key), config_id, write_dead_letters(letters))
