"""A task as a stream's reader has seen it so far, and what a snapshot knows beyond that.

Tolerant on purpose: other people's agents send what no table allows, and what they say is shown as they say it. The one
rule: after the events of `difference` the task is the snapshot, in its status and its artifacts, although texts may be
cut into other parts. History and metadata, which no event carries, are taken over by `learn`.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from parley.protocol.events import ArtifactUpdate, StatusUpdate, StreamEvent
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.lifecycle import described_again, ends_stream, grow, is_interrupted, is_terminal
from parley.protocol.messages import Message, Part, TextPart, is_plain_text, joined, text_of
from parley.protocol.tasks import Artifact, Task, TaskState, TaskStatus


class GrowingTask:
    """What the events of a stream have said of a task."""

    def __init__(self) -> None:
        self.task_id: str | None = None
        self.context_id: str | None = None
        self.status: TaskStatus | None = None
        self.reply: Message | None = None
        self._history: list[Message] = []
        self._unkept: Message | None = None
        """What was said with the status: it joins the history when the status changes."""
        self._metadata: JsonObject = {}
        self._was_final = False
        self._is_untouched = False
        self._artifacts: dict[str, Artifact] = {}
        self._parts: dict[str, list[Part]] = {}
        """The parts of the artifacts that have grown, as they came."""

    @property
    def is_over(self) -> bool:
        """Whether the stream has said its last word: a message alone, or a state in which nobody works.

        Agents of 0.x may also say `final` in any other state.
        """
        if self.status is None:
            return self.reply is not None and self.task_id is None
        return self._was_final or ends_stream(self.status.state)

    @property
    def state(self) -> TaskState:
        """The task's state, submitted before anything was said of it; a message alone is complete."""
        if self.status is not None:
            return self.status.state
        return TaskState.COMPLETED if self.is_over else TaskState.SUBMITTED

    @property
    def has_ended(self) -> bool:
        """Whether the task has ended, so that nothing can follow."""
        return self.status is not None and is_terminal(self.status.state)

    @property
    def has_answer(self) -> bool:
        """Whether there is anything to show for it: an artifact or a message."""
        return bool(self._artifacts) or self.reply is not None

    @property
    def is_untouched(self) -> bool:
        """Whether a whole task was the last that was seen."""
        return self._is_untouched

    def add(self, event: StreamEvent) -> None:
        """Take an event in."""
        self._is_untouched = isinstance(event, Task)
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
                if self._unkept is not None:
                    self._history.append(self._unkept)
                self._unkept = event.status.message
                self._metadata = {**self._metadata, **event.metadata} if event.metadata else self._metadata
                self.task_id, self.context_id, self.status = event.task_id, event.context_id, event.status
                self._was_final = event.final

    def learn(self, snapshot: Task) -> None:
        """Take from a snapshot what no event tells: the messages of the task, and its metadata."""
        self._history = list(snapshot.history)
        self._metadata = snapshot.metadata
        is_current = self.status is not None and _says_the_same(self.status, snapshot.status)
        self._unkept = snapshot.status.message if is_current else None  # a status of before is in the history already

    def _add_chunk(self, event: ArtifactUpdate) -> None:
        name = event.artifact.artifact_id
        known = self._artifacts.get(name)
        if event.append and known is not None:
            grow(self._parts, known, event.artifact.parts)
            self._artifacts[name] = described_again(known, event.artifact)
        else:
            self._artifacts[name] = event.artifact
            self._parts.pop(name, None)

    def _seen_parts(self, name: str) -> Sequence[Part]:
        return self._parts.get(name) or self._artifacts[name].parts

    def artifact(self, artifact_id: str) -> Artifact:
        """An artifact as it has grown. Raises KeyError if there is none."""
        artifact, parts = self._artifacts[artifact_id], self._parts.get(artifact_id)
        return artifact if parts is None else structs.replace(artifact, parts=joined(parts))

    def task(self) -> Task:
        """The task as it has grown; what no event has said is left empty."""
        status = self.status or TaskStatus(TaskState.SUBMITTED)
        artifacts = tuple(self.artifact(name) for name in self._artifacts)
        return Task(self.task_id or "", self.context_id, status, artifacts, tuple(self._history), self._metadata)

    def has(self, event: ArtifactUpdate) -> bool:
        """Whether the parts of a chunk are among those that were seen: then it may be an old one."""
        name = event.artifact.artifact_id
        seen = self._seen_parts(name) if name in self._artifacts else ()
        return all(
            part in seen or (is_plain_text(part) and part.text in text_of(seen)) for part in event.artifact.parts
        )

    def is_ahead_of(self, snapshot: Task) -> bool:
        """Whether a snapshot is an old one: the task is at work in it, and it has less of each artifact than was seen.

        The last word is never old.
        """
        if ends_stream(snapshot.status.state):
            return False
        less = False
        for artifact in snapshot.artifacts:
            name = artifact.artifact_id
            beyond = _beyond(artifact.parts, self._seen_parts(name)) if name in self._artifacts else None
            if beyond is None:
                return False
            less = less or bool(beyond)
        return less or len(snapshot.artifacts) < len(self._artifacts)

    def difference(self, snapshot: Task) -> list[StreamEvent]:
        """The events that lead from what was seen to a snapshot: what was appended, what is new, what was replaced.

        Where no updates lead there, because artifacts are gone or stand in another order, it is the snapshot itself.
        """
        names = [artifact.artifact_id for artifact in snapshot.artifacts]
        if names[: len(self._artifacts)] != list(self._artifacts):
            return [snapshot]
        events: list[StreamEvent] = []
        for artifact in snapshot.artifacts:
            events.extend(self._steps_to(artifact, snapshot))
        if self.status is None or not _says_the_same(self.status, snapshot.status):
            events.append(StatusUpdate(snapshot.id, snapshot.context_id, snapshot.status))
        return events

    def _steps_to(self, artifact: Artifact, snapshot: Task) -> list[StreamEvent]:
        is_whole = is_terminal(snapshot.status.state)  # or more may follow; a snapshot does not tell
        replacement = ArtifactUpdate(snapshot.id, snapshot.context_id, artifact, last_chunk=is_whole)
        old = self._artifacts.get(artifact.artifact_id)
        if old is None:
            return [replacement]
        missing = _beyond(self._seen_parts(artifact.artifact_id), artifact.parts)
        if missing is None or not _is_described_alike(described_again(old, artifact), artifact):
            return [replacement]
        if not missing and _is_described_alike(old, artifact):
            return []
        chunk = structs.replace(artifact, parts=missing)
        return [ArtifactUpdate(snapshot.id, snapshot.context_id, chunk, append=True, last_chunk=is_whole)]


