"""The connections of all sessions to remote agents: made when they are needed, and closed when they are idle.

A connection belongs to one session. When it is closed, what callers know stays valid: the names of tasks are kept with
the session, and the next request opens another connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from parley.client.errors import CredentialsError, DiscoveryError
from parley.client.guard import HINT, Guard
from parley.console.agents.added import RemoteAgentEntry
from parley.console.agents.connection import OpenAgent, RemoteConnection
from parley.console.agents.logins import logins_of
from parley.console.agents.policy import RemotePolicy
from parley.console.api.errors import ConsoleError
from parley.console.sessions import Session
from parley.console.wire.wire import Wire
from parley.protocol.cards import AgentCard
from parley.protocol.errors import ParleyError, PermissionDeniedError, UnauthenticatedError
from parley.proxy.ledger import Ledger

if TYPE_CHECKING:
    from parley.console.console import Console

logger = logging.getLogger(__name__)

IDLE_SECONDS = 600.0
MOST_OPEN = 200
"""Connections of all sessions; each takes about 1 MB with its buffers."""
MOST_OF_SESSION = 32
MOST_ACTIVE = 32
"""Requests of one session to remote agents at the same time."""
MOST_LEDGERS = 1_000
LEDGER_NAMES = 1_000
"""Tasks and contexts of one agent that a session has named."""
MOST_STATES = 2_000
ERROR_SECONDS = 2.0
"""How long an agent that could not be reached is not tried again, while pages ask for it at once."""

ReachabilityState: TypeAlias = Literal["ready", "needs_login", "unreachable", "unknown"]

_Key: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Reachability:
    """What is known of an agent since it was last called."""

    state: ReachabilityState = "unknown"
    error: str | None = None
    version: str = ""
    binding: str = ""
    name: str = ""
    description: str = ""
    skills: int = 0
    streams: bool = False
    at: float = 0.0


UNKNOWN = Reachability()


class RemoteConnections:
    """The connections of a console."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.policy = RemotePolicy.of(console.settings)
        self._open: OrderedDict[_Key, RemoteConnection] = OrderedDict()
        self._ledgers: OrderedDict[_Key, Ledger] = OrderedDict()
        self._reachability: OrderedDict[_Key, Reachability] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()
        self._reaper: asyncio.Task[None] | None = None
        console.sessions.on_end(self.end_session)

    def reachability(self, session: Session, agent_id: str) -> Reachability:
        """What is known of an agent of a session."""
        return self._reachability.get((session.id, agent_id), UNKNOWN)

    @asynccontextmanager
    async def using(self, session: Session, entry: RemoteAgentEntry) -> AsyncGenerator[OpenAgent]:
        """An open proxy to an agent, which stays open within the block.

        Raises:
            ConsoleError: the agent cannot be called (`agent_error`), or the session does too much at once.
        """
        if sum(one.active for key, one in self._open.items() if key[0] == session.id) >= MOST_ACTIVE:
            message = f"A session may have {MOST_ACTIVE} requests to other agents at once"
            raise ConsoleError("rate_limited", message, headers=((b"retry-after", b"1"),))
        connection = self._connection(session, entry)
        connection.active += 1
        try:
            try:
                found = await connection.open()
            except Exception as error:
                raise await self._failed(connection, error) from error
            self._note(connection, _reachability_of(found, has_login=bool(connection.logins.all())))
            yield found
        finally:
            connection.active -= 1
            connection.used_at = time.monotonic()

    async def _failed(self, connection: RemoteConnection, error: Exception) -> ConsoleError:
        key = (connection.session.id, connection.entry.id)
        if self._open.get(key) is connection:
            del self._open[key]
        self._close_soon(connection)
        if not isinstance(error, ParleyError):
            logger.error("A remote agent could not be opened", exc_info=error)
            self._note(connection, Reachability("unreachable", "The agent could not be opened; see the server's log"))
            return ConsoleError("internal", "The agent could not be opened; see the server's log")
        reachability = reachability_after(error, self.policy)
        self._note(connection, reachability)
        return ConsoleError("agent_error", reachability.error or "The agent cannot be reached")

    def _connection(self, session: Session, entry: RemoteAgentEntry) -> RemoteConnection:
        key = (session.id, entry.id)
        found = self._open.get(key)
        if found is not None and not found.is_closed:
            self._open.move_to_end(key)
            found.logins.follow(logins_of(session, found.origin))
            return found
        before = self._reachability.get(key, UNKNOWN)
        if before.state == "unreachable" and time.monotonic() - before.at < ERROR_SECONDS:
            raise ConsoleError("agent_error", before.error or "The agent cannot be reached")
        self._make_room(session.id)
        connection = RemoteConnection(session, entry, self.guard(entry), self._ledger(key), self._console.shared(Wire))
        self._open[key] = connection
        if self._reaper is None:
            self._reaper = asyncio.get_running_loop().create_task(self._reap())
        return connection

    def guard(self, entry: RemoteAgentEntry) -> Guard:
        """The guard for an agent."""
        return self.policy.operators_guard() if entry.is_configured else self.policy.guard(is_named=entry.is_named)

    def _ledger(self, key: _Key) -> Ledger:
        ledger = self._ledgers.get(key)
        if ledger is None:
            ledger = self._ledgers[key] = Ledger(size=LEDGER_NAMES)
            if len(self._ledgers) > MOST_LEDGERS:
                self._ledgers.popitem(last=False)
        self._ledgers.move_to_end(key)
        return ledger

    def _make_room(self, session_id: str) -> None:
        """Close the connection that was used least recently, if there are too many."""
        own = [key for key in self._open if key[0] == session_id]
        crowded = own if len(own) >= MOST_OF_SESSION else list(self._open) if len(self._open) >= MOST_OPEN else []
        if not crowded:
            return
        idle = next((key for key in crowded if not self._open[key].active), None)
        if idle is None:
            message = "Too many connections to other agents are in use"
            raise ConsoleError("rate_limited", message, headers=((b"retry-after", b"5"),))
        self._close_soon(self._open.pop(idle))

    def _note(self, connection: RemoteConnection, reachability: Reachability) -> None:
        self.note(connection.session.id, connection.entry.id, reachability)

    def note(self, session_id: str, agent_id: str, reachability: Reachability) -> None:
        """Remember what was found out about an agent."""
        key = (session_id, agent_id)
        before = self._reachability.get(key, UNKNOWN)
        if reachability.state == "ready" and before.state == "needs_login":
            # The card is public; only a call shows that credentials are accepted.
            reachability = Reachability("needs_login", before.error, *_facts(reachability))
        self._reachability[key] = reachability
        self._reachability.move_to_end(key)
        if len(self._reachability) > MOST_STATES:
            self._reachability.popitem(last=False)

    def answered(self, session: Session, entry: RemoteAgentEntry, *, is_refused: bool) -> None:
        """The agent has answered a request, or refused its credentials."""
        key = (session.id, entry.id)
        before = self._reachability.get(key, UNKNOWN)
        if is_refused and before.state != "needs_login":
            self._reachability[key] = Reachability("needs_login", "The agent requires a login", *_facts(before))
        elif not is_refused and before.state == "needs_login":
            self._reachability[key] = Reachability("ready", None, *_facts(before))

    # --- the end of connections ---------------------------------------------------------------------------------------

    async def drop(self, session: Session, agent_id: str) -> None:
        """Close the connection of a session to an agent, because its credentials have changed or it was removed."""
        key = (session.id, agent_id)
        self._reachability.pop(key, None)
        connection = self._open.pop(key, None)
        if connection is not None:
            await connection.close()

    def end_session(self, session_id: str) -> None:
        """Close everything of a session."""
        for keyed in (self._ledgers, self._reachability):
            for key in [key for key in keyed if key[0] == session_id]:
                del keyed[key]
        for key in [key for key in self._open if key[0] == session_id]:
            self._close_soon(self._open.pop(key))

    def _close_soon(self, connection: RemoteConnection) -> None:
        closing = asyncio.get_running_loop().create_task(connection.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def _reap(self) -> None:
        """Close connections that are idle."""
        while True:
            await asyncio.sleep(IDLE_SECONDS / 10)
            self.close_idle(time.monotonic())

    def close_idle(self, now: float) -> None:
        """Close what nothing has used for long."""
        for key, connection in tuple(self._open.items()):
            if connection.is_closed or (not connection.active and now - connection.used_at > IDLE_SECONDS):
                self._close_soon(self._open.pop(key))

    async def close(self) -> None:
        """Close everything."""
        if self._reaper is not None:
            self._reaper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reaper
        for connection in (*self._open.values(),):
            self._close_soon(connection)
        self._open.clear()
        if self._closing:
            await asyncio.wait(self._closing)


def reachability_after(error: ParleyError, policy: RemotePolicy) -> Reachability:
    """What an error of a connection says about the agent."""
    message = error.message.replace(HINT, f". {policy.hint}".rstrip() if policy.hint else "")
    is_refused = isinstance(error, CredentialsError | UnauthenticatedError | PermissionDeniedError)
    if isinstance(error, DiscoveryError):  # a private card is answered with 401 or 403
        is_refused = any(f"answers {status}" in message for status in (401, 403))
    return Reachability("needs_login" if is_refused else "unreachable", message[:1_000], at=time.monotonic())


def requires_login(card: AgentCard) -> bool:
    """Whether a card says that callers need credentials."""
    return bool(card.security) and all(card.security)


def _reachability_of(found: OpenAgent, *, has_login: bool) -> Reachability:
    card = found.agent.own_card
    is_open = has_login or not requires_login(card)
    return Reachability(
        "ready" if is_open else "needs_login",
        None if is_open else "The agent requires a login",
        found.version,
        found.binding,
        card.name,
        card.description,
        len(card.skills),
        bool(card.capabilities.streaming),
        time.monotonic(),
    )


def _facts(of: Reachability) -> tuple[str, str, str, str, int, bool, float]:
    return of.version, of.binding, of.name, of.description, of.skills, of.streams, of.at
