"""Credentials of a session for agents elsewhere. They are in the session's encrypted record, and in no reply.

Clients read and renew logins without waiting, so each open connection has a copy in memory. What a client renews is
written back to the session in the background; what another replica has renewed comes with the next request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from msgspec import Struct

from parley.client.credentials.token_store import Login, MemoryLogins
from parley.console.api.errors import ConsoleError
from parley.console.sessions import Session
from parley.protocol.errors import ParleyError

logger = logging.getLogger(__name__)

SESSION_VALUE = "agent-logins"

MOST_LOGINS = 100


class StoredLogins(Struct, frozen=True, omit_defaults=True):
    """All logins of a session, for all agents."""

    logins: tuple[Login, ...] = ()


def logins_of(session: Session, origin: str) -> tuple[Login, ...]:
    """The logins of a session for the agents at an origin."""
    stored = session.get(SESSION_VALUE, StoredLogins)
    return () if stored is None else tuple(login for login in stored.logins if login.origin == origin)


def in_memory(logins: Sequence[Login]) -> MemoryLogins:
    """Logins as a client reads them. What it renews is lost."""
    store = MemoryLogins()
    for login in logins:
        store.put(login)
    return store


async def keep_login(session: Session, login: Login) -> None:
    """Keep a login in place of the one for its origin and scheme."""

    def change(stored: StoredLogins | None) -> StoredLogins:
        others = tuple(
            one for one in (stored or StoredLogins()).logins if (one.origin, one.scheme) != (login.origin, login.scheme)
        )
        if len(others) >= MOST_LOGINS:
            raise ConsoleError("conflict", f"A session may have up to {MOST_LOGINS} logins; log out somewhere first")
        return StoredLogins((*others, login))

    await session.update(SESSION_VALUE, StoredLogins, change)


async def renew_login(session: Session, login: Login) -> None:
    """Keep a login that was renewed, unless the person has logged out meanwhile."""

    def change(stored: StoredLogins | None) -> StoredLogins | None:
        if stored is None:
            return None
        key = (login.origin, login.scheme)
        return StoredLogins(tuple(login if (one.origin, one.scheme) == key else one for one in stored.logins))

    await session.update(SESSION_VALUE, StoredLogins, change)


async def forget_logins(session: Session, origin: str) -> None:
    """Forget the logins for the agents at an origin."""
    if session.get(SESSION_VALUE, StoredLogins) is None:
        return

    def change(stored: StoredLogins | None) -> StoredLogins | None:
        kept = tuple(one for one in (stored or StoredLogins()).logins if one.origin != origin)
        return StoredLogins(kept) if kept else None

    await session.update(SESSION_VALUE, StoredLogins, change)


class ConnectionLogins(MemoryLogins):
    """The logins of one connection. `on_renewed` gets each that the client has renewed."""

    def __init__(self, logins: Sequence[Login], on_renewed: Callable[[Login], None]) -> None:
        super().__init__()
        self._on_renewed = on_renewed
        self.follow(logins)

    def follow(self, logins: Sequence[Login]) -> None:
        """Take the logins of the session over, except those that this connection has renewed since."""
        for known in self.all():
            if not any((one.origin, one.scheme) == (known.origin, known.scheme) for one in logins):
                self.forget(known.origin, known.scheme)
        for login in logins:
            known = self.get(login.origin, login.scheme)
            if known is None or _issued_at(known) <= _issued_at(login):
                super().put(login)

    def put(self, login: Login) -> None:
        """Keep a login that the client has renewed."""
        super().put(login)
        self._on_renewed(login)


class LoginWriter:
    """Writes renewed logins back to a session, one after the other."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._writes: set[asyncio.Task[None]] = set()

    def write(self, login: Login) -> None:
        """Write a login soon."""
        task = asyncio.get_running_loop().create_task(self._write(login))
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)

    async def close(self) -> None:
        """Wait until everything is written."""
        if self._writes:
            await asyncio.wait(self._writes, timeout=5)

    async def _write(self, login: Login) -> None:
        try:
            await renew_login(self._session, login)
        except ParleyError as error:
            logger.warning("A renewed login for %s could not be kept: %s", login.origin, error)


def _issued_at(login: Login) -> float:
    return 0.0 if login.tokens is None else login.tokens.issued_at or 0.0
