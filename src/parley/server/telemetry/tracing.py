"""OpenTelemetry spans: one for each call, one for each run, one for each delivery.

A run may outlive the call that started it, so its span is not a child of the call's span: it starts a new trace with a
link to it, and deliveries link to the span of the run. A run that is restarted after a crash has no link. Only
OpenTelemetry's API is used here; the provider decides where spans go. Contexts are read from and written to headers
with the propagator of the process, which is W3C Trace Context and Baggage by default.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from opentelemetry import context as otel_context
from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, StatusCode, TracerProvider
from opentelemetry.util.types import AttributeValue

from parley import __version__
from parley.engine.observer import DeliveryOutcome
from parley.engine.runs.run import Run
from parley.protocol.errors import A2AError
from parley.protocol.lifecycle import ends_stream
from parley.protocol.tasks import TaskState
from parley.server.telemetry.call import Call
from parley.server.telemetry.log_context import DISCONNECTED, OK, outcome_of
from parley.stores.interface import TaskKey

TASKS_REMEMBERED = 10_000
"""Tasks whose last run's span is kept for deliveries, about 5 MB. Deliveries of other tasks have no link."""


def inject_headers(headers: Mapping[str, str] | None = None) -> dict[str, str]:
    """A copy of the headers with those of the current trace added."""
    carrier = dict(headers or {})
    propagate.inject(carrier)
    return carrier


def current_trace_ids() -> tuple[str, str] | None:
    """The current trace id and span id in hexadecimal, or None without a span."""
    span = trace.get_current_span().get_span_context()
    if not span.is_valid:
        return None
    return trace.format_trace_id(span.trace_id), trace.format_span_id(span.span_id)


class Tracing:
    """Creates the spans. Without a provider it uses the one of the process."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("parley", __version__, provider)
        self._runs: OrderedDict[TaskKey, SpanContext] = OrderedDict()

    @contextmanager
    def call(self, call: Call) -> Generator[None]:
        """A context with a span for a call. The caller's span is the parent."""
        context = _context_of(call)
        attributes: dict[str, AttributeValue] = {
            "rpc.system": "a2a",
            "rpc.method": call.operation.name,
            "a2a.agent": call.agent,
            "a2a.version": call.version.value,
            "a2a.binding": call.binding.value,
        }
        span = self._tracer.start_span(call.operation.name, context, SpanKind.SERVER, attributes)
        try:
            with _attached(trace.set_span_in_context(span, context)):
                yield
        except BaseException as error:
            _record_failed_call(span, error)
            raise
        else:
            span.set_attribute("a2a.outcome", OK)
        finally:
            # Only known now, if the call created the task.
            _set_task_ids(span, call.task_id, call.context_id)
            span.end()

    @contextmanager
    def run(self, run: Run) -> Generator[None]:
        """A context with a span for a run, linked to the call that started it."""
        sender = trace.get_current_span().get_span_context()
        attributes: dict[str, AttributeValue] = {
            "a2a.agent": run.program.id,
            "a2a.version": run.caller.version.value,
            "a2a.run.attempt": run.attempt,
        }
        links = [Link(sender)] if sender.is_valid and not run.is_recovered else []
        span = self._tracer.start_span("run", Context(), SpanKind.INTERNAL, attributes, links)
        _set_task_ids(span, run.key.task_id, run.context_id)
        self._remember(run.key, span.get_span_context())
        try:
            with _attached(trace.set_span_in_context(span)):  # keeps the sender's baggage, but not its span
                yield
        except BaseException as error:
            _record_ended_run(span, run, error)
            raise
        else:
            _record_ended_run(span, run, None)
        finally:
            span.end()

    def diverged(self, text: str) -> None:
        """Add an event to the span of the run: its handler emitted something else than before."""
        trace.get_current_span().add_event("diverged", {"parley.divergence": text})

    def delivered(self, key: TaskKey, agent: str, config_id: str, outcome: DeliveryOutcome, seconds: float) -> None:
        """Create a span for a finished call of a webhook, linked to the run of its task."""
        run = self._runs.get(key)
        attributes: dict[str, AttributeValue] = {
            "a2a.agent": agent,
            "a2a.push.config_id": config_id,
            "a2a.push.outcome": outcome,
        }
        now = time.time_ns()
        started = now - int(seconds * 1e9)
        links = [Link(run)] if run else []
        span = self._tracer.start_span("push", Context(), SpanKind.CLIENT, attributes, links, start_time=started)
        _set_task_ids(span, key.task_id, None)
        if outcome != "delivered":
            span.set_status(StatusCode.ERROR, outcome)
        span.end(now)

    def task_headers(self, key: TaskKey) -> dict[str, str]:
        """The trace headers for a webhook call: those of the task's run, or none if it is unknown.

        They do not include the sender's baggage, because a webhook may belong to a third party.
        """
        carrier: dict[str, str] = {}
        run = self._runs.get(key)
        if run is not None:
            propagate.inject(carrier, trace.set_span_in_context(NonRecordingSpan(run), Context()))
        return carrier

    def _remember(self, key: TaskKey, span: SpanContext) -> None:
        if not span.is_valid:
            return
        self._runs[key] = span
        self._runs.move_to_end(key)
        if len(self._runs) > TASKS_REMEMBERED:
            self._runs.popitem(last=False)


