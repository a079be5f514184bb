"""The proxy that injects faults: it carries bytes both ways, and cuts, delays and partitions connections."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from tests.chaos.network import FaultProxy

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    """Both event loops: their connections differ."""
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


@asynccontextmanager
async def echoed() -> AsyncGenerator[FaultProxy]:
    """A proxy in front of a server that sends back what it gets."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    proxy = FaultProxy(int(server.sockets[0].getsockname()[1]))
    await proxy.start()
    try:
        async with asyncio.timeout(20):
            yield proxy
    finally:
        await proxy.close()
        server.close()


async def test_bytes_pass_both_ways_and_so_does_the_end() -> None:
    async with echoed() as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"hello")
        writer.write_eof()
        assert await reader.read() == b"hello"
        writer.close()


async def test_cut_connections_end_and_new_ones_work() -> None:
    async with echoed() as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        assert await proxy.cut() == 1
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"again")
        assert await reader.readexactly(5) == b"again"
        writer.close()


async def test_a_partition_carries_nothing_until_it_heals() -> None:
    async with echoed() as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"one")
        assert await reader.readexactly(3) == b"one"
        proxy.partition()
        writer.write(b"two")
        late_reader, late_writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        late_writer.write(b"late")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await reader.readexactly(1)
        proxy.heal()
        assert await reader.readexactly(3) == b"two"
        assert await late_reader.readexactly(4) == b"late"
        writer.close()
        late_writer.close()


async def test_abandoned_connections_are_silent_for_ever_and_new_ones_work() -> None:
    async with echoed() as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"one")
        assert await reader.readexactly(3) == b"one"
        assert proxy.abandon() == 1
        writer.write(b"two")
        writer.write_eof()
        other_reader, other_writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        other_writer.write(b"new")
        assert await other_reader.readexactly(3) == b"new"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await reader.read(1)
        writer.close()
        other_writer.close()
