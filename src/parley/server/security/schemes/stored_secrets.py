"""Secrets that are kept as hashes only: bearer tokens and API keys.

One round of SHA-256 is enough, because the secrets are random numbers of 256 bits: nobody finds one by trying, however
fast the hash. (A password is not random, which is why `basic` uses scrypt.) Entries are found by a keyed hash of that
hash, and compared in constant time, so the time a lookup takes says nothing about what is stored.
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
    """A token or key that is accepted: whose it is, its hash, and what it allows until when.

    Two secrets may have one name: that is how a secret is rotated without its holder becoming somebody else.
    """

    name: str
    hash: str
    scopes: tuple[str, ...] = ()
    tenant: str | None = None
    expires: datetime | None = None


def new_secret() -> tuple[str, str]:
    """A random secret for its holder, and the hash of it to store."""
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    return secret, hash_secret(secret)


def hash_secret(secret: str) -> str:
    """How a secret is stored: `sha256:` and the digest in hex."""
    return f"sha256:{hashlib.sha256(secret.encode('utf-8', 'surrogatepass')).hexdigest()}"


class SecretTable:
    """The secrets of one scheme, which calls them `setting`."""

    def __init__(self, stored: Iterable[StoredSecret], setting: str) -> None:
        """Raises SettingError if a name is missing, a hash is none, or an expiry has no time zone."""
        self._key = secrets.token_bytes(_SECRET_BYTES)
        self._by_digest: dict[bytes, StoredSecret] = {}
        for index, secret in enumerate(stored):
            _check(secret, f"{setting}[{index}]")
            self._by_digest[self._blind(secret.hash)] = secret

    def prove(self, secret: str, now: datetime) -> Proof:
        """What a secret proves.

        Raises:
            Refused: it is unknown or has expired.
        """
        presented = hash_secret(secret)
        known = self._by_digest.get(self._blind(presented))
        if known is None or not compare_digest(known.hash, presented):
            raise Refused("The secret is not known", foreign=True)
        if known.expires and known.expires <= now:
            raise Refused("The secret has expired")
        return Proof(known.name, frozenset(known.scopes), tenant=known.tenant)

    def _blind(self, digest: str) -> bytes:
        return hashlib.blake2b(digest.encode(), key=self._key, digest_size=32).digest()


def _check(secret: StoredSecret, setting: str) -> None:
    if not secret.name:
        raise SettingError(f"{setting}.name", "it is empty")
    if not _HASH.fullmatch(secret.hash):
        # The value is not quoted: somebody may have put the secret itself where its hash belongs.
        raise SettingError(f"{setting}.hash", "it is not 'sha256:' and 64 hexadecimal digits in lower case")
    if secret.expires and secret.expires.tzinfo is None:
        raise SettingError(f"{setting}.expires", "it has no time zone; end it with Z for UTC")
