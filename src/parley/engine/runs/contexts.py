"""What an owner's conversations with an agent hold: earlier tasks, and a few values that the agent keeps for each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from parley.protocol.errors import LocalProtocolError
from parley.protocol.jsonvalue import JsonValue
from parley.stores.encoding import encode
from parley.stores.interface import ContextKey, Owner, TaskFilter

if TYPE_CHECKING:
    from parley.engine.engine import Engine
    from parley.protocol.tasks import Task

TASKS_OF_CONTEXT = 100
"""An agent that needs more of the past than this keeps its own record of it."""


class Contexts:
    """The conversations of one owner with one agent."""

    def __init__(
        self,
        engine: Engine,
        owner: Owner,
        agent: str,
        *,
        before_change: Callable[[], Awaitable[None]],
    ) -> None:
        """`before_change` returns when a change may be made: once the task that makes it is durable."""
        self._engine = engine
        self._store = engine.store
        self._owner = owner
        self._agent = agent
        self._before_change = before_change

    async def tasks_of_context(self, context_id: str) -> tuple[Task, ...]:
        """The latest tasks of a context, oldest first."""
        query = TaskFilter(agent=self._agent, context_id=context_id, limit=TASKS_OF_CONTEXT)
        found = await self._store.tasks.list(self._owner, query)
        heads = sorted(found.heads, key=lambda head: head.created_at)
        return tuple([await self._engine.views.task(head.key, self._agent) for head in heads])

    async def recall(self, context_id: str) -> dict[str, JsonValue]:
        """The values kept for a context."""
        return await self._store.contexts.get(self._key(context_id))

    async def remember(self, context_id: str, name: str, value: JsonValue) -> None:
        """Keep a value for a context; None forgets it.

        Raises:
            LocalProtocolError: the value is too large, or the context holds too much already.
        """
        await self._before_change()
        if value is not None:
            self._check_room(await self.recall(context_id), name, value)
        await self._store.contexts.put(self._key(context_id), name, value, at=self._engine.clock.now())

    def _check_room(self, kept: dict[str, JsonValue], name: str, value: JsonValue) -> None:
        limits, size = self._engine.limits, _size(name, value)
        if size > limits.context_value_bytes:
            raise LocalProtocolError(
                f"The value {name[:80]!r} for the context takes {size:,} bytes in JSON; "
                f"{limits.context_value_bytes:,} are allowed"
            )
        others = {other: other_value for other, other_value in kept.items() if other != name}
        if len(others) >= limits.context_values:
            raise LocalProtocolError(f"A context keeps {limits.context_values} values at most")
        total = size + sum(_size(other, other_value) for other, other_value in others.items())
        if total > limits.context_bytes:
            raise LocalProtocolError(
                f"With the value {name[:80]!r} the context would keep {total:,} bytes in JSON; "
                f"{limits.context_bytes:,} are allowed"
            )

    def _key(self, context_id: str) -> ContextKey:
        return ContextKey(self._owner, self._agent, context_id)


def _size(name: str, value: JsonValue) -> int:
    return len(encode({name: value}).encode())
