"""A task's life: which state may follow which, and how events add up to a task. The complete rules:

- A task begins as submitted. It works, waits for input or authorization, and ends; `TRANSITIONS` is the whole table.
- No event follows a terminal state. The one exception is 0.1, whose callers may send to a finished
  task: `admit_message` lets them, and the task goes back to submitted.
- An artifact update replaces the artifact of that id in place, or adds to it if `append` is set. In an artifact
  that grew, adjacent plain texts are one part, wherever the chunks were cut; a chunk of empty text adds nothing.
- The message of a status moves into the history when the next message or status comes, so that a question stands
  before its answer.

`docs/lifecycle.md` is drawn from the table. Spec: 1.0 sections 3.1.1, 4.1.3 and 4.2.2.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from parley.protocol.errors import IllegalTransitionError, LocalProtocolError, TaskFinishedError
from parley.protocol.events import (
    ArtifactUpdate,
    MessageAdded,
    StatusUpdate,
    TaskCreated,
    TaskEvent,
)
from parley.protocol.masking import without_sealed_message
from parley.protocol.messages import Message, Part, joined
from parley.protocol.tasks import Artifact, Task, TaskState

S = TaskState

TERMINAL = frozenset({S.COMPLETED, S.FAILED, S.CANCELED, S.REJECTED})
INTERRUPTED = frozenset({S.INPUT_REQUIRED, S.AUTH_REQUIRED})

_AFTER_START = frozenset({S.WORKING}) | INTERRUPTED | TERMINAL
_REOPENED = frozenset({S.SUBMITTED})

TRANSITIONS: dict[TaskState, frozenset[TaskState]] = {
    S.SUBMITTED: _AFTER_START,
    S.WORKING: _AFTER_START,
    S.INPUT_REQUIRED: _AFTER_START,
    S.AUTH_REQUIRED: _AFTER_START,
    S.COMPLETED: _REOPENED,
    S.FAILED: _REOPENED,
    S.CANCELED: _REOPENED,
    S.REJECTED: _REOPENED,
    S.UNKNOWN: frozenset(S),
}
"""What may follow each state. Staying in working or a waiting state with a new message is also a transition.
Only 0.1 reopens tasks."""


def is_terminal(state: TaskState) -> bool:
    """Whether a task in this state has ended."""
    return state in TERMINAL


def is_interrupted(state: TaskState) -> bool:
    """Whether a task in this state waits for its caller."""
    return state in INTERRUPTED


def ends_stream(state: TaskState) -> bool:
    """Whether a stream closes after a status update to this state."""
    return state in TERMINAL or state in INTERRUPTED


def admit_message(task_id: str, state: TaskState, *, may_reopen: bool = False) -> None:
    """Check that a task takes another message.

    Raises:
        TaskFinishedError: the task has ended, and the caller's dialect does not reopen tasks.
    """
    if is_terminal(state) and not may_reopen:
        raise TaskFinishedError.for_task(task_id, state)


def apply(task: Task | None, event: TaskEvent) -> Task:
    """The task after this event; `None` is the task before its first event.

    Raises:
        IllegalTransitionError: the table does not allow the step.
        LocalProtocolError: the event is for another task, or for one that does not exist or exists already.
    """
    return fold(task, (event,))


def fold(task: Task | None, events: Iterable[TaskEvent]) -> Task:
    """The task after these events, in time proportional to them. Raises as `apply` does."""
    folded = _Fold(task)
    for event in events:
        folded.add(event)
    return folded.task()


class _Fold:
    """A task under construction: its fields change in place and become a task once, at the end."""

    __slots__ = ("_artifacts", "_history", "_metadata", "_parts", "_status", "_task")

    def __init__(self, task: Task | None) -> None:
        self._task = task
        self._parts: dict[str, list[Part]] = {}
        self._artifacts: dict[str, Artifact] = {}
        self._history: list[Message] = []
        if task is not None:
            self._status = task.status
            self._metadata = task.metadata
            self._artifacts = {artifact.artifact_id: artifact for artifact in task.artifacts}
            self._history.extend(task.history)

    def add(self, event: TaskEvent) -> None:
        task = self._task
        if task is None:
            self._begin(event)
        elif task.id != event.task_id:
            raise LocalProtocolError(f"The event belongs to task {event.task_id}, not to task {task.id}.")
        else:
            match event:
                case ArtifactUpdate():
                    self._require_open(task)
                    self._update_artifact(event)
                case StatusUpdate():
                    self._change_status(task, event)
                case MessageAdded():
                    self._require_open(task)
                    self._keep_status_message()
                    self._history.append(without_sealed_message(event.message))
                case TaskCreated():
                    raise LocalProtocolError(f"Task {event.task_id} exists already.")
                case _:  # an internal event
                    pass

    def _begin(self, event: TaskEvent) -> None:
        if not isinstance(event, TaskCreated):
            raise LocalProtocolError(f"The first event of task {event.task_id} must create it.")
        self._task = Task(event.task_id, event.context_id, event.status, metadata=event.metadata)
        self._status = event.status
        self._metadata = event.metadata

    def _change_status(self, task: Task, event: StatusUpdate) -> None:
        before, after = self._status.state, event.status
        if after.state not in TRANSITIONS[before]:
            raise IllegalTransitionError(task.id, before, after.state)
        if self._status.message is not None:
            self._history.append(self._status.message)
        if event.metadata:
            self._metadata = {**self._metadata, **event.metadata}
        self._status = after

    def _keep_status_message(self) -> None:
        if self._status.message is not None:
            self._history.append(self._status.message)
            self._status = structs.replace(self._status, message=None)

    def _require_open(self, task: Task) -> None:
        if self._status.state in TERMINAL:
            raise LocalProtocolError(f"Task {task.id} is {self._status.state}; nothing can be added to it.")

    def _update_artifact(self, event: ArtifactUpdate) -> None:
        new = event.artifact
        old = self._artifacts.get(new.artifact_id)
        if old is None or not event.append:
            self._artifacts[new.artifact_id] = new
            self._parts.pop(new.artifact_id, None)
            return
        grow(self._parts, old, new.parts)
        self._artifacts[new.artifact_id] = described_again(old, new)

    def task(self) -> Task:
        task = self._task
        if task is None:
            raise LocalProtocolError("A task begins with the event that creates it.")
        artifacts = self._artifacts
        for artifact_id, parts in self._parts.items():
            artifacts[artifact_id] = structs.replace(artifacts[artifact_id], parts=joined(parts))
        return Task(
            task.id, task.context_id, self._status, tuple(artifacts.values()), tuple(self._history), self._metadata
        )


def grow(grown: dict[str, list[Part]], artifact: Artifact, parts: tuple[Part, ...]) -> None:
    """Add the parts of a chunk to those of its artifact, by id; they are joined at the end, once."""
    known = grown.get(artifact.artifact_id)
    if known is not None:
        known.extend(parts)
    elif joined(parts):
        grown[artifact.artifact_id] = [*artifact.parts, *parts]


def described_again(old: Artifact, new: Artifact) -> Artifact:
    """The old artifact with what a later chunk adds to its description."""
    if not (new.name or new.description or new.metadata or new.extensions):
        return old
    return structs.replace(
        old,
        name=new.name or old.name,
        description=new.description or old.description,
        metadata={**old.metadata, **new.metadata},
        extensions=tuple(dict.fromkeys(old.extensions + new.extensions)),
    )
