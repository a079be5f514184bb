"""Which tasks change: one poll of the store for all pages that look at the tasks of the same owners.

A poll reads the heads with the newest status, about once a second, and at once when a run of this process has written
something. What has changed is kept with a number, so that a page which is slow gets the last state of each task, and
the memory is bounded. Nothing is polled while no page looks.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime

from parley.console.api.errors import ConsoleError
from parley.console.backend import OwnerFilter
from parley.engine.engine import Engine
from parley.protocol.errors import UnavailableError
from parley.stores.interface import StoreError, TaskFilter, TaskHead, TaskKey

POLL_SECONDS = 1.0
LOOK_SECONDS = 0.1
"""How often the runs of this process are looked at, which costs no read of the store."""

WINDOW = 200
MOST_PAGES = 10
"""Of the window: so many tasks may get a new status between two polls."""

CHANGES_KEPT = 5_000

FAILURES_ALLOWED = 5
"""Polls in a row that may fail before pages are told."""


class LiveHeads:
    """The changes of the tasks of some owners, while it has readers."""

    def __init__(self, engine: Engine, owners: OwnerFilter) -> None:
        self._engine = engine
        self._owners = owners
        self._known: dict[TaskKey, TaskHead] = {}
        """The newest heads, as the last poll found them."""
        self._changes: OrderedDict[TaskKey, tuple[int, TaskHead | None]] = OrderedDict()
        self._forgotten = 0
        """The number of the last change that is not kept any more."""
        self.number = 0
        """The number of the last change."""
        self._waiting: set[asyncio.Future[None]] = set()
        self._failures = 0
        self._task: asyncio.Task[None] | None = None
        self.readers = 0

    # --- for readers --------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Read the present heads, so that later changes are known as such, and begin to poll."""
        if self._task is None:
            await self._poll()
            if self._task is None:
                self._task = asyncio.create_task(self._keep_polling())

    def stop(self) -> None:
        """Poll no longer."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def wait(self, after: int) -> None:
        """Return when there are changes after a number. Raises UnavailableError while the store cannot be read."""
        while self.number <= after:
            if self._failures > FAILURES_ALLOWED:
                raise UnavailableError("The tasks cannot be read now")
            future = asyncio.get_running_loop().create_future()
            self._waiting.add(future)
            try:
                await future
            finally:
                self._waiting.discard(future)

    def since(self, after: int) -> dict[TaskKey, TaskHead | None]:
        """The tasks that have changed after a number, each as it is now; None for those that were deleted.

        Raises:
            ConsoleError: too much has changed; the reader must begin again.
        """
        if after < self._forgotten:
            raise ConsoleError("unavailable", "Too many tasks have changed; open the list again")
        found: dict[TaskKey, TaskHead | None] = {}
        for key, (number, head) in reversed(self._changes.items()):
            if number <= after:
                break
            found[key] = head
        return found

    # --- polling ------------------------------------------------------------------------------------------------------

    async def _keep_polling(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            before, until = self._runs_at_work(), loop.time() + POLL_SECONDS
            while loop.time() < until and self._runs_at_work() == before:
                await asyncio.sleep(LOOK_SECONDS)
            try:
                await self._poll()
                self._failures = 0
            except StoreError:
                self._failures += 1
                self._wake()

    def _runs_at_work(self) -> tuple[int, int]:
        """Something that differs when a run of this process has begun, ended or written."""
        runs = self._engine.runs.all
        return len(runs), sum([run.seq for run in runs])

    async def _poll(self) -> None:
        window: dict[TaskKey, TaskHead] = {}
        after: tuple[datetime, str] | None = None
        is_whole = False
        for _ in range(MOST_PAGES):
            heads = await self._engine.store.tasks.list_all(
                TaskFilter(after=after, limit=WINDOW), tenant=self._owners.tenant, name=self._owners.name
            )
            window.update({head.key: head for head in heads})
            is_whole = len(heads) < WINDOW
            if is_whole or not self._known or any(self._known.get(head.key) == head for head in heads):
                break
            after = (heads[-1].status_at, heads[-1].key.task_id)
        is_first, number = self._task is None and not self._known, self.number
        if not is_first:
            for key, head in reversed(window.items()):
                if self._known.get(key) != head:
                    self._note(key, head)
            self._note_deleted(window, is_whole=is_whole)
        self._known = window
        if self.number != number:
            self._wake()

    def _note_deleted(self, window: dict[TaskKey, TaskHead], *, is_whole: bool) -> None:
        """A task that is missing although it would be in the window was deleted."""
        last = min([head.status_at for head in window.values()], default=None)
        for key, head in self._known.items():
            if key not in window and (is_whole or (last is not None and head.status_at > last)):
                self._note(key, None)

    def _note(self, key: TaskKey, head: TaskHead | None) -> None:
        self.number += 1
        self._changes.pop(key, None)
        self._changes[key] = (self.number, head)
        if len(self._changes) > CHANGES_KEPT:
            _, (self._forgotten, _) = self._changes.popitem(last=False)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)


class LiveTasks:
    """The polls of a console, one for each set of owners that is looked at."""

    def __init__(self, _: object = None) -> None:
        self._live: dict[OwnerFilter, LiveHeads] = {}

    @asynccontextmanager
    async def of(self, engine: Engine, owners: OwnerFilter) -> AsyncGenerator[LiveHeads]:
        """The changes of the tasks of some owners, which are polled within the block."""
        live = self._live.get(owners)
        if live is None:
            live = self._live[owners] = LiveHeads(engine, owners)
        live.readers += 1
        try:
            await live.start()
            yield live
        finally:
            live.readers -= 1
            if not live.readers:
                live.stop()
                self._live.pop(owners, None)

    def close(self) -> None:
        """Stop all polls."""
        for live in self._live.values():
            live.stop()
        self._live.clear()
