"""A task as the events of a stream have shown it so far, and what a snapshot adds to that.

It accepts events that the lifecycle table forbids, because other agents send them. One rule holds: after the events of
`difference`, the task equals the snapshot in status and artifacts, although texts may be split into other parts. No
event carries history and metadata; `learn` takes them from a snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from parley.protocol.events import ArtifactUpdate, StatusUpdate, StreamEvent
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.lifecycle import described_again, ends_stream, grow, is_interrupted, is_terminal
from parley.protocol.messages import Message, Part, TextPart, is_plain_text, joined, text_of
from parley.protocol.tasks import Artifact, Task, TaskState, TaskStatus


class StreamedTask:
    """What the events of one stream have shown of a task."""

    def __init__(self) -> None:
        self.event_count = 0
        self.task_id: str | None = None
        self.context_id: str | None = None
        self.status: TaskStatus | None = None
        self.reply: Message | None = None
        self._history: list[Message] = []
        self._status_message: Message | None = None
        """The message of the current status. It joins the history when the status changes."""
        self._metadata: JsonObject = {}
        self._was_final = False
        self.ends_with_task = False
        """Whether the last event was a whole task."""
        self.ends_with_replacement = False
        """Whether the last event replaced an artifact that was there before."""
        self._artifacts: dict[str, Artifact] = {}
        self._parts: dict[str, list[Part]] = {}
        """The parts of artifacts that were appended to, as they came."""

    @property
    def is_over(self) -> bool:
        """Whether this ends the stream: a message without a task, or a task that is not being worked on.

        Agents of 0.x may also set `final` in any other state.
        """
        if self.status is None:
            return self.reply is not None and self.task_id is None
        return self._was_final or ends_stream(self.status.state)

    @property
    def state(self) -> TaskState:
        """The task's state; submitted while no event has named one, completed for a message without a task."""
        if self.status is not None:
            return self.status.state
        return TaskState.COMPLETED if self.is_over else TaskState.SUBMITTED

    @property
    def has_ended(self) -> bool:
        """Whether the task is in a terminal state."""
        return self.status is not None and is_terminal(self.status.state)

    @property
    def has_answer(self) -> bool:
        """Whether the agent has produced an artifact or a message."""
        return bool(self._artifacts) or self.reply is not None

    def add(self, event: StreamEvent) -> None:
        """Add an event."""
        self.event_count += 1
        self.ends_with_task, self.ends_with_replacement = isinstance(event, Task), False
        match event:
            case ArtifactUpdate():  # first, as most events are chunks
                self.task_id, self.context_id = event.task_id, event.context_id
                self._add_chunk(event)
            case Message():
                self.reply = event
            case Task():
                self.status, self._was_final = event.status, False
                self.learn(event)
                self.task_id, self.context_id = event.id, event.context_id
                self._artifacts = {artifact.artifact_id: artifact for artifact in event.artifacts}
                self._parts = {}
            case StatusUpdate():
                if self._status_message is not None:
                    self._history.append(self._status_message)
                self._status_message = event.status.message
                self._metadata = {**self._metadata, **event.metadata} if event.metadata else self._metadata
                self.task_id, self.context_id, self.status = event.task_id, event.context_id, event.status
                self._was_final = event.final

    def learn(self, snapshot: Task) -> None:
        """Take from a snapshot what no event carries: history and metadata."""
        self._history = list(snapshot.history)
        self._metadata = snapshot.metadata
        is_current = self.status is not None and _is_same_status(self.status, snapshot.status)
        self._status_message = snapshot.status.message if is_current else None  # an older one is in the history

    def _add_chunk(self, event: ArtifactUpdate) -> None:
        name = event.artifact.artifact_id
        known = self._artifacts.get(name)
        if event.append and known is not None:
            grow(self._parts, known, event.artifact.parts)
            self._artifacts[name] = described_again(known, event.artifact)
        else:
            self.ends_with_replacement = known is not None
            self._artifacts[name] = event.artifact
            self._parts.pop(name, None)

    def _seen_parts(self, name: str) -> Sequence[Part]:
        return self._parts.get(name) or self._artifacts[name].parts

    def artifact(self, artifact_id: str) -> Artifact:
        """An artifact with all chunks so far. Raises KeyError if there is none."""
        artifact, parts = self._artifacts[artifact_id], self._parts.get(artifact_id)
        return artifact if parts is None else structs.replace(artifact, parts=joined(parts))

    def task(self) -> Task:
        """The task with all events so far; fields that no event has set are empty."""
        status = self.status or TaskStatus(TaskState.SUBMITTED)
        artifacts = tuple(self.artifact(name) for name in self._artifacts)
        return Task(self.task_id or "", self.context_id, status, artifacts, tuple(self._history), self._metadata)

    def has(self, event: ArtifactUpdate) -> bool:
        """Whether all parts of a chunk were seen before, so that it may be a repeat."""
        name = event.artifact.artifact_id
        seen = self._seen_parts(name) if name in self._artifacts else ()
        return all(
            part in seen or (is_plain_text(part) and part.text in text_of(seen)) for part in event.artifact.parts
        )

    def is_ahead_of(self, snapshot: Task) -> bool:
        """Whether a snapshot is older than the events: every artifact in it has less than was seen.

        A snapshot of a task that is not being worked on is never taken for older.
        """
        if ends_stream(snapshot.status.state):
            return False
        less = False
        for artifact in snapshot.artifacts:
            name = artifact.artifact_id
            beyond = continuation(artifact.parts, self._seen_parts(name)) if name in self._artifacts else None
            if beyond is None:
                return False
            less = less or bool(beyond)
        return less or len(snapshot.artifacts) < len(self._artifacts)

    def difference(self, snapshot: Task) -> list[StreamEvent]:
        """The events that turn the task as seen into the snapshot: chunks, new artifacts, replaced ones, the status.

        If updates cannot do that, because artifacts are gone or in another order, it is the snapshot itself.
        """
        names = [artifact.artifact_id for artifact in snapshot.artifacts]
        if names[: len(self._artifacts)] != list(self._artifacts):
            return [snapshot]
        events: list[StreamEvent] = []
        for artifact in snapshot.artifacts:
            events.extend(self._updates_to(artifact, snapshot))
        if self.status is None or not _is_same_status(self.status, snapshot.status):
            events.append(StatusUpdate(snapshot.id, snapshot.context_id, snapshot.status))
        return events

    def new_events_in(self, snapshot: Task) -> list[StreamEvent]:
        """What a snapshot adds, as events; nothing if it is older than the events so far."""
        if self.is_ahead_of(snapshot):
            return []
        new_events = self.difference(snapshot)
        self.learn(snapshot)
        return new_events

    def _updates_to(self, artifact: Artifact, snapshot: Task) -> list[StreamEvent]:
        is_whole = is_terminal(snapshot.status.state)  # otherwise more chunks may follow
        replacement = ArtifactUpdate(snapshot.id, snapshot.context_id, artifact, last_chunk=is_whole)
        old = self._artifacts.get(artifact.artifact_id)
        if old is None:
            return [replacement]
        missing = continuation(self._seen_parts(artifact.artifact_id), artifact.parts)
        if missing is None or not _has_same_description(described_again(old, artifact), artifact):
            return [replacement]
        if not missing and _has_same_description(old, artifact):
            return []
        chunk = structs.replace(artifact, parts=missing)
        return [ArtifactUpdate(snapshot.id, snapshot.context_id, chunk, append=True, last_chunk=is_whole)]


