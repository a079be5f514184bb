"""Follows what other processes change of the records that this one keeps in memory.

A hint makes it look at once; without hints it looks from time to time, so a lost hint costs `POLL_SECONDS`. A request
for something unknown makes it look, too: what exists in the store is found whichever process has created it. However
many unknown names callers use, that is one query in `MISS_SECONDS`. A change that cannot be followed now, because the
store does not answer, is followed at the next look.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from parley.cluster.hints import AnyHint, Hints, LookHint, RecordsHint
from parley.engine.clock import Clock
from parley.host.data.change_notes import NOTED, ChangedRecords, ChangeNotes, NotedRecords, changed_records
from parley.host.data.keys import CONVERSATION_HOLDERS
from parley.stores.interface import RecordKey, StoreError

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.5
"""How often changes are looked up. What the kill switch stops must end within a second, its last steps included."""

MISS_SECONDS = 0.05
"""The shortest time between two looks for something unknown."""

EACH_AWAITED = frozenset({CONVERSATION_HOLDERS})
"""The collections in which each waiting reader is interested in one record."""

Follow: TypeAlias = Callable[[str], Awaitable[None]]
"""Reads what was changed of a tenant again."""


class ChangeFollower:
    """What one process has learnt of the others' changes.

    `followers` read the changed records of each noted collection again. `wakers` are called for hints about collections
    that are not noted, because they are read from time to time anyway: with the id of the record that has changed, or
    an empty one if it may be any of them.
    """

    def __init__(
        self,
        notes: ChangeNotes,
        records: NotedRecords,
        clock: Clock,
        *,
        followers: Mapping[str, Follow],
        wakers: Mapping[str, Callable[[str], None]],
    ) -> None:
        assert set(followers) == NOTED, "What is noted must be followed"
        self._notes = notes
        self._records = records
        self._clock = clock
        self._followers = followers
        self._wakers = wakers
        self._lock = asyncio.Lock()
        self._asked = self._answered = 0
        self._looked_at = -MISS_SECONDS
        self._pending: dict[ChangedRecords, None] = {}
        self._hinted = asyncio.Event()

    def listen(self, hints: Hints) -> Callable[[], None]:
        """Publish a hint for each change, and follow the hints of others until the returned function is called."""
        hinted = NOTED | self._wakers.keys()

        def publish(keys: Sequence[RecordKey]) -> None:
            for hint in dict.fromkeys(_hint(key) for key in keys if key.collection in hinted):
                hints.publish(hint)

        self._records.on_write = publish
        return hints.listen(self._follow_hint)

    async def begin(self) -> None:
        """Remember the changes so far, before anything is loaded. Raises StoreError."""
        await self._notes.begin()
        self._records.newest_seen = self._notes.newest

    async def keep_looking(self) -> None:
        """Look when there is a hint, and from time to time."""
        while True:
            self._hinted.clear()
            try:
                await self.look()
            except StoreError as error:
                logger.warning("What other processes have changed could not be looked up: %s", error)
            except Exception:  # the next look may succeed
                logger.exception("What other processes have changed could not be followed")
            try:
                async with self._clock.timeout(POLL_SECONDS):
                    await self._hinted.wait()
            except TimeoutError:
                pass

    async def look(self) -> None:
        """Learn of everything that was durable before this call. Raises StoreError."""
        self._asked += 1
        number = self._asked
        async with self._lock:
            if self._answered >= number:
                return  # another caller has looked since
            answered, self._looked_at = self._asked, self._clock.monotonic()
            self._pending |= dict.fromkeys(await self._notes.look())
            self._records.newest_seen = self._notes.newest
            for changed in tuple(self._pending):
                follow = self._followers.get(changed.collection)
                if follow is not None:  # a later release may note other collections
                    await follow(changed.tenant)
                del self._pending[changed]
            self._answered = answered

    async def look_for_missing(self) -> None:
        """The same for something that is not known here; a store that does not answer makes no difference."""
        called_at = self._clock.monotonic()
        wait = self._looked_at + MISS_SECONDS - called_at
        if wait > 0:
            await self._clock.sleep(wait)
        try:
            if self._looked_at > called_at:  # another caller has begun to look meanwhile
                async with self._lock:
                    return
            await self.look()
        except StoreError as error:
            logger.warning("Something unknown could not be looked up: %s", error)

    def _follow_hint(self, hint: AnyHint) -> None:
        if isinstance(hint, LookHint):
            self._hinted.set()
            for wake in self._wakers.values():
                wake("")
        elif isinstance(hint, RecordsHint):
            if hint.collection in self._wakers:
                self._wakers[hint.collection](hint.id)
            elif hint.collection in NOTED:
                self._hinted.set()


def _hint(key: RecordKey) -> RecordsHint:
    changed = changed_records(key)
    return RecordsHint(changed.collection, changed.tenant, key.id if key.collection in EACH_AWAITED else "")
