"""The conversation around a task: earlier tasks of the same context, and a small durable memory for it."""

from __future__ import annotations

from typing import Protocol

from parley.protocol.jsonvalue import JsonValue
from parley.protocol.tasks import Task


class ContextSource(Protocol):
    """Where a context's tasks and values come from; the engine gives one for the caller at hand."""

    async def tasks_of_context(self, context_id: str) -> tuple[Task, ...]:
        """The caller's tasks of a context, oldest first."""
        ...

    async def recall(self, context_id: str) -> dict[str, JsonValue]:
        """The values kept for a context."""
        ...

    async def remember(self, context_id: str, name: str, value: JsonValue) -> None:
        """Keep a value for a context; None forgets it."""
        ...


class Context:
    """One conversation of one caller."""

    def __init__(self, source: ContextSource, context_id: str, task_id: str) -> None:
        self._source = source
        self._task_id = task_id
        self.id = context_id

    async def tasks(self) -> tuple[Task, ...]:
        """The tasks of this conversation before the one at hand, oldest first."""
        return tuple(task for task in await self._source.tasks_of_context(self.id) if task.id != self._task_id)

    async def get(self, name: str, default: JsonValue = None) -> JsonValue:
        """A value kept for this conversation."""
        return (await self._source.recall(self.id)).get(name, default)

    async def set(self, name: str, value: JsonValue) -> None:
        """Keep a JSON value for this conversation; None forgets it."""
        await self._source.remember(self.id, name, value)
