"""The conversation around a task: earlier tasks of the same context, and a few values that the agent keeps for it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from parley.engine.runs.conversations import KeptConversation
from parley.protocol.errors import LocalProtocolError
from parley.protocol.extensions import DELEGATION
from parley.protocol.jsonvalue import JsonValue
from parley.stores.encoding import encode
from parley.stores.interface import ContextKey, TaskFilter

if TYPE_CHECKING:
    from parley.engine.runs.run import Run
    from parley.protocol.tasks import Task

TASKS_OF_CONTEXT = 100
"""An agent that needs more of the past than this keeps its own record of it."""


REMOTE = f"{DELEGATION} "
"""Values with this prefix are the contexts of this conversation at other agents. They do not count as values of the
author."""

REMOTE_CONTEXT_CHARACTERS = 1_000
"""A longer context id is not kept. Agents use UUIDs."""


class Context:
    """One conversation of one caller with one agent."""

    def __init__(self, run: Run) -> None:
        self.id = run.context_id
        self._run = run
        self._engine = run.engine
        self._key = ContextKey(run.key.owner, run.program.id, run.context_id)

    async def tasks(self) -> tuple[Task, ...]:
        """The latest tasks of this conversation before the current one, oldest first."""
        agent = self._key.agent
        query = TaskFilter(agent=agent, context_id=self.id, limit=TASKS_OF_CONTEXT)
        found = await self._engine.store.tasks.list(self._key.owner, query)
        keys = [head.key for head in sorted(found.heads, key=lambda head: head.created_at)]
        return tuple([await self._engine.views.task(key, agent) for key in keys if key != self._run.key])

    async def get(self, name: str, default: JsonValue = None) -> JsonValue:
        """A value kept for this conversation."""
        return (await self._engine.store.contexts.get(self._key)).get(name, default)

    async def set(self, name: str, value: JsonValue) -> None:
        """Keep a JSON value for this conversation; None deletes it. This waits until the task is durable.

        Raises:
            LocalProtocolError: the value is too large, or the conversation holds too much already.
        """
        await self._run.prepare_effect()
        if value is not None:
            self._check_room(await self._engine.store.contexts.get(self._key), name, value)
        await self._engine.store.contexts.put(self._key, name, value, at=self._engine.clock.now())

    @property
    def conversation(self) -> KeptConversation:
        """What a framework knows of this conversation."""
        return KeptConversation(self._run, self._key)

    async def remote(self, agent: str) -> str | None:
        """The context in which this conversation continues at another agent."""
        kept = (await self._engine.store.contexts.get(self._key)).get(_remote_name(agent))
        return kept if isinstance(kept, str) else None

    async def keep_remote(self, agent: str, context_id: str) -> None:
        """Keep the context of this conversation at another agent, unless there are too many of them."""
        kept = await self._engine.store.contexts.get(self._key)
        name = _remote_name(agent)
        others = [other for other in kept if other.startswith(REMOTE) and other != name]
        if kept.get(name) == context_id or len(others) >= self._engine.limits.context_values:
            return
        if len(context_id) <= REMOTE_CONTEXT_CHARACTERS:
            await self._engine.store.contexts.put(self._key, name, context_id, at=self._engine.clock.now())

    def _check_room(self, kept: dict[str, JsonValue], name: str, value: JsonValue) -> None:
        limits, size = self._engine.limits, _size(name, value)
        if size > limits.context_value_bytes:
            raise LocalProtocolError(
                f"The value {name[:80]!r} for the context takes {size:,} bytes in JSON; "
                f"{limits.context_value_bytes:,} are allowed"
            )
        others = {
            other: other_value for other, other_value in kept.items() if other != name and not other.startswith(REMOTE)
        }
        if len(others) >= limits.context_values:
            raise LocalProtocolError(f"A context keeps {limits.context_values} values at most")
        total = size + sum(_size(other, other_value) for other, other_value in others.items())
        if total > limits.context_bytes:
            raise LocalProtocolError(
                f"With the value {name[:80]!r} the context would keep {total:,} bytes in JSON; "
                f"{limits.context_bytes:,} are allowed"
            )


def _remote_name(agent: str) -> str:
    return REMOTE + hashlib.blake2b(agent.encode(), digest_size=16).hexdigest()


def _size(name: str, value: JsonValue) -> int:
    return len(encode({name: value}).encode())
