"""The metrics of a host, under the documented names, in the text format of Prometheus.

Requests are counted where they begin and end; what runs now and what providers were asked is read when the metrics are.
Labels are ids of tenants, routes, providers and reasons: never anything that a caller can choose freely. Counts are
those of this process and start at zero with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from time import monotonic
from typing import TYPE_CHECKING, Literal, TypeAlias

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from parley.agents.delegation.delegation import depth_of
from parley.host.budgets.exceeded import BUDGET_LIMIT
from parley.host.origin import origin_of
from parley.host.quotas import CONCURRENCY_LIMIT, RATE_LIMIT, TOKEN_LIMIT
from parley.protocol.lifecycle import is_terminal
from parley.protocol.tasks import TaskState
from parley.stores.interface import TaskKey

if TYPE_CHECKING:
    from parley.host.host import Host

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

RequestRoute: TypeAlias = Literal["orchestrate", "messages", "agent_chat", "requests"]
"""The routes that begin requests."""

_REASONS = (RATE_LIMIT, CONCURRENCY_LIMIT, TOKEN_LIMIT, BUDGET_LIMIT)

_PROVIDER_COUNTS = {
    "calls": "Calls of a provider's models, retries included.",
    "retries": "Calls that repeated a failed one.",
    "5xx": "Calls that a provider answered with a status of 500 or more.",
    "429": "Calls that a provider refused because there were too many.",
    "circuit_open": "Times that a provider failed so often that it was not called for a while.",
}


class HostMetrics(Collector):
    """The counters of one host."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._started: Counter[tuple[str, str]] = Counter()
        self._completed: Counter[tuple[str, str, str]] = Counter()
        self._seconds: dict[tuple[str, str], float] = {}
        self._rate_limited: Counter[tuple[str, str]] = Counter()
        self._replayed = self._missed = 0
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def render(self) -> bytes:
        """All metrics as text."""
        return generate_latest(self._registry)

    # --- recorded when it happens -------------------------------------------------------------------------------------

    def key_used(self, *, is_new: bool) -> None:
        """Count a request with an idempotency key: a new one, or one that joins an earlier one."""
        if is_new:
            self._missed += 1
        else:
            self._replayed += 1

    def rate_limited(self, tenant_id: str, reason: str) -> None:
        """Count a request that was refused for now."""
        self._rate_limited[tenant_id, reason if reason in _REASONS else RATE_LIMIT] += 1

    def started(self, key: TaskKey, route: RequestRoute, began: float) -> None:
        """Count a new request that began at this moment of `monotonic`, and its end when that comes.

        The end of a request that paused in between is not counted.
        """
        self._started[key.owner.tenant, route] += 1
        self._host.engine.in_background(self._follow(key, route, began))

    async def _follow(self, key: TaskKey, route: RequestRoute, began: float) -> None:
        run = self._host.engine.runs.find(key)
        if run is not None:
            await run.wait_for_end()
            state = run.state
        else:
            head = await self._host.store.tasks.head(key)
            state = head.state if head is not None else TaskState.FAILED
        if is_terminal(state):
            tenant_id = key.owner.tenant
            self._completed[tenant_id, route, str(state is TaskState.COMPLETED).lower()] += 1
            self._seconds[tenant_id, route] = self._seconds.get((tenant_id, route), 0.0) + monotonic() - began

    # --- read by the registry -----------------------------------------------------------------------------------------

    def describe(self) -> Iterable[Metric]:
        """Nothing: otherwise the registry would collect once only to learn the names."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """All metrics as they are now."""
        yield _counter("requests_started", "Requests that began.", ("tenant", "route"), self._started)
        yield _counter("requests_completed", "Requests that ended.", ("tenant", "route", "ok"), self._completed)
        yield self._durations()
        yield _gauge("in_flight", "Requests at work or waiting, A2A included.", ("tenant",), self._in_flight())
        runs = self._runs()
        yield _gauge("runs", "Runs at work or waiting, delegated ones included.", ("tenant", "surface"), runs)
        queued, at_work = self._queues()
        yield _gauge("queue_waiting", "Runs that wait for their turn.", ("tenant",), queued)
        yield _gauge("queue_running", "Runs whose turn it is.", ("tenant",), at_work)
        yield from self._providers()
        yield from self._used()
        yield _counter("rate_limited", "Requests that were refused for now.", ("tenant", "reason"), self._rate_limited)
        for name, count in (("replay", self._replayed), ("miss", self._missed)):
            about = "Requests that joined an earlier one." if name == "replay" else "New requests with a key."
            yield CounterMetricFamily(f"arbiter_idempotency_{name}", about, value=count)

    def _used(self) -> Iterable[Metric]:
        """Tokens and cost. Callers are left out: a tenant may have any number of them."""
        tokens = CounterMetricFamily("arbiter_tokens", "Tokens of model calls.", labels=("tenant", "kind"))
        currency = self._host.models.currency
        about = f"The cost of model calls whose price is known, in {currency}."
        cost = CounterMetricFamily("arbiter_cost", about, labels=("tenant", "currency"))
        for tenant_id, sums in self._host.usage.counted.items():
            tokens.add_metric((tenant_id, "input"), sums.input_tokens)
            tokens.add_metric((tenant_id, "output"), sums.output_tokens)
            cost.add_metric((tenant_id, currency), float(sums.cost))
        about = "Model calls that a budget stopped."
        stops = _counter("budget_stops", about, ("tenant", "scope"), self._host.budgets.stopped)
        return tokens, cost, stops

    def _durations(self) -> SummaryMetricFamily:
        family = SummaryMetricFamily(
            "arbiter_request_duration_ms", "How long requests took that ended.", labels=("tenant", "route")
        )
        for (tenant_id, route), seconds in self._seconds.items():
            ended = sum(self._completed[tenant_id, route, ok] for ok in ("true", "false"))
            family.add_metric((tenant_id, route), count_value=ended, sum_value=round(seconds * 1000, 3))
        return family

    def _in_flight(self) -> Counter[tuple[str, ...]]:
        runs = self._host.engine.runs.all
        return Counter((run.key.owner.tenant,) for run in runs if depth_of(run.message) == 0)

    def _runs(self) -> Counter[tuple[str, ...]]:
        runs = self._host.engine.runs.all
        return Counter((run.key.owner.tenant, origin_of(run.message).surface) for run in runs)

    def _queues(self) -> tuple[Counter[tuple[str, ...]], Counter[tuple[str, ...]]]:
        turns = self._host.turns
        tenants = turns.tenants()
        waiting = Counter({(tenant,): len(turns.queue(tenant)) for tenant in tenants})
        return waiting, Counter({(tenant,): len(turns.at_work(tenant)) for tenant in tenants})

    def _providers(self) -> Iterable[Metric]:
        families = {
            name: CounterMetricFamily(f"arbiter_provider_{name}", about, labels=("provider",))
            for name, about in _PROVIDER_COUNTS.items()
        }
        for provider, counts in self._host.models.provider_counts().items():
            values = (
                counts.calls,
                counts.retries,
                counts.server_errors,
                counts.rate_limited,
                counts.circuit_opened,
            )
            for family, value in zip(families.values(), values, strict=True):
                family.add_metric((provider,), value)
        return families.values()


def _counter(name: str, about: str, labels: tuple[str, ...], counts: Counter[tuple[str, ...]]) -> CounterMetricFamily:
    family = CounterMetricFamily(f"arbiter_{name}", about, labels=labels)
    for values, count in counts.items():
        family.add_metric(values, count)
    return family


def _gauge(name: str, about: str, labels: tuple[str, ...], counts: Counter[tuple[str, ...]]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"arbiter_{name}", about, labels=labels)
    for values, count in counts.items():
        family.add_metric(values, count)
    return family
