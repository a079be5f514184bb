"""One key that signs, and the keys that a server signs with: the seams for keys in files, in a KMS or behind PKCS#11.

A `SigningKey` has one method, `sign`, so the private key can be anywhere. It does not know what is signed with it. The
rule that stays true: `public_jwk` has public members only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from threading import Lock
from typing import Protocol, cast

import msgspec
from joserfc.util import json_b64encode, urlsafe_b64encode

from parley.protocol.errors import LocalProtocolError
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.signing import CardKey, algorithm_of, load_key, sign_bytes

_ES256_BYTES = 64
_PUBLIC_MEMBERS = ("kty", "crv", "x", "y", "n", "e")


class SigningKey(Protocol):
    """A private key, wherever it is."""

    @property
    def key_id(self) -> str:
        """The id (`kid`) by which receivers find the public key."""
        ...

    @property
    def algorithm(self) -> str:
        """`ES256`, `RS256` or `EdDSA`."""
        ...

    @property
    def public_jwk(self) -> JsonObject:
        """The public key as a JWK: `kty` and the members of that type of key."""
        ...

    def sign(self, data: bytes) -> bytes:
        """The raw JWS signature of the data. For ES256 that is `r` and `s`, 32 bytes each, and not DER."""
        ...


class SigningKeys(Protocol):
    """The keys of a server: it signs with the current one and publishes all."""

    @property
    def current(self) -> SigningKey:
        """The key that signs now."""
        ...

    @property
    def current_since(self) -> datetime | None:
        """Since when the current key signs, if that is known."""
        ...

    @property
    def jku(self) -> str | None:
        """The URL of the key set, if the server does not publish it itself."""
        ...

    @property
    def signatures(self) -> Mapping[str, int]:
        """How many signatures each key has made in this process, by key id."""
        ...

    def published(self) -> bytes:
        """The public keys as a JSON Web Key Set."""
        ...

    def sign_token(self, claims: Mapping[str, JsonValue]) -> str:
        """A JWT with these claims, signed with the current key."""
        ...

    def reload(self) -> None:
        """Read the keys again. Raises LocalProtocolError if they are not valid; the old ones stay in use."""
        ...


class LocalKey:
    """A private key in the memory of this process."""

    __slots__ = ("_algorithm", "_key", "_key_id")

    def __init__(self, key: CardKey, key_id: str) -> None:
        """Raises LocalProtocolError if the key is public, or of a kind that signs no cards."""
        self._algorithm = algorithm_of(key)
        if not key.is_private:
            raise LocalProtocolError("It is a public key; signing needs the private one")
        self._key = key
        self._key_id = key_id

    def __repr__(self) -> str:
        return f"LocalKey({self._key_id!r}, {self._algorithm})"

    @property
    def key_id(self) -> str:
        """See `SigningKey`."""
        return self._key_id

    @property
    def algorithm(self) -> str:
        """See `SigningKey`."""
        return self._algorithm

    @property
    def public_jwk(self) -> JsonObject:
        """See `SigningKey`."""
        members = cast("JsonObject", dict(self._key.as_dict(private=False)))
        return {name: members[name] for name in _PUBLIC_MEMBERS if name in members}

    def sign(self, data: bytes) -> bytes:
        """See `SigningKey`."""
        return sign_bytes(self._key, data)

    @property
    def private_key(self) -> CardKey:
        """The key itself."""
        return self._key

    def private_jwk(self) -> JsonObject:
        """The whole key as a JWK."""
        members = cast("JsonObject", dict(self._key.as_dict(private=True)))
        # What an imported key says about itself is left out: `kid`, `alg` and `use` are decided here.
        kept = (*_PUBLIC_MEMBERS, "d", "p", "q", "dp", "dq", "qi")
        return {name: members[name] for name in kept if name in members} | self._description

    def pem(self, *, private: bool = False) -> bytes:
        """The public key in PEM, or the private one."""
        return self._key.as_pem(private=private)

    @property
    def _description(self) -> JsonObject:
        return {"kid": self._key_id, "alg": self._algorithm, "use": "sig"}


class CountedKey:
    """A key, and how many signatures it has made in this process."""

    __slots__ = ("_key", "_lock", "count")

    def __init__(self, key: SigningKey) -> None:
        self._key = key
        self._lock = Lock()
        self.count = 0

    def __repr__(self) -> str:
        return repr(self._key)

    @property
    def key_id(self) -> str:
        """See `SigningKey`."""
        return self._key.key_id

    @property
    def algorithm(self) -> str:
        """See `SigningKey`."""
        return self._key.algorithm

    @property
    def public_jwk(self) -> JsonObject:
        """See `SigningKey`."""
        return self._key.public_jwk

    def sign(self, data: bytes) -> bytes:
        """See `SigningKey`. Raises LocalProtocolError for a signature that no receiver could verify."""
        signature = self._key.sign(data)
        if self.algorithm == "ES256" and len(signature) != _ES256_BYTES:
            raise LocalProtocolError(
                f"The key {self.key_id} returns signatures of {len(signature)} bytes. ES256 needs the raw r and s, 32 "
                "bytes each, and not DER"
            )
        with self._lock:  # tokens may be signed in threads
            self.count += 1
        return signature


def generate_key(algorithm: str) -> CardKey:
    """A new private key.

    Raises:
        LocalProtocolError: there is no such algorithm.
    """
    from joserfc.jwk import ECKey, OKPKey, RSAKey  # not above: see `parley.protocol.signing`

    match algorithm:
        case "ES256":
            return ECKey.generate_key("P-256")
        case "EdDSA":
            return OKPKey.generate_key("Ed25519")
        case "RS256":
            return RSAKey.generate_key(3072)  # 128 bits of security, as the others have: NIST SP 800-57
        case _:
            raise LocalProtocolError(f"Unknown algorithm: {algorithm!r}. Choose ES256, RS256 or EdDSA")


def parse_key(text: str) -> CardKey:
    """The key in the text of a file: PEM, or a JWK.

    Raises:
        LocalProtocolError: it is neither.
    """
    if not text.lstrip().startswith("{"):
        return load_key(text)
    try:
        return load_key(msgspec.json.decode(text, type=dict[str, object]))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as exc:
        raise LocalProtocolError(f"The key cannot be read: {exc}") from exc


def encode_key_set(keys: Iterable[SigningKey]) -> bytes:
    """The public keys as a JSON Web Key Set (RFC 7517)."""
    return msgspec.json.encode({"keys": [_described(key) for key in keys]})


def _described(key: SigningKey) -> JsonObject:
    # Whatever a key of another module gives: a private member must not be published by mistake.
    public = {name: value for name, value in key.public_jwk.items() if name in _PUBLIC_MEMBERS}
    return {**public, "kid": key.key_id, "alg": key.algorithm, "use": "sig"}


def encode_token(key: SigningKey, claims: Mapping[str, JsonValue]) -> str:
    """A JWT (RFC 7519) with these claims, as a compact JWS signed with the key."""
    header = json_b64encode({"alg": key.algorithm, "kid": key.key_id, "typ": "JWT"})
    signed = header + b"." + urlsafe_b64encode(msgspec.json.encode(dict(claims)))
    return (signed + b"." + urlsafe_b64encode(key.sign(signed))).decode()
