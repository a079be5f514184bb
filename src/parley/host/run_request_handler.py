"""Handles what other processes ask about the runs of this one: another priority, or to make room for a message.

Every process looks at the requests that are open when there is a hint, and from time to time. Of a task that a process
takes over from a dead one, it handles the requests as well.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from parley.engine.engine import Engine
from parley.host.data.run_requests import RunRequest, RunRequests
from parley.host.origin import owner_name
from parley.host.turns import Turns
from parley.protocol.errors import ParleyError
from parley.protocol.lifecycle import ends_stream
from parley.stores.interface import Owner, StoreError, TaskKey

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.5

WAIT_SECONDS = 10.0
"""How long the process that asks waits: as long as a lease, after which another process has the run."""


class RunRequestHandler:
    """The requests that concern the runs of an engine."""

    def __init__(self, requests: RunRequests, engine: Engine, turns: Turns) -> None:
        self._requests = requests
        self._engine = engine
        self._turns = turns
        self._changed = asyncio.Event()
        self._under_way: set[str] = set()

    def wake(self) -> None:
        """Look at the requests now: one was made, or one was handled."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def keep_handling(self) -> None:
        """Handle requests until this is cancelled."""
        while True:
            changed = self._changed
            try:
                for request in await self._requests.list():
                    await self._look_at(request)
            except StoreError as error:
                logger.warning("Requests of other processes could not be looked up: %s", error)
            with suppress(TimeoutError):
                async with self._engine.clock.timeout(POLL_SECONDS):
                    await changed.wait()

    async def ask(self, request: RunRequest) -> bool:
        """Ask the process that holds a task for something. Returns whether it was handled. Raises StoreError."""
        posted, clock = await self._requests.post(request), self._engine.clock
        deadline = clock.monotonic() + WAIT_SECONDS
        while await self._requests.is_open(posted):
            if clock.monotonic() > deadline:
                await self._requests.close(posted)
                return False
            changed = self._changed
            with suppress(TimeoutError):
                async with clock.timeout(POLL_SECONDS):
                    await changed.wait()
        return True

    async def _look_at(self, request: RunRequest) -> None:
        key = _key(request)
        if self._engine.runs.find(key) is not None:
            if request.id not in self._under_way:
                self._under_way.add(request.id)
                self._engine.in_background(self._handle(request))
            return
        head = await self._engine.store.tasks.head(key)
        if head is None or ends_stream(head.state):
            await self._requests.close(request)

    async def _handle(self, request: RunRequest) -> None:
        try:
            if request.kind == "interrupt":
                run = self._engine.runs.find(_key(request))
                if run is not None:
                    await self._turns.conversations.interrupt(run, request.by)
            else:
                entry = self._turns.entry(request.tenant, request.task_id)
                if entry is not None and entry.began_at is None:
                    await self._turns.set_priority(entry, request.priority, by=request.by)
            await self._requests.close(request)
        except ParleyError as error:  # it stays, and is tried again
            logger.warning("Task %s: a request of another process was not handled now: %s", request.task_id, error)
        finally:
            self._under_way.discard(request.id)


def _key(request: RunRequest) -> TaskKey:
    return TaskKey(Owner(request.tenant, owner_name(request.tenant)), request.task_id)
