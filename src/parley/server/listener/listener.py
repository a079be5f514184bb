"""Accepts connections on sockets and checks their deadlines once a second.

Nothing here knows A2A. A client certificate that TLS has verified is in `scope["extensions"]["tls"]`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from email.utils import formatdate

from starlette.types import ASGIApp
from uvicorn.config import Config

from parley.server.listener.connection import HttpServerConnection, ListenerState
from parley.server.listener.limits import ListenerLimits

BACKLOG = 2_048
"""Connections that may wait to be accepted, as in uvicorn; the kernel's own limit is often lower."""

FLUSH_SECONDS = 2.0
"""How long closed connections may take to deliver their last bytes, and requests to notice the disconnect."""

logger = logging.getLogger(__name__)


class Listener:
    """Serves an ASGI application on sockets. It does not start or stop the application."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: ListenerLimits | None = None,
        tls: ssl.SSLContext | None = None,
        trusted_proxies: Sequence[str] = (),
        access_log: bool = False,
    ) -> None:
        """`trusted_proxies` are the addresses and networks whose `X-Forwarded-…` headers are used."""
        self.limits = limits or ListenerLimits()
        self.state = ListenerState(self.limits, trusted_proxies)
        self._tls = tls
        self._config = Config(
            app,  # type: ignore[arg-type]  # uvicorn and starlette declare the same interface differently
            http=HttpServerConnection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=access_log,
            proxy_headers=bool(trusted_proxies),
            forwarded_allow_ips=list(trusted_proxies),
            server_header=False,
            workers=1,
        )
        if access_log:  # an earlier listener of this process may have turned it off
            logging.getLogger("uvicorn.access").propagate = True
        self._servers: list[asyncio.Server] = []
        self._checker: asyncio.Task[None] | None = None

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        """Accept connections on bound sockets. The listener owns the sockets from now on."""
        if not self._config.loaded:
            self._config.load()
        loop = asyncio.get_running_loop()
        self.check(loop.time())
        self._checker = loop.create_task(self._check_regularly())
        timeout = self.limits.handshake_seconds if self._tls else None
        for bound in sockets:
            server = await loop.create_server(
                self._connection,
                sock=bound,
                ssl=self._tls,
                backlog=BACKLOG,
                ssl_handshake_timeout=timeout,
                ssl_shutdown_timeout=timeout,
            )
            self._servers.append(server)

    def _connection(self) -> HttpServerConnection:
        return HttpServerConnection(self._config, self.state, {})

    def end_kept_alive(self) -> None:
        """Close every connection after its next reply, which says so; new ones are still accepted."""
        self.state.is_ending = True
        for connection in self._connections():
            connection.end_kept_alive()

    def stop_accepting(self) -> None:
        """Accept no more connections; close idle ones now, and the others after their replies."""
        for server in self._servers:
            server.close()
        for connection in self._connections():
            connection.shutdown()

    async def close(self, *, grace: float = 0.0) -> None:
        """Wait up to `grace` seconds for active replies, then cut off the rest."""
        self.stop_accepting()
        if self.state.tasks and grace > 0:
            await asyncio.wait(self.state.tasks, timeout=grace)
        for connection in self._connections():
            connection.transport.close()
        if late := list(self.state.tasks):
            logger.warning("%d requests were not answered in time and are cut off", len(late))
            # They are told that the client has disconnected. A request that does not react is cancelled.
            for connection in self._connections():
                connection.transport.abort()
            _, unresponsive = await asyncio.wait(late, timeout=FLUSH_SECONDS)
            for task in unresponsive:
                task.cancel()
        await self._flush()
        if self._checker is not None:
            self._checker.cancel()
        for server in self._servers:
            await server.wait_closed()

    async def _flush(self) -> None:
        """Wait until closed connections have sent their last bytes, at most `FLUSH_SECONDS`."""
        if self.state.connections:
            self.state.emptied.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.state.emptied.wait(), FLUSH_SECONDS)
        for connection in self._connections():
            connection.transport.abort()

    def _connections(self) -> list[HttpServerConnection]:
        return [connection for connection in self.state.connections if isinstance(connection, HttpServerConnection)]

    async def _check_regularly(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self.limits.check_seconds)
            self.check(loop.time())

    def check(self, now: float) -> None:
        """Check the deadlines of every connection, and set the time that connections read until the next check."""
        self.state.now = now
        self.state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
        for connection in self._connections():
            connection.check(now)
