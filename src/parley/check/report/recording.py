"""Records the requests and replies of a check. `redaction` removes secrets from them before they are reported."""

from __future__ import annotations

from collections.abc import Mapping

from parley.check.findings import RecordedExchange, Undecided, cut
from parley.network.http import HttpNetwork, HttpRequest, HttpResponse

MAX_RECORDED = 16 * 1024 * 1024
"""Bytes of a body that are kept for cases."""

SHOWN = ("content-type", "accept", "a2a-version", "a2a-extensions", "x-a2a-extensions", "authorization")
"""Headers of a request that a report shows."""


class Recorder:
    """The exchanges of the current case, and the number of requests in all."""

    def __init__(self, *, max_requests: int) -> None:
        self.exchanges: list[RecordedExchange] = []
        self.requests = 0
        self.requests_left = max_requests

    def begin(self, sent: str) -> RecordedExchange:
        """Record a request. Raises Undecided when the limit is reached."""
        if self.requests_left <= 0:
            raise Undecided("the check has reached its limit of requests")
        self.requests_left -= 1
        self.requests += 1
        exchange = RecordedExchange(sent)
        self.exchanges.append(exchange)
        return exchange

    def begin_http(self, request: HttpRequest) -> RecordedExchange:
        """Record a request over HTTP."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        lines = [f"{name}: {headers[name]}" for name in SHOWN if name in headers]
        head = "\n".join([f"{request.method} {request.url.text}", *lines])
        return self.begin(f"{head}\n\n{cut(request.body.decode(errors='replace'))}".strip())


class _Tee:
    """A reply that is recorded while it is read."""

    def __init__(self, response: HttpResponse, exchange: RecordedExchange) -> None:
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
    """Sends over a network, and records requests and replies."""

    def __init__(self, network: HttpNetwork, recorder: Recorder) -> None:
        self._network = network
        self._recorder = recorder

    async def send(self, request: HttpRequest, deadline: float) -> HttpResponse:
        """Send a request; the body of the reply is recorded while it is read."""
        exchange = self._recorder.begin_http(request)
        response = await self._network.send(request, deadline)
        exchange.status = response.status
        exchange.headers = dict(response.headers)
        return _Tee(response, exchange)

    async def close(self) -> None:
        """Leave the connections open: other recorders use them too."""
