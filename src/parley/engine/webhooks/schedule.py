"""Which webhook is called next: fair between owners, limited per host, and a host that hangs is called less often.

A route is one owner's webhooks at one host. Owners take turns, those with the fewest active calls first; so do the
routes of an owner, and the webhooks of a route. One rule (`has_share`) shares everything that is limited: an owner may
take one more only while it holds fewer than are free. So one owner alone gets at most half, and another one can start
at once.

A route whose calls get no answer pauses, each time for longer, and is then probed by one call at a time; all probes
together have a quarter of the calls. Any answer ends that. This is kept per owner and host: an owner that makes a
shared host hang delays its own webhooks only.

Nothing here waits, reads a clock or draws a random number: the caller passes moments and random numbers.
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import TypeAlias

from parley.engine.webhooks.backlog import PendingWebhook
from parley.engine.webhooks.delivery_limits import DeliveryLimits, has_share
from parley.stores.interface import Owner

CLOCK_SLACK = 0.001
"""A pause counts as over this many seconds early, because timers may fire early."""

FAILING_ROUTES_REMEMBERED = 1_000
"""Routes without webhooks that are known to hang; the next webhook begins with a probe. Some 300 KB."""


class HostOutcome(Enum):
    """What a turn has shown about its host."""

    ANSWERED = "answered"
    UNANSWERED = "unanswered"
    NOT_CALLED = "not called"


@dataclass(slots=True, eq=False)
class DeliveryRoute:
    """One owner's webhooks at one host, and how the calls to it went."""

    owner: OwnerRoutes
    host: str
    waiting: dict[PendingWebhook, None] = field(default_factory=dict[PendingWebhook, None])
    busy: int = 0
    is_probed: bool = False
    failures: int = 0
    """Since the last answer."""
    all_failures: int = 0
    failing_since: float = float("-inf")
    """When the first of these failures ended."""
    failed_at: float = float("-inf")
    paused_until: float | None = None

    def is_exhausted(self, pending: PendingWebhook, limits: DeliveryLimits, now: float) -> bool:
        """True if all calls that the limits allow in a row got no answer since a webhook began to wait here."""
        seen = min(self.failures, self.all_failures - pending.known_failures)
        is_late = self.failures > 0 and now - self.failing_since >= limits.retry_for
        return seen >= limits.attempts or (is_late and seen == self.failures)


@dataclass(slots=True, eq=False)
class OwnerRoutes:
    """One owner's routes, those that can be used in their order, and how many of its calls are active."""

    name: Owner
    routes: dict[str, DeliveryRoute] = field(default_factory=dict[str, DeliveryRoute])
    ready: dict[DeliveryRoute, None] = field(default_factory=dict[DeliveryRoute, None])
    to_probe: dict[DeliveryRoute, None] = field(default_factory=dict[DeliveryRoute, None])
    probes_first: bool = False
    busy: int = 0
    probing: int = 0


Pause: TypeAlias = tuple[float, int, DeliveryRoute | PendingWebhook]
"""When it ends, a number that keeps the order of those that end together, and what pauses."""


@dataclass(slots=True, eq=False)
class DeliveryTurn:
    """A webhook's turn. If it `is_expired`, the webhook is not called: its host answered none of its attempts."""

    pending: PendingWebhook
    route: DeliveryRoute
    begun: float
    is_probe: bool
    is_expired: bool
    outcome: HostOutcome = HostOutcome.NOT_CALLED


