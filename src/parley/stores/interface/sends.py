"""Sends: what became of each message, for senders that repeat one. A message is unique in the whole store."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from msgspec import Struct

from parley.protocol.messages import Message
from parley.stores.interface.keys import Owner


class SendKey(Struct, frozen=True, gc=False):
    """A message as a sender may repeat it: the same id with the same content."""

    message_id: str
    digest: bytes


class SendRecord(Struct, frozen=True, gc=False):
    """What became of a message: the task it went to, or the direct reply it got.

    A record with neither is a direct reply that the worker `holder` is working on.
    """

    sent_at: datetime
    task_id: str | None = None
    reply: Message | None = None
    holder: str = ""

    def is_in_work(self, worker: str) -> bool:
        """Whether this is a direct reply that a worker is working on."""
        return self.holder == worker != "" and self.task_id is None and self.reply is None


class SendRecords(Protocol):
    """The messages that were sent lately. Those that made or reached a task are written with it (`Write.sends`)."""

    async def find(self, owner: Owner, send: SendKey, *, since: datetime) -> SendRecord | None:
        """What became of a message that was sent at or after a moment."""
        ...

    async def digests(self, owner: Owner, message_id: str, *, since: datetime) -> frozenset[bytes]:
        """The contents with which a message id was sent at or after a moment."""
        ...

    async def put(
        self, owner: Owner, send: SendKey, record: SendRecord, *, since: datetime | None = None, holder: str = ""
    ) -> None:
        """Keep the record of a message that created no task.

        With `since`, only if there is none from that moment on, or one in work that `holder` holds.

        Raises:
            RepeatedSendError: there is one; the error holds it.
        """
        ...

    async def delete_before(self, moment: datetime) -> None:
        """Delete the records of messages that were sent before a moment."""
        ...
