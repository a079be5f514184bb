"""Reads the `Authorization` header: `<scheme> <token68>`, RFC 9110 section 11.4. Anything else is refused."""

from __future__ import annotations

import re

from parley.server.security.credentials import PresentedCredentials
from parley.server.security.schemes.scheme import Refused

MAX_TOKEN = 16 * 1024
"""The longest token. JWTs with many groups reach 8 KB, which is the limit of many servers."""

_TOKEN68 = re.compile(r"[A-Za-z0-9._~+/-]+=*")


def read_authorization(credentials: PresentedCredentials, scheme: str) -> str | None:
    """The token of this scheme, or None if the header is missing or has another scheme.

    Raises:
        Refused: the token is missing, too long or has invalid characters.
    """
    header = credentials.headers.get("authorization")
    if header is None:
        return None
    name, _, token = header.strip(" \t").partition(" ")
    if name.lower() != scheme:
        return None
    token = token.strip(" ")
    if len(token) > MAX_TOKEN:
        raise Refused("The token is too long")
    if not _TOKEN68.fullmatch(token):
        raise Refused("The Authorization header is malformed")
    return token
