"""A forward proxy on a real port: tunnels (CONNECT) and requests in absolute form, to servers of this machine."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress


class ForwardProxy:
    """A proxy to which every host name is this machine. `refusal` is what it answers instead."""

    def __init__(self) -> None:
        self.port = 0
        self.lines: list[str] = []
        """The first line of each request, without the version."""
        self.authorizations: list[str | None] = []
        self.ports: Mapping[int, int] = {}
        """The ports that stand for others, such as 443."""
        self.refusal: bytes | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Break all connections."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            await self._answer(reader, writer)
        self._writers.discard(writer)
        writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line, *rest = (await reader.readuntil(b"\r\n\r\n")).decode().removesuffix("\r\n\r\n").split("\r\n")
        headers = dict(header.split(": ", 1) for header in rest)
        self.authorizations.append(headers.pop("proxy-authorization", None))
        method, target, _ = line.split(" ")
        self.lines.append(f"{method} {target}")
        if self.refusal is not None:
            writer.write(self.refusal)
            await writer.drain()
            await reader.read()
            return
        _, _, beyond = target.rpartition("://")
        authority, slash, path = beyond.partition("/")
        port = int(authority.rpartition(":")[2])
        upstream, downstream = await asyncio.open_connection("127.0.0.1", self.ports.get(port, port))
        self._writers.add(downstream)
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            headers["connection"] = "close"
            lines = [f"{method} {slash}{path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
            downstream.write("\r\n".join([*lines, "", ""]).encode())
        try:
            await asyncio.wait(
                [asyncio.ensure_future(_pipe(reader, downstream)), asyncio.ensure_future(_pipe(upstream, writer))],
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            self._writers.discard(downstream)
            downstream.transport.abort()
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def forward_proxy(tls: ssl.SSLContext | None = None) -> AsyncGenerator[ForwardProxy]:
    proxy = ForwardProxy()
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, ssl=tls)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        proxy.cut()
        await server.wait_closed()
