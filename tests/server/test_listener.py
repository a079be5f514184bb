"""The door against slow, greedy and broken clients: real sockets, and a clock that the tests move."""

import asyncio
import logging
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from parley.server.listener.connection import HttpServerConnection, ListenerState, Phase
from parley.server.listener.limits import ListenerLimits
from parley.server.listener.listener import Listener
from tests.deadlines import fail_after

pytestmark = pytest.mark.anyio

LIMITS = ListenerLimits(check_seconds=3600)
"""Deadlines are checked by `later` only."""


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


@dataclass
class Seen:
    """An application that notes what it gets and answers as the path says."""

    scopes: list[Scope] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    disconnects: int = 0
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        match scope["path"]:
            case "/early":
                await reply(send, b"early")
            case "/wait":
                await self.go_on.wait()
                await self.read(receive)
                await reply(send, b"waited")
            case "/flood":
                await start(send, (b"content-type", b"text/plain"))
                waiting = asyncio.create_task(self.until_gone(receive))
                while not waiting.done():
                    await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
                    await asyncio.sleep(0)
            case "/stream":
                await start(send, (b"content-type", b"text/plain"))
                await send({"type": "http.response.body", "body": b"first", "more_body": True})
                await self.until_gone(receive)
            case "/big":
                await reply(send, b"x" * 30_000_000)
            case "/deaf":
                await asyncio.Event().wait()
            case path:
                if await self.read(receive):
                    await reply(send, path.encode())

    async def read(self, receive: Receive) -> bool:
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.disconnects += 1
                return False
            body += message["body"]
            if not message["more_body"]:
                self.bodies.append(body)
                return True

    async def until_gone(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.disconnects += 1


async def start(send: Send, *headers: tuple[bytes, bytes]) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": headers})


async def reply(send: Send, body: bytes) -> None:
    await start(send, (b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.body", "body": body})


@dataclass
class Door:
    """A listener, its application, its address and its clock."""

    listener: Listener
    app: Seen
    port: int
    now: float
    """It begins as the loop's time, by which the listener looks on its own."""

    def later(self, seconds: float) -> None:
        """The clock moves, and the listener looks."""
        self.now += seconds
        self.listener.check(self.now)

    @property
    def connections(self) -> list[HttpServerConnection]:
        return [
            connection for connection in self.listener.state.connections if isinstance(connection, HttpServerConnection)
        ]

    async def until(self, condition: Callable[[], object]) -> None:
        while not condition():
            await asyncio.sleep(0)

    async def phase(self, phase: Phase) -> HttpServerConnection:
        await self.until(lambda: [connection.phase for connection in self.connections] == [phase])
        return self.connections[0]


@asynccontextmanager
async def opened(limits: ListenerLimits = LIMITS, **options: Any) -> AsyncGenerator[Door]:
    bound = socket.create_server(("127.0.0.1", 0))
    app = Seen()
    listener = Listener(app, limits=limits, **options)
    with fail_after(10):
        await listener.start([bound])
        door = Door(listener, app, bound.getsockname()[1], asyncio.get_running_loop().time())
        door.later(0)
        try:
            yield door
        finally:
            app.go_on.set()
            await listener.close()


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, *lines: str, body: bytes = b"") -> None:
        self.writer.write("".join(f"{line}\r\n" for line in lines).encode() + body)

    def ask(self, path: str = "/hello", *headers: str, body: bytes = b"") -> None:
        length = [f"content-length: {len(body)}"] if body else []
        verb = "POST" if body else "GET"
        self.send(f"{verb} {path} HTTP/1.1", "host: here", *headers, *length, "", body=body)

    async def answer(self) -> tuple[int, bytes]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        (length,) = [int(line[16:]) for line in head.splitlines() if line.startswith("content-length: ")]
        return int(head.split()[1]), await self.reader.readexactly(length)

    async def rest(self) -> bytes:
        """Everything until the server closes; nothing if it did so without a goodbye."""
        try:
            return await self.reader.read()
        except ConnectionResetError:
            return b""


@asynccontextmanager
async def connected(door: Door) -> AsyncGenerator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    try:
        yield Client(reader, writer)
    finally:
        writer.transport.abort()


# --- requests as they should be ---------------------------------------------------------------------------------------


async def test_a_connection_serves_one_request_after_the_other() -> None:
    async with opened() as door, connected(door) as client:
        client.ask("/one")
        assert await client.answer() == (200, b"/one")
        client.ask("/two", body=b"body")
        assert await client.answer() == (200, b"/two")
    assert door.app.bodies == [b"", b"body"]
    assert "extensions" not in door.app.scopes[0]
    assert door.listener.state.total_requests == 2


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with opened() as door, connected(door) as client:
        client.ask("/wait")
        client.ask("/two", body=b"2")
        client.ask("/three", body=b"3")
        await door.until(lambda: door.app.scopes)
        door.app.go_on.set()
        assert [await client.answer() for _ in range(3)] == [(200, b"waited"), (200, b"/two"), (200, b"/three")]
        await door.phase(Phase.IDLE)


async def test_a_request_to_upgrade_is_answered_as_it_is() -> None:
    async with opened() as door, connected(door) as client:
        client.ask("/one", "connection: upgrade", "upgrade: h2c")
        assert await client.answer() == (200, b"/one")


async def test_a_client_that_waits_for_100_continue_gets_it() -> None:
    async with opened() as door, connected(door) as client:
        client.send("POST /one HTTP/1.1", "host: here", "expect: 100-continue", "content-length: 2", "")
        assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.writer.write(b"ok")
        assert await client.answer() == (200, b"/one")


async def test_trailers_do_not_become_headers() -> None:
    async with opened() as door, connected(door) as client:
        client.send("POST /one HTTP/1.1", "host: here", "transfer-encoding: chunked", "")
        client.send("2", "hi", "0", "authorization: Bearer stolen", "")
        assert await client.answer() == (200, b"/one")
    assert [name for name, _ in door.app.scopes[0]["headers"]] == [b"host", b"transfer-encoding"]


# --- slow requests ----------------------------------------------------------------------------------------------------


async def test_a_connection_that_says_nothing_is_closed() -> None:
    async with opened() as door, connected(door) as client:
        await door.until(lambda: door.connections)
        door.later(9)
        assert not door.connections[0].transport.is_closing()
        door.later(1)
        assert await client.rest() == b""


async def test_a_head_that_trickles_in_is_cut_off() -> None:
    async with opened() as door, connected(door) as client:
        client.send("GET /hello HTTP/1.1")
        connection = await door.phase(Phase.HEAD)
        for number in range(9):
            client.send(f"x-{number}: slow")
            await door.until(lambda number=number: len(connection.headers) >= number)
            door.later(1)
        assert connection.refusal is None
        door.later(1)
        assert await client.answer() == (408, b"The headers did not arrive in time.")
        assert await client.rest() == b""
    assert door.app.scopes == []


async def test_an_idle_connection_is_kept_for_the_next_request_and_then_closed() -> None:
    async with opened() as door, connected(door) as client:
        client.ask()
        await client.answer()
        door.later(74)
        client.ask()
        assert await client.answer() == (200, b"/hello")
        door.later(75)
        assert await client.rest() == b""


async def test_a_body_that_stops_is_refused_and_its_application_told() -> None:
    async with opened() as door, connected(door) as client:
        client.send("POST /hello HTTP/1.1", "host: here", "content-length: 10", "", body=b"12345")
        await door.phase(Phase.BODY)
        door.later(29)
        assert door.connections[0].refusal is None
        door.later(1)
        assert await client.answer() == (408, b"The body arrives too slowly.")
        assert await client.rest() == b""
        await door.until(lambda: door.app.disconnects)


async def test_a_body_that_dribbles_is_refused_and_one_that_flows_is_not() -> None:
    async with opened() as door, connected(door) as client:
        client.send("POST /hello HTTP/1.1", "host: here", "content-length: 1000000", "", body=b"x" * 30 * 512)
        connection = await door.phase(Phase.BODY)
        await door.until(lambda: connection.body_bytes == 30 * 512)
        door.later(30)
        assert (connection.refusal, connection.body_bytes) == (None, 0)
        client.writer.write(b"x" * (30 * 512 - 1))
        await door.until(lambda: connection.body_bytes == 30 * 512 - 1)
        door.later(30)
        assert await client.answer() == (408, b"The body arrives too slowly.")


async def test_a_body_that_waits_for_the_application_may_wait() -> None:
    async with opened() as door, connected(door) as client:
        client.ask("/wait", body=b"x" * 5_000_000)
        connection = await door.phase(Phase.BODY)
        await door.until(lambda: connection.flow.read_paused)
        door.later(1000)
        assert connection.refusal is None
        door.app.go_on.set()
        assert await client.answer() == (200, b"waited")
    assert door.app.bodies == [b"x" * 5_000_000]


async def test_a_body_that_nobody_waits_for_is_read_for_a_while() -> None:
    async with opened() as door, connected(door) as client:
        client.send("POST /early HTTP/1.1", "host: here", "content-length: 10", "", body=b"12345")
        assert await client.answer() == (200, b"early")
        await door.phase(Phase.LINGER)
        client.writer.write(b"67890")
        await door.phase(Phase.IDLE)
        client.ask("/next")
        assert await client.answer() == (200, b"/next")
        client.send("POST /early HTTP/1.1", "host: here", "content-length: 10", "", body=b"12345")
        assert await client.answer() == (200, b"early")
        await door.phase(Phase.LINGER)
        door.later(5)
        assert await client.rest() == b""


# --- floods -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([f"x-{number}: y" for number in range(100)], b"The request has too many headers."),
        (["x: " + "y" * 33_000], b"The headers are too long."),
        ([f"x-{number}: {'y' * 1000}" for number in range(33)], b"The headers are too long."),
    ],
    ids=["many", "one long", "long together"],
)
async def test_a_flood_of_headers_is_refused(lines: list[str], reason: bytes) -> None:
    async with opened() as door, connected(door) as client:
        client.ask("/hello", *lines)
        assert await client.answer() == (431, reason)
        assert await client.rest() == b""
    assert door.app.scopes == []


