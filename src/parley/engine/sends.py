"""Idempotent sends: the same message within a window gets the same task, and no second run.

Two sends are the same if tenant, caller, agent, message id and content match; or, for a send with an idempotency key,
tenant, caller, agent, key and content, whatever its message id. The same key with other content is refused. The
window is a setting and survives restarts, because a send is stored in the same transaction as its task. The wall clock
can jump: a send is dated by the later of wall clock and monotonic clock, and looked up by the earlier, so that errors
make the window longer.
"""

from __future__ import annotations

import asyncio
import hashlib
from datetime import datetime, timedelta
from functools import lru_cache

import msgspec
from msgspec import structs

from parley.engine.clock import Clock
from parley.engine.retention import Retention
from parley.protocol.errors import IdempotencyKeyReusedError, InvalidParamsError
from parley.protocol.messages import Message
from parley.stores.interface import Owner, SendKey, SendRecord, Store

_encoder = msgspec.json.Encoder(order="deterministic")


KEY_PREFIX = "idempotency-key:"
"""Begins the ids under which sends with an idempotency key are kept; the hash of agent and key follows."""

KEY_REUSED = {"reason": "idempotency_key_reused"}


@lru_cache(maxsize=10_000)  # of about 400 bytes each
def _empty_digest(agent: str) -> hashlib.blake2b:
    person = hashlib.blake2b(agent.encode(), digest_size=16).digest()
    return hashlib.blake2b(digest_size=16, person=person)


class _Pending:
    """A message that is being handled: its record, once that is known, and the callers that sent it again."""

    __slots__ = ("record", "waiting")

    def __init__(self) -> None:
        self.record: SendRecord | None = None
        self.waiting: list[asyncio.Future[SendRecord | None]] = []

    def tell(self, record: SendRecord | None) -> None:
        self.record = record
        for waiter in self.waiting:
            if not waiter.done():
                waiter.set_result(record)
        self.waiting.clear()


class Sends:
    """What was sent lately: in the store, and on its way there."""

    def __init__(self, store: Store, clock: Clock, *, seconds: float) -> None:
        self._store = store
        self._clock = clock
        self._window = timedelta(seconds=seconds)
        self._retention = Retention(self._window, clock)
        self._pending: dict[tuple[Owner, SendKey], _Pending] = {}
        self._claimed_keys: dict[tuple[Owner, str], bytes] = {}
        """The contents that idempotency keys stand for, as far as they are not stored yet."""

    @staticmethod
    def key_of(message: Message, agent: str, idempotency_key: str | None = None) -> SendKey:
        """What makes a message the same when it comes again, to the same agent.

        Raises:
            InvalidParamsError: the message holds text that cannot be written down.
        """
        if idempotency_key is not None:
            named = _empty_digest(agent).copy()
            named.update(idempotency_key.encode())
            message = structs.replace(message, message_id=KEY_PREFIX + named.hexdigest())
        try:
            content = _encoder.encode(message)
        except UnicodeEncodeError:
            raise InvalidParamsError("The message contains an unpaired surrogate", path="$.message") from None
        digest = _empty_digest(agent).copy()
        digest.update(content)
        return SendKey(message.message_id, digest.digest())

    async def claim_key(self, owner: Owner, send: SendKey) -> None:
        """Check that the idempotency key of a send stands for no other content; call it before `find`.

        Two workers of a shared store that get one key with two contents at the same moment may both accept it. Repeats
        with the same content are recognized in any case, because the store keeps one record of them.

        Raises:
            IdempotencyKeyReusedError: it stands for other content, of the same caller and agent.
        """
        if not self._window:
            return
        key = (owner, send.message_id)
        if self._claimed_keys.setdefault(key, send.digest) != send.digest:
            raise IdempotencyKeyReusedError(details=KEY_REUSED)
        try:
            digests = await self._store.sends.digests(owner, send.message_id, since=self.since())
        except BaseException:
            self._release_key(owner, send)
            raise
        if digests - {send.digest}:
            self._release_key(owner, send)
            raise IdempotencyKeyReusedError(details=KEY_REUSED)

    def _release_key(self, owner: Owner, send: SendKey) -> None:
        if self._claimed_keys.get((owner, send.message_id)) == send.digest:
            del self._claimed_keys[owner, send.message_id]

    async def find(self, owner: Owner, send: SendKey) -> SendRecord | None:
        """The record of this message, if it was sent before.

        None makes the caller responsible for it: it must call `announce`, `resolve` or `release` in the end.
        """
        if not self._window:
            return None
        while (pending := self._pending.get((owner, send))) is not None:
            record = pending.record
            if record is None:
                waiter: asyncio.Future[SendRecord | None] = asyncio.get_running_loop().create_future()
                pending.waiting.append(waiter)
                record = await waiter
            if record is not None:
                return record
        self._pending[owner, send] = _Pending()
        try:
            record = await self._store.sends.find(owner, send, since=self.since())
        except BaseException:
            self.resolve(owner, send, None)
            raise
        if record is not None:
            self.resolve(owner, send, record)
        return record

    async def was_sent(self, owner: Owner, send: SendKey) -> bool:
        """Whether this message was sent before and that is stored. Unlike `find`, this leaves nothing to its caller."""
        return bool(self._window) and await self._store.sends.find(owner, send, since=self.since()) is not None

    def since(self) -> datetime:
        """The start of the deduplication window."""
        return min(self._clock.now(), self._clock.steady()) - self._window

    def record(self, task_id: str | None = None, reply: Message | None = None, *, holder: str = "") -> SendRecord:
        """What to remember of a message that just came."""
        return SendRecord(max(self._clock.now(), self._clock.steady()), task_id, reply, holder)

    def announce(self, owner: Owner, send: SendKey, record: SendRecord) -> None:
        """Let repeats of a message know its record before it is stored.

        In a shared store another worker may have been faster, and only what is durable counts.
        """
        if self._store.is_shared:
            return
        pending = self._pending.get((owner, send))
        if pending is not None and pending.record is None:
            pending.tell(record)

    def resolve(self, owner: Owner, send: SendKey, record: SendRecord | None = None) -> None:
        """Remove the pending entry and wake waiting repeats; None means that the message failed and may be retried."""
        pending = self._pending.pop((owner, send), None)
        if self._claimed_keys:
            self._release_key(owner, send)
        if pending is not None and pending.record is None:
            pending.tell(record)

    def release(self, owner: Owner, send: SendKey) -> None:
        """Let a message be sent again, unless it was announced already."""
        pending = self._pending.get((owner, send))
        if pending is not None and pending.record is None:
            self.resolve(owner, send)

    async def expire(self, owner: Owner, send: SendKey, *, holder: str = "") -> None:
        """Date a message before the window, so that it counts as new; with a holder, unless another worker has it."""
        since = self.since()
        expired = SendRecord(since - timedelta(seconds=1), holder=holder)
        await self._store.sends.put(owner, send, expired, since=since if holder else None, holder=holder)

    def forgotten_before(self) -> datetime | None:
        """The moment before which sends may be deleted; None if that is not known yet. Call it regularly."""
        return self._retention.forgotten_before()
