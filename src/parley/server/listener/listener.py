"""The door: uvicorn's HTTP/1.1 with the deadlines and limits that uvicorn leaves to a proxy.

A connection reads a request (head, then body) and writes its reply. Whoever is slow at one of them, keeps too many
connections or sends a flood of headers is refused, with a status where one can still be read. One sweep a second looks
at all connections, so a request costs no timer. The sweep keeps the clock too: deadlines are as exact as its interval.

Nothing here knows A2A. A client certificate that TLS has verified is in `scope["extensions"]["tls"]`.
"""

from __future__ import annotations

import asyncio
import http
import ipaddress
import logging
import re
import socket
import ssl
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.utils import formatdate
from enum import IntEnum
from typing import Any, NoReturn
from urllib.parse import unquote

import httptools
from starlette.types import ASGIApp
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.utils import get_remote_addr
from uvicorn.server import ServerState

from parley.server.listener.exchange import Exchange

BACKLOG = 2_048
"""Connections that may wait to be accepted, as uvicorn has it; the kernel's own limit is often lower."""

FLUSH_SECONDS = 2.0
"""How long closed connections may take to deliver their last bytes, and requests to notice that nobody waits."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerLimits:
    """How long and how much a connection may. Rates are averages over the window before them."""

    handshake_seconds: float = 10.0
    """A TLS handshake is two or three small packets each way, even over a satellite."""
    header_seconds: float = 10.0
    """From a request's first byte to the end of its head. Heads come in one packet; nginx allows 60, Apache 20."""
    idle_seconds: float = 75.0
    """Between requests. Longer than the 60 of most load balancers, so it is they who close, and lose no request."""
    body_seconds: float = 30.0
    """The window in which a body must go on."""
    body_bytes_per_second: float = 512.0
    """What the worst mobile network still does, and what makes holding a connection dear."""
    write_seconds: float = 75.0
    """The window in which a client must take what is written. Streams have a shorter patience of their own."""
    write_bytes_per_second: float = 512.0
    """As for bodies."""
    linger_seconds: float = 5.0
    """How long the rest of a refused request is read and dropped: closing at once could destroy the reply."""
    head_bytes: int = 32 * 1024
    """Request line and headers. Bearer tokens of 8 KiB are seen; nginx takes 32 KiB in all."""
    headers: int = 100
    """As Apache has it. Browsers behind proxies send about thirty."""
    pipelined: int = 16
    """Requests that wait for earlier replies of their connection. Nobody but attackers and benchmarks pipelines."""
    connections: int = 12_000
    """All together: the 10,000 streams that the server allows, and room for requests."""
    connections_per_address: int = 4_096
    """A company behind one address is many people. An IPv6 address counts with its whole /64."""
    sweep_seconds: float = 1.0
    """How exact the deadlines are."""


class Phase(IntEnum):
    """What a connection is doing on its reading side."""

    IDLE = 0
    HEAD = 1
    BODY = 2
    REPLY = 3
    """The request is read."""
    LINGER = 4
    """The reply is written; what still comes is dropped."""


IDLE, HEAD, BODY, REPLY, LINGER = Phase  # looking a member up in its class takes longer than counting a header


class ListenerState(ServerState):
    """What all connections of a listener share."""

    def __init__(self, limits: ListenerLimits, trusted_proxies: Sequence[str]) -> None:
        super().__init__()
        self.limits = limits
        self.now = 0.0
        self.emptied = asyncio.Event()
        self.per_address: Counter[str] = Counter()
        self._trusted = [ipaddress.ip_network(proxy) for proxy in trusted_proxies]

    def admit(self, address: str) -> str | None:
        """The key under which a new connection counts, or None if there are too many."""
        if len(self.connections) >= self.limits.connections:
            return None
        key = self._key(address)
        if key and self.per_address[key] >= self.limits.connections_per_address:
            return None
        if key:
            self.per_address[key] += 1
        return key

    def release(self, key: str) -> None:
        """A connection that counted under this key is gone."""
        self.per_address[key] -= 1
        if self.per_address[key] <= 0:
            del self.per_address[key]

    def _key(self, address: str) -> str:
        """Trusted proxies, whose connections are other people's, have no key."""
        if not self._trusted and ":" not in address:
            return address
        try:
            ip = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:  # not a TCP connection
            return address
        if any(ip in network for network in self._trusted):
            return ""
        return str(ipaddress.ip_network((ip, 64), strict=False)) if ip.version == 6 else address


