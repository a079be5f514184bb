"""A small TCP balancer over replicas on one machine, for `make cluster` and the chaos harness.

    python -m tests.services.balancer --port 8080 8081 8082 8083

Each connection goes to the next replica in turn. A replica that refuses connections is skipped, so that one that is
killed or drains gets no new ones. A connection stays with its replica, and ends with it. It knows nothing of HTTP.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from contextlib import suppress
from itertools import cycle

CONNECT_SECONDS = 2.0
"""For one replica. On one machine a connection is accepted or refused at once, unless the machine is overloaded."""

CHUNK = 64 * 1024


class Balancer:
    """Forwards connections to ports of this machine, in turn."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = tuple(ports)
        self._turns = cycle(range(len(self._ports)))
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, port: int = 0) -> int:
        """Listen at a port of this machine, or at a free one; which one it is."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port, backlog=1_000)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop listening and cut all connections."""
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)
        try:
            upstream = await self._connect()
            if upstream is not None:
                await relay((reader, writer), upstream)
        except asyncio.CancelledError:  # `close` ends connections so; asyncio would report it as an error
            pass
        finally:
            cut(writer)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """A connection to the next replica that accepts one; None if all refuse."""
        first = next(self._turns)
        for offset in range(len(self._ports)):
            port = self._ports[(first + offset) % len(self._ports)]
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(CONNECT_SECONDS):
                    return await asyncio.open_connection("127.0.0.1", port)
        return None


async def relay(
    one: tuple[asyncio.StreamReader, asyncio.StreamWriter], other: tuple[asyncio.StreamReader, asyncio.StreamWriter]
) -> None:
    """Copy bytes both ways until both sides have ended, or one of them breaks; then cut both."""
    both = [asyncio.create_task(copy(one[0], other[1])), asyncio.create_task(copy(other[0], one[1]))]
    try:
        await asyncio.gather(*both)
    except (OSError, RuntimeError):  # uvloop raises RuntimeError for a side that is closed
        pass
    finally:
        for task in both:
            task.cancel()
        cut(one[1])
        cut(other[1])


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes one way, with back pressure, and pass the end on. Raises OSError when a side breaks."""
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof() and not writer.is_closing():
        writer.write_eof()


def cut(writer: asyncio.StreamWriter) -> None:
    """End a connection at once."""
    writer.transport.abort()


async def _serve(port: int, replicas: Sequence[int]) -> None:
    balancer = Balancer(replicas)
    await balancer.start(port)
    await asyncio.Event().wait()


def main() -> None:
    """Balance until the process is stopped."""
    parser = argparse.ArgumentParser(description="Forwards TCP connections to replicas on this machine, in turn.")
    parser.add_argument("--port", type=int, required=True, help="the port to listen at")
    parser.add_argument("replicas", type=int, nargs="+", help="the ports of the replicas")
    arguments = parser.parse_args()
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(arguments.port, arguments.replicas))


if __name__ == "__main__":
    main()