async def test_a_target_that_is_too_long_is_refused() -> None:
    async with opened() as door, connected(door) as client:
        client.ask("/" + "x" * 33_000)
        assert await client.answer() == (431, b"The headers are too long.")


@pytest.mark.parametrize(
    "lines", [["GET / HTTP/1.1"], ["POST / HTTP/1.1", "host: here", "transfer-encoding: chunked", "", "0"]]
)
async def test_a_header_or_trailer_without_an_end_is_refused(lines: list[str]) -> None:
    async with opened() as door, connected(door) as client:
        client.send(*lines, body=b"endless: ")
        while not any(connection.refusal for connection in door.connections):
            client.writer.write(b"x" * 1000)
            await asyncio.sleep(0)
        assert await client.answer() == (431, b"The headers are too long.")


async def test_what_is_not_http_is_refused_and_the_rest_of_it_dropped() -> None:
    async with opened() as door, connected(door) as client:
        client.send("PRI * HTTP/2.0", "", "SM", "")
        assert await client.answer() == (400, b"This is not HTTP/1.1.")
        client.send("more")
        assert await client.rest() == b""
        await door.phase(Phase.LINGER)
        door.later(5)
        await door.until(lambda: not door.connections)


async def test_garbage_behind_a_request_ends_the_connection_and_the_request() -> None:
    async with opened() as door, connected(door) as client:
        client.ask("/stream")
        await client.reader.readuntil(b"first")
        client.send("garbage")
        assert await client.rest() in (b"\r\n", b"")
        await door.until(lambda: door.app.disconnects)


