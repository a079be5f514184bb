"""Logins that were begun in a session and wait for a person: at an authorization server, or with a device code.

They are in the session's encrypted record, so a login can be finished at another replica, and by no other session. Each
can be finished once, and expires.
"""

from __future__ import annotations

import time

from msgspec import Struct

from parley.client.credentials.oauth import AuthorizationRequest, DeviceCode, Endpoints
from parley.client.credentials.oauth_client import OAuthClient
from parley.console.sessions import Session

SESSION_VALUE = "pending-logins"

MOST_PENDING = 5
REDIRECT_SECONDS = 600.0
"""How long a person may take at the authorization server; its codes expire earlier."""


class PendingLogin(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A login that waits: `redirect` for the return of the browser, `device` for the person."""

    agent: str
    """The id of the agent."""
    url: str
    scheme: str
    client: OAuthClient
    endpoints: Endpoints
    scopes: tuple[str, ...]
    expires_at: float
    redirect: AuthorizationRequest | None = None
    device: DeviceCode | None = None
    next_poll: float = 0.0

    @property
    def state(self) -> str:
        """The state that the authorization server sends back; empty for a device."""
        return "" if self.redirect is None else self.redirect.state


class PendingLogins(Struct, frozen=True, omit_defaults=True):
    """All pending logins of a session, the oldest first."""

    logins: tuple[PendingLogin, ...] = ()


async def keep_pending(session: Session, pending: PendingLogin) -> None:
    """Keep a login that was begun. The oldest gives way if there are too many; one agent's device login is one."""

    def change(stored: PendingLogins | None) -> PendingLogins:
        others = [
            one
            for one in _live(stored)
            if not (pending.device is not None and one.device is not None and one.agent == pending.agent)
        ]
        return PendingLogins((*others[-(MOST_PENDING - 1) :], pending))

    await session.update(SESSION_VALUE, PendingLogins, change)


async def take_redirect(session: Session, state: str) -> PendingLogin | None:
    """The login of a state, which cannot be taken again; None if this session has not begun it, or it has expired."""
    taken: PendingLogin | None = None

    def change(stored: PendingLogins | None) -> PendingLogins | None:
        nonlocal taken
        taken = next((one for one in _live(stored) if state and one.state == state), None)
        return _without(stored, taken)

    if session.get(SESSION_VALUE, PendingLogins) is not None:
        await session.update(SESSION_VALUE, PendingLogins, change)
    return taken


def find_device(session: Session, agent_id: str, scheme: str) -> PendingLogin | None:
    """The device login of an agent that waits."""
    stored = session.get(SESSION_VALUE, PendingLogins)
    return next(
        (one for one in _live(stored) if one.device is not None and (one.agent, one.scheme) == (agent_id, scheme)), None
    )


async def drop_pending(session: Session, pending: PendingLogin) -> None:
    """Forget a login that was finished or has failed."""

    def change(stored: PendingLogins | None) -> PendingLogins | None:
        same = next((one for one in _live(stored) if _key(one) == _key(pending)), None)
        return _without(stored, same)

    await session.update(SESSION_VALUE, PendingLogins, change)


def _key(pending: PendingLogin) -> tuple[str, str, str]:
    return pending.agent, pending.scheme, pending.state


def _live(stored: PendingLogins | None) -> tuple[PendingLogin, ...]:
    now = time.time()
    return () if stored is None else tuple(one for one in stored.logins if one.expires_at > now)


def _without(stored: PendingLogins | None, gone: PendingLogin | None) -> PendingLogins | None:
    kept = tuple(one for one in _live(stored) if one is not gone)
    return PendingLogins(kept) if kept else None
