"""HTTP as the MCP SDK uses it: to addresses that the guard allows, in bounded memory, with failures as JSON-RPC errors.

Names are resolved once and connections go to the addresses that were checked (see `parley.network.pinned`). The SDK
follows redirects within one origin only, and asks for each here. Nothing is compressed. A failure becomes a reply to
the request that it belongs to, because the SDK would end the whole connection for it. The stream that a server could
open by itself is refused: agents only wait for answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import httpx2
import msgspec
from opentelemetry import propagate

from parley.client.errors import ForbiddenTargetError
from parley.client.guard import HINT, DialRules, Guard
from parley.client.transports.http import ALWAYS_SENT, NO_COMPRESSION
from parley.host.mcp.link import CALL_HEADERS, McpLink
from parley.host.mcp.rate import RateAllowance
from parley.host.mcp.server_config import McpServerConfig, McpUrl
from parley.host.mcp.value_count import MAX_MESSAGE_VALUES, ValueCount
from parley.network.errors import ConnectError, NetworkError
from parley.network.http import HttpRequest, HttpResponse
from parley.network.pinned import NameResolver, PinnedNetwork, Resolve, machine_tls
from parley.network.pool import ConnectionPool
from parley.network.proxies import Proxies
from parley.network.urls import InvalidUrlError, parse_url
from parley.protocol.errors import LocalProtocolError

CLOSE_SECONDS = 5.0
"""For the request that ends a session. A server that does not answer it forgets the session by itself."""

STREAM_MESSAGES = 4
"""A stream may hold so many times the largest message: what comes before the answer is dropped, but it is read."""

MAX_RESUMPTIONS = 10
"""How often a stream that has ended is taken up again at once; in the long run, once a second. A server that ends each
stream and asks for no pause would keep the SDK busy for ever."""

INTERNAL_ERROR = -32603
"""JSON-RPC's code for whatever went wrong here."""

EVENT_STREAM = "text/event-stream"

_FRAMING = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding", "user-agent"})


class McpHttpTransport(httpx2.AsyncBaseTransport):
    """Sends the SDK's requests to one server."""

    def __init__(self, config: McpServerConfig, url: McpUrl, link: McpLink, *, resolve: Resolve | None = None) -> None:
        """`resolve` looks up names in place of the machine."""
        self._config = config
        self._link = link
        self._headers = dict(url.headers)
        self._resumptions = RateAllowance(MAX_RESUMPTIONS, 1.0)
        self._seconds = max(config.timeout_seconds, config.connect_seconds)
        self._guard = Guard(trust_named=False, allowed_hosts=url.allowed_hosts)
        self._names = NameResolver(threads=1)
        proxies = Proxies.of_environment() if self._guard.use_proxy else None
        network = PinnedNetwork(DialRules(self._guard), resolve or self._names, proxies)
        self._pool = ConnectionPool(network, machine_tls())

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The response to a request of the SDK."""
        if request.method == "GET" and not ("last-event-id" in request.headers and self._resumptions.take()):
            return httpx2.Response(405, request=request)
        seconds = CLOSE_SECONDS if request.method == "DELETE" else self._seconds
        deadline = asyncio.get_running_loop().time() + seconds
        try:
            self._guard.check_named(str(request.url))
            response = await self._pool.send(await self._outgoing(request), deadline)
        except (ForbiddenTargetError, InvalidUrlError, LocalProtocolError) as error:
            return self._failed(request, error.message.replace(HINT, ""))
        except NetworkError as error:
            text = f"the server cannot be reached: {error}"
            return self._failed(request, text, is_down=isinstance(error, ConnectError))
        return await self._received(request, response, deadline)

    async def _outgoing(self, request: httpx2.Request) -> HttpRequest:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _FRAMING}
        more = {**self._headers, **trace_headers(), **(CALL_HEADERS.get() or {})}
        given = {name.lower(): value for name, value in more.items()}
        return HttpRequest(
            request.method, parse_url(str(request.url)), {**headers, **ALWAYS_SENT, **given}, await request.aread()
        )

    async def _received(self, request: httpx2.Request, response: HttpResponse, deadline: float) -> httpx2.Response:
        status, content_type = response.status, response.headers.get("content-type", "").lower()
        if response.headers.get("content-encoding", NO_COMPRESSION).strip().lower() != NO_COMPRESSION:
            await response.close()
            return self._failed(request, "the server compresses its answers, although the host refuses that")
        if status == 404 and "mcp-session-id" in request.headers:
            self._link.lose_session()
        if status >= 400 and not content_type.startswith("application/json"):
            await response.close()
            return self._failed(request, f"the server answered with status {status}", status=status)
        body = _BoundedBody(response, self._config.max_result_bytes, deadline, is_stream=EVENT_STREAM in content_type)
        headers = {name: value for name, value in response.headers.items() if name not in _FRAMING}
        return httpx2.Response(status, headers=headers, stream=body, request=request)

    def _failed(
        self, request: httpx2.Request, reason: str, *, status: int = 502, is_down: bool = True
    ) -> httpx2.Response:
        """A failure as the JSON-RPC error that answers the request. One without a server ends the connection."""
        text = self._config.redact(reason)
        if is_down and status >= 500 and request.method == "POST":
            self._link.end(text)
        error = {"jsonrpc": "2.0", "id": None, "error": {"code": INTERNAL_ERROR, "message": text}}
        headers = {"content-type": "application/json"}
        return httpx2.Response(status, headers=headers, content=msgspec.json.encode(error), request=request)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._pool.close()
        self._names.close()


class _BoundedBody(httpx2.AsyncByteStream):
    """The body of a response, of which no more is read than is allowed."""

    def __init__(self, response: HttpResponse, max_bytes: int, deadline: float, *, is_stream: bool) -> None:
        self._response = response
        self._max_bytes = max_bytes
        self._deadline = deadline
        self._is_stream = is_stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._max_bytes * STREAM_MESSAGES if self._is_stream else self._max_bytes
        count = ValueCount()
        while chunk := await self._read():
            left -= len(chunk)
            count.add(chunk)
            if left < 0 or count.values > MAX_MESSAGE_VALUES:
                most = f"{self._max_bytes} bytes" if left < 0 else f"{MAX_MESSAGE_VALUES} values"
                text = f"the answer has more than the {most} that are allowed"
                # The SDK translates these two, each for its kind of response; others would end the connection.
                raise httpx2.SSEError(text) if self._is_stream else httpx2.StreamError(text)
            yield chunk

    async def _read(self) -> bytes:
        try:
            return await self._response.read(self._deadline)
        except NetworkError as error:
            text = f"the answer broke off: {error}"
            raise httpx2.ReadError(text) if self._is_stream else httpx2.StreamError(text) from None

    async def aclose(self) -> None:
        """Give the connection back."""
        await self._response.close()


def trace_headers() -> Mapping[str, str]:
    """The headers of the trace in progress, without its baggage, which may hold anything that a caller has sent."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    carrier.pop("baggage", None)
    return carrier