async def test_a_flood_of_pipelined_requests_is_cut_off() -> None:
    async with opened() as door, connected(door) as client:
        for _ in range(18):
            client.ask("/wait")
        assert await client.rest() == b""
        await door.until(lambda: not door.connections)


async def test_a_client_that_leaves_after_pipelining_is_noticed_by_the_request_in_hand() -> None:
    async with opened() as door:
        async with connected(door) as client:
            client.ask("/stream")
            client.ask("/next")
            await client.reader.readuntil(b"first")
        await door.until(lambda: door.app.disconnects == 1)
    assert [scope["path"] for scope in door.app.scopes] == ["/stream"]


# --- slow readers -----------------------------------------------------------------------------------------------------


async def test_a_client_that_does_not_read_is_cut_off() -> None:
    async with opened() as door, connected(door) as client:
        client.ask("/flood")
        connection = await door.phase(Phase.REPLY)
        await door.until(lambda: connection.flow.write_paused)
        door.later(1)
        await settle(door, connection)
        door.later(74)
        assert not connection.transport.is_closing()
        door.later(1)
        await door.until(lambda: door.app.disconnects == 1 and not door.connections)


async def settle(door: Door, connection: HttpServerConnection) -> None:
    """Wait until the system's own buffers are full too: then nothing moves any more."""
    await settle_reading(connection)
    assert connection.flow.write_paused
    connection.write_since = None
    door.later(0)


