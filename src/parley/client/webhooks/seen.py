"""Which deliveries were handled before, within a bound, so that a repeat is not handled again.

A delivery is known by its id. An id that comes again with another body is refused. The numbers of
Parley's agents do not tell more: an event that was given up is sent again after later ones were handled. But memory,
which forgets ids, keeps the highest number that it has forgotten of a task; what is not above it is a repeat.
`source` keeps senders apart: above a bound of memory, the source of which the most is kept loses its oldest.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

V = TypeVar("V")

MAX_TASKS = 10_000
"""Tasks of which a forgotten number is remembered, of all sources; the least recent one is dropped first."""

MAX_IDS = 100_000
"""Deliveries whose bodies are remembered, of all sources: more than a sender makes within the minutes for which a proof
is accepted."""

KEPT_SECONDS = 14 * 24 * 3600.0
"""How long a file remembers: senders repeat for days."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery that can be recognised: its sender, its id, the digest of its body, and its task's event."""

    source: str
    id: str
    digest: bytes
    task_id: str | None = None
    number: int | None = None

    @property
    def stream(self) -> tuple[str, str]:
        """What is handled one after the other: the events of a task in one version, or the attempts of a delivery."""
        return (self.source, f"task {self.id.rpartition(':')[0]}" if self.number is not None else f"id {self.id}")


class DeliveryVerdict(Enum):
    """Whether a delivery is to be handled."""

    NEW = "new"
    REPEAT = "repeat"
    CONFLICT = "another body under the same id"


class SeenDeliveries(Protocol):
    """Remembers deliveries that were handled."""

    async def judge(self, delivery: Delivery) -> DeliveryVerdict:
        """Whether a delivery is new."""
        ...

    async def add(self, delivery: Delivery) -> None:
        """Remember a delivery that was handled."""
        ...


class _Handled(NamedTuple):
    """What is remembered of a delivery: nothing of a length that its sender chooses."""

    body: bytes
    stream: bytes
    number: int | None


