"""Prometheus metrics of a server, in a registry of its own, so that two servers in one process do not share them.

Labels have a bounded number of values: agents, operations, dialects, bindings, states, outcomes, signing keys; never
other ids. Tasks are counted when they enter a state, not while they are in one: Prometheus expects a counter to start
at zero after a restart, while a gauge would have to count the tasks in the store and follow their deletion.
"""

from __future__ import annotations

from collections.abc import Container, Generator, Iterable, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import Protocol, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector, Summary
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

from parley import __version__
from parley.engine.observer import DeliveryOutcome, WebhookChange
from parley.engine.webhooks.deliveries import Deliveries
from parley.keys.signing_key import SigningKeys
from parley.protocol.cards import Binding
from parley.protocol.errors import A2AError
from parley.protocol.tasks import TaskState
from parley.server.telemetry.audit import AuditTrail
from parley.server.telemetry.call import Call
from parley.server.telemetry.log_context import OK, outcome_of

# From an answer out of memory to one for which a model takes a minute.
REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

# A sync takes a millisecond on a good disk; a second means that the disk is overloaded or failing.
COMMIT_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)

_Metric = TypeVar("_Metric", bound=MetricWrapperBase)


class RunCounters(Protocol):
    """The counters of runs."""

    def by_agent(self) -> Mapping[str, tuple[int, int]]:
        """How many runs work and how many wait, for each agent that has any."""
        ...


