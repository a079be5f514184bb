"""Sessions: what the server keeps for a browser, encrypted with a key that only the browser's cookie yields.

A session holds the credentials with which its requests are authenticated, and values of the console's parts under their
names (agents that were added, credentials for remote agents). It is a record in the store, so it survives restarts and
works at every replica; a reader of the store cannot decrypt it. A session without content has no record, so beginning
one costs nothing. Every request reads the record, so that a session that was ended elsewhere is refused at once.

A second record, among those of its caller, counts the sessions of each: a caller who logs in without end loses sessions
of its own, and others keep theirs.

Times are seconds since the epoch. A session ends after 12 hours without a request and after 7 days.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from parley.console.api.errors import ConsoleError
from parley.console.sealing import seal, unseal
from parley.console.session_cookie import SessionSecret
from parley.engine.clock import Clock
from parley.engine.store_errors import translated
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.stores.interface import (
    DeleteRecord,
    PutRecord,
    Record,
    RecordChange,
    RecordConflictError,
    RecordKey,
    Records,
    StoreError,
)

T = TypeVar("T")

COLLECTION = "console-sessions"
BY_CALLER = "console-sessions-of"
"""A record for each session, with its id, among those of its caller: the `tenant` of the key is a hash of the name."""

IDLE_SECONDS = 12 * 3600
LONGEST_SECONDS = 7 * 86_400
TOUCH_SECONDS = 300
"""How exactly the last use of a session is known. It is a write."""

MOST_SESSIONS = 10_000
"""Stored sessions of one server; beyond it, the one that would expire first is ended. A session takes about 1 KB."""

MOST_OF_CALLER = 1_000
"""Stored sessions of one caller, who may be all people and programs of a tenant; beyond it, its oldest is ended."""

MOST_BYTES = 256 * 1024
"""The content of one session: some hundred agents with their credentials."""

PURGED_AT_ONCE = 100

_ATTEMPTS = 10


class SessionCredentials(Struct, frozen=True, omit_defaults=True):
    """What is put into the requests of a session before they are authenticated. The names of headers are lower-case."""

    headers: dict[str, str] = {}
    query: dict[str, str] = {}
    cookies: dict[str, str] = {}
    is_from_link: bool = False
    """Whether the server has made them for a link; they are revoked with the session."""

    def __bool__(self) -> bool:
        return bool(self.headers or self.query or self.cookies)

    def __repr__(self) -> str:
        return f"SessionCredentials({[*self.headers, *self.query, *self.cookies]})"


class SessionContent(Struct, frozen=True, omit_defaults=True):
    """Everything that a session holds."""

    credentials: SessionCredentials = SessionCredentials()
    tenant: str | None = None
    """The tenant that an operator acts for."""
    values: dict[str, JsonValue] = {}
    caller: str = ""
    """Whose it is: the name that authentication gives. Empty before a login."""
    created_at: float = 0.0
    used_at: float = 0.0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to keep."""
        return not self.credentials and not self.values

    @property
    def expires_at(self) -> float:
        """When it ends if it is not used."""
        return min(self.used_at + IDLE_SECONDS, self.created_at + LONGEST_SECONDS)


class Session:
    """The session of one request. `get`, `put` and `update` keep values of the console's parts, each by its name.

    The session of a program, which has no cookie, is empty and cannot be written.
    """

    def __init__(
        self, sessions: Sessions, secret: SessionSecret | None, content: SessionContent, revision: int
    ) -> None:
        self._sessions = sessions
        self.secret = secret
        self.content = content
        self.revision = revision
        """How often its record was written; 0 if there is none."""

    @property
    def id(self) -> str:
        """What names the session; empty for a program. It is not a secret, but is of no use to others."""
        return "" if self.secret is None else self.secret.id

    @property
    def is_stored(self) -> bool:
        """Whether it has a record."""
        return self.revision > 0

    def get(self, name: str, value_type: type[T]) -> T | None:
        """A value as it was when the request came; None if there is none.

        Example: `call.session.get("remote-agents", RemoteAgentList)`
        """
        value = self.content.values.get(name)
        return None if value is None else msgspec.convert(value, value_type)

    async def put(self, name: str, value: object | None) -> None:
        """Keep a value, or forget it with None. `update` does it if the new value depends on the one before.

        Raises:
            ConsoleError: the session is a program's, or too large.
        """
        await self._change(lambda content: _with_value(content, name, value))

    async def update(self, name: str, value_type: type[T], change: Callable[[T | None], T | None]) -> T | None:
        """Change a value, and return the new one. `change` is called again if another request was faster.

        Raises:
            ConsoleError: the session is a program's, or too large.
        """

        def changed(content: SessionContent) -> SessionContent:
            value = content.values.get(name)
            return _with_value(content, name, change(None if value is None else msgspec.convert(value, value_type)))

        await self._change(changed)
        return self.get(name, value_type)

    async def _change(self, change: Callable[[SessionContent], SessionContent]) -> None:
        """Write a changed content, on top of what other requests have written meanwhile."""
        if self.secret is None:
            raise ConsoleError("unsupported", "This needs a session: send the cookie of GET /console/api/session")
        for _ in range(_ATTEMPTS):
            try:
                content = change(self.content)
                self.content, self.revision = await self._sessions.write(self.secret, content, self.revision)
                return
            except RecordConflictError:
                found = await self._sessions.find(self.secret)
                if self.revision and not found.revision:
                    raise ConsoleError("unauthenticated", "The session has ended") from None
                self.content, self.revision = found.content, found.revision
        raise ConsoleError("conflict", "The session was changed by other requests at the same time; try again")

    async def set_tenant(self, tenant: str | None) -> None:
        """Act for a tenant from now on, or for none."""
        await self._change(lambda content: msgspec.structs.replace(content, tenant=tenant))


