"""One connection to an MCP server: opened on first use, shared by calls, watched, and closed when it is not used.

The SDK wants its blocks to begin and end in one task, so each connection has a task of its own, the owner. It opens a
session, waits until that is over, and opens another one after a pause that doubles with every failure. While a server
is down, calls fail at once. Only the first use of a connection waits for it.

    idle ──first use──► connecting ──► connected ──not used──► idle
                            │  ▲            │
                            ▼  └──pause──┐  ▼
                          failed ◄──── backoff
                        (not used)
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from parley.host.mcp.errors import McpCallError, McpSessionLostError, McpToolError, McpUnavailableError
from parley.host.mcp.link import McpLink
from parley.host.mcp.results import ToolOutput, error_text, read_result
from parley.host.mcp.sdk import load_session
from parley.host.mcp.server_config import McpServerConfig
from parley.host.mcp.tools import ToolList
from parley.protocol.errors import ParleyError
from parley.protocol.jsonvalue import JsonObject
from parley.safe_text import printable_line

if TYPE_CHECKING:
    from parley.host.mcp.session import McpSession

logger = logging.getLogger(__name__)


class ConnectionState(StrEnum):
    """How a connection is doing."""

    IDLE = "idle"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    BACKOFF = "backoff"
    """The server is down and will be tried again after a pause."""
    FAILED = "failed"
    """The server was down when it was last used; the next use tries it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """How long connections live, and how they recover."""

    idle_seconds: float = 300.0
    """Without a call, a connection is closed after so long, and a server that is down is given up."""
    first_pause: float = 1.0
    """Before the first restart; every further pause is twice as long."""
    longest_pause: float = 60.0
    tools_seconds: float = 60.0
    """How long a list of tools is used before the server is asked again. Most servers also say when it changes."""
    timeouts_in_a_row: int = 3
    """After so many calls without an answer, the server is started again."""
    close_seconds: float = 6.0
    """For the end of a session. After that, its task is cancelled, which kills the process of the server."""


