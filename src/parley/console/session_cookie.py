"""The secret of a session, which only the browser's cookie holds, and everything that is derived from it.

The id names the record in the store, the key encrypts it, and the CSRF token proves that a request comes from the page
itself: pages of other origins can send the cookie at most, and cannot read the token. None of the three reveals another
one or the secret.

The name of the cookie has the port, because cookies are sent to all ports of a host: two servers on one machine would
overwrite each other's sessions. Over TLS it has the prefix `__Host-`, so that no other subdomain can set it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from dataclasses import dataclass

from parley.server.bindings.failures import Header
from parley.server.bindings.http import AsgiRequest
from parley.server.contracts import CONSOLE_COOKIE, CSRF_HEADER

SECRET_BYTES = 32

COOKIE_SECONDS = 7 * 86_400
"""How long a browser keeps the cookie: as long as a session can last."""


@dataclass(frozen=True, slots=True, repr=False)
class SessionSecret:
    """A random secret. It is never stored, logged or shown."""

    raw: bytes

    @staticmethod
    def new() -> SessionSecret:
        """A secret that no session has had before."""
        return SessionSecret(secrets.token_bytes(SECRET_BYTES))

    @staticmethod
    def from_text(text: str) -> SessionSecret | None:
        """The secret in the value of a cookie; None if it is not one."""
        try:
            raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)) if len(text) <= 64 else b""
        except (binascii.Error, ValueError):
            return None
        return SessionSecret(raw) if len(raw) == SECRET_BYTES else None

    @property
    def text(self) -> str:
        """The value of the cookie."""
        return base64.urlsafe_b64encode(self.raw).rstrip(b"=").decode()

    @property
    def id(self) -> str:
        """The id of the session, which names its record in the store."""
        return self._derived("id").hex()[:40]

    @property
    def key(self) -> bytes:
        """The key that encrypts the record."""
        return self._derived("key")

    @property
    def csrf(self) -> str:
        """The token that requests of the session must have in a header."""
        return base64.urlsafe_b64encode(self._derived("csrf")).rstrip(b"=").decode()

    def has_csrf(self, given: str) -> bool:
        """Whether a header has the token of this session."""
        return hmac.compare_digest(self.csrf.encode(), given.encode("utf-8", "replace"))

    def _derived(self, purpose: str) -> bytes:
        return hmac.digest(self.raw, f"parley console {purpose}".encode(), hashlib.sha256)


def read_cookie(request: AsgiRequest) -> SessionSecret | None:
    """The secret in the cookie of a request; None if it has none, or several that differ."""
    name = _cookie_name(request)
    pairs = [pair.strip(" ").partition("=") for pair in request.headers.get("cookie", "").split(";")]
    values = {value for key, equals, value in pairs if key == name and equals}
    return SessionSecret.from_text(values.pop()) if len(values) == 1 else None


def remove_cookie(request: AsgiRequest) -> None:
    """Take the cookie and the CSRF token out of a request, so that nothing behind it sees or forwards them.

    The cookies of consoles on other ports go as well.
    """
    pairs = request.headers.pop("cookie", "").split(";")
    kept = [pair for pair in pairs if CONSOLE_COOKIE not in pair.partition("=")[0]]
    if any(pair.strip() for pair in kept):
        request.headers["cookie"] = ";".join(kept).strip(" ")
    request.headers.pop(CSRF_HEADER, None)


def set_cookie(request: AsgiRequest, secret: SessionSecret) -> Header:
    """The header that gives a browser the cookie of a session."""
    return _cookie(request, secret.text, COOKIE_SECONDS)


def delete_cookie(request: AsgiRequest) -> Header:
    """The header that makes a browser forget the cookie."""
    return _cookie(request, "", 0)


def _cookie(request: AsgiRequest, value: str, seconds: int) -> Header:
    text = f"{_cookie_name(request)}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict"
    return b"set-cookie", (f"{text}; Secure" if _is_secure(request) else text).encode()


def _cookie_name(request: AsgiRequest) -> str:
    port = _host(request.origin).rpartition("]")[2].rpartition(":")[2]
    name = f"{CONSOLE_COOKIE}-{port}" if port.isdigit() else CONSOLE_COOKIE
    return f"__Host-{name}" if _is_secure(request) else name


def _is_secure(request: AsgiRequest) -> bool:
    """Whether the browser uses TLS. The operator says so with the public URL, also of a proxy that is not trusted."""
    is_public = request.base_url.startswith("https://") and _host(request.base_url) == _host(request.origin)
    return is_public or request.origin.startswith("https://")


def _host(url: str) -> str:
    """The host of a URL with its port, if it has one."""
    return url.partition("://")[2].partition("/")[0].lower()
