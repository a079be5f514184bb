"""A reader of a task that only folds what its stream shows, as any peer does: what does it hold in the end?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.protocol.errors import UnsupportedOperationError
from parley.protocol.events import ArtifactUpdate
from parley.protocol.messages import Part, joined
from parley.protocol.tasks import Artifact, Task

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parley.engine.reading.following import Numbered
    from parley.testing.client import AgentClient


class FoldingReader:
    """A subscriber that comes back with its cursor after every break; without one it starts with a snapshot."""

    def __init__(self, name: str, cursor: int | None) -> None:
        self.name = name
        self._cursor = cursor
        self._parts: dict[str, list[Part]] = {}

    async def read(self, client: AgentClient, task_id: str) -> None:
        """Read until the stream ends. Raises UnavailableError if it breaks."""
        try:
            async for numbered in client.follow(task_id, after=self._cursor):
                self._fold(numbered)
        except UnsupportedOperationError:  # the task has ended, and there is no cursor: read it whole
            self._replace_all((await client.get(task_id)).artifacts)

    @property
    def artifacts(self) -> dict[str, tuple[Part, ...]]:
        """What it holds of each artifact, texts that follow each other joined."""
        return {name: joined(parts) for name, parts in self._parts.items()}

    def _fold(self, numbered: Numbered) -> None:
        self._cursor, event = numbered
        if isinstance(event, Task):
            self._replace_all(event.artifacts)
        elif isinstance(event, ArtifactUpdate):
            known = self._parts.get(event.artifact.artifact_id, []) if event.append else []
            self._parts[event.artifact.artifact_id] = [*known, *event.artifact.parts]

    def _replace_all(self, artifacts: Iterable[Artifact]) -> None:
        self._parts = {artifact.artifact_id: list(artifact.parts) for artifact in artifacts}
