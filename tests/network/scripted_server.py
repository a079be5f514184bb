"""A server that sends the bytes it is told to, and connections to it, over real sockets."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import trustme

from parley.network.http import HttpRequest, HttpResponse
from parley.network.pinned import PinnedNetwork
from parley.network.pool import ConnectionPool
from parley.network.urls import parse_url
from tests.deadlines import fail_after
from tests.network.wire import Anywhere

OK = b"HTTP/1.1 200 OK\r\n"
HELLO = OK + b"content-length: 5\r\n\r\nhello"

Talk = Callable[["ScriptedServer", asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class ScriptedServer:
    """A server that talks as it is told to whoever comes."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.port = 0
        self.connections = 0
        self.requests: list[bytes] = []
        self.gone = asyncio.Event()
        self.is_over = asyncio.Event()

    async def request(self, reader: asyncio.StreamReader) -> bytes:
        head = await reader.readuntil(b"\r\n\r\n")
        sizes = [int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:")]
        self.requests.append(head + await reader.readexactly(sum(sizes)))
        return self.requests[-1]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            await self.talk(self, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            self.gone.set()
            writer.transport.abort()


async def resolve(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


@asynccontextmanager
async def opened(
    talk: Talk, *, idle_seconds: float = 4.0, tls: ssl.SSLContext | None = None, trust: ssl.SSLContext | None = None
) -> AsyncGenerator[tuple[ScriptedServer, ConnectionPool]]:
    peer = ScriptedServer(talk)
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0, ssl=tls)
    peer.port = server.sockets[0].getsockname()[1]
    network = PinnedNetwork(Anywhere(), resolve)
    pool = ConnectionPool(network, trust or ssl.create_default_context(), connect_seconds=2, idle_seconds=idle_seconds)
    try:
        with fail_after(10):
            yield peer, pool
    finally:
        peer.is_over.set()
        await pool.close()
        server.close()
        await server.wait_closed()


def answering(*replies: bytes, closes: bool = False) -> Talk:
    """Send one reply after the other; the last again and again, unless the connection closes then."""

    async def talk(peer: ScriptedServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number in range(100):
            await peer.request(reader)
            writer.write(replies[min(number, len(replies) - 1)])
            await writer.drain()
            if closes and number == len(replies) - 1:
                writer.close()
                return

    return talk


def soon(seconds: float = 5.0) -> float:
    return asyncio.get_running_loop().time() + seconds


def asked(
    peer: ScriptedServer, verb: str = "POST", path: str = "/", body: bytes = b"", scheme: str = "http"
) -> HttpRequest:
    return HttpRequest(verb, parse_url(f"{scheme}://agent.example:{peer.port}{path}"), {"accept": "*/*"}, body)


async def all_of(reply: HttpResponse) -> bytes:
    body = b""
    while piece := await reply.read(soon()):
        body += piece
    return body


async def exchange(pool: ConnectionPool, request: HttpRequest) -> tuple[int, bytes]:
    reply = await pool.send(request, soon())
    try:
        return reply.status, await all_of(reply)
    finally:
        await reply.close()


def contexts(name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    authority = trustme.CA()
    served, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert(name).configure_cert(served)
    authority.configure_trust(trusting)
    return served, trusting
