"""Whether a store takes writes: known from recent writes, or else found out with a small write.

If a write has just succeeded, the store takes writes, so a busy server needs no extra write. A server that was idle for
a while, or whose last write was refused, creates a task that belongs to no caller and deletes it again. This is the
same path to the disk that every other write takes.
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
"""How long a successful write shows that the next one would succeed. Load balancers ask about as often."""

PROBE_PAUSE_SECONDS = 1.0
"""Between two attempts at a store that refuses: a question that comes sooner gets the last answer."""

PROBE_SECONDS = 2.0
"""How long an attempt may take. Most probes give up after one to five seconds."""

logger = logging.getLogger(__name__)

_KEY = TaskKey(Owner("", "parley:readiness"), "readiness")


class StoreProblem(Struct, frozen=True):
    """Why nothing can be written, in a text that may be public, and since when."""

    text: str
    since: datetime


class StoreHealth:
    """What is known about whether a store takes writes."""

    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        self._store = store
        self._clock: Clock = clock or SystemClock()
        self._accepted_at = float("-inf")
        self._probed_at = float("-inf")
        self._refused_since: datetime | None = None
        self._probing: asyncio.Task[None] | None = None

    def accepted(self) -> None:
        """Note that a write succeeded."""
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
        """Cancel a running attempt."""
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
