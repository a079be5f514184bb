"""A pool of connections, kept open between requests."""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from weakref import WeakSet

from parley.network.connection import Connection
from parley.network.errors import ConnectError, ConnectTimeoutError
from parley.network.http import HttpRequest
from parley.network.pinned import PinnedNetwork
from parley.network.proxies import Proxy
from parley.network.response import IncomingResponse
from parley.network.urls import Url

IDLE_CONNECTIONS = 64
"""Connections kept open between requests."""

IDLE_SECONDS = 4.0
"""How long each of them is kept. uvicorn and Node close theirs after five: a request sent at that moment would be lost,
and the client could not tell whether it arrived."""

CONNECT_SECONDS = 10.0
"""For one address of a host: TCP and TLS. No server on earth needs longer."""


class ConnectionPool:
    """Sends requests over pooled connections, with TLS for https."""

    def __init__(
        self,
        network: PinnedNetwork,
        tls: ssl.SSLContext,
        *,
        connect_seconds: float = CONNECT_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        """`tls` holds the trusted authorities, and the client certificate if there is one."""
        self._network = network
        self._tls = tls
        self._connect_seconds = connect_seconds
        self._idle_seconds = idle_seconds
        self._open: WeakSet[Connection] = WeakSet()  # the event loop holds a connection while it is open
        self._idle: OrderedDict[Connection, float] = OrderedDict()  # when each expires, the oldest first
        self._sweeper: asyncio.TimerHandle | None = None
        self._times_closed = 0

    async def send(self, request: HttpRequest, deadline: float) -> IncomingResponse:
        """Send a request and return its response as soon as its head arrives.

        Raises what the network's rules raise, and:
            NetworkError: there is no response.
            LocalProtocolError: the request is invalid.
        """
        url = request.url
        proxy = self._network.proxies.find(url.scheme, url.host, url.port)
        data = request.encode(proxy if url.scheme == "http" else None)
        connection = self._take_idle(url.origin) or await self._connect(url, proxy, deadline)
        return await connection.send(data, deadline)

    async def close(self) -> None:
        """Close all connections, including those being opened; a later request opens new ones."""
        self._times_closed += 1
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        self._idle.clear()
        for connection in list(self._open):
            connection.close()
        await asyncio.sleep(0)  # so that they are closed when this returns

    async def _connect(self, url: Url, proxy: Proxy | None, deadline: float) -> Connection:
        times_closed = self._times_closed
        tls = self._tls if url.scheme == "https" else None
        timeout = self._connect_seconds
        try:
            async with asyncio.timeout_at(deadline):
                if proxy is None:
                    connection = await self._network.connect(
                        lambda: self._new(url), url.host, url.port, tls=tls, timeout=timeout
                    )
                else:
                    await self._network.check(url.host, url.port)
                    connection = await self._network.connect_to_proxy(lambda: self._new(url), proxy, timeout=timeout)
                    if tls is not None:
                        await connection.open_tunnel(proxy, tls, timeout=timeout)
        except TimeoutError:
            raise ConnectTimeoutError("the server does not answer") from None
        if self._times_closed != times_closed:
            connection.close()
            raise ConnectError("all connections were closed in the meantime")
        self._open.add(connection)
        return connection

    def _new(self, url: Url) -> Connection:
        return Connection(url, on_idle=self._keep)

    # --- idle connections ---------------------------------------------------------------------------------------------

    def _take_idle(self, origin: str) -> Connection | None:
        """The most recently used idle connection to an origin that is still open."""
        for connection in reversed(self._idle):
            if connection.url.origin == origin:
                del self._idle[connection]
                if connection.is_reusable:
                    return connection
                connection.close()
                return self._take_idle(origin)
        return None

    def _keep(self, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        self._idle[connection] = loop.time() + self._idle_seconds
        if len(self._idle) > IDLE_CONNECTIONS:
            oldest, _ = self._idle.popitem(last=False)
            oldest.close()
        if self._sweeper is None:
            self._sweeper = loop.call_later(self._idle_seconds, self._sweep)

    def _sweep(self) -> None:
        """Close connections that were idle for too long, and schedule the next sweep for the rest."""
        loop = asyncio.get_running_loop()
        self._sweeper = None
        while self._idle:
            oldest, expires = next(iter(self._idle.items()))
            if expires > loop.time():
                self._sweeper = loop.call_at(expires, self._sweep)
                return
            del self._idle[oldest]
            oldest.close()
