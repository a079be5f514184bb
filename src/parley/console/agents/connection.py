"""One remote agent as one session calls it: an in-process proxy, which is open while it is used.

The proxy has the credentials of the session and no others. It lives in a task of its own, because what it opens must be
closed by the task that opened it.
"""

from __future__ import annotations

import asyncio
import time
from contextvars import Context
from dataclasses import dataclass, field

from parley.client.credentials.credentials import Credentials
from parley.client.credentials.origins import origin_of
from parley.client.credentials.token_store import MemoryLogins
from parley.client.guard import Guard
from parley.client.options import Timeouts
from parley.console.agents.added import RemoteAgentEntry
from parley.console.agents.logins import ConnectionLogins, LoginWriter, logins_of
from parley.console.agents.schemes import UNDECLARED
from parley.console.sessions import Session
from parley.console.wire.wire import Wire
from parley.proxy.ledger import Ledger
from parley.proxy.proxied import proxied
from parley.proxy.remote_agent import RemoteAgent
from parley.proxy.trace import Trace
from parley.server.app import App

TIMEOUTS = Timeouts(card=10.0)
"""A person waits for the card."""


@dataclass(slots=True)
class OpenAgent:
    """An open proxy."""

    app: App
    agent: RemoteAgent
    version: str
    binding: str


@dataclass(slots=True, eq=False)
class RemoteConnection:
    """The connection of one session to one agent. `open` opens it; then `close` must be called."""

    session: Session
    entry: RemoteAgentEntry
    guard: Guard
    ledger: Ledger
    wire: Wire
    active: int = 0
    """Requests that it answers now."""
    used_at: float = field(default_factory=time.monotonic)
    logins: ConnectionLogins = field(init=False)
    _writer: LoginWriter = field(init=False)
    _closing: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None
    _opened: asyncio.Future[OpenAgent] | None = None

    def __post_init__(self) -> None:
        self._writer = LoginWriter(self.session)
        self.logins = ConnectionLogins(logins_of(self.session, self.origin), self._writer.write)

    @property
    def origin(self) -> str:
        """The only origin that gets the session's credentials."""
        return origin_of(self.entry.url)

    @property
    def is_closed(self) -> bool:
        """Whether it can be used no more."""
        return self._closing.is_set() or (self._task is not None and self._task.done())

    @property
    def found(self) -> OpenAgent | None:
        """The open proxy, if it is open."""
        opened = self._opened
        is_open = opened is not None and opened.done() and not opened.cancelled() and opened.exception() is None
        return opened.result() if opened is not None and is_open and not self.is_closed else None

    async def open(self) -> OpenAgent:
        """The proxy, which all callers wait for together.

        Raises:
            ParleyError: the agent cannot be called; the connection is closed then.
        """
        if self._opened is None:
            loop = asyncio.get_running_loop()
            self._opened = loop.create_future()
            self._opened.add_done_callback(_retrieved)
            # Not in the context of the request that is the first by chance.
            self._task = loop.create_task(self._run(self._opened), context=Context())
        return await asyncio.shield(self._opened)

    async def _run(self, opened: asyncio.Future[OpenAgent]) -> None:
        trace = Trace()
        try:
            async with proxied(
                self.entry.url,
                credentials=session_credentials(self.logins),
                guard=self.guard,
                timeouts=TIMEOUTS,
                trace=trace,
                ledger=self.ledger,
                serves_one_caller=True,
            ) as app:
                agent = app.agents[0]
                assert isinstance(agent, RemoteAgent)
                version, _, binding = agent.protocol.removeprefix("A2A ").partition(" over ")
                async with app.running():
                    with self.wire.recording(app, trace, agent=self.entry.id, session=self.session.id):
                        opened.set_result(OpenAgent(app, agent, version, binding))
                        await self._closing.wait()
        except Exception as error:  # here the connection ends
            if opened.done():
                raise
            opened.set_exception(error)
        finally:
            self._closing.set()
            if not opened.done():
                opened.cancel()

    async def close(self) -> None:
        """Close it. Its streams end with an error after which they can be resumed."""
        self._closing.set()
        if self._task is not None:
            done, _ = await asyncio.wait([self._task], timeout=5)
            if not done:
                self._task.cancel()
                await asyncio.wait([self._task])
        await self._writer.close()


def session_credentials(logins: MemoryLogins) -> Credentials:
    """The credentials of a session for one agent.

    Logins that were made before the card was known go by their kinds.
    """
    by_kind = {one.scheme: one.secret for one in logins.all() if one.scheme in UNDECLARED and one.secret is not None}
    return Credentials(by_kind, store=logins)


def _retrieved(opened: asyncio.Future[OpenAgent]) -> None:
    if not opened.cancelled():
        opened.exception()  # the caller may have left
