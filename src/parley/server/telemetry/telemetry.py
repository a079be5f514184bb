"""The observer of a server and its engines: spans, metrics, the audit trail and the ids in log lines.

`Telemetry` forwards everything to the parts that are configured. A part that is missing costs nothing.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Container, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import structs

from parley.engine.caller import Caller
from parley.engine.observer import DeliveryOutcome, PushConfigAction, WebhookChange
from parley.engine.owner_data import DeletedData, Selection
from parley.engine.runs.run import Run
from parley.engine.webhooks.deliveries import Deliveries
from parley.keys.signing_key import SigningKeys
from parley.protocol.cards import Binding
from parley.protocol.errors import A2AError
from parley.protocol.events import StatusUpdate, TaskCreated, TaskEvent
from parley.protocol.lifecycle import is_terminal
from parley.protocol.tasks import TaskState
from parley.server.telemetry.audit import AuditEvent, AuditLine, AuditTrail, deletion_line, utc_now
from parley.server.telemetry.call import Call
from parley.server.telemetry.log_context import caller_version, in_log_context
from parley.server.telemetry.metrics import Metrics, RunCounters
from parley.server.telemetry.tracing import Tracing, current_trace_ids
from parley.stores.interface import TaskKey

if TYPE_CHECKING:
    from parley.keys.key_ring import KeyChange

STATES_REMEMBERED = 100_000
"""Unfinished tasks whose last state is kept, about 30 MB. For others, the audit trail has no `from` state."""

_SENDERS_TRACE: ContextVar[str | None] = ContextVar("parley_senders_trace", default=None)
"""The trace of the call that started the current run."""


class Telemetry:
    """An observer made of parts: `App(agent, telemetry=Telemetry(metrics=Metrics(), audit=AuditTrail("audit.jsonl")))`.

    `now` is the clock for audit lines of events without a timestamp.
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
        if metrics is not None:
            metrics.audit = audit

    def open(self) -> None:
        """Open the audit trail. Raises OSError if it cannot be written."""
        if self.audit is not None:
            self.audit.open()

    async def close(self) -> None:
        """Write pending audit lines and close. Call it when the engines have stopped."""
        if self.audit is not None:
            await asyncio.to_thread(self.audit.close)

    def watch_runs(self, runs: RunCounters) -> None:
        """Add the runs of an engine to the metrics: `telemetry.watch_runs(engine.runs)`."""
        if self.metrics is not None:
            self.metrics.runs = runs

    def watch_agents(self, agents: Container[str]) -> None:
        """Count these agents only, from the moment they are there until they are removed."""
        if self.metrics is not None:
            self.metrics.agents = agents

    def remove_agent(self, agent: str) -> None:
        """Drop the metrics of an agent that is not served any more."""
        if self.metrics is not None:
            self.metrics.remove_agent(agent)

    def watch_deliveries(self, deliveries: Deliveries) -> None:
        """Add the deliveries of webhooks to the metrics: `telemetry.watch_deliveries(deliveries)`."""
        if self.metrics is not None:
            self.metrics.deliveries = deliveries

    def watch_keys(self, keys: SigningKeys) -> None:
        """Add the signatures of keys to the metrics, and the changes of a key ring to the audit trail."""
        if self.metrics is not None:
            self.metrics.keys = keys
        if self.audit is None:
            return
        from parley.keys.key_ring import KeyRing  # not above: few servers sign with the keys in a folder

        if isinstance(keys, KeyRing) and keys.on_change is None:
            keys.on_change = self.key_changed

    def key_changed(self, what: KeyChange, key_id: str) -> None:
        """Record that a key is published, signs, or is withdrawn."""
        if self.audit is not None:
            self.audit.append(AuditLine(self._now(), what, key=key_id))

    def webhook_headers(self, key: TaskKey) -> dict[str, str]:
        """The trace headers for a webhook call, so that the receiver can continue the trace of the task's run."""
        return self.tracing.task_headers(key) if self.tracing is not None else {}

    # --- calls --------------------------------------------------------------------------------------------------------

    @contextmanager
    def call(self, call: Call) -> Generator[None]:
        """Observe a call."""
        with (
            in_log_context(call),
            self.tracing.call(call) if self.tracing else nullcontext(),
            self.metrics.call(call) if self.metrics else nullcontext(),
        ):
            yield

    @contextmanager
    def stream(self, call: Call) -> Generator[None]:
        """Observe a stream."""
        with in_log_context(call), self.metrics.stream(call) if self.metrics else nullcontext():
            yield

    def refused(self, agent: str, binding: Binding, error: A2AError) -> None:
        """Count a request that was refused before it became a call: invalid, unknown or unauthenticated."""
        if self.metrics is not None:
            self.metrics.refused(agent, binding, error)

    # --- the engine's Observer ----------------------------------------------------------------------------------------

    @contextmanager
    def run(self, run: Run) -> Generator[None]:
        """Observe a run."""
        if run.is_recovered and run.key not in self._states:
            # A recovered run that is not settled can only have reported that it started.
            self._remember(run.key, run.state if run.is_settled else TaskState.SUBMITTED)
        _SENDERS_TRACE.set(_trace_id())  # the run has an asyncio task of its own, so there is nothing to reset
        with in_log_context(run), self.tracing.run(run) if self.tracing else nullcontext():
            yield

    def committed(self, key: TaskKey, agent: str, events: Sequence[TaskEvent], seconds: float) -> None:
        """Record a commit, and the changes of state in it."""
        if self.metrics is not None:
            self.metrics.committed(seconds)
        if self.metrics is None and self.audit is None:
            return
        for event in events:
            if isinstance(event, (TaskCreated, StatusUpdate)):
                self._record_state(key, agent, event)

    def _record_state(self, key: TaskKey, agent: str, event: TaskCreated | StatusUpdate) -> None:
        before, after = self._states.get(key), event.status.state
        if before is after:  # a progress message
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
            dialect=caller_version(),
            # A short run may itself write the event that creates its task; the trace is still that of its sender.
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
        """Record which caller canceled a task."""
        self._record("cancel", key, agent, caller)

    def deleted(self, caller: Caller, selection: Selection, deleted: DeletedData) -> None:
        """Record that a caller deleted data, and how much of it; nothing of what it was."""
        if self.audit is not None:
            self.audit.append(deletion_line(self._now(), caller.owner, caller.name, selection, deleted))

    def push_config_changed(
        self, key: TaskKey, agent: str, caller: Caller, action: PushConfigAction, config_id: str
    ) -> None:
        """Record which caller registered or deleted a webhook."""
        self._record(
            "push-config-created" if action == "created" else "push-config-deleted", key, agent, caller, config_id
        )

    def webhook_changed(
        self,
        key: TaskKey,
        agent: str,
        config_id: str,
        change: WebhookChange,
        *,
        caller: Caller | None = None,
        events: int = 0,
    ) -> None:
        """Record that a webhook was paused or resumed, is sent events again, or that events were given up."""
        if self.metrics is not None:
            self.metrics.webhook_changed(change, events)
        if self.audit is not None:
            owner, what = key.owner, _WEBHOOK_CHANGES[change]
            by, version = (owner.name, None) if caller is None else (caller.name, caller.version)
            line = AuditLine(self._now(), what, owner.tenant, by, agent, key.task_id, config=config_id, dialect=version)
            self.audit.append(structs.replace(line, trace_id=_trace_id(), events=events))

    def _record(self, what: AuditEvent, key: TaskKey, agent: str, caller: Caller, config_id: str | None = None) -> None:
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
        """Record that the event loop was blocked."""
        if self.metrics is not None:
            self.metrics.blocked(agent, seconds)

    def diverged(self, run: Run, text: str) -> None:
        """Record that a handler emitted something else than before."""
        if self.metrics is not None:
            self.metrics.diverged(run.program.id)
        if self.tracing is not None:
            self.tracing.diverged(text)

    def delivered(self, key: TaskKey, agent: str, config_id: str, outcome: DeliveryOutcome, seconds: float) -> None:
        """Record a call of a webhook."""
        if self.metrics is not None:
            self.metrics.delivered(agent, outcome, seconds)
        if self.tracing is not None:
            self.tracing.delivered(key, agent, config_id, outcome, seconds)


_WEBHOOK_CHANGES: Mapping[WebhookChange, AuditEvent] = {
    "paused": "push-paused",
    "resumed": "push-resumed",
    "redelivered": "push-redelivered",
    "given-up": "push-given-up",
}


def _trace_id() -> str | None:
    ids = current_trace_ids()
    return ids[0] if ids else None
