"""Signatures of the Standard Webhooks specification: HMAC-SHA256 over the id, the time and the body.

A header may hold several signatures, and several secrets may be accepted, so that a secret can be replaced without a
gap. Only `v1` signatures count; others are ignored. A request is accepted for five minutes before and after its time.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Sequence

from parley.client.webhooks.proofs import BodyCheck, Evidence, Headers, check_token
from parley.protocol.errors import LocalProtocolError, UnauthenticatedError

ID_HEADER = "webhook-id"
TIME_HEADER = "webhook-timestamp"
SIGNATURE_HEADER = "webhook-signature"

PREFIX = "whsec_"
MIN_BYTES, MAX_BYTES = 24, 64
"""Of a secret, as the specification has it."""

MAX_AGE = 300
"""Seconds that the time of a request may differ from now: what the specification's libraries allow."""

MAX_SIGNATURES = 16
"""Of one header. While a secret is replaced there are two."""

MAX_ID = 512
"""Characters of an id."""


def new_secret() -> str:
    """A random secret."""
    return PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def read_secret(text: str) -> bytes:
    """The bytes of a secret such as `whsec_…`. Raises LocalProtocolError."""
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True) if text.startswith(PREFIX) else b""
    except binascii.Error:
        key = b""
    if not MIN_BYTES <= len(key) <= MAX_BYTES:
        raise LocalProtocolError(f"A secret is {PREFIX} and {MIN_BYTES} to {MAX_BYTES} bytes in base64")
    return key


class StandardWebhooks:
    """Accepts what is signed with one of the secrets, and has the token if there is one."""

    def __init__(
        self, accepted: Sequence[str], *, token: str | None = None, now: Callable[[], float] = time.time
    ) -> None:
        """Raises LocalProtocolError if a secret is invalid."""
        self._keys = [read_secret(secret) for secret in accepted]
        self._token = token
        self._now = now

    @property
    def has_token(self) -> bool:
        """Whether a token is required, so that accepted headers prove the sender before the body is read."""
        return bool(self._token)

    async def prepare(self, headers: Headers) -> None:
        """Nothing is fetched."""

    def check(self, headers: Headers) -> BodyCheck:
        """Check the age; the signature covers the body. Raises UnauthenticatedError."""
        check_token(headers, self._token)
        delivery_id, sent_at = headers.get(ID_HEADER, ""), headers.get(TIME_HEADER, "")
        if not 0 < len(delivery_id) <= MAX_ID:
            raise UnauthenticatedError(f"The notification has no {ID_HEADER}")
        if not (sent_at.isascii() and sent_at.isdigit() and len(sent_at) < 16):
            raise UnauthenticatedError(f"The notification has no {TIME_HEADER}")
        if abs(self._now() - int(sent_at)) > MAX_AGE:
            raise UnauthenticatedError("The notification is too old, or from the future")
        given = _signatures(headers.get(SIGNATURE_HEADER, ""))
        signed = f"{delivery_id}.{sent_at}.".encode("latin-1", "replace")

        def check_body(body: bytes) -> Evidence:
            expected = [hmac.digest(key, signed + body, hashlib.sha256) for key in self._keys]
            if not any(hmac.compare_digest(one, other) for one in expected for other in given):
                raise UnauthenticatedError("The notification has no valid signature")
            return Evidence(delivery_id)

        return check_body


def _signatures(header: str) -> list[bytes]:
    found: list[bytes] = []
    for word in header.split(" ")[:MAX_SIGNATURES]:
        version, _, text = word.partition(",")
        if version == "v1":
            try:
                found.append(base64.b64decode(text, validate=True))
            except (binascii.Error, ValueError):
                continue  # another one may be valid
    if not found:
        raise UnauthenticatedError("The notification is not signed")
    return found
