"""The events of a task's life, and which of them a stream shows.

A task's log is a sequence of `TaskEvent`; folding it with `lifecycle.apply` gives the task. A stream carries
`StreamEvent`: the snapshot it starts with (a `Task`), or a lone `Message`, then updates.
Spec: 1.0 sections 4.2.1 and 4.2.2.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.messages import Message
from parley.protocol.tasks import Artifact, Task, TaskStatus


class TaskCreated(Struct, frozen=True, gc=False, omit_defaults=True, tag="created"):
    """A task came into being, without history or artifacts."""

    task_id: str
    context_id: str | None
    status: TaskStatus
    metadata: JsonObject = {}


class MessageAdded(Struct, frozen=True, gc=False, omit_defaults=True, tag="message-added"):
    """A message joined the task's history; no dialect streams this."""

    task_id: str
    context_id: str | None
    message: Message


class StatusUpdate(Struct, frozen=True, gc=False, omit_defaults=True, tag="status"):
    """The task's status changed.

    `final` is set only where a 0.x peer closed its stream in a state that does not imply it.
    """

    task_id: str
    context_id: str | None
    status: TaskStatus
    metadata: JsonObject = {}
    final: bool = False


class ArtifactUpdate(Struct, frozen=True, gc=False, omit_defaults=True, tag="artifact"):
    """An artifact was produced, replaced, or (with `append`) grew by these parts."""

    task_id: str
    context_id: str | None
    artifact: Artifact
    append: bool = False
    last_chunk: bool = False
    metadata: JsonObject = {}


StepKind: TypeAlias = Literal["step", "stream", "delegate", "sleep", "value"]


class StepRecorded(Struct, frozen=True, gc=False, omit_defaults=True, tag="step"):
    """The outcome of a step that must not be taken twice. Steps of one name are told apart by their number.

    `digest` is that of the arguments of its function; empty if there are none.
    """

    task_id: str
    context_id: str | None
    name: str
    value: JsonValue
    number: int = 0
    kind: StepKind = "step"
    digest: str = ""


class StepProgressed(Struct, frozen=True, gc=False, omit_defaults=True, tag="step-progress"):
    """How far an unfinished step has come. The newest counts."""

    task_id: str
    context_id: str | None
    name: str
    value: JsonValue
    number: int = 0
    kind: StepKind = "step"


class ArtifactRewound(Struct, frozen=True, gc=False, omit_defaults=True, tag="rewound"):
    """What a handler emitted into an artifact is void, except for the first emissions.

    The next update of the artifact replaces it. If `restated` is set, that update is what is left, and no emission.
    """

    task_id: str
    context_id: str | None
    artifact_id: str
    kept: int = 0
    restated: bool = False


class QuestionAsked(Struct, frozen=True, gc=False, omit_defaults=True, tag="question"):
    """The question in the status that follows belongs to this step."""

    task_id: str
    context_id: str | None
    name: str


class SleepStarted(Struct, frozen=True, gc=False, omit_defaults=True, tag="sleep"):
    """The run ended, and the task sleeps until a moment."""

    task_id: str
    context_id: str | None
    wake_at: datetime


class TaskClaimed(Struct, frozen=True, gc=False, omit_defaults=True, tag="claimed"):
    """A worker took the task over from one that died, or woke it.

    It has the number that the former worker would have written next, so that nothing more of that worker is stored.
    """

    task_id: str
    context_id: str | None
    worker: str


class NoteAdded(Struct, frozen=True, gc=False, omit_defaults=True, tag="note"):
    """A program noted something about its work that A2A has no event for, such as the tokens of a model call."""

    task_id: str
    context_id: str | None
    name: str
    value: JsonObject = {}


InternalEvent: TypeAlias = (
    StepRecorded | StepProgressed | ArtifactRewound | QuestionAsked | SleepStarted | TaskClaimed | NoteAdded
)
"""No dialect streams these, and they change nothing in the task."""

TaskEvent: TypeAlias = TaskCreated | MessageAdded | StatusUpdate | ArtifactUpdate | InternalEvent
StreamEvent: TypeAlias = Task | Message | StatusUpdate | ArtifactUpdate
