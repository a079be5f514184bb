"""A TCP proxy in front of PostgreSQL that cuts a connection at a message which a test names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from enum import Enum
from urllib.parse import urlsplit, urlunsplit

from tests.services.postgres import free_port


class Cut(Enum):
    """What becomes of the message at which the connection is cut."""

    ANSWERED = "the server has done it, and its answer is lost"
    DROPPED = "it never reaches the server"
    LATE = "the client loses its connection, and the message reaches the server when the test says so"


class CuttingProxy:
    """A proxy for one server. It forwards everything, until it is told to cut or to refuse."""

    def __init__(self, server_port: int) -> None:
        self.port = free_port()
        self.cuts = asyncio.Event()
        """Set when the connection was cut."""
        self._server_port = server_port
        self._server: asyncio.Server | None = None
        self._cut: tuple[bytes, Cut] | None = None
        self._late: tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._open: set[asyncio.StreamWriter] = set()

    def url(self, url: str) -> str:
        """The URL of the same database, through this proxy."""
        parts = urlsplit(url)
        user = parts.netloc.rpartition("@")[0]
        return urlunsplit(parts._replace(netloc=f"{user}@127.0.0.1:{self.port}"))

    def cut_at(self, text: bytes, how: Cut) -> None:
        """Cut the next connection whose client sends a text."""
        self._cut = (text, how)
        self.cuts.clear()

    async def deliver(self) -> None:
        """Let the message that is late reach the server, and wait until the server has dealt with it."""
        assert self._late is not None
        message, answers, server = self._late
        server.write(message)
        server.write(b"X\x00\x00\x00\x04")  # the server closes the connection when it has answered
        with suppress(ConnectionError):
            await server.drain()
            while await answers.read(65_536):
                pass
        server.close()

    async def start(self) -> None:
        """Accept connections."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def refuse(self) -> None:
        """Cut all connections, and accept none."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._open):
            writer.close()

    async def _serve(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._server_port)
        self._open |= {to_client, to_server}
        answers = asyncio.create_task(self._forward(from_server, to_client))
        try:
            while data := await from_client.read(1_048_576):
                if self._cut is not None and self._cut[0] in data:
                    (_, how), self._cut = self._cut, None
                    answers.cancel()
                    with suppress(asyncio.CancelledError):
                        await answers
                    if how is Cut.ANSWERED:
                        to_server.write(data)
                        await from_server.read(65_536)
                    if how is Cut.LATE:
                        self._late = (data, from_server, to_server)
                        self._open.discard(to_server)
                    self.cuts.set()
                    return
                to_server.write(data)
                await to_server.drain()
        except ConnectionError:
            pass
        finally:
            answers.cancel()
            for writer in {to_client, to_server} & self._open:
                self._open.discard(writer)
                writer.close()

    async def _forward(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await source.read(1_048_576):
                target.write(data)
                await target.drain()
        target.close()


@asynccontextmanager
async def cutting_proxy(server_port: int) -> AsyncGenerator[CuttingProxy]:
    """A proxy until the block ends."""
    proxy = CuttingProxy(server_port)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.refuse()