class GuardedProtocol(HttpToolsProtocol):
    """A connection. Overridden without `super()` where a call more for each header or body piece could be felt."""

    parser: httptools.HttpRequestParser | None  # type: ignore[assignment]  # uvicorn drops it with the connection

    def __init__(
        self,
        config: Config,
        server_state: ListenerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.state = server_state
        self.limits = server_state.limits
        self.phase = IDLE
        self.since = server_state.now
        self.limit_idle = self.limits.header_seconds  # a connection is opened to say something
        self.key: str | None = None
        self.extensions: dict[str, Any] | None = None
        self.max_headers = self.limits.headers
        self.body_bytes = 0
        self.has_news = False
        self.bytes_without_news = 0
        self.active: RequestResponseCycle | None = None
        self.refusal: tuple[int, str] | None = None
        self.write_since: float | None = None
        self.write_pending = 0

    # --- the connection -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count it, or turn it away."""
        peer = get_remote_addr(transport)
        self.key = self.state.admit(peer[0] if peer else "")
        if self.key is None:
            self.transport = transport
            transport.write(_reply(503, "Too many connections.", [b"retry-after: 5\r\n"]))
            transport.close()
            return
        super().connection_made(transport)
        connection: socket.socket | None = transport.get_extra_info("socket")
        if connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
            # asyncio does so itself only for sockets that it has made. Without it, a reply's body waits for the
            # acknowledgement of its head, which comes 40 ms later.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            # There is a certificate only if it was asked for, and then it has been verified.
            self.extensions = {"tls": {"client_cert_der": tls.getpeercert(binary_form=True)}}

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request that is being answered, which is not always the last one that was read."""
        if self.key is None:
            return
        if self.key:
            self.state.release(self.key)
        self.pipeline.clear()
        if self.active is not None and not self.active.response_complete:
            self.active.disconnected = True
            self.active.message_event.set()
        super().connection_lost(exc)
        self.active = None
        if not self.connections:
            self.state.emptied.set()

    def data_received(self, data: bytes) -> None:
        """Parse what came, unless it is the rest of something refused."""
        if self.refusal is not None or self.parser is None:
            return
        self.has_news = False
        self.bytes_without_news += len(data)
        try:
            self._parse(self.parser, data)
        except httptools.HttpParserError as error:
            self._refuse_unparsed(error)
            return
        # A header or a trailer without an end is kept by the parser, which does not bound it.
        if self.has_news:
            self.bytes_without_news = 0
        elif self.bytes_without_news > self.limits.head_bytes:
            self.refuse(431, "The headers are too long.")

    def _parse(self, parser: httptools.HttpRequestParser, data: bytes) -> None:
        """Feed the parser. A request that asks for another protocol is answered as if it had not asked.

        After the head of such a request the parser stops, and takes what follows for the other protocol. So another
        one, which was told of the same length, reads its body and all requests after it.
        """
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            parser = self.parser = httptools.HttpRequestParser(_AfterUpgrade(self))
            lengths = (b"content-length", b"transfer-encoding")
            head = [b"%b: %b\r\n" % header for header in self.cycle.scope["headers"] if header[0] in lengths]
            parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % b"".join(head or [b"content-length: 0\r\n"]))
            if rest := data[upgrade.args[0] :]:
                self._parse(parser, rest)

    def _refuse_unparsed(self, error: httptools.HttpParserError) -> None:
        """Answer for what has stopped the parser: a refusal, a failure of our own, or bytes that are not HTTP/1.1."""
        if self.refusal is not None:
            self.refuse(*self.refusal)
        elif isinstance(error, httptools.HttpParserCallbackError):
            logger.error("A request could not be taken", exc_info=error.__context__ or error)
            self.refuse(500, "The server has failed.")
        else:
            self.refuse(400, "This is not HTTP/1.1.")

    def refuse(self, status: int, reason: str) -> None:
        """Answer with an error if no other answer has begun, and close when the client had time to read it."""
        self.refusal = (status, reason)
        active = self.active
        if active is not None and not active.response_complete:
            if active.response_started or active is not self.cycle or self.phase is not BODY:
                self.transport.abort()
                return
            active.disconnected = True
            active.message_event.set()
        self._enter(LINGER)
        self.flow.resume_reading()
        self.transport.write(_reply(status, reason))
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def shutdown(self) -> None:
        """Close between requests, or after the reply that is on its way."""
        if self.active is None or self.active.response_complete:
            self.transport.close()
            return
        for cycle, _ in self.pipeline:
            cycle.keep_alive = False
        self.active.keep_alive = False

    def resume_writing(self) -> None:
        """The client has taken most of what was written."""
        self.write_since = None
        self.flow.resume_writing()

    # --- parsing ------------------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A request's first byte."""
        super().on_message_begin()
        self.phase, self.since = HEAD, self.state.now
        if self.extensions is not None:
            self.scope["extensions"] = self.extensions

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header or a trailer."""
        if len(self.headers) >= self.max_headers:
            self._stop(431, "There are too many headers.")
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The end of the head: the application begins."""
        self.has_news = True
        # What came until now bounds the head, and is short enough nearly always; then nothing is added up.
        if self.bytes_without_news > self.limits.head_bytes and self._head_bytes() > self.limits.head_bytes:
            self._stop(431, "The headers are too long.")
        if len(self.pipeline) >= self.limits.pipelined:
            self._stop(400, "Too many requests are pipelined.")
        assert self.parser is not None  # it is what calls
        self._check_head(self.parser.get_http_version())
        self._complete_scope(self.parser)
        self.phase, self.since = BODY, self.state.now
        self.body_bytes = 0
        self._start_exchange(self.parser)
        # Trailers are dropped: what was checked must not get more headers behind the check.
        self.headers = []

    def _check_head(self, version: str) -> None:
        """Refuse what the parser takes, but a server behind or before this one may read otherwise."""
        if version not in ("1.1", "1.0"):  # the parser knows 0.9, which has no headers, and 2.0 too
            self._stop(505, "Only HTTP/1.1 and HTTP/1.0 are supported.")
        hosts = 0
        for name, value in self.headers:
            if name == b"host":
                hosts += 1
            elif name == b"transfer-encoding" and value.lower() != b"chunked":  # RFC 9112 section 6.1
                self._stop(501, "The only transfer coding that is supported is chunked.")
        if hosts != 1 and version == "1.1":
            self._stop(400, "A request has exactly one Host.")  # RFC 9112 section 3.2

    def _complete_scope(self, parser: httptools.HttpRequestParser) -> None:
        try:
            parsed = httptools.parse_url(self.url)
            raw_path = parsed.path or b"/"
            path = raw_path.decode("ascii")
        except (httptools.HttpParserInvalidURLError, UnicodeDecodeError):
            self._stop(400, "The request target is not a URL.")
        if parsed.host and _authority(self.url) != dict(self.headers).get(b"host", b"").lower():
            self._stop(400, "The request target names another host than the Host header.")  # RFC 9112 section 3.2.2
        scope = self.scope
        scope["method"] = parser.get_method().decode("ascii")
        scope["http_version"] = parser.get_http_version()
        scope["path"] = unquote(path) if "%" in path else path
        scope["raw_path"] = raw_path
        scope["query_string"] = parsed.query or b""

    def _start_exchange(self, parser: httptools.HttpRequestParser) -> None:
        before: RequestResponseCycle | None = vars(self)["cycle"]  # which uvicorn declares as never None
        self.cycle = Exchange(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=self.scope["http_version"] != "1.0" and parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        if before is None or before.response_complete:
            self._start(self.cycle)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self._app))

    def _head_bytes(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    @property
    def _app(self) -> Any:
        return vars(self)["app"]  # of a type that uvicorn leaves open

    def _start(self, cycle: RequestResponseCycle) -> None:
        self.active = cycle
        task = self.loop.create_task(cycle.run_asgi(self._app))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def _stop(self, status: int, reason: str) -> NoReturn:
        """End the parsing of a request that is refused."""
        self.refusal = (status, reason)
        raise _Refused

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self.has_news = True
        self.body_bytes += len(body)
        cycle = self.cycle
        if cycle.response_complete:
            return
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        """The request's last byte."""
        if self.parser is not None and self.parser.should_upgrade():
            return  # only its head: see `_parse`
        self.has_news = True
        cycle = self.cycle
        self.since = self.state.now
        if cycle.response_complete:
            self.phase = IDLE
            return
        self.phase = REPLY
        cycle.more_body = False
        cycle.message_event.set()

    def on_response_complete(self) -> None:
        """The reply's last byte: the next request, if it is here already."""
        self.state.total_requests += 1
        self.limit_idle = self.limits.idle_seconds
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start(self.pipeline.pop()[0])
        elif self.phase is REPLY:
            self._enter(IDLE)
        elif self.phase is BODY:  # the reply did not wait for the body
            self._enter(LINGER)

    def _enter(self, phase: Phase) -> None:
        self.phase = phase
        self.since = self.state.now

    # --- the sweep ----------------------------------------------------------------------------------------------------

    def check(self, now: float) -> None:
        """Refuse or close if something takes too long."""
        if self.flow.write_paused or self.transport.is_closing():
            if self._is_stalled(now):
                self.transport.abort()
            return
        waited = now - self.since
        if self.phase is REPLY:
            return
        if self.phase is HEAD:
            if waited >= self.limits.header_seconds:
                self.refuse(408, "The headers take too long.")
        elif self.phase is BODY:
            self._check_body(now, waited)
        elif waited >= (self.limit_idle if self.phase is IDLE else self.limits.linger_seconds):
            self.transport.close()

    def _check_body(self, now: float, waited: float) -> None:
        if self.flow.read_paused:  # it is the application that is slow
            self.since, self.body_bytes = now, 0
        elif waited >= self.limits.body_seconds:
            if self.body_bytes < self.limits.body_bytes_per_second * waited:
                self.refuse(408, "The body takes too long.")
            self.since, self.body_bytes = now, 0

    def _is_stalled(self, now: float) -> bool:
        pending = self.transport.get_write_buffer_size()
        if self.write_since is None:
            self.write_since, self.write_pending = now, pending
        waited = now - self.write_since
        if waited < self.limits.write_seconds:
            return False
        if self.write_pending - pending < self.limits.write_bytes_per_second * waited:
            return True
        self.write_since, self.write_pending = now, pending
        return False


class _AfterUpgrade:
    """Passes on what a parser says, but not of its first head: another parser has read that."""

    def __init__(self, connection: GuardedProtocol) -> None:
        self._connection = connection
        self._is_first = True

    def on_message_begin(self) -> None:
        if not self._is_first:
            self._connection.on_message_begin()

    def on_url(self, url: bytes) -> None:
        if not self._is_first:
            self._connection.on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._is_first:
            self._connection.on_header(name, value)

    def on_headers_complete(self) -> None:
        if not self._is_first:
            self._connection.on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._connection.on_body(body)

    def on_message_complete(self) -> None:
        self._is_first = False
        self._connection.on_message_complete()


class _Refused(Exception):
    """Ends the parsing of a request that is refused."""


def _authority(url: bytes) -> bytes:
    """The host of an absolute URL, with its port and user if it has them."""
    return re.split(rb"[/?#]", url.partition(b"://")[2], maxsplit=1)[0].lower()


def _reply(status: int, reason: str, headers: Sequence[bytes] = ()) -> bytes:
    body = reason.encode()
    return b"".join(
        [
            b"HTTP/1.1 %d %s\r\n" % (status, http.HTTPStatus(status).phrase.encode()),
            b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n" % len(body),
            *headers,
            b"connection: close\r\n\r\n",
            body,
        ]
    )


class Listener:
    """Serves an ASGI application on sockets. It opens and closes connections, not the application."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: ListenerLimits | None = None,
        tls: ssl.SSLContext | None = None,
        trusted_proxies: Sequence[str] = (),
        access_log: bool = False,
    ) -> None:
        """`trusted_proxies` (addresses or networks) may say in `X-Forwarded-…` whom they speak for."""
        self.limits = limits or ListenerLimits()
        self.state = ListenerState(self.limits, trusted_proxies)
        self._tls = tls
        self._config = Config(
            app,  # type: ignore[arg-type]  # uvicorn and starlette spell the same interface differently
            http=GuardedProtocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=access_log,
            proxy_headers=bool(trusted_proxies),
            forwarded_allow_ips=list(trusted_proxies),
            server_header=False,
            workers=1,
        )
        if access_log:  # an earlier listener of this process may have silenced it
            logging.getLogger("uvicorn.access").propagate = True
        self._servers: list[asyncio.Server] = []
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        """Accept connections on bound sockets, which belong to the listener from now on."""
        if not self._config.loaded:
            self._config.load()
        loop = asyncio.get_running_loop()
        self.sweep(loop.time())
        self._sweeper = loop.create_task(self._keep_sweeping())
        timeout = self.limits.handshake_seconds if self._tls else None
        for bound in sockets:
            server = await loop.create_server(
                self._connection,
                sock=bound,
                ssl=self._tls,
                backlog=BACKLOG,
                ssl_handshake_timeout=timeout,
                ssl_shutdown_timeout=timeout,
            )
            self._servers.append(server)

    def _connection(self) -> GuardedProtocol:
        return GuardedProtocol(self._config, self.state, {})

    def stop_accepting(self) -> None:
        """Take no more connections; close idle ones now, and the others after their replies."""
        for server in self._servers:
            server.close()
        for connection in self._connections():
            connection.shutdown()

    async def close(self, *, grace: float = 0.0) -> None:
        """Wait for the replies that are on their way, then cut off the rest."""
        self.stop_accepting()
        if self.state.tasks and grace > 0:
            await asyncio.wait(self.state.tasks, timeout=grace)
        for connection in self._connections():
            connection.transport.close()
        if late := list(self.state.tasks):
            logger.warning("%d requests were not answered in time and are cut off", len(late))
            # They hear that their client is gone. One that does not listen is cancelled.
            for connection in self._connections():
                connection.transport.abort()
            _, deaf = await asyncio.wait(late, timeout=FLUSH_SECONDS)
            for task in deaf:
                task.cancel()
        await self._flushed()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for server in self._servers:
            await server.wait_closed()

    async def _flushed(self) -> None:
        """The last bytes of replies are with their clients, or these had their chance."""
        if self.state.connections:
            self.state.emptied.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.state.emptied.wait(), FLUSH_SECONDS)
        for connection in self._connections():
            connection.transport.abort()

    def _connections(self) -> list[GuardedProtocol]:
        return [connection for connection in self.state.connections if isinstance(connection, GuardedProtocol)]

    async def _keep_sweeping(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self.limits.sweep_seconds)
            self.sweep(loop.time())

    def sweep(self, now: float) -> None:
        """Look at every connection; the clock stands at `now` until the next sweep."""
        self.state.now = now
        self.state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
        for connection in self._connections():
            connection.check(now)
