"""The page at `/console/oauth/callback`, to which authorization servers send the browser back.

It is static: it holds nothing of the request, so a link to it can do nothing. Its script posts the code to the API with
the CSRF token of the session. The cookie is `SameSite=Strict`, so the navigation itself comes without a session.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from parley.console.api.errors import ConsoleError
from parley.console.api.route import ConsoleCall

CALLBACK_PATH = "/console/oauth/callback"

FILES = {
    "callback": ("callback.html", b"text/html; charset=utf-8"),
    "callback.js": ("callback.js", b"text/javascript; charset=utf-8"),
}

HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        b"frame-ancestors 'none'",
    ),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store"),
]


async def show_callback(call: ConsoleCall) -> None:
    """Reply with the page or its script."""
    found = FILES.get(call.path["rest"])
    if found is None or call.request.verb not in ("GET", "HEAD"):
        raise ConsoleError("not_found", "There is nothing at this path")
    name, content_type = found
    await call.request.reply(200, _content(name), content_type, HEADERS)


@cache
def _content(name: str) -> bytes:
    return Path(__file__).with_name(name).read_bytes()
