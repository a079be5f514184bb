"""What web pages may not make a browser send: requests under names that are not the server's, or from foreign pages.

A page whose name its owner points at 127.0.0.1 (DNS rebinding) is of the server's own origin to the browser, which then
lets it call the server and read the answers: only the `Host` tells. Any other page can at least send requests: `Origin`
and `Sec-Fetch-Site` tell, which no page can set. Programs send neither and are not concerned. All of it is decided from
the head of a request, before anything else is done with it.

This stands around an app that is served on ports (`parley.server.run`). An app that is mounted into another one leaves
the decision to that one. gRPC needs no guard: browsers speak HTTP/2 over TLS alone, where a name that was rebound has
no certificate. See docs/decisions/0017.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from parley.network.addresses import is_listed
from parley.protocol.errors import A2AError, ErrorRow, PermissionDeniedError
from parley.protocol.versions import Version
from parley.server.bindings.http import MAX_HOST, AsgiRequest, reply_error

_HOST = re.compile(rb"(?:([\w.-]+)|\[([0-9A-Fa-f:.]+)\])(?::\d{1,5})?", re.ASCII)
_DEFAULT_PORTS = {"http": 80, "https": 443}

KNOWN_HOSTS = 100
"""`Host` headers that are known to be good without looking closer. They differ by their ports, too."""


class MisdirectedError(PermissionDeniedError):
    """The server does not answer under this host name"""

    row = ErrorRow(-32032, 421, "PERMISSION_DENIED", "PERMISSION_DENIED", 421, "PERMISSION_DENIED")


class BrowserGuard:
    """An ASGI app that passes on what programs, the server's own pages and allowed pages ask.

    `own_urls` are where callers reach the app; `allowed_hosts` are other names that it answers to, `.example.com` for
    all below it; `allowed_origins` are those whose pages may call, `*` for all. On loopback other names are refused.
    Elsewhere every name is served, or if there are `allowed_hosts` these and addresses, which cannot be rebound.
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
        self._is_selective = is_loopback or bool(allowed_hosts)
        urls = list(map(urlsplit, own_urls))
        self._hosts = (*allowed_hosts, *(url.hostname for url in urls if url.hostname))
        self._origins = {origin.lower() for origin in allowed_origins}
        self._origins |= {_origin_of(url.scheme, url.hostname or "", url.port) for url in urls}
        self._known_hosts = {b""}  # no name at all, as HTTP/1.0 allows, is not one that could be rebound

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Pass a request on, or answer it with 421 or 403."""
        host, is_page = b"", False
        for name, value in scope["headers"]:  # quicker than a dict of them all
            if name == b"host":
                host = value
            elif name == b"origin" or name == b"sec-fetch-site":
                is_page = True
        if host in self._known_hosts and not is_page:
            return self._app(scope, receive, send)
        error = self._judge_host(host) or self._judge_page(scope["method"], dict(scope["headers"]))
        if error is None:
            return self._app(scope, receive, send)
        return reply_error(AsgiRequest(scope, receive, send), Version.V1_0, error)

    def _judge_host(self, host: bytes) -> A2AError | None:
        if host in self._known_hosts or not self._is_selective:
            return None
        found = _HOST.fullmatch(host) if len(host) <= MAX_HOST else None
        if found is None:
            return MisdirectedError("The Host header is not a host name or an address")
        name = (found[1] or found[2]).decode("ascii").lower()
        if not self._serves(name.removesuffix(".")):
            return MisdirectedError(
                f"This server does not answer under the name {name}. If it should, start it with --allowed-host {name}"
            )
        if len(self._known_hosts) < KNOWN_HOSTS:
            self._known_hosts.add(host)
        return None

    def _serves(self, name: str) -> bool:
        if name == "localhost" or name.endswith(".localhost") or is_listed(name, self._hosts):
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not self._is_loopback

    def _judge_page(self, method: str, headers: Mapping[bytes, bytes]) -> A2AError | None:
        if "*" in self._origins:
            return None
        origin = headers.get(b"origin")
        if origin is None:
            if headers.get(b"sec-fetch-site") in (None, b"none", b"same-origin") or _is_link(method, headers):
                return None
            return PermissionDeniedError("A page of another web site may not call this server")
        text = origin.decode("latin-1").lower()
        # The scheme is left out: it is another one behind a proxy that speaks TLS for the server.
        if text in self._origins or text.partition("://")[2].encode("latin-1") == headers.get(b"host", b"").lower():
            return None
        page = text[:MAX_HOST]
        # `null` cannot be allowed: any page gets it, for a frame in a sandbox.
        advice = f". If they should, start it with --cors-origin {page}" if "://" in page else ""
        return PermissionDeniedError(f"Pages of {page or 'an unknown origin'} may not call this server{advice}")


def _is_link(method: str, headers: Mapping[bytes, bytes]) -> bool:
    """Whether a link is followed in a window of its own: the page that has the link sees nothing of the reply."""
    is_page = headers.get(b"sec-fetch-mode") == b"navigate" and headers.get(b"sec-fetch-dest") == b"document"
    return is_page and method in ("GET", "HEAD")


def _origin_of(scheme: str, host: str, port: int | None) -> str:
    """An origin as browsers spell it."""
    name = f"[{host}]" if ":" in host else host
    return f"{scheme}://{name}" + ("" if port in (None, _DEFAULT_PORTS.get(scheme)) else f":{port}")
