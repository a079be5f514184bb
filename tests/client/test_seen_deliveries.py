"""What a receiver remembers of deliveries: bounded, and no source can use up what is kept of another."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from parley.client.webhooks.seen import Delivery, DeliveryVerdict, MemorySeen, SeenDeliveries, SqliteSeen

pytestmark = pytest.mark.anyio

NEW, REPEAT = DeliveryVerdict.NEW, DeliveryVerdict.REPEAT


def event(source: str, number: int, task: str = "t") -> Delivery:
    """An event of a Parley agent."""
    body = hashlib.sha256(f"{task}:{number}".encode()).digest()
    return Delivery(source, f"{task}:{number}", body, task, number)


def named(source: str, name: str) -> Delivery:
    """A delivery of another agent, whose ids have no meaning."""
    return Delivery(source, name, hashlib.sha256(name.encode()).digest())


async def add(seen: SeenDeliveries, *deliveries: Delivery) -> None:
    for delivery in deliveries:
        await seen.add(delivery)


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_the_deliveries_of_one_source_do_not_displace_those_of_another(kind: str, tmp_path: Path) -> None:
    """B's fifth event could not be handled and comes again: if its successors were forgotten, it would be a repeat."""
    seen = MemorySeen(max_ids=100) if kind == "memory" else SqliteSeen(tmp_path / "seen.db")
    await add(seen, *(event("B", number) for number in (3, 4, 6, 7)), named("B", "evt_1"))
    await add(seen, *(event("A", number) for number in range(500)), *(named("A", f"evt_{n}") for n in range(500)))
    assert await seen.judge(event("B", 5)) is NEW
    assert await seen.judge(event("B", 4)) is REPEAT
    assert await seen.judge(named("B", "evt_1")) is REPEAT


async def test_the_forgotten_numbers_of_one_source_do_not_displace_those_of_another() -> None:
    seen = MemorySeen(max_tasks=10, max_ids=20)
    await add(seen, *(event("B", number) for number in range(1, 31)))  # the first ten are forgotten, but for the number
    await add(seen, *(event("A", 1, f"a{task}") for task in range(200)))
    assert await seen.judge(event("B", 2)) is REPEAT


async def test_the_source_that_has_the_most_loses_its_oldest() -> None:
    seen = MemorySeen(max_ids=6)
    await add(seen, named("B", "0"), named("C", "0"), *(named("A", f"{n}") for n in range(4)))
    await add(seen, named("B", "1"), named("C", "1"))
    kept = {source: [await seen.judge(named(source, f"{n}")) is REPEAT for n in range(4)] for source in "ABC"}
    assert kept == {
        "A": [False, False, True, True],
        "B": [True, True, False, False],
        "C": [True, True, False, False],
    }


async def test_what_is_kept_of_a_source_makes_room_once_the_source_is_forgotten() -> None:
    seen = MemorySeen(max_ids=4)
    await add(seen, *(named("A", f"{n}") for n in range(4)))
    seen.forget("A")
    seen.forget("A")
    assert await seen.judge(named("A", "3")) is NEW
    await add(seen, *(named("B", f"{n}") for n in range(4)), named("A", "0"))
    assert [await seen.judge(named("B", f"{n}")) for n in range(4)] == [NEW, REPEAT, REPEAT, REPEAT]
    assert await seen.judge(named("A", "0")) is REPEAT


async def test_a_delivery_that_is_added_again_counts_once() -> None:
    seen = MemorySeen(max_ids=2)
    await add(seen, named("A", "0"), named("B", "0"), named("A", "0"), named("A", "0"))
    assert [await seen.judge(named(source, "0")) for source in "AB"] == [REPEAT, REPEAT]
