"""A store in front of another one that a simulated crash of its process cuts off: from then on it takes no writes.

A crash comes right after a chosen write, whose outcome the process never learns, or right before it, so that the write
is lost. A write is one append to a task's log, or one value of a conversation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal, TypeAlias

from parley.protocol.jsonvalue import JsonValue
from parley.stores.interface import ContextKey, ContextValues, Store, TaskLog, Write

Cut: TypeAlias = Literal["before", "after"] | None
"""Whether the process crashes right before a write, right after it, or not there."""
Decide: TypeAlias = Callable[[Write | str], Cut]
"""Where to crash: it is asked about each write, and gets the name of a conversation's value for one of those."""


class CrashingStore:
    """A store that takes no writes after a simulated crash."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.has_crashed = False
        self.crashed = asyncio.Event()
        """Set when a write was reached at which `decide` wants a crash."""
        self.decide: Decide = lambda write: None
        self.tasks = _CrashingTasks(self, store.tasks)
        self.contexts = _CrashingContexts(self, store.contexts)

    def crash_at(self, write: Write | str) -> Cut:
        """Where the process crashes around this write; if at all, nothing after it is taken."""
        cut = self.decide(write)
        if cut is not None:
            self.has_crashed = True
            self.crashed.set()
        return cut

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class _CrashingTasks:
    def __init__(self, store: CrashingStore, tasks: TaskLog) -> None:
        self._store = store
        self._tasks = tasks

    def write(self, write: Write) -> asyncio.Future[None]:
        """Write, unless the crash came before. If it comes while writing, the outcome is not reported."""
        outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._store.has_crashed or self._store.crash_at(write) == "before":
            outcome.cancel()
            return outcome
        writing = asyncio.ensure_future(self._tasks.write(write))
        writing.add_done_callback(lambda done: self._pass_on(done, outcome))
        return outcome

    def _pass_on(self, done: asyncio.Future[None], outcome: asyncio.Future[None]) -> None:
        error = done.exception()
        if outcome.done():
            return
        if self._store.has_crashed:
            outcome.cancel()
        elif error is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tasks, name)


class _CrashingContexts:
    def __init__(self, store: CrashingStore, contexts: ContextValues) -> None:
        self._store = store
        self._contexts = contexts

    async def put(self, context: ContextKey, name: str, value: JsonValue, *, at: datetime) -> None:
        """Keep a value, unless the crash came before; around a crash this never returns."""
        cut = None if self._store.has_crashed else self._store.crash_at(name)
        if not self._store.has_crashed or cut == "after":
            await self._contexts.put(context, name, value, at=at)
        if self._store.has_crashed:
            await asyncio.get_running_loop().create_future()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._contexts, name)
