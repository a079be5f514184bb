"""The events of a task's life, and which of them a stream shows.

A task's log is a sequence of `TaskEvent`; folding it with `lifecycle.apply` gives the task. A stream carries
`StreamEvent`: the snapshot it starts with (a `Task`), or a lone `Message`, then updates.
Spec: 1.0 sections 4.2.1 and 4.2.2.
"""

from __future__ import annotations

from typing import TypeAlias

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


class StepRecorded(Struct, frozen=True, gc=False, omit_defaults=True, tag="step"):
    """The outcome of a step that must not be taken twice. No dialect streams it, and it changes nothing in the task."""

    task_id: str
    context_id: str | None
    name: str
    value: JsonValue
    number: int = 0


class TaskClaimed(Struct, frozen=True, gc=False, omit_defaults=True, tag="claimed"):
    """A worker took the task over from one that died. No dialect streams it, and it changes nothing in the task.

    It has the number that the former worker would have written next, so that nothing more of that worker is stored.
    """

    task_id: str
    context_id: str | None
    worker: str


TaskEvent: TypeAlias = TaskCreated | MessageAdded | StatusUpdate | ArtifactUpdate | StepRecorded | TaskClaimed
StreamEvent: TypeAlias = Task | Message | StatusUpdate | ArtifactUpdate
