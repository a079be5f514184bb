"""One HTTP/1.1 connection of ours to a server: a request at a time.

What a server sends without being asked, or beyond its reply, ends the connection: nothing of it may be taken for the
reply to the next request. A connection is ended without ceremony, because waiting for the other side's goodbye is
waiting for a stranger. RFC 9112.
"""

from __future__ import annotations

import asyncio
import select
import ssl
from collections.abc import Callable
from typing import Any, cast

from parley.network.errors import NotConnectedError
from parley.network.http import Server
from parley.network.reply import Reply


class Connection(asyncio.Protocol):
    """A connection, kept for as many requests as the server allows."""

    transport: asyncio.Transport

    def __init__(self, server: Server, *, on_free: Callable[[Connection], None]) -> None:
        """What is called when another request can be sent."""
        self.server = server
        self._on_free = on_free
        self._reply: Reply | None = None

    # --- what is asked ------------------------------------------------------------------------------------------------

    async def ask(self, request: bytes, until: float) -> Reply:
        """Send a request and wait for the head of its reply. Raises NetworkError."""
        if self.transport.is_closing():
            raise NotConnectedError("it ended at once")
        reply = self._reply = Reply(self)
        self.transport.write(request)
        try:
            await reply.begun(until)
        except BaseException:
            reply.let_go()
            raise
        return reply

    @property
    def is_free(self) -> bool:
        """Whether another request can be sent: the server has not closed, has said nothing unasked, and reads."""
        return not self.transport.is_closing() and _is_idle(self.transport.get_extra_info("socket"))

    def close(self) -> None:
        """Close it, whatever is on its way."""
        self.transport.abort()

    # --- what its reply needs -----------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Let the server wait."""
        self.transport.pause_reading()

    def resume(self) -> None:
        """Go on."""
        self.transport.resume_reading()

    def release(self, *, is_done: bool) -> None:
        """Let another request follow if the reply is done, and the request was sent whole."""
        self._reply = None
        if is_done and not self.transport.is_closing() and not self.transport.get_write_buffer_size():
            self._on_free(self)
        else:
            self.transport.abort()

    # --- what comes ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is none of asyncio's classes

    def data_received(self, data: bytes) -> None:
        """Something came."""
        reply = self._reply
        if reply is None or reply.is_over or not reply.feed(data):
            self.transport.abort()

    def eof_received(self) -> None:
        """The server has said all, or over TLS, somebody in between has cut the line."""
        if self._reply is not None:
            self._reply.end(by_server=_is_signed(self.transport.get_extra_info("ssl_object")))
        self.transport.abort()  # at once: what is still to be sent, the server may never read

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended."""
        if self._reply is not None:
            self._reply.end(by_server=False)


def _is_signed(tls: ssl.SSLObject | None) -> bool:
    """Whether the server has ended the connection in the way of TLS, which nobody else can. asyncio does not tell."""
    try:
        return tls is None or not tls.read(1)
    except ssl.SSLError:  # there may be more to come
        return False


def _is_idle(socket: Any) -> bool:
    """Whether nothing can be read, not even an end, and something can be sent: what the loop may not know yet."""
    number = socket.fileno()
    if not hasattr(select, "poll"):  # Windows
        readable, writable, _ = select.select([number], [number], [], 0)
        return bool(writable) and not readable
    poll = select.poll()
    poll.register(number, select.POLLIN | select.POLLOUT)
    return poll.poll(0) == [(number, select.POLLOUT)]
