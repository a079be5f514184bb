"""Maintenance: what is old is deleted once a minute, in a shared store by one of its workers.

The workers of a store share one record. A worker that finds it as it was a minute ago changes it, with compare-and-set,
and does the work; if another one has changed it meanwhile, that one does. So no clock is compared with another. When a
worker dies in the middle, another one goes on a minute later.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from parley.engine.retention_rules import RetentionClock, RetentionRule
from parley.stores.interface import PutRecord, RecordConflictError, RecordKey, StoreError

if TYPE_CHECKING:
    from parley.engine.engine import Engine

logger = logging.getLogger(__name__)

DELETED_AT_ONCE = 1_000
"""Old tasks deleted in one transaction, so that others get their turn in between."""

MAINTENANCE_SECONDS = 60.0
"""How often old sends and tasks are deleted."""

TURN = RecordKey("engine", "", "maintenance")
"""The record that the workers of a shared store have in common."""


class Maintenance:
    """Deletes old sends, tasks and values of conversations. Tasks are kept as long as all rules of the engine say."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._retentions = RetentionClock(engine.clock)
        self._revision = 0
        """That of the shared record, as this worker saw or left it last."""

    async def keep_deleting(self) -> None:
        """Delete what is old, from time to time."""
        while True:
            await self._engine.clock.sleep(MAINTENANCE_SECONDS)
            try:
                # Both are asked in every round, because they must see that time passes.
                sent_before = self._engine.sends.forgotten_before()
                due = self._retentions.due(self._engine.retention_rules())
                if not self._engine.store.is_shared or await self._take_turn():
                    await self._delete(sent_before, due)
            except StoreError as error:
                logger.warning("Old tasks and sends could not be deleted: %s", error)

    async def _delete(self, sent_before: datetime | None, due: Sequence[tuple[RetentionRule, datetime]]) -> None:
        store = self._engine.store
        await self._engine.credentials.delete_expired()
        if sent_before is not None:
            await store.sends.delete_before(sent_before)
        for rule, ended_before in due:
            for delete in (store.tasks.delete_finished, store.contexts.delete_unused):
                while (
                    await delete(before=ended_before, limit=DELETED_AT_ONCE, tenant=rule.tenant, agent=rule.agent)
                    == DELETED_AT_ONCE
                ):
                    pass

    async def _take_turn(self) -> bool:
        """Whether no other worker has deleted what is old since this one looked last; then this one does now."""
        if self._engine.is_draining:
            return False
        records = self._engine.store.records
        found = await records.get(TURN)
        seen, self._revision = self._revision, found.revision if found is not None else 0
        if self._revision != seen:
            return False
        try:
            await records.write(PutRecord(TURN, {"worker": self._engine.lease.worker}, expected=seen))
        except RecordConflictError:
            return False
        self._revision = seen + 1
        return True
