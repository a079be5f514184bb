"""What a simulated worker uses: a handle on the store that can be paused, cut off and slow, and hints that get lost."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from random import Random
from typing import Any

from parley.cluster.hints import LocalHints, SentHint
from parley.stores.interface import Store, StoreUnavailableError, Write

PARTS = ("tasks", "sends", "outbox", "contexts", "records", "leases", "inbox")


class PausableStore:
    """A handle whose calls neither begin nor return while its worker is paused; none works once the worker died.

    While the store is away, leases cannot be read or renewed, and all other calls wait.
    """

    def __init__(
        self, store: Store, misjudge: Callable[[frozenset[str]], frozenset[str]], latency: Callable[[], int]
    ) -> None:
        """`misjudge` is what the worker believes of live workers; `latency` gives the rounds that a write takes."""
        self.is_paused = self.is_dead = self.is_failing = self.is_away = False
        self._woken = asyncio.Event()
        self._back = asyncio.Event()
        self._store = store
        self._misjudge = misjudge
        self._latency = latency
        self._last: asyncio.Task[Any] | None = None
        for part in PARTS:
            setattr(self, part, _PausablePart(self, getattr(store, part)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def pause(self) -> None:
        self.is_paused = True
        self._woken.clear()

    def wake(self) -> None:
        self.is_paused = False
        self._woken.set()

    def go_away(self) -> None:
        self.is_away = True
        self._back.clear()

    def come_back(self) -> None:
        self.is_away = False
        self._back.set()

    async def passed(self, *, is_lease: bool = False) -> None:
        while self.is_paused or (self.is_away and not is_lease):
            await (self._woken if self.is_paused else self._back).wait()
        if self.is_dead or self.is_failing or self.is_away:
            raise StoreUnavailableError("The process is dead, or cannot reach the store")

    async def call(self, part: Any, name: str, *values: Any, **named: Any) -> Any:
        is_lease = part is self._store.leases
        await self.passed(is_lease=is_lease)
        result = await getattr(part, name)(*values, **named)
        await self.passed(is_lease=is_lease)
        return self._misjudge(result) if name == "live" else result

    def write(self, tasks: Any, write: Write) -> asyncio.Future[None]:
        """Write behind all writes before; a worker that died never hears of the outcome."""
        before = self._last
        outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def do() -> None:
            try:
                if before is not None:
                    await asyncio.wait({before})
                for _ in range(self._latency()):
                    await asyncio.sleep(0)
                await self.passed()
                await tasks.write(write)
                await self.passed()
            except Exception as error:
                if outcome.done():
                    return
                if self.is_dead:
                    outcome.cancel()
                else:
                    outcome.set_exception(error)
            else:
                if not outcome.done():
                    outcome.set_result(None)

        self._last = asyncio.get_running_loop().create_task(do())
        return outcome


class _PausablePart:
    def __init__(self, handle: PausableStore, part: Any) -> None:
        self._handle = handle
        self._part = part

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._part, name)
        if inspect.iscoroutinefunction(method):
            return lambda *values, **named: self._handle.call(self._part, name, *values, **named)
        if name == "write":  # of tasks: the call itself puts it in line
            return lambda write: self._handle.write(self._part, write)
        return method


class LossyHints(LocalHints):
    """Hints that get lost, come twice, or come late."""

    def __init__(self, random: Random, lost: float) -> None:
        super().__init__()
        self._random = random
        self._lost = lost
        self._late: list[SentHint] = []

    def publish(self, hint: SentHint) -> None:
        if self._random.random() < self._lost:
            return
        match self._random.randrange(10):
            case 0:
                self._late.append(hint)
            case 1:
                super().publish(hint)
                super().publish(hint)
            case _:
                super().publish(hint)

    def deliver_late(self) -> None:
        """Let the hints that are late arrive."""
        late, self._late = self._late, []
        for hint in late:
            super().publish(hint)
