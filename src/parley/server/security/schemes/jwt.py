"""Reads and verifies access tokens that are JWTs (RFC 7519, RFC 9068), as RFC 8725 advises.

The order matters. A token of another issuer is refused before any key is looked up, so it causes no fetch. The
algorithm must be on the list and fit the key, so neither `none` nor a public key used as a shared secret gets
through. Only then are the claims believed. Verifying takes a third of a millisecond, so it is done once for each token
and key; the claims are checked every time.
"""

from __future__ import annotations

import hashlib
import re
from base64 import urlsafe_b64decode
from collections import OrderedDict
from collections.abc import Collection

import msgspec
from joserfc.errors import JoseError
from joserfc.jws import JWSRegistry
from msgspec import Struct

from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.server.security.credentials import PresentedCredentials
from parley.server.security.schemes.key_set import KeySet, PublicKey
from parley.server.security.schemes.scheme import Proof, Refused, SettingError
from parley.server.security.schemes.token_claims import ClaimRules, prove_claims

ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
"""The algorithms that may be allowed: signatures with a private key. There is no way to allow others."""

REMEMBERED = 10_000
"""Tokens whose signature is not verified again; about 200 bytes each."""

_COMPACT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
# A JWT says that it is one, or an access token, or nothing. Tokens for other purposes say what they are for.
_TYPES = ("", "jwt", "at+jwt", "application/jwt", "application/at+jwt")
# A token without a key id is tried with each key that fits. Few issuers have that many keys of one kind.
_MAX_TRIES = 8


class _Header(Struct):
    alg: str
    kid: str | None = None
    typ: str = ""
    crit: JsonValue = None


class _Token(Struct):
    header: _Header
    claims: JsonObject
    signing_input: bytes
    signature: bytes


def check_algorithms(algorithms: Collection[str]) -> tuple[str, ...]:
    """The algorithms as they are.

    Raises:
        SettingError: there is none, or one that may not be allowed.
    """
    for algorithm in algorithms:
        if algorithm not in ALGORITHMS:
            raise SettingError("algorithms", f"{algorithm!r} is not one of {', '.join(ALGORITHMS)}")
    if not algorithms:
        raise SettingError("algorithms", "at least one is needed")
    return tuple(algorithms)


class JwtVerifier:
    """Verifies the JWTs of one issuer."""

    def __init__(self, rules: ClaimRules, keys: KeySet, algorithms: Collection[str]) -> None:
        self._rules = rules
        self._keys = keys
        self._algorithms = algorithms
        # Digests of tokens and the keys that signed them. A key that is withdrawn is not found again, nor are they.
        self._verified: OrderedDict[bytes, PublicKey] = OrderedDict()

    async def verify(self, text: str, credentials: PresentedCredentials, now: float) -> Proof:
        """What a JWT proves.

        Raises:
            Refused: it is no JWT, is not signed by the issuer, or its claims do not hold.
            UnavailableError: the issuer does not say which keys it has.
        """
        token = _read(text)
        if token.header.alg not in self._algorithms:
            raise Refused("The token's algorithm is not allowed")
        if token.claims.get("iss") != self._rules.issuer:
            raise Refused("The token is from another issuer", foreign=True)
        found = await self._keys.find(token.header.kid)
        digest = hashlib.sha256(text.encode("ascii")).digest()
        signer = self._verified.get(digest)
        if signer is None or not any(key is signer for key in found):
            self._remember(digest, _find_signer(token, found))
        return prove_claims(token.claims, self._rules, credentials, now)

    def _remember(self, digest: bytes, key: PublicKey) -> None:
        self._verified[digest] = key
        if len(self._verified) > REMEMBERED:
            self._verified.popitem(last=False)


def _read(text: str) -> _Token:
    """The parts of a JWT; nothing in them has been verified."""
    if not _COMPACT.fullmatch(text):
        raise Refused("The token is no JWT", foreign=True)
    try:
        header, payload, signature = (_decode(part) for part in text.split("."))
        token = _Token(
            header=msgspec.json.decode(header, type=_Header),
            claims=msgspec.json.decode(payload, type=JsonObject),
            signing_input=text.rpartition(".")[0].encode("ascii"),
            signature=signature,
        )
    except (ValueError, RecursionError):  # which is also what base64 and msgspec raise
        raise Refused("The token is no JWT", foreign=True) from None
    if token.header.crit is not None:  # RFC 7515 section 4.1.11: we understand no extension, so we must refuse it
        raise Refused("The token demands an extension that is not known here")
    if token.header.typ.lower() not in _TYPES:
        raise Refused("The token is of another type")
    return token


def _decode(part: str) -> bytes:
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _find_signer(token: _Token, keys: Collection[PublicKey]) -> PublicKey:
    fitting = [key for key in keys if _fits(key, token.header.alg)]
    for key in fitting[:_MAX_TRIES]:
        if _is_signed(token, key):
            return key
    raise Refused("The token's signature is wrong")


def _fits(key: PublicKey, algorithm: str) -> bool:
    try:
        JWSRegistry.algorithms[algorithm].check_key(key)
    except JoseError:
        return False
    return True


def _is_signed(token: _Token, key: PublicKey) -> bool:
    try:
        return JWSRegistry.algorithms[token.header.alg].verify(token.signing_input, token.signature, key)
    except (JoseError, ValueError):  # a key for other operations or of another curve; an impossible signature
        return False
