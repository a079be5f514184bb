"""What passes between a check and a server, written down; credentials are not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import cast

import httpx2

from parley.check.verdict import Exchange, Undecided, cut

MAX_RECORDED = 16 * 1024 * 1024
"""Bytes of a body that are kept for cases to look at."""


class Recorder:
    """What was sent and received since a case began, and how much in all."""

    def __init__(self, *, max_requests: int, secret: Iterable[str] = ()) -> None:
        """`secret` are the headers whose values must not be seen."""
        self.exchanges: list[Exchange] = []
        self.requests = 0
        self.left = max_requests
        self._secret = {name.lower() for name in secret}

    def begin(self, sent: str) -> Exchange:
        """Record a request. Raises Undecided when there were enough."""
        if self.left <= 0:
            raise Undecided("the check has sent as many requests as it allows itself")
        self.left -= 1
        self.requests += 1
        exchange = Exchange(sent)
        self.exchanges.append(exchange)
        return exchange

    def begin_http(self, request: httpx2.Request, body: bytes) -> Exchange:
        """Record a request over HTTP; values of the caller's own headers are not shown."""
        wanted = ("content-type", "accept", "a2a-version", "a2a-extensions", "x-a2a-extensions", "authorization")
        lines = [
            f"{name}: {'(not shown)' if name in self._secret else request.headers[name]}"
            for name in (*wanted, *sorted(self._secret - set(wanted)))
            if name in request.headers
        ]
        head = "\n".join([f"{request.method} {request.url}", *lines])
        return self.begin(f"{head}\n\n{cut(body.decode(errors='replace'))}".strip())


class _Tee(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, exchange: Exchange) -> None:
        self._stream = stream
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            if len(self._exchange.body) < MAX_RECORDED:
                self._exchange.body += chunk
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class RecordingTransport(httpx2.AsyncBaseTransport):
    """Sends over the network and writes down what passes."""

    def __init__(self, network: httpx2.AsyncBaseTransport, recorder: Recorder) -> None:
        self._network = network
        self._recorder = recorder

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; the reply's body is recorded as it is read."""
        exchange = self._recorder.begin_http(request, await request.aread())
        response = await self._network.handle_async_request(request)
        exchange.status = response.status_code
        exchange.headers = {name.lower(): value for name, value in response.headers.items()}
        stream = _Tee(cast(httpx2.AsyncByteStream, response.stream), exchange)
        return httpx2.Response(
            response.status_code, headers=response.headers, stream=stream, extensions=response.extensions
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._network.aclose()
