"""One HTTP/1.1 connection: uvicorn's protocol, with the deadlines and limits that uvicorn leaves to a reverse proxy.

A connection reads a request (head, then body) and writes its reply. A client that is slow, opens too many connections
or sends too many headers is refused, with an HTTP status if it can still read one. `Listener` calls `check` of every
connection once a second and updates `ListenerState.now`, so a request needs no timer and does not read the clock.
"""

from __future__ import annotations

import asyncio
import http
import ipaddress
import logging
import re
import socket
from collections import Counter
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NoReturn
from urllib.parse import unquote

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.utils import get_remote_addr
from uvicorn.server import ServerState

from parley.server.listener.limits import ListenerLimits
from parley.server.listener.request_cycle import RequestCycle

logger = logging.getLogger(__name__)


class Phase(IntEnum):
    """What a connection is reading."""

    IDLE = 0
    HEAD = 1
    BODY = 2
    REPLY = 3
    """The request is read; its reply is being written."""
    LINGER = 4
    """The reply is written; the rest of the request is discarded."""


IDLE, HEAD, BODY, REPLY, LINGER = Phase  # faster than looking a member up in its class for every header


class ListenerState(ServerState):
    """The state that all connections of a listener share."""

    def __init__(self, limits: ListenerLimits, trusted_proxies: Sequence[str]) -> None:
        super().__init__()
        self.limits = limits
        self.now = 0.0
        self.emptied = asyncio.Event()
        self.is_ending = False
        """Whether connections are closed after their next replies."""
        self.per_address: Counter[str] = Counter()
        self._trusted = [ipaddress.ip_network(proxy) for proxy in trusted_proxies]

    def admit(self, address: str) -> str | None:
        """Count a new connection, and return the key to release it with, or None if there are too many."""
        if len(self.connections) >= self.limits.connections:
            return None
        key = self._key(address)
        if key and self.per_address[key] >= self.limits.connections_per_address:
            return None
        if key:
            self.per_address[key] += 1
        return key

    def release(self, key: str) -> None:
        """Stop counting a connection that was admitted with this key."""
        self.per_address[key] -= 1
        if self.per_address[key] <= 0:
            del self.per_address[key]

    def _key(self, address: str) -> str:
        """The key of an address. Trusted proxies have none: their connections belong to many clients."""
        if not self._trusted and ":" not in address:
            return address
        try:
            ip = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:  # a Unix socket
            return address
        if any(ip in network for network in self._trusted):
            return ""
        return str(ipaddress.ip_network((ip, 64), strict=False)) if ip.version == 6 else address


