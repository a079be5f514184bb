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
from parley.stores.encoding import decode_value, encode
from parley.stores.interface import CONVERSATION, ContextKey, TaskKey

if TYPE_CHECKING:
    from parley.engine.runs.run import Run

LOADED = "parley:conversation"
"""The name of the step that records which value a task began with."""

SAVED = f"{CONVERSATION}saved "
"""The names of values begin so, followed by a number that grows, and the task that saved it. They are JSON as text: a
store need not look into them."""

HELD = f"{CONVERSATION}held "
"""The names of marks begin so, followed by a task that may need the value that its mark names."""


class ConversationTooLargeError(LocalProtocolError):
    """What is to be kept of a conversation exceeds the limit."""


MARKS_AT_ONCE = 50
"""Marks that a task looks at when it begins, and again when it ends, to remove those of tasks that are over. Each task
adds one, so there are never many for long."""


class KeptConversation:
    """What is kept of a conversation, for the task of one run."""

    def __init__(self, run: Run, key: ContextKey) -> None:
        self._run = run
        self._key = key
        self._contexts = run.engine.store.contexts

    async def load(self) -> JsonValue:
        """What the conversation knew when this task began; None if nothing was saved before."""
        loaded = await self._run.steps.take(LOADED, self._hold_newest)
        text = await self._contexts.value(self._key, loaded) if isinstance(loaded, str) else None
        return decode_value(text) if isinstance(text, str) else None

    async def _hold_newest(self) -> JsonValue:
        await self._drop_marks()
        while (newest := max(await self._names(SAVED), default=None)) is not None:
            await self._put(HELD + self._run.key.task_id, newest)
            if newest in await self._names(SAVED):  # else another task has deleted it before it was held
                break
        return newest

    async def save(self, value: JsonValue) -> None:
        """Keep what the next task of the conversation is to know.

        Raises:
            ConversationTooLargeError: the value is too large; nothing is changed.
        """
        text, most = encode(value), self._run.engine.limits.conversation_bytes
        if len(text) > most or len(text.encode()) > most:
            raise ConversationTooLargeError(
                f"The conversation takes {len(text.encode()):,} bytes in JSON; {most:,} are allowed."
            )
        await self._run.prepare_effect()
        older = await self._names(SAVED)
        number = max((int(name.removeprefix(SAVED).split(" ")[0]) for name in older), default=0) + 1
        await self._put(f"{SAVED}{number:010d} {self._run.key.task_id}", text)
        await self._drop_marks()
        for name in older:
            await self._contexts.delete_unmarked(self._key, name, marks=HELD)

    async def _drop_marks(self) -> None:
        """Remove marks of tasks that are over, and so need their values no more."""
        for mark in (await self._names(HELD))[:MARKS_AT_ONCE]:
            head = await self._run.engine.store.tasks.head(TaskKey(self._key.owner, mark.removeprefix(HELD)))
            if head is None or is_terminal(head.state):
                await self._put(mark, None)

    async def _names(self, prefix: str) -> list[str]:
        return [name for name in await self._contexts.conversations(self._key) if name.startswith(prefix)]

    async def _put(self, name: str, value: JsonValue) -> None:
        await self._contexts.put(self._key, name, value, at=self._run.engine.clock.now())
