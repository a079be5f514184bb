"""What a task's log holds of earlier runs, for a handler that begins again from the top.

A handler runs again after every answer, after a sleep and after a crash. It then gets recorded answers and steps at
once. What it emits is compared with the log: the n-th emission into an artifact is emitted once, even if the handler
emits it again, and one that differs is found here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import TypeAlias

import msgspec
from msgspec import Struct, structs

from parley.engine.reading.sizes import size_of
from parley.protocol.errors import LocalProtocolError
from parley.protocol.events import (
    ArtifactRewound,
    ArtifactUpdate,
    MessageAdded,
    NoteAdded,
    QuestionAsked,
    StatusUpdate,
    StepKind,
    StepProgressed,
    StepRecorded,
    TaskEvent,
)
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.lifecycle import described_again, is_interrupted
from parley.protocol.messages import DataPart, Message, Part, TextPart, joined
from parley.protocol.tasks import Artifact, TaskState

_encoder = msgspec.json.Encoder(order="deterministic")

Emission: TypeAlias = tuple[Artifact, bool]
"""A chunk, and whether it was added to what its artifact had before."""


class StepEntry(Struct, eq=False):
    """What the log holds of a step."""

    kind: StepKind
    recorded: tuple[JsonValue] | None = None
    """Its outcome, in a tuple because None is a value."""
    progress: JsonValue = None
    chunks: Sequence[Emission] = ()
    """What a stream emitted into an artifact."""
    digest: str = ""
    """The digest of the arguments with which its function was called."""
    is_begun: bool = False
    """Whether this run has begun it."""


class Journal(Struct, eq=False):
    """What the log of a task holds since its current conversation began."""

    messages: list[Message] = []
    opening: Message | None = None
    """The message that began the conversation: the one a handler is given, however often it runs."""
    opening_number: int = 1
    """Which of the task's messages that is."""
    later_messages: list[Message] = []
    """The messages that came while the task was at work or slept: neither the opening one nor answers."""
    is_replayed: bool = False
    """Whether there may have been a run before."""
    artifact_ids: dict[str, int] = {}
    artifact_bytes: int = 0
    unclosed: dict[str, None] = {}
    """The artifacts of which no chunk was the last yet, in the order in which they were begun."""
    _emitted: dict[str, list[Emission]] = {}
    """What earlier runs emitted, by artifact, until this run has come to its end."""
    _emitted_this_run: dict[str, int] = {}
    _restated: set[str] = set()
    _statuses: list[tuple[Part, ...]] = []
    """The status messages of earlier runs that this run has not emitted yet."""
    _notes: list[tuple[str, JsonObject]] = []
    """The notes of earlier runs that this run has not made yet."""
    _answers: dict[tuple[str, int], Message] = {}
    _questions: dict[tuple[str, int], tuple[Part, ...]] = {}
    _questions_read: dict[str, int] = {}
    _question: tuple[str, int] | None = None
    """The question that waits for an answer."""
    _question_name: str = ""
    _steps: dict[tuple[str, int], StepEntry] = {}
    _first_step_to_begin: dict[str, int] = {}
    """The lowest number of each name that this run has not begun."""

    @classmethod
    def read(cls, events: Iterable[TaskEvent]) -> Journal:
        """The journal of a task that has these events."""
        journal = cls(is_replayed=True)
        for event in events:
            journal._record(event)
        return journal

    @classmethod
    def begun_by(cls, message: Message) -> Journal:
        """The journal of a task that a message has just begun."""
        return cls(messages=[message], opening=message)

    # --- reading the log ----------------------------------------------------------------------------------------------

    def _record(self, event: TaskEvent) -> None:
        match event:
            case ArtifactUpdate():
                self._record_chunk(event)
            case MessageAdded():
                self.messages.append(event.message)
                if self.opening is None:
                    self.opening, self.opening_number = event.message, len(self.messages)
                elif self._question is None:
                    self.later_messages.append(event.message)
                if self._question is not None:
                    self._answers[self._question] = event.message
                    self._question = None
            case StepRecorded():
                self._record_step(event)
            case StepProgressed():
                self._entry(event).progress = event.value
            case ArtifactRewound():
                self._record_rewinding(event)
            case QuestionAsked():
                self._question_name = event.name
            case NoteAdded():
                self._notes.append((event.name, event.value))
            case StatusUpdate():
                self._record_status(event)
            case _:
                pass

    def _record_chunk(self, event: ArtifactUpdate) -> None:
        name = event.artifact.artifact_id
        self.note_chunk(name, is_last=event.last_chunk)
        self.index_of(name)
        if name in self._restated:
            self._restated.discard(name)
        else:
            self._emitted.setdefault(name, []).append((event.artifact, event.append))
            self.artifact_bytes += size_of(event.artifact.parts)

    def _record_rewinding(self, event: ArtifactRewound) -> None:
        emitted = self._emitted.get(event.artifact_id, [])
        self.artifact_bytes -= _size(emitted[event.kept :])
        del emitted[event.kept :]
        if event.restated:
            self._restated.add(event.artifact_id)

    def _record_step(self, event: StepRecorded) -> None:
        entry = self._entry(event)
        entry.recorded, entry.digest = (event.value,), event.digest
        match event.value:
            case {"artifact": str(name), "first": int(first), "count": int(count)} if event.kind != "step":
                entry.chunks = self._emitted.get(name, [])[first : first + count]
            case _:
                pass

    def _entry(self, event: StepRecorded | StepProgressed) -> StepEntry:
        return self._steps.setdefault((event.name, event.number), StepEntry(event.kind))

    def _record_status(self, event: StatusUpdate) -> None:
        state, message = event.status.state, event.status.message
        self._question = None
        if is_interrupted(state):
            name = self._question_name
            number = self._questions_read[name] = self._questions_read.get(name, 0) + 1
            self._question = (name, number)
            self._questions[self._question] = message.parts if message else ()
        self._question_name = ""
        if state is TaskState.WORKING and message is not None:
            self._statuses.append(message.parts)
        if state is TaskState.SUBMITTED:
            self._reopen()

    def _reopen(self) -> None:
        """Begin a new conversation, which keeps the old artifact indexes."""
        self.opening = None
        self.later_messages.clear()
        self._restated.clear()
        self._statuses.clear()
        self._notes.clear()
        for facts in (self._emitted, self.unclosed, self._answers, self._questions, self._questions_read, self._steps):
            facts.clear()

    # --- emissions ----------------------------------------------------------------------------------------------------

    def note_chunk(self, artifact_id: str, *, is_last: bool) -> None:
        """Remember whether an artifact is complete with its newest chunk."""
        if is_last:
            self.unclosed.pop(artifact_id, None)
        else:
            self.unclosed[artifact_id] = None

    def index_of(self, artifact_id: str) -> int:
        """An artifact's index among all artifacts of the task, from 0. Dialect 0.1 identifies artifacts by it."""
        return self.artifact_ids.setdefault(artifact_id, len(self.artifact_ids))

    def next_emission(self, name: str) -> tuple[int, tuple[Part, ...] | None]:
        """The number of the next emission under a name, from 1 on, and what the log holds as that emission."""
        number = self._emitted_this_run[name] = self._emitted_this_run.get(name, 0) + 1
        emitted = self._emitted.get(name)
        if emitted is None:
            return number, None
        if number <= len(emitted):
            return number, emitted[number - 1][0].parts
        del self._emitted[name]  # this run is past it
        return number, None

    def number_emitted(self, name: str) -> int:
        """How often this run has emitted under a name."""
        return self._emitted_this_run.get(name, 0)

    def left_over(self, name: str) -> Sequence[Emission]:
        """What earlier runs emitted under a name and this run has not emitted yet."""
        return self._emitted.get(name, [])[self.number_emitted(name) :]

    @property
    def with_left_overs(self) -> list[str]:
        """The artifacts of which earlier runs emitted more than this run has."""
        return [name for name in self._emitted if self.left_over(name)]

    def skip(self, name: str, count: int) -> None:
        """Take the next emissions under a name for emitted."""
        self._emitted_this_run[name] = self.number_emitted(name) + count

    def rewind(self, name: str, kept: int) -> Artifact | None:
        """Forget what was emitted into an artifact after the first emissions. Return those together, if there are any.

        Only what is in the log of earlier runs can be kept.
        """
        emitted = self._emitted.pop(name, [])
        self.artifact_bytes -= _size(emitted[kept:])
        self._emitted_this_run[name] = kept
        return _together(emitted[:kept])

    def reload(self, name: str, newest: Journal) -> None:
        """Take what was emitted into an artifact from a journal that was read just now."""
        self._emitted[name] = newest._emitted.get(name, [])

    def take_status(self, parts: tuple[Part, ...]) -> bool:
        """Whether the log has a status message that this run has not emitted yet. Branches may emit in any order."""
        for index, logged in enumerate(self._statuses):
            if are_same(logged, parts):
                del self._statuses[index]
                return True
        return False

    def take_note(self, name: str, value: JsonObject) -> bool:
        """Whether the log has a note that this run has not made yet. Branches may make theirs in any order."""
        noted = (name, msgspec.json.decode(msgspec.json.encode(value)))
        if noted not in self._notes:
            return False
        self._notes.remove(noted)
        return True

    def take_note_named(self, name: str) -> bool:
        """Whether the log has a note of this name, whatever it says, that this run has not made yet."""
        for index, (noted, _) in enumerate(self._notes):
            if noted == name:
                del self._notes[index]
                return True
        return False

    def noted(self, name: str) -> JsonObject | None:
        """What the newest note of this name says that earlier runs made and this run has not; None if there is none."""
        return next((value for noted, value in reversed(self._notes) if noted == name), None)

    @property
    def has_statuses(self) -> bool:
        """Whether the log has status messages that this run has not emitted yet."""
        return bool(self._statuses)

    def forget_statuses(self) -> None:
        """Do not compare with the status messages of earlier runs any more."""
        self._statuses.clear()

    # --- questions ----------------------------------------------------------------------------------------------------

    def take_answer(self, name: str, question: tuple[Part, ...] | None = None) -> Message | None:
        """The first answer to a question of this name that this run has not taken yet, or to this very question."""
        for key in self._answers:
            if key[0] == name and (question is None or are_same(self._questions[key], question)):
                return self._answers.pop(key)
        return None

    def has_answer(self, name: str) -> bool:
        """Whether there is an answer to a question of this name that this run has not taken yet."""
        return any(other == name for other, _ in self._answers)

    def answers_to(self, name: str) -> list[Message]:
        """The answers to questions of this name that this run has not taken yet."""
        return [answer for (other, _), answer in self._answers.items() if other == name]

    @property
    def question_just_answered(self) -> str | None:
        """The name of the question that the newest message answers, empty for one without; None if it answers none."""
        newest = self.messages[-1] if self.messages else None
        return next((name for (name, _), answer in self._answers.items() if answer is newest), None)

    @property
    def last_question(self) -> str | None:
        """The name of the newest question, answered or not, empty for one without; None if there is none."""
        return next(reversed(self._questions), (None,))[0]

    # --- steps --------------------------------------------------------------------------------------------------------

    def next_step(self, name: str, kind: StepKind, digest: str, *, may_differ: bool) -> tuple[int, StepEntry]:
        """The number of the next step of this name, and what the log holds of it.

        Steps are numbered as they are begun. One that was called with these arguments in an earlier run is found in
        whatever order. If there is none, it is the next in the order, or a new one if it `may_differ`.

        Raises:
            LocalProtocolError: the log holds a step of another kind.
        """
        number = self._first_step_to_begin.get(name, 0)
        while (entry := self._steps.get((name, number))) is not None and entry.is_begun:
            number += 1
        self._first_step_to_begin[name] = number
        if entry is not None and digest and entry.digest and digest != entry.digest:
            other = self._step_called_with(name, number, digest, may_differ=may_differ)
            number, entry = other, self._steps.get((name, other))
        if entry is None:
            entry = self._steps[name, number] = StepEntry(kind, digest=digest)
        if entry.kind != kind:
            raise LocalProtocolError(f"Step {name!r} was a {entry.kind} in an earlier run, and is a {kind} now")
        entry.is_begun = True
        return number, entry

    def _step_called_with(self, name: str, first: int, digest: str, *, may_differ: bool) -> int:
        """The number of a step that was called with these arguments; else the first, or a new one if `may_differ`."""
        number = first
        while (entry := self._steps.get((name, number))) is not None:
            if entry.digest == digest and not entry.is_begun:
                return number
            number += 1
        return number if may_differ else first

    def recorded_step(self, name: str) -> JsonValue:
        """The value of the first step of this name, or None; it does not count as taken."""
        entry = self._steps.get((name, 0))
        return entry.recorded[0] if entry is not None and entry.recorded is not None else None

    def has_begun(self, name: str) -> bool:
        """Whether the log holds anything of a step of this name, or of one of its parts, such as `name.1`."""
        return any(other == name or other.startswith(f"{name}.") for other, _ in self._steps)

    def has_recorded(self, prefix: str) -> bool:
        """Whether the log of earlier runs has the outcome of a step whose name begins so."""
        return any(name.startswith(prefix) and entry.recorded is not None for (name, _), entry in self._steps.items())

    def note_step(self, name: str, value: JsonValue) -> None:
        """Remember the value of the first step of this name while the run goes on."""
        self._steps[name, 0] = StepEntry("step", (value,))

    def progress_of(self, kind: StepKind) -> list[JsonValue]:
        """How far the steps of a kind have come, finished or not, in the order in which they began."""
        return [entry.progress for entry in self._steps.values() if entry.kind == kind and entry.progress]

    @property
    def open_steps(self) -> list[tuple[str, int, StepEntry]]:
        """The steps that have progressed but not ended."""
        return [(*key, entry) for key, entry in self._steps.items() if entry.recorded is None and entry.progress]


def are_same(logged: tuple[Part, ...], parts: tuple[Part, ...]) -> bool:
    """Whether parts are those in the log, where they have been through JSON: a tuple in data is a list there."""
    if logged == parts and not any(type(part) is DataPart for part in parts):  # 1 equals True, but is not the same
        return True
    return _as_json(logged) == _as_json(parts)


def _as_json(parts: tuple[Part, ...]) -> bytes:
    return _encoder.encode(msgspec.json.decode(msgspec.json.encode(parts)))


def _size(emissions: Sequence[Emission]) -> int:
    return sum(size_of(artifact.parts) for artifact, _ in emissions)


def _together(emissions: Sequence[Emission]) -> Artifact | None:
    """The artifact after some emissions."""
    if not emissions:
        return None
    begun = max((index for index, (_, is_added) in enumerate(emissions) if not is_added), default=0)
    parts = joined(part for artifact, _ in emissions[begun:] for part in artifact.parts)
    whole = reduce(described_again, (artifact for artifact, _ in emissions[begun:]))
    # Every dialect demands at least one part.
    return structs.replace(whole, parts=parts or (TextPart(""),))
