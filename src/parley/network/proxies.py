"""HTTP proxies that the environment names: HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, and NO_PROXY for exceptions.

Names in lower case come first, and HTTP_PROXY is ignored where a web server could set it from a request's header
(CVE-2016-1000110), as in curl and CPython. This machine itself is always called directly.
"""

from __future__ import annotations

import ipaddress
from base64 import b64encode
from collections.abc import Mapping
from typing import TypeAlias
from urllib.parse import unquote
from urllib.request import getproxies_environment

from msgspec import Struct

from parley.network.addresses import address_or_none, is_loopback
from parley.network.errors import ConnectError
from parley.network.urls import InvalidUrlError, Url, host_and_port, parse_url

_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


class Proxy(Struct, frozen=True):
    """An HTTP proxy. Its credentials go to the proxy only, and are in no text about it."""

    scheme: str
    host: str
    port: int
    authority: str
    authorization: str = ""
    """The value of Proxy-Authorization; empty without credentials."""

    def __repr__(self) -> str:
        return f"Proxy({self.scheme}://{self.authority})"

    @property
    def headers(self) -> dict[str, str]:
        """The headers for the proxy itself."""
        return {"proxy-authorization": self.authorization} if self.authorization else {}

    def connect_request(self, url: Url) -> bytes:
        """A request for a tunnel to a server. RFC 9110 section 9.3.6."""
        target = host_and_port(url.host, url.port)
        lines = [f"{name}: {value}\r\n" for name, value in {"host": target, **self.headers}.items()]
        return f"CONNECT {target} HTTP/1.1\r\n{''.join(lines)}\r\n".encode("ascii")


class Proxies:
    """Which proxy leads to which host, by the `*_proxy` variables: `{"https": "http://proxy.example:3128"}`."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._urls = {scheme: variables.get(scheme) or variables.get("all", "") for scheme in ("http", "https")}
        self._exceptions = [entry.lower() for entry in variables.get("no", "").replace(",", " ").split()]

    @classmethod
    def of_environment(cls) -> Proxies:
        """The proxies that the environment names now."""
        return cls(getproxies_environment())

    def find(self, scheme: str, host: str, port: int) -> Proxy | None:
        """The proxy that leads to a server; None if it is called directly. Raises ConnectError if it is invalid."""
        url, name = self._urls[scheme], host.lower().rstrip(".")
        if not url or is_loopback(host) or any(_matches(entry, name, port) for entry in self._exceptions):
            return None
        return _read_proxy(url, scheme)


def _read_proxy(url: str, scheme: str) -> Proxy:
    """A proxy by its URL, which may hold a user name and a password: `http://ada:secret@proxy.example:3128`."""
    kind, _, rest = url.rpartition("://")
    user, _, authority = rest.rpartition("@")
    try:
        found = parse_url(f"{kind or 'http'}://{authority}")
    except InvalidUrlError:
        reason = f"Invalid proxy URL in the environment for {scheme}. It must start with http:// or https://."
        raise ConnectError(reason) from None
    name, _, password = user.partition(":")
    secret = b64encode(f"{unquote(name)}:{unquote(password)}".encode()).decode()
    return Proxy(found.scheme, found.host, found.port, found.authority, f"Basic {secret}" if user else "")


def _matches(entry: str, host: str, port: int) -> bool:
    """Whether an entry of NO_PROXY names a host: `*`, a domain with all below it, an address, or a network (CIDR)."""
    if entry == "*":
        return True
    network, address = _read_network(entry), address_or_none(host)
    if network is not None:
        return address is not None and address in network
    name, _, number = entry.rpartition(":") if entry.rpartition(":")[2].isdecimal() else (entry, "", "")
    name = name.strip("[]").lstrip("*.").rstrip(".")
    return (not number or int(number) == port) and (host == name or host.endswith(f".{name}"))


def _read_network(entry: str) -> _Network | None:
    try:
        return ipaddress.ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        return None