async def test_a_client_that_reads_slowly_is_kept() -> None:
    async with opened() as door, connected(door) as client:
        client.ask("/flood")
        connection = await door.phase(Phase.REPLY)
        await door.until(lambda: connection.flow.write_paused)
        await settle(door, connection)
        for _ in range(3):
            before = connection.transport.get_write_buffer_size()
            while connection.write_since is not None and connection.transport.get_write_buffer_size() > before - 38_400:
                await client.reader.readexactly(1000)
            door.later(75)
            assert not connection.transport.is_closing()


async def test_a_long_reply_may_take_its_time_for_as_long_as_it_goes_on() -> None:
    async with opened() as door, connected(door) as client:
        client.ask("/big")
        await door.until(lambda: door.app.scopes and door.connections[0].flow.write_paused)
        (connection,) = door.connections
        await settle(door, connection)
        before = connection.transport.get_write_buffer_size()
        while connection.transport.get_write_buffer_size() > before - 5_000_000:
            await client.reader.readexactly(100_000)
        await settle_reading(connection)
        door.later(75)
        assert (connection.transport.is_closing(), connection.flow.write_paused) == (False, True)
        door.later(75)
        await door.until(lambda: not door.connections)


async def settle_reading(connection: HttpServerConnection) -> None:
    """Wait until nothing moves any more, and leave the clock alone."""
    before = -1
    while connection.transport.get_write_buffer_size() != before:
        before = connection.transport.get_write_buffer_size()
        for _ in range(100):
            await asyncio.sleep(0)


async def test_a_reply_that_is_not_taken_after_closing_is_given_up() -> None:
    async with opened() as door, connected(door) as client:
        client.ask("/flood")
        connection = await door.phase(Phase.REPLY)
        await door.until(lambda: connection.flow.write_paused)
        connection.transport.close()
        door.later(1)
        await asyncio.sleep(0)
        assert door.connections == [connection]
        door.later(75)
        await door.until(lambda: not door.connections)


# --- too many ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", ["connections", "connections_per_address"])
async def test_a_connection_too_many_is_turned_away_until_another_ends(limit: str) -> None:
    limits = ListenerLimits(check_seconds=3600, **{limit: 1})
    async with opened(limits) as door:
        async with connected(door) as first:
            first.ask()
            await first.answer()
            async with connected(door) as second:
                assert await second.answer() == (503, b"Too many connections.")
                assert await second.rest() == b""
            first.ask()
            assert await first.answer() == (200, b"/hello")
        await door.until(lambda: not door.connections)
        assert dict(door.listener.state.per_address) == {}
        async with connected(door) as third:
            third.ask()
            assert await third.answer() == (200, b"/hello")


def test_addresses_count_by_themselves_networks_of_ipv6_together_and_trusted_proxies_not_at_all() -> None:
    state = ListenerState(ListenerLimits(connections_per_address=1), ["10.0.0.0/8"])
    assert [
        state.admit(address)
        for address in (
            "1.2.3.4",
            "1.2.3.4",
            "1.2.3.5",
            "2001:db8::1",
            "2001:db8::ffff%eth0",
            "10.1.1.1",
            "10.1.1.1",
            "",
        )
    ] == ["1.2.3.4", None, "1.2.3.5", "2001:db8::/64", None, "", "", ""]


