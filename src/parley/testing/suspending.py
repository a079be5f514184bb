"""A store whose every call suspends at random places, as a store on a disk or behind a network may.

    log = suspending(MemoryTaskLog(), Random(7))

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

from parley.stores.interface import TaskLog, Write

LONGEST_PAUSE = 4
"""The most turns of the event loop that a call waits before it takes effect, and again before its outcome is told."""

_READS = frozenset(
    {
        "events",
        "find_send",
        "head",
        "list",
        "push_configs",
        "recall",
        "task",
        "undelivered",
        "unfinished",
        "webhooks",
    }
)


def suspending(log: TaskLog, random: Random) -> TaskLog:
    """A store that suspends around every call of another one, for as long as chance wants."""
    return cast("TaskLog", _Suspending(log, random))


class _Suspending:
    def __init__(self, log: TaskLog, random: Random) -> None:
        self._log = log
        self._random = random
        self._changes: deque[tuple[Callable[[], Awaitable[Any]], asyncio.Future[Any]]] = deque()
        self._changing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        await self._pause()
        await self._log.open()
        await self._pause()

    async def close(self) -> None:
        """Close when everything that was called before has happened."""
        while self._changing is not None:
            await asyncio.wait({self._changing})
        await self._log.close()

    def write(self, write: Write) -> asyncio.Future[None]:
        return self._change(lambda: self._log.write(write))

    def __getattr__(self, name: str) -> Any:
        """Another method of the store, made to suspend; what is not a coroutine is passed on as it is."""
        method = getattr(self._log, name)
        if not inspect.iscoroutinefunction(method):
            return method

        async def read(*values: Any, **named: Any) -> Any:
            await self._pause()
            found = await method(*values, **named)
            await self._pause()
            return found

        async def change(*values: Any, **named: Any) -> Any:
            return await self._change(lambda: method(*values, **named))

        return read if name in _READS else change

    async def _pause(self) -> None:
        for _ in range(self._random.randint(0, LONGEST_PAUSE)):
            await asyncio.sleep(0)

    def _change(self, make: Callable[[], Awaitable[Any]]) -> asyncio.Future[Any]:
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
            await self._pause()
            try:
                result = await make()
            except Exception as error:
                await self._pause()
                if not outcome.done():
                    outcome.set_exception(error)
            else:
                await self._pause()
                if not outcome.done():
                    outcome.set_result(result)
        self._changing = None
