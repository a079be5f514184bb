"""One HTTP/1.1 connection of ours to a server: a request at a time, parsed as it comes, in bounded memory.

What a server sends without being asked, or beyond its reply, ends the connection: nothing of it may be taken for the
reply to the next request. RFC 9112.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from typing import Any, cast

import httptools

from parley.network.errors import BrokenConnectionError, NetworkError, SilentConnectionError
from parley.network.http import Server

MOST_OVERHEAD = 64 * 1024
"""Bytes that may come without a byte of a body: heads, chunk headers, trailers. Servers' own limits are lower."""

MOST_UNREAD = 256 * 1024
"""Bytes of a body that wait for their reader; then the server waits."""


class Connection(asyncio.Protocol):
    """A connection, kept for as many requests as the server allows."""

    transport: asyncio.Transport

    def __init__(
        self, server: Server, *, on_free: Callable[[Connection], None], on_lost: Callable[[Connection], None]
    ) -> None:
        """What is called when another request can be sent, and when the connection has ended."""
        self.server = server
        self._on_free = on_free
        self._on_lost = on_lost
        self._parser = httptools.HttpResponseParser(self)
        self._reply: Reply | None = None
        self._is_final = False
        self._can_stay = False
        self._overhead = 0

    # --- what is asked ------------------------------------------------------------------------------------------------

    async def ask(self, request: bytes, until: float) -> Reply:
        """Send a request and wait for the head of its reply. Raises NetworkError."""
        reply = self._reply = Reply(self)
        self._overhead, self._can_stay, self._is_final = 0, False, False
        self.transport.write(request)
        try:
            await reply.begun(until)
        except BaseException:
            self.transport.abort()
            raise
        return reply

    @property
    def is_free(self) -> bool:
        """Whether another request can be sent: the server has not closed, and has said nothing unasked."""
        return not self.transport.is_closing() and not _is_readable(self.transport.get_extra_info("socket"))

    def release(self, reply: Reply) -> None:
        """Let go of a reply. Only if it was received whole, and the request sent whole, can another follow."""
        self._reply = None
        can_stay = self._can_stay and reply.is_whole and not self.transport.get_write_buffer_size()
        if can_stay and not self.transport.is_closing():
            self._on_free(self)
        else:
            self.transport.abort()

    def close(self) -> None:
        """Close it, whatever is on its way."""
        self.transport.abort()

    # --- what comes ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is none of asyncio's classes

    def data_received(self, data: bytes) -> None:
        """Parse what came."""
        reply = self._reply
        if reply is None or reply.is_over:
            self.transport.abort()  # nobody asked
            return
        self._overhead += len(data)
        try:
            self._parser.feed_data(data)
            if self._overhead > MOST_OVERHEAD:
                raise httptools.HttpParserError("the headers are too long")
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            reason = "it switches protocols" if isinstance(error, httptools.HttpParserUpgrade) else str(error)
            self._can_stay = False
            reply.fail(BrokenConnectionError(f"what came is no HTTP: {reason}"))
            self.transport.abort()
        reply.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended. That is also how a reply ends whose length nobody said."""
        self._can_stay = False
        reply = self._reply
        if reply is not None and not reply.is_over:
            if exc is None and reply.ends_with_connection:
                reply.is_whole = True
            else:
                begun = "in the middle of its reply" if reply.has_begun else "without a reply"
                reply.fail(BrokenConnectionError(f"it ended {begun}"))
            reply.wake()
        self._on_lost(self)

    # --- what the parser says -----------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A reply's first byte."""
        if self._reply is None or self._reply.is_over:
            raise _Unasked

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer, which is dropped."""
        reply = self._reply
        if reply is not None and not self._is_final:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1")
            before = reply.headers.get(key)
            reply.headers[key] = text if before is None else f"{before}, {text}"

    def on_headers_complete(self) -> None:
        """The end of a head: of the reply's own, or of one that only says that it will come."""
        reply = self._reply
        status = self._parser.get_status_code()
        if reply is None:
            return
        if status < 200:
            reply.headers.clear()
            return
        self._is_final, self._overhead = True, 0
        # A server that has failed may close without having said so, as uvicorn does.
        self._can_stay = self._parser.should_keep_alive() and status < 500
        reply.status = status
        is_chunked = "chunked" in reply.headers.get("transfer-encoding", "").lower()
        reply.ends_with_connection = not is_chunked and "content-length" not in reply.headers

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._overhead = 0
        if self._reply is not None:
            self._reply.add(body)

    def on_message_complete(self) -> None:
        """The reply's last byte."""
        if self._reply is not None and self._is_final:
            self._reply.is_whole = True


class _Unasked(Exception):
    """Ends the parsing of what follows a reply."""


class Reply:
    """The reply to one request."""

    def __init__(self, connection: Connection) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.is_whole = False
        self.ends_with_connection = False
        self._connection: Connection | None = connection
        self._pieces: list[bytes] = []
        self._unread = 0
        self._is_paused = False
        self._failure: NetworkError | None = None
        self._waiter: asyncio.Future[None] | None = None

    # --- for who reads ------------------------------------------------------------------------------------------------

    async def begun(self, until: float) -> None:
        """Wait for the head."""
        while not self.status:
            if self._failure is not None:
                raise self._failure
            await self._news(until)

    async def read(self, until: float) -> bytes:
        """The next piece of the body; nothing at its end."""
        while not self._pieces:
            if self.is_whole:
                return b""
            if self._failure is not None:
                raise self._failure
            await self._news(until)
        pieces, self._pieces, self._unread = self._pieces, [], 0
        if self._is_paused and self._connection is not None:
            self._is_paused = False
            self._connection.transport.resume_reading()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def close(self) -> None:
        """Let the connection go."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.release(self)

    async def _news(self, until: float) -> None:
        loop = asyncio.get_running_loop()
        waiter = self._waiter = loop.create_future()
        timer = loop.call_at(until, _expire, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiter = None

    # --- for the connection -------------------------------------------------------------------------------------------

    @property
    def has_begun(self) -> bool:
        """Whether its head is there."""
        return self.status > 0

    @property
    def is_over(self) -> bool:
        """Whether nothing can follow."""
        return self.is_whole or self._failure is not None

    def add(self, piece: bytes) -> None:
        """Take a piece of the body, and no more for a while if nobody reads."""
        self._pieces.append(piece)
        self._unread += len(piece)
        if self._unread > MOST_UNREAD and not self._is_paused and self._connection is not None:
            self._is_paused = True
            self._connection.transport.pause_reading()

    def fail(self, error: NetworkError) -> None:
        """End it with an error, which comes after what was received."""
        self._failure = error

    def wake(self) -> None:
        """Tell who reads that there is something new."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _expire(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(SilentConnectionError("nothing came for too long"))


def _is_readable(socket: Any) -> bool:
    """Whether there is something to read, or the other side has closed: what the loop has not been told yet."""
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select([socket.fileno()], [], [], 0)[0])
    poll = select.poll()
    poll.register(socket.fileno(), select.POLLIN)
    return bool(poll.poll(0))
