"""Connections to servers, kept between two requests."""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from weakref import WeakSet

from parley.network.connection import Connection
from parley.network.errors import NotConnectedError, NotConnectedInTimeError
from parley.network.http import HttpRequest, Place, Server
from parley.network.pinned import PinnedNetwork
from parley.network.reply import Reply

IDLE_CONNECTIONS = 64
"""Connections kept open between two requests."""

IDLE_SECONDS = 4.0
"""How long each of them is kept. uvicorn and Node close theirs after five: a request that meets the end of its
connection on the way would be lost, and nobody could tell whether it arrived."""

CONNECT_SECONDS = 10.0
"""For one address of a host: TCP and TLS. Farther away than that nobody is."""


class ConnectionPool:
    """Sends requests over connections of a network, with TLS where the URL says so."""

    def __init__(
        self,
        network: PinnedNetwork,
        tls: ssl.SSLContext,
        *,
        connect_seconds: float = CONNECT_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        """`tls` says whom to trust, and who the caller is."""
        self._network = network
        self._tls = tls
        self._connect_seconds = connect_seconds
        self._idle_seconds = idle_seconds
        self._open: WeakSet[Connection] = WeakSet()  # the event loop holds a connection as long as it stands
        self._idle: OrderedDict[Connection, float] = OrderedDict()  # until when each is kept, the oldest first
        self._sweeper: asyncio.TimerHandle | None = None
        self._times_closed = 0

    async def send(self, request: HttpRequest, until: float) -> Reply:
        """Send a request; its reply, as soon as its head is there.

        Raises what the network's rules raise, and:
            NetworkError: there is no reply.
            LocalProtocolError: the request cannot be sent.
        """
        data = request.encode()
        connection = self._take_idle(request.place.server) or await self._connect(request.place, until)
        return await connection.ask(data, until)

    async def close(self) -> None:
        """Close all connections, and those that are being opened; a later request opens others."""
        self._times_closed += 1
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        self._idle.clear()
        for connection in list(self._open):
            connection.close()
        await asyncio.sleep(0)  # so that they are closed when this returns

    async def _connect(self, place: Place, until: float) -> Connection:
        times_closed = self._times_closed
        try:
            async with asyncio.timeout_at(until):
                connection = await self._network.connect(
                    lambda: Connection(place.server, on_free=self._keep),
                    place.host,
                    place.port,
                    tls=self._tls if place.scheme == "https" else None,
                    timeout=self._connect_seconds,
                )
        except TimeoutError:
            raise NotConnectedInTimeError("nobody answers") from None
        if self._times_closed != times_closed:
            connection.close()
            raise NotConnectedError("all connections were closed meanwhile")
        self._open.add(connection)
        return connection

    # --- between two requests -----------------------------------------------------------------------------------------

    def _take_idle(self, server: Server) -> Connection | None:
        """The connection that was used last, if there is one to that server that still stands."""
        for connection in reversed(self._idle):
            if connection.server == server:
                del self._idle[connection]
                if connection.is_free:
                    return connection
                connection.close()
                return self._take_idle(server)
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
        """Close what was idle for too long, and come back for the rest."""
        loop = asyncio.get_running_loop()
        self._sweeper = None
        while self._idle:
            oldest, until = next(iter(self._idle.items()))
            if until > loop.time():
                self._sweeper = loop.call_at(until, self._sweep)
                return
            del self._idle[oldest]
            oldest.close()
