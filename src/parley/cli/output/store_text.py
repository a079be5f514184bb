"""The URL of a store as people may see it: without its password."""

from __future__ import annotations

import re

HIDDEN = "***"

_PASSWORDS = (
    (re.compile(r"(://[^/?#\s:@]*:)\S*(?=@)"), rf"\1{HIDDEN}"),  # up to the last @: one may hold @ and /, not encoded
    (re.compile(r"([?&](?:password|passfile|sslpassword)=)[^&\s]*", re.I), rf"\1{HIDDEN}"),
)


def store_text(url: str) -> str:
    """A URL with stars instead of the password: `postgresql://parley:***@db/parley`."""
    for pattern, text in _PASSWORDS:
        url = pattern.sub(text, url)
    return url


def has_password(url: str) -> bool:
    """Whether a URL holds a password."""
    return store_text(url) != url
