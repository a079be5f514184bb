"""Tasks: a piece of work, its status and what it produced.

`lifecycle` has the rules for which state may follow which. Spec: 1.0 sections 4.1.1 to 4.1.3 and 4.1.7.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from parley.protocol.jsonvalue import JsonObject
from parley.protocol.messages import Message, Part


class TaskState(StrEnum):
    """The state of a task. `UNKNOWN` only comes from peers that do not know it; no task of ours is ever in it."""

    SUBMITTED = "submitted"
    WORKING = "working"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    INPUT_REQUIRED = "input-required"
    REJECTED = "rejected"
    AUTH_REQUIRED = "auth-required"
    UNKNOWN = "unknown"


class TaskStatus(Struct, frozen=True, gc=False, omit_defaults=True):
    """A state, why, and since when (always UTC)."""

    state: TaskState
    message: Message | None = None
    timestamp: datetime | None = None


class Artifact(Struct, frozen=True, gc=False, omit_defaults=True):
    """Something a task produced.

    `index` is the slot number by which 0.1 names an artifact; `None` means its position in the task.
    """

    artifact_id: str
    parts: tuple[Part, ...]
    name: str | None = None
    description: str | None = None
    metadata: JsonObject = {}
    extensions: tuple[str, ...] = ()
    index: int | None = None


class Task(Struct, frozen=True, gc=False, omit_defaults=True, tag="task"):
    """A task as its caller sees it: status, artifacts and history, oldest first."""

    id: str
    context_id: str | None
    status: TaskStatus
    artifacts: tuple[Artifact, ...] = ()
    history: tuple[Message, ...] = ()
    metadata: JsonObject = {}
