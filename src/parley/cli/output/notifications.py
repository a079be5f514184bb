"""Prints the notifications of agents as they come: of each task what is new, after a line with its id and its state."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from parley.cli.output.transcript import Transcript, consoles, print_event
from parley.client.streams.streamed_task import StreamedTask
from parley.client.webhooks.notification import PushNotification
from parley.protocol.messages import Message
from parley.protocol.tasks import Task, TaskState, TaskStatus

MAX_TASKS = 1_000
"""Tasks of which is known what was printed; the one that was printed first is dropped first."""


@dataclass(slots=True)
class _Shown:
    transcript: Transcript
    seen: StreamedTask = field(default_factory=StreamedTask)


class NotificationTranscript:
    """Prints notifications, for people or as lines of JSON."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._answers, self._notes = consoles()
        self._tasks: OrderedDict[str, _Shown] = OrderedDict()
        self._last: tuple[str, TaskState] | None = None
        self._open: Transcript | None = None

    def note(self, text: str, style: str = "") -> None:
        """Print a line that no agent sent."""
        self.end_line()
        Transcript(self._answers, self._notes).note(text, style)

    def show(self, notification: PushNotification) -> TaskStatus | None:
        """Print a notification, and return the status of its task."""
        event, task_id = notification.event, notification.task_id or ""
        shown = self._tasks.setdefault(task_id, _Shown(Transcript(self._answers, self._notes)))
        if len(self._tasks) > MAX_TASKS:
            self._tasks.popitem(last=False)
        known = shown.seen.event_count > 0
        changes = shown.seen.new_events_in(event) if isinstance(event, Task) and known else [event]
        for change in changes:
            shown.seen.add(change)
        if self._as_json:
            print_event(event)
            return shown.seen.status
        status = shown.seen.status
        if self._open is not shown.transcript:
            self.end_line()
        self._open = shown.transcript
        if not isinstance(event, Message) and self._last != (task_id, shown.seen.state):
            at = f"{status.timestamp:%H:%M:%S} " if status and status.timestamp else ""
            shown.transcript.note(f"{at}{task_id} {shown.seen.state}", "bold")
            self._last = task_id, shown.seen.state
        for change in changes:
            shown.transcript.show(change)
        return status

    def end_line(self) -> None:
        """End the current line of text, if there is one."""
        if self._open is not None:
            self._open.end_line()
