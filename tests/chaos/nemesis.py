"""The nemesis: injects faults one after the other, in an order and at times that follow from a seed.

Each kind comes once before any comes again. The next fault begins when the one before is healed, so that no two of them
together can stop the cluster for good. Every fault is in the log, with its times.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator, Sequence
from random import Random

from msgspec import Struct

from tests.chaos.cluster import Cluster
from tests.chaos.faults import FAULTS
from tests.chaos.history import now

logger = logging.getLogger(__name__)


class InjectedFault(Struct, frozen=True):
    """One fault that was injected, and healed.

    `victim` is the process that it killed or froze, if it did. `trouble` says what did not go as it should, such as a
    replica that did not end. `is_void` says that it did nothing.
    """

    kind: str
    begun: float
    healed: float
    what: str
    victim: int = 0
    trouble: str = ""
    is_void: bool = False


class Nemesis:
    """Injects faults into a cluster."""

    def __init__(self, cluster: Cluster, *, seed: int, kinds: Sequence[str] = tuple(FAULTS)) -> None:
        self.log: list[InjectedFault] = []
        self._cluster = cluster
        self._seed = seed
        self._random = Random(f"{seed} nemesis")
        self._kinds = kinds

    @property
    def injected(self) -> int:
        """How many faults did something."""
        return sum(not fault.is_void for fault in self.log)

    async def inject_until(
        self,
        deadline: float,
        *,
        pauses: tuple[float, float] = (0.5, 3.0),
        least: int = 0,
        most: int = 10_000,
        last_deadline: float | None = None,
    ) -> None:
        """Inject faults, with pauses between them, until a moment or up to a number of them.

        If there are fewer than `least` at that moment, go on until there are, or until `last_deadline`.
        """
        for kind in self._kinds_in_turn():
            await asyncio.sleep(self._random.uniform(*pauses))
            is_late = now() >= deadline and (self.injected >= least or last_deadline is None or now() >= last_deadline)
            if is_late or self.injected >= most:
                return
            await self._inject(kind)

    async def _inject(self, kind: str) -> None:
        begun = now()
        # Its own numbers: how many of them a fault uses may depend on what it finds.
        struck = await FAULTS[kind](self._cluster, Random(f"{self._seed} fault {len(self.log)}"))
        fault = InjectedFault(kind, begun, now(), struck.what, struck.victim, struck.trouble, struck.is_void)
        self.log.append(fault)
        logger.info("%5.1f s  %s: %s%s", now() - begun, kind, struck.what, " (does not count)" if fault.is_void else "")

    def _kinds_in_turn(self) -> Generator[str]:
        while True:
            yield from self._random.sample(self._kinds, len(self._kinds))
