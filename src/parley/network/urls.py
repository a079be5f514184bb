"""URLs: the one place that reads them.

Text that parsers could read in different ways is rejected: user names, backslashes, odd spellings of addresses. So what
is checked here is what is called later. RFC 3986.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from parley.network.addresses import AmbiguousHostError, check_host, is_loopback
from parley.protocol.errors import PeerProtocolError

MAX_URL = 2_048
"""Longer URLs are refused by many servers."""

HTTP = ("http", "https")
AGENT = ("http", "https", "grpc", "grpcs", "")
"""Schemes of agents. A gRPC target may have none: `agents.example:443`."""

_PORTS = {"http": 80, "https": 443, "grpc": 80, "grpcs": 443}
_NOT_ALLOWED = re.compile(r"[^\x21-\x7e]|\\")  # browsers read \ as /
_PORT = re.compile(r"(:[0-9]{1,5})?")
_END = re.compile(r"[/?#]")  # of the authority
_IN_TEXT = re.compile(r"""https?://[^\s"'<>`]+""", re.IGNORECASE)


class InvalidUrlError(PeerProtocolError):
    """The URL is invalid."""


class Url(Struct, frozen=True):
    """A URL in its parts. The scheme and the host are in lower case."""

    scheme: str
    host: str
    port: int
    authority: str
    """The host, and the port unless it is the default one: the value of the Host header."""
    path: str
    query: str
    fragment: str = ""
    has_port: bool = False
    """Whether the text names the port."""

    @property
    def origin(self) -> str:
        """Its scheme, host and port, without a default port. Errors may show this much of a URL."""
        return f"{self.scheme}://{self.authority}" if self.scheme else self.authority

    @property
    def text(self) -> str:
        """The whole URL but its fragment."""
        return f"{self.origin}{self.target}"

    @property
    def target(self) -> str:
        """The path and the query, as a request line has them."""
        path = self.path or "/"
        return f"{path}?{self.query}" if self.query else path

    @property
    def is_encrypted(self) -> bool:
        """Whether it is called over TLS: by its scheme, or by the port of TLS if it has none."""
        return self.scheme in ("https", "grpcs") or (not self.scheme and self.port == 443)

    def __repr__(self) -> str:
        return f"Url({self.origin}/…)"  # a webhook's path and a query may hold a key

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("origin", self.origin)]


@lru_cache(maxsize=256)
def parse_url(text: str, schemes: tuple[str, ...] = HTTP) -> Url:
    """The parts of a URL that has one of these schemes.

    Raises:
        InvalidUrlError: it is invalid or ambiguous.
    """
    if not text:
        raise InvalidUrlError("Invalid URL: it is empty.")
    if len(text) > MAX_URL:
        raise InvalidUrlError(f"Invalid URL: it has more than {MAX_URL} characters.")
    if _NOT_ALLOWED.search(text):
        raise InvalidUrlError("Invalid URL: it must be printable ASCII, without spaces and backslashes.")
    is_bare = "" in schemes and "://" not in text
    try:
        parts = urlsplit(f"//{text}" if is_bare else text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise InvalidUrlError("Invalid URL: its host or its port is invalid.") from None
    if parts.scheme not in schemes:
        allowed = " or ".join(f"{scheme}://" for scheme in schemes if scheme in HTTP)
        raise InvalidUrlError(f"Invalid URL: {_start(text)!r}. It must start with {allowed}.")
    if "@" in parts.netloc:
        raise InvalidUrlError("Invalid URL: it must not contain a user name.")
    # Exactly a host and a port: parsers disagree about anything else.
    bracketed = f"[{host}]" if ":" in host else host
    if not host or port == 0 or not _PORT.fullmatch(parts.netloc.lower().removeprefix(bracketed)):
        raise InvalidUrlError("Invalid URL: its host or its port is invalid.")
    try:
        check_host(host)
    except AmbiguousHostError as error:
        raise InvalidUrlError(f"Invalid URL: its {error}.") from None
    default = _PORTS.get(parts.scheme)
    number = port or default or 443
    authority = bracketed if number == default else f"{bracketed}:{number}"
    return Url(parts.scheme, host, number, authority, parts.path, parts.query, parts.fragment, port is not None)


def with_scheme(text: str) -> str:
    """What a person types, as a URL: `localhost:8080` is http, anything else without a scheme https."""
    if "://" in text or not text:
        return text
    return f"{'http' if is_loopback(host_of(f'http://{text}')) else 'https'}://{text}"


def host_of(text: str) -> str:
    """The host of an HTTP URL; empty if the URL is invalid."""
    try:
        return parse_url(text).host
    except InvalidUrlError:
        return ""


def host_and_port(host: str, port: int) -> str:
    """Both as text; IPv6 addresses in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def without_secrets(url: str) -> str:
    """A webhook's URL as logs, traces and reports may show it: the path is often the only secret of its receiver.

    `"https://ada:pw@hooks.example.com/T0/B1/x?key=1"` → `"https://hooks.example.com/…"`
    """
    try:
        return f"{parse_url(_start(url), AGENT[:-1]).origin}/…"
    except InvalidUrlError:
        return "…"


def text_without_secrets(text: str) -> str:
    """A text with every URL in it shown as `without_secrets` does: errors quote the webhook that they refuse."""
    return _IN_TEXT.sub(lambda found: without_secrets(found[0]), text)


def _start(text: str) -> str:
    """A URL up to its path, without a user name and a password; without a scheme, all but its query."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        return text.partition("?")[0].rpartition("@")[2]
    return f"{scheme}://{_END.split(rest, maxsplit=1)[0].rpartition('@')[2]}"
