"""What passes between a check and a server, written down. What is secret in it, `concealing` hides from reports."""

from __future__ import annotations

from collections.abc import Mapping

from parley.check.findings import Exchange, Undecided, cut
from parley.network.http import HttpNetwork, HttpRequest, HttpResponse

MAX_RECORDED = 16 * 1024 * 1024
"""Bytes of a body that are kept for cases to look at."""

SHOWN = ("content-type", "accept", "a2a-version", "a2a-extensions", "x-a2a-extensions", "authorization")
"""Headers that are worth seeing in a report."""


class Recorder:
    """What was sent and received since a case began, and how much in all."""

    def __init__(self, *, max_requests: int) -> None:
        self.exchanges: list[Exchange] = []
        self.requests = 0
        self.left = max_requests

    def begin(self, sent: str) -> Exchange:
        """Record a request. Raises Undecided when there were enough."""
        if self.left <= 0:
            raise Undecided("the check has sent as many requests as it allows itself")
        self.left -= 1
        self.requests += 1
        exchange = Exchange(sent)
        self.exchanges.append(exchange)
        return exchange

    def begin_http(self, request: HttpRequest) -> Exchange:
        """Record a request over HTTP."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        lines = [f"{name}: {headers[name]}" for name in SHOWN if name in headers]
        head = "\n".join([f"{request.method} {request.url.text}", *lines])
        return self.begin(f"{head}\n\n{cut(request.body.decode(errors='replace'))}".strip())


class _Tee:
    """A reply that is written down as it is read."""

    def __init__(self, response: HttpResponse, exchange: Exchange) -> None:
        self._response = response
        self._exchange = exchange

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    async def read(self, deadline: float) -> bytes:
        chunk = await self._response.read(deadline)
        if len(self._exchange.body) < MAX_RECORDED:
            self._exchange.body += chunk
        return chunk

    async def close(self) -> None:
        await self._response.close()


class RecordedNetwork:
    """Sends over a network and writes down what passes."""

    def __init__(self, network: HttpNetwork, recorder: Recorder) -> None:
        self._network = network
        self._recorder = recorder

    async def send(self, request: HttpRequest, deadline: float) -> HttpResponse:
        """Send a request; the reply's body is recorded as it is read."""
        exchange = self._recorder.begin_http(request)
        response = await self._network.send(request, deadline)
        exchange.status = response.status
        exchange.headers = dict(response.headers)
        return _Tee(response, exchange)

    async def close(self) -> None:
        """Leave the connections open: other recorders use them too."""
