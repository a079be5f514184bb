"""Sharing: which of the tasks without a live worker this worker claims now, and which it leaves to others for a moment.

Every worker prefers a share of them, by the task's id and the names of the live workers. So those of a dead worker are
spread, and workers that look at the same moment do not compete for the same task. A preference only delays: what
another worker has not claimed after a pause is claimed here, some at a time. Where there are more tasks than room,
there is no preference, and the oldest tasks come first. The fence of the store decides who may write, not this module.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from zlib import crc32

from msgspec import Struct

from parley.stores.interface import TaskHead, TaskKey

WAITING_PAUSE = 0.03
"""Seconds that a waiting task is left to the worker that prefers it: about ten times what claiming one takes."""

ORPHANED_PAUSE = 0.5
"""The same for tasks of a dead worker. There may be a thousand, and workers look for dead ones twice a second."""

ROUND_SECONDS = 0.1
"""The pause between two rounds in which tasks that others have left are claimed."""

LEAST_PER_ROUND = 10
"""Tasks that others have left of which this many are claimed at once; of more, a half."""

FORGOTTEN_AFTER = 10.0
"""Seconds after which a task that was left to others, and was not seen again, is forgotten."""


class _Left(Struct):
    """A task that was left to others: when it was seen first and last."""

    first: float
    last: float


class Share(Struct, frozen=True):
    """What a worker claims of some tasks, and in how many seconds it looks for the rest; None: there is none."""

    heads: Sequence[TaskHead]
    look_in: float | None = None


class Sharing:
    """The share of one worker."""

    def __init__(self, worker: str, jitter: Callable[[], float]) -> None:
        """`jitter` gives numbers from 0 to 1."""
        self._worker = worker
        self._jitter = jitter
        self._left: dict[TaskKey, _Left] = {}

    def prefers(self, key: TaskKey, live: frozenset[str]) -> bool:
        """Whether a task is first of all for this worker, of those that are alive."""
        workers = sorted(live | {self._worker})
        return workers[crc32(key.task_id.encode()) % len(workers)] == self._worker

    def choose(
        self, heads: Sequence[TaskHead], live: frozenset[str], *, room: Callable[[str], int], now: float
    ) -> Share:
        """What to claim now of tasks that no live worker holds, the oldest first; `room` is that of an agent."""
        if not live - {self._worker}:
            return Share(heads)
        number = Counter([head.agent for head in heads])
        scarce = {agent for agent, wanted in number.items() if wanted > room(agent)}
        own = {head.key for head in heads if head.agent in scarce or self.prefers(head.key, live)}
        others = [head for head in heads if head.key not in own]
        left, waits = list[TaskHead](), list[float]()
        for head in others:
            seconds = self._seconds_left(head, now)
            if seconds <= 0:
                left.append(head)
            else:
                waits.append(seconds * (1 + self._jitter() / 2))
        taken = {head.key for head in self._some(left)}
        if len(taken) < len(left):
            waits.append(ROUND_SECONDS * (0.5 + self._jitter()))
        self._forget(now)
        return Share([head for head in heads if head.key in own or head.key in taken], min(waits, default=None))

    def _seconds_left(self, head: TaskHead, now: float) -> float:
        """How much longer a task is left to others."""
        left = self._left.setdefault(head.key, _Left(now, now))
        left.last = now
        return left.first + (ORPHANED_PAUSE if head.holder else WAITING_PAUSE) - now

    def _some(self, heads: Sequence[TaskHead]) -> Sequence[TaskHead]:
        """Half of some tasks, drawn at random, because other workers draw as well."""
        most = max(LEAST_PER_ROUND, (len(heads) + 1) // 2)
        if len(heads) <= most:
            return heads
        drawn = sorted([(self._jitter(), place) for place in range(len(heads))])
        return [heads[place] for _, place in drawn[:most]]

    def _forget(self, now: float) -> None:
        for key in [key for key, left in self._left.items() if left.last < now - FORGOTTEN_AFTER]:
            del self._left[key]