async def test_a_trusted_proxy_may_say_whom_it_speaks_for() -> None:
    for proxies, expected in ((["127.0.0.1"], ("9.9.9.9", "https")), ([], ("127.0.0.1", "http"))):
        async with opened(trusted_proxies=proxies) as door, connected(door) as client:
            client.ask("/hello", "x-forwarded-for: 9.9.9.9", "x-forwarded-proto: https")
            await client.answer()
        scope = door.app.scopes[0]
        assert (scope["client"][0], scope["scheme"]) == expected


async def test_the_access_log_is_written_when_it_is_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    for access_log, lines in ((False, 0), (True, 1)):
        caplog.clear()
        with caplog.at_level(logging.INFO, "uvicorn.access"):
            async with opened(access_log=access_log) as door, connected(door) as client:
                client.ask("/seen")
                await client.answer()
        assert sum("GET /seen HTTP/1.1" in line for line in caplog.messages) == lines


# --- the end ----------------------------------------------------------------------------------------------------------


async def closing(door: Door, grace: float) -> asyncio.Task[None]:
    """The end has begun: nothing is accepted any more."""
    task = asyncio.create_task(door.listener.close(grace=grace))
    await asyncio.sleep(0)
    return task


async def test_closing_waits_for_replies_and_closes_idle_connections_at_once() -> None:
    async with opened() as door, connected(door) as busy, connected(door) as idle:
        idle.ask()
        await idle.answer()
        busy.ask("/wait")
        busy.ask("/next")
        await door.until(lambda: len(door.app.scopes) == 2)
        closed = await closing(door, 5)
        assert await idle.rest() == b""
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", door.port)
        door.app.go_on.set()
        assert (await busy.rest()).endswith(b"connection: close\r\n\r\nwaited")
        await closed
    assert door.connections == []


async def test_closing_cuts_off_what_takes_too_long(caplog: pytest.LogCaptureFixture) -> None:
    async with opened() as door, connected(door) as client:
        client.ask("/stream")
        await client.reader.readuntil(b"first\r\n")
        await door.listener.close()
        assert await client.rest() == b""
    assert door.app.disconnects == 1
    assert caplog.messages == ["1 requests were not answered in time and are cut off"]


