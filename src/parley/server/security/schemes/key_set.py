"""The public keys of an issuer (JWKS, RFC 7517): fetched when needed, kept, and fetched again when they change.

A key id that is not known means that the issuer has new keys, or that somebody made it up; so it causes a fetch, but
not more than one in `COOLDOWN_SECONDS`. All who need keys at the same moment wait for one fetch. While the issuer is
away, keys that were seen lately go on working; without them nothing is accepted.
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
from parley.server.security.schemes.scheme import Refused

PublicKey: TypeAlias = RSAKey | ECKey | OKPKey

FRESH_SECONDS = 600.0
"""How long keys are used without asking: it bounds how long a key that the issuer has withdrawn still works."""
STALE_SECONDS = 3_600.0
"""How long they are used if the issuer does not answer: an hour bridges a restart or an outage, not an attack."""
COOLDOWN_SECONDS = 10.0
"""Least time between two fetches for unknown key ids, and after one that failed."""
MAX_KEYS = 100
"""Keys that are looked at. Issuers publish two to ten."""

_KEY_CLASSES = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}  # never "oct": a shared secret is no public key
_MIN_RSA_BITS = 2048  # NIST SP 800-131A


class KeySet:
    """The keys that `fetch` gets."""

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
        """The keys with this id, or all of them if the token names none.

        Raises:
            Refused: the issuer has no such key.
            UnavailableError: it does not say which keys it has.
        """
        before = self._fetched
        await self._refresh()
        if found := self._with_id(kid):
            return found
        await self._refresh_for_unknown(before)
        if found := self._with_id(kid):
            return found
        raise Refused("The token is signed with a key that its issuer does not have")

    def _with_id(self, kid: str | None) -> list[PublicKey]:
        return [key for key in self._keys if kid is None or key.kid == kid]

    async def _refresh(self) -> None:
        """Fetch the keys if they are old, or make do with what is there."""
        if self._younger_than(FRESH_SECONDS) or (self._lock.locked() and self._younger_than(STALE_SECONDS)):
            return  # one request waits for new keys, the others need not
        async with self._lock:
            if self._younger_than(FRESH_SECONDS):  # somebody else has fetched them meanwhile
                return
            try:
                await self._load()
            except UnavailableError:
                if not self._younger_than(STALE_SECONDS):
                    raise

    async def _refresh_for_unknown(self, before: float | None) -> None:
        """Fetch the keys, unless that was done since the request came or, for others, a moment ago."""
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
            # Those who waited for a fetch that failed must not wait for another one each.
            raise UnavailableError("The credentials cannot be checked now; try again later")
        try:
            self._keys = read_keys(await self._fetch())
        except UnavailableError:
            self._failed = self._clock()
            raise
        self._fetched = self._clock()
        self._failed = None


def read_keys(document: Mapping[str, JsonValue]) -> list[PublicKey]:
    """The keys of a JWKS that can verify; those of other kinds or uses are passed over, as RFC 7517 section 5 says."""
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
        key = key_class.import_key(cast("DictKey", entry))
    # joserfc warns of short RSA keys, which is an exception where warnings are errors; an unknown curve is a KeyError.
    except (JoseError, SecurityWarning, UnsupportedAlgorithm, ValueError, TypeError, KeyError):
        return None
    if isinstance(key, RSAKey) and key.raw_value.key_size < _MIN_RSA_BITS:
        return None
    return key
