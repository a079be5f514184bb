"""Rate limits: requests per second, active requests and streams, and failed authentications.

A caller is an identity, or an address if the caller is anonymous. Rates are token buckets that hold `burst` requests,
by default those of two seconds. Memory is bounded: the least recently seen caller is forgotten first. A limit that is
turned off costs nothing.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from ipaddress import AddressValueError, IPv6Address, IPv6Network
from types import TracebackType

from parley.protocol.errors import A2AError, RateLimitedError

BURST_SECONDS = 2
"""The default burst, in seconds of the rate: clients send several requests at once, and then wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """The limits per caller and in total. None means no limit; for a burst it means the default."""

    requests_per_second: float | None = None
    """Of one caller. Off by default: the cost of a call depends on the agent."""
    request_burst: int | None = None
    """Requests that one caller may send at once. None allows those of two seconds, at least one: a limit of 2 per
    second should not allow 100 at once."""
    total_requests_per_second: float | None = None
    """Of all callers. Off by default: the limits of active requests protect the machine already."""
    total_request_burst: int | None = None
    """Requests that all callers together may send at once."""
    requests: int | None = 1_000
    """Active requests of one caller. A blocking send is active as long as its run; an engine has as many runs."""
    total_requests: int | None = 10_000
    """Active requests of all callers. The engine queues as many sends, so more would only wait."""
    streams: int | None = 2_000
    """Open streams of one caller. A gateway has many users; a program that leaks streams is stopped here."""
    total_streams: int | None = 10_000
    """Open streams of all callers. Each takes a socket and some tens of kilobytes, so a small machine can hold them."""
    failures_per_minute: int | None = 30
    """Refused credentials per address. A misconfigured client sends fewer; guessing a password would take too long."""
    remembered: int = 10_000
    """Callers and addresses that are kept in memory, about 300 bytes each."""

    def __post_init__(self) -> None:
        for field in fields(self):
            limit = getattr(self, field.name)
            if limit is not None and limit <= 0:
                raise ValueError(f"{field.name} must be more than 0, or None for no limit")


