"""HTTP URLs, parsed."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from parley.protocol.errors import PeerProtocolError

Origin: TypeAlias = tuple[str, str, int]
"""Scheme, host and port. Requests with the same origin can share a connection."""

_PORTS = {"http": 80, "https": 443}
_NOT_ALLOWED = re.compile(r"[^\x21-\x7e]")
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]@:]+)(:[0-9]*)?")
"""A host and a port. Parsers disagree about anything else, such as a user name."""


class HttpUrl(Struct, frozen=True):
    """An HTTP URL in its parts."""

    scheme: str
    host: str
    port: int
    authority: str
    """The host, and the port unless it is the default one: the value of the Host header."""
    path: str
    query: str

    @property
    def origin(self) -> Origin:
        """Its scheme, host and port."""
        return self.scheme, self.host, self.port

    @property
    def text(self) -> str:
        """The whole URL."""
        return f"{self.scheme}://{self.authority}{self.target}"

    @property
    def target(self) -> str:
        """The path and the query, as a request line has them."""
        return f"{self.path}?{self.query}" if self.query else self.path

    def __repr__(self) -> str:
        return f"HttpUrl({self.scheme}://{self.authority}/…)"  # a webhook's path and a query may hold a key

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("origin", self.origin)]


def host_and_port(host: str, port: int) -> str:
    """Both as text; IPv6 addresses in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@lru_cache(maxsize=256)
def parse_http_url(url: str) -> HttpUrl:
    """The parts of an HTTP URL. Raises PeerProtocolError if it is invalid or ambiguous."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise PeerProtocolError(f"Invalid URL: {error}") from None
    is_clear = _AUTHORITY.fullmatch(parts.netloc) and not _NOT_ALLOWED.search(url)
    if parts.scheme not in _PORTS or not host or port == 0 or not is_clear:
        raise PeerProtocolError("Invalid URL. It must be http(s)://host[:port]/path, in printable ASCII.")
    default = _PORTS[parts.scheme]
    bracketed = f"[{host}]" if ":" in host else host
    authority = bracketed if port in (None, default) else f"{bracketed}:{port}"
    return HttpUrl(parts.scheme, host, port or default, authority, parts.path or "/", parts.query)
