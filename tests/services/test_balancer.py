"""The balancer: connections in turn, replicas that refuse are skipped, and ends are passed on."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest

from tests.services.balancer import Balancer

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    """Both event loops: their connections differ."""
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


@asynccontextmanager
async def answering(name: bytes) -> AsyncGenerator[asyncio.Server]:
    """A server that answers each line with its name, until the line is `end`."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (line := await reader.readline()) not in (b"", b"end\n"):
            writer.write(name + b" " + line)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server
    finally:
        server.close()


def port_of(server: asyncio.Server) -> int:
    return int(server.sockets[0].getsockname()[1])


async def asked(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"hello\n")
    answer = await reader.readline()
    writer.write(b"end\n")
    assert await reader.read() == b""
    writer.close()
    return answer


async def test_connections_go_to_replicas_in_turn_and_those_that_refuse_are_skipped() -> None:
    async with asyncio.timeout(20), AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(answering(name)) for name in (b"a", b"b", b"c")]
        balancer = Balancer([port_of(server) for server in servers])
        port = await balancer.start()
        stack.push_async_callback(balancer.close)
        assert [await asked(port) for _ in range(4)] == [b"a hello\n", b"b hello\n", b"c hello\n", b"a hello\n"]
        servers[1].close()
        await servers[1].wait_closed()
        assert {await asked(port) for _ in range(3)} == {b"a hello\n", b"c hello\n"}


async def test_a_connection_is_ended_when_all_replicas_refuse() -> None:
    async with asyncio.timeout(20), AsyncExitStack() as stack:
        server = await stack.enter_async_context(answering(b"a"))
        balancer = Balancer([port_of(server)])
        port = await balancer.start()
        stack.push_async_callback(balancer.close)
        server.close()
        await server.wait_closed()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
