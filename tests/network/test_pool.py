"""HTTP/1.1 over real sockets, against servers that send the bytes they are told to."""

from __future__ import annotations

import asyncio

import pytest

from parley.network import pool as pools
from parley.network.errors import BrokenConnectionError, ConnectError, ReadTimeoutError
from parley.network.http import HttpRequest
from parley.network.response import MAX_OVERHEAD_BYTES, MAX_UNREAD_BYTES
from parley.network.urls import parse_url
from parley.protocol.errors import LocalProtocolError
from tests.network.scripted_server import (
    HELLO,
    OK,
    ScriptedServer,
    all_of,
    answering,
    asked,
    contexts,
    exchange,
    opened,
    soon,
)

pytestmark = pytest.mark.anyio


# --- what is sent -----------------------------------------------------------------------------------------------------


async def test_a_request_arrives_as_it_was_meant() -> None:
    async with opened(answering(HELLO)) as (peer, pool):
        assert await exchange(pool, asked(peer, "POST", "/a?b=c", b"body")) == (200, b"hello")
        assert await exchange(pool, asked(peer, "GET")) == (200, b"hello")
        host = b"host: agent.example:%d\r\naccept: */*\r\n" % peer.port
        assert peer.requests == [
            b"POST /a?b=c HTTP/1.1\r\n" + host + b"content-length: 4\r\n\r\nbody",
            b"GET / HTTP/1.1\r\n" + host + b"\r\n",
        ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x", "a\r\nevil: yes"),
        ("x", "a\nevil: yes"),
        ("x", "a\rb"),
        ("x", "a\0b"),
        ("x", "ä"),
        ("x y", "z"),
        ("x:", "z"),
        ("", "z"),
        ("x\r\ny", "z"),
        ("Host", "other.example"),
        ("Content-Length", "3"),
        ("transfer-encoding", "chunked"),
        ("connection", "close"),
    ],
)
async def test_no_header_smuggles_a_request(name: str, value: str) -> None:
    async with opened(answering(HELLO)) as (peer, pool):
        with pytest.raises(LocalProtocolError):
            await pool.send(HttpRequest("POST", asked(peer).url, {name: value}), soon())
        assert peer.connections == 0


# --- what comes back --------------------------------------------------------------------------------------------------

