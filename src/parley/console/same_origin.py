"""Refuses requests of pages of other origins, whatever the server allows them elsewhere.

`SameSite` does not tell ports and subdomains apart, and an operator may allow other origins to call agents
(`--cors-origin`). The console's API and its sessions are for its own page only. Programs send neither header.
"""

from __future__ import annotations

from parley.console.api.errors import ConsoleError
from parley.network.urls import parse_url
from parley.server.bindings.http import AsgiRequest

OWN_SITES = (None, "same-origin", "none")


def check_same_origin(request: AsgiRequest) -> None:
    """Raises ConsoleError if a page of another origin has sent a request."""
    origin = request.headers.get("origin")
    if origin is None:
        if request.headers.get("sec-fetch-site") in OWN_SITES:
            return
    # The scheme is not compared: it differs behind a proxy that terminates TLS.
    elif (host := origin.lower().partition("://")[2]) and host in (_own_host(request), _public_host(request)):
        return
    raise ConsoleError("forbidden", "Pages of other origins may not use the console")


def _own_host(request: AsgiRequest) -> str:
    return request.headers.get("host", "").lower()


def _public_host(request: AsgiRequest) -> str:
    """The host in the public URL of the server, which a proxy may have replaced in the `Host` header."""
    return parse_url(request.base_url).origin.partition("://")[2]
