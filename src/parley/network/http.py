"""HTTP requests and responses, independent of what carries them: connections, or an application in process.

A response is read chunk by chunk, each with a deadline on the event loop's clock. Header names are in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Protocol

from msgspec import Struct

from parley.network.proxies import Proxy
from parley.network.urls import Url
from parley.protocol.errors import LocalProtocolError

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 section 5.6.2
_FRAMING = frozenset({"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer"})
"""Headers that only `HttpRequest` itself sets: they say where a request ends and which host it is for."""


class HttpRequest(Struct, frozen=True):
    """A complete request. HEAD is not supported: its response announces a body that never comes."""

    method: str
    url: Url
    headers: Mapping[str, str]
    body: bytes = b""

    def __repr__(self) -> str:
        return f"HttpRequest({self.method} {self.url!r})"  # headers hold secrets

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("method", self.method), ("url", self.url)]

    def encode(self, proxy: Proxy | None = None) -> bytes:
        """The request as bytes, for the server itself or for a proxy that forwards it. Raises as `all_headers` does."""
        target, headers = self.url.target, self.all_headers()
        if proxy is not None:
            target, headers = self.url.text, [*headers, *proxy.headers.items()]
        lines = [f"{name}: {value}\r\n" for name, value in headers]
        head = f"{self.method} {target} HTTP/1.1\r\n{''.join(lines)}\r\n"
        return head.encode("ascii") + self.body

    def all_headers(self) -> list[tuple[str, str]]:
        """The headers, including Host and Content-Length.

        Values are printable ASCII: servers disagree about anything else, or reject it.

        Raises:
            LocalProtocolError: a header is invalid, or reserved.
        """
        for name, value in self.headers.items():
            _check_name(name)
            if not (value.isascii() and value.isprintable()):
                raise LocalProtocolError(f"The header {name} can hold printable ASCII only")
        headers = [("host", self.url.authority), *self.headers.items()]
        if self.body or self.method not in ("GET", "DELETE"):
            headers.append(("content-length", str(len(self.body))))
        return headers


@lru_cache(maxsize=256)
def _check_name(name: str) -> None:
    if not _TOKEN.fullmatch(name) or name.lower() in _FRAMING:
        raise LocalProtocolError(f"A request cannot have the header {name[:50]!r}")


class HttpResponse(Protocol):
    """A response whose head has arrived."""

    @property
    def status(self) -> int:
        """The final status: 200 or more."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Several values of one header are joined with commas."""
        ...

    async def read(self, deadline: float) -> bytes:
        """The next chunk of the body; empty at its end. Raises NetworkError."""
        ...

    async def close(self) -> None:
        """Give the connection back. It is used again if this response was read to its end."""
        ...


class HttpNetwork(Protocol):
    """Carries requests."""

    async def send(self, request: HttpRequest, deadline: float) -> HttpResponse:
        """Send a request and return its response as soon as its head arrives. Raises NetworkError."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...
