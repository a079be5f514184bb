"""OpenTelemetry spans: one for each call, one for each run, one for each delivery.

A run outlives the call that began it, so it is no child of it: it begins a trace of its own, with a link to the call's
span, and deliveries link to the run's. A run that is begun again after a restart has no link. Where spans go is for the
provider to say; only OpenTelemetry's API is used here. Callers' contexts come in, and ours go out, in the headers of
W3C Trace Context and Baggage, or whatever else the process's propagator is set to.
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
from parley.engine.run import Run
from parley.protocol.errors import A2AError
from parley.protocol.lifecycle import ends_stream
from parley.protocol.tasks import TaskState
from parley.server.telemetry.log_context import DISCONNECTED, OK, outcome_of
from parley.server.telemetry.observer import Call
from parley.stores.interface import TaskKey

TASKS_REMEMBERED = 10_000
"""Tasks whose last run's span is known to deliveries: some 5 MB. An older task's deliveries have no link."""


def inject_headers(headers: Mapping[str, str] | None = None) -> dict[str, str]:
    """These headers, and those that let whoever gets them go on with the present trace."""
    carrier = dict(headers or {})
    propagate.inject(carrier)
    return carrier


def current_trace_ids() -> tuple[str, str] | None:
    """The present trace and span in hexadecimal, or None outside any."""
    span = trace.get_current_span().get_span_context()
    if not span.is_valid:
        return None
    return trace.format_trace_id(span.trace_id), trace.format_span_id(span.span_id)


class Tracing:
    """Makes the spans. Without a provider it takes the process's own."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("parley", __version__, provider)
        self._runs: OrderedDict[TaskKey, SpanContext] = OrderedDict()

    @contextmanager
    def call(self, call: Call) -> Generator[None]:
        """A span around a call, the present one inside it; its caller's span is its parent."""
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
            with _present(trace.set_span_in_context(span, context)):
                yield
        except BaseException as error:
            _mark_failed_call(span, error)
            raise
        else:
            span.set_attribute("a2a.outcome", OK)
        finally:
            # Known only now, where the call began the task.
            _name_task(span, call.task_id, call.context_id)
            span.end()

    @contextmanager
    def run(self, run: Run) -> Generator[None]:
        """A span around a run, the present one inside it, linked to the call that began it."""
        sender = trace.get_current_span().get_span_context()
        attributes: dict[str, AttributeValue] = {
            "a2a.agent": run.program.id,
            "a2a.version": run.caller.version.value,
            "a2a.run.attempt": run.attempts,
        }
        links = [Link(sender)] if sender.is_valid and not run.is_recovered else []
        span = self._tracer.start_span("run", Context(), SpanKind.INTERNAL, attributes, links)
        _name_task(span, run.key.task_id, run.context_id)
        self._remember(run.key, span.get_span_context())
        try:
            with _present(trace.set_span_in_context(span)):  # the sender's baggage goes on, its span does not
                yield
        except BaseException as error:
            _mark_ended_run(span, run, error)
            raise
        else:
            _mark_ended_run(span, run, None)
        finally:
            span.end()

    def delivered(self, key: TaskKey, agent: str, config_id: str, outcome: DeliveryOutcome, seconds: float) -> None:
        """Make a span of a webhook's call that is over, linked to the run of its task."""
        run = self._runs.get(key)
        attributes: dict[str, AttributeValue] = {
            "a2a.agent": agent,
            "a2a.push.config_id": config_id,
            "a2a.push.outcome": outcome,
        }
        now = time.time_ns()
        begun = now - int(seconds * 1e9)
        links = [Link(run)] if run else []
        span = self._tracer.start_span("push", Context(), SpanKind.CLIENT, attributes, links, start_time=begun)
        _name_task(span, key.task_id, None)
        if outcome != "delivered":
            span.set_status(StatusCode.ERROR, outcome)
        span.end(now)

    def task_headers(self, key: TaskKey) -> dict[str, str]:
        """Headers that let a webhook's receiver go on with the trace of the task's run; none where it is not known.

        The sender's baggage is not among them: a webhook may belong to somebody else.
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
def _present(context: Context) -> Generator[None]:
    """A block in which this is OpenTelemetry's present context."""
    entered = _ENTERED.set(None)
    token = otel_context.attach(context)
    try:
        yield
    finally:
        try:
            _ENTERED.reset(entered)
        except ValueError:
            # A stream that began in one asyncio task ends in another, where there is nothing to undo. Asked to undo it
            # all the same, OpenTelemetry would log an error for every stream.
            pass
        else:
            otel_context.detach(token)


def _context_of(call: Call) -> Context:
    """The context that a call continues: its caller's, or that of the application into which the server is mounted."""
    around = otel_context.get_current()
    sent = propagate.extract(call.headers, around)
    ours = trace.get_current_span(around).get_span_context()
    theirs = trace.get_current_span(sent).get_span_context()
    if ours.is_valid and ours.trace_id == theirs.trace_id:
        # Somebody around us has taken the caller's trace up already: we are inside that span.
        return trace.set_span_in_context(trace.get_current_span(around), sent)
    return sent


def _name_task(span: Span, task_id: str | None, context_id: str | None) -> None:
    if task_id:
        span.set_attribute("a2a.task.id", task_id)
    if context_id:
        span.set_attribute("a2a.context.id", context_id)


def _mark_failed_call(span: Span, error: BaseException) -> None:
    """Say how a call failed; only what is our fault is an error of the span."""
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


def _mark_ended_run(span: Span, run: Run, error: BaseException | None) -> None:
    """Say how a run ended. What a program leaves open when it returns, its engine completes right after."""
    if run.is_cut_off:
        outcome = "cut-off"
    elif run.is_cancelled and error is not None:
        outcome = TaskState.CANCELED.value
    elif ends_stream(run.state):
        outcome = run.state.value
    else:
        outcome = TaskState.COMPLETED.value if error is None else TaskState.FAILED.value
    span.set_attribute("a2a.run.outcome", outcome)
    if outcome == TaskState.FAILED:
        span.set_status(StatusCode.ERROR)
    if isinstance(error, Exception):  # not what stops a run from outside, or because it asked
        span.record_exception(error)