async def test_closing_cancels_who_does_not_listen(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parley.server.listener.listener.FLUSH_SECONDS", 0.05)
    async with opened() as door, connected(door) as client:
        client.ask("/deaf")
        await door.until(lambda: door.app.scopes)
        await door.listener.close()
        assert await client.rest() == b""
        await door.until(lambda: not door.listener.state.tasks)
    assert caplog.messages[0] == "1 requests were not answered in time and are cut off"


async def test_closing_does_not_wait_for_who_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.server.listener.listener.FLUSH_SECONDS", 0.05)
    async with opened() as door, connected(door) as client:
        client.ask("/flood")
        connection = await door.phase(Phase.REPLY)
        await door.until(lambda: connection.flow.write_paused)
        connection.active.response_complete = True  # type: ignore[union-attr]  # the application wrote all it had
        await door.listener.close()
        await door.until(lambda: not door.connections)


async def test_the_listener_checks_deadlines_by_itself() -> None:
    async with opened(ListenerLimits(check_seconds=0.01, header_seconds=0.2)) as door, connected(door) as client:
        client.send("GET / HTTP/1.1")
        assert await client.answer() == (408, b"The headers did not arrive in time.")


# --- what asks for another protocol, and for whom ---------------------------------------------------------------------

UPGRADE = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA")
"""What HTTP clients in Java send with every first request."""


async def test_a_request_that_offers_another_protocol_is_answered_with_its_body() -> None:
    async with opened() as door, connected(door) as client:
        client.ask("/one", *UPGRADE, body=b"whole")
        assert await client.answer() == (200, b"/one")
        client.send("POST /two HTTP/1.1", "host: here", *UPGRADE, "content-length: 5", "")
        await door.phase(Phase.BODY)
        client.send(body=b"later")
        assert await client.answer() == (200, b"/two")
        client.send("POST /three HTTP/1.1", "host: here", *UPGRADE, "transfer-encoding: chunked", "")
        client.send(body=b"3\r\nabc\r\n0\r\n\r\n")
        assert await client.answer() == (200, b"/three")
        client.ask("/four", *UPGRADE)
        assert await client.answer() == (200, b"/four")
        assert door.app.bodies == [b"whole", b"later", b"abc", b""]


async def test_the_body_of_such_a_request_is_never_a_request_of_its_own() -> None:
    hidden = b"GET /hidden HTTP/1.1\r\nhost: here\r\n\r\n"
    async with opened() as door, connected(door) as client:
        client.send("POST /outer HTTP/1.1", "host: here", *UPGRADE, f"content-length: {len(hidden)}", "")
        await door.phase(Phase.BODY)
        client.send(body=hidden)
        assert await client.answer() == (200, b"/outer")
        client.ask("/next", *UPGRADE, body=hidden)
        client.ask("/last")
        assert [await client.answer(), await client.answer()] == [(200, b"/next"), (200, b"/last")]
        assert [scope["path"] for scope in door.app.scopes] == ["/outer", "/next", "/last"]


@pytest.mark.parametrize(
    ("lines", "status", "reason"),
    [
        (["GET /old", ""], 505, b"Only HTTP/1.1 and HTTP/1.0 are supported."),
        (["GET /old HTTP/0.9", "host: here", ""], 505, b"Only HTTP/1.1 and HTTP/1.0 are supported."),
        (["GET /new HTTP/2.0", "host: here", ""], 505, b"Only HTTP/1.1 and HTTP/1.0 are supported."),
        (
            ["POST / HTTP/1.1", "host: here", "transfer-encoding: gzip, chunked", "", "0", ""],
            501,
            b"The only supported transfer coding is chunked.",
        ),
        (
            ["POST / HTTP/1.1", "host: here", "transfer-encoding: gzip", "transfer-encoding: chunked", "", "0", ""],
            501,
            b"The only supported transfer coding is chunked.",
        ),
        (["GET http://host:port/ HTTP/1.1", "host: here", ""], 400, b"The request target is not a URL."),
        (
            ["GET http://there/ HTTP/1.1", "host: here", ""],
            400,
            b"The request target and the Host header name different hosts.",
        ),
        (
            ["GET http://here:81/ HTTP/1.1", "host: here", ""],
            400,
            b"The request target and the Host header name different hosts.",
        ),
    ],
)
async def test_what_others_may_read_otherwise_is_refused_before_the_application_and_ends_the_connection(
    lines: list[str], status: int, reason: bytes
) -> None:
    async with opened() as door, connected(door) as client:
        client.send(*lines)
        assert await client.answer() == (status, reason)
        assert await client.rest() == b""
    assert door.app.scopes == []


CALLBACKS = ["on_message_begin", "on_url", "on_header", "on_headers_complete", "on_body", "on_message_complete"]


@pytest.mark.parametrize("name", CALLBACKS)
async def test_a_failure_of_the_listener_itself_is_logged_and_answered_as_such(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What broke in each of the parser's callbacks was answered with 400 before, and nowhere to be seen."""

    def fail(*_: object) -> None:
        raise AttributeError("a name that uvicorn has changed")

    monkeypatch.setattr(HttpServerConnection, name, fail)
    async with opened() as door, connected(door) as client:
        client.ask("/one", body=b"body")
        assert await client.answer() == (500, b"The server has failed.")
        assert await client.rest() == b""
    (record,) = caplog.records
    assert (record.levelname, record.name) == ("ERROR", "parley.server.listener.connection")
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "a name that uvicorn has changed"


@pytest.mark.parametrize("hosts", [(), ("host: a", "host: b")])
async def test_a_request_has_exactly_one_host(hosts: tuple[str, ...]) -> None:
    async with opened() as door, connected(door) as client:
        client.send("GET / HTTP/1.1", *hosts, "")
        assert await client.answer() == (400, b"A request must have exactly one Host header.")
    async with opened() as door, connected(door) as client:
        client.send("GET /old HTTP/1.0", "")
        assert await client.answer() == (200, b"/old")