def _is_same_status(one: TaskStatus, other: TaskStatus) -> bool:
    if one.state is not other.state or one.message != other.message:
        return False
    # Some agents ask twice without a message: only the timestamp tells the second question from the first.
    return not is_interrupted(one.state) or None in (one.timestamp, other.timestamp) or one.timestamp == other.timestamp


def _has_same_description(one: Artifact, other: Artifact) -> bool:
    return structs.replace(one, parts=(), index=None) == structs.replace(other, parts=(), index=None)


def continuation(seen: Sequence[Part], known: Sequence[Part]) -> tuple[Part, ...] | None:
    """The known parts after the seen ones, or None if they do not continue those. Texts may be split differently."""
    if tuple(known[: len(seen)]) == tuple(seen):
        return joined(known[len(seen) :])
    before, after = joined(seen), joined(known)
    if after[: len(before)] == before:
        return after[len(before) :]
    cut = len(before) - 1  # the last text that was seen, which may go on
    last, grown = before[cut], after[cut] if cut < len(after) else None
    if before[:cut] != after[:cut] or grown is None or not (is_plain_text(last) and is_plain_text(grown)):
        return None
    if not grown.text.startswith(last.text):
        return None
    return (TextPart(grown.text[len(last.text) :]), *after[cut + 1 :])
