"""The answer to a server that asks whether a webhook wants its notifications: GET with a `validationToken`.

The answer repeats what a stranger sent, so only a short token of safe characters is repeated, as plain text that no
browser takes for anything else. Spec: 0.2, "Streaming & Asynchronous Operations".
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlsplit

PARAMETER = "validationToken"

_SAFE_TOKEN = re.compile(r"[A-Za-z0-9._~-]{1,256}")

HEADERS = {
    "content-type": "text/plain; charset=utf-8",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}


def is_challenge(url: str) -> bool:
    """Whether a URL, or the query of one, has a token to repeat."""
    return any(name == PARAMETER for name, _ in _query(url))


def challenge_token(url: str) -> str | None:
    """The token to repeat, or None if there are several, or it is not safe to repeat."""
    tokens = [value for name, value in _query(url) if name == PARAMETER]
    return tokens[0] if len(tokens) == 1 and _SAFE_TOKEN.fullmatch(tokens[0]) else None


def _query(url: str) -> list[tuple[str, str]]:
    try:
        query = urlsplit(url).query if "?" in url or "://" in url or url.startswith("/") else url
        return parse_qsl(query, keep_blank_values=True, max_num_fields=100)
    except ValueError:
        return []
