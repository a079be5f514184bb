"""Whether a store takes writes: what those who write have found out, and a small write where that is not known now.

A write that went well a moment ago is proof enough, so that a busy server writes nothing to answer. One that has idled
for a while, or whose last write was refused, creates a task that belongs to no caller and deletes it again: the way of
every other write, to the disk and back.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import datetime

from msgspec import Struct

from parley.engine.clock import Clock, SystemClock
from parley.protocol.events import TaskCreated
from parley.protocol.tasks import TaskState, TaskStatus
from parley.protocol.versions import Version
from parley.stores.interface import ConflictError, NewTask, Owner, Store, TaskKey, Write

FRESH_SECONDS = 10.0
"""How long a write that went well proves that the next one would. Load balancers ask about as often."""

PROBE_PAUSE_SECONDS = 1.0
"""Between two attempts at a store that refuses: a question that comes sooner gets the last answer."""

PROBE_SECONDS = 2.0
"""How long an attempt may take. Most probes give up after one to five seconds."""

logger = logging.getLogger(__name__)

_KEY = TaskKey(Owner("", "parley:readiness"), "readiness")


class StoreProblem(Struct, frozen=True):
    """Why nothing can be written, in words that may be public, and since when."""

    text: str
    since: datetime


class StoreHealth:
    """What is known of a store's willingness to write."""

    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        self._store = store
        self._clock: Clock = clock or SystemClock()
        self._accepted_at = float("-inf")
        self._probed_at = float("-inf")
        self._refused_since: datetime | None = None
        self._probing: asyncio.Task[None] | None = None

    def accepted(self) -> None:
        """Note that a write went well."""
        self._accepted_at = self._clock.monotonic()
        self._refused_since = None

    def refused(self) -> None:
        """Note that the store refused a write."""
        if self._refused_since is None:
            self._refused_since = self._clock.now()

    async def problem(self) -> StoreProblem | None:
        """Why the store refuses writes; None if it takes them."""
        if self._must_probe():
            self._probed_at = self._clock.monotonic()
            self._probing = asyncio.create_task(self._probe())
        if self._probing is not None:
            await asyncio.wait({self._probing}, timeout=PROBE_SECONDS)
            if not self._probing.done():
                self.refused()
        text = self._store.problem()
        if text is not None:
            self.refused()
        if self._refused_since is None:
            return None
        return StoreProblem(text or "The store refuses writes; the log says why.", self._refused_since)

    def close(self) -> None:
        """Give up an attempt that is under way."""
        if self._probing is not None:
            self._probing.cancel()

    def _must_probe(self) -> bool:
        if self._probing is not None and not self._probing.done():
            return False
        now = self._clock.monotonic()
        if self._refused_since is not None:
            return now - self._probed_at >= PROBE_PAUSE_SECONDS
        return now - self._accepted_at >= FRESH_SECONDS

    async def _probe(self) -> None:
        now = self._clock.now()
        created = TaskCreated(_KEY.task_id, None, TaskStatus(TaskState.COMPLETED, None, now))
        new = NewTask(agent="", context_id="", created_in=Version.V1_0, created_at=now)
        try:
            with suppress(ConflictError):  # a process may have ended before it could delete it
                await self._store.tasks.write(Write(_KEY, 0, (created,), TaskState.COMPLETED, now, new=new))
            await self._store.tasks.delete(_KEY)
        except Exception as error:  # of whatever kind: a store that fails takes no writes
            if self._refused_since is None:
                logger.error("The store refused a write: %s", error)
            self.refused()
        else:
            self.accepted()