class Sessions:
    """The sessions of a server."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self._ended: list[Callable[[str], None]] = []

    def on_end(self, listener: Callable[[str], None]) -> None:
        """Call a function with the id of every session that is ended in this process."""
        self._ended.append(listener)

    def begin(self) -> Session:
        """A new session, without content."""
        return Session(self, SessionSecret.new(), SessionContent(), 0)

    def for_program(self) -> Session:
        """The session of a caller that sends no cookie."""
        return Session(self, None, SessionContent(), 0)

    async def find(self, secret: SessionSecret) -> Session:
        """The session of a secret; empty if nothing was kept in it, or it has ended."""
        with translated:
            record = await self._records.get(_key(secret))
        if record is None:
            return Session(self, secret, SessionContent(), 0)
        content = _opened(secret, record.value)
        now = self._now()
        if content is None or content.expires_at <= now:
            await self._delete(secret)
            return Session(self, secret, SessionContent(), 0)
        session = Session(self, secret, content, record.revision)
        if now - content.used_at > TOUCH_SECONDS:
            try:
                session.content, session.revision = await self.write(secret, content, record.revision)
            except RecordConflictError:
                return await self.find(secret)
        return session

    async def write(self, secret: SessionSecret, content: SessionContent, revision: int) -> tuple[SessionContent, int]:
        """Write the content of a session whose record has this revision, and return it with the new revision.

        Raises:
            RecordConflictError: the record has another revision.
            ConsoleError: it is too large.
        """
        now = self._now()
        content = msgspec.structs.replace(content, used_at=now, created_at=content.created_at or now)
        if not revision and content.is_empty:
            return content, 0
        value = _sealed(secret, content)
        sort = int(content.expires_at * 1_000)
        try:
            changes: list[RecordChange] = [PutRecord(_key(secret), value, sort, expected=revision)]
            if not revision:
                await self._make_room(content.caller, now)
                changes.append(PutRecord(_caller_key(_hashed(content.caller), secret.id), {}, int(now * 1_000)))
            await self._records.write(*changes)
        except RecordConflictError:
            raise
        except StoreError as error:
            with translated:
                raise error
        return content, revision + 1

    async def end(self, session: Session) -> None:
        """End a session: its record is deleted, and streams of its pages are closed."""
        if session.secret is not None:
            await self._delete(session.secret)

    async def renew(self, session: Session, content: SessionContent) -> Session:
        """A session with this content and a new secret in the place of another one, whose secret is worthless then.

        After a login, so that a secret that was planted in the browser or seen before is not that of the caller.
        """
        renewed = self.begin()
        assert renewed.secret is not None
        renewed.content, renewed.revision = await self.write(renewed.secret, content, 0)
        await self.end(session)
        return renewed

    async def _delete(self, secret: SessionSecret) -> None:
        with translated:
            record = await self._records.get(_key(secret))
            if record is not None:
                await self._records.write(*_deletes(record))
        for listener in self._ended:
            listener(secret.id)

    async def _make_room(self, caller: str, now: float) -> None:
        """Delete sessions that have expired, and one if there are too many.

        It is the oldest of a caller who has too many, or the one that would expire first.
        """
        records, owner = self._records, _hashed(caller)
        if await records.count(BY_CALLER, owner) >= MOST_OF_CALLER:
            own = await records.list(BY_CALLER, owner, limit=1, newest_first=False)
            await records.write(*[change for one in own for change in _deletes_of(owner, one.key.id)])
        oldest = await records.list(COLLECTION, "", limit=PURGED_AT_ONCE, newest_first=False)
        gone = [record for record in oldest if record.sort <= now * 1_000]
        if not gone and len(oldest) == PURGED_AT_ONCE and await records.count(COLLECTION, "") >= MOST_SESSIONS:
            gone = [oldest[0]]
        if gone:
            await records.write(*[change for record in gone for change in _deletes(record)])

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _key(secret: SessionSecret) -> RecordKey:
    return RecordKey(COLLECTION, "", secret.id)


def _caller_key(owner: str, id: str) -> RecordKey:
    return RecordKey(BY_CALLER, owner, id)


def _hashed(caller: str) -> str:
    return hashlib.sha256(caller.encode()).hexdigest()[:40]


def _deletes(record: Record) -> tuple[DeleteRecord, ...]:
    """What deletes a session: its record, and that among those of its caller."""
    return _deletes_of(str(record.value.get("caller", "")), record.key.id)


def _deletes_of(owner: str, id: str) -> tuple[DeleteRecord, ...]:
    return DeleteRecord(RecordKey(COLLECTION, "", id)), DeleteRecord(_caller_key(owner, id))


def _with_value(content: SessionContent, name: str, value: object | None) -> SessionContent:
    values: dict[str, Any] = dict(content.values)
    if value is None:
        values.pop(name, None)
    else:
        values[name] = msgspec.to_builtins(value)
    return msgspec.structs.replace(content, values=values)


def _sealed(secret: SessionSecret, content: SessionContent) -> JsonObject:
    """The content as the store keeps it."""
    raw = msgspec.json.encode(content)
    if len(raw) > MOST_BYTES:
        raise ConsoleError("too_large", f"A session may keep up to {MOST_BYTES // 1024} KB")
    return {"sealed": seal(secret, raw, name=secret.id), "caller": _hashed(content.caller)}


def _opened(secret: SessionSecret, value: JsonObject) -> SessionContent | None:
    """The content in a record; None if it was changed by others, or a later version of Parley wrote it."""
    raw = unseal(secret, value.get("sealed"), name=secret.id)
    try:
        return None if raw is None else msgspec.json.decode(raw, type=SessionContent)
    except msgspec.ValidationError:
        return None
