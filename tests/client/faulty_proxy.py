"""A TCP proxy that does on purpose what networks do by accident, at any point of an exchange.

Each connection has a fault of its own, in the order in which they come; those without one are passed on as they are.
What passes is kept, so that a test can find the points that matter: the ends of headers and frames.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum, auto


class Kind(Enum):
    """What happens."""

    CLOSE = auto()
    """The connection is closed in both directions."""
    RESET = auto()
    """It is torn down, and whoever writes or reads gets an error."""
    STALL = auto()
    """Nothing passes any more, and nobody is told."""
    DRIBBLE = auto()
    """Everything passes, in pieces of `after` bytes."""
    REPEAT_REQUEST = auto()
    """The request reaches the server twice, over two connections; the second answer is thrown away."""
    REPEAT_CHUNKS = auto()
    """Each chunk of a chunked reply passes twice."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: after how many bytes of the request or of the reply."""

    kind: Kind
    after: int = 0
    in_request: bool = False


@dataclass(slots=True)
class FaultyProxy:
    """Passes connections on to a port. `replies` has the bytes of each connection's reply that have passed."""

    target: int
    faults: list[Fault | None] = field(default_factory=list["Fault | None"])
    always: Fault | None = None
    """The fault of all connections after those."""
    requests: list[bytearray] = field(default_factory=list[bytearray])
    replies: list[bytearray] = field(default_factory=list[bytearray])
    port: int = 0
    again: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when there was more than one connection since the last plan."""
    _writers: set[asyncio.StreamWriter] = field(default_factory=set[asyncio.StreamWriter])
    _tasks: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    @property
    def url(self) -> str:
        """Where the proxy listens."""
        return f"http://127.0.0.1:{self.port}"

    def plan(self, *faults: Fault | None, always: Fault | None = None) -> None:
        """Begin anew: the next connections have these faults."""
        self.faults, self.always = list(faults), always
        self.requests.clear()
        self.replies.clear()
        self.again.clear()

    @property
    def connections(self) -> int:
        """How many there were since the last plan."""
        return len(self.requests)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fault = self.faults.pop(0) if self.faults else self.always
        asked, replied = bytearray(), bytearray()
        self.requests.append(asked)
        self.replies.append(replied)
        if len(self.requests) > 1:
            self.again.set()
        upstream_reader, upstream = await asyncio.open_connection("127.0.0.1", self.target)
        writers = [writer, upstream]
        targets = [upstream]
        if fault is not None and fault.kind is Kind.REPEAT_REQUEST:
            echo_reader, echo = await asyncio.open_connection("127.0.0.1", self.target)
            writers.append(echo)
            targets.append(echo)
            drain = asyncio.ensure_future(_swallow(echo_reader))
            self._tasks.add(drain)
        self._writers.update(writers)
        there = fault if fault is not None and fault.in_request else None
        back = fault if fault is not None and not fault.in_request else None
        passing = [
            asyncio.ensure_future(self._pass(reader, targets, asked, there)),
            asyncio.ensure_future(self._pass(upstream_reader, [writer], replied, back)),
        ]
        try:
            await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in passing:
                task.cancel()
            await asyncio.gather(*passing, return_exceptions=True)
            is_reset = fault is not None and fault.kind is Kind.RESET
            for each in writers:
                _close(each, reset=is_reset)
            self._writers.difference_update(writers)

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writers: Sequence[asyncio.StreamWriter],
        kept: bytearray,
        fault: Fault | None,
    ) -> None:
        """Pass bytes on until one side closes or the fault strikes."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            if fault is not None and fault.kind is Kind.REPEAT_CHUNKS:
                await _repeat_chunks(reader, writers[0])
                return
            is_cut = fault is not None and fault.kind in (Kind.CLOSE, Kind.RESET, Kind.STALL)
            while True:
                room = fault.after - len(kept) if fault is not None and is_cut else 1 << 16
                if room <= 0:
                    break
                size = fault.after if fault is not None and fault.kind is Kind.DRIBBLE else room
                data = await reader.read(min(size, room))
                if not data:
                    return
                kept += data
                for writer in writers:
                    writer.write(data)
                    await writer.drain()
        if fault is not None and fault.kind is Kind.STALL:
            await asyncio.Event().wait()

    async def close(self) -> None:
        """End all connections."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in list(self._writers):
            _close(writer, reset=True)


async def _swallow(reader: asyncio.StreamReader) -> None:
    while await reader.read(1 << 16):
        pass


async def _repeat_chunks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass one reply on, each of its chunks twice but the empty one that ends it."""
    writer.write(await reader.readuntil(b"\r\n\r\n"))
    size = 1
    while size:
        line = await reader.readuntil(b"\r\n")
        size = int(line, 16)
        chunk = line + await reader.readexactly(size + 2)
        writer.write(chunk * 2 if size else chunk)
        await writer.drain()


def _close(writer: asyncio.StreamWriter, *, reset: bool) -> None:
    if reset:
        door: socket.socket = writer.get_extra_info("socket")
        with suppress(OSError):
            door.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    else:
        writer.close()


@asynccontextmanager
async def faulty_proxy(target: int) -> AsyncGenerator[FaultyProxy]:
    """A proxy to a local port, until the block ends."""
    proxy = FaultyProxy(target)
    server = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close()
        await server.wait_closed()


def points_of(passed: bytes, *, border: bytes, step: int) -> list[int]:
    """Where to strike: around the end of each frame, and every few bytes in between."""
    points = set(range(0, len(passed), step)) | {len(passed) - 1}
    place = passed.find(border)
    while place >= 0:
        end = place + len(border)
        points |= {end - 1, end, end + 1}
        place = passed.find(border, end)
    return sorted(point for point in points if 0 <= point < len(passed))
