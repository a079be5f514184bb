"""How much callers may ask for: rates, requests and streams at once, and guesses at credentials.

A caller is an identity, or an address where everybody is anonymous. Rates are token buckets: `burst` requests at once,
two seconds' worth if nobody says otherwise, then so many a second. Memory is bounded: callers with nothing under way
are forgotten, the longest idle first. Time comes from outside. What is switched off costs nothing.
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
"""What may come at once, in seconds of the rate: clients come in small crowds, and wait between them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """How much each caller, and all together, may have; None is no limit, but for the bursts."""

    requests_per_second: float | None = None
    """Of one caller. Off: what a call costs is the agent's affair, and no number fits both an echo and a model."""
    request_burst: int | None = None
    """Requests of one caller that may come at once before `requests_per_second` holds them back. None is what comes in
    two seconds, at least one: somebody who asks for 2 a second does not mean 100 at once."""
    total_requests_per_second: float | None = None
    """Of all callers. Off: it depends on the machine, and the limits on what is under way protect that already."""
    total_request_burst: int | None = None
    """The same for all callers together."""
    requests: int | None = 1_000
    """Requests of one caller under way. A blocking send stays for as long as its run: this is all runs of an engine."""
    total_requests: int | None = 10_000
    """Requests under way. More than that wait for a run in vain: the engine keeps as many sends waiting."""
    streams: int | None = 2_000
    """Live streams of one caller. A gateway speaks for many people; a program that leaks streams stops here."""
    total_streams: int | None = 10_000
    """Live streams. Each costs a socket and some tens of kilobytes; this many still leave a small machine alive."""
    failures_per_minute: int | None = 30
    """Refused credentials from one address. A misconfigured client stays below; guessing a password takes too long."""
    remembered: int = 10_000
    """Callers, and addresses, remembered at most; about 300 bytes each."""

    def __post_init__(self) -> None:
        for field in fields(self):
            limit = getattr(self, field.name)
            if limit is not None and limit <= 0:
                raise ValueError(f"{field.name} must be more than 0, or None for no limit")


UNLIMITED = RateLimits(requests=None, total_requests=None, streams=None, total_streams=None, failures_per_minute=None)
"""No limit at all."""


