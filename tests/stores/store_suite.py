"""The suite that every store must pass: each test is one sentence of `parley.stores.interface`.

A store's own tests derive from it and say how the store is made. Calling the function again must give a store over the
same data: for a durable store another object on the same file or server, for one in memory the same object.

    class TestMyStore(StoreSuite):
        @pytest.fixture
        def make_store(self, tmp_path):
            return lambda: MyStore(tmp_path / "tasks.db")

What happens between workers is in `shared_store_suite`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import pytest
from msgspec import structs

from parley.protocol.events import ArtifactUpdate
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.lifecycle import fold
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.push import PushAuthentication, PushConfig
from parley.protocol.tasks import Artifact, Task, TaskState, TaskStatus
from parley.protocol.versions import Version
from parley.stores.interface import (
    CONVERSATION,
    ConflictError,
    ContextKey,
    DeadLetter,
    DeleteRecord,
    DeliveryFailure,
    NewTask,
    Owner,
    PutRecord,
    Record,
    RecordChange,
    RecordConflictError,
    RecordKey,
    SendKey,
    SendRecord,
    Store,
    StoredEvent,
    StoredTask,
    StoreError,
    TaskFilter,
    TaskHead,
    Webhook,
    Write,
)
from parley.stores.interface import TaskKey as Key
from parley.stores.interface.delivery_state import MAX_DEAD_LETTERS
from tests.stores.writes import (
    ADA,
    ADA_ELSEWHERE,
    BOB,
    CONTEXT,
    EVERYTHING,
    KEY,
    NEW,
    NOON,
    SEND,
    STRANGERS,
    addition,
    chunk,
    created,
    creation,
    minute,
)

MakeStore: TypeAlias = Callable[[], Store]

RECORD = RecordKey("agents", "acme", "a-1")
ABSENT = RecordKey("agents", "acme", "a-2")
"""A record that no test writes before it says so."""


async def head_of(store: Store, key: Key = KEY) -> TaskHead:
    """The head of a task that is there."""
    head = await store.tasks.head(key)
    assert head is not None
    return head


async def read(store: Store, key: Key = KEY) -> StoredTask:
    """A task that is there."""
    stored = await store.tasks.read(key)
    assert stored is not None
    return stored


async def undelivered(
    store: Store, *, after: Key | Owner | None = None, limit: int = 9, owner: Owner | None = None
) -> list[Key]:
    """What is in the outbox, if no worker is alive."""
    return list(await store.outbox.undelivered(holder="", live=frozenset(), after=after, limit=limit, owner=owner))


async def failing(
    store: Store, *, agent: str | None = None, after: tuple[str, str] | None = None, limit: int = 99
) -> list[Webhook]:
    """The webhooks of the owner with a failure or dead letters."""
    return list(await store.outbox.failing(ADA, agent=agent, after=after, limit=limit))


class StoreSuite:
    """What holds for every store. Derive from it and define the fixture `make_store`."""

    pytestmark = pytest.mark.anyio

    keeps_nul = True
    """Whether names may hold U+0000."""

    @pytest.fixture
    async def store(self, make_store: MakeStore) -> AsyncGenerator[Store]:
        """An open, empty store."""
        store = make_store()
        await store.open()
        yield store
        await store.close()

    # --- writing and reading ------------------------------------------------------------------------------------------

    async def test_a_task_is_read_as_it_was_written(self, store: Store) -> None:
        """Every kind of event, part and value comes back the same."""
        await store.tasks.write(Write(KEY, 0, EVERYTHING, TaskState.WORKING, minute(1), NEW, attempts=2))
        head = await head_of(store)
        seq = len(EVERYTHING)
        written = TaskHead(KEY, "cook", "c-1", TaskState.WORKING, minute(1), NOON, seq, Version.V0_3, 2, size=head.size)
        assert head == written
        assert await store.tasks.read(KEY) == StoredTask(head, None, 0, EVERYTHING)
        assert tuple(await store.tasks.events(KEY, after=0, limit=seq)) == tuple(enumerate(EVERYTHING, 1))

    async def test_every_event_has_the_moment_at_which_it_was_written(self, store: Store) -> None:
        """The events of one write have the same; and pages are those of `events`."""
        before = datetime.now(UTC)
        await store.tasks.write(Write(KEY, 0, EVERYTHING, TaskState.WORKING, minute(1), NEW))
        between = datetime.now(UTC)
        await store.tasks.write(addition(len(EVERYTHING)))
        after = datetime.now(UTC)
        timed = await store.tasks.timed_events(KEY, after=0, limit=99)
        first, last = timed[0].written_at, timed[-1].written_at
        assert first is not None
        assert last is not None
        assert before <= first <= between <= last <= after
        assert {each.written_at for each in timed[:-1]} == {first}
        assert [(each.seq, each.event) for each in timed] == list(await store.tasks.events(KEY, after=0, limit=99))
        assert list(await store.tasks.timed_events(KEY, after=3, limit=2)) == list(timed[3:5])
        assert list(await store.tasks.timed_events(KEY, after=-3, limit=2)) == list(timed[:2])
        assert list(await store.tasks.timed_events(KEY, after=10**30, limit=2)) == []
        assert list(await store.tasks.timed_events(Key(BOB, KEY.task_id), after=0, limit=2)) == []

    async def test_events_of_elsewhere_keep_their_moments(self, store: Store) -> None:
        """Also those that have none: another version of Parley wrote them."""
        moments = (minute(1), minute(1), minute(2), None, minute(3))
        events = (created(KEY.task_id), *[chunk(number) for number in range(2, 6)])
        await store.tasks.write(Write(KEY, 0, events, TaskState.WORKING, NOON, NEW, written_at=moments))
        assert list(await store.tasks.timed_events(KEY, after=0, limit=9)) == [
            StoredEvent(seq, event, moment) for seq, (event, moment) in enumerate(zip(events, moments, strict=True), 1)
        ]

    async def test_an_absent_task_is_none(self, store: Store) -> None:
        """Nothing is made up."""
        assert await store.tasks.head(KEY) is None
        assert await store.tasks.read(KEY) is None
        assert list(await store.tasks.events(KEY, after=0, limit=10)) == []
        assert list(await store.outbox.configs(KEY)) == []

    async def test_names_may_hold_any_character(self, store: Store) -> None:
        """NUL, quotes, emoji and nothing at all are names like others."""
        names = ["", "'; DROP TABLE tasks; --", "ü🥚", "a/b%00", "\x01"]
        if self.keeps_nul:
            names += ["\x00", "a\x00b", "a\x00c"]
        for name in names:
            new = structs.replace(NEW, agent=name, context_id=name)
            key = Key(Owner(name, name), name)
            await store.tasks.write(creation(key, new=new, sends=((SendKey(name, b"d"), SendRecord(NOON, name)),)))
            await store.tasks.write(addition(1, key))
            await store.outbox.put(key, PushConfig("https://hook.example", id=name))
            await store.contexts.put(ContextKey(key.owner, name, name), name, name, at=NOON)
        for name in names:
            owner = Owner(name, name)
            head = await head_of(store, Key(owner, name))
            assert (head.key, head.agent, head.context_id) == (Key(owner, name), name, name)
            assert [seq for seq, _ in await store.tasks.events(head.key, after=0, limit=9)] == [1, 2]
            assert (await store.tasks.list(owner, TaskFilter(agent=name, context_id=name))).heads == (head,)
            assert await store.sends.find(owner, SendKey(name, b"d"), since=NOON) == SendRecord(NOON, name)
            assert [config.id for config in await store.outbox.configs(head.key)] == [name]
            assert await store.contexts.get(ContextKey(owner, name, name)) == {name: name}

    async def test_tasks_are_read_together_with_and_without_their_artifacts(self, store: Store) -> None:
        """With a snapshot and without, in the order of their keys, and None where there is none."""
        short, absent = Key(ADA, "t-2"), Key(ADA, "absent")
        for key in (KEY, short):
            await store.tasks.write(creation(key))
            for number in range(1, 5):
                await store.tasks.write(addition(number, key))
        snapshot = fold(None, [event for _, event in await store.tasks.events(KEY, after=0, limit=9)])
        await store.tasks.write(structs.replace(addition(5), snapshot=fold(snapshot, addition(5).events)))
        await store.tasks.write(addition(6))
        whole = [await store.tasks.read(KEY), None, await store.tasks.read(short)]
        assert list(await store.tasks.read_many([KEY, absent, short])) == whole
        outlines = [
            task for task in await store.tasks.read_many([KEY, absent, short], artifacts=False) if task is not None
        ]
        for task, outline in zip((whole[0], whole[2]), outlines, strict=True):
            assert task is not None
            shown = fold(task.snapshot, task.events)
            assert outline.head == task.head
            assert structs.replace(fold(outline.snapshot, outline.events), artifacts=()) == structs.replace(
                shown, artifacts=()
            )
            assert shown.artifacts

    async def test_events_are_read_in_pages(self, store: Store) -> None:
        """After a number, oldest first, at most so many."""
        await store.tasks.write(creation())
        await asyncio.gather(*[store.tasks.write(addition(number)) for number in range(1, 10)])
        assert [seq for seq, _ in await store.tasks.events(KEY, after=0, limit=3)] == [1, 2, 3]
        assert list(await store.tasks.events(KEY, after=8, limit=3)) == [(9, chunk(9)), (10, chunk(10))]
        assert list(await store.tasks.events(KEY, after=10, limit=3)) == []
        assert list(await store.tasks.events(KEY, after=10**30, limit=3)) == []
        assert [seq for seq, _ in await store.tasks.events(KEY, after=-5, limit=2)] == [1, 2]

    async def test_many_large_events_come_back(self, store: Store) -> None:
        """Size changes nothing but time."""
        texts = [f"{number}: " + "wide – " * 1_000 for number in range(300)]
        events = tuple(ArtifactUpdate("t-1", "c-1", Artifact("a-1", (TextPart(text),))) for text in texts)
        await store.tasks.write(creation())
        await store.tasks.write(Write(KEY, 1, events, TaskState.WORKING, NOON))
        stored = await read(store)
        assert stored.events[1:] == events

    # --- compare and set ----------------------------------------------------------------------------------------------

    async def test_a_task_is_created_once(self, store: Store) -> None:
        """The second creation conflicts and changes nothing."""
        await store.tasks.write(creation())
        with pytest.raises(ConflictError):
            await store.tasks.write(creation(at=minute(5)))
        assert [seq for seq, _ in await store.tasks.events(KEY, after=0, limit=9)] == [1]
        head = await head_of(store)
        assert head.status_at == NOON

    @pytest.mark.parametrize("expected", [0, 1, 3, -1])
    async def test_a_write_that_expects_another_number_conflicts(self, store: Store, expected: int) -> None:
        """Whether it has seen less or claims to have seen more, nothing of it is kept."""
        await store.tasks.write(creation())
        await store.tasks.write(addition(1))
        before = await store.tasks.read(KEY)
        late = Write(
            KEY,
            expected,
            (chunk(9),),
            TaskState.FAILED,
            minute(9),
            snapshot=Task("t-1", "c-1", TaskStatus(TaskState.FAILED)),
            sends=((SEND, SendRecord(NOON, "t-1")),),
            attempts=9,
        )
        with pytest.raises(ConflictError):
            await store.tasks.write(late)
        assert await store.tasks.read(KEY) == before
        assert await store.sends.find(ADA, SEND, since=NOON) is None

    async def test_a_write_to_no_task_conflicts(self, store: Store) -> None:
        """Only `new` with number 0 creates."""
        for write in (addition(0), addition(4), structs.replace(creation(), expected_seq=1)):
            with pytest.raises(ConflictError):
                await store.tasks.write(write)
        assert await store.tasks.head(KEY) is None

    async def test_a_task_may_begin_without_events(self, store: Store) -> None:
        """Then its last number is 0, and the next write expects that."""
        await store.tasks.write(structs.replace(creation(), events=()))
        await store.tasks.write(addition(0))
        assert list(await store.tasks.events(KEY, after=0, limit=9)) == [(1, chunk(1))]

    async def test_a_write_without_events_changes_the_head(self, store: Store) -> None:
        """Such as a run that begins again."""
        await store.tasks.write(creation())
        await store.tasks.write(Write(KEY, 1, (), TaskState.WORKING, minute(2), attempts=3))
        head = await head_of(store)
        assert (head.state, head.status_at, head.last_seq, head.attempts) == (TaskState.WORKING, minute(2), 1, 3)

    # --- order --------------------------------------------------------------------------------------------------------

    async def test_writes_take_effect_in_the_order_of_the_calls(self, store: Store) -> None:
        """Without waiting in between, also where other tasks are written to."""
        other = Key(ADA, "t-2")
        waiting = [store.tasks.write(creation()), store.tasks.write(creation(other))]
        for number in range(1, 500):
            waiting += [store.tasks.write(addition(number)), store.tasks.write(addition(number, other))]
        await waiting[-1]
        for key in (KEY, other):
            events = await store.tasks.events(key, after=0, limit=1_000)
            assert list(events) == list(
                enumerate([created(key.task_id), *(chunk(n, key.task_id) for n in range(2, 501))], 1)
            )
        await asyncio.gather(*waiting)

    async def test_a_write_happens_although_nobody_awaits_it(self, store: Store) -> None:
        """The call counts, and a later write that is awaited comes after it."""
        ahead = asyncio.ensure_future(store.tasks.write(creation()))
        await store.tasks.write(addition(1))
        assert ahead.done()
        head = await head_of(store)
        assert head.last_seq == 2

    async def test_what_follows_a_failed_write_fails_too(self, store: Store) -> None:
        """It expects a number that never came; writes to other tasks are not touched."""
        other = Key(ADA, "t-2")
        await store.tasks.write(creation())
        outcomes = await asyncio.gather(
            store.tasks.write(addition(1)),
            store.tasks.write(addition(7)),
            store.tasks.write(addition(8)),
            store.tasks.write(creation(other)),
            store.tasks.write(addition(1, other)),
            return_exceptions=True,
        )
        assert [type(outcome) for outcome in outcomes] == [
            type(None),
            ConflictError,
            ConflictError,
            type(None),
            type(None),
        ]
        assert [seq for seq, _ in await store.tasks.events(KEY, after=0, limit=9)] == [1, 2]

    async def test_of_two_who_race_one_wins(self, store: Store) -> None:
        """Both expect the same number."""
        await store.tasks.write(creation())
        outcomes = await asyncio.gather(
            *[store.tasks.write(structs.replace(addition(1), attempts=n)) for n in range(8)], return_exceptions=True
        )
        assert [outcome for outcome in outcomes if outcome is None] == [None]
        assert len(await store.tasks.events(KEY, after=0, limit=9)) == 2

    # --- snapshots ----------------------------------------------------------------------------------------------------

    async def test_a_snapshot_stands_for_the_events_before_it(self, store: Store) -> None:
        """Those after it come with it; all of them can still be read; a write without one keeps it."""
        snapshot = fold(None, EVERYTHING)
        await store.tasks.write(Write(KEY, 0, EVERYTHING, TaskState.WORKING, minute(1), NEW, snapshot))
        seq = len(EVERYTHING)
        stored = await read(store)
        assert (stored.snapshot, stored.snapshot_seq, stored.events) == (snapshot, seq, ())

        await store.tasks.write(addition(seq))
        await store.tasks.write(addition(seq + 1))
        stored = await read(store)
        assert (stored.snapshot, stored.snapshot_seq) == (snapshot, seq)
        assert stored.events == (chunk(seq + 1), chunk(seq + 2))
        assert stored.head.last_seq == seq + 2
        assert len(await store.tasks.events(KEY, after=0, limit=99)) == seq + 2

    async def test_a_later_snapshot_takes_the_place_of_an_earlier(self, store: Store) -> None:
        """Also where both are on their way at once."""
        first, second = fold(None, EVERYTHING[:1]), fold(None, (*EVERYTHING[:1], chunk(2)))
        store_first = structs.replace(creation(), snapshot=first)
        store_second = structs.replace(addition(1), snapshot=second)
        await asyncio.gather(
            store.tasks.write(store_first), store.tasks.write(store_second), store.tasks.write(addition(2))
        )
        stored = await read(store)
        assert (stored.snapshot, stored.snapshot_seq, stored.events) == (second, 2, (chunk(3),))

    # --- ownership ----------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("stranger", STRANGERS)
    async def test_what_belongs_to_somebody_else_does_not_exist(self, store: Store, stranger: Owner) -> None:
        """Neither for another caller of the tenant, nor for one of the same name elsewhere."""
        await store.tasks.write(creation(sends=((SEND, SendRecord(NOON, "t-1")),)))
        await store.outbox.put(KEY, PushConfig("https://hook.example", id="h"))
        await store.contexts.put(CONTEXT, "name", "value", at=NOON)
        theirs = Key(stranger, KEY.task_id)

        assert await store.tasks.head(theirs) is None
        assert await store.tasks.read(theirs) is None
        assert list(await store.tasks.events(theirs, after=0, limit=9)) == []
        assert (await store.tasks.list(stranger, TaskFilter())).total == 0
        assert await store.sends.find(stranger, SEND, since=NOON) is None
        assert list(await store.outbox.configs(theirs)) == []
        assert await store.contexts.get(ContextKey(stranger, "cook", "c-1")) == {}

        with pytest.raises(ConflictError):
            await store.tasks.write(addition(1, theirs))
        with pytest.raises(ConflictError):
            await store.outbox.put(theirs, PushConfig("https://evil.example", id="h"))
        await store.outbox.delete(theirs, "h")
        await store.contexts.put(ContextKey(stranger, "cook", "c-1"), "name", None, at=NOON)
        assert await store.tasks.delete(theirs) is False

        assert [seq for seq, _ in await store.tasks.events(KEY, after=0, limit=9)] == [1]
        assert list(await store.outbox.configs(KEY)) == [PushConfig("https://hook.example", id="h")]
        assert await store.sends.find(ADA, SEND, since=NOON) == SendRecord(NOON, "t-1")
        assert await store.contexts.get(CONTEXT) == {"name": "value"}

    async def test_a_task_id_is_unique_within_a_tenant(self, store: Store) -> None:
        """Another caller cannot take it; another tenant may."""
        await store.tasks.write(creation())
        with pytest.raises(ConflictError):
            await store.tasks.write(creation(Key(BOB, "t-1")))
        await store.tasks.write(creation(Key(ADA_ELSEWHERE, "t-1")))
        assert await store.tasks.head(Key(BOB, "t-1")) is None
        assert await store.tasks.head(Key(ADA_ELSEWHERE, "t-1")) is not None

    # --- lists --------------------------------------------------------------------------------------------------------

    async def test_a_list_shows_the_newest_status_first_then_by_id(self, store: Store) -> None:
        """And only the owner's tasks."""
        moments = {"b": 1, "a": 1, "ä": 1, "B": 1, "new": 2, "old": 0}
        for task_id, number in moments.items():
            await store.tasks.write(creation(Key(ADA, task_id), at=minute(number)))
        for stranger in STRANGERS:
            await store.tasks.write(creation(Key(stranger, f"of {stranger.tenant} {stranger.name}")))
        found = await store.tasks.list(ADA, TaskFilter())
        assert [head.key.task_id for head in found.heads] == ["new", "B", "a", "b", "ä", "old"]
        assert found.total == 6
        assert found.heads[0] == await store.tasks.head(Key(ADA, "new"))

    @pytest.mark.parametrize("limit", [1, 2, 3, 7, 8])
    async def test_pages_join_without_gap_or_repetition(self, store: Store, limit: int) -> None:
        """Ties included; the total is that of all pages."""
        for number in range(7):
            await store.tasks.write(creation(Key(ADA, f"t-{number}"), at=minute(number // 3)))
        whole = (await store.tasks.list(ADA, TaskFilter())).heads
        heads: list[TaskHead] = []
        query = TaskFilter(limit=limit)
        while (page := await store.tasks.list(ADA, query)).heads:
            assert page.total == 7
            assert len(page.heads) <= limit
            heads += page.heads
            assert len(heads) <= 7
            query = structs.replace(query, after=(heads[-1].status_at, heads[-1].key.task_id))
        assert tuple(heads) == whole

    async def test_a_task_moves_up_when_its_status_changes(self, store: Store) -> None:
        """A list follows the heads, also where only the time of the status is new."""
        for task_id in ("t-1", "t-2"):
            await store.tasks.write(creation(Key(ADA, task_id)))
        for number, (task_id, other) in enumerate((("t-2", "t-1"), ("t-1", "t-2"), ("t-2", "t-1")), start=1):
            await store.tasks.write(Write(Key(ADA, task_id), 1, (), TaskState.WORKING, minute(number)))
            assert [head.key.task_id for head in (await store.tasks.list(ADA, TaskFilter())).heads] == [task_id, other]
        assert (await store.tasks.list(ADA, TaskFilter(state=TaskState.SUBMITTED))).total == 0

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            (TaskFilter(agent="cook"), ["t-3", "t-1"]),
            (TaskFilter(agent="absent"), []),
            (TaskFilter(context_id="c-2"), ["t-3", "t-2"]),
            (TaskFilter(state=TaskState.COMPLETED), ["t-3", "t-2"]),
            (TaskFilter(status_at_or_after=minute(2)), ["t-3", "t-2"]),
            (TaskFilter(agent="cook", context_id="c-2", state=TaskState.COMPLETED), ["t-3"]),
            (TaskFilter(context_id="c-2", after=(minute(3), "t-3")), ["t-2"]),
            (TaskFilter(limit=0), []),
        ],
    )
    async def test_a_list_can_be_narrowed(self, store: Store, query: TaskFilter, expected: list[str]) -> None:
        """By agent, context, state and time, all at once; the total counts what matches, whatever the page."""
        for task_id, agent, context, state, number in (
            ("t-1", "cook", "c-1", TaskState.WORKING, 1),
            ("t-2", "waiter", "c-2", TaskState.COMPLETED, 2),
            ("t-3", "cook", "c-2", TaskState.COMPLETED, 3),
        ):
            new = NewTask(agent, context, Version.V1_0, NOON)
            await store.tasks.write(creation(Key(ADA, task_id), new=new, state=state, at=minute(number)))
        found = await store.tasks.list(ADA, query)
        assert [head.key.task_id for head in found.heads] == expected
        unpaged = await store.tasks.list(ADA, structs.replace(query, after=None, limit=50))
        assert found.total == len(unpaged.heads)

    async def test_a_list_of_all_owners_joins_them(self, store: Store) -> None:
        """In the same order, or of one tenant; pages join without gap or repetition, also where ids are the same."""
        for number in range(8):
            for owner in (ADA, BOB, ADA_ELSEWHERE):
                task_id = f"t-{number}" + ("" if owner is not BOB else " of Bob")
                state = TaskState.WORKING if number % 2 else TaskState.COMPLETED
                await store.tasks.write(creation(Key(owner, task_id), state=state, at=minute(number // 3)))
        everything = list(await store.tasks.list_all(TaskFilter(limit=99)))
        assert len(everything) == 24
        assert everything == sorted(everything, key=lambda head: (NOON - head.status_at, head.key.task_id))
        heads: list[TaskHead] = []
        query = TaskFilter(limit=2)
        while page := await store.tasks.list_all(query):
            heads += page
            query = structs.replace(query, after=(heads[-1].status_at, heads[-1].key.task_id))
        assert {head.key for head in heads} == {head.key for head in everything}
        assert len(heads) == 24
        acme = [head for head in everything if head.key.owner.tenant == "acme"]
        assert list(await store.tasks.list_all(TaskFilter(limit=99), tenant="acme")) == acme
        narrow = TaskFilter(agent="cook", context_id="c-1", state=TaskState.WORKING, status_at_or_after=minute(1))
        assert list(await store.tasks.list_all(narrow, tenant="acme")) == [
            head for head in acme if head.state is TaskState.WORKING and head.status_at >= minute(1)
        ]
        assert list(await store.tasks.list_all(TaskFilter(), tenant="unknown")) == []

    async def test_a_list_of_all_owners_may_be_of_one_name(self, store: Store) -> None:
        """In one tenant or in all; what is counted is what all pages show, up to a bound."""
        for number in range(8):
            for owner in (ADA, BOB, ADA_ELSEWHERE):
                new = structs.replace(NEW, agent=f"cook {number % 3}", context_id=f"c-{number % 2}")
                task_id = f"t-{number}" + ("" if owner is not BOB else " of Bob")
                state = TaskState.WORKING if number % 2 else TaskState.COMPLETED
                await store.tasks.write(creation(Key(owner, task_id), new=new, state=state, at=minute(number // 3)))
        everything = list(await store.tasks.list_all(TaskFilter(limit=99)))
        adas = [head for head in everything if head.key.owner.name == "ada"]

        def order(head: TaskHead) -> tuple[timedelta, str, str]:
            return NOON - head.status_at, head.key.task_id, head.key.owner.tenant

        for query, tenant, expected in (
            (TaskFilter(), None, adas),
            (TaskFilter(), "acme", [head for head in adas if head.key.owner == ADA]),
            (TaskFilter(), "unknown", []),
            (TaskFilter(agent="cook 1"), None, [head for head in adas if head.agent == "cook 1"]),
            (TaskFilter(context_id="c-1"), None, [head for head in adas if head.context_id == "c-1"]),
            (TaskFilter(state=TaskState.WORKING), None, [head for head in adas if head.state is TaskState.WORKING]),
            (TaskFilter(status_at_or_after=minute(1)), None, [head for head in adas if head.status_at >= minute(1)]),
            (TaskFilter(after=(adas[3].status_at, adas[3].key.task_id)), None, adas[4:]),
            (TaskFilter(limit=2), "acme", [head for head in adas if head.key.owner == ADA][:2]),
        ):
            found = await store.tasks.list_all(query, tenant=tenant, name="ada")
            assert sorted(found, key=order) == sorted(expected, key=order)
            if query.after is None and query.limit == 50:
                assert await store.tasks.count_all(query, tenant=tenant, name="ada", most=99) == len(expected)
        assert await store.tasks.count_all(TaskFilter(), most=99) == 24
        assert await store.tasks.count_all(TaskFilter(), tenant="acme", most=99) == 16
        assert await store.tasks.count_all(TaskFilter(), most=3) > 3
        assert await store.tasks.count_all(TaskFilter(), name="ada", most=3) > 3

    async def test_tasks_are_found_by_their_id(self, store: Store) -> None:
        """In all tenants or in one, of owners of any name or of one."""
        for owner in (ADA, ADA_ELSEWHERE):
            await store.tasks.write(creation(Key(owner, "t-1")))
        await store.tasks.write(creation(Key(BOB, "t-2")))
        acme, umbrella = [await head_of(store, Key(owner, "t-1")) for owner in (ADA, ADA_ELSEWHERE)]
        assert list(await store.tasks.find("t-1")) == [acme, umbrella]
        assert list(await store.tasks.find("t-1", tenant="umbrella")) == [umbrella]
        assert list(await store.tasks.find("t-1", name="ada")) == [acme, umbrella]
        assert list(await store.tasks.find("t-1", tenant="acme", name="bob")) == []
        assert [head.key for head in await store.tasks.find("t-2", name="bob")] == [Key(BOB, "t-2")]
        assert list(await store.tasks.find("t-3")) == []

    async def test_the_newest_tasks_of_a_tenant_come_first(self, store: Store) -> None:
        """Those of all its owners, whatever became of them since; pages join without gap or repetition."""
        for number in range(7):
            for owner in (ADA, BOB, ADA_ELSEWHERE):
                key = Key(owner, f"t-{number}" + ("" if owner is not BOB else " of Bob"))
                new = structs.replace(NEW, created_at=minute(number // 3))
                await store.tasks.write(creation(key, new=new, at=minute(-number)))
        await store.tasks.write(Write(Key(ADA, "t-0"), 1, (), TaskState.COMPLETED, minute(99)))
        newest = list(await store.tasks.newest("acme", limit=99))
        assert {head.key.owner for head in newest} == {ADA, BOB}
        assert len(newest) == 14
        assert newest == sorted(newest, key=lambda head: (head.created_at, head.key.task_id), reverse=True)
        assert newest[-1] == await store.tasks.head(Key(ADA, "t-0"))
        heads: list[TaskHead] = []
        before = None
        while page := await store.tasks.newest("acme", before=before, limit=4):
            assert len(page) <= 4
            heads += page
            assert len(heads) <= 14
            before = (heads[-1].created_at, heads[-1].key.task_id)
        assert heads == newest
        assert list(await store.tasks.newest("unknown", limit=9)) == []

    # --- sends --------------------------------------------------------------------------------------------------------

    async def test_a_send_is_found_within_its_window(self, store: Store) -> None:
        """At or after the moment, not before."""
        record = SendRecord(NOON, "t-1")
        await store.tasks.write(creation(sends=((SEND, record),)))
        assert await store.sends.find(ADA, SEND, since=NOON) == record
        assert await store.sends.find(ADA, SEND, since=minute(-1)) == record
        assert await store.sends.find(ADA, SEND, since=NOON + timedelta(microseconds=1)) is None

    async def test_the_same_id_with_other_content_is_another_message(self, store: Store) -> None:
        """Both are remembered."""
        other = SendKey(SEND.message_id, b"other")
        await store.tasks.write(creation(sends=((SEND, SendRecord(NOON, "t-1")),)))
        assert await store.sends.find(ADA, other, since=NOON) is None
        await store.sends.put(ADA, other, SendRecord(minute(1), "t-2"))
        assert await store.sends.find(ADA, SEND, since=NOON) == SendRecord(NOON, "t-1")
        assert await store.sends.find(ADA, other, since=NOON) == SendRecord(minute(1), "t-2")

    async def test_the_contents_of_an_id_are_found_within_their_window(self, store: Store) -> None:
        """Of one owner, for one id."""
        await store.tasks.write(creation(sends=((SEND, SendRecord(NOON, "t-1")),)))
        await store.sends.put(ADA, SendKey(SEND.message_id, b"other"), SendRecord(minute(1), "t-2"))
        assert await store.sends.digests(ADA, SEND.message_id, since=NOON) == {SEND.digest, b"other"}
        assert await store.sends.digests(ADA, SEND.message_id, since=minute(1)) == {b"other"}
        assert await store.sends.digests(ADA, "unknown", since=NOON) == frozenset()
        assert await store.sends.digests(BOB, SEND.message_id, since=NOON) == frozenset()

    async def test_a_send_can_be_remembered_with_its_reply(self, store: Store) -> None:
        """For a message that created no task; sent again after its window, the new record counts."""
        reply = Message("m-2", Role.AGENT, (TextPart("Sept dîners."),))
        await store.sends.put(ADA, SEND, SendRecord(NOON, reply=reply))
        assert await store.sends.find(ADA, SEND, since=NOON) == SendRecord(NOON, reply=reply)
        await store.sends.put(ADA, SEND, SendRecord(minute(20), "t-1"))
        assert await store.sends.find(ADA, SEND, since=NOON) == SendRecord(minute(20), "t-1")

    async def test_old_sends_are_forgotten(self, store: Store) -> None:
        """Of all owners; those at the moment itself stay, and so do the tasks."""
        for number, owner in enumerate((ADA, BOB, ADA_ELSEWHERE)):
            key = Key(owner, f"t-{number}")
            await store.tasks.write(creation(key, sends=((SEND, SendRecord(minute(number), key.task_id)),)))
        await store.tasks.write(
            Write(
                Key(ADA, "t-0"),
                1,
                (),
                TaskState.WORKING,
                NOON,
                sends=((SendKey("2", b""), SendRecord(minute(5), "t-0")),),
            )
        )
        await store.sends.delete_before(minute(1))
        assert await store.sends.find(ADA, SEND, since=NOON) is None
        assert await store.sends.find(ADA, SendKey("2", b""), since=NOON) is not None
        assert await store.sends.find(BOB, SEND, since=NOON) is not None
        assert await store.sends.find(ADA_ELSEWHERE, SEND, since=NOON) is not None
        assert await store.tasks.head(Key(ADA, "t-0")) is not None

    # --- webhooks -----------------------------------------------------------------------------------------------------

    async def test_webhooks_are_kept_by_id(self, store: Store) -> None:
        """A later one of the same id takes the place of the earlier; deleting twice is no error."""
        await store.tasks.write(creation())
        full = PushConfig(
            "https://b.example", "t-1", "b", "token", PushAuthentication(("Bearer",), "s", {"x": 1}), "acme"
        )
        await store.outbox.put(KEY, full)
        await store.outbox.put(KEY, PushConfig("https://a.example", id="a"))
        await store.outbox.put(KEY, PushConfig("https://none.example"))
        await store.outbox.put(KEY, PushConfig("https://a2.example", id="a"))
        none, a = PushConfig("https://none.example"), PushConfig("https://a2.example", id="a")
        assert list(await store.outbox.configs(KEY)) == [none, a, full]
        await store.outbox.delete(KEY, "a")
        await store.outbox.delete(KEY, "a")
        assert list(await store.outbox.configs(KEY)) == [none, full]

    async def test_no_webhook_without_a_task(self, store: Store) -> None:
        """It would be left behind."""
        with pytest.raises(ConflictError):
            await store.outbox.put(KEY, PushConfig("https://hook.example", id="h"))
        await store.outbox.delete(KEY, "h")
        await store.tasks.write(creation())
        assert list(await store.outbox.configs(KEY)) == []

    # --- deliveries ---------------------------------------------------------------------------------------------------

    async def test_a_webhook_begins_with_what_comes_next(self, store: Store) -> None:
        """Or after a number that it names, and never beyond the task's last event."""
        await store.tasks.write(creation())
        await store.tasks.write(addition(1))
        now, past, future = (PushConfig("https://hook.example", "t-1", name) for name in ("a", "b", "c"))
        await store.outbox.put(KEY, now)
        await store.outbox.put(KEY, past, version=Version.V0_2, after=1)
        await store.outbox.put(KEY, future, after=7)
        assert list(await store.outbox.webhooks(KEY)) == [
            Webhook(KEY, "cook", now, Version.V1_0, 2, 2),
            Webhook(KEY, "cook", past, Version.V0_2, 1, 2),
            Webhook(KEY, "cook", future, Version.V1_0, 2, 2),
        ]
        assert await undelivered(store) == [KEY]

    async def test_a_webhook_registered_again_keeps_what_was_delivered(self, store: Store) -> None:
        """Wherever the second registration would have begun."""
        await store.tasks.write(creation())
        await store.tasks.write(addition(1))
        await store.outbox.put(KEY, PushConfig("https://old.example", "t-1", "a"), after=1)
        for after in (None, 0, 2):
            new = PushConfig(f"https://new.example/{after}", "t-1", "a")
            await store.outbox.put(KEY, new, version=Version.V0_3, after=after)
            assert list(await store.outbox.webhooks(KEY)) == [Webhook(KEY, "cook", new, Version.V0_3, 1, 2)]

    async def test_what_was_delivered_never_moves_back(self, store: Store) -> None:
        """And only that of a webhook that is there, for its owner."""
        await store.tasks.write(creation())
        await store.outbox.put(KEY, PushConfig("https://hook.example"), after=0)
        assert await store.outbox.mark_delivered(KEY, "", 1, holder="") is True
        assert await store.outbox.mark_delivered(KEY, "", 0, holder="") is True
        assert [webhook.delivered_seq for webhook in await store.outbox.webhooks(KEY)] == [1]
        assert await store.outbox.mark_delivered(KEY, "other", 1, holder="") is False
        for stranger in STRANGERS:
            assert await store.outbox.mark_delivered(Key(stranger, "t-1"), "", 1, holder="") is False
            assert list(await store.outbox.webhooks(Key(stranger, "t-1"))) == []

    async def test_what_was_delivered_moves_back_if_it_is_wanted_again(self, store: Store) -> None:
        """A delivery that began before that marks nothing; and a webhook gets no more than there is."""
        await store.tasks.write(creation())
        await store.tasks.write(addition(1))
        await store.outbox.put(KEY, PushConfig("https://hook.example", id="a"))
        assert await undelivered(store) == []
        assert await store.outbox.rewind(KEY, "a", 7, holder="") is True
        assert await undelivered(store) == []
        assert await store.outbox.rewind(KEY, "a", 0, holder="") is True
        assert [webhook.delivered_seq for webhook in await store.outbox.webhooks(KEY)] == [0]
        assert await undelivered(store) == [KEY]
        assert await store.outbox.mark_delivered(KEY, "a", 2, holder="", begun_after=1) is False
        assert await store.outbox.mark_delivered(KEY, "a", 1, holder="", begun_after=0) is True
        assert await store.outbox.mark_delivered(KEY, "a", 2, holder="", begun_after=1) is True
        assert await undelivered(store) == []
        assert await store.outbox.rewind(KEY, "other", 0, holder="") is False
        for stranger in STRANGERS:
            assert await store.outbox.rewind(Key(stranger, "t-1"), "a", 0, holder="") is False
        assert [webhook.delivered_seq for webhook in await store.outbox.webhooks(KEY)] == [2]

    async def test_a_failure_is_kept_until_an_event_is_delivered(self, store: Store) -> None:
        """Also by a put or a rewind: then everything is tried anew."""
        await store.tasks.write(creation())
        await store.outbox.put(KEY, PushConfig("https://hook.example"), after=0)
        failure = DeliveryFailure(1, 3, "It answered with status 503 \u2013 twice", NOON, minute(60), minute(120))
        paused = structs.replace(failure, attempts=4, next_at=None, paused_since=NOON)
        for kept in (failure, paused):
            assert await store.outbox.note_failure(KEY, "", kept, holder="") is True
            assert [webhook.failure for webhook in await store.outbox.webhooks(KEY)] == [kept]
            assert [(found.failure, found.delivered_seq) for found in await failing(store)] == [(kept, 0)]
        await store.outbox.mark_delivered(KEY, "", 1, holder="")
        assert [webhook.failure for webhook in await store.outbox.webhooks(KEY)] == [None]
        await store.outbox.note_failure(KEY, "", failure, holder="")
        await store.outbox.rewind(KEY, "", 0, holder="")
        assert [webhook.failure for webhook in await store.outbox.webhooks(KEY)] == [None]
        await store.outbox.note_failure(KEY, "", failure, holder="")
        await store.outbox.put(KEY, PushConfig("https://hook.example"))
        assert [webhook.failure for webhook in await store.outbox.webhooks(KEY)] == [None]
        assert await failing(store) == []

    async def test_a_failure_is_noted_by_the_worker_that_calls_the_webhook(self, store: Store) -> None:
        """Not by another one, not by a delivery that began before a rewind, and not for another owner."""
        await store.tasks.write(creation())
        await store.tasks.write(addition(1))
        await store.outbox.put(KEY, PushConfig("https://hook.example", id="a"), after=1, holder="w-1")
        failure = DeliveryFailure(2, 1, "down", NOON, NOON)
        assert await store.outbox.note_failure(KEY, "a", failure, holder="w-2") is False
        assert await store.outbox.note_failure(KEY, "a", failure, holder="w-1", begun_after=2) is False
        assert await store.outbox.note_failure(KEY, "b", failure, holder="w-1") is False
        for stranger in STRANGERS:
            assert await store.outbox.note_failure(Key(stranger, "t-1"), "a", failure, holder="w-1") is False
        assert await failing(store) == []
        assert await store.outbox.note_failure(KEY, "a", failure, holder="w-1", begun_after=1) is True

    async def test_what_was_given_up_is_kept_until_it_is_sent_again(self, store: Store) -> None:
        """Adjacent events with the same reason are one dead letter; deliveries, failures and a new config keep it."""
        await store.tasks.write(creation())
        for number in range(1, 9):
            await store.tasks.write(addition(number))
        await store.outbox.put(KEY, PushConfig("https://hook.example", id="a"), after=0)
        for first, last, reason in ((1, 1, "gone"), (2, 2, "gone"), (4, 6, "gone"), (7, 7, "too large")):
            letter = DeadLetter(first, last, reason, NOON, attempts=last)
            assert await store.outbox.mark_delivered(KEY, "a", last, holder="", dead_letter=letter) is True
        letters = (
            DeadLetter(1, 2, "gone", NOON, attempts=2),
            DeadLetter(4, 6, "gone", NOON, attempts=6),
            DeadLetter(7, 7, "too large", NOON, attempts=7),
        )
        await store.outbox.note_failure(KEY, "a", DeliveryFailure(8, 1, "down", NOON, NOON), holder="")
        await store.outbox.mark_delivered(KEY, "a", 8, holder="")
        await store.outbox.put(KEY, PushConfig("https://hook.example/2", id="a"))
        assert [(found.dead_letters, found.delivered_seq) for found in await failing(store)] == [(letters, 8)]
        await store.outbox.rewind(KEY, "a", 4, holder="")
        kept = (letters[0], DeadLetter(4, 4, "gone", NOON, attempts=6))
        assert [(found.dead_letters, found.delivered_seq) for found in await failing(store)] == [(kept, 4)]
        await store.outbox.rewind(KEY, "a", 0, holder="")
        assert await failing(store) == []

    async def test_dead_letters_of_one_webhook_are_bounded(self, store: Store) -> None:
        """The oldest are joined, so that no event is forgotten."""
        await store.tasks.write(creation())
        await store.outbox.put(KEY, PushConfig("https://hook.example"), after=0)
        for seq in range(1, 2 * (MAX_DEAD_LETTERS + 5), 2):
            letter = DeadLetter(seq, seq, "gone", NOON)
            await store.outbox.mark_delivered(KEY, "", 1, holder="", dead_letter=letter)
        (found,) = await failing(store)
        assert len(found.dead_letters) == MAX_DEAD_LETTERS
        assert (found.dead_letters[0].first_seq, found.dead_letters[0].last_seq) == (1, 11)

    async def test_failing_webhooks_are_listed_for_their_owner_alone_page_by_page(self, store: Store) -> None:
        keys = [Key(ADA, f"t-{number}") for number in range(3)]
        failure = DeliveryFailure(1, 1, "down", NOON, NOON)
        for key in (*keys, *(Key(stranger, f"s-{number}") for number, stranger in enumerate(STRANGERS))):
            await store.tasks.write(creation(key))
            for name in ("a", "b", "healthy"):
                await store.outbox.put(key, PushConfig("https://hook.example", id=name), after=0)
            await store.outbox.note_failure(key, "a", failure, holder="")
            letter = DeadLetter(1, 1, "gone", NOON)
            await store.outbox.mark_delivered(key, "b", 1, holder="", dead_letter=letter)
        names = [(found.key.task_id, found.config.id) for found in await failing(store)]
        assert names == [(key.task_id, name) for key in keys for name in ("a", "b")]
        first = await failing(store, limit=3)
        rest = await failing(store, after=("t-1", "a"))
        assert [(found.key.task_id, found.config.id) for found in (*first, *rest)] == names
        assert len(await failing(store, agent="cook")) == 6
        assert await failing(store, agent="other") == []
        await store.tasks.delete(keys[0])
        assert len(await failing(store)) == 4

    async def test_webhooks_that_are_behind_are_found_whoever_owns_them(self, store: Store) -> None:
        """In pages that join, until everything is delivered or the task is deleted."""
        keys = [Key(owner, f"t-{number}") for owner in (ADA, ADA_ELSEWHERE) for number in range(3)]
        for key in keys:
            await store.tasks.write(creation(key))
            for name in ("a", "b"):
                await store.outbox.put(key, PushConfig("https://hook.example", id=name), after=0)
        await store.outbox.mark_delivered(keys[0], "a", 1, holder="")
        await store.tasks.delete(keys[5])
        found: list[Key] = []
        while page := await undelivered(store, after=found[-1] if found else None, limit=2):
            assert len(page) <= 2
            found += page
        assert found == keys[:5]
        assert await undelivered(store, owner=ADA) == keys[:3]
        assert await undelivered(store, owner=ADA, after=keys[0], limit=1) == keys[1:2]
        assert await undelivered(store, after=ADA) == keys[3:5]
        for key in found:
            assert await undelivered(store) == found[found.index(key) :]
            for name in ("a", "b"):
                await store.outbox.mark_delivered(key, name, 1, holder="")
        assert await undelivered(store) == []
        await store.tasks.write(addition(1, keys[0]))
        assert await undelivered(store) == [keys[0]]

    # --- the memory of contexts ---------------------------------------------------------------------------------------

    async def test_a_context_remembers_values(self, store: Store) -> None:
        """By name, until they are replaced or forgotten; contexts, agents and owners do not share them."""
        await store.contexts.put(CONTEXT, "name", "Ada", at=NOON)
        await store.contexts.put(CONTEXT, "diet", {"vegan": True, "not": ["eggs", None, 0.5]}, at=NOON)
        await store.contexts.put(CONTEXT, "zero", 0, at=NOON)
        others = [
            ContextKey(ADA, "cook", "c-2"),
            ContextKey(ADA, "waiter", "c-1"),
            *(ContextKey(stranger, "cook", "c-1") for stranger in STRANGERS),
        ]
        for other in others:
            assert await store.contexts.get(other) == {}
            await store.contexts.put(other, "name", "Other", at=NOON)
        await store.contexts.put(CONTEXT, "name", "Ada L.", at=NOON)
        await store.contexts.put(CONTEXT, "zero", None, at=NOON)
        await store.contexts.put(CONTEXT, "never", None, at=NOON)
        await store.contexts.put(ContextKey(ADA, "cook", "c-3"), "never", None, at=NOON)
        assert await store.contexts.get(CONTEXT) == {
            "name": "Ada L.",
            "diet": {"vegan": True, "not": ["eggs", None, 0.5]},
        }
        for other in others:
            assert await store.contexts.get(other) == {"name": "Other"}
            await store.contexts.put(other, "name", None, at=NOON)
            assert await store.contexts.get(other) == {}

    async def test_conversations_are_read_one_by_one(self, store: Store) -> None:
        """Values of any size whose names begin with `CONVERSATION` are not among the others."""
        await store.contexts.put(CONTEXT, "name", "Ada", at=NOON)
        await store.contexts.put(CONTEXT, f"{CONVERSATION}2", {"said": ["a"]}, at=NOON)
        await store.contexts.put(CONTEXT, f"{CONVERSATION}1", "x" * 100_000, at=NOON)
        await store.contexts.put(ContextKey(ADA, "waiter", "c-1"), f"{CONVERSATION}3", "other", at=NOON)
        assert await store.contexts.get(CONTEXT) == {"name": "Ada"}
        assert await store.contexts.conversations(CONTEXT) == [f"{CONVERSATION}1", f"{CONVERSATION}2"]
        assert await store.contexts.value(CONTEXT, f"{CONVERSATION}2") == {"said": ["a"]}
        assert await store.contexts.value(CONTEXT, f"{CONVERSATION}3") is None
        assert await store.contexts.value(CONTEXT, "name") == "Ada"
        await store.contexts.put(CONTEXT, f"{CONVERSATION}1", None, at=NOON)
        assert await store.contexts.conversations(CONTEXT) == [f"{CONVERSATION}2"]
        for stranger in STRANGERS:
            assert await store.contexts.conversations(ContextKey(stranger, "cook", "c-1")) == []
            assert await store.contexts.value(ContextKey(stranger, "cook", "c-1"), f"{CONVERSATION}2") is None

    async def test_a_marked_value_is_not_deleted(self, store: Store) -> None:
        """Whichever mark names it; a mark of another context does not count."""
        for name in ("a", "b", "c"):
            await store.contexts.put(CONTEXT, CONVERSATION + name, name, at=NOON)
        await store.contexts.put(CONTEXT, f"{CONVERSATION}mark 1", f"{CONVERSATION}a", at=NOON)
        await store.contexts.put(CONTEXT, "other", f"{CONVERSATION}b", at=NOON)
        await store.contexts.put(ContextKey(ADA, "cook", "c-2"), f"{CONVERSATION}mark 2", f"{CONVERSATION}c", at=NOON)
        for name in ("a", "b", "c", "never"):
            await store.contexts.delete_unmarked(CONTEXT, CONVERSATION + name, marks=f"{CONVERSATION}mark ")
        assert await store.contexts.conversations(CONTEXT) == [f"{CONVERSATION}a", f"{CONVERSATION}mark 1"]
        await store.contexts.put(CONTEXT, f"{CONVERSATION}mark 1", None, at=NOON)
        await store.contexts.delete_unmarked(CONTEXT, f"{CONVERSATION}a", marks=f"{CONVERSATION}mark ")
        assert await store.contexts.conversations(CONTEXT) == []

    async def test_readers_cannot_change_what_is_remembered(self, store: Store) -> None:
        """Neither by what they were given nor by what they gave."""
        value: list[str] = ["eggs"]
        await store.contexts.put(CONTEXT, "list", [*value], at=NOON)
        recalled = await store.contexts.get(CONTEXT)
        recalled["list"] = ["mine"]
        (await store.contexts.get(CONTEXT)).clear()
        assert await store.contexts.get(CONTEXT) == {"list": ["eggs"]}

    async def test_contexts_are_forgotten_when_their_tasks_are_and_their_time_has_come(self, store: Store) -> None:
        """Those of every owner that were last written before the moment, at most so many at a time."""
        old = [ContextKey(owner, "cook", f"old-{number}") for owner in (ADA, BOB) for number in range(3)]
        for context in old:
            for name in ("a", "b"):
                await store.contexts.put(context, name, "x", at=minute(-1))
        written = ContextKey(ADA, "cook", "written")
        await store.contexts.put(written, "a", "x", at=minute(-9))
        await store.contexts.put(written, "b", "x", at=NOON)
        await store.contexts.put(CONTEXT, "a", "x", at=minute(-9))
        of_another = ContextKey(ADA, "waiter", "c-1")
        await store.contexts.put(of_another, "a", "x", at=minute(-9))
        await store.tasks.write(creation())

        assert await store.contexts.delete_unused(before=minute(-10), limit=9) == 0
        assert await store.contexts.delete_unused(before=NOON, limit=4) == 4
        assert await store.contexts.delete_unused(before=NOON, limit=9) == 3
        for context in (*old, of_another):
            assert await store.contexts.get(context) == {}
        assert await store.contexts.get(written) == {"a": "x", "b": "x"}
        assert await store.contexts.get(CONTEXT) == {"a": "x"}
        await store.tasks.delete(KEY)
        assert await store.contexts.delete_unused(before=NOON, limit=9) == 1
        assert await store.contexts.get(CONTEXT) == {}

    async def test_finished_tasks_of_one_tenant_or_one_agent_are_deleted_alone(self, store: Store) -> None:
        """In batches, oldest first for each owner; tasks that have not ended stay."""
        baker = structs.replace(NEW, agent="baker")
        keys = [Key(ADA, "a-1"), Key(ADA, "a-2"), Key(BOB, "b-1"), Key(ADA_ELSEWHERE, "e-1")]
        for number, key in enumerate(keys):
            await store.tasks.write(creation(key, state=TaskState.COMPLETED, at=minute(number)))
        of_baker = Key(BOB, "b-2")
        await store.tasks.write(creation(of_baker, new=baker, state=TaskState.FAILED, at=minute(0)))
        await store.tasks.write(creation(Key(BOB, "b-3"), new=baker, state=TaskState.WORKING, at=minute(0)))
        tasks = store.tasks

        assert await tasks.delete_finished(before=NOON, limit=9, agent="baker") == 0
        assert await tasks.delete_finished(before=minute(9), limit=9, agent="baker", tenant="umbrella") == 0
        assert await tasks.delete_finished(before=minute(9), limit=9, agent="baker") == 1
        assert await tasks.head(of_baker) is None
        assert await tasks.head(Key(BOB, "b-3")) is not None
        assert await tasks.delete_finished(before=minute(9), limit=9, tenant="umbrella") == 1
        assert await tasks.head(keys[3]) is None
        assert await tasks.delete_finished(before=minute(9), limit=2, agent="cook", tenant="acme") == 2
        assert await tasks.delete_finished(before=minute(9), limit=2, agent="cook", tenant="acme") == 1
        assert [await tasks.head(key) for key in keys] == [None] * 4

    async def test_unused_contexts_of_one_tenant_or_one_agent_are_deleted_alone(self, store: Store) -> None:
        contexts = [
            ContextKey(ADA, "cook", "old"),
            ContextKey(ADA, "baker", "old"),
            ContextKey(ADA_ELSEWHERE, "cook", "old"),
        ]
        for context in contexts:
            await store.contexts.put(context, "a", "x", at=minute(-9))
        assert await store.contexts.delete_unused(before=NOON, limit=9, agent="baker") == 1
        assert await store.contexts.delete_unused(before=NOON, limit=9, tenant="umbrella", agent="baker") == 0
        assert await store.contexts.delete_unused(before=NOON, limit=9, tenant="umbrella") == 1
        assert [await store.contexts.get(context) for context in contexts] == [{"a": "x"}, {}, {}]

    # --- the data of an owner -----------------------------------------------------------------------------------------

    async def test_the_contexts_of_an_owner_are_listed_and_deleted_with_values_of_every_name(
        self, store: Store
    ) -> None:
        other_agent, other_context = ContextKey(ADA, "baker", "c-1"), ContextKey(ADA, "cook", "c-2")
        of_bob = ContextKey(BOB, "cook", "c-1")
        for context in (CONTEXT, other_agent, other_context, of_bob):
            await store.contexts.put(context, "a", "x", at=NOON)
        await store.contexts.put(CONTEXT, f"{CONVERSATION}b", "large", at=NOON)
        data = store.owner_data
        assert await data.contexts(ADA) == [other_agent, CONTEXT, other_context]
        assert await data.contexts(ADA, agent="cook") == [CONTEXT, other_context]
        assert await data.contexts(ADA, context_id="c-1") == [other_agent, CONTEXT]
        assert await data.contexts(ADA_ELSEWHERE) == []
        assert await data.delete_context(CONTEXT) == 2
        assert await data.delete_context(CONTEXT) == 0
        assert await data.contexts(ADA) == [other_agent, other_context]
        assert await store.contexts.get(of_bob) == {"a": "x"}

    async def test_the_sends_of_an_owner_are_listed_page_by_page_and_deleted(self, store: Store) -> None:
        record = SendRecord(NOON, reply=Message("r-1", Role.AGENT, (TextPart("hi"),), "c-1"))
        sends = [SendKey("m-1", b"1"), SendKey("m-1", b"2"), SendKey("m-2", b"1")]
        for send in sends:
            await store.sends.put(ADA, send, record)
        await store.sends.put(BOB, sends[0], record)
        data = store.owner_data
        assert list(await data.sends(ADA, limit=2)) == [(send, record) for send in sends[:2]]
        assert list(await data.sends(ADA, after=sends[1], limit=2)) == [(sends[2], record)]
        assert await data.delete_sends(ADA, [sends[0], sends[2], SendKey("m-3", b"1")]) == 2
        assert [send for send, _ in await data.sends(ADA, limit=9)] == [sends[1]]
        assert [send for send, _ in await data.sends(BOB, limit=9)] == [sends[0]]
        assert await store.sends.find(ADA, sends[0], since=NOON) is None

    async def test_owners_are_listed_whatever_is_kept_of_them(self, store: Store) -> None:
        assert await store.owner_data.owners(limit=9) == []
        await store.tasks.write(creation())
        await store.contexts.put(ContextKey(ADA_ELSEWHERE, "cook", "c-1"), "a", 1, at=NOON)
        await store.sends.put(BOB, SEND, SendRecord(NOON))
        await store.contexts.put(CONTEXT, "a", 1, at=NOON)
        assert await store.owner_data.owners(limit=9) == [ADA, BOB, ADA_ELSEWHERE]
        assert await store.owner_data.owners(limit=1) == [ADA]
        assert await store.owner_data.owners(after=ADA, limit=9) == [BOB, ADA_ELSEWHERE]
        assert await store.owner_data.erase()

    # --- records ------------------------------------------------------------------------------------------------------

    async def test_a_record_is_read_as_it_was_written_last(self, store: Store) -> None:
        """Its revision counts its writes; one that was deleted begins anew. Any names and any JSON object will do."""
        await store.records.write(PutRecord(RECORD, {"name": "Ada"}))
        assert await store.records.get(RECORD) == Record(RECORD, {"name": "Ada"}, 0, 1)
        value: JsonObject = {"ö": [1, 2.5, None, {"deep": True}], "": "\x00🥚"}
        await store.records.write(PutRecord(RECORD, value, sort=-(2**63), expected=1))
        assert await store.records.get(RECORD) == Record(RECORD, value, -(2**63), 2)
        await store.records.write(DeleteRecord(RECORD, expected=2))
        assert await store.records.get(RECORD) is None
        await store.records.write(DeleteRecord(RECORD), DeleteRecord(RECORD, expected=0))
        await store.records.write(PutRecord(RECORD, {}, expected=0))
        assert await store.records.get(RECORD) == Record(RECORD, {}, 0, 1)
        odd = RecordKey("'\x00" if self.keeps_nul else "'", "", "🥚")
        await store.records.write(PutRecord(odd, {"odd": True}))
        assert await store.records.get(odd) == Record(odd, {"odd": True}, 0, 1)

    @pytest.mark.parametrize(
        "conflicting",
        [
            PutRecord(RECORD, {"new": 1}, expected=0),
            PutRecord(RECORD, {"new": 1}, expected=2),
            DeleteRecord(RECORD, expected=2),
            DeleteRecord(RECORD, expected=0),
            PutRecord(ABSENT, {"new": 1}, expected=1),
            DeleteRecord(ABSENT, expected=1),
        ],
    )
    async def test_a_write_of_records_that_conflicts_leaves_nothing(
        self, store: Store, conflicting: RecordChange
    ) -> None:
        """None of its changes happened, whether before or after the one that conflicts; the next write succeeds."""
        other = RecordKey("agents", "acme", "a-3")
        await store.records.write(PutRecord(RECORD, {"old": 1}), PutRecord(other, {"old": 2}))
        before = list(await store.records.list("agents", "acme", limit=9))
        with pytest.raises(RecordConflictError) as refused:
            await store.records.write(
                *(PutRecord(RecordKey("agents", "acme", "a-4"), {}), DeleteRecord(other)),
                *(conflicting, PutRecord(RecordKey("agents", "acme", "a-5"), {})),
            )
        assert refused.value.key == conflicting.key
        assert list(await store.records.list("agents", "acme", limit=9)) == before
        assert await store.records.count("agents", "acme") == 2
        await store.records.write(PutRecord(RECORD, {}, expected=1))

    async def test_each_change_of_a_write_sees_those_before_it(self, store: Store) -> None:
        """A record may be changed several times in one write."""
        await store.records.write(
            *(PutRecord(RECORD, {"n": 1}, expected=0), PutRecord(RECORD, {"n": 2}, sort=2, expected=1)),
            *(DeleteRecord(RECORD, expected=2), PutRecord(RECORD, {"n": 3}, sort=3, expected=0)),
        )
        assert list(await store.records.list("agents", "acme", limit=9)) == [Record(RECORD, {"n": 3}, 3, 1)]
        await store.records.write()

    @pytest.mark.parametrize(
        "broken",
        [
            PutRecord(ABSENT, {"text": "\ud800"}),
            PutRecord(ABSENT, {}, sort=2**63),
            PutRecord(RecordKey("agents", "acme", "\ud800"), {}),
            DeleteRecord(RecordKey("\ud800", "acme", "a-1")),
        ],
    )
    async def test_a_record_that_cannot_be_kept_is_refused(self, store: Store, broken: RecordChange) -> None:
        """With the whole write that it is part of."""
        with pytest.raises(StoreError, match="cannot be kept"):
            await store.records.write(PutRecord(RECORD, {}), broken)
        assert list(await store.records.list_all("agents", limit=9)) == []
        with pytest.raises(StoreError, match="looked for"):
            await store.records.list("agents", "acme", after=(2**63, ""), limit=9)

    async def test_records_are_listed_by_sort_and_id_in_both_directions(self, store: Store) -> None:
        """A record moves when its sort changes. Pages join without gap or repetition; others' records are not there."""
        ids = ("b", "a", "ä", "B", "c", "d", "e")
        changes = [PutRecord(RecordKey("agents", "acme", each), {"id": each}, sort=-5) for each in ids]
        await store.records.write(*changes, PutRecord(RecordKey("agents", "umbrella", "x"), {}))
        await store.records.write(PutRecord(RecordKey("notes", "acme", "x"), {}))
        for number, moved in enumerate(("c", "d", "e", "d")):
            await store.records.write(PutRecord(RecordKey("agents", "acme", moved), {"id": moved}, sort=number))
        rising = [("B", -5), ("a", -5), ("b", -5), ("ä", -5), ("c", 0), ("e", 2), ("d", 3)]
        for newest_first, expected in ((False, rising), (True, rising[::-1])):
            for limit in (1, 3, 7, 8):
                found: list[Record] = []
                after = None
                while page := await store.records.list(
                    "agents", "acme", after=after, limit=limit, newest_first=newest_first
                ):
                    assert len(page) <= limit
                    found += page
                    assert len(found) <= 7
                    after = (found[-1].sort, found[-1].key.id)
                assert [(record.key.id, record.sort) for record in found] == expected
        assert list(await store.records.list("agents", "acme", limit=1)) == [
            await store.records.get(RecordKey("agents", "acme", "d"))
        ]
        assert list(await store.records.list("agents", "acme", limit=0)) == []

    async def test_records_of_all_tenants_are_listed_by_tenant_and_id(self, store: Store) -> None:
        """Whatever their sort. Pages join without gap or repetition."""
        keys = [RecordKey("agents", tenant, f"a-{n}") for tenant in ("", "acme", "umbrella") for n in range(3)]
        for number, key in enumerate(reversed(keys)):
            await store.records.write(PutRecord(key, {"n": number}, sort=number % 4))
        await store.records.write(PutRecord(RecordKey("notes", "acme", "x"), {}))
        found: list[Record] = []
        after = None
        while page := await store.records.list_all("agents", after=after, limit=2):
            assert len(page) <= 2
            found += page
            assert len(found) <= 9
            after = (found[-1].key.tenant, found[-1].key.id)
        assert [record.key for record in found] == keys
        assert found[0] == await store.records.get(keys[0])

    async def test_tenants_and_collections_have_their_own_records(self, store: Store) -> None:
        """The same id in another tenant or collection is another record; each counts its own."""
        elsewhere = [RecordKey("agents", "umbrella", "a-1"), RecordKey("notes", "acme", "a-1")]
        await store.records.write(PutRecord(RECORD, {}), PutRecord(ABSENT, {}))
        for key in elsewhere:
            assert await store.records.get(key) is None
            assert await store.records.count(key.collection, key.tenant) == 0
            await store.records.write(PutRecord(key, {"mine": True}, expected=0), DeleteRecord(key), PutRecord(key, {}))
            assert await store.records.count(key.collection, key.tenant) == 1
        await store.records.write(DeleteRecord(RECORD))
        assert await store.records.count("agents", "acme") == 1
        assert [await store.records.get(key) for key in elsewhere] == [Record(key, {}, 0, 1) for key in elsewhere]

    async def test_readers_cannot_change_a_record(self, store: Store) -> None:
        """Neither by what they were given nor by what they gave."""
        value: JsonObject = {"list": ["eggs"]}
        await store.records.write(PutRecord(RECORD, value))
        value["list"] = ["mine"]
        record = await store.records.get(RECORD)
        assert record is not None
        record.value.clear()
        assert [each.value for each in await store.records.list("agents", "acme", limit=9)] == [{"list": ["eggs"]}]

    async def test_writes_of_records_take_effect_in_the_order_of_the_calls(self, store: Store) -> None:
        """Each finds the revision that the one before it has left."""
        writes = [store.records.write(PutRecord(RECORD, {"n": n}, expected=n)) for n in range(20)]
        await asyncio.gather(*writes)
        assert await store.records.get(RECORD) == Record(RECORD, {"n": 19}, 0, 20)

    async def test_no_number_of_a_series_is_given_out_twice(self, make_store: MakeStore) -> None:
        """Also after the store was opened again. Each series of each tenant begins with 1."""
        store = make_store()
        await store.open()
        numbers = await asyncio.gather(*[store.records.next_number("todos", "acme") for _ in range(30)])
        assert sorted(numbers) == list(range(1, 31))
        await store.close()
        store = make_store()
        await store.open()
        assert await store.records.next_number("todos", "acme") == 31
        assert await store.records.next_number("todos", "umbrella") == 1
        assert await store.records.next_number("lessons", "acme") == 1
        assert [await store.records.next_number("lessons", "acme", after=after) for after in (7, 3)] == [8, 9]
        assert await store.records.next_number("songs", "acme", after=4) == 5
        await store.close()

    # --- deletion -----------------------------------------------------------------------------------------------------

    async def test_a_deleted_task_leaves_nothing(self, store: Store) -> None:
        """Its id can be used again, and nothing of the old one shows. A context's memory is no part of a task."""
        snapshot = fold(None, EVERYTHING)
        sends = ((SEND, SendRecord(NOON, "t-1")),)
        await store.tasks.write(Write(KEY, 0, EVERYTHING, TaskState.WORKING, NOON, NEW, snapshot, sends))
        await store.outbox.put(KEY, PushConfig("https://hook.example", id="h"))
        await store.contexts.put(CONTEXT, "name", "Ada", at=NOON)
        await store.tasks.write(creation(Key(ADA, "t-2"), sends=((SendKey("m-2", b""), SendRecord(NOON, "t-2")),)))

        assert await store.tasks.delete(KEY) is True
        assert await store.tasks.delete(KEY) is False
        assert await store.tasks.head(KEY) is None
        assert list(await store.tasks.events(KEY, after=0, limit=9)) == []
        assert list(await store.outbox.configs(KEY)) == []
        assert await store.sends.find(ADA, SEND, since=NOON) is None
        assert (await store.tasks.list(ADA, TaskFilter())).total == 1
        assert await store.sends.find(ADA, SendKey("m-2", b""), since=NOON) is not None
        assert await store.contexts.get(CONTEXT) == {"name": "Ada"}
        with pytest.raises(ConflictError):
            await store.tasks.write(addition(5))

        await store.tasks.write(creation())
        stored = await read(store)
        assert (stored.snapshot, stored.snapshot_seq, stored.events) == (None, 0, (created("t-1"),))
        assert list(await store.outbox.configs(KEY)) == []

    async def test_a_send_stays_with_the_newest_task_it_went_to(self, store: Store) -> None:
        """Sent again after its window, it belongs to another task; deleting the first takes nothing of that."""
        await store.tasks.write(creation(sends=((SEND, SendRecord(NOON, "t-1")),)))
        newer = SendRecord(minute(20), "t-2")
        await store.tasks.write(creation(Key(ADA, "t-2"), sends=((SEND, newer),)))
        await store.tasks.delete(KEY)
        assert await store.sends.find(ADA, SEND, since=NOON) == newer

    async def test_a_deletion_takes_its_place_among_the_writes(self, store: Store) -> None:
        """What was called before it goes, what was called after it stays."""
        first, deletion = store.tasks.write(creation()), asyncio.ensure_future(store.tasks.delete(KEY))
        assert await deletion is True
        await first
        await asyncio.gather(store.tasks.write(creation()), store.tasks.write(addition(1)))
        assert len(await store.tasks.events(KEY, after=0, limit=9)) == 2

    async def test_finished_tasks_are_deleted_when_their_time_has_come(self, store: Store) -> None:
        """Those of every owner that ended before the moment, the oldest first, at most so many at a time."""
        for number, state in enumerate(TaskState):
            await store.tasks.write(creation(Key(ADA, state), state=state, at=minute(number)))
        for number in range(120):
            key = Key(BOB, f"old-{number}")
            await store.tasks.write(creation(key, state=TaskState.COMPLETED, at=minute(-number - 1)))
        assert await store.tasks.delete_finished(before=minute(-200), limit=10) == 0
        assert await store.tasks.delete_finished(before=NOON, limit=0) == 0
        assert await store.tasks.delete_finished(before=NOON, limit=70) == 70
        left = await store.tasks.list(BOB, TaskFilter(limit=100))
        assert [head.key.task_id for head in left.heads] == [f"old-{number}" for number in range(50)]
        assert await store.tasks.delete_finished(before=minute(4), limit=1_000) == 52
        kept = {head.key.task_id for head in (await store.tasks.list(ADA, TaskFilter())).heads}
        assert kept == {state.value for state in TaskState} - {"completed", "failed"}
        assert (await store.tasks.list(BOB, TaskFilter())).total == 0

    # --- opening and closing ------------------------------------------------------------------------------------------

    async def test_a_store_that_is_not_shared_ends_all_leases_when_it_is_opened(self, make_store: MakeStore) -> None:
        """Its workers of before are gone: what they held can be claimed at once."""
        store = make_store()
        await store.open()
        assert store.is_shared is False
        await store.leases.renew("worker-1", seconds=1_000)
        assert await store.leases.live() == {"worker-1"}
        await store.close()
        store = make_store()
        await store.open()
        assert await store.leases.live() == frozenset()
        await store.close()

    async def test_everything_is_there_when_the_store_is_opened_again(self, make_store: MakeStore) -> None:
        """Also what was called but not awaited before it was closed. Closing twice is no error."""
        store = make_store()
        await store.open()
        await store.tasks.write(creation(sends=((SEND, SendRecord(NOON, "t-1")),)))
        await store.tasks.write(structs.replace(addition(1), snapshot=fold(None, EVERYTHING)))
        await store.outbox.put(KEY, PushConfig("https://hook.example", id="h"))
        await store.contexts.put(CONTEXT, "name", "Ada", at=NOON)
        await store.records.write(PutRecord(RECORD, {"name": "Ada"}, sort=7))
        ahead = [store.tasks.write(addition(number)) for number in range(2, 50)]
        await store.close()
        await store.close()
        await asyncio.gather(*ahead)

        store = make_store()
        await store.open()
        stored = await read(store)
        assert stored.head.last_seq == 50
        assert (stored.snapshot, stored.snapshot_seq) == (fold(None, EVERYTHING), 2)
        assert stored.events == tuple(chunk(number) for number in range(3, 51))
        assert await store.sends.find(ADA, SEND, since=NOON) == SendRecord(NOON, "t-1")
        assert [config.id for config in await store.outbox.configs(KEY)] == ["h"]
        assert await store.contexts.get(CONTEXT) == {"name": "Ada"}
        assert await store.records.get(RECORD) == Record(RECORD, {"name": "Ada"}, 7, 1)
        assert [head.key for head in await store.tasks.orphaned(frozenset(), limit=9)] == [KEY]
        await store.tasks.write(addition(50))
        await store.close()
