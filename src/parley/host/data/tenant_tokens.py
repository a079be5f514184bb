"""The tokens of tenants: how they look, how they are kept, and how one replaces another.

Only hashes are kept. SHA-256 is sufficient, because a token is a random number of 256 bits, which cannot be guessed.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from parley.host.data.epoch import seconds
from parley.host.data.errors import InvalidValueError
from parley.server.security.schemes.stored_secrets import hash_secret

PREFIX = "atr_"

MAX_OVERLAP = 30 * 86_400
"""Seconds for which a token may outlive its rotation: what stays valid for longer is a second token."""


class TenantToken(Struct, frozen=True):
    """An accepted token. `expires_at` is in seconds since 1970; None: it does not expire."""

    hash: str
    expires_at: int | None = None

    def is_expired(self, now: datetime) -> bool:
        """Whether it is refused."""
        return self.expires_at is not None and self.expires_at <= now.timestamp()


def new_tenant_token() -> str:
    """A new random token."""
    return PREFIX + secrets.token_hex(32)


def check_overlap(overlap_seconds: int) -> None:
    """Refuse an overlap that is out of range.

    Raises:
        InvalidValueError: it is negative, or longer than 30 days.
    """
    if not 0 <= overlap_seconds <= MAX_OVERLAP:
        raise InvalidValueError(f"must be from 0 to {MAX_OVERLAP}", "$.overlap_seconds")


def rotated(
    tokens: Sequence[TenantToken], token: str, *, now: datetime, overlap_seconds: int
) -> tuple[TenantToken, ...]:
    """The tokens of a tenant with a new one: at most two, because only the one before may overlap with it."""
    new = TenantToken(hash_secret(token))
    if not overlap_seconds:
        return (new,)
    expires_at = seconds(now) + overlap_seconds
    return new, *(TenantToken(old.hash, expires_at) for old in tokens if old.expires_at is None)
