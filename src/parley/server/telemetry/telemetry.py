"""What watches a server: spans, metrics, the audit trail and the ids in log lines, as far as each is wanted.

`Telemetry` is the observer of a server and of its engines, and only passes on. A part that is not given costs nothing;
a server without any has no observer at all.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from datetime import datetime

from parley.engine.caller import Caller
from parley.engine.observer import DeliveryOutcome, PushConfigAction
from parley.engine.run import Run
from parley.protocol.cards import Binding
from parley.protocol.errors import A2AError
from parley.protocol.events import StatusUpdate, TaskCreated, TaskEvent
from parley.protocol.lifecycle import is_terminal
from parley.protocol.tasks import TaskState
from parley.server.telemetry.audit import AuditLine, AuditTrail, What, utc_now
from parley.server.telemetry.log_context import about, subject_version
from parley.server.telemetry.metrics import Metrics, Outbox, Runs
from parley.server.telemetry.observer import Call
from parley.server.telemetry.tracing import Tracing, current_trace_ids
from parley.stores.interface import TaskKey

STATES_REMEMBERED = 100_000
"""Open tasks whose last state is known: some 30 MB. What an older one changes from is not known."""

_SENDERS_TRACE: ContextVar[str | None] = ContextVar("parley_senders_trace", default=None)
"""The trace of the call that began the present run."""


class Telemetry:
    """An observer made of parts: `App(agent, telemetry=Telemetry(metrics=Metrics(), audit=AuditTrail("audit.jsonl")))`.

    `now` is the time of what has none of its own.
    """

    def __init__(
        self,
        *,
        tracing: Tracing | None = None,
        metrics: Metrics | None = None,
        audit: AuditTrail | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self.tracing = tracing
        self.metrics = metrics
        self.audit = audit
        self._now = now
        self._states: OrderedDict[TaskKey, TaskState] = OrderedDict()
        if metrics is not None and audit is not None:
            metrics.watch_audit(lambda: audit.lost)

    def open(self) -> None:
        """Make ready what must be before anything happens. Raises OSError if the audit trail cannot be written."""
        if self.audit is not None:
            self.audit.open()

    async def close(self) -> None:
        """Write what waits. To be called when the engines have stopped."""
        if self.audit is not None:
            await asyncio.to_thread(self.audit.close)

    def watch_runs(self, agent: str, runs: Runs) -> None:
        """Show the runs of an agent in the metrics: `telemetry.watch_runs(agent.id, engine.runs)`."""
        if self.metrics is not None:
            self.metrics.watch_runs(agent, runs)

    def watch_deliveries(self, outbox: Outbox) -> None:
        """Show how many webhooks are behind in the metrics: `telemetry.watch_deliveries(deliveries)`."""
        if self.metrics is not None:
            self.metrics.watch_deliveries(outbox)

    def webhook_headers(self, key: TaskKey) -> dict[str, str]:
        """Headers for a call of a task's webhook, so that its receiver goes on with the trace of the task's run."""
        return self.tracing.task_headers(key) if self.tracing is not None else {}

    # --- the server's part --------------------------------------------------------------------------------------------

    @contextmanager
    def call(self, call: Call) -> Generator[None]:
        """Watch a request."""
        with (
            about(call),
            self.tracing.call(call) if self.tracing else nullcontext(),
            self.metrics.call(call) if self.metrics else nullcontext(),
        ):
            yield

    @contextmanager
    def stream(self, call: Call) -> Generator[None]:
        """Watch a live stream."""
        with about(call), self.metrics.stream(call) if self.metrics else nullcontext():
            yield

    def refused(self, agent: str, binding: Binding, error: A2AError) -> None:
        """Count a request that never became a call: unreadable, unknown, or from nobody we know."""
        if self.metrics is not None:
            self.metrics.refused(agent, binding, error)

    # --- the engine's part --------------------------------------------------------------------------------------------

    @contextmanager
    def run(self, run: Run) -> Generator[None]:
        """Watch a run."""
        if run.is_recovered and run.key not in self._states:
            # The one thing it may have said by now is that the work has begun.
            self._remember(run.key, run.state if run.is_settled else TaskState.SUBMITTED)
        _SENDERS_TRACE.set(_trace_id())  # for as long as the run's asyncio task lives: nothing to undo
        with about(run), self.tracing.run(run) if self.tracing else nullcontext():
            yield

    def committed(self, key: TaskKey, agent: str, events: Sequence[TaskEvent], seconds: float) -> None:
        """Note a write, and the changes of state in it."""
        if self.metrics is not None:
            self.metrics.committed(seconds)
        if self.metrics is None and self.audit is None:
            return
        for event in events:
            if isinstance(event, (TaskCreated, StatusUpdate)):
                self._changed(key, agent, event)

    def _changed(self, key: TaskKey, agent: str, event: TaskCreated | StatusUpdate) -> None:
        before, after = self._states.get(key), event.status.state
        if before is after:  # a word on how the work goes
            return
        self._remember(key, after)
        if self.metrics is not None:
            self.metrics.entered(agent, after)
        if self.audit is None:
            return
        is_new = isinstance(event, TaskCreated)
        line = AuditLine(
            event.status.timestamp or self._now(),
            "created" if is_new else "state",
            key.owner.tenant,
            key.owner.name,
            agent,
            key.task_id,
            event.context_id,
            before,
            after,
            dialect=subject_version(),
            # A quick run writes the task that it works on itself, and yet its sender has created it.
            trace_id=(_SENDERS_TRACE.get() if is_new else None) or _trace_id(),
        )
        self.audit.append(line)

    def _remember(self, key: TaskKey, state: TaskState) -> None:
        if is_terminal(state):
            self._states.pop(key, None)
            return
        self._states[key] = state
        self._states.move_to_end(key)
        if len(self._states) > STATES_REMEMBERED:
            self._states.popitem(last=False)

    def canceled(self, key: TaskKey, agent: str, caller: Caller) -> None:
        """Note who had a task canceled."""
        self._note("cancel", key, agent, caller)

    def push_config_changed(
        self, key: TaskKey, agent: str, caller: Caller, action: PushConfigAction, config_id: str
    ) -> None:
        """Note who registered or deleted a webhook."""
        self._note(
            "push-config-created" if action == "created" else "push-config-deleted", key, agent, caller, config_id
        )

    def _note(self, what: What, key: TaskKey, agent: str, caller: Caller, config_id: str | None = None) -> None:
        if self.audit is None:
            return
        line = AuditLine(
            self._now(),
            what,
            caller.tenant,
            caller.name,
            agent,
            key.task_id,
            config=config_id,
            dialect=caller.version,
            trace_id=_trace_id(),
        )
        self.audit.append(line)

    def blocked(self, agent: str | None, seconds: float) -> None:
        """Note that the event loop stood still."""
        if self.metrics is not None:
            self.metrics.blocked(agent, seconds)

    def delivered(self, key: TaskKey, agent: str, config_id: str, outcome: DeliveryOutcome, seconds: float) -> None:
        """Note a webhook's call."""
        if self.metrics is not None:
            self.metrics.delivered(agent, outcome, seconds)
        if self.tracing is not None:
            self.tracing.delivered(key, agent, config_id, outcome, seconds)


def _trace_id() -> str | None:
    ids = current_trace_ids()
    return ids[0] if ids else None
