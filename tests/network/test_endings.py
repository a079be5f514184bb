"""How replies and connections end: by whom, when, and what becomes of who waits."""

from __future__ import annotations

import asyncio
import gc
import ssl
import weakref
from collections.abc import Sequence

import pytest

from parley.network.connection import Connection
from parley.network.errors import (
    BrokenConnectionError,
    ConnectError,
    ConnectTimeoutError,
    ReadTimeoutError,
)
from parley.network.http import HttpResponse
from parley.network.pinned import Factory, PinnedNetwork
from parley.network.pool import ConnectionPool
from parley.network.response import MAX_UNREAD_BYTES
from tests.network.scripted_server import (
    HELLO,
    OK,
    ScriptedServer,
    Talk,
    answering,
    asked,
    contexts,
    exchange,
    opened,
    resolve,
    soon,
)
from tests.network.wire import Anywhere

pytestmark = pytest.mark.anyio

UNTIL_THE_END = OK + b"\r\nhello"
"""A reply that ends with its connection."""


def hanging_up(wire: bytes) -> Talk:
    """Reply and drop the connection, without the end that TLS has of its own."""

    async def talk(peer: ScriptedServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await peer.request(reader)
        writer.write(wire)
        await writer.drain()
        writer.transport.abort()

    return talk


class Noted(PinnedNetwork):
    """A network whose connections a test can look at, and hold back."""

    def __init__(self, *, holds_back: bool = False) -> None:
        super().__init__(Anywhere(), resolve)
        self.dialled: list[weakref.ref[Connection]] = []
        self.has_dialled = asyncio.Event()
        self.goes_on = asyncio.Event()
        if not holds_back:
            self.goes_on.set()

    async def dial(
        self, factory: Factory, address: str, port: int, tls: ssl.SSLContext | None, host: str
    ) -> Connection:
        connection = await super().dial(factory, address, port, tls, host)
        self.dialled.append(weakref.ref(connection))
        self.has_dialled.set()
        try:
            await self.goes_on.wait()
        except asyncio.CancelledError:
            connection.close()
            raise
        return connection

    @property
    def first(self) -> Connection:
        connection = self.dialled[0]()
        assert connection is not None
        return connection


def pool_over(network: PinnedNetwork, trust: ssl.SSLContext | None = None) -> ConnectionPool:
    return ConnectionPool(network, trust or ssl.create_default_context(), connect_seconds=60, idle_seconds=60)


# --- the end of a reply -----------------------------------------------------------------------------------------------


async def test_over_tls_only_a_signed_end_ends_a_reply_whose_length_nobody_said() -> None:
    """Whoever sits in between can end a connection, and would decide where the reply ends. RFC 9112 section 9.8."""
    served, trusting = contexts("agent.example")
    async with opened(answering(UNTIL_THE_END, closes=True), tls=served, trust=trusting) as (peer, pool):
        assert await exchange(pool, asked(peer, scheme="https")) == (200, b"hello")
        peer.talk = hanging_up(UNTIL_THE_END)
        with pytest.raises(BrokenConnectionError):
            await exchange(pool, asked(peer, scheme="https"))
        peer.talk = hanging_up(HELLO)
        assert await exchange(pool, asked(peer, scheme="https")) == (200, b"hello")


async def test_a_long_reply_without_a_length_is_whole_for_who_reads_slowly() -> None:
    served, trusting = contexts("agent.example")

    async def talk(peer: ScriptedServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await peer.request(reader)
        writer.write(OK + b"\r\n" + b"x" * 3_000_000)
        writer.close()
        await writer.wait_closed()

    async with opened(talk, tls=served, trust=trusting) as (peer, pool):
        reply = await pool.send(asked(peer, scheme="https"), soon())
        size = 0
        while piece := await reply.read(soon()):
            size += len(piece)
            await asyncio.sleep(0.01)
        assert size == 3_000_000
        await reply.close()


async def test_a_reply_that_we_cut_ourselves_is_not_whole() -> None:
    async with opened(answering(UNTIL_THE_END)) as (peer, pool):
        reply = await pool.send(asked(peer), soon())
        assert await reply.read(soon()) == b"hello"
        await pool.close()
        with pytest.raises(BrokenConnectionError):
            await reply.read(soon())


async def test_a_reply_that_ends_before_its_request_does_is_whole() -> None:
    """A server that has said all and closed its side may never read what is still to be sent."""

    async def talk(peer: ScriptedServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(UNTIL_THE_END)
        writer.write_eof()
        await peer.is_over.wait()

    async with opened(talk) as (peer, pool):
        assert await exchange(pool, asked(peer, body=b"x" * 20_000_000)) == (200, b"hello")


@pytest.mark.parametrize("is_encrypted", [False, True])
async def test_a_reply_counts_also_if_the_server_then_drops_the_rest_of_the_request(is_encrypted: bool) -> None:
    served, trusting = contexts("agent.example")
    wire = b"HTTP/1.1 413 Too Large\r\nconnection: close\r\ncontent-length: 5\r\n\r\nlarge"

    async def talk(peer: ScriptedServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(wire)
        await writer.drain()
        writer.transport.abort()

    tls = (served, trusting, "https") if is_encrypted else (None, None, "http")
    async with opened(talk, tls=tls[0], trust=tls[1]) as (peer, pool):
        for _ in range(20):
            request = asked(peer, body=b"x" * 5_000_000, scheme=tls[2])
            assert await exchange(pool, request) == (413, b"large")


NOT_OURS: dict[str, bytes] = {
    "a body before the reply": b"HTTP/1.1 150 Soon\r\ncontent-length: 4\r\n\r\nevil" + HELLO,
    "a status that is none": b"HTTP/1.1 099 Soon\r\ncontent-length: 4\r\n\r\nevil" + HELLO,
    "a coding that we do not know": OK + b"transfer-encoding: gzip\r\n\r\nevil",
    "codings in the wrong order": OK + b"transfer-encoding: chunked, gzip\r\n\r\n4\r\nevil\r\n0\r\n\r\n",
    "two codings": OK + b"transfer-encoding: gzip, chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("name", NOT_OURS)
async def test_what_we_cannot_read_as_a_reply_is_not_taken_for_one(name: str) -> None:
    async with opened(answering(NOT_OURS[name], closes=True)) as (peer, pool):
        with pytest.raises(BrokenConnectionError):
            await exchange(pool, asked(peer))


async def test_an_offer_of_another_protocol_is_no_switch_to_it() -> None:
    wire = OK + b"upgrade: h2c\r\nconnection: upgrade, keep-alive\r\ncontent-length: 5\r\n\r\nhello"
    async with opened(answering(wire)) as (peer, pool):
        for _ in range(2):
            assert await exchange(pool, asked(peer)) == (200, b"hello")
        assert peer.connections == 1


async def test_headers_are_counted() -> None:
    async with opened(answering(OK + b"x:y\r\n" * 2_000 + b"content-length: 0\r\n\r\n")) as (peer, pool):
        with pytest.raises(BrokenConnectionError, match="headers"):
            await exchange(pool, asked(peer))


# --- who waits --------------------------------------------------------------------------------------------------------


async def test_who_reads_a_reply_that_is_closed_meanwhile_is_told() -> None:
    async with opened(answering(OK + b"content-length: 9\r\n\r\nhello")) as (peer, pool):
        reply = await pool.send(asked(peer), soon())
        assert await reply.read(soon()) == b"hello"
        reading = asyncio.ensure_future(reply.read(soon(60)))
        await asyncio.sleep(0)
        await reply.close()
        with pytest.raises(BrokenConnectionError):
            await reading
        with pytest.raises(BrokenConnectionError):
            await reply.read(soon(60))


async def test_a_server_that_never_stops_does_not_move_a_deadline() -> None:
    async def talk(peer: ScriptedServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await peer.request(reader)
        writer.write(OK + b"\r\n")
        while True:
            writer.write(b"x" * 1_000_000)
            await writer.drain()

    async def read_all(reply: HttpResponse, until: float) -> None:
        while await reply.read(until):
            pass

    async with opened(talk) as (peer, pool):
        reply = await pool.send(asked(peer), soon())
        with pytest.raises(ReadTimeoutError):
            await read_all(reply, soon(0.05))
        await reply.close()


@pytest.mark.parametrize("is_encrypted", [False, True])
async def test_what_came_before_the_end_can_be_read_also_if_the_server_had_to_wait(is_encrypted: bool) -> None:
    served, trusting = contexts("agent.example")
    wire = OK + b"content-length: 9000000\r\n\r\n" + b"x" * 8_000_000
    tls = (served, trusting, "https") if is_encrypted else (None, None, "http")
    network = Noted()
    async with opened(answering(wire), tls=tls[0]) as (peer, _):
        pool = pool_over(network, tls[1])
        reply = await pool.send(asked(peer, scheme=tls[2]), soon())
        while network.first.transport.is_reading():
            await asyncio.sleep(0.01)
        await pool.close()
        assert len(await reply.read(soon())) > MAX_UNREAD_BYTES
        with pytest.raises(BrokenConnectionError):
            await reply.read(soon())
        await reply.close()


# --- the next request -------------------------------------------------------------------------------------------------


async def test_a_large_reply_that_nobody_read_does_not_hold_up_the_next() -> None:
    size = MAX_UNREAD_BYTES + 1
    large = OK + b"content-length: %d\r\n\r\n" % size + b"x" * size
    network = Noted()
    async with opened(answering(large, HELLO)) as (peer, _):
        pool = pool_over(network)
        reply = await pool.send(asked(peer), soon())
        while network.first.transport.is_reading():
            await asyncio.sleep(0.01)
        await reply.close()
        peer.talk = answering(HELLO)
        assert await exchange(pool, asked(peer)) == (200, b"hello")
        await pool.close()


# --- connecting -------------------------------------------------------------------------------------------------------


async def test_connecting_counts_towards_the_time_for_a_reply() -> None:
    async def hang(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    async with opened(answering(HELLO)) as (peer, _):
        for network in (PinnedNetwork(Anywhere(), hang), Noted(holds_back=True)):
            with pytest.raises(ConnectTimeoutError):
                await pool_over(network).send(asked(peer), soon(0.05))


async def test_a_connection_that_has_ended_before_it_was_used_is_not_waited_for() -> None:
    async def talk(peer: ScriptedServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hang up at once."""

    network = Noted(holds_back=True)
    async with opened(talk) as (peer, _):
        pool = pool_over(network)
        sending = asyncio.ensure_future(pool.send(asked(peer), soon(60)))
        await network.has_dialled.wait()
        while not network.first.transport.is_closing():
            await asyncio.sleep(0.01)
        network.goes_on.set()
        await asyncio.wait([sending])
        assert isinstance(sending.exception(), ConnectError)
        del sending
        gc.collect()
        assert [connection() for connection in network.dialled] == [None]


async def test_a_pool_that_is_closed_opens_no_connection_afterwards() -> None:
    network = Noted(holds_back=True)
    async with opened(answering(HELLO)) as (peer, _):
        pool = pool_over(network)
        sending = asyncio.ensure_future(pool.send(asked(peer), soon()))
        await network.has_dialled.wait()
        await pool.close()
        network.goes_on.set()
        with pytest.raises(ConnectError):
            await sending
        await peer.gone.wait()
        assert peer.requests == []
        assert await exchange(pool, asked(peer)) == (200, b"hello")
        await pool.close()


async def test_a_server_that_has_stopped_reading_is_called_over_another_connection() -> None:
    """How much of a request is still to be sent, nobody tells us over TLS; that the server takes nothing, we see."""
    served, trusting = contexts("agent.example")

    async def talk(peer: ScriptedServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 5\r\n\r\nlarge")
        await peer.is_over.wait()

    network = Noted()
    async with opened(talk, tls=served) as (peer, _):
        pool = pool_over(network, trusting)
        request = asked(peer, body=b"x" * 20_000_000, scheme="https")
        assert await exchange(pool, request) == (413, b"large")
        while network.first.is_reusable:  # until the machine's buffers are full
            await asyncio.sleep(0.01)
        assert await exchange(pool, request) == (413, b"large")
        assert peer.connections == 2
        await pool.close()
