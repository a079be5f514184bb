"""Lookups of messages, of many callers in one statement.

Nearly every message is new, and each must be looked for before a task is made of it. While a statement is under way,
the lookups that come are collected for the next one: the busier the store, the more of them share a round trip. With
sixteen senders that halves what a send costs the process and the server: the writes that follow share commits, too.
"""

from __future__ import annotations

import asyncio

from parley.stores.interface import SendRecord, StoreError
from parley.stores.postgres.access import PostgresAccess
from parley.stores.postgres.batch import LOAD_SENDS, SendId
from parley.stores.postgres.errors import explain
from parley.stores.rows import decode_send

MOST_AT_ONCE = 200
"""Messages that one statement looks for."""


class SendLookups:
    """Finds messages by their keys."""

    def __init__(self, access: PostgresAccess) -> None:
        self._access = access
        self._waiting: dict[SendId, list[asyncio.Future[SendRecord | None]]] = {}
        self._looking: asyncio.Task[None] | None = None

    async def find(self, key: SendId) -> SendRecord | None:
        """What became of a message, whenever it was sent. It sees all that was written before this was called."""
        found: asyncio.Future[SendRecord | None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, []).append(found)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="parley-postgres-lookups")
        return await found

    async def _look(self) -> None:
        try:
            while self._waiting:
                keys = list(self._waiting)[:MOST_AT_ONCE]
                callers = {key: self._waiting.pop(key) for key in keys}
                try:
                    rows = await self._access.fetch(LOAD_SENDS, *[list(column) for column in zip(*keys, strict=True)])
                    records = {tuple(row[:4]): decode_send(*row[4:]) for row in rows}
                except Exception as error:  # of any kind: the callers wait for an answer
                    _resolve(callers, explain(error, self._access.name))
                else:
                    _resolve(callers, records)
        finally:
            self._looking = None


def _resolve(
    callers: dict[SendId, list[asyncio.Future[SendRecord | None]]], outcome: dict[SendId, SendRecord] | StoreError
) -> None:
    for key, waiting in callers.items():
        for found in waiting:
            if found.done():  # the caller was cancelled
                continue
            if isinstance(outcome, StoreError):
                found.set_exception(outcome)
            else:
                found.set_result(outcome.get(key))
