"""The suite for what happens between workers: each test is one sentence of `parley.stores.interface`.

A store's own tests derive from it and say how a handle is made; all handles are on one database. A store that one
process has to itself gives the same handle each time.

    class TestMySharedStore(SharedStoreSuite):
        @pytest.fixture
        def make_store(self, tmp_path, now):
            return lambda: MyStore(tmp_path / "tasks.db", now=now)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Any, TypeAlias

import pytest
from msgspec import structs

from parley.protocol.events import MessageAdded, TaskClaimed
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.push import PushConfig
from parley.protocol.tasks import TaskState
from parley.protocol.versions import Version
from parley.stores.interface import (
    ConflictError,
    InboxItem,
    LeaseLostError,
    Owner,
    PutRecord,
    Record,
    RecordKey,
    RepeatedSendError,
    SendKey,
    SendRecord,
    Store,
    TaskKey,
    Worker,
    Workload,
    Write,
)
from parley.stores.interface.leases import LONG_AGO
from tests.stores.store_suite import MakeStore, head_of
from tests.stores.writes import (
    ADA,
    ADA_ELSEWHERE,
    BOB,
    EVERYTHING,
    KEY,
    NEW,
    NOON,
    SEND,
    addition,
    chunk,
    creation,
    minute,
)

Handles: TypeAlias = tuple[Store, Store]

W1, W2 = "worker-1", "worker-2"
BOTH = frozenset({W1, W2})
HOOK = PushConfig("https://hook.example", id="h")


class ManualTime:
    """A clock of seconds that a test moves."""

    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def __call__(self) -> float:
        """The present moment."""
        return self.seconds


def held(write: Write, before: str, after: str) -> Write:
    """A write of a worker, which holds the task before, and of the one that holds it after."""
    return structs.replace(write, expected_holder=before, holder=after)


def claim(number: int, before: str, after: str, key: TaskKey = KEY) -> Write:
    """The write by which a worker takes a task over."""
    event = TaskClaimed(key.task_id, "c-1", after)
    return held(Write(key, number, (event,), TaskState.WORKING, NOON, attempts=1), before, after)


def settling(number: int, holder: str, state: TaskState = TaskState.COMPLETED, key: TaskKey = KEY) -> Write:
    """The write by which a worker lets go of a task."""
    return held(Write(key, number, (chunk(number + 1),), state, NOON), holder, "")


class SharedStoreSuite:
    """What holds between workers. Derive from it and define the fixture `make_store`."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def now(self) -> ManualTime:
        """The clock of the leases."""
        return ManualTime()

    @pytest.fixture
    async def handles(self, make_store: MakeStore) -> AsyncGenerator[Handles]:
        """Two open handles on one empty database."""
        one, two = make_store(), make_store()
        await one.open()
        if two is not one:
            await two.open()
        yield one, two
        await one.close()
        await two.close()

    # --- the fence ----------------------------------------------------------------------------------------------------

    async def test_only_the_worker_that_holds_a_task_can_append(self, handles: Handles) -> None:
        """Who else tries has lost a lease, or a race; nothing of it is kept."""
        one, two = handles
        await one.tasks.write(held(creation(), "", W1))
        head = await head_of(two)
        assert head.holder == W1
        with pytest.raises(ConflictError) as conflict:
            await two.tasks.write(held(addition(1), "", W2))
        assert type(conflict.value) is ConflictError
        for stranger in (held(addition(1), W2, W2), held(addition(7), W1, W1), held(addition(1, BOBS), W1, W1)):
            with pytest.raises(LeaseLostError):
                await two.tasks.write(stranger)
        assert await one.tasks.head(KEY) == head
        await one.tasks.write(held(addition(1), W1, W1))
        assert [seq for seq, _ in await two.tasks.events(KEY, after=0, limit=9)] == [1, 2]

    async def test_a_claim_takes_the_number_that_the_former_holder_would_write(self, handles: Handles) -> None:
        """So that whatever it writes fails, also when the task is parked, or held by it again."""
        one, two = handles
        await one.tasks.write(held(creation(), "", W1))
        await two.tasks.write(claim(1, W1, W2))
        late = [one.tasks.write(held(addition(number), W1, W1)) for number in range(1, 4)]
        assert [type(error) for error in await asyncio.gather(*late, return_exceptions=True)] == [LeaseLostError] * 3
        await two.tasks.write(settling(2, W2, TaskState.INPUT_REQUIRED))
        with pytest.raises(LeaseLostError):
            await one.tasks.write(held(addition(3), W1, W1))
        await one.tasks.write(claim(3, "", W1))
        with pytest.raises(LeaseLostError):
            await one.tasks.write(held(addition(1), W1, W1))
        assert [seq for seq, _ in await two.tasks.events(KEY, after=0, limit=9)] == [1, 2, 3, 4]

    async def test_of_two_workers_that_claim_a_task_one_gets_it(self, handles: Handles) -> None:
        """Whether they take it from a dead worker or from none."""
        one, two = handles
        for seq, before in ((1, "dead"), (3, "")):
            if seq == 1:
                await one.tasks.write(held(creation(), "", before))
            outcomes = await asyncio.gather(
                one.tasks.write(claim(seq, before, W1)), two.tasks.write(claim(seq, before, W2)), return_exceptions=True
            )
            assert sum([outcome is None for outcome in outcomes]) == 1
            head = await head_of(one)
            assert (head.holder, head.last_seq, head.attempts) == ((W1, W2)[outcomes.index(None)], seq + 1, 1)
            await one.tasks.write(settling(seq + 1, head.holder, TaskState.INPUT_REQUIRED))

    # --- leases -------------------------------------------------------------------------------------------------------

    async def test_a_lease_lasts_until_it_expires_or_is_released(self, handles: Handles, now: ManualTime) -> None:
        """Renewed, it lasts as long again; every handle sees it."""
        one, two = handles
        assert await one.leases.live() == frozenset()
        await one.leases.renew(W1, seconds=10)
        await two.leases.renew(W2, seconds=10)
        now.seconds += 9
        assert await one.leases.live() == await two.leases.live() == BOTH
        await one.leases.renew(W1, seconds=10)
        now.seconds += 9
        assert await two.leases.live() == {W1}
        await two.leases.renew(W2, seconds=1)
        await one.leases.release(W1)
        await one.leases.release("unknown")
        assert await two.leases.live() == {W2}
        now.seconds += 1
        assert await two.leases.live() == frozenset()

    async def test_a_report_is_kept_with_the_lease(self, handles: Handles, now: ManualTime) -> None:
        """Until the worker gives another one; every handle sees it, by name, also after the lease expired."""
        one, two = handles
        assert list(await one.leases.workers()) == []
        first: dict[str, Any] = {"runs": 3, "version": "1.2", "names": ["Zoë"]}
        assert not await two.leases.renew(W2, seconds=10)
        assert not await one.leases.renew(W1, seconds=20, report=first)
        assert not await one.leases.renew(W1, seconds=20)
        kept = [Worker(W1, 20, dict(first), False), Worker(W2, 10, {}, False)]
        first["runs"] = 4
        assert list(await one.leases.workers()) == list(await two.leases.workers()) == kept
        now.seconds += 15
        assert not await two.leases.renew(W1, seconds=20, report={})
        assert list(await two.leases.workers()) == [Worker(W1, 20, {}, False), Worker(W2, -5, {}, False)]
        await one.leases.release(W1)
        assert [worker.worker for worker in await two.leases.workers()] == [W2]
        now.seconds += LONG_AGO
        assert list(await two.leases.workers()) == []

    async def test_a_worker_hears_at_its_next_renewal_that_it_is_to_drain(
        self, handles: Handles, now: ManualTime
    ) -> None:
        """And at each one after it, until its lease is released. No other worker hears it."""
        one, two = handles
        for worker in BOTH:
            await one.leases.renew(worker, seconds=10, report={"name": worker})
        assert await two.leases.ask_to_drain(W1)
        assert not await two.leases.ask_to_drain("unknown")
        workers = [(each.worker, each.is_asked_to_drain) for each in await two.leases.workers()]
        assert workers == [(W1, True), (W2, False)]
        for _ in range(2):
            assert await one.leases.renew(W1, seconds=10)
            assert not await two.leases.renew(W2, seconds=10)
        now.seconds += 10
        assert not await two.leases.ask_to_drain(W2)
        assert await one.leases.renew(W1, seconds=10)
        await one.leases.release(W1)
        assert not await one.leases.renew(W1, seconds=10)

    async def test_tasks_that_no_live_worker_holds_are_found(self, handles: Handles) -> None:
        """Submitted and working ones of every owner, the oldest first, in pages; held by the dead or by none."""
        one, two = handles
        for number, holder in enumerate(("dead", W1, "", "gone", W2, "dead")):
            for state in TaskState:
                key = TaskKey((ADA, BOB, ADA_ELSEWHERE)[number % 3], f"{number} {state}")
                agent = "waiter" if number % 2 else NEW.agent
                new = structs.replace(NEW, created_at=minute(-number), agent=agent)
                await one.tasks.write(held(creation(key, new=new, state=state), "", holder))
        everything = await two.tasks.orphaned(BOTH, limit=99)
        ids = [f"{number} {state}" for number in (5, 3, 2, 0) for state in ("submitted", "working")]
        assert [head.key.task_id for head in everything] == ids
        assert [await one.tasks.head(head.key) for head in everything] == list(everything)
        pages: list[str] = []
        after: tuple[datetime, str] | None = None
        while page := await two.tasks.orphaned(BOTH, after=after, limit=3):
            assert len(page) <= 3
            pages += [head.key.task_id for head in page]
            after = (page[-1].created_at, page[-1].key.task_id)
        assert pages == ids
        assert len(await two.tasks.orphaned(frozenset(), limit=99)) == 12
        of_one = await two.tasks.orphaned(BOTH, agents=frozenset({"waiter", "none"}), limit=99)
        assert [head.key.task_id for head in of_one] == ids[:4]
        assert list(await two.tasks.orphaned(BOTH, agents=frozenset(), limit=99)) == []
        assert list(await two.tasks.orphaned(BOTH | {"dead", "gone", ""}, limit=99)) == []

    async def test_what_waits_and_sleeps_is_counted(self, handles: Handles) -> None:
        """Tasks of all owners, by whether a live worker holds them, and those of which a webhook is behind."""
        one, two = handles
        assert (await one.tasks.workload(BOTH), await one.outbox.backlog()) == (Workload(), 0)
        for number, holder in enumerate(("dead", W1, "", W2, "gone")):
            for state in TaskState:
                key = TaskKey((ADA, BOB, ADA_ELSEWHERE)[number % 3], f"{number} {state}")
                hooks = ((HOOK, Version.V1_0),) if number == 1 else ()
                write = structs.replace(creation(key, state=state), status_at=minute(number), webhooks=hooks)
                await one.tasks.write(held(write, "", holder))
        asleep = structs.replace(creation(TaskKey(BOB, "asleep"), state=TaskState.WORKING), wake_at=minute(30))
        await two.tasks.write(asleep)
        assert await two.tasks.workload(BOTH) == Workload(4, 6, minute(0), 1)
        assert await two.tasks.workload(BOTH | {"dead"}) == Workload(6, 4, minute(2), 1)
        assert await two.tasks.workload(BOTH | {"dead", "gone", ""}) == Workload(10, 0, None, 1)
        assert await two.outbox.backlog() == len(TaskState)

    async def test_a_task_that_sleeps_is_found_when_it_is_due(self, handles: Handles) -> None:
        """Like the tasks of dead workers, and of two workers that wake it one succeeds; then it does not sleep."""
        one, two = handles
        moments = (minute(30), minute(20), minute(20), None)
        keys = [TaskKey((ADA, BOB)[number % 2], f"t-{number}") for number in range(len(moments))]
        for number, (key, moment) in enumerate(zip(keys, moments, strict=True)):
            new = structs.replace(NEW, created_at=minute(-number))
            await one.tasks.write(held(creation(key, new=new, state=TaskState.WORKING), "", W1))
            if moment is not None:
                asleep = Write(key, 1, (), TaskState.WORKING, NOON, expected_holder=W1, wake_at=moment)
                await one.tasks.write(asleep)
        assert [(await head_of(two, key)).wake_at for key in keys] == list(moments)
        assert (await head_of(two, keys[0])).holder == ""

        async def found(now: datetime | None, *live: str, **query: Any) -> list[str]:
            heads = await two.tasks.orphaned(frozenset(live), now=now, limit=9, **query)
            assert [await one.tasks.head(head.key) for head in heads] == list(heads)
            return [head.key.task_id for head in heads]

        assert await found(None) == await found(minute(19)) == ["t-3"]
        assert await found(minute(20), W1) == ["t-2", "t-1"]
        assert await found(minute(30)) == ["t-3", "t-2", "t-1", "t-0"]
        assert await found(minute(30), W1, after=(minute(-1), "t-1")) == ["t-0"]
        assert await found(minute(30), W1, agents=frozenset({"waiter"})) == []
        wakes = [await two.tasks.next_wake(after=minute(number)) for number in (0, 19, 20, 30)]
        assert wakes == [minute(20), minute(20), minute(30), None]

        waking = [one.tasks.write(claim(1, "", W1, keys[0])), two.tasks.write(claim(1, "", W2, keys[0]))]
        assert [type(error) for error in await asyncio.gather(*waking, return_exceptions=True)].count(
            ConflictError
        ) == 1
        assert (await head_of(two, keys[0])).wake_at is None
        assert await one.tasks.next_wake(after=minute(20)) is None
        await two.tasks.write(Write(keys[1], 1, (), TaskState.WORKING, NOON, wake_at=minute(40)))
        await one.tasks.delete(keys[2])
        assert await found(minute(40), W1, W2) == ["t-1"]
        await one.tasks.write(settling(1, "", TaskState.CANCELED, keys[1]))
        assert await found(minute(40), W1, W2) == []
        assert await two.tasks.next_wake(after=NOON) is None

    # --- sends --------------------------------------------------------------------------------------------------------

    async def test_a_message_is_sent_once_however_many_workers_get_it(self, handles: Handles) -> None:
        """The others hear what became of it, and nothing of their writes is kept; after its window it is new."""
        stores = [*handles, *handles]
        writes = [
            structs.replace(
                held(creation(TaskKey(ADA, f"t-{number}")), "", W1),
                sends=((SEND, SendRecord(NOON, f"t-{number}")),),
                sends_since=minute(-10),
            )
            for number in range(4)
        ]
        writing = [store.tasks.write(write) for store, write in zip(stores, writes, strict=True)]
        outcomes = await asyncio.gather(*writing, return_exceptions=True)
        winner = outcomes.index(None)
        record = SendRecord(NOON, f"t-{winner}")
        assert [outcome.record for outcome in outcomes if isinstance(outcome, RepeatedSendError)] == [record] * 3
        for store in handles:
            assert await store.sends.find(ADA, SEND, since=NOON) == record
            assert [await store.tasks.head(write.key) is not None for write in writes].count(True) == 1
        for number, other in ((4, SendKey(SEND.message_id, b"other")), (5, SEND)):
            later = SendRecord(minute(30), f"t-{number}")
            write = creation(TaskKey(ADA, f"t-{number}"), sends=((other, later),))
            await handles[1].tasks.write(structs.replace(write, sends_since=minute(20)))
            assert await handles[0].sends.find(ADA, other, since=minute(20)) == later

    async def test_a_direct_reply_is_worked_on_by_one_worker(self, handles: Handles) -> None:
        """Another one meets its record; it takes the record over from a dead one, which then comes too late."""
        one, two = handles
        window, reply = minute(-10), Message("m-2", Role.AGENT, (TextPart("Sept."),))
        working = [SendRecord(NOON, holder=worker) for worker in (W1, W2)]
        done = [SendRecord(NOON, reply=structs.replace(reply, message_id=worker)) for worker in (W1, W2)]
        await one.sends.put(ADA, SEND, working[0], since=window)
        with pytest.raises(RepeatedSendError) as repeated:
            await two.sends.put(ADA, SEND, working[1], since=window)
        assert repeated.value.record == working[0]
        await two.sends.put(ADA, SEND, working[1], since=window, holder=W1)
        with pytest.raises(RepeatedSendError):
            await one.sends.put(ADA, SEND, done[0], since=window, holder=W1)
        await two.sends.put(ADA, SEND, done[1], since=window, holder=W2)
        assert await one.sends.find(ADA, SEND, since=NOON) == done[1]
        with pytest.raises(RepeatedSendError):
            await two.sends.put(ADA, SEND, working[1], since=window, holder=W2)
        await two.sends.put(ADA, SEND, working[1], since=minute(1))
        for number, (worker, kind) in enumerate([(W1, RepeatedSendError), (W2, None), (W2, RepeatedSendError)]):
            # The worker that works on the reply may find out that the message needs a task.
            key, record = TaskKey(ADA, f"t-{number}"), SendRecord(NOON, f"t-{number}", holder=worker)
            write = structs.replace(creation(key, sends=((SEND, record),)), sends_since=window)
            (outcome,) = await asyncio.gather(one.tasks.write(write), return_exceptions=True)
            assert (type(outcome) if outcome else None, await two.tasks.head(key) is None) == (kind, bool(kind))

    # --- the inbox ----------------------------------------------------------------------------------------------------

    async def test_an_item_waits_for_the_holder_of_its_task(self, handles: Handles) -> None:
        """The present holder gets it; the former one does not see it any more. It can be withdrawn, once."""
        one, two = handles
        first, second = (InboxItem(number, KEY, Version.V1_0) for number in "12")
        full = EVERYTHING[1]
        assert isinstance(full, MessageAdded)
        with_all = InboxItem(
            "3", KEY, Version.V0_3, full.message, (SEND, SendRecord(NOON, "t-1", full.message, W1)), HOOK
        )
        await one.tasks.write(held(creation(), "", W1))
        await one.tasks.write(held(creation(OTHER), "", W2))
        for item in (with_all, first, second):
            await two.inbox.post(item)
        await one.inbox.post(structs.replace(first, key=OTHER))
        assert list(await one.inbox.items(W1)) == [with_all, first, second]
        assert await two.inbox.has(first) is True
        assert await two.inbox.withdraw(first) is True
        assert await two.inbox.withdraw(first) is False
        assert await one.inbox.has(first) is False
        await two.tasks.write(claim(1, W1, W2))
        assert list(await one.inbox.items(W1)) == []
        assert [item.id for item in await two.inbox.items(W2)] == ["3", "2", "1"]
        await two.tasks.delete(KEY)
        assert await one.inbox.has(second) is False
        assert [item.key for item in await two.inbox.items(W2)] == [OTHER]

    async def test_nothing_is_left_for_a_task_that_no_worker_holds(self, handles: Handles) -> None:
        """It would wait for ever."""
        one, two = handles
        await one.tasks.write(held(creation(), "", W1))
        await one.tasks.write(settling(1, W1))
        for key in (KEY, OTHER, TaskKey(BOB, KEY.task_id)):
            with pytest.raises(ConflictError):
                await two.inbox.post(InboxItem("1", key, Version.V1_0))
        assert list(await one.inbox.items("")) == []

    async def test_an_item_is_taken_with_the_events_that_answer_it(self, handles: Handles) -> None:
        """Both or neither."""
        one, two = handles
        item = InboxItem("1", KEY, Version.V1_0)
        await one.tasks.write(held(creation(), "", W1))
        await one.tasks.write(held(creation(OTHER), "", W2))
        await two.inbox.post(item)
        for refused in (held(addition(7), W1, W1), held(addition(1), W2, W2), held(addition(1, OTHER), W2, W2)):
            if refused.key != OTHER:  # whose item of that id is another one
                with pytest.raises(LeaseLostError):
                    await one.tasks.write(structs.replace(refused, taken=("1",)))
            else:
                await one.tasks.write(structs.replace(refused, taken=("1",)))
            assert await two.inbox.has(item) is True
        await one.tasks.write(structs.replace(held(addition(1), W1, W1), taken=("1", "unknown")))
        assert await two.inbox.has(item) is False
        assert await two.inbox.withdraw(item) is False

    # --- the outbox ---------------------------------------------------------------------------------------------------

    async def test_the_worker_that_writes_tells_the_webhooks(self, handles: Handles) -> None:
        """Also of its last write. Another one does when it is dead, and the first must stop then."""
        one, two = handles

        async def to_tell(store: Store, holder: str, live: frozenset[str]) -> list[TaskKey]:
            return list(await store.outbox.undelivered(holder=holder, live=live, after=None, limit=9))

        created = structs.replace(held(creation(), "", W1), webhooks=((HOOK, Version.V1_0),))
        await one.tasks.write(created)
        assert await to_tell(two, W1, BOTH) == [KEY]
        assert await to_tell(two, W2, BOTH) == []
        assert await one.outbox.mark_delivered(KEY, "h", 1, holder=W1) is True
        assert await to_tell(two, W1, BOTH) == []
        assert list(await two.outbox.claim([KEY], holder=W2, live=frozenset())) == []

        await one.tasks.write(settling(1, W1))
        assert await to_tell(one, W1, BOTH) == [KEY]
        assert list(await two.outbox.claim([KEY, OTHER], holder=W2, live=BOTH)) == []
        assert await to_tell(two, W2, frozenset({W2})) == [KEY]
        assert list(await two.outbox.claim([OTHER, KEY], holder=W2, live=frozenset({W2}))) == [KEY]
        assert list(await two.outbox.claim([KEY], holder=W2, live=BOTH)) == [KEY]
        assert await to_tell(one, W1, BOTH) == []
        assert await one.outbox.mark_delivered(KEY, "h", 2, holder=W1) is False
        assert [webhook.delivered_seq for webhook in await two.outbox.webhooks(KEY)] == [1]
        assert await two.outbox.mark_delivered(KEY, "h", 2, holder=W2) is True
        assert await to_tell(one, W1, frozenset()) == []

    async def test_a_webhook_that_is_added_or_deleted_changes_the_outbox(self, handles: Handles) -> None:
        """A task is in it as long as one of its webhooks is behind, of the worker that it first belonged to."""
        one, two = handles

        async def holders() -> list[str]:
            found = [(each, await one.outbox.undelivered(holder=each, live=BOTH, after=None, limit=9)) for each in BOTH]
            return [holder for holder, keys in found if keys]

        await one.tasks.write(held(creation(), "", W1))
        await two.outbox.put(KEY, HOOK, holder=W2)
        assert await holders() == []
        await two.outbox.put(KEY, structs.replace(HOOK, id="behind"), after=0, holder=W2)
        await one.outbox.put(KEY, structs.replace(HOOK, id="behind too"), after=0, holder=W1)
        assert await holders() == [W2]
        await one.outbox.put(KEY, HOOK, after=0, holder=W1)  # which was told everything, and stays so
        await one.outbox.delete(KEY, "behind")
        assert await holders() == [W2]
        await one.outbox.delete(KEY, "behind too")
        assert await holders() == []
        await one.tasks.write(held(addition(1), W1, W1))
        assert await holders() == [W1]
        await one.outbox.delete(KEY, "h")
        await one.tasks.write(held(addition(2), W1, W1))
        assert await holders() == []

    async def test_a_task_without_webhooks_stays_out_of_the_outbox_whoever_deleted_them(self, handles: Handles) -> None:
        """Also one that was created with a webhook: its holder may remember that."""
        one, two = handles
        for number, deleting in enumerate(handles):
            key = TaskKey(ADA, f"t-{number}")
            created = structs.replace(held(creation(key), "", W1), webhooks=((HOOK, Version.V1_0),))
            await one.tasks.write(created)
            await one.tasks.write(held(addition(1, key), W1, W1))
            assert await two.outbox.backlog() == 1
            await deleting.outbox.delete(key, "h")
            await one.tasks.write(held(addition(2, key), W1, W1))
            assert await two.outbox.backlog() == 0
            added = structs.replace(held(addition(3, key), W1, W1), webhooks=((HOOK, Version.V1_0),))
            await one.tasks.write(added)
            assert await two.outbox.undelivered(holder=W1, live=BOTH, after=None, limit=9) == [key]
            await deleting.outbox.delete(key, "h")

    # --- records ------------------------------------------------------------------------------------------------------

    async def test_of_two_workers_that_change_a_record_one_succeeds(self, handles: Handles) -> None:
        """The other learns that it was late, and nothing of its write is kept."""
        key, extras = RecordKey("agents", "acme", "a-1"), [RecordKey("agents", "acme", f"of {n}") for n in (0, 1)]
        await handles[0].records.write(PutRecord(key, {"n": 0}))
        assert await handles[1].records.get(key) == Record(key, {"n": 0}, 0, 1)
        outcomes = await asyncio.gather(
            *[
                store.records.write(PutRecord(extra, {}), PutRecord(key, {"by": extra.id}, expected=1))
                for store, extra in zip(handles, extras, strict=True)
            ],
            return_exceptions=True,
        )
        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["NoneType", "RecordConflictError"]
        winner = extras[outcomes.index(None)]
        for store in handles:
            assert await store.records.get(key) == Record(key, {"by": winner.id}, 0, 2)
            assert {record.key for record in await store.records.list_all("agents", limit=9)} == {key, winner}

    async def test_workers_share_the_numbers_of_a_series(self, handles: Handles) -> None:
        """None is given out twice, none is left out, and each worker gets them in rising order."""
        one, two = [[store.records.next_number("todos", "acme") for _ in range(40)] for store in handles]
        first, second = await asyncio.gather(asyncio.gather(*one), asyncio.gather(*two))
        assert sorted(first + second) == list(range(1, 81))
        assert (first, second) == (sorted(first), sorted(second))


BOBS = TaskKey(BOB, KEY.task_id)
OTHER = TaskKey(Owner(ADA.tenant, ADA.name), "t-2")