class Metrics(Collector):
    """The metrics of a server. The numbers of `runs`, `deliveries`, `keys` and `audit` are read when scraped."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._requests = Counter(
            "parley_requests",
            "Calls, by how they ended: ok, or the error's reason.",
            ("agent", "operation", "dialect", "binding", "outcome"),
            registry=registry,
        )
        self._refusals = Counter(
            "parley_refusals",
            "Requests that were refused before they became calls: invalid, unknown or unauthenticated.",
            ("agent", "binding", "outcome"),
            registry=registry,
        )
        self._latency = Histogram(
            "parley_request_seconds",
            "Time until a call was answered, or its stream opened.",
            ("operation", "binding"),
            registry=registry,
            buckets=REQUEST_BUCKETS,
        )
        self._states = Counter(
            "parley_task_states", "Tasks that entered a state.", ("agent", "state"), registry=registry
        )
        self._streams = Gauge("parley_streams_live", "Streams that are open.", ("agent", "binding"), registry=registry)
        self._commits = Histogram(
            "parley_commit_seconds",
            "Time until the store had written events.",
            registry=registry,
            buckets=COMMIT_BUCKETS,
        )
        self._deliveries = Counter(
            "parley_deliveries", "Calls of webhooks, by how they ended.", ("agent", "outcome"), registry=registry
        )
        self._delivery_seconds = Histogram(
            "parley_delivery_seconds", "Time until a webhook answered or failed.", registry=registry
        )
        self._webhook_changes = Counter(
            "parley_webhook_changes",
            "Webhooks that were paused, resumed, sent events again, or gave up events.",
            ("change",),
            registry=registry,
        )
        self._dead_letters = Counter(
            "parley_webhook_dead_letters", "Events that were given up after their last attempt.", registry=registry
        )
        self._diverged = Counter(
            "parley_handlers_diverged",
            "Handlers that began again and emitted something else than before.",
            ("agent",),
            registry=registry,
        )
        self._blocked = Summary(
            "parley_loop_blocked_seconds",
            "Times that the event loop was blocked for too long, by the agent whose run blocked it.",
            ("agent",),
            registry=registry,
        )
        self.agents: Container[str] | None = None
        """The agents that are served; None if all are."""
        self.runs: RunCounters | None = None
        self.deliveries: Deliveries | None = None
        self.audit: AuditTrail | None = None
        self.keys: SigningKeys | None = None
        registry.register(self)
        Info("parley", "The server's software.", registry=registry).info({"version": __version__})
        ProcessCollector(registry=registry)
        self._started: dict[int, float] = {}
        self._counters: dict[tuple[str, ...], Counter] = {}
        self._labels: dict[str, set[tuple[MetricWrapperBase, tuple[str, ...]]]] = {}
        """For each agent, the metrics that count it and their other labels."""

    # --- recorded when it happens -------------------------------------------------------------------------------------

    @contextmanager
    def call(self, call: Call) -> Generator[None]:
        """Count and time a call; an error that passes through is its outcome."""
        self._started[id(call)] = perf_counter()
        outcome = OK
        try:
            yield
        except BaseException as error:
            outcome = outcome_of(error)
            raise
        finally:
            self._answered(call)
            self._count(call, outcome)

    @contextmanager
    def stream(self, call: Call) -> Generator[None]:
        """Count an open stream; the time of its call ends when the stream opens."""
        self._answered(call)
        streams = self._of_agent(self._streams, call.agent, call.binding.value)
        streams.inc()
        try:
            yield
        finally:
            streams.dec()

    def refused(self, agent: str, binding: Binding, error: A2AError) -> None:
        """Count a request that was refused before it became a call."""
        self._of_agent(self._refusals, agent, binding.value, outcome_of(error)).inc()

    def committed(self, seconds: float) -> None:
        """Record the commit latency."""
        self._commits.observe(seconds)

    def entered(self, agent: str, state: TaskState) -> None:
        """Count a task that entered a state."""
        self._of_agent(self._states, agent, state.value).inc()

    def delivered(self, agent: str, outcome: DeliveryOutcome, seconds: float) -> None:
        """Count and time a call of a webhook."""
        self._of_agent(self._deliveries, agent, outcome).inc()
        self._delivery_seconds.observe(seconds)

    def webhook_changed(self, change: WebhookChange, events: int) -> None:
        """Count a change of a webhook, and the events that were given up with it."""
        self._webhook_changes.labels(change).inc()
        self._dead_letters.inc(events)

    def blocked(self, agent: str | None, seconds: float) -> None:
        """Count and time a block of the event loop; `agent` is None if no run caused it."""
        self._of_agent(self._blocked, agent or "").observe(seconds)

    def diverged(self, agent: str) -> None:
        """Count a handler that emitted something else than before."""
        self._of_agent(self._diverged, agent).inc()

    def remove_agent(self, agent: str) -> None:
        """Drop what was counted of an agent that is not served any more."""
        for metric, labels in self._labels.pop(agent, ()):
            metric.remove(agent, *labels)
            self._counters.pop((agent, *labels), None)

    def _is_removed(self, agent: str) -> bool:
        return bool(agent) and self.agents is not None and agent not in self.agents

    def _of_agent(self, metric: _Metric, agent: str, *labels: str) -> _Metric:
        """The metric of an agent; if the agent was removed, one that is not shown, for what it still does."""
        child = metric.labels(agent, *labels)
        if self._is_removed(agent):
            metric.remove(agent, *labels)
        else:
            self._labels.setdefault(agent, set()).add((metric, labels))
        return child

    def _answered(self, call: Call) -> None:
        started = self._started.pop(id(call), None)
        if started is not None:
            self._latency.labels(call.operation.name, call.binding.value).observe(perf_counter() - started)

    def _count(self, call: Call, outcome: str) -> None:
        labels = (call.agent, call.operation.name, call.version.value, call.binding.value, outcome)
        counter = self._counters.get(labels)
        if counter is None:  # looking it up by its labels takes longer than counting
            counter = self._of_agent(self._requests, *labels)
            if not self._is_removed(call.agent):
                self._counters[labels] = counter
        counter.inc()

    # --- read when the metrics are scraped ----------------------------------------------------------------------------

    def collect(self) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
        """The metrics that other objects count."""
        working = GaugeMetricFamily("parley_runs_working", "Running runs.", labels=("agent",))
        waiting = GaugeMetricFamily("parley_runs_waiting", "Queued runs.", labels=("agent",))
        for agent, (running, queued) in self.runs.by_agent().items() if self.runs is not None else ():
            working.add_metric((agent,), running)
            waiting.add_metric((agent,), queued)
        yield working
        yield waiting
        if self.deliveries is not None:
            yield _gauge(
                "parley_webhooks_pending", "Webhooks in memory with undelivered events.", self.deliveries.pending
            )
            yield _gauge("parley_webhooks_under_way", "Webhooks that are being called.", self.deliveries.under_way)
            yield _gauge(
                "parley_webhook_hosts_unanswered",
                "Hosts that did not answer their last call, counted once per owner with webhooks there.",
                self.deliveries.unanswered,
            )
        if self.keys is not None:
            signatures = CounterMetricFamily(
                "parley_signatures", "Signatures of cards and tokens, by the id of the key.", labels=("key",)
            )
            for key_id, count in self.keys.signatures.items():
                signatures.add_metric((key_id,), count)
            yield signatures
        if self.audit is not None:
            yield CounterMetricFamily(
                "parley_audit_lines_lost", "Lines that the audit trail could not write.", value=self.audit.lost
            )

    def render(self, accept: str = "") -> tuple[str, bytes]:
        """The content type and text of all metrics, in the format that the `Accept` header asks for."""
        encode, content_type = choose_encoder(accept)
        return content_type, encode(self.registry)


def _gauge(name: str, description: str, value: int) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, description, value=value)