REPLIES: dict[str, tuple[bytes, bytes]] = {
    "of a known length": (HELLO, b"hello"),
    "in chunks": (OK + b"transfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3;why=not\r\nllo\r\n0\r\n\r\n", b"hello"),
    "with trailers": (OK + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx-kind: late\r\n\r\n", b"hello"),
    "after a word before": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nx-kind: early\r\n\r\n" + HELLO,
        b"hello",
    ),
    "without a body": (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    "that has not changed": (b"HTTP/1.1 304 Not Modified\r\netag: x\r\n\r\n", b""),
}


@pytest.mark.parametrize("name", REPLIES)
async def test_a_reply_is_read_whole_and_its_connection_is_used_again(name: str) -> None:
    wire, body = REPLIES[name]
    async with opened(answering(wire, HELLO)) as (peer, pool):
        reply = await pool.send(asked(peer), soon())
        assert (await all_of(reply), await reply.read(soon())) == (body, b"")
        assert "x-kind" not in reply.headers
        await reply.close()
        await reply.close()
        assert await exchange(pool, asked(peer)) == (200, b"hello")
        assert peer.connections == 1


@pytest.mark.parametrize("size", [1, 2, 7])
@pytest.mark.parametrize("name", REPLIES)
async def test_a_reply_may_come_in_any_pieces(name: str, size: int) -> None:
    wire, body = REPLIES[name]

    async def talk(peer: ScriptedServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await peer.request(reader)
        for start in range(0, len(wire), size):
            writer.write(wire[start : start + size])
            await asyncio.sleep(0)
        await peer.request(reader)

    async with opened(talk) as (peer, pool):
        assert (await exchange(pool, asked(peer)))[1] == body


async def test_values_of_one_header_are_joined() -> None:
    wire = OK + b"Link: <a> \t\r\nlink: <b>\r\nEtag: \xe4\r\ncontent-length: 0\r\n\r\n"
    async with opened(answering(wire)) as (peer, pool):
        reply = await pool.send(asked(peer), soon())
        assert (reply.headers["link"], reply.headers["etag"]) == ("<a>, <b>", "ä")
        await reply.close()


@pytest.mark.parametrize(
    "head",
    [OK + b"\r\n", OK + b"connection: close\r\ncontent-length: 5\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\n"],
    ids=["whose length nobody said", "that says so", "of 1.0"],
)
async def test_a_connection_that_ends_with_its_reply_is_not_used_again(head: bytes) -> None:
    async with opened(answering(head + b"hello", closes=True)) as (peer, pool):
        for _ in range(2):
            assert await exchange(pool, asked(peer)) == (200, b"hello")
        assert peer.connections == 2


async def test_a_server_that_has_failed_is_called_over_another_connection() -> None:
    """Although it has not closed that one: it may do so without a word, and the next request would be lost."""
    wire = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 4\r\n\r\noops"
    async with opened(answering(wire)) as (peer, pool):
        for _ in range(3):
            assert await exchange(pool, asked(peer)) == (500, b"oops")
        assert peer.connections == 3


BROKEN: dict[str, bytes] = {
    "nothing": b"",
    "half a head": OK + b"content-le",
    "half a body": OK + b"content-length: 9\r\n\r\nhello",
    "half a chunk": OK + b"transfer-encoding: chunked\r\n\r\n9\r\nhello",
    "no last chunk": OK + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
    "no HTTP": b"220 mail.example ESMTP\r\n\r\n",
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nhello",
    "two lengths": OK + b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello!",
    "a length and chunks": OK + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "a length that is none": OK + b"content-length: five\r\n\r\nhello",
    "a chunk that is none": OK + b"transfer-encoding: chunked\r\n\r\nfive\r\nhello\r\n0\r\n\r\n",
    "a line end in a header": OK + b"x: a\rb\r\ncontent-length: 5\r\n\r\nhello",
    "only words before": b"HTTP/1.1 100 Continue\r\n\r\n",
}


@pytest.mark.parametrize("name", BROKEN)
async def test_what_is_no_whole_reply_is_never_taken_for_one(name: str) -> None:
    async with opened(answering(BROKEN[name], closes=True)) as (peer, pool):
        with pytest.raises(BrokenConnectionError):
            await exchange(pool, asked(peer))


@pytest.mark.parametrize(
    "endless",
    [b"x-more: " + b"of the same " * 50 + b"\r\n", b"x", b"HTTP/1.1 100 Continue\r\n\r\n"],
    ids=["headers", "one header", "words before"],
)
async def test_heads_without_end_are_bounded(endless: bytes) -> None:
    received = 0

    async def talk(peer: ScriptedServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal received
        await peer.request(reader)
        writer.write(b"" if endless.startswith(b"HTTP") else OK + b"x: ")
        while True:
            writer.write(endless * (1 + 1_000 // len(endless)))
            received += 1_000
            await writer.drain()

    async with opened(talk) as (peer, pool):
        with pytest.raises(BrokenConnectionError, match="too long"):
            await exchange(pool, asked(peer))
        await peer.gone.wait()
    assert MAX_OVERHEAD_BYTES < received < 50_000_000


@pytest.mark.parametrize("waste", [b"5;", b"0\r\nx: "], ids=["of a chunk", "of trailers"])
async def test_what_comes_without_a_body_is_bounded(waste: bytes) -> None:
    async def talk(peer: ScriptedServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await peer.request(reader)
        writer.write(OK + b"transfer-encoding: chunked\r\n\r\n" + waste)
        while True:
            writer.write(b"x" * 1_000)
            await writer.drain()

    async with opened(talk) as (peer, pool):
        with pytest.raises(BrokenConnectionError, match="too long"):
            await exchange(pool, asked(peer))


async def test_nothing_for_too_long_is_an_error_and_the_connection_ends() -> None:
    async with opened(answering(b"")) as (peer, pool):
        with pytest.raises(ReadTimeoutError):
            await pool.send(asked(peer), soon(0.05))
        await peer.gone.wait()
    async with opened(answering(OK + b"content-length: 9\r\n\r\nhello")) as (peer, pool):
        reply = await pool.send(asked(peer), soon())
        assert await reply.read(soon()) == b"hello"
        with pytest.raises(ReadTimeoutError):
            await reply.read(soon(0.05))
        await reply.close()
        await peer.gone.wait()


async def test_who_does_not_read_is_not_sent_more() -> None:
    sent = 0

    async def talk(peer: ScriptedServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await peer.request(reader)
        writer.write(OK + b"\r\n")
        while sent < 100_000_000:
            writer.write(b"x" * 100_000)
            await writer.drain()
            sent += 100_000

    async with opened(talk) as (peer, pool):
        reply = await pool.send(asked(peer), soon())
        before = -1
        while sent != before:  # until nothing moves any more
            before = sent
            await asyncio.sleep(0.1)
        assert sent < 50_000_000
        size = 0
        while size < 20_000_000:
            piece = await reply.read(soon())
            assert 0 < len(piece) <= 2 * MAX_UNREAD_BYTES
            size += len(piece)
        await reply.close()
        await peer.gone.wait()


# --- the next request -------------------------------------------------------------------------------------------------


async def test_what_follows_a_reply_is_not_taken_for_the_next_one() -> None:
    evil = OK + b"content-length: 4\r\n\r\nevil"
    async with opened(answering(HELLO + evil, HELLO)) as (peer, pool):
        assert [await exchange(pool, asked(peer)) for _ in range(3)] == [(200, b"hello")] * 3
        assert peer.connections == 3


async def test_what_comes_unasked_ends_the_connection() -> None:
    async def talk(peer: ScriptedServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await peer.request(reader)
        writer.write(HELLO)
        await writer.drain()
        await asyncio.sleep(0.02)
        writer.write(OK + b"content-length: 4\r\n\r\nevil")
        await peer.request(reader)

    async with opened(talk) as (peer, pool):
        assert await exchange(pool, asked(peer)) == (200, b"hello")
        await peer.gone.wait()
        assert await exchange(pool, asked(peer)) == (200, b"hello")
        assert peer.connections == 2


async def test_a_connection_that_was_closed_meanwhile_is_not_used() -> None:
    """Also if the event loop has had no time to notice."""
    async with opened(answering(HELLO, closes=True)) as (peer, pool):
        assert await exchange(pool, asked(peer)) == (200, b"hello")
        await peer.gone.wait()
        assert await exchange(pool, asked(peer)) == (200, b"hello")
        assert peer.connections == 2


async def test_a_reply_that_was_not_read_to_its_end_ends_its_connection() -> None:
    async with opened(answering(OK + b"content-length: 9\r\n\r\nhello")) as (peer, pool):
        reply = await pool.send(asked(peer), soon())
        await reply.close()
        await peer.gone.wait()
        assert await (await pool.send(asked(peer), soon())).read(soon()) == b"hello"
        assert peer.connections == 2


async def test_a_reply_before_the_request_is_sent_whole_ends_its_connection() -> None:
    async def talk(peer: ScriptedServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer.requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 5\r\n\r\nlarge")
        await writer.drain()
        await peer.is_over.wait()

    async with opened(talk) as (peer, pool):
        for number in (1, 2):
            assert await exchange(pool, asked(peer, body=b"x" * 50_000_000)) == (413, b"large")
            assert peer.connections == number
        await pool.close()


async def test_who_gives_up_closes_the_connection() -> None:
    async with opened(answering(b"")) as (peer, pool):
        task = asyncio.ensure_future(pool.send(asked(peer), soon()))
        while not peer.requests:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await peer.gone.wait()


async def test_requests_at_a_time_have_connections_of_their_own_of_which_some_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pools, "IDLE_CONNECTIONS", 3)
    async with opened(answering(HELLO)) as (peer, pool):
        replies = await asyncio.gather(*(pool.send(asked(peer), soon()) for _ in range(8)))
        assert [await all_of(reply) for reply in replies] == [b"hello"] * 8
        for reply in replies:
            await reply.close()
        replies = await asyncio.gather(*(pool.send(asked(peer), soon()) for _ in range(4)))
        assert peer.connections == 9


async def test_idle_connections_are_closed_after_a_while() -> None:
    async with opened(answering(HELLO), idle_seconds=0.05) as (peer, pool):
        assert await exchange(pool, asked(peer)) == (200, b"hello")
        await peer.gone.wait()
        assert await exchange(pool, asked(peer)) == (200, b"hello")
        assert peer.connections == 2


async def test_a_pool_that_was_closed_opens_new_connections() -> None:
    async with opened(answering(HELLO)) as (peer, pool):
        for _ in range(2):
            assert await exchange(pool, asked(peer)) == (200, b"hello")
            await pool.close()
            await peer.gone.wait()
        assert peer.connections == 2


# --- TLS --------------------------------------------------------------------------------------------------------------


async def test_a_connection_is_encrypted_and_used_again() -> None:
    served, trusting = contexts("agent.example")
    async with opened(answering(HELLO), tls=served, trust=trusting) as (peer, pool):
        for _ in range(3):
            assert await exchange(pool, asked(peer, scheme="https")) == (200, b"hello")
        assert peer.connections == 1
        large = OK + b"content-length: 3000000\r\n\r\n" + b"x" * 3_000_000
        peer.talk = answering(large)
        await pool.close()
        assert len((await exchange(pool, asked(peer, scheme="https")))[1]) == 3_000_000


async def test_an_address_has_a_certificate_of_its_own() -> None:
    served, trusting = contexts("127.0.0.1")
    async with opened(answering(HELLO), tls=served, trust=trusting) as (peer, pool):
        url = parse_url(f"https://127.0.0.1:{peer.port}")
        assert await exchange(pool, HttpRequest("GET", url, {})) == (200, b"hello")
        with pytest.raises(ConnectError, match="its certificate cannot be trusted"):
            await exchange(pool, asked(peer, scheme="https"))


@pytest.mark.parametrize("is_trusted", [True, False])
async def test_nobody_else_is_talked_to(is_trusted: bool) -> None:
    served, trusting = contexts("other.example")
    async with opened(answering(HELLO), tls=served, trust=trusting if is_trusted else None) as (peer, pool):
        with pytest.raises(ConnectError, match="its certificate cannot be trusted"):
            await exchange(pool, asked(peer, scheme="https"))
        assert peer.requests == []


async def test_who_speaks_no_tls_is_not_talked_to() -> None:
    async def talk(peer: ScriptedServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HELLO)
        await reader.read()

    async with opened(talk) as (peer, pool):
        with pytest.raises(ConnectError, match="TLS fails"):
            await exchange(pool, asked(peer, scheme="https"))
