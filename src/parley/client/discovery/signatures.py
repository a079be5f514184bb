"""Which signatures of cards are trusted: by pinned keys, or by keys from hosts that the caller allows.

A key set is fetched only from an allowed host, over TLS, bounded in size, time and number, and cached for a while. A
pinned key is used for its id, whatever URL the card names. Spec: 1.0 section 8.4.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

import msgspec

from parley.client.guard import is_loopback, read_target
from parley.network.addresses import is_listed
from parley.protocol.cards import CardSignature
from parley.protocol.errors import LocalProtocolError, ParleyError, SignatureInvalidError
from parley.protocol.signing import (
    CardKey,
    ProtectedHeader,
    VerifiedSignature,
    load_key,
    public_members,
    signature_headers,
    verify_card,
)

Mode = Literal["if signed", "off", "required"]

MAX_KEY_SETS = 4
"""Key sets fetched for one card: each is a request that an untrusted card causes."""

MAX_KEYS = 100
"""Keys read from one set."""

MAX_KEPT = 64
"""Cached key sets; the oldest is dropped first. The paths on an allowed host are the card's choice."""

KEPT_SECONDS = 600.0
"""How long a key set is cached, and so how long a withdrawn key is still trusted."""

MISSING_KEY_SECONDS = 30.0
"""How long a cached set without the named key is used: keys are replaced, and cards may name any."""

Fetch: TypeAlias = Callable[[str], Awaitable[bytes]]
"""Fetches the bytes at a URL, bounded. Raises ParleyError."""


class KeySets:
    """Fetched key sets of one policy."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._kept: dict[str, tuple[float, dict[str, CardKey]]] = {}

    async def get(self, url: str, key_id: str, fetch: Fetch) -> dict[str, CardKey]:
        """The keys at a URL, fetched again if the named one is missing. Raises as `fetch` and `read_key_set` do."""
        fetched_at, keys = self._kept.get(url, (-math.inf, dict[str, CardKey]()))
        if self._now() - fetched_at < (KEPT_SECONDS if key_id in keys else MISSING_KEY_SECONDS):
            return keys
        keys = read_key_set(await fetch(url))
        self._kept.pop(url, None)
        self._kept[url] = (self._now(), keys)
        if len(self._kept) > MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        return keys


@dataclass(frozen=True, slots=True)
class SignaturePolicy:
    """Which cards are accepted.

    "if signed" verifies every signed card, if the policy has a key or a host to verify with. "required" accepts
    verified cards only.
    """

    mode: Mode = "if signed"
    keys: Mapping[str, CardKey | Mapping[str, object] | str | bytes] = field(default_factory=dict[str, Any])
    """Pinned keys by id (`kid`): PEM texts or JWK objects."""
    jwks_hosts: tuple[str, ...] = ()
    """Hosts from which a card may name a key set (`jku`); `.example.com` allows all below it."""
    key_sets: KeySets = field(default_factory=KeySets, repr=False, compare=False)
    """Key sets fetched from them. Several clients may share a policy."""

    def __post_init__(self) -> None:
        """Raises LocalProtocolError if a key is invalid, or if no card could ever be accepted."""
        object.__setattr__(self, "keys", {key_id: load_key(key) for key_id, key in self.keys.items()})
        if self.mode == "required" and not self.can_verify:
            raise LocalProtocolError("Signatures are required, but there is no key or host to verify them with")

    @property
    def can_verify(self) -> bool:
        """Whether there is a key or a host to verify with."""
        return bool(self.keys or self.jwks_hosts)

    def applies_to(self, card: bytes) -> bool:
        """Whether a card has to be verified."""
        if self.mode == "if signed":
            return self.can_verify and _is_signed(card)
        return self.mode == "required"

    def check_key_set(self, url: str) -> None:
        """Make sure that a key set may be fetched. Raises ParleyError."""
        target = read_target(url)
        if not is_listed(target.host, self.jwks_hosts):
            raise SignatureInvalidError(f"Keys from {target.origin} are not allowed")
        if target.scheme != "https" and not (target.scheme == "http" and is_loopback(target.host)):
            raise SignatureInvalidError(f"Keys from {target.origin} are not trusted: it is not encrypted")


async def verify(card: bytes, policy: SignaturePolicy, fetch: Fetch) -> VerifiedSignature:
    """The signature that verifies, and what it covers.

    Raises:
        SignatureInvalidError: none verifies; the message says why for each.
    """
    fetched: dict[str, dict[str, CardKey] | ParleyError] = {}
    for header in signature_headers(card):
        url = header.jku
        if url is None or header.key_id in policy.keys or isinstance(fetched.get(url), ParleyError):
            continue
        if url not in fetched and len(fetched) >= MAX_KEY_SETS:
            continue
        try:
            policy.check_key_set(url)
            fetched[url] = await policy.key_sets.get(url, header.key_id, fetch)
        except ParleyError as error:
            fetched.setdefault(url, error)

    def find_key(header: ProtectedHeader) -> CardKey | None:
        if header.key_id in policy.keys:
            return cast("CardKey", policy.keys[header.key_id])
        found = fetched.get(header.jku or "", {})
        if isinstance(found, ParleyError):
            raise found
        return found.get(header.key_id)

    return verify_card(card, find_key)


def signature_at(card: bytes, index: int) -> CardSignature:
    """A verified signature, without its unprotected header, which is not signed."""
    signature = (msgspec.json.decode(card, type=_Document).signatures or [])[index]
    return CardSignature(signature["protected"], signature["signature"])


def read_key_set(body: bytes) -> dict[str, CardKey]:
    """The signing keys of a JSON Web Key Set by id.

    Raises:
        SignatureInvalidError: it is not a key set.
    """
    try:
        listed = msgspec.json.decode(body, type=_KeySet).keys
    except (msgspec.DecodeError, RecursionError):
        raise SignatureInvalidError("The key set cannot be read") from None
    keys: dict[str, CardKey] = {}
    for jwk in listed[:MAX_KEYS]:
        key_id = jwk.get("kid")
        if not isinstance(key_id, str) or jwk.get("use", "sig") != "sig":
            continue
        try:
            keys.setdefault(key_id, load_key(public_members(jwk)))
        except LocalProtocolError:
            continue  # a kind of key that does not sign cards
    return keys


class _KeySet(msgspec.Struct):
    keys: list[dict[str, Any]]


class _Document(msgspec.Struct):
    signatures: list[Any] | None = None


def _is_signed(card: bytes) -> bool:
    try:
        return bool(msgspec.json.decode(card, type=_Document).signatures)
    except (msgspec.DecodeError, RecursionError):
        return True  # an unreadable card must not pass as unsigned
