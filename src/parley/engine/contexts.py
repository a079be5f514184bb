"""What an owner's conversations hold: earlier tasks, and a few values that an agent keeps for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.protocol.errors import LocalProtocolError
from parley.protocol.jsonvalue import JsonValue
from parley.stores.interface import Owner, TaskFilter, TaskLog

if TYPE_CHECKING:
    from parley.engine.views import Views
    from parley.protocol.tasks import Task

TASKS_OF_CONTEXT = 100
"""An agent that needs more of the past than this keeps its own record of it."""

VALUES_OF_CONTEXT = 100
"""A memory for a conversation, not a database."""


class Contexts:
    """The conversations of one owner."""

    def __init__(self, log: TaskLog, views: Views, owner: Owner) -> None:
        self._log = log
        self._views = views
        self._owner = owner

    async def tasks_of_context(self, context_id: str) -> tuple[Task, ...]:
        """The latest tasks of a context, oldest first."""
        found = await self._log.list(self._owner, TaskFilter(context_id=context_id, limit=TASKS_OF_CONTEXT))
        heads = sorted(found.heads, key=lambda head: head.created_at)
        return tuple([await self._views.task(head.key) for head in heads])

    async def recall(self, context_id: str) -> dict[str, JsonValue]:
        """The values kept for a context."""
        return await self._log.recall(self._owner, context_id)

    async def remember(self, context_id: str, name: str, value: JsonValue) -> None:
        """Keep a value for a context; None forgets it.

        Raises:
            LocalProtocolError: the context holds too many values already.
        """
        kept = await self.recall(context_id)
        if value is not None and name not in kept and len(kept) >= VALUES_OF_CONTEXT:
            raise LocalProtocolError(f"A context keeps {VALUES_OF_CONTEXT} values at most")
        await self._log.remember(self._owner, context_id, name, value)