def _says_the_same(one: TaskStatus, other: TaskStatus) -> bool:
    if one.state is not other.state or one.message != other.message:
        return False
    # Some agents ask without a word, and then again: only the time tells a question from the one before.
    return not is_interrupted(one.state) or None in (one.timestamp, other.timestamp) or one.timestamp == other.timestamp


def _is_described_alike(one: Artifact, other: Artifact) -> bool:
    return structs.replace(one, parts=(), index=None) == structs.replace(other, parts=(), index=None)


def _beyond(seen: Sequence[Part], known: Sequence[Part]) -> tuple[Part, ...] | None:
    """The parts after those that were seen, or None if these are others. Texts may be cut differently."""
    if tuple(known[: len(seen)]) == tuple(seen):
        return joined(known[len(seen) :])
    before, after = joined(seen), joined(known)
    if after[: len(before)] == before:
        return after[len(before) :]
    cut = len(before) - 1  # where the text goes on that was seen last
    last, grown = before[cut], after[cut] if cut < len(after) else None
    if before[:cut] != after[:cut] or grown is None or not (is_plain_text(last) and is_plain_text(grown)):
        return None
    if not grown.text.startswith(last.text):
        return None
    return (TextPart(grown.text[len(last.text) :]), *after[cut + 1 :])