class HttpServerConnection(HttpToolsProtocol):
    """A connection. Methods that run for every header or body chunk do not call `super()`, to save time."""

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
        self.limit_idle = self.limits.header_seconds  # the first request must follow soon
        self.key: str | None = None
        self.extensions: dict[str, Any] | None = None
        self.max_headers = self.limits.headers
        self.body_bytes = 0
        self.has_progress = False
        self.bytes_without_progress = 0
        self.active: RequestResponseCycle | None = None
        self.refusal: tuple[int, str] | None = None
        self.write_since: float | None = None
        self.write_pending = 0

    # --- the connection -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, or refuse it."""
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
            # asyncio sets this only on sockets that it has created. Without it, the body of a reply waits for the
            # acknowledgement of its headers, which comes 40 ms later.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            # TLS has verified the certificate, if there is one.
            self.extensions = {"tls": {"client_cert_der": tls.getpeercert(binary_form=True)}}

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the request that is being answered, which is not always the last one that was read."""
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
        """Parse the data, unless it is the rest of a refused request."""
        if self.refusal is not None or self.parser is None:
            return
        self.has_progress = False
        self.bytes_without_progress += len(data)
        try:
            self._parse(self.parser, data)
        except httptools.HttpParserError as error:
            self._refuse_unparsed(error)
            return
        # The parser buffers an unfinished header or trailer without a limit.
        if self.has_progress:
            self.bytes_without_progress = 0
        elif self.bytes_without_progress > self.limits.head_bytes:
            self.refuse(431, "The headers are too long.")

    def _parse(self, parser: httptools.HttpRequestParser, data: bytes) -> None:
        """Feed the parser, and ignore requests to upgrade to another protocol.

        The parser stops after the headers of such a request, because it expects the other protocol to follow. So a new
        parser, which gets the same `Content-Length`, reads the body and all later requests.
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
        """Reply to what has stopped the parser: a refusal, an error of this server, or bytes that are not HTTP/1.1."""
        if self.refusal is not None:
            self.refuse(*self.refusal)
        elif isinstance(error, httptools.HttpParserCallbackError):
            logger.error("A request could not be read", exc_info=error.__context__ or error)
            self.refuse(500, "The server has failed.")
        else:
            self.refuse(400, "This is not HTTP/1.1.")

    def refuse(self, status: int, reason: str) -> None:
        """Reply with an error, unless another reply has started, and close when the client had time to read it."""
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
        """Close the connection, after the active reply if there is one."""
        if self.active is None or self.active.response_complete:
            self.transport.close()
            return
        self.end_kept_alive()

    def end_kept_alive(self) -> None:
        """Close the connection after the active reply, if there is one."""
        for cycle, _ in self.pipeline:
            cycle.keep_alive = False
        if self.active is not None:
            self.active.keep_alive = False

    def resume_writing(self) -> None:
        """The client has read most of what was written."""
        self.write_since = None
        self.flow.resume_writing()

    # --- parsing ------------------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self.phase, self.since = HEAD, self.state.now
        if self.extensions is not None:
            self.scope["extensions"] = self.extensions

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header or a trailer."""
        if len(self.headers) >= self.max_headers:
            self._reject(431, "The request has too many headers.")
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The end of the headers: the application starts."""
        self.has_progress = True
        # The bytes received so far are an upper bound, so the exact size is rarely computed.
        if self.bytes_without_progress > self.limits.head_bytes and self._head_bytes() > self.limits.head_bytes:
            self._reject(431, "The headers are too long.")
        if len(self.pipeline) >= self.limits.pipelined:
            self._reject(400, "Too many requests are pipelined.")
        assert self.parser is not None  # the parser calls this method
        self._check_head(self.parser.get_http_version())
        self._complete_scope(self.parser)
        self.phase, self.since = BODY, self.state.now
        self.body_bytes = 0
        self._start_cycle(self.parser)
        # Trailers are discarded, so that no header is added after the check.
        self.headers = []

    def _check_head(self, version: str) -> None:
        """Refuse requests that the parser accepts but that another server on the way may read differently."""
        if version not in ("1.1", "1.0"):  # the parser also accepts 0.9, which has no headers, and 2.0
            self._reject(505, "Only HTTP/1.1 and HTTP/1.0 are supported.")
        hosts = 0
        for name, value in self.headers:
            if name == b"host":
                hosts += 1
            elif name == b"transfer-encoding" and value.lower() != b"chunked":  # RFC 9112 section 6.1
                self._reject(501, "The only supported transfer coding is chunked.")
        if hosts != 1 and version == "1.1":
            self._reject(400, "A request must have exactly one Host header.")  # RFC 9112 section 3.2

    def _complete_scope(self, parser: httptools.HttpRequestParser) -> None:
        try:
            parsed = httptools.parse_url(self.url)
            raw_path = parsed.path or b"/"
            path = raw_path.decode("ascii")
        except (httptools.HttpParserInvalidURLError, UnicodeDecodeError):
            self._reject(400, "The request target is not a URL.")
        if parsed.host and _authority(self.url) != dict(self.headers).get(b"host", b"").lower():
            self._reject(400, "The request target and the Host header name different hosts.")  # RFC 9112 section 3.2.2
        scope = self.scope
        scope["method"] = parser.get_method().decode("ascii")
        scope["http_version"] = parser.get_http_version()
        scope["path"] = unquote(path) if "%" in path else path
        scope["raw_path"] = raw_path
        scope["query_string"] = parsed.query or b""

    def _start_cycle(self, parser: httptools.HttpRequestParser) -> None:
        before: RequestResponseCycle | None = vars(self)["cycle"]  # uvicorn declares it as never None
        self.cycle = RequestCycle(  # by position: names would cost a dict for each request
            self.scope,
            self.transport,
            self.flow,
            self.logger,
            self.access_logger,
            self.access_log,
            self.state.default_headers,
            asyncio.Event(),
            self.expect_100_continue,
            self.scope["http_version"] != "1.0" and not self.state.is_ending and parser.should_keep_alive(),
            self.on_response_complete,
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
        return vars(self)["app"]  # uvicorn declares no type for it

    def _start(self, cycle: RequestResponseCycle) -> None:
        self.active = cycle
        task = self.loop.create_task(cycle.run_asgi(self._app))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def _reject(self, status: int, reason: str) -> NoReturn:
        """Stop parsing a request that is refused."""
        self.refusal = (status, reason)
        raise _Refused

    def on_body(self, body: bytes) -> None:
        """A chunk of the body."""
        self.has_progress = True
        self.body_bytes += len(body)
        cycle = self.cycle
        if cycle.response_complete:
            return
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        """The last byte of a request."""
        if self.parser is not None and self.parser.should_upgrade():
            return  # this is only the end of the headers: see `_parse`
        self.has_progress = True
        cycle = self.cycle
        self.since = self.state.now
        if cycle.response_complete:
            self.phase = IDLE
            return
        self.phase = REPLY
        cycle.more_body = False
        cycle.message_event.set()

    def on_response_complete(self) -> None:
        """The last byte of a reply: start the next pipelined request, if there is one."""
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

    # --- deadlines ----------------------------------------------------------------------------------------------------

    def check(self, now: float) -> None:
        """Refuse the request or close the connection if a deadline has passed."""
        if self.flow.write_paused or self.transport.is_closing():
            if self._is_stalled(now):
                self.transport.abort()
            return
        waited = now - self.since
        if self.phase is REPLY:
            return
        if self.phase is HEAD:
            if waited >= self.limits.header_seconds:
                self.refuse(408, "The headers did not arrive in time.")
        elif self.phase is BODY:
            self._check_body(now, waited)
        elif waited >= (self.limit_idle if self.phase is IDLE else self.limits.linger_seconds):
            self.transport.close()

    def _check_body(self, now: float, waited: float) -> None:
        if self.flow.read_paused:  # the application is slow, not the client
            self.since, self.body_bytes = now, 0
        elif waited >= self.limits.body_seconds:
            if self.body_bytes < self.limits.body_bytes_per_second * waited:
                self.refuse(408, "The body arrives too slowly.")
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
    """Forwards the callbacks of a parser, except for its first headers, which another parser has read already."""

    def __init__(self, connection: HttpServerConnection) -> None:
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
    """Stops the parser when a request is refused."""


def _authority(url: bytes) -> bytes:
    """The authority of an absolute URL: host, and port and user if there are any."""
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
