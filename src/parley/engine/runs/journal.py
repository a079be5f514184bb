"""What a run has done already, for a handler that begins again from the top.

A handler runs again after every answer and after a crash. It then gets recorded answers and steps at once, and only
what is not in the log yet is emitted: the n-th chunk of an artifact and the n-th status message are emitted once, even
if the handler emits them again.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from parley.engine.reading.sizes import size_of
from parley.protocol.events import ArtifactUpdate, MessageAdded, StatusUpdate, StepRecorded, TaskEvent
from parley.protocol.jsonvalue import JsonValue
from parley.protocol.lifecycle import is_interrupted
from parley.protocol.messages import Message
from parley.protocol.tasks import TaskState

STATUS = ""
"""The name under which status messages are counted; no artifact has it."""


class Journal(Struct, eq=False):
    """What the log of a task holds since its current conversation began."""

    messages: list[Message] = []
    opening: Message | None = None
    """The message that began the conversation: the one a handler is given, however often it runs."""
    opening_number: int = 1
    """Which of the task's messages that is."""
    artifact_ids: dict[str, int] = {}
    artifact_bytes: int = 0
    unclosed: dict[str, None] = {}
    """The artifacts of which no chunk was the last yet, in the order in which they were begun."""
    _emitted: dict[str, int] = {}
    _emitted_this_run: dict[str, int] = {}
    _answers: list[Message] = []
    _answers_given: int = 0
    _steps: dict[tuple[str, int], JsonValue] = {}
    _steps_taken: dict[str, int] = {}
    _is_waiting: bool = False

    @classmethod
    def read(cls, events: Iterable[TaskEvent]) -> Journal:
        """The journal of a task that has these events."""
        journal = cls()
        for event in events:
            journal._record(event)
        return journal

    @classmethod
    def begun_by(cls, message: Message) -> Journal:
        """The journal of a task that a message has just begun."""
        return cls(messages=[message], opening=message)

    def _record(self, event: TaskEvent) -> None:
        match event:
            case MessageAdded():
                self.messages.append(event.message)
                if self.opening is None:
                    self.opening, self.opening_number = event.message, len(self.messages)
                if self._is_waiting:
                    self._answers.append(event.message)
                    self._is_waiting = False
            case ArtifactUpdate():
                self._count_emitted(event.artifact.artifact_id)
                self.note_chunk(event.artifact.artifact_id, is_last=event.last_chunk)
                self.artifact_bytes += size_of(event.artifact.parts)
                self.index_of(event.artifact.artifact_id)
            case StepRecorded():
                self._steps[event.name, event.number] = event.value
            case StatusUpdate():
                self._record_status(event)
            case _:
                pass

    def _record_status(self, event: StatusUpdate) -> None:
        state = event.status.state
        self._is_waiting = is_interrupted(state)
        if state is TaskState.WORKING and event.status.message is not None:
            self._count_emitted(STATUS)
        if state is TaskState.SUBMITTED:
            # Reopened: the handler begins a new conversation, but keeps the old artifact indexes.
            self.opening = None
            self._emitted.clear()
            self.unclosed.clear()
            self._answers.clear()
            self._steps.clear()

    def _count_emitted(self, name: str) -> None:
        self._emitted[name] = self._emitted.get(name, 0) + 1

    def note_chunk(self, artifact_id: str, *, is_last: bool) -> None:
        """Remember whether an artifact is complete with its newest chunk."""
        if is_last:
            self.unclosed.pop(artifact_id, None)
        else:
            self.unclosed[artifact_id] = None

    def next_emission(self, name: str) -> int | None:
        """The number of the next emission under a name, from 1 on; None if it was made before this run."""
        number = self._emitted_this_run[name] = self._emitted_this_run.get(name, 0) + 1
        return number if number > self._emitted.get(name, 0) else None

    def index_of(self, artifact_id: str) -> int:
        """An artifact's index among all artifacts of the task, from 0. Dialect 0.1 identifies artifacts by it."""
        return self.artifact_ids.setdefault(artifact_id, len(self.artifact_ids))

    def next_answer(self) -> Message | None:
        """The answer to the next question, if it was answered already."""
        if self._answers_given == len(self._answers):
            return None
        self._answers_given += 1
        return self._answers[self._answers_given - 1]

    def next_step(self, name: str) -> tuple[int, tuple[JsonValue] | None]:
        """The number of the next step of this name and its recorded value, in a tuple because None is a value.

        Steps are numbered as they are begun, so that those taken side by side keep their own values.
        """
        number = self._steps_taken.get(name, 0)
        self._steps_taken[name] = number + 1
        key = (name, number)
        return number, (self._steps[key],) if key in self._steps else None

    def recorded_step(self, name: str) -> JsonValue:
        """The value of the first step of this name, or None; it does not count as taken."""
        return self._steps.get((name, 0))

    def note_step(self, name: str, value: JsonValue) -> None:
        """Remember the value of the first step of this name while the run goes on."""
        self._steps[name, 0] = value
