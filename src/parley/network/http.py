"""HTTP requests and replies as callers see them, whatever carries them: a network, or an application in process.

A reply is pulled piece by piece, each until a moment on the event loop's clock. Names of headers are in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Protocol, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from parley.protocol.errors import LocalProtocolError, PeerProtocolError

Server: TypeAlias = tuple[str, str, int]
"""Scheme, host and port: what requests have in common that can share a connection."""

_PORTS = {"http": 80, "https": 443}
_UNFIT_FOR_URL = re.compile(r"[^\x21-\x7e]")
_NETLOC = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]@:]+)(:[0-9]*)?")
"""A host and a port: what else could stand there, readers make different things of."""
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 section 5.6.2
_FRAMING = frozenset({"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer"})
"""What says where a request ends and whom it is for: nobody's to set but ours."""


class Place(Struct, frozen=True):
    """Where a URL leads: a server, and what is asked of it."""

    scheme: str
    host: str
    port: int
    netloc: str
    """The host as the request names it, without a default port."""
    path: str
    query: str

    @property
    def server(self) -> Server:
        """The server that it leads to."""
        return self.scheme, self.host, self.port

    @property
    def url(self) -> str:
        """All of it, as text."""
        return f"{self.scheme}://{self.netloc}{self.target}"

    @property
    def target(self) -> str:
        """The path and the query, as they stand in a request."""
        return f"{self.path}?{self.query}" if self.query else self.path

    def __repr__(self) -> str:
        return f"Place({self.scheme}://{self.netloc}/…)"  # a webhook's path and a query may hold a key

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("server", self.server)]


@lru_cache(maxsize=256)
def place_of(url: str) -> Place:
    """Where a URL leads. Raises PeerProtocolError if that is not clear, or not over HTTP: URLs come from others."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise PeerProtocolError(f"This is no URL: {error}") from None
    is_clear = _NETLOC.fullmatch(parts.netloc) and not _UNFIT_FOR_URL.search(url)
    if parts.scheme not in _PORTS or not host or port == 0 or not is_clear:
        raise PeerProtocolError("A URL over HTTP is http(s)://host[:port]/path, in printable ASCII")
    default = _PORTS[parts.scheme]
    bracketed = f"[{host}]" if ":" in host else host
    netloc = bracketed if port in (None, default) else f"{bracketed}:{port}"
    return Place(parts.scheme, host, port or default, netloc, parts.path or "/", parts.query)


class HttpRequest(Struct, frozen=True):
    """A whole request. Its verb is not HEAD: to that one, a reply says how long a body would be that never comes."""

    verb: str
    place: Place
    headers: Mapping[str, str]
    body: bytes = b""

    def __repr__(self) -> str:
        return f"HttpRequest({self.verb} {self.place!r})"  # headers hold secrets

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("verb", self.verb), ("place", self.place)]

    def encode(self) -> bytes:
        """The bytes of it. Raises as `all_headers` does."""
        lines = [f"{name}: {value}\r\n" for name, value in self.all_headers()]
        head = f"{self.verb} {self.place.target} HTTP/1.1\r\n{''.join(lines)}\r\n"
        return head.encode("ascii") + self.body

    def all_headers(self) -> list[tuple[str, str]]:
        """Its headers, with those that say whom it is for and where it ends.

        Values are printable ASCII: of anything else, servers make different things, or nothing.

        Raises:
            LocalProtocolError: a header cannot be sent, or is not the caller's to set.
        """
        for name, value in self.headers.items():
            _check_name(name)
            if not (value.isascii() and value.isprintable()):
                raise LocalProtocolError(f"The header {name} can hold printable ASCII only")
        headers = [("host", self.place.netloc), *self.headers.items()]
        if self.body or self.verb not in ("GET", "DELETE"):
            headers.append(("content-length", str(len(self.body))))
        return headers


@lru_cache(maxsize=256)
def _check_name(name: str) -> None:
    if not _TOKEN.fullmatch(name) or name.lower() in _FRAMING:
        raise LocalProtocolError(f"A request cannot have the header {name[:50]!r}")


class HttpResponse(Protocol):
    """A reply that has begun."""

    @property
    def status(self) -> int:
        """The status of a final reply: 200 or more."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Values of one name are joined with commas."""
        ...

    async def read(self, until: float) -> bytes:
        """The next piece of the body; nothing at its end. Raises NetworkError."""
        ...

    async def close(self) -> None:
        """Let the connection go: to the next request if this reply was read to its end."""
        ...


class HttpNetwork(Protocol):
    """What carries requests."""

    async def send(self, request: HttpRequest, until: float) -> HttpResponse:
        """Send a request; its reply, as soon as its head is there. Raises NetworkError."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...
