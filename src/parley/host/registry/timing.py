"""When a registered agent or catalogue is checked next: at intervals, later after each failure, never all at once."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckTiming:
    """Seconds between checks, with the reason for each default."""

    agent_seconds: float = 300.0
    """Cards change when agents are deployed."""
    source_seconds: float = 900.0
    """Catalogues are larger than cards, and change less often."""
    first_retry_seconds: float = 30.0
    """After the first failure. The pause doubles with each further one."""
    longest_retry_seconds: float = 3_600.0
    poll_seconds: float = 10.0
    """How often the queue is looked at, if nothing was due."""
    spread: float = 0.2
    """The part of each pause that is random, so that checks do not come in waves."""
    random: Callable[[], float] = field(default=random.random, repr=False)

    def pause(self, kind: str, failures: int) -> timedelta:
        """The time until the next check of an agent or a source that has failed so often in a row."""
        usual = self.agent_seconds if kind == "agent" else self.source_seconds
        if failures:
            usual = min(self.first_retry_seconds * 2 ** min(failures - 1, 20), self.longest_retry_seconds)
        return timedelta(seconds=usual * (1 - self.spread / 2 + self.spread * self.random()))