_ENTERED: ContextVar[None] = ContextVar("parley_entered")


@contextmanager
def _attached(context: Context) -> Generator[None]:
    """A block in which this is OpenTelemetry's current context."""
    entered = _ENTERED.set(None)
    token = otel_context.attach(context)
    try:
        yield
    finally:
        try:
            _ENTERED.reset(entered)
        except ValueError:
            # A stream may start in one asyncio task and end in another, where there is nothing to detach.
            # OpenTelemetry would log an error for every such stream.
            pass
        else:
            otel_context.detach(token)


def _context_of(call: Call) -> Context:
    """The parent context of a call: the caller's, or that of the application around this one."""
    around = otel_context.get_current()
    sent = propagate.extract(call.headers, around)
    ours = trace.get_current_span(around).get_span_context()
    theirs = trace.get_current_span(sent).get_span_context()
    if ours.is_valid and ours.trace_id == theirs.trace_id:
        # The application around this one has continued the caller's trace already, so its span is the parent.
        return trace.set_span_in_context(trace.get_current_span(around), sent)
    return sent


def _set_task_ids(span: Span, task_id: str | None, context_id: str | None) -> None:
    if task_id:
        span.set_attribute("a2a.task.id", task_id)
    if context_id:
        span.set_attribute("a2a.context.id", context_id)


def _record_failed_call(span: Span, error: BaseException) -> None:
    """Record how a call failed. Only an error of the server is an error of the span."""
    outcome = outcome_of(error)
    span.set_attribute("a2a.outcome", outcome)
    if outcome == DISCONNECTED:
        return
    span.set_attribute("error.type", outcome)
    if isinstance(error, A2AError):
        span.set_attribute("a2a.error.code", error.row.code)
        if error.row.http < 500:
            return
    else:
        span.record_exception(error)
    span.set_status(StatusCode.ERROR, outcome)


def _record_ended_run(span: Span, run: Run, error: BaseException | None) -> None:
    """Record how a run ended. If the program has set no final state, the engine completes the task afterwards."""
    if run.is_cut_off or run.is_abandoned:  # another worker goes on with the task
        outcome = "cut-off"
    elif run.wake_at is not None:
        outcome = "asleep"
    elif run.is_cancelled and error is not None:
        outcome = TaskState.CANCELED.value
    elif ends_stream(run.state):
        outcome = run.state.value
    else:
        outcome = TaskState.COMPLETED.value if error is None else TaskState.FAILED.value
    span.set_attribute("a2a.run.outcome", outcome)
    if outcome == TaskState.FAILED:
        span.set_status(StatusCode.ERROR)
    if isinstance(error, Exception):  # and not a BaseException, which stops a run without an error
        span.record_exception(error)
