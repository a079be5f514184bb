"""Structured memory: entries, links, searching, and what a repeated step must not do twice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from parley.host.constitution import MemorySettings
from parley.host.data import memory as bounds
from parley.host.data import memory_links
from parley.host.data.memory import Memory
from parley.host.data.memory_entry import (
    InvalidMemoryError,
    LinkExistsError,
    MemoryEntry,
    MemoryEntryNotFoundError,
    MemoryFullError,
    MemoryLink,
)
from parley.host.data.memory_graph import Density
from parley.host.data.memory_search import MemoryHit, SearchPreferences
from parley.host.data.storage import StorageFullError, tenant_bytes
from parley.testing.clock import FakeClock
from tests.host.data_fixtures import ACME, OTHER, suspending_records
from tests.host.stores import MemoryStore

pytestmark = pytest.mark.anyio

NOON = 1_767_225_600


async def add(memory: Memory, title: str, content: str = "body", **members: Any) -> int:
    entry = await memory.add(ACME, **{"type": "project", "title": title, "content": content, **members})
    return entry.id


def ids(found: Sequence[MemoryEntry] | Sequence[MemoryHit]) -> list[int]:
    return [one.entry.id if isinstance(one, MemoryHit) else one.id for one in found]


async def test_an_entry_is_kept_as_it_was_added() -> None:
    memory = Memory(MemoryStore().records, FakeClock())
    entry = await memory.add(
        ACME,
        type="reference",
        title=" Prices ",
        content="10 EUR",
        source="page",
        tags=["eur"],
        artifact_id=4,
        conversation_id=7,
    )
    assert entry == await memory.get(ACME, 1)
    assert entry == MemoryEntry(
        id=1,
        type="reference",
        title="Prices",
        content="10 EUR",
        source="page",
        tags=("eur",),
        artifact_id=4,
        conversation_id=7,
        valid_from=NOON,
        created_at=NOON,
        updated_at=NOON,
    )


async def test_tenants_do_not_see_one_another() -> None:
    memory = Memory(MemoryStore().records, FakeClock())
    first, second = await add(memory, "secret plan"), await add(memory, "other")
    await memory.add_link(ACME, first, relation="supports", target_id=second)
    assert (await memory.list(OTHER), await memory.search(OTHER, "secret"), await memory.links(OTHER, 1)) == (
        (),
        [],
        [],
    )
    for hidden in (
        memory.get(OTHER, 1),
        memory.invalidate(OTHER, 1),
        memory.delete(OTHER, 1),
        memory.expand(OTHER, 1),
        memory.density(OTHER, 1),
        memory.add_link(OTHER, 1, relation="refines", target_id=2),
        memory.add(OTHER, type="user", title="x", supersedes=[1]),
    ):
        with pytest.raises(MemoryEntryNotFoundError):
            await hidden
    assert ids(await memory.list(ACME)) == [2, 1]


async def test_entries_are_listed_newest_first_by_type_and_tag() -> None:
    memory = Memory(MemoryStore().records, FakeClock())
    for number in range(60):  # more than one page of the store
        await add(
            memory, f"entry {number}", type="user" if number % 2 else "context", tags=["odd"] if number % 2 else []
        )
    assert ids(await memory.list(ACME, limit=3)) == [60, 59, 58]
    assert ids(await memory.list(ACME, types=["context"], before_id=5)) == [3, 1]
    assert len(await memory.list(ACME, types=["user", "context"], tag="odd")) == 30
    with pytest.raises(InvalidMemoryError, match=r"^\$\.type"):
        await memory.list(ACME, types=["gossip"])


async def test_an_invalidated_entry_is_hidden_but_was_valid_then() -> None:
    clock = FakeClock()
    memory = Memory(MemoryStore().records, clock)
    await add(memory, "dark mode")
    await clock.advance(10)
    invalidated = await memory.invalidate(ACME, 1)
    assert (invalidated.valid_from, invalidated.valid_to) == (NOON, NOON + 10)
    with pytest.raises(MemoryEntryNotFoundError):
        await memory.get(ACME, 1)
    with pytest.raises(MemoryEntryNotFoundError):
        await memory.invalidate(ACME, 1)
    assert (await memory.list(ACME), await memory.search(ACME, "dark")) == ((), [])
    assert await memory.get(ACME, 1, include_invalid=True) == invalidated
    assert ids(await memory.list(ACME, as_of=NOON + 9)) == [1]
    assert [await memory.list(ACME, as_of=moment) for moment in (NOON - 1, NOON + 10)] == [(), ()]


async def test_a_new_entry_supersedes_others_in_the_same_step() -> None:
    memory = Memory(MemoryStore().records, FakeClock())
    await add(memory, "sushi")
    await add(memory, "pizza")
    with pytest.raises(MemoryEntryNotFoundError):
        await add(memory, "pasta", supersedes=[1, 99])
    assert ids(await memory.list(ACME)) == [2, 1]
    new = await add(memory, "pasta", supersedes=[1, 2, 1])
    assert ids(await memory.list(ACME)) == [new]
    links = await memory.links(ACME, new)
    assert [(link.source_id, link.relation, link.target_id) for link in links] == [
        (new, "supersedes", 1),
        (new, "supersedes", 2),
    ]


async def test_words_in_titles_and_tags_and_rare_words_count_most() -> None:
    memory = Memory(MemoryStore().records, FakeClock())
    in_content = await add(memory, "notes", "the rollout of honeycomb")
    in_title = await add(memory, "Honeycomb", "a plan")
    in_tags = await add(memory, "vendors", "some of them", tags=["honeycomb"])
    await add(memory, "unrelated", "the bees, honeycombs and more")
    assert ids(await memory.search(ACME, "honeycomb?")) == [in_title, in_tags, in_content]
    assert ids(await memory.search(ACME, "the ROLLOUT"))[0] == in_content
    assert ids(await memory.search(ACME, "honeycomb", limit=1)) == [in_title]
    await memory.invalidate(ACME, in_title)
    assert ids(await memory.search(ACME, "honeycomb", limit=1)) == [in_tags]
    for nothing in ("", "?!", "absent"):
        assert await memory.search(ACME, nothing) == []


async def test_entries_that_fit_equally_come_newest_first() -> None:
    memory = Memory(MemoryStore().records, FakeClock())
    for _ in range(3):
        await add(memory, "same")
    assert ids(await memory.search(ACME, "same")) == [3, 2, 1]


async def test_a_score_is_halved_with_each_half_life_down_to_the_floor() -> None:
    clock = FakeClock()
    memory = Memory(MemoryStore().records, clock)
    await add(memory, "plan")

    async def score(settings: MemorySettings) -> float:
        (hit,) = await memory.search(ACME, "plan", preferences=SearchPreferences(settings=settings))
        return hit.score

    fresh = await score(MemorySettings())
    await clock.advance(180 * 86_400)
    assert await score(MemorySettings()) == pytest.approx(fresh / 2)
    assert await score(MemorySettings(age_floor=0.1)) == pytest.approx(fresh / 4)
    assert await score(MemorySettings(age_decay=False)) == pytest.approx(fresh)


async def test_entries_of_the_conversation_and_of_expected_types_come_first() -> None:
    memory = Memory(MemoryStore().records, FakeClock())
    far = await add(memory, "plan plan", conversation_id=8)
    near = await add(memory, "a longer text about the plan of all", conversation_id=7)
    typed = await add(memory, "another text about the plan of all", type="learning", conversation_id=8)
    assert ids(await memory.search(ACME, "plan"))[0] == far
    local = await memory.search(ACME, "plan", preferences=SearchPreferences(conversation_id=7))
    assert ids(local) == [near, far, typed]
    boosted = SearchPreferences(types=("learning",))
    scores = {hit.entry.id: hit.score for hit in await memory.search(ACME, "plan", preferences=boosted)}
    plain = {hit.entry.id: hit.score for hit in await memory.search(ACME, "plan")}
    assert scores == {**plain, typed: pytest.approx(plain[typed] * 1.3)}


async def test_links_lead_to_the_entries_around_one() -> None:
    memory = Memory(MemoryStore().records, FakeClock())
    for title in ("root", "child", "parent", "grandchild", "far", "gone"):
        await add(memory, title)
    for source, relation, target in (
        (1, "refines", 2),
        (3, "supports", 1),
        (2, "relates_to", 4),
        (4, "relates_to", 5),
        (1, "relates_to", 6),
        (2, "contradicts", 1),
    ):
        await memory.add_link(ACME, source, relation=relation, target_id=target)
    await memory.invalidate(ACME, 6)
    near = await memory.expand(ACME, 1)
    assert [(one.entry.id, one.depth) for one in near.entries] == [(1, 0), (2, 1), (3, 1)]
    assert [one.link and one.link.relation for one in near.entries] == [None, "refines", "supports"]
    wide = await memory.expand(ACME, 1, depth=9)
    assert ([(one.entry.id, one.depth) for one in wide.entries], wide.is_complete) == (
        [(1, 0), (2, 1), (3, 1), (4, 2)],
        True,
    )
    assert await memory.density(ACME, 1) == Density(
        incoming=2, outgoing=1, relations=("contradicts", "refines", "supports"), reach=3
    )


async def test_an_expansion_is_bounded() -> None:
    memory = Memory(MemoryStore().records, FakeClock())
    for number in range(60):
        await add(memory, f"entry {number}")
    for number in range(2, 61):
        await memory.add_link(ACME, 1, relation="relates_to", target_id=number)
    around = await memory.expand(ACME, 1)
    assert (len(around.entries), around.is_complete) == (50, False)
    assert (await memory.density(ACME, 1)).reach == 59


async def test_a_link_that_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory(MemoryStore().records, FakeClock())
    for title in ("a", "b", "c"):
        await add(memory, title)
    link = await memory.add_link(ACME, 1, relation="supports", target_id=2)
    with pytest.raises(LinkExistsError) as exists:
        await memory.add_link(ACME, 1, relation="supports", target_id=2)
    assert exists.value.existing == link
    await memory.add_link(ACME, 2, relation="supports", target_id=1)
    with pytest.raises(InvalidMemoryError, match=r"^\$\.relation"):
        await memory.add_link(ACME, 1, relation="likes", target_id=2)
    with pytest.raises(InvalidMemoryError, match=r"^\$\.target_id"):
        await memory.add_link(ACME, 1, relation="supports", target_id=1)
    with pytest.raises(MemoryEntryNotFoundError):
        await memory.add_link(ACME, 1, relation="supports", target_id=99)
    monkeypatch.setattr(memory_links, "MAX_LINKS", 2)
    with pytest.raises(MemoryFullError):
        await memory.add_link(ACME, 3, relation="supports", target_id=1)
    assert (len(await memory.links(ACME, 1)), await memory.links(ACME, 3)) == (2, [])


async def test_a_deleted_entry_takes_its_links_and_its_bytes_along() -> None:
    records = MemoryStore().records
    memory = Memory(records, FakeClock())
    await add(memory, "a", "1234", source="s", tags=["é"])
    assert await tenant_bytes(records, ACME) == 8
    await add(memory, "b", "")
    await memory.add_link(ACME, 1, relation="supports", target_id=2)
    await memory.delete(ACME, 1)
    assert (await memory.links(ACME, 2), await tenant_bytes(records, ACME)) == ([], 1)
    with pytest.raises(MemoryEntryNotFoundError):
        await memory.get(ACME, 1, include_invalid=True)


@pytest.mark.parametrize(
    ("members", "path"),
    [
        ({"type": "gossip"}, "$.type"),
        ({"title": " "}, "$.title"),
        ({"title": "x" * 201}, "$.title"),
        ({"content": "é" * 32_769}, "$.content"),
        ({"source": "x" * 201}, "$.source"),
        ({"tags": ["x"] * 33}, "$.tags"),
        ({"tags": ["x" * 65]}, "$.tags"),
        ({"tags": [""]}, "$.tags"),
        ({"content": "\ud800"}, "$"),
    ],
)
async def test_an_entry_that_is_not_valid_is_refused_with_its_path(members: dict[str, Any], path: str) -> None:
    memory = Memory(MemoryStore().records, FakeClock())
    with pytest.raises(InvalidMemoryError) as refused:
        await add(memory, **{"title": "a", **members})
    assert (refused.value.path, await memory.list(ACME)) == (path, ())


async def test_a_tenant_has_so_many_entries_and_bytes_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory(suspending_records(6), FakeClock())
    monkeypatch.setattr(bounds, "MAX_ENTRIES", 3)
    outcomes = await asyncio.gather(*(add(memory, f"entry {n}") for n in range(6)), return_exceptions=True)
    assert sum(isinstance(outcome, MemoryFullError) for outcome in outcomes) == 3
    await memory.delete(ACME, 1)
    with pytest.raises(StorageFullError):
        await add(memory, "a", quota=10)
    await add(memory, "a")


async def test_a_repeated_step_changes_nothing_and_returns_the_same() -> None:
    clock = FakeClock()
    memory = Memory(MemoryStore().records, clock)

    async def steps() -> list[Any]:
        return [
            await memory.add(ACME, type="user", title="one", key="1"),
            await memory.add(ACME, type="user", title="two", supersedes=[1], key="2"),
            await memory.add(ACME, type="user", title="three", key="3"),
            await memory.add_link(ACME, 2, relation="supports", target_id=3, key="4"),
            await memory.invalidate(ACME, 3, key="5"),
            await memory.scratchpads.append(ACME, "a", "line", key="6"),
            await memory.scratchpads.clear(ACME, "a", key="7"),
            await memory.scratchpads.append(ACME, "a", "later", key="8"),
        ]

    first = await steps()
    await clock.advance(86_400)
    repeated = await steps()
    assert [one.id if isinstance(one, MemoryEntry) else one for one in repeated] == [
        one.id if isinstance(one, MemoryEntry) else one for one in first
    ]
    assert (ids(await memory.list(ACME)), await memory.scratchpads.read(ACME, "a")) == ([2], "later\n")
    await memory.delete(ACME, 3)
    with pytest.raises(MemoryEntryNotFoundError):
        await memory.add_link(ACME, 2, relation="supports", target_id=3, key="4")


async def test_a_key_counts_for_one_kind_of_write() -> None:
    memory = Memory(MemoryStore().records, FakeClock())
    await add(memory, "one", key="step")
    await memory.scratchpads.append(ACME, "a", "line", key="step")
    await memory.scratchpads.append(ACME, None, "line", key="step")
    await memory.invalidate(ACME, 1, key="step")
    assert (await memory.list(ACME), await memory.scratchpads.read(ACME, None)) == ((), "line\n")


async def test_the_same_key_at_the_same_time_happens_once() -> None:
    records, clock = suspending_records(7), FakeClock()
    here, there = Memory(records, clock), Memory(records, clock)
    first, second = await asyncio.gather(
        *(each.add(ACME, type="user", title="one", key="step") for each in (here, there))
    )
    assert first == second
    assert await here.list(ACME) == (first,)


async def test_two_processes_add_a_link_once() -> None:
    records, clock = suspending_records(10), FakeClock()
    here, there = Memory(records, clock), Memory(records, clock)
    for title in ("a", "b"):
        await add(here, title)
    outcomes = await asyncio.gather(
        *(each.add_link(ACME, 1, relation="refines", target_id=2) for each in (here, there)), return_exceptions=True
    )
    assert sum(isinstance(outcome, LinkExistsError) for outcome in outcomes) == 1
    assert (
        await here.links(ACME, 1)
        == await here.links(ACME, 2)
        == [one for one in outcomes if isinstance(one, MemoryLink)]
    )
