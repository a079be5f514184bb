"""How much tenants may do: requests in a minute, requests at the same time, tokens in a day.

A quota of a tenant wins over the host's default. Only messages that begin or continue work count; reading does not.
Counts are those of all processes of the host, as far as this one has learnt of the others (`replica_counts`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from parley.host.data.tenant import Quotas, Tenant
from parley.protocol.errors import RateLimitedError
from parley.server.security.throttle import too_many

RATE_LIMIT = "rate_limit"
CONCURRENCY_LIMIT = "concurrent_request_limit"
TOKEN_LIMIT = "token_limit"

MINUTE = 60.0

FORGOTTEN_SECONDS = 600.0
"""After which a tenant without messages has all of its requests again, whatever its quota."""


@dataclass(slots=True)
class _Bucket:
    """The requests that a tenant may still make, and when that was counted."""

    tokens: float
    """Negative, if other processes have counted more than there was."""
    counted_at: float
    taken: int = 0
    """How many messages this process has counted."""


class QuotaBook:
    """The counts of all tenants.

    `active` tells how many requests of a tenant are at work, and `tokens_today` how many tokens it has used.
    """

    def __init__(
        self,
        defaults: Quotas,
        *,
        active: Callable[[str], int],
        tokens_today: Callable[[str], int],
        clock: Callable[[], float],
    ) -> None:
        self._defaults = defaults
        self._active = active
        self._tokens_today = tokens_today
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}

    def check(self, tenant: Tenant) -> None:
        """Count one more request. Raises RateLimitedError, with the reason in its details."""
        most = self._limit(tenant, "concurrent_requests")
        if most is not None and self._active(tenant.id) >= most:
            raise _refused("requests at the same time", 1, CONCURRENCY_LIMIT)
        self.check_message(tenant)

    def check_message(self, tenant: Tenant) -> None:
        """Count one more message, which begins no request. Raises as `check`."""
        left = self.tokens_left(tenant)
        if left is not None and left <= 0:
            raise _refused("tokens today", 3_600, TOKEN_LIMIT)
        per_minute = self._limit(tenant, "requests_per_minute")
        if per_minute is not None:
            self._take(tenant.id, per_minute)

    def tokens_left(self, tenant: Tenant) -> int | None:
        """How many tokens a tenant may still use today; None for no limit."""
        most = self._limit(tenant, "tokens_per_day")
        return None if most is None else most - self._tokens_today(tenant.id)

    def storage_bytes(self, tenant: Tenant) -> int | None:
        """How many bytes a tenant may keep; None for the limit of all tenants."""
        return self._limit(tenant, "storage_bytes")

    def schedules(self, tenant: Tenant) -> int | None:
        """How many schedules a tenant may have; None for the limit of all tenants."""
        return self._limit(tenant, "schedules")

    def schedule_interval_seconds(self, tenant: Tenant) -> int:
        """The shortest interval between two ticks of a tenant's schedules; 0 if none is set."""
        return self._limit(tenant, "schedule_interval_seconds") or 0

    def _limit(self, tenant: Tenant, name: str) -> int | None:
        own: int | None = getattr(tenant.quotas, name)
        return getattr(self._defaults, name) if own is None else own

    def taken(self) -> Mapping[str, int]:
        """How many messages this process has counted, by tenant; not those of tenants that were long not here."""
        long_ago = self._clock() - FORGOTTEN_SECONDS
        for tenant_id, bucket in tuple(self._buckets.items()):
            if bucket.counted_at < long_ago:
                del self._buckets[tenant_id]
        return {tenant_id: bucket.taken for tenant_id, bucket in self._buckets.items() if bucket.taken}

    def count_elsewhere(self, tenant: Tenant, number: int) -> None:
        """Count messages that other processes have taken."""
        per_minute = self._limit(tenant, "requests_per_minute")
        if per_minute is not None:
            bucket = self._refilled(tenant.id, per_minute)
            bucket.tokens = max(bucket.tokens - number, -per_minute)

    def _take(self, tenant_id: str, per_minute: int) -> None:
        bucket = self._refilled(tenant_id, per_minute)
        if bucket.tokens < 1:
            wait = (1 - bucket.tokens) * MINUTE / per_minute if per_minute else MINUTE
            raise _refused("requests", wait, RATE_LIMIT)
        bucket.tokens -= 1
        bucket.taken += 1

    def _refilled(self, tenant_id: str, per_minute: int) -> _Bucket:
        now = self._clock()
        bucket = self._buckets.setdefault(tenant_id, _Bucket(per_minute, now))
        bucket.tokens = min(per_minute, bucket.tokens + (now - bucket.counted_at) * per_minute / MINUTE)
        bucket.counted_at = now
        return bucket


def _refused(what: str, seconds: float, reason: str) -> RateLimitedError:
    error = too_many(what, math.ceil(seconds))
    error.details = {"reason": reason}
    return error
