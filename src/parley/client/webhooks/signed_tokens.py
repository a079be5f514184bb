"""Tokens (JWT) that a sender signs for one notification: with its own key, for this webhook, this task and this body.

The key decides the algorithm, never the token's header; see `parley.protocol.signing`. All claims are required: `iss`,
`aud`, `iat`, `exp`, `jti`, `taskId` and `request_body_sha256`. Spec: 0.2, "Streaming & Asynchronous Operations".
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Callable

import msgspec

from parley.client.webhooks.key_sets import SenderKeys
from parley.client.webhooks.proofs import BodyCheck, Evidence, Headers, check_token, is_same_secret
from parley.protocol.errors import PeerProtocolError, UnauthenticatedError
from parley.protocol.signing import verify_detached

MAX_TOKEN = 8 * 1024
"""Characters. The limit of most servers for one header."""

LEEWAY = 60
"""Seconds that the clocks of both sides may differ."""

MAX_AGE = 300
"""Seconds after `iat` for which a token is accepted, even if it says that it is valid for longer."""


class _TokenHeader(msgspec.Struct):
    kid: str


class _Claims(msgspec.Struct):
    iss: str
    aud: str | list[str]
    iat: int | float
    exp: int | float
    jti: str
    taskId: str
    request_body_sha256: str


class SignedTokens:
    """Accepts tokens of one issuer for one audience, with the config's token if there is one."""

    def __init__(
        self,
        keys: SenderKeys,
        *,
        issuer: str,
        audience: str,
        token: str | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._keys = keys
        self._issuer = issuer
        self._audience = audience
        self._token = token
        self._now = now

    async def prepare(self, headers: Headers) -> None:
        """Fetch the key that the token names. Raises UnauthenticatedError, or UnavailableError."""
        check_token(headers, self._token)
        await self._keys.prepare(_key_id(_token_in(headers)))

    def check(self, headers: Headers) -> BodyCheck:
        """Check the token. Raises UnauthenticatedError."""
        check_token(headers, self._token)
        claims = self._claims(_token_in(headers))
        self._check_claims(claims)

        def check_body(body: bytes) -> Evidence:
            if not is_same_secret(claims.request_body_sha256.lower(), hashlib.sha256(body).hexdigest()):
                raise UnauthenticatedError("The token was signed for another body")
            return Evidence(claims.jti, claims.taskId)

        return check_body

    def _claims(self, token: str) -> _Claims:
        header, payload, signature = token.split(".")
        try:
            signed = _decode_base64url(payload)
            verify_detached(f"{header}..{signature}", signed, self._keys.known)
            return msgspec.json.decode(signed, type=_Claims)
        except PeerProtocolError as error:
            raise UnauthenticatedError(f"The token is not valid: {error}") from None
        except (msgspec.DecodeError, ValueError, RecursionError):
            raise UnauthenticatedError("The token lacks claims, or they have the wrong types") from None

    def _check_claims(self, claims: _Claims) -> None:
        now = self._now()
        audiences = [claims.aud] if isinstance(claims.aud, str) else claims.aud
        if claims.iss != self._issuer:
            raise UnauthenticatedError("The token is of another issuer")
        if self._audience not in audiences:
            raise UnauthenticatedError("The token is for another audience")
        if not claims.jti:
            raise UnauthenticatedError("The token has no id")
        if claims.iat > now + LEEWAY:
            raise UnauthenticatedError("The token is from the future")
        if now > min(claims.exp, claims.iat + MAX_AGE) + LEEWAY:
            raise UnauthenticatedError("The token has expired")


def _token_in(headers: Headers) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or token.count(".") != 2 or len(token) > MAX_TOKEN or not token.isascii():
        raise UnauthenticatedError("The notification has no signed token")
    return token


def _key_id(token: str) -> str:
    """The id of the key that a token names, not verified."""
    try:
        return msgspec.json.decode(_decode_base64url(token.partition(".")[0]), type=_TokenHeader).kid
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise UnauthenticatedError("The token names no key") from None


def _decode_base64url(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
