"""What a framework knows of a conversation: a large value, which a task reads when it begins and replaces at its end.

A task goes on with the value that it began with, however often its handler begins again and whatever other tasks of the
conversation save meanwhile. So the name of that value is recorded as a step, and the value is held until the task is
over. The newest value is the one that was saved last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.protocol.errors import LocalProtocolError
from parley.protocol.jsonvalue import JsonValue
from parley.protocol.lifecycle import is_terminal
from parley.stores.encoding import encode
from parley.stores.interface import CONVERSATION, ContextKey, TaskKey

if TYPE_CHECKING:
    from parley.engine.runs.run import Run

LOADED = "parley:conversation"
"""The name of the step that records which value a task began with."""

SAVED = f"{CONVERSATION}saved "
"""The names of values begin so, followed by a number that grows, and the task that saved it."""

HELD = f"{CONVERSATION}held "
"""The names of marks begin so, followed by a task that may need the value that its mark names."""


class ConversationTooLargeError(LocalProtocolError):
    """What is to be kept of a conversation exceeds the limit."""


class KeptConversation:
    """What is kept of a conversation, for the task of one run."""

    def __init__(self, run: Run, key: ContextKey) -> None:
        self._run = run
        self._key = key
        self._contexts = run.engine.store.contexts

    async def load(self) -> JsonValue:
        """What the conversation knew when this task began; None if nothing was saved before."""
        loaded = await self._run.steps.take(LOADED, self._hold_newest)
        return await self._contexts.value(self._key, loaded) if isinstance(loaded, str) else None

    async def _hold_newest(self) -> JsonValue:
        newest = max(await self._names(SAVED), default=None)
        if newest is not None:
            await self._put(HELD + self._run.key.task_id, newest)
        return newest

    async def save(self, value: JsonValue) -> None:
        """Keep what the next task of the conversation is to know.

        Raises:
            ConversationTooLargeError: the value is too large; nothing is changed.
        """
        size, most = len(encode(value).encode()), self._run.engine.limits.conversation_bytes
        if size > most:
            raise ConversationTooLargeError(f"The conversation takes {size:,} bytes in JSON; {most:,} are allowed.")
        await self._run.prepare_effect()
        older = await self._names(SAVED)
        number = max((int(name.removeprefix(SAVED).split(" ")[0]) for name in older), default=0) + 1
        await self._put(f"{SAVED}{number:010d} {self._run.key.task_id}", value)
        held = await self._held()
        for name in older:
            if name not in held:
                await self._put(name, None)

    async def _held(self) -> set[JsonValue]:
        """The values that tasks may need which are not over; the marks of other tasks are removed."""
        held: set[JsonValue] = set()
        for mark in await self._names(HELD):
            task = TaskKey(self._key.owner, mark.removeprefix(HELD))
            head = await self._run.engine.store.tasks.head(task)
            if head is None or is_terminal(head.state):
                await self._put(mark, None)
            else:
                held.add(str(await self._contexts.value(self._key, mark)))
        return held

    async def _names(self, prefix: str) -> list[str]:
        return [name for name in await self._contexts.conversations(self._key) if name.startswith(prefix)]

    async def _put(self, name: str, value: JsonValue) -> None:
        await self._contexts.put(self._key, name, value, at=self._run.engine.clock.now())
