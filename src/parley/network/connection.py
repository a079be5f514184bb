"""One HTTP/1.1 connection to a server: a request at a time.

Bytes that a server sends unasked, or after its response, end the connection: they must never become part of the next
response. Connections are aborted rather than closed gracefully, because a server might never answer a close. RFC 9112.
"""

from __future__ import annotations

import asyncio
import select
import ssl
from collections.abc import Callable
from typing import Any, cast

from parley.network.errors import (
    BrokenConnectionError,
    ConnectError,
    ConnectTimeoutError,
    ReadTimeoutError,
    connect_error,
)
from parley.network.proxies import Proxy
from parley.network.response import IncomingResponse
from parley.network.urls import Url


class Connection(asyncio.Protocol):
    """A connection, used for as many requests as the server allows."""

    transport: asyncio.Transport

    def __init__(self, url: Url, *, on_idle: Callable[[Connection], None]) -> None:
        """`url` has the origin of all requests. `on_idle` is called when another request can be sent."""
        self.url = url
        self.is_tunnel = False
        self._on_idle = on_idle
        self._response: IncomingResponse | None = None

    # --- sending ------------------------------------------------------------------------------------------------------

    async def send(self, request: bytes, deadline: float) -> IncomingResponse:
        """Send a request and wait for the head of its response. Raises NetworkError."""
        if self.transport.is_closing():
            raise ConnectError("the server closed the connection at once")
        response = self._response = IncomingResponse(self)
        self.transport.write(request)
        try:
            await response.wait_for_head(deadline)
        except BaseException:
            response.release()
            raise
        return response

    async def open_tunnel(self, proxy: Proxy, tls: ssl.SSLContext, *, timeout: float) -> None:
        """Ask the proxy at the other end for a tunnel to the origin, and use TLS through it from here on.

        Raises:
            ConnectError: there is no tunnel, or TLS fails. The connection is closed.
        """
        try:
            async with asyncio.timeout(timeout):
                await self._tunnel(proxy, tls, timeout)
        except (TimeoutError, ReadTimeoutError):
            raise ConnectTimeoutError("the server does not answer through the proxy") from None
        except OSError as error:
            raise connect_error(error) from error
        except BrokenConnectionError as error:
            raise ConnectError(f"the proxy {proxy.authority} opens no tunnel: {error}") from error
        finally:
            if not self.is_tunnel:
                self.transport.abort()

    async def _tunnel(self, proxy: Proxy, tls: ssl.SSLContext, timeout: float) -> None:
        loop = asyncio.get_running_loop()
        response = await self.send(proxy.connect_request(self.url), loop.time() + timeout)
        if not 200 <= response.status < 300:
            raise ConnectError(
                f"the proxy {proxy.authority} opens no tunnel: it answered with status {response.status}"
            )
        if not response.detach():
            raise ConnectError(f"the proxy {proxy.authority} opens no tunnel: it sent a body")
        self._response = None
        transport = await loop.start_tls(self.transport, self, tls, server_hostname=self.url.host)
        if transport is None:
            raise ConnectError("the server closed the connection at once")
        self.transport, self.is_tunnel = transport, True

    @property
    def is_reusable(self) -> bool:
        """Whether another request can be sent: the server has not closed, sent nothing unasked, and reads."""
        return not self.transport.is_closing() and _is_idle(self.transport.get_extra_info("socket"))

    def close(self) -> None:
        """Abort the connection and whatever is in flight."""
        self.transport.abort()

    # --- called by the response ---------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Stop reading, so that the server has to wait."""
        self.transport.pause_reading()

    def resume(self) -> None:
        """Read again."""
        self.transport.resume_reading()

    def release(self, *, is_done: bool) -> None:
        """Allow another request if the response is done and the request was sent completely; otherwise abort."""
        self._response = None
        if is_done and not self.transport.is_closing() and not self.transport.get_write_buffer_size():
            self._on_idle(self)
        else:
            self.transport.abort()

    # --- called by the event loop -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        self.transport = cast("asyncio.Transport", transport)  # uvloop's transports do not inherit from asyncio's

    def data_received(self, data: bytes) -> None:
        """Bytes arrived."""
        response = self._response
        if response is None or response.is_finished or not response.feed(data):
            self.transport.abort()

    def eof_received(self) -> None:
        """The server finished sending; or, over TLS, something in between cut the connection."""
        if self._response is not None:
            self._response.end(by_server=_is_closed_by_peer(self.transport.get_extra_info("ssl_object")))
        self.transport.abort()  # at once: the server may never read what is still to be sent

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        if self._response is not None:
            self._response.end(by_server=False)


def _is_closed_by_peer(tls: ssl.SSLObject | None) -> bool:
    """Whether the server itself ended the connection: over TLS with close_notify, which asyncio does not report."""
    try:
        return tls is None or not tls.read(1)
    except ssl.SSLError:  # no close_notify: more was to come
        return False


def _is_idle(socket: Any) -> bool:
    """Whether the socket has nothing to read, not even an end, and can be written to. The loop may not know yet."""
    number = socket.fileno()
    if not hasattr(select, "poll"):  # Windows
        readable, writable, _ = select.select([number], [number], [], 0)
        return bool(writable) and not readable
    poll = select.poll()
    poll.register(number, select.POLLIN | select.POLLOUT)
    return poll.poll(0) == [(number, select.POLLOUT)]