class DeliverySchedule:
    """The order in which webhooks are called."""

    def __init__(self, limits: DeliveryLimits, jitter: Callable[[], float]) -> None:
        self._limits = limits
        self._jitter = jitter
        self._owners: dict[Owner, OwnerRoutes] = {}
        self._ready_by_load: dict[int, dict[OwnerRoutes, None]] = {}
        """Owners with a webhook to call, by how many of their calls are active; the next one first."""
        self._idle_failing: OrderedDict[DeliveryRoute, None] = OrderedDict()  # the one that was used last at the end
        self._calls_of_host: Counter[str] = Counter()
        self._busy = 0
        self._probing = 0
        self._order = count()
        self._pauses: list[Pause] = []
        self._most_pauses = 1_000

    @property
    def under_way(self) -> int:
        """Turns that have begun and not ended."""
        return self._busy

    @property
    def unanswered_routes(self) -> int:
        """Routes whose last call got no answer."""
        return sum(1 for owner in self._owners.values() for route in owner.routes.values() if route.failures)

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits, pauses, is under way or is remembered."""
        return not (self._owners or self._pauses or self._calls_of_host)

    # --- waiting ------------------------------------------------------------------------------------------------------

    def add(self, pending: PendingWebhook) -> None:
        """Queue a webhook."""
        route = self._route(pending)
        if pending.known_failures < 0:
            pending.known_failures = route.all_failures
        route.waiting[pending] = None
        self._settle(route)

    def pause(self, pending: PendingWebhook, until: float) -> None:
        """Queue a webhook at a later moment."""
        pending.paused_until = until
        self._push_pause(until, pending)

    def hurry(self, pending: PendingWebhook) -> None:
        """End the pause of a webhook and that of its host, because a person wants it to be called now.

        Earlier calls that its host has not answered no longer count: otherwise it could be paused again without a call.
        """
        self.end_pause(pending)
        owner = self._owners.get(pending.key.owner)
        route = owner.routes.get(pending.host) if owner is not None else None
        if route is None:
            return
        pending.known_failures = route.all_failures
        if route.paused_until is not None:
            route.paused_until = None
            self._settle(route)

    def end_pause(self, pending: PendingWebhook) -> None:
        """End the pause of a webhook, if it has one; that of its host goes on."""
        if pending.paused_until is not None:
            pending.paused_until = None
            self.add(pending)

    def next_attempt(self, pending: PendingWebhook) -> float | None:
        """The moment until which a webhook, or its host, pauses; None if it may be called."""
        owner = self._owners.get(pending.key.owner)
        route = owner.routes.get(pending.host) if owner is not None else None
        pauses = [pending.paused_until, None if route is None else route.paused_until]
        return max([until for until in pauses if until is not None], default=None)

    def change_host(self, pending: PendingWebhook, host: str) -> None:
        """Queue a webhook whose config was replaced at its new host, without a pause."""
        owner = self._owners.get(pending.key.owner)
        route = owner.routes.get(pending.host) if owner is not None else None
        is_waiting = route is not None and pending in route.waiting
        if route is not None and is_waiting:
            del route.waiting[pending]
            self._settle(route)
        pending.host = host
        pending.known_failures = -1
        if is_waiting or pending.paused_until is not None:
            pending.paused_until = None
            self.add(pending)

    # --- turns --------------------------------------------------------------------------------------------------------

    def take(self, now: float) -> DeliveryTurn | None:
        """Begin the next turn, if one may begin now. Call it until it returns None, and `end` each turn."""
        self._end_pauses(now)
        free = self._limits.max_calls - self._busy
        for busy in sorted(self._ready_by_load):
            if not has_share(busy, free):
                break
            for owner in self._ready_by_load[busy]:
                route = self._next_route(owner)
                if route is not None:
                    return self._begin(route, now)
        return None

    def end(self, turn: DeliveryTurn, now: float) -> None:
        """End a turn. The caller adds its webhook again if there is more for it."""
        route, owner = turn.route, turn.route.owner
        self._leave_ready(owner)
        route.busy -= 1
        owner.busy -= 1
        self._busy -= 1
        self._calls_of_host[route.host] -= 1
        if not self._calls_of_host[route.host]:
            del self._calls_of_host[route.host]
        if turn.is_probe:
            owner.probing -= 1
            self._probing -= 1
            route.is_probed = False
        if turn.outcome is HostOutcome.ANSWERED:
            route.failures = 0
            route.paused_until = None
        elif turn.outcome is HostOutcome.UNANSWERED and turn.begun > route.failed_at:
            self._back_off(route, now)  # once for calls that began together
        self._settle(route)

    def _back_off(self, route: DeliveryRoute, now: float) -> None:
        """Pause a route whose host did not answer."""
        if not route.failures:
            route.failing_since = now
        route.failures += 1
        route.all_failures += 1
        route.failed_at = now
        route.paused_until = now + self._limits.retry_pause(route.failures, self._jitter())
        self._push_pause(route.paused_until, route)

    def _next_route(self, owner: OwnerRoutes) -> DeliveryRoute | None:
        may_probe = has_share(owner.probing, self._limits.probes - self._probing)
        rings = [owner.ready, owner.to_probe] if may_probe else [owner.ready]
        if owner.probes_first:
            rings.reverse()
        for ring in rings:
            for route in ring:
                if has_share(route.busy, self._limits.max_calls_per_host - self._calls_of_host[route.host]):
                    return route
        return None

    def _begin(self, route: DeliveryRoute, now: float) -> DeliveryTurn:
        owner, is_probe = route.owner, route.failures > 0
        pending = next(iter(route.waiting))
        del route.waiting[pending]
        self._leave_ready(owner)
        route.busy += 1
        owner.busy += 1
        self._busy += 1
        self._calls_of_host[route.host] += 1
        if is_probe:
            owner.probing += 1
            self._probing += 1
            route.is_probed = True
        owner.probes_first = not is_probe
        (owner.to_probe if is_probe else owner.ready).pop(route)
        self._settle(route)
        is_expired = route.is_exhausted(pending, self._limits, now)
        return DeliveryTurn(pending, route, now, is_probe, is_expired)

    # --- routes -------------------------------------------------------------------------------------------------------

    def _route(self, pending: PendingWebhook) -> DeliveryRoute:
        name = pending.key.owner
        owner = self._owners.get(name)
        if owner is None:
            owner = self._owners[name] = OwnerRoutes(name)
        route = owner.routes.get(pending.host)
        if route is None:
            route = owner.routes[pending.host] = DeliveryRoute(owner, pending.host)
        self._idle_failing.pop(route, None)
        return route

    def _settle(self, route: DeliveryRoute) -> None:
        """Put a route into the ring that it belongs to now, or forget it."""
        owner = route.owner
        wanted = None
        if route.waiting and route.paused_until is None:
            if not route.failures:
                wanted = owner.ready
            elif not route.is_probed:
                wanted = owner.to_probe
        for ring in (owner.ready, owner.to_probe):
            if ring is wanted:
                ring.setdefault(route)
            else:
                ring.pop(route, None)
        if owner.ready or owner.to_probe:
            self._ready_by_load.setdefault(owner.busy, {}).setdefault(owner)
        else:
            self._leave_ready(owner)
        if not route.waiting and not route.busy:
            self._drop_route(route)

    def _leave_ready(self, owner: OwnerRoutes) -> None:
        ring = self._ready_by_load.get(owner.busy, {})
        ring.pop(owner, None)
        if not ring:
            self._ready_by_load.pop(owner.busy, None)

    def _drop_route(self, route: DeliveryRoute) -> None:
        """Forget a route without webhooks; but remember for a while that its calls got no answer."""
        if route.failures:
            self._idle_failing[route] = None
            if len(self._idle_failing) <= FAILING_ROUTES_REMEMBERED:
                return
            route, _ = self._idle_failing.popitem(last=False)
            route.paused_until = None
        owner = route.owner
        del owner.routes[route.host]
        if not owner.routes:
            del self._owners[owner.name]

    # --- pauses -------------------------------------------------------------------------------------------------------

    def next_pause_end(self) -> float | None:
        """The moment at which a pause ends and `take` may find more."""
        while self._pauses and not _is_paused(self._pauses[0]):
            heapq.heappop(self._pauses)
        return self._pauses[0][0] if self._pauses else None

    def _push_pause(self, until: float, paused: DeliveryRoute | PendingWebhook) -> None:
        heapq.heappush(self._pauses, (until, next(self._order), paused))
        if len(self._pauses) > self._most_pauses:  # many of them may have ended early
            self._pauses = [entry for entry in self._pauses if _is_paused(entry)]
            heapq.heapify(self._pauses)
            self._most_pauses = 2 * len(self._pauses) + 1_000

    def _end_pauses(self, now: float) -> None:
        while self._pauses and self._pauses[0][0] <= now + CLOCK_SLACK:
            entry = heapq.heappop(self._pauses)
            if not _is_paused(entry):
                continue
            paused = entry[2]
            paused.paused_until = None
            if isinstance(paused, DeliveryRoute):
                self._settle(paused)
            else:
                self.add(paused)


def _is_paused(entry: Pause) -> bool:
    """Whether a pause did not end early."""
    moment, _, paused = entry
    return paused.paused_until == moment
