"""An HTTP server that sends the bytes it is told to, whatever they are, and a client of it with little patience."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from parley.client.calls import Calls
from parley.client.options import Bounds, Retries, Timeouts
from parley.client.transports.jsonrpc import JsonRpcTransport
from parley.client.transports.rest import RestTransport
from parley.protocol.cards import AgentInterface, Binding
from parley.protocol.versions import Version
from tests.client.open_channel import open_channel
from tests.client.scripted_agent import card_of
from tests.deadlines import fail_after

BOUNDS = Bounds(reply_bytes=100_000, frame_bytes=20_000, stream_bytes=200_000)
TIMEOUTS = Timeouts(connect=0.3, reply=0.4, quiet=0.3)

OK = b"HTTP/1.1 200 OK\r\n"
JSON = OK + b"content-type: application/json\r\n"
STREAM = OK + b"content-type: text/event-stream\r\n\r\n"

Behaviour = Callable[[asyncio.StreamWriter], Awaitable[None]]


class RawServer:
    """A server that reads each request and then behaves as it is told. `heads` has what came before the bodies."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.heads: list[bytes] = []
        self.port = 0
        self.tasks: set[asyncio.Task[None]] = set()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._answer(reader, writer)
            writer.close()
            await writer.wait_closed()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        sizes = [int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        await reader.readexactly(sum(sizes))
        await self.behaviour(writer)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    @asynccontextmanager
    async def calls(
        self, binding: Binding = Binding.JSONRPC, version: Version = Version.V1_0, timeouts: Timeouts = TIMEOUTS
    ) -> AsyncGenerator[Calls]:
        """Calls of this server."""
        channel = open_channel(timeouts=timeouts, bounds=BOUNDS)
        kind = JsonRpcTransport if binding is Binding.JSONRPC else RestTransport
        face = AgentInterface(self.url, binding, version)
        calls = Calls(
            card_of(),
            [(face, version)],
            lambda interface, version: kind(interface, version, channel),
            timeouts=timeouts,
            retries=Retries(attempts=1),
        )
        with fail_after(5):
            try:
                yield calls
            finally:
                await calls.close()


@asynccontextmanager
async def raw_server(behaviour: Behaviour) -> AsyncGenerator[RawServer]:
    """A server that behaves like this."""
    it = RawServer(behaviour)
    server = await asyncio.start_server(it.accept, "127.0.0.1", 0)
    it.port = server.sockets[0].getsockname()[1]
    try:
        yield it
    finally:
        server.close()
        for task in list(it.tasks):
            task.cancel()
        await asyncio.gather(*it.tasks, return_exceptions=True)
        await server.wait_closed()


def says(data: bytes, *, then: bytes = b"", every: float = 0.0, waits: bool = False) -> Behaviour:
    """Send this, and then that without end, or wait for ever."""

    async def behave(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        while then:
            writer.write(then)
            await writer.drain()
            await asyncio.sleep(every)
        if waits:
            await asyncio.Event().wait()

    return behave


def rpc(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, **members}).encode()


def reply(body: bytes, headers: bytes = b"") -> bytes:
    return JSON + headers + b"content-length: %d\r\n\r\n" % len(body) + body


def frame(body: bytes) -> bytes:
    return b"data: " + body + b"\n\n"
