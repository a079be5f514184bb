"""Idempotency keys: who came first, for how long that counts, and that old ones go."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from parley.host.data.expiring import PRUNE_EVERY
from parley.host.data.idempotency import IdempotencyKeys
from tests.host.data_fixtures import ACME, OTHER, suspending_records
from tests.host.stores import MemoryStore

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


async def test_the_first_request_with_a_key_wins_for_a_day() -> None:
    keys = IdempotencyKeys(MemoryStore().records)
    assert await keys.claim(ACME, "k", "r1", NOON) == "r1"
    assert await keys.claim(ACME, "k", "r2", NOON + timedelta(hours=23, minutes=59)) == "r1"
    assert await keys.claim(OTHER, "k", "r3", NOON) == "r3"
    assert await keys.claim(ACME, "other", "r4", NOON) == "r4"
    assert await keys.claim(ACME, "k", "r5", NOON + timedelta(hours=24)) == "r5"
    assert await keys.claim(ACME, "k", "r6", NOON + timedelta(hours=25)) == "r5"


@pytest.mark.parametrize("seed", range(3))
async def test_of_many_at_the_same_time_one_wins(seed: int) -> None:
    records = suspending_records(seed)
    claims = [IdempotencyKeys(records).claim(ACME, "k", f"r{number}", NOON) for number in range(8)]
    winners = set(await asyncio.gather(*claims))
    assert len(winners) == 1
    assert await IdempotencyKeys(records).claim(ACME, "k", "late", NOON) in winners


async def test_old_keys_are_deleted_as_new_ones_come() -> None:
    records = MemoryStore().records
    keys = IdempotencyKeys(records)
    for number in range(PRUNE_EVERY - 1):
        await keys.claim(ACME, f"old {number}", "r", NOON)
    await keys.claim(OTHER, "theirs", "r", NOON)
    await keys.claim(ACME, "new", "r", NOON + timedelta(days=2))
    assert [record.key.id for record in await records.list("idempotency_keys", ACME, limit=9)] == ["new"]
    assert await records.count("idempotency_keys", OTHER) == 1
