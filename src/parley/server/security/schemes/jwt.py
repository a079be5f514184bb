"""Reads and verifies access tokens that are JWTs (RFC 7519, RFC 9068), as RFC 8725 advises.

The order matters. A token of another issuer is refused before any key is looked up, so it causes no fetch. The
algorithm must be allowed and match the key, so neither `none` nor a public key used as a shared secret is accepted.
Only then are the claims used. Verifying a signature takes a third of a millisecond, so it is done once for each token
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
"""The algorithms that can be allowed: signatures with a private key only."""

REMEMBERED = 10_000
"""The most tokens whose signature is cached as valid, about 200 bytes each."""

_COMPACT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
# The types of access tokens; many issuers leave the type out. Tokens for other purposes have other types.
_TYPES = ("", "jwt", "at+jwt", "application/jwt", "application/at+jwt")
# A token without a key id is verified with each suitable key. Few issuers have that many keys of one type.
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
    """Check a list of algorithms, and return it.

    Raises:
        SettingError: it is empty, or has an unknown algorithm.
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
        # Digests of tokens and the keys that signed them. An entry is useless when its key is withdrawn.
        self._verified: OrderedDict[bytes, PublicKey] = OrderedDict()

    async def verify(self, text: str, credentials: PresentedCredentials, now: float) -> Proof:
        """Verify a JWT.

        Raises:
            Refused: it is not a JWT, is not signed by the issuer, or its claims are not accepted.
            UnavailableError: the keys of the issuer cannot be fetched.
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
    """The parts of a JWT, not verified yet."""
    if not _COMPACT.fullmatch(text):
        raise Refused("The token is not a JWT", foreign=True)
    try:
        header, payload, signature = (_decode(part) for part in text.split("."))
        token = _Token(
            header=msgspec.json.decode(header, type=_Header),
            claims=msgspec.json.decode(payload, type=JsonObject),
            signing_input=text.rpartition(".")[0].encode("ascii"),
            signature=signature,
        )
    except (ValueError, RecursionError):  # the errors of base64 and msgspec are ValueErrors
        raise Refused("The token is not a JWT", foreign=True) from None
    if token.header.crit is not None:  # RFC 7515 section 4.1.11: an extension that is not supported must be refused
        raise Refused("The token needs an extension that is not supported")
    if token.header.typ.lower() not in _TYPES:
        raise Refused("The token is not an access token")
    return token


def _decode(part: str) -> bytes:
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _find_signer(token: _Token, keys: Collection[PublicKey]) -> PublicKey:
    suitable = [key for key in keys if _is_suitable(key, token.header.alg)]
    for key in suitable[:_MAX_TRIES]:
        if _is_signed(token, key):
            return key
    raise Refused("The token's signature is invalid")


def _is_suitable(key: PublicKey, algorithm: str) -> bool:
    try:
        JWSRegistry.algorithms[algorithm].check_key(key)
    except JoseError:
        return False
    return True


def _is_signed(token: _Token, key: PublicKey) -> bool:
    try:
        return JWSRegistry.algorithms[token.header.alg].verify(token.signing_input, token.signature, key)
    except (JoseError, ValueError):  # a key for another purpose or curve, or a malformed signature
        return False