class _Shares(Generic[V]):
    """Values by source and key. Above the bound, the source that has the most loses its oldest."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._size = 0
        self._by_source: dict[str, OrderedDict[bytes, V]] = {}
        self._by_count: dict[int, OrderedDict[str, None]] = {}
        """The sources that have so many values: finding the one with the most must not cost a look at all sources."""
        self._highest = 0

    def get(self, source: str, key: bytes) -> V | None:
        """The value of a key."""
        values = self._by_source.get(source)
        return None if values is None else values.get(key)

    def put(self, source: str, key: bytes, value: V) -> tuple[str, V] | None:
        """Keep a value as the latest of its source; what is dropped for it, and of which source."""
        values = self._by_source.setdefault(source, OrderedDict())
        before = len(values)
        values[key] = value
        values.move_to_end(key)
        self._recount(source, before)
        if self._size <= self._bound:
            return None
        largest = next(iter(self._by_count[self._highest]))
        values = self._by_source[largest]
        _, dropped = values.popitem(last=False)
        self._recount(largest, len(values) + 1)
        return largest, dropped

    def forget(self, source: str) -> None:
        """Drop all values of a source."""
        values = self._by_source.get(source)
        if values is not None:
            before = len(values)
            values.clear()
            self._recount(source, before)

    def _recount(self, source: str, before: int) -> None:
        after = len(self._by_source[source])
        if after == before:
            return
        self._size += after - before
        if before:
            del self._by_count[before][source]
            if not self._by_count[before]:
                del self._by_count[before]
        if after:
            self._by_count.setdefault(after, OrderedDict())[source] = None
        else:
            del self._by_source[source]
        self._highest = max(self._highest, after)
        while self._highest and self._highest not in self._by_count:  # it has grown one by one, too
            self._highest -= 1


class MemorySeen:
    """In memory, some 500 bytes for each: a restart forgets them. It may be used in several threads."""

    def __init__(self, *, max_tasks: int = MAX_TASKS, max_ids: int = MAX_IDS) -> None:
        self._handled: _Shares[_Handled] = _Shares(max_ids)
        self._forgotten: _Shares[int] = _Shares(max_tasks)
        self._lock = threading.Lock()

    async def judge(self, delivery: Delivery) -> DeliveryVerdict:
        """Whether a delivery is new."""
        with self._lock:
            known = self._handled.get(delivery.source, _short(delivery.id))
            if known is not None:
                return _compare(delivery, known.body)
            if delivery.number is None:
                return DeliveryVerdict.NEW
            stream = _short(*delivery.stream)
            highest = self._forgotten.get(delivery.source, stream)
            if highest is None:
                return DeliveryVerdict.NEW
            self._forgotten.put(delivery.source, stream, highest)  # it is the latest now
            return DeliveryVerdict.REPEAT if delivery.number <= highest else DeliveryVerdict.NEW

    async def add(self, delivery: Delivery) -> None:
        """Remember a delivery. Above the bound, the source of which the most is kept loses its oldest."""
        handled = _Handled(delivery.digest, _short(*delivery.stream), delivery.number)
        with self._lock:
            dropped = self._handled.put(delivery.source, _short(delivery.id), handled)
            if dropped is None:
                return
            source, oldest = dropped
            if oldest.number is not None:
                highest = self._forgotten.get(source, oldest.stream) or 0
                self._forgotten.put(source, oldest.stream, max(oldest.number, highest))

    def forget(self, source: str) -> None:
        """Forget the deliveries of a source that notifies no more."""
        with self._lock:
            self._handled.forget(source)
            self._forgotten.forget(source)


class SqliteSeen:
    """In a file, which survives a restart: `SqliteSeen("seen.db")`.

    Several processes may share it. Two that get the same delivery at the same moment may both handle it.
    """

    def __init__(
        self, path: str | Path, *, kept_seconds: float = KEPT_SECONDS, now: Callable[[], float] = time.time
    ) -> None:
        """Raises sqlite3.Error if the file cannot be opened."""
        self._kept_seconds = kept_seconds
        self._now = now
        self._lock = asyncio.Lock()
        self._file = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._file.execute("PRAGMA journal_mode = WAL")
        self._file.execute(
            "CREATE TABLE IF NOT EXISTS seen (source TEXT, id TEXT, digest BLOB NOT NULL, at REAL NOT NULL,"
            " PRIMARY KEY (source, id)) WITHOUT ROWID"
        )
        self._file.execute("CREATE INDEX IF NOT EXISTS seen_times ON seen (at)")

    async def judge(self, delivery: Delivery) -> DeliveryVerdict:
        """Whether a delivery is new."""
        async with self._lock:
            return await asyncio.to_thread(self._judge, delivery)

    async def add(self, delivery: Delivery) -> None:
        """Remember a delivery, and forget those that are old. It is on the disk when this returns."""
        async with self._lock:
            await asyncio.to_thread(self._add, delivery)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _judge(self, delivery: Delivery) -> DeliveryVerdict:
        statement = "SELECT digest FROM seen WHERE source = ? AND id = ?"
        row = self._file.execute(statement, (delivery.source, delivery.id)).fetchone()
        return DeliveryVerdict.NEW if row is None else _compare(delivery, row[0])

    def _add(self, delivery: Delivery) -> None:
        now = self._now()
        row = (delivery.source, delivery.id, delivery.digest, now)
        self._file.execute("INSERT OR REPLACE INTO seen VALUES (?, ?, ?, ?)", row)
        self._file.execute("DELETE FROM seen WHERE at < ?", (now - self._kept_seconds,))


def _short(*names: str) -> bytes:
    """Names in few bytes, so that no two lists of names have the same."""
    return hashlib.sha256(json.dumps(names).encode()).digest()


def _compare(delivery: Delivery, digest: bytes) -> DeliveryVerdict:
    return DeliveryVerdict.REPEAT if digest == delivery.digest else DeliveryVerdict.CONFLICT
