"""Keeps the caller's secrets out of reports, wherever they appear: servers repeat what they were sent."""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from collections.abc import Iterable
from urllib.parse import parse_qsl, quote, quote_plus

from parley.client.transports.transport import CallOptions
from parley.network.urls import without_secrets

NOT_SHOWN = "(not shown)"
MIN_SECRET_LENGTH = 4
"""Characters: shorter secrets are not searched for, because any text may contain them by chance."""
PUBLIC_PARAMETERS = frozenset({"a2a-version"})
"""Query parameters of a card's URL that are not secret."""


class Redaction:
    """Removes the secrets that were sent so far from texts."""

    def __init__(self, url: str, *, webhook: str | None = None) -> None:
        """`url` is what the caller typed: its query may contain a key. `webhook` is the caller's own."""
        self._secrets: dict[str, str] = {}
        """By secret, what is shown instead."""
        if webhook is not None:
            self._add([webhook], shown=without_secrets(webhook))
        query = parse_qsl(url.partition("#")[0].partition("?")[2])
        self._add(value for name, value in query if name.lower() not in PUBLIC_PARAMETERS)

    def add(self, proof: CallOptions) -> None:
        """Redact credentials: the values of headers, with and without their scheme, and of query parameters."""
        for value in proof.headers.values():
            pairs = [pair.partition("=")[2] for pair in value.split("; ")]  # cookies
            self._add((value, value.partition(" ")[2], *pairs, _password(value)))
        self._add(proof.query.values())

    def _add(self, values: Iterable[str], *, shown: str = NOT_SHOWN) -> None:
        for value in values:
            if len(value) >= MIN_SECRET_LENGTH:
                spellings = (value, quote(value, safe=""), quote_plus(value), json.dumps(value)[1:-1])
                self._secrets.update(dict.fromkeys(spellings, shown))

    def text(self, text: str) -> str:
        """The text without the secrets; the longest are replaced first, because one may contain another."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, self._secrets[secret])
        return text


def _password(header: str) -> str:
    """The password in a header for Basic authentication."""
    scheme, _, pair = header.partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        return b64decode(pair).decode(errors="replace").partition(":")[2]
    except binascii.Error:
        return ""