class McpConnection:
    """A connection, and what is known of its server."""

    def __init__(
        self,
        config: McpServerConfig,
        settings: ConnectionSettings | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config = config
        self.state = ConnectionState.IDLE
        self.last_error = ""
        """Why the server was last down; empty while it answers."""
        self.known_tools: ToolList | None = None
        """What the server listed last."""
        self.last_used = clock()
        self._settings = settings or ConnectionSettings()
        self._clock = clock
        self._owner: asyncio.Task[None] | None = None
        self._first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the first attempt to connect has ended, or the attempt after a session that was lost."""
        self._session: McpSession | None = None
        self._closing = asyncio.Event()
        self._is_leaving = False
        """Whether the owner closes the session because it was not used; the next use waits for that."""
        self._failures = 0
        self._timeouts = 0
        self._calls = 0
        self._tools_expire = 0.0
        self._listing: asyncio.Task[ToolList] | None = None
        self._retry_at = 0.0

    @property
    def is_busy(self) -> bool:
        """Whether a call is in progress."""
        return self._calls > 0

    @property
    def retry_seconds(self) -> float:
        """How long the pause lasts before the server is tried again; 0 if there is none."""
        return max(0.0, self._retry_at - self._clock()) if self.state is ConnectionState.BACKOFF else 0.0

    # --- for callers --------------------------------------------------------------------------------------------------

    async def tools(self) -> ToolList:
        """The tools of the server, from memory if they were listed a moment ago. Raises McpToolError."""
        session = await self._use()
        if self.known_tools is not None and self._clock() < self._tools_expire:
            return self.known_tools
        if self._listing is None:  # one for all that wait; it goes on if they stop waiting
            self._listing = asyncio.create_task(self._list_tools(session))
            self._listing.add_done_callback(self._listed)
        listing = self._listing
        try:
            return await asyncio.shield(listing)
        except asyncio.CancelledError:
            if listing.cancelled():  # because the connection was closed, and not the caller's work
                raise self._unused() from None
            raise

    async def call(
        self, tool_name: str, arguments: JsonObject, *, meta: JsonObject, headers: Mapping[str, str]
    ) -> ToolOutput:
        """What a tool answers. A call that is cancelled is cancelled at the server as well.

        Raises:
            McpToolError: there is no such tool, the arguments are invalid, or there is no answer.
        """
        tool = (await self.tools()).tools.get(tool_name)
        if tool is None:
            names = ", ".join((await self.tools()).tools)[:500]
            raise McpCallError(
                f"The MCP server {self.config.name} has no tool {printable_line(tool_name[:100])!r}. "
                f"It has: {names or 'none'}."
            )
        # In a thread: a schema may take a part of a second.
        if problem := await asyncio.to_thread(tool.arguments.problem, arguments):
            raise McpCallError(f"Invalid arguments for {self.config.name} {tool_name}: {problem}")
        try:
            result = await self._call(tool_name, arguments, meta, headers)
        except McpSessionLostError:  # it was not carried out, so it can be made again
            if self._first.done():
                self._first = asyncio.get_running_loop().create_future()  # which the owner sets when it is back
            result = await self._call(tool_name, arguments, meta, headers)
        return await asyncio.to_thread(read_result, self.config, tool, result)

    async def close(self) -> None:
        """Close the connection and stop its server. Calls in progress fail."""
        self._closing.set()
        if self._listing is not None:
            self._listing.cancel()
        if (owner := self._owner) is not None:
            await asyncio.wait({owner}, timeout=self._settings.close_seconds)
            owner.cancel()
            with suppress(asyncio.CancelledError):
                await owner

    # --- requests -----------------------------------------------------------------------------------------------------

    async def _use(self) -> McpSession:
        """The open session; the first use waits for it. Raises McpUnavailableError."""
        self.last_used = self._clock()
        if self._closing.is_set():
            raise self._unused()
        if self._open_session is None:
            if self._owner is not None and self._is_leaving:
                await asyncio.wait({self._owner})
            if self._owner is None:
                self._is_leaving = False
                self._first = asyncio.get_running_loop().create_future()
                self._owner = asyncio.create_task(self._own())
                self._owner.add_done_callback(self._ended)
            await asyncio.shield(self._first)  # done if this is not the first use
        if (session := self._open_session) is None:
            reason = (self.last_error or "its session is over").rstrip(".")
            pause = self.retry_seconds
            when = f"It is tried again in {pause:.0f} seconds." if pause >= 1 else "It is being started again."
            raise McpUnavailableError(f"The MCP server {self.config.name} is not available: {reason}. {when}")
        return session

    def _unused(self) -> McpUnavailableError:
        return McpUnavailableError(f"The MCP server {self.config.name} is not used any more.")

    @property
    def _open_session(self) -> McpSession | None:
        session = self._session
        return session if session is not None and not session.link.over.is_set() else None

    async def _list_tools(self, session: McpSession) -> ToolList:
        self._calls += 1
        try:
            async with asyncio.timeout(self.config.timeout_seconds):
                tools = await session.list_tools()
        except TimeoutError:
            self._no_answer(session)
            seconds = self.config.timeout_seconds
            raise McpUnavailableError(
                f"The MCP server {self.config.name} did not list its tools within {seconds:g} seconds."
            ) from None
        except McpToolError as error:
            self.last_error = error.message
            raise
        finally:
            self._calls -= 1
        self._answered()
        self.known_tools, self._tools_expire = tools, self._clock() + self._settings.tools_seconds
        return tools

    def _listed(self, listing: asyncio.Task[ToolList]) -> None:
        self._listing = None
        if not listing.cancelled():
            listing.exception()  # the callers have it, if any still wait

    async def _call(self, tool: str, arguments: JsonObject, meta: JsonObject, headers: Mapping[str, str]) -> JsonObject:
        session = await self._use()
        self._calls += 1
        try:
            async with asyncio.timeout(self.config.timeout_seconds):
                result = await session.call_tool(tool, arguments, meta=meta, headers=headers)
        except TimeoutError:
            self._no_answer(session)
            raise McpUnavailableError(
                f"{self.config.name} {tool} did not answer within {self.config.timeout_seconds:g} seconds."
            ) from None
        finally:
            self._calls -= 1
            self.last_used = self._clock()
        self._answered()
        return result

    def _answered(self) -> None:
        self._failures = self._timeouts = 0
        self.last_error = ""

    def _no_answer(self, session: McpSession) -> None:
        self._timeouts += 1
        if self._timeouts >= self._settings.timeouts_in_a_row:
            self._timeouts = 0
            session.link.end("the server does not answer")

    def _tools_changed(self) -> None:
        self._tools_expire = 0.0

    # --- the owner ----------------------------------------------------------------------------------------------------

    async def _own(self) -> None:
        """Keep a session open while it is used."""
        try:
            while await self._hold_session():
                await self._pause()
                if self._closing.is_set() or self._is_unused():
                    return
        finally:
            self._wake()

    async def _hold_session(self) -> bool:
        """Open a session and keep it until it is over; whether another one is to follow."""
        self.state = ConnectionState.CONNECTING
        link = McpLink(on_tools_changed=self._tools_changed)
        failure = ""
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self.config.connect_seconds):
                    self._session = await stack.enter_async_context(await load_session(self.config, link))
                self.state = ConnectionState.CONNECTED
                self.last_used = self._clock()
                self._wake()
                await self._until_over(link)
            failure = link.reason
        except TimeoutError:
            failure = f"it did not finish its handshake within {self.config.connect_seconds:g} seconds"
        except ParleyError as error:
            failure = error.message
        except Exception as error:  # here a session ends, whatever the SDK raises
            failure = link.reason or f"the connection broke ({type(error).__name__})"
            logger.debug("The MCP server %s: the session ended", self.config.name, exc_info=True)
        finally:
            self._session = None
            self._tools_expire = 0.0
        if not failure or self._closing.is_set():
            self.state = ConnectionState.IDLE
            return False
        self._failed(error_text(self.config, failure), is_lost=link.is_session_lost)
        return True

    async def _until_over(self, link: McpLink) -> None:
        """Wait until the session has ended, is not used any more, or the connection is to be closed."""
        waits = [asyncio.ensure_future(event.wait()) for event in (link.over, self._closing)]
        try:
            while not any(wait.done() for wait in waits):
                left = self.last_used + self._settings.idle_seconds - self._clock()
                if left <= 0 and not self._calls:
                    self._is_leaving = True
                    link.end("")
                    return
                await asyncio.wait(waits, timeout=max(left, 0.01), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def _failed(self, reason: str, *, is_lost: bool) -> None:
        self._failures += 1
        is_lost = is_lost and self._failures == 1  # one that forgets every session at once is a failure like others
        settings = self._settings
        pause = 0.0 if is_lost else min(settings.first_pause * 2 ** (self._failures - 1), settings.longest_pause)
        self._retry_at = self._clock() + pause
        self.state = ConnectionState.BACKOFF
        self.last_error = reason
        if not is_lost:
            self._wake()
            logger.warning("The MCP server %s is down: %s", self.config.name, reason)

    async def _pause(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self.retry_seconds):
                await self._closing.wait()

    def _is_unused(self) -> bool:
        return self._clock() - self.last_used > self._settings.idle_seconds

    def _wake(self) -> None:
        if not self._first.done():
            self._first.set_result(None)

    def _ended(self, owner: asyncio.Task[None]) -> None:
        self._owner = None
        self._wake()  # a call that has just lost its session may wait
        self._failures = 0
        if self.last_error and not self._closing.is_set() and self.state is not ConnectionState.IDLE:
            self.state = ConnectionState.FAILED
        if not owner.cancelled() and (error := owner.exception()) is not None:
            logger.error("The connection to the MCP server %s broke", self.config.name, exc_info=error)
