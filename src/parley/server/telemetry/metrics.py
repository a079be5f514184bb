"""Prometheus metrics of a server, in a registry of its own: two servers in one process do not share any.

Labels hold only what there is a fixed number of: agents, operations, dialects, bindings, states, outcomes. Ids never
become labels. Tasks are counted as they enter a state, not as they stand in one: a counter that begins again at zero is
what Prometheus expects of a restart, while a gauge would have to count the store, and what retention takes from it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from time import perf_counter
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector, Summary
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from parley import __version__
from parley.engine.observer import DeliveryOutcome
from parley.protocol.cards import Binding
from parley.protocol.errors import A2AError
from parley.protocol.tasks import TaskState
from parley.server.telemetry.log_context import OK, outcome_of
from parley.server.telemetry.observer import Call

# From an answer out of memory to one for which a model thinks a minute.
REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

# A sync takes a millisecond on a good disk; a second is a disk in trouble.
COMMIT_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Runs(Protocol):
    """How many runs of an engine work, and how many wait for their turn."""

    @property
    def working(self) -> int:
        """How many are at work."""
        ...

    @property
    def waiting(self) -> int:
        """How many wait for their turn."""
        ...


class Outbox(Protocol):
    """How the calls of webhooks go."""

    @property
    def pending(self) -> int:
        """Webhooks in memory that are behind."""
        ...

    @property
    def under_way(self) -> int:
        """Webhooks that are being called."""
        ...

    @property
    def unanswered(self) -> int:
        """Hosts that did not answer their last call, counted for each owner that has webhooks there."""
        ...


class Metrics:
    """Counts and measures, and writes down what it found."""

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
            "Requests that never became calls: unreadable, unknown, or without good credentials.",
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
        self._blocked = Summary(
            "parley_loop_blocked_seconds",
            "Times that the event loop stood still for longer than it may, by the agent whose run blocked it.",
            ("agent",),
            registry=registry,
        )
        self._looked_up = _LookedUp()
        registry.register(self._looked_up)
        Info("parley", "The server's software.", registry=registry).info({"version": __version__})
        ProcessCollector(registry=registry)
        self._unanswered: dict[int, float] = {}
        self._counters: dict[tuple[str, ...], Counter] = {}

    # --- what happens -------------------------------------------------------------------------------------------------

    @contextmanager
    def call(self, call: Call) -> Generator[None]:
        """Count and time a call; an error that passes through is its outcome."""
        self._unanswered[id(call)] = perf_counter()
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
        """Count a stream as live; its call is answered when it opens."""
        self._answered(call)
        streams = self._streams.labels(call.agent, call.binding.value)
        streams.inc()
        try:
            yield
        finally:
            streams.dec()

    def refused(self, agent: str, binding: Binding, error: A2AError) -> None:
        """Count a request that never became a call."""
        self._refusals.labels(agent, binding.value, outcome_of(error)).inc()

    def committed(self, seconds: float) -> None:
        """Note how long the store took."""
        self._commits.observe(seconds)

    def entered(self, agent: str, state: TaskState) -> None:
        """Count a task that entered a state."""
        self._states.labels(agent, state.value).inc()

    def delivered(self, agent: str, outcome: DeliveryOutcome, seconds: float) -> None:
        """Count and time a webhook's call."""
        self._deliveries.labels(agent, outcome).inc()
        self._delivery_seconds.observe(seconds)

    def blocked(self, agent: str | None, seconds: float) -> None:
        """Count and time a block of the event loop; without an agent, something else was the reason."""
        self._blocked.labels(agent or "").observe(seconds)

    def _answered(self, call: Call) -> None:
        begun = self._unanswered.pop(id(call), None)
        if begun is not None:
            self._latency.labels(call.operation.name, call.binding.value).observe(perf_counter() - begun)

    def _count(self, call: Call, outcome: str) -> None:
        labels = (call.agent, call.operation.name, call.version.value, call.binding.value, outcome)
        counter = self._counters.get(labels)
        if counter is None:  # finding it by its labels costs more than counting
            counter = self._counters[labels] = self._requests.labels(*labels)
        counter.inc()

    # --- what is looked up when somebody asks -------------------------------------------------------------------------

    def watch_runs(self, agent: str, runs: Runs) -> None:
        """Show how many runs of an agent work and wait, as its engine says whenever the metrics are read."""
        self._looked_up.runs[agent] = runs

    def watch_deliveries(self, outbox: Outbox) -> None:
        """Show how many webhooks are behind and being called, and how many hosts give no answer."""
        self._looked_up.outbox = outbox

    def watch_audit(self, lost: Callable[[], int]) -> None:
        """Show how many lines the audit trail has lost."""
        self._looked_up.audit_lost = lost

    def render(self, accept: str = "") -> tuple[str, bytes]:
        """Everything in the format that a scraper's Accept header asks for: its content type, and the text."""
        encode, content_type = choose_encoder(accept)
        return content_type, encode(self.registry)


class _LookedUp(Collector):
    """What others count already."""

    def __init__(self) -> None:
        self.runs: dict[str, Runs] = {}
        self.outbox: Outbox | None = None
        self.audit_lost: Callable[[], int] | None = None

    def collect(self) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
        working = GaugeMetricFamily("parley_runs_working", "Runs at work.", labels=("agent",))
        waiting = GaugeMetricFamily("parley_runs_waiting", "Runs that wait for their turn.", labels=("agent",))
        for agent, runs in self.runs.items():
            working.add_metric((agent,), runs.working)
            waiting.add_metric((agent,), runs.waiting)
        yield working
        yield waiting
        if self.outbox is not None:
            yield _gauge("parley_webhooks_pending", "Webhooks in memory that are behind.", self.outbox.pending)
            yield _gauge("parley_webhooks_under_way", "Webhooks that are being called.", self.outbox.under_way)
            yield _gauge(
                "parley_webhook_hosts_unanswered",
                "Hosts that gave no answer to their last call, counted for each owner with webhooks there.",
                self.outbox.unanswered,
            )
        if self.audit_lost is not None:
            yield CounterMetricFamily(
                "parley_audit_lines_lost", "Lines that the audit trail could not write.", value=self.audit_lost()
            )


def _gauge(name: str, description: str, value: int) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, description, value=value)
