"""What is known of a task, to tell what is new in a whole task that an executor enqueues.

Executors enqueue a task to begin, often the one that they were given, and some enqueue it again whenever it changes.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import structs

from parley.protocol.events import ArtifactUpdate, StatusUpdate
from parley.protocol.lifecycle import fold
from parley.protocol.messages import Message, joined
from parley.protocol.tasks import Artifact, Task, TaskState, TaskStatus

ExecutorEvent: TypeAlias = ArtifactUpdate | StatusUpdate | Message


class KnownTask:
    """A task as an executor was given it, None for a new one, and what it has said since."""

    def __init__(self, given: Task | None) -> None:
        task = given or Task("", None, TaskStatus(TaskState.SUBMITTED))
        self._task = structs.replace(task, status=TaskStatus(TaskState.WORKING))
        self._chunks: list[ArtifactUpdate] = []
        """What has come since `_task` was folded."""
        self._statuses = [(task.status.state, task.status.message)]

    def note(self, event: ExecutorEvent) -> None:
        """Take an event for known."""
        match event:
            case ArtifactUpdate():
                self._chunks.append(event)
            case StatusUpdate(status=status):
                self._statuses.append((status.state, status.message))
            case Message():
                pass

    def updates_to(self, task: Task) -> list[ExecutorEvent]:
        """What is new in a task: artifacts, the status and metadata."""
        self._task = fold(self._task, (structs.replace(chunk, task_id=self._task.id) for chunk in self._chunks))
        self._chunks.clear()
        known = [_comparable(artifact) for artifact in self._task.artifacts]
        artifacts = [artifact for artifact in task.artifacts if _comparable(artifact) not in known]
        is_known = (task.status.state, task.status.message) in self._statuses
        status = TaskStatus(TaskState.WORKING) if is_known else task.status
        return [
            *(ArtifactUpdate(task.id, task.context_id, artifact, last_chunk=True) for artifact in artifacts),
            StatusUpdate(task.id, task.context_id, status, task.metadata),
        ]


def _comparable(artifact: Artifact) -> Artifact:
    return structs.replace(artifact, parts=joined(artifact.parts), index=None)
