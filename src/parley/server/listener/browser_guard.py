"""Refuses requests that a web page makes a browser send: under a foreign host name, or from a foreign origin.

With DNS rebinding, a foreign host name resolves to 127.0.0.1, and the browser lets that page call this server and read
the answers. Only the `Host` header shows it. Any other page can at least send requests; `Origin` and `Sec-Fetch-Site`
show it, and pages cannot set them. Programs send neither header, so they are not affected. Only headers are needed, so
this check comes first.

It wraps an app that `parley.server.run` serves. An app that is mounted into another one leaves the check to that one.
gRPC needs no such check: browsers use HTTP/2 only over TLS, where a rebound name has no certificate. See
docs/decisions/0017.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Awaitable, Iterable, Mapping, Sequence

from starlette.types import ASGIApp, Receive, Scope, Send

from parley.network.addresses import is_listed
from parley.network.urls import parse_url
from parley.protocol.errors import A2AError, ErrorRow, PermissionDeniedError
from parley.protocol.versions import Version
from parley.server.bindings.http import MAX_HOST, AsgiRequest, reply_error

_HOST = re.compile(rb"(?:([\w.-]+)|\[([0-9A-Fa-f:.]+)\])(?::\d{1,5})?", re.ASCII)

KNOWN_HOSTS = 100
"""`Host` headers that are remembered as allowed. They include the port."""


class MisdirectedError(PermissionDeniedError):
    """The host name is not allowed"""

    row = ErrorRow(-32032, 421, "PERMISSION_DENIED", "PERMISSION_DENIED", 421, "PERMISSION_DENIED")


class BrowserGuard:
    """An ASGI app that passes on requests of programs, of its own pages and of allowed origins.

    `own_urls` are the URLs of the app; `allowed_hosts` are other host names that are accepted, `.example.com` with all
    subdomains; `allowed_origins` are origins whose pages may call, `*` for all. On loopback, all other names are
    refused. Elsewhere every name is accepted, unless there are `allowed_hosts`: then only these and IP addresses, which
    cannot be rebound.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        is_loopback: bool,
        allowed_hosts: Sequence[str] = (),
        own_urls: Iterable[str] = (),
        allowed_origins: Sequence[str] = (),
    ) -> None:
        self._app = app
        self._is_loopback = is_loopback
        self._checks_hosts = is_loopback or bool(allowed_hosts)
        urls = list(map(parse_url, own_urls))
        self._hosts = (*allowed_hosts, *(url.host for url in urls))
        self._origins = {origin.lower() for origin in allowed_origins}
        self._origins |= {url.origin for url in urls}
        self._known_hosts = {b""}  # HTTP/1.0 allows requests without a Host, which cannot be rebound

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Pass a request on, or answer it with 421 or 403."""
        host, is_page = b"", False
        for name, value in scope["headers"]:  # faster than building a dict
            if name == b"host":
                host = value
            elif name == b"origin" or name == b"sec-fetch-site":
                is_page = True
        if host in self._known_hosts and not is_page:
            return self._app(scope, receive, send)
        error = self._check_host(host) or self._check_origin(scope["method"], dict(scope["headers"]))
        if error is None:
            return self._app(scope, receive, send)
        return reply_error(AsgiRequest(scope, receive, send), Version.V1_0, error)

    def _check_host(self, host: bytes) -> A2AError | None:
        if host in self._known_hosts or not self._checks_hosts:
            return None
        found = _HOST.fullmatch(host) if len(host) <= MAX_HOST else None
        if found is None:
            return MisdirectedError("The Host header is not a host name or an address")
        name = (found[1] or found[2]).decode("ascii").lower()
        if not self._is_allowed(name.removesuffix(".")):
            return MisdirectedError(
                f"The host name {name} is not allowed. To allow it, start the server with --allowed-host {name}"
            )
        if len(self._known_hosts) < KNOWN_HOSTS:
            self._known_hosts.add(host)
        return None

    def _is_allowed(self, name: str) -> bool:
        if name == "localhost" or name.endswith(".localhost") or is_listed(name, self._hosts):
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not self._is_loopback

    def _check_origin(self, method: str, headers: Mapping[bytes, bytes]) -> A2AError | None:
        if "*" in self._origins:
            return None
        origin = headers.get(b"origin")
        if origin is None:
            if headers.get(b"sec-fetch-site") in (None, b"none", b"same-origin") or _is_link(method, headers):
                return None
            return PermissionDeniedError("Pages of other web sites may not call this server")
        text = origin.decode("latin-1").lower()
        # The scheme is not compared: it differs behind a proxy that terminates TLS.
        if text in self._origins or text.partition("://")[2].encode("latin-1") == headers.get(b"host", b"").lower():
            return None
        page = text[:MAX_HOST]
        # `null` cannot be allowed: any page can get it with a sandboxed frame.
        advice = f". To allow it, start the server with --cors-origin {page}" if "://" in page else ""
        return PermissionDeniedError(f"Pages of {page or 'an unknown origin'} may not call this server{advice}")


def _is_link(method: str, headers: Mapping[bytes, bytes]) -> bool:
    """Whether a user follows a link, which does not show the reply to the page with the link."""
    is_page = headers.get(b"sec-fetch-mode") == b"navigate" and headers.get(b"sec-fetch-dest") == b"document"
    return is_page and method in ("GET", "HEAD")
