"""What became of messages, in PostgreSQL."""

from __future__ import annotations

from datetime import datetime

import asyncpg

from parley.stores.encoding import encode_time
from parley.stores.interface import Owner, RepeatedSendError, SendKey, SendRecord
from parley.stores.postgres.access import PostgresAccess, require_names
from parley.stores.postgres.lookups import SendLookups
from parley.stores.postgres.statements import load_statements
from parley.stores.rows import decode_send, encode_send

DELETED_AT_ONCE = 1_000
"""Old messages that one transaction deletes."""

_STATEMENTS = load_statements("sends")


class PostgresSends:
    """What became of messages."""

    def __init__(self, access: PostgresAccess) -> None:
        self._access = access
        self._lookups = SendLookups(access)

    async def find(self, owner: Owner, send: SendKey, *, since: datetime) -> SendRecord | None:
        """What became of a message that was sent at or after a moment."""
        require_names(owner.tenant, owner.name, send.message_id)
        found = await self._lookups.find((owner.tenant, owner.name, send.message_id, send.digest))
        return found if found is not None and found.sent_at >= since else None

    async def digests(self, owner: Owner, message_id: str, *, since: datetime) -> frozenset[bytes]:
        """The contents with which a message id was sent at or after a moment."""
        require_names(owner.tenant, owner.name, message_id)
        values = (owner.tenant, owner.name, message_id, encode_time(since))
        return frozenset(bytes(row[0]) for row in await self._access.fetch(_STATEMENTS["digests"], *values))

    async def put(
        self, owner: Owner, send: SendKey, record: SendRecord, *, since: datetime | None = None, holder: str = ""
    ) -> None:
        """Keep the record of a message that created no task; with `since`, unless it is a repeat.

        Raises:
            RepeatedSendError: there is a record from that moment on, and `holder` does not work on it.
        """
        row = encode_send(owner, send, record)
        since_at = encode_time(since) if since is not None else None

        async def put(writer: asyncpg.Connection) -> None:
            while await writer.fetchval(_STATEMENTS["put"], *row, since_at, holder) is None:
                found = await writer.fetchrow(_STATEMENTS["find"], *row[:4], since_at)
                if found is not None:  # it is gone if it was deleted in between
                    raise RepeatedSendError(decode_send(*found))

        names = (owner.tenant, owner.name, send.message_id, record.task_id or "", record.holder, holder)
        await self._access.submit(put, *names)

    async def delete_before(self, moment: datetime) -> None:
        """Delete the records of messages that were sent before a moment."""
        values = (encode_time(moment), DELETED_AT_ONCE)
        while await self._access.delete_old(_STATEMENTS["delete_before"], *values) == DELETED_AT_ONCE:
            pass
