"""A store in front of another one that a simulated crash of its process cuts off: from then on it takes no writes.

A crash comes right after a chosen write, whose outcome the process never learns, or right before it, so that the write
is lost. A write is one append to a task's log, one value of a conversation, one write of records, or one number of a
series.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Literal, TypeAlias, TypeVar

from parley.protocol.jsonvalue import JsonValue
from parley.stores.interface import ContextKey, ContextValues, RecordChange, Records, Store, TaskLog, Write

T = TypeVar("T")

Cut: TypeAlias = Literal["before", "after"] | None
"""Whether the process crashes right before a write, right after it, or not there."""
Decide: TypeAlias = Callable[[Write | str], Cut]
"""Where to crash: it is asked about each write.

For a value of a conversation it gets the name of the value, for records the collection of the first one, and for a
number the name of the series.
"""


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
        self.records = _CrashingRecords(self, store.records)

    def crash_at(self, write: Write | str) -> Cut:
        """Where the process crashes around this write; if at all, nothing after it is taken."""
        cut = self.decide(write)
        if cut is not None:
            self.has_crashed = True
            self.crashed.set()
        return cut

    async def change(self, name: str, make: Callable[[], Awaitable[T]]) -> T:
        """Make a change, unless the crash came before; around a crash this never returns."""
        cut = None if self.has_crashed else self.crash_at(name)
        if not self.has_crashed or cut == "after":
            made = await make()
            if not self.has_crashed:
                return made
        return await asyncio.get_running_loop().create_future()

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
        """Keep a value, unless the crash came before."""
        await self._store.change(name, lambda: self._contexts.put(context, name, value, at=at))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._contexts, name)


class _CrashingRecords:
    def __init__(self, store: CrashingStore, records: Records) -> None:
        self._store = store
        self._records = records

    async def write(self, *changes: RecordChange) -> None:
        """Make changes, unless the crash came before."""
        name = changes[0].key.collection if changes else ""
        await self._store.change(name, lambda: self._records.write(*changes))

    async def next_number(self, name: str, tenant: str, *, after: int = 0) -> int:
        """Take a number, unless the crash came before."""
        return await self._store.change(name, lambda: self._records.next_number(name, tenant, after=after))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._records, name)
