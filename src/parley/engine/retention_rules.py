"""Which finished tasks are deleted, and when: a rule for all, rules of agents, and rules of tenants.

Every rule stands for itself, so of several that apply to a task the shortest wins: what one of them promises to delete
is deleted, whatever the others allow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from parley.engine.clock import Clock
from parley.engine.retention import Retention


class RetentionRule(Struct, frozen=True):
    """How long finished tasks are kept: of one tenant, of one agent, or of all."""

    kept: timedelta
    tenant: str | None = None
    agent: str | None = None


class RetentionClock:
    """Says which moment each rule has come to. A rule that is new, or was changed, begins to count when it is seen."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._retentions: dict[RetentionRule, Retention] = {}

    def due(self, rules: Iterable[RetentionRule]) -> Sequence[tuple[RetentionRule, datetime]]:
        """Each rule with the moment before which everything may be forgotten. Call it regularly, with all rules."""
        current = dict.fromkeys(rules)
        self._retentions = {rule: self._retentions.get(rule) or Retention(rule.kept, self._clock) for rule in current}
        moments = [(rule, retention.forgotten_before()) for rule, retention in self._retentions.items()]
        return [(rule, moment) for rule, moment in moments if moment is not None]