class Throttle:
    """The counters of one server. Not for several threads.

    A request passes three gates: `check_address` before its credentials are looked at, `admit` when it is known who it
    comes from, and `admit_stream` when it becomes a live stream, for as long as the stream lives.
    """

    def __init__(self, limits: RateLimits | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        limits = limits or RateLimits()
        self._clock = clock
        self._requests = _Places(limits.requests, limits.total_requests, "requests at once")
        self._streams = _Places(limits.streams, limits.total_streams, "live streams")
        self._rate = _Rates.of(limits.requests_per_second, limits.request_burst, limits.remembered)
        self._total_rate = _Rates.of(limits.total_requests_per_second, limits.total_request_burst, 1)
        failures = limits.failures_per_minute
        self._failures = _Rates.of(failures and failures / 60, failures or 1, limits.remembered)
        self._limits_requests = bool(self._requests.limited or self._rate or self._total_rate)

    def check_address(self, address: str) -> None:
        """Nothing, unless too many credentials from this address were refused within the last minute.

        Raises:
            RateLimitedError: they were; see `retry_after_of`.
        """
        if self._failures is None or not self._failures.buckets:
            return
        bucket = self._failures.buckets.get(_network(address))
        if bucket and (seconds := bucket.wait(self._clock())):
            raise _too_many("refused credentials from this address", seconds)

    def refuse(self, address: str) -> None:
        """Count credentials from this address that were refused; call it when `was_refused(error)`."""
        if self._failures is not None:
            now = self._clock()
            bucket = self._failures.bucket(_network(address), now)
            bucket.wait(now)  # what has come back by now counts first
            bucket.take()

    def admit(self, caller: str, address: str = "") -> AbstractContextManager[None]:
        """A block around one request of this caller; the empty caller is told apart by address.

        Raises:
            RateLimitedError: there are too many, when the block is entered; see `retry_after_of`.
        """
        return _Admission(self, caller or _network(address)) if self._limits_requests else _FREE

    def admit_stream(self, caller: str, address: str = "") -> AbstractContextManager[None]:
        """A block around one live stream of this caller.

        Raises:
            RateLimitedError: there are too many, when the block is entered; see `retry_after_of`.
        """
        return _Place(self._streams, caller or _network(address)) if self._streams.limited else _FREE

    def enter(self, caller: str) -> None:
        """Take a place and a token of each rate for a request of this caller, or nothing at all if one is lacking."""
        self._requests.check(caller)
        buckets = list[_Bucket]()
        if self._total_rate or self._rate:
            now = self._clock()
            buckets = [rates.bucket(key, now) for rates, key in ((self._total_rate, ""), (self._rate, caller)) if rates]
            if seconds := max(bucket.wait(now) for bucket in buckets):
                raise _too_many("requests", seconds)
        for bucket in buckets:
            bucket.take()
        self._requests.take(caller)

    def leave(self, caller: str) -> None:
        """Give the place of a request back."""
        self._requests.release(caller)


_FREE = nullcontext()  # one for all: it holds nothing


class _Admission:
    """The block around a request."""

    __slots__ = ("_caller", "_throttle")

    def __init__(self, throttle: Throttle, caller: str) -> None:
        self._throttle = throttle
        self._caller = caller

    def __enter__(self) -> None:
        self._throttle.enter(self._caller)

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self._throttle.leave(self._caller)


class _Places:
    """Things under way, of each caller and of all; a caller without any is not kept."""

    __slots__ = ("_each", "_held", "_total", "_what", "limited", "taken")

    def __init__(self, each: int | None, total: int | None, what: str) -> None:
        self._each = math.inf if each is None else each
        self._total = math.inf if total is None else total
        self._what = what
        self._held: dict[str, int] = {}
        self.taken = 0
        self.limited = each is not None or total is not None

    def check(self, caller: str) -> None:
        if self.taken >= self._total or self._held.get(caller, 0) >= self._each:
            # Nobody knows when a place becomes free; a second is short enough and not at once.
            raise _too_many(self._what, 1)

    def take(self, caller: str) -> None:
        self.taken += 1
        self._held[caller] = self._held.get(caller, 0) + 1

    def release(self, caller: str) -> None:
        self.taken -= 1
        self._held[caller] -= 1
        if not self._held[caller]:
            del self._held[caller]


class _Place:
    """The block around a stream."""

    __slots__ = ("_caller", "_places")

    def __init__(self, places: _Places, caller: str) -> None:
        self._places = places
        self._caller = caller

    def __enter__(self) -> None:
        self._places.check(self._caller)
        self._places.take(self._caller)

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self._places.release(self._caller)


class _Bucket:
    """Tokens that come back with time, up to a number."""

    __slots__ = ("_burst", "_per_second", "_tokens", "_updated")

    def __init__(self, per_second: float, burst: float, now: float) -> None:
        self._per_second = per_second
        self._burst = burst
        self._tokens = burst
        self._updated = now

    def wait(self, now: float) -> float:
        """Seconds until there is a token; 0 if there is one."""
        self._tokens = min(self._burst, self._tokens + (now - self._updated) * self._per_second)
        self._updated = now
        # A sum of fractions may stop a hair short of a whole token.
        return 0 if self._tokens > 1 - 1e-9 else (1 - self._tokens) / self._per_second

    def take(self) -> None:
        # Guesses that were let through together are a debt, but one that is paid within twice the time to fill up.
        self._tokens = max(self._tokens - 1, -self._burst)


class _Rates:
    """A bucket for each key; the one that was not asked for longest is forgotten when there are too many."""

    __slots__ = ("_burst", "_per_second", "_remembered", "buckets")

    def __init__(self, per_second: float, burst: float, remembered: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._remembered = remembered
        self.buckets: OrderedDict[str, _Bucket] = OrderedDict()

    @classmethod
    def of(cls, per_second: float | None, burst: float | None, remembered: int) -> _Rates | None:
        if per_second is None:
            return None
        return cls(per_second, max(1, BURST_SECONDS * per_second) if burst is None else burst, remembered)

    def bucket(self, key: str, now: float) -> _Bucket:
        bucket = self.buckets.get(key)
        if bucket is None:
            bucket = self.buckets[key] = _Bucket(self._per_second, self._burst, now)
            if len(self.buckets) > self._remembered:
                self.buckets.popitem(last=False)
        else:
            self.buckets.move_to_end(key)
        return bucket


def _network(address: str) -> str:
    """What stands for an address: itself, or the /64 of IPv6, which is what one household or machine is given."""
    if ":" not in address:
        return address
    try:
        parsed = IPv6Address(address)
    except AddressValueError:
        return address
    if parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return str(IPv6Network((int(parsed), 64), strict=False).network_address)


def _too_many(what: str, seconds: float) -> RateLimitedError:
    error = RateLimitedError(f"Too many {what}; try again later")
    vars(error)["retry_after"] = max(1, math.ceil(seconds))
    return error


# The dialects look an error up by its exact class, so this fact cannot live in a subclass of it.
def retry_after_of(error: A2AError) -> int | None:
    """The `Retry-After` of an error in whole seconds, at least one; None for errors that have none."""
    return vars(error).get("retry_after")
