"""A TCP proxy that injects faults of the network: connections that are cut, delayed or partitioned.

A partition is a black hole: connections stay open and carry nothing, new ones are accepted and carry nothing, as when
packets are dropped. When it heals, what was held back arrives, as with TCP. Connections that are abandoned never carry
anything again and do not end either, as when the other machine has gone; new ones work.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tests.services.balancer import CHUNK, cut


class FaultProxy:
    """Forwards connections to one port of this machine, with faults that are switched on and off."""

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self.port = 0
        self.delay = 0.0
        """Seconds by which each chunk of bytes is late, in both directions."""
        self._silent = asyncio.Event()
        """Set when the connections that are open now are abandoned."""
        self._open = asyncio.Event()
        self._open.set()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> int:
        """Listen at a free port; which one it is."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, backlog=1_000)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self.port

    async def close(self) -> None:
        """Stop listening and cut all connections."""
        if self._server is not None:
            self._server.close()
        await self.cut()

    # --- faults -------------------------------------------------------------------------------------------------------

    async def cut(self) -> int:
        """Cut all connections; how many there were."""
        cutting = tuple(self._connections)
        for connection in cutting:
            connection.cancel()
        await asyncio.gather(*cutting, return_exceptions=True)
        return len(cutting)

    def abandon(self) -> int:
        """Let all connections that are open carry nothing for ever, not even their end; how many there were."""
        abandoned, self._silent = self._silent, asyncio.Event()
        abandoned.set()
        return len(self._connections)

    def partition(self) -> None:
        """Carry nothing from now on."""
        self._open.clear()

    def heal(self) -> None:
        """Carry everything again, without delay."""
        self.delay = 0.0
        self._open.set()

    # --- connections --------------------------------------------------------------------------------------------------

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)
        upstream: asyncio.StreamWriter | None = None
        silent = self._silent
        try:
            await self._open.wait()
            source, upstream = await asyncio.open_connection("127.0.0.1", self.target_port)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._copy(reader, upstream, silent))
                both.create_task(self._copy(source, writer, silent))
        except* (OSError, RuntimeError, asyncio.CancelledError):  # a side broke (uvloop: is closed), or a fault cuts it
            pass
        finally:
            cut(writer)
            if upstream is not None:
                cut(upstream)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, silent: asyncio.Event) -> None:
        """Copy one direction. Raises OSError when a side breaks."""
        data = b"at first"
        while data:
            try:
                data = await reader.read(CHUNK)
            except OSError:
                await self._stay_if(silent)
                raise
            if self.delay:
                await asyncio.sleep(self.delay)
            await self._open.wait()
            await self._stay_if(silent)
            writer.write(data)
            await writer.drain()
        with suppress(OSError, RuntimeError):
            writer.write_eof()

    @staticmethod
    async def _stay_if(silent: asyncio.Event) -> None:
        """Wait for ever if the connection is abandoned."""
        if silent.is_set():
            await asyncio.Event().wait()
