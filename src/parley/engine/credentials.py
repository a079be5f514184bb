"""Credentials that callers give to tasks, and authorizations that are under way: kept apart from the log, for a while.

A credential is in no event, snapshot or message. It is taken once, by the run that waits for it: taking deletes it
with compare-and-set, so that no second run, and no other worker, gets it. A pending authorization is found by its
state, of which the store holds a hash only, and is used once in the same way. Both expire; maintenance deletes what
has. The store encrypts both (`stores/secret_fields`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from parley.protocol.authorization import GivenCredential, stored_credential
from parley.protocol.errors import A2AError
from parley.protocol.events import MessageAdded
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.messages import Message
from parley.stores.interface import (
    DeleteRecord,
    Owner,
    PutRecord,
    Record,
    RecordConflictError,
    RecordKey,
    Records,
    StoreError,
    TaskKey,
)

if TYPE_CHECKING:
    from parley.engine.engine import Engine

CREDENTIALS = "task-credentials"
AUTHORIZATIONS = "task-authorizations"

KEPT = timedelta(minutes=10)
"""How long a credential waits for the run that takes it, usually some milliseconds: a full worker may be busy."""

PRUNED_AT_ONCE = 500


class PendingAuthorization(Struct, frozen=True):
    """What the callback endpoint needs to finish an authorization, for the task of one owner."""

    tenant: str
    owner: str
    task_id: str
    agent: str
    question: str
    """The name of the question in the task's log, which only the first answer gets."""
    redirect_uri: str
    verifier: str
    token_url: str
    client_id: str
    client_secret: str | None
    scopes: tuple[str, ...]
    expires_at: datetime
    issuer: str | None = None
    secret_in_body: bool = False
    names_issuer: bool = False
    resource: str | None = None
    caller_scopes: tuple[str, ...] = ()
    caller_claims: JsonObject = {}
    version: str = "1.0"

    def __repr__(self) -> str:
        return f"PendingAuthorization({self.task_id!r})"


class _StoredCredential(Struct, frozen=True):
    owner: str
    task_id: str
    credential: GivenCredential
    expires_at: datetime


class TaskCredentials:
    """The credentials and the pending authorizations of an engine's tasks."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def put(self, key: TaskKey, credential: GivenCredential) -> str:
        """Keep a credential for a task, and return the id to take it with."""
        id, now = self._engine.new_id(), self._engine.clock.now()
        expires_at = min(now + KEPT, credential.expires_at or now + KEPT)
        stored = _StoredCredential(key.owner.name, key.task_id, credential, expires_at)
        await self._write(CREDENTIALS, key.owner.tenant, id, stored, expires_at)
        return id

    async def take(self, key: TaskKey, id: str) -> GivenCredential | None:
        """The credential that was kept under an id for a task; None if it was taken before or has expired."""
        found = await self._take(CREDENTIALS, key.owner.tenant, id)
        if found is None:
            return None
        stored = msgspec.convert(found, _StoredCredential)
        is_own = (stored.owner, stored.task_id) == (key.owner.name, key.task_id)
        return stored.credential if is_own and stored.expires_at > self._engine.clock.now() else None

    async def delete(self, owner: Owner, id: str) -> None:
        """Delete a credential whose message was not accepted."""
        with suppress(StoreError):  # it expires soon
            await self._engine.store.records.write(DeleteRecord(RecordKey(CREDENTIALS, owner.tenant, id)))

    async def delete_unused(self, owner: Owner, message: Message) -> None:
        """Delete the credential of a message that came another way as well, unless the log has this one."""
        kept_as = stored_credential(message)
        if kept_as is None or message.task_id is None:
            return
        with suppress(StoreError, A2AError):  # it expires soon
            events = await self._engine.views.events(TaskKey(owner, message.task_id))
            messages = [event.message for event in events if isinstance(event, MessageAdded)]
            if kept_as not in [stored_credential(each) for each in messages]:
                await self.delete(owner, kept_as)

    async def put_pending(self, state: str, pending: PendingAuthorization) -> None:
        """Keep an authorization that is under way; who knows its state can finish it once."""
        await self._write(AUTHORIZATIONS, "", _hashed(state), pending, pending.expires_at)

    async def take_pending(self, state: str) -> PendingAuthorization | None:
        """The authorization with a state, for the one who finishes it; None if it is unknown, used or expired."""
        found = await self._take(AUTHORIZATIONS, "", _hashed(state))
        pending = None if found is None else msgspec.convert(found, PendingAuthorization)
        return pending if pending is not None and pending.expires_at > self._engine.clock.now() else None

    async def _write(self, collection: str, tenant: str, id: str, value: Struct, expires_at: datetime) -> None:
        record: JsonObject = msgspec.to_builtins(value)
        key, sort = RecordKey(collection, tenant, id), int(expires_at.timestamp())
        await self._engine.store.records.write(PutRecord(key, record, sort, expected=0))

    async def _take(self, collection: str, tenant: str, id: str) -> JsonObject | None:
        records, key = self._engine.store.records, RecordKey(collection, tenant, id)
        found = await records.get(key)
        if found is None:
            return None
        try:
            await records.write(DeleteRecord(key, expected=found.revision))
        except RecordConflictError:
            return None  # another process has just taken it
        return found.value

    async def delete_expired(self) -> None:
        """Delete what has expired, in all tenants."""
        records, now = self._engine.store.records, int(self._engine.clock.now().timestamp())
        for collection in (CREDENTIALS, AUTHORIZATIONS):
            after: tuple[str, str] | None = None
            while page := await records.list_all(collection, after=after, limit=PRUNED_AT_ONCE):
                expired = [DeleteRecord(record.key, expected=record.revision) for record in page if record.sort < now]
                if expired:
                    await records.write(*expired)
                after = (page[-1].key.tenant, page[-1].key.id)


async def delete_credentials(records: Records, tasks: Collection[TaskKey]) -> None:
    """Delete the credentials and the pending authorizations of some tasks, also of tasks that were deleted."""
    if not tasks:
        return
    owned = {(key.owner.tenant, key.owner.name, key.task_id) for key in tasks}
    for collection in (CREDENTIALS, AUTHORIZATIONS):
        after: tuple[str, str] | None = None
        while page := await records.list_all(collection, after=after, limit=PRUNED_AT_ONCE):
            found = [DeleteRecord(record.key) for record in page if _task_of(record) in owned]
            if found:
                await records.write(*found)
            after = (page[-1].key.tenant, page[-1].key.id)


def _task_of(record: Record) -> tuple[str, str, str]:
    """Tenant, owner and id. A pending authorization has its tenant in its value: its state is looked up in none."""
    value = record.value
    return str(value.get("tenant", record.key.tenant)), str(value["owner"]), str(value["task_id"])


def _hashed(state: str) -> str:
    return hashlib.sha256(state.encode(errors="replace")).hexdigest()
