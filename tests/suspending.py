"""A store whose every call suspends at random places, as a store on a disk or behind a network may.

    store = suspending(MemoryStore(), Random(7))

It keeps what `parley.stores.interface` promises and nothing more. Calls that change something take their place in the
order when they are called; they take effect one after the other, and their outcomes come later. Reads take their turn
whenever they get it. The same seed suspends at the same places.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, cast

from parley.stores.interface import Store, TaskLog, Write

LONGEST_PAUSE = 4
"""The most turns of the event loop that a call waits before it takes effect, and again before its outcome is told."""

_READS = frozenset(
    {"orphaned", "configs", "count", "events", "find", "get", "has", "head", "items", "list", "list_all", "live"}
    | {"newest", "read", "undelivered", "webhooks", "workers", "workload", "backlog", "owners", "contexts", "sends"}
)


def suspending(store: Store, random: Random) -> Store:
    """A store that suspends around every call of another one, for as long as chance wants."""
    return cast("Store", _Suspending(store, random))


class _Suspending:
    def __init__(self, store: Store, random: Random) -> None:
        self._store = store
        self._random = random
        self._changes: deque[tuple[Callable[[], Awaitable[Any]], asyncio.Future[Any]]] = deque()
        self._changing: asyncio.Task[None] | None = None
        self.tasks = _SuspendingPart(self, store.tasks)
        self.sends = _SuspendingPart(self, store.sends)
        self.outbox = _SuspendingPart(self, store.outbox)
        self.contexts = _SuspendingPart(self, store.contexts)
        self.records = _SuspendingPart(self, store.records)
        self.leases = _SuspendingPart(self, store.leases)
        self.inbox = _SuspendingPart(self, store.inbox)
        self.owner_data = _SuspendingPart(self, store.owner_data)

    async def open(self) -> None:
        await self.pause()
        await self._store.open()
        await self.pause()

    async def close(self) -> None:
        """Close when everything that was called before has happened."""
        while self._changing is not None:
            await asyncio.wait({self._changing})
        await self._store.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def pause(self) -> None:
        for _ in range(self._random.randint(0, LONGEST_PAUSE)):
            await asyncio.sleep(0)

    def change(self, make: Callable[[], Awaitable[Any]]) -> asyncio.Future[Any]:
        """Put a change in line. It happens also if its caller goes away."""
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Any] = loop.create_future()
        self._changes.append((make, outcome))
        if self._changing is None:
            self._changing = loop.create_task(self._make_changes())
        return outcome

    async def _make_changes(self) -> None:
        while self._changes:
            make, outcome = self._changes.popleft()
            await self.pause()
            try:
                result = await make()
            except Exception as error:
                await self.pause()
                if not outcome.done():
                    outcome.set_exception(error)
            else:
                await self.pause()
                if not outcome.done():
                    outcome.set_result(result)
        self._changing = None


class _SuspendingPart:
    """One part of the store, each of whose calls suspends."""

    def __init__(self, whole: _Suspending, part: object) -> None:
        self._whole = whole
        self._part = part

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._part, name)
        if not inspect.iscoroutinefunction(method):
            # The `write` of tasks is not a coroutine: the call itself puts it in line.
            return self._write if name == "write" else method

        async def read(*values: Any, **named: Any) -> Any:
            await self._whole.pause()
            found = await method(*values, **named)
            await self._whole.pause()
            return found

        async def change(*values: Any, **named: Any) -> Any:
            return await self._whole.change(lambda: method(*values, **named))

        return read if name in _READS else change

    def _write(self, write: Write) -> asyncio.Future[None]:
        return self._whole.change(lambda: cast("TaskLog", self._part).write(write))
