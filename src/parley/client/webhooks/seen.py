"""Which deliveries were handled before, within a bound, so that a repeat is not handled again.

A delivery is known by its id. An id that comes again with another body is refused. The numbers of
Parley's agents do not tell more: an event that was given up is sent again after later ones were handled. But memory,
which forgets ids, keeps the highest number that it has forgotten of a task; what is not above it is a repeat.
`source` keeps senders apart, so that none can use up the ids of another.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple, Protocol

MAX_TASKS = 10_000
"""Tasks of which a forgotten number is remembered; the least recent one is dropped first."""

MAX_IDS = 100_000
"""Deliveries whose bodies are remembered: more than a sender makes within the minutes for which a proof is accepted."""

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


class MemorySeen:
    """In memory, some 500 bytes for each: a restart forgets them."""

    def __init__(self, *, max_tasks: int = MAX_TASKS, max_ids: int = MAX_IDS) -> None:
        self._max_tasks = max_tasks
        self._max_ids = max_ids
        self._handled: OrderedDict[bytes, _Handled] = OrderedDict()
        self._forgotten: OrderedDict[bytes, int] = OrderedDict()

    async def judge(self, delivery: Delivery) -> DeliveryVerdict:
        """Whether a delivery is new."""
        known = self._handled.get(_short(delivery.source, delivery.id))
        if known is not None:
            return _compare(delivery, known.body)
        stream = _short(*delivery.stream)
        if delivery.number is None or stream not in self._forgotten:
            return DeliveryVerdict.NEW
        self._forgotten.move_to_end(stream)
        is_repeat = delivery.number <= self._forgotten[stream]
        return DeliveryVerdict.REPEAT if is_repeat else DeliveryVerdict.NEW

    async def add(self, delivery: Delivery) -> None:
        """Remember a delivery, and forget the oldest above the bounds."""
        handled = _Handled(delivery.digest, _short(*delivery.stream), delivery.number)
        self._handled[_short(delivery.source, delivery.id)] = handled
        if len(self._handled) <= self._max_ids:
            return
        _, oldest = self._handled.popitem(last=False)
        if oldest.number is None:
            return
        self._forgotten[oldest.stream] = max(oldest.number, self._forgotten.get(oldest.stream, 0))
        self._forgotten.move_to_end(oldest.stream)
        if len(self._forgotten) > self._max_tasks:
            self._forgotten.popitem(last=False)


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
