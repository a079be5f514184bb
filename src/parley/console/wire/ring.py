"""The latest entries of the wire, and pages that read them, each at its own pace.

Recording never waits: a page that is too slow misses the oldest entries, and is told how many. Without readers nothing
is kept.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from parley.console.wire.entry import WireEntry

MOST_ENTRIES = 2_000
MOST_BYTES = 16 * 1024 * 1024
"""What entries hold until a page has seen them, about."""


class WireRing:
    """The entries, the oldest first. `on_readers` is called with whether there are readers, when that changes."""

    def __init__(self, on_readers: Callable[[bool], None] = lambda has_readers: None) -> None:
        self._on_readers = on_readers
        self._entries: deque[WireEntry] = deque()
        self._bytes = 0
        self._last = 0
        self._readers: set[WireReader] = set()

    def next_number(self) -> int:
        """The number of the next entry."""
        self._last += 1
        return self._last

    @property
    def last(self) -> int:
        """The number of the latest entry."""
        return self._last

    def append(self, entry: WireEntry) -> None:
        """Keep an entry until all readers have seen it, or later ones displace it."""
        self._entries.append(entry)
        self._bytes += entry.weight
        while len(self._entries) > MOST_ENTRIES or (self._bytes > MOST_BYTES and len(self._entries) > 1):
            self._bytes -= self._entries.popleft().weight
        for reader in self._readers:
            reader.wake()

    def after(self, number: int, most: int) -> tuple[list[WireEntry], int]:
        """Some entries after a number, and how many before them are gone."""
        if not self._entries or self._entries[-1].number <= number:
            return [], 0
        first = self._entries[0].number
        # Numbers have no gaps within the ring.
        skip = max(0, number + 1 - first)
        found = [self._entries[index] for index in range(skip, min(skip + most, len(self._entries)))]
        return found, max(0, first - number - 1)

    def join(self) -> WireReader:
        """A reader of what follows. It must leave."""
        reader = WireReader(self)
        self._readers.add(reader)
        if len(self._readers) == 1:
            self._on_readers(True)
        return reader

    def leave(self, reader: WireReader) -> None:
        """End a reader."""
        self._readers.discard(reader)
        if not self._readers:
            self._entries.clear()
            self._bytes = 0
            self._on_readers(False)


class WireReader:
    """A page that looks."""

    def __init__(self, ring: WireRing) -> None:
        self._ring = ring
        self._seen = ring.last
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """There is something to read."""
        self._woken.set()

    async def read(self, most: int) -> tuple[list[WireEntry], int]:
        """The next entries, up to a number of them, and how many were missed before them. Waits for the first."""
        while True:
            found, missed = self._ring.after(self._seen, most)
            if found:
                self._seen = found[-1].number
                return found, missed
            self._woken.clear()
            await self._woken.wait()

    def leave(self) -> None:
        """Read no more."""
        self._ring.leave(self)
