"""The public keys of an issuer (JWKS, RFC 7517), fetched when needed, cached, and fetched again when they change.

An unknown key id may be a new key of the issuer, or invented by an attacker. So it causes a fetch, but at most one per
`COOLDOWN_SECONDS`. Requests that need keys at the same time share one fetch. While the issuer is unavailable, cached
keys stay in use for a limited time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias, cast

from cryptography.exceptions import UnsupportedAlgorithm
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import DictKey, ECKey, OKPKey, RSAKey

from parley.protocol.errors import UnavailableError
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.signing import public_members
from parley.server.security.schemes.scheme import Refused

PublicKey: TypeAlias = RSAKey | ECKey | OKPKey

FRESH_SECONDS = 600.0
"""How long keys are used without a new fetch. A key that the issuer has withdrawn works that much longer."""
STALE_SECONDS = 3_600.0
"""How long keys are used while the issuer is unavailable: long enough for an outage, too short for an attack."""
COOLDOWN_SECONDS = 10.0
"""The time between two fetches for unknown key ids, and after a fetch that failed."""
MAX_KEYS = 100
"""The most keys that are read. Issuers publish two to ten."""

_KEY_CLASSES = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}  # never "oct": a shared secret is not a public key
_MIN_RSA_BITS = 2048  # NIST SP 800-131A


class KeySet:
    """The keys that `fetch` returns."""

    def __init__(
        self, fetch: Callable[[], Awaitable[JsonObject]], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._fetch = fetch
        self._clock = clock
        self._keys: list[PublicKey] = []
        self._fetched: float | None = None
        self._failed: float | None = None
        self._forced: float | None = None
        self._lock = asyncio.Lock()

    async def find(self, kid: str | None) -> list[PublicKey]:
        """The keys with this id, or all keys if the token has no key id.

        Raises:
            Refused: the issuer has no such key.
            UnavailableError: the keys cannot be fetched.
        """
        before = self._fetched
        await self._refresh()
        if found := self._with_id(kid):
            return found
        await self._refresh_for_unknown(before)
        if found := self._with_id(kid):
            return found
        raise Refused("The token is signed with an unknown key")

    def _with_id(self, kid: str | None) -> list[PublicKey]:
        return [key for key in self._keys if kid is None or key.kid == kid]

    async def _refresh(self) -> None:
        """Fetch the keys if they are old; keep the cached ones if that fails."""
        if self._younger_than(FRESH_SECONDS) or (self._lock.locked() and self._younger_than(STALE_SECONDS)):
            return  # another request fetches new keys; this one can use the cached ones
        async with self._lock:
            if self._younger_than(FRESH_SECONDS):  # another request has fetched them in the meantime
                return
            try:
                await self._load()
            except UnavailableError:
                if not self._younger_than(STALE_SECONDS):
                    raise

    async def _refresh_for_unknown(self, before: float | None) -> None:
        """Fetch the keys, unless they were fetched since the request started or within the cooldown."""
        async with self._lock:
            is_cooling = self._forced is not None and self._clock() < self._forced + COOLDOWN_SECONDS
            if is_cooling or self._fetched != before:
                return
            await self._load()
            self._forced = self._clock()

    def _younger_than(self, seconds: float) -> bool:
        return self._fetched is not None and self._clock() < self._fetched + seconds

    async def _load(self) -> None:
        if self._failed is not None and self._clock() < self._failed + COOLDOWN_SECONDS:
            # Requests that waited for a failed fetch must not each start another one.
            raise UnavailableError("The credentials cannot be checked now; try again later")
        try:
            self._keys = read_keys(await self._fetch())
        except UnavailableError:
            self._failed = self._clock()
            raise
        self._fetched = self._clock()
        self._failed = None


def read_keys(document: Mapping[str, JsonValue]) -> list[PublicKey]:
    """The keys of a JWKS that can verify signatures. Others are ignored, as RFC 7517 section 5 says."""
    listed = document.get("keys")
    keys = list[PublicKey]()
    for entry in listed[:MAX_KEYS] if isinstance(listed, list) else ():
        key = _read_key(entry) if isinstance(entry, dict) else None
        if key is not None:
            keys.append(key)
    return keys


def _read_key(entry: dict[str, Any]) -> PublicKey | None:
    kind = entry.get("kty")
    key_class = _KEY_CLASSES.get(kind) if isinstance(kind, str) else None
    if key_class is None or entry.get("use", "sig") != "sig":
        return None
    try:
        key = key_class.import_key(cast("DictKey", public_members(entry)))
    # joserfc warns about short RSA keys, which raises if warnings are errors; an unknown curve raises KeyError.
    except (JoseError, SecurityWarning, UnsupportedAlgorithm, ValueError, TypeError, KeyError):
        return None
    if isinstance(key, RSAKey) and key.raw_value.key_size < _MIN_RSA_BITS:
        return None
    return key