class Throttle:
    """The counters of one server. It is not thread-safe.

    A request passes three checks: `check_address` before authentication, `admit` after it, and `admit_stream` if it
    opens a stream.
    """

    def __init__(self, limits: RateLimits | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        limits = limits or RateLimits()
        self._clock = clock
        self._requests = _Concurrency(limits.requests, limits.total_requests, "requests at the same time")
        self._streams = _Concurrency(limits.streams, limits.total_streams, "open streams")
        self._rate = _Rates.of(limits.requests_per_second, limits.request_burst, limits.remembered)
        self._total_rate = _Rates.of(limits.total_requests_per_second, limits.total_request_burst, 1)
        failures = limits.failures_per_minute
        self._failures = _Rates.of(failures and failures / 60, failures or 1, limits.remembered)
        self._limits_requests = bool(self._requests.is_limited or self._rate or self._total_rate)
        self._enter_request = self._enter if self._rate or self._total_rate else self._requests.acquire

    def check_address(self, address: str) -> None:
        """Check that not too many credentials from this address were refused within the last minute.

        Raises:
            RateLimitedError: too many were; see `retry_after_of`.
        """
        if self._failures is None or not self._failures.buckets:
            return
        if seconds := self._failures.wait(self._failures.tokens(_network(address), self._clock())):
            raise too_many("refused credentials from this address", seconds)

    def count_refusal(self, address: str) -> None:
        """Count refused credentials against this address; call it if `was_refused(error)`."""
        if self._failures is not None:
            network, now = _network(address), self._clock()
            self._failures.take(network, self._failures.tokens(network, now), now)

    def admit(self, caller: str, address: str = "") -> AbstractContextManager[None]:
        """A context for one request of this caller; anonymous callers are identified by address.

        Raises:
            RateLimitedError: on entering, if there are too many; see `retry_after_of`.
        """
        if not self._limits_requests:
            return _NO_LIMIT
        return _Slot(self._enter_request, self._requests.release, caller or _network(address))

    def admit_stream(self, caller: str, address: str = "") -> AbstractContextManager[None]:
        """A context for one open stream of this caller.

        Raises:
            RateLimitedError: on entering, if there are too many; see `retry_after_of`.
        """
        if not self._streams.is_limited:
            return _NO_LIMIT
        return _Slot(self._streams.acquire, self._streams.release, caller or _network(address))

    def _enter(self, caller: str) -> None:
        """Check all limits of a request, and count it only if all allow it."""
        self._requests.check(caller)
        now = self._clock()
        limits = ((self._total_rate, ""), (self._rate, caller))
        found = [(rates, key, rates.tokens(key, now)) for rates, key in limits if rates]
        if seconds := max([rates.wait(tokens) for rates, _, tokens in found]):
            raise too_many("requests", seconds)
        for rates, key, tokens in found:
            rates.take(key, tokens, now)
        self._requests.acquire(caller)


_NO_LIMIT = nullcontext()  # shared: it has no state


class _Slot:
    """A context in which a request or stream of a caller is counted. It is faster than a generator."""

    __slots__ = ("_acquire", "_caller", "_release")

    def __init__(self, acquire: Callable[[str], None], release: Callable[[str], None], caller: str) -> None:
        self._acquire = acquire
        self._release = release
        self._caller = caller

    def __enter__(self) -> None:
        self._acquire(self._caller)

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self._release(self._caller)


class _Concurrency:
    """How many requests or streams are active, per caller and in total. A caller without any takes no memory."""

    __slots__ = ("_active", "_by_caller", "_each", "_total", "_what", "is_limited")

    def __init__(self, each: int | None, total: int | None, what: str) -> None:
        self._each = math.inf if each is None else each
        self._total = math.inf if total is None else total
        self._what = what
        self._by_caller: dict[str, int] = {}
        self._active = 0
        self.is_limited = each is not None or total is not None

    def check(self, caller: str) -> None:
        if self._active >= self._total or self._by_caller.get(caller, 0) >= self._each:
            raise too_many(self._what, 1)  # it is unknown when one ends

    def acquire(self, caller: str) -> None:
        self.check(caller)
        self._active += 1
        self._by_caller[caller] = self._by_caller.get(caller, 0) + 1

    def release(self, caller: str) -> None:
        self._active -= 1
        self._by_caller[caller] -= 1
        if not self._by_caller[caller]:
            del self._by_caller[caller]


class _Rates:
    """A token bucket for each key; if there are too many, the least recently used one is dropped."""

    __slots__ = ("_burst", "_per_second", "_remembered", "buckets")

    def __init__(self, per_second: float, burst: float, remembered: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._remembered = remembered
        self.buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """The tokens of a key, and when they were counted."""

    @classmethod
    def of(cls, per_second: float | None, burst: float | None, remembered: int) -> _Rates | None:
        if per_second is None:
            return None
        return cls(per_second, max(1, BURST_SECONDS * per_second) if burst is None else burst, remembered)

    def tokens(self, key: str, now: float) -> float:
        """The tokens of a key, which counts as used."""
        bucket = self.buckets.get(key)
        if bucket is None:
            return self._burst
        self.buckets.move_to_end(key)
        tokens, counted = bucket
        return min(self._burst, tokens + (now - counted) * self._per_second)

    def wait(self, tokens: float) -> float:
        """Seconds until there is a whole token; 0 if there is one."""
        # Rounding may leave slightly less than a whole token.
        return 0 if tokens > 1 - 1e-9 else (1 - tokens) / self._per_second

    def take(self, key: str, tokens: float, now: float) -> None:
        """Take one of the tokens that a key has."""
        # Refusals that were checked at the same time may exceed the limit; the debt is bounded by the burst.
        self.buckets[key] = (max(tokens - 1, -self._burst), now)
        if len(self.buckets) > self._remembered:
            self.buckets.popitem(last=False)


def _network(address: str) -> str:
    """The address itself, or its /64 network for IPv6, which is what one household or machine gets."""
    if ":" not in address:
        return address
    try:
        parsed = IPv6Address(address)
    except AddressValueError:
        return address
    if parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return str(IPv6Network((int(parsed), 64), strict=False).network_address)


def too_many(what: str, seconds: float) -> RateLimitedError:
    """The error for a caller that may try again after some seconds; see `retry_after_of`."""
    error = RateLimitedError(f"Too many {what}; try again later")
    vars(error)["retry_after"] = max(1, math.ceil(seconds))
    return error


# The dialects look errors up by their exact class, so this cannot be an attribute of a subclass.
def retry_after_of(error: A2AError) -> int | None:
    """The `Retry-After` of an error in whole seconds, at least one; None if it has none."""
    return vars(error).get("retry_after")
