"""Bearer tokens and API keys that are stored as hashes.

One round of SHA-256 is sufficient, because the secrets are random numbers of 256 bits, which cannot be guessed. (A
password is not random, so `basic` uses scrypt.) Entries are looked up by a keyed hash of that hash, and compared in
constant time, so that timing reveals nothing about them.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable
from datetime import datetime
from hmac import compare_digest

from msgspec import Struct

from parley.server.security.schemes.scheme import Proof, Refused, SettingError

_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_SECRET_BYTES = 32


class StoredSecret(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An accepted token or key: the name of its holder, its hash, scopes, tenant and expiry.

    Two secrets may have the same name, so that a secret can be rotated while its holder keeps the same identity.
    """

    name: str
    hash: str
    scopes: tuple[str, ...] = ()
    tenant: str | None = None
    expires: datetime | None = None


def new_secret() -> tuple[str, str]:
    """A new random secret, and its hash."""
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    return secret, hash_secret(secret)


def hash_secret(secret: str) -> str:
    """The hash of a secret: `sha256:` and the digest in hex."""
    return f"sha256:{hashlib.sha256(secret.encode('utf-8', 'surrogatepass')).hexdigest()}"


class SecretTable:
    """The secrets of one scheme. `setting` is their name in errors."""

    def __init__(self, stored: Iterable[StoredSecret], setting: str) -> None:
        """Raises SettingError if a name is missing, a hash is invalid, or an expiry has no time zone."""
        self._key = secrets.token_bytes(_SECRET_BYTES)
        self._by_digest: dict[bytes, StoredSecret] = {}
        for index, secret in enumerate(stored):
            _check(secret, f"{setting}[{index}]")
            self._by_digest[self._blind(secret.hash)] = secret

    def prove(self, secret: str, now: datetime) -> Proof:
        """Verify a secret.

        Raises:
            Refused: it is unknown or has expired.
        """
        presented = hash_secret(secret)
        known = self._by_digest.get(self._blind(presented))
        if known is None or not compare_digest(known.hash, presented):
            raise Refused("The secret is unknown", foreign=True)
        if known.expires and known.expires <= now:
            raise Refused("The secret has expired")
        return Proof(known.name, frozenset(known.scopes), tenant=known.tenant)

    def _blind(self, digest: str) -> bytes:
        return hashlib.blake2b(digest.encode(), key=self._key, digest_size=32).digest()


def _check(secret: StoredSecret, setting: str) -> None:
    if not secret.name:
        raise SettingError(f"{setting}.name", "it must not be empty")
    if not _HASH.fullmatch(secret.hash):
        # The value is not quoted: it may be the secret itself, entered by mistake.
        raise SettingError(f"{setting}.hash", "it must be 'sha256:' and 64 hexadecimal digits in lower case")
    if secret.expires and secret.expires.tzinfo is None:
        raise SettingError(f"{setting}.expires", "it needs a time zone; append Z for UTC")
