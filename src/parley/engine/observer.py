"""What an engine reports for metrics, traces and audit.

Without an observer each report costs one comparison. Every method is called on the event loop and must be quick;
what it raises is a bug of the observer and is not caught.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from parley.engine.caller import Caller
from parley.protocol.events import TaskEvent
from parley.stores.interface import TaskKey

if TYPE_CHECKING:
    from parley.engine.owner_data import DeletedData, Selection
    from parley.engine.runs.run import Run

PushConfigAction: TypeAlias = Literal["created", "deleted"]
WebhookChange: TypeAlias = Literal["paused", "resumed", "redelivered", "given-up"]
DeliveryOutcome: TypeAlias = Literal["delivered", "retried", "failed"]


class Observer(Protocol):
    """Receives what happens in an engine."""

    def run(self, run: Run) -> AbstractContextManager[None]:
        """A block around a program's work, in the run's own asyncio task, which begins in its sender's context.

        Whatever ends the program passes through it: also cancellation, and `run.Stopped` when the handler asked.
        """
        ...

    def committed(self, key: TaskKey, agent: str, events: Sequence[TaskEvent], seconds: float) -> None:
        """Events of a task are durable, and no reader has seen them yet; `seconds` is the commit latency."""
        ...

    def canceled(self, key: TaskKey, agent: str, caller: Caller) -> None:
        """A caller has canceled a task."""
        ...

    def deleted(self, caller: Caller, selection: Selection, deleted: DeletedData) -> None:
        """A caller has deleted data of its own."""
        ...

    def push_config_changed(
        self, key: TaskKey, agent: str, caller: Caller, action: PushConfigAction, config_id: str
    ) -> None:
        """A caller has registered or deleted a webhook of a task."""
        ...

    def blocked(self, agent: str | None, seconds: float) -> None:
        """The event loop stood still for so long, because of a run of this agent if that is known."""
        ...

    def diverged(self, run: Run, text: str) -> None:
        """A handler that began again emitted something else than before; the text says what and where."""
        ...

    def delivered(self, key: TaskKey, agent: str, config_id: str, outcome: DeliveryOutcome, seconds: float) -> None:
        """A webhook was called, with this outcome, and answered or failed after so long."""
        ...

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
        """A webhook was paused or resumed, is sent events again, or will not be sent `events` any more.

        `caller` is who asked for it; None if the policy of the server did it.
        """
        ...
