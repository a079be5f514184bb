"""One SQLite file for several processes: the suite between workers, opening, writing, and the cost of reads."""

import asyncio
import shutil
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from parley.agents.agent import Agent
from parley.engine.engine import Engine
from parley.protocol.push import PushConfig
from parley.protocol.tasks import TaskState
from parley.protocol.versions import Version
from parley.stores.interface import NewTask, Owner, PutRecord, RecordKey, StoreUnavailableError, TaskFilter, TaskKey
from parley.stores.interface.leases import LONG_AGO
from parley.stores.sqlite.file import migrations
from parley.stores.sqlite.maintenance import FileMaintenance
from parley.stores.sqlite.store import SqliteStore
from parley.stores.urls import opened
from tests.stores.shared_store_suite import ManualTime, SharedStoreSuite, held
from tests.stores.store_suite import MakeStore
from tests.stores.test_sqlite import process, read_line
from tests.stores.writes import ADA, KEY, NOON, addition, creation

GOLDEN = Path(__file__).parent.parent / "golden" / "stores" / "schema-6.db"

pytestmark = pytest.mark.anyio


class TestSharedSqliteStore(SharedStoreSuite):
    @pytest.fixture
    def make_store(self, tmp_path: Path, now: ManualTime) -> MakeStore:
        return lambda: SqliteStore(tmp_path / "tasks.db", shared=True, now=now)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


# --- opening ----------------------------------------------------------------------------------------------------------


async def test_a_file_is_shared_only_by_those_who_say_so(path: Path) -> None:
    """Whichever is first. When it has gone, the file is free at once."""
    for first_shares in (True, False):
        for second_shares in (True, False):
            first = SqliteStore(path, shared=first_shares)
            second = SqliteStore(path, shared=second_shares, busy_timeout=0.05)
            await first.open()
            if first_shares and second_shares:
                await second.open()
                await second.close()
            else:
                with pytest.raises(StoreUnavailableError, match="another Parley process uses this file"):
                    await second.open()
            await first.close()


async def test_a_file_that_several_open_at_once_is_brought_up_to_date_once(path: Path) -> None:
    """The first does it alone, the others wait for it. A lease of before is over then: its worker is gone."""
    shutil.copy(GOLDEN, path)
    stores = [SqliteStore(path, shared=True) for _ in range(4)]
    await asyncio.gather(*[store.open() for store in stores])
    assert [len(await store.tasks.list_all(TaskFilter(limit=99))) for store in stores] == [23] * 4
    await stores[0].leases.renew("worker", seconds=1_000)
    assert await stores[3].leases.live() == {"worker"}
    await asyncio.gather(*[store.close() for store in stores])
    await stores[0].open()
    assert await stores[0].leases.live() == frozenset()
    await stores[0].close()
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (len(migrations()),)


async def test_a_file_that_an_older_process_uses_is_not_brought_up_to_date(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The older one would go on with tables that it does not know."""
    older, newer = SqliteStore(path, shared=True), SqliteStore(path, shared=True)
    await older.open()
    scripts = [*migrations(), "CREATE TABLE notes (note TEXT);"]
    with monkeypatch.context() as patch:
        patch.setattr("parley.stores.sqlite.file.migrations", lambda: scripts)
        with pytest.raises(StoreUnavailableError, match=r"an older Parley uses this file .+ Stop it first"):
            await newer.open()
    await older.tasks.write(creation())
    await older.close()


# --- writing at the same time -----------------------------------------------------------------------------------------


async def test_processes_write_at_the_same_time_and_one_that_is_killed_disturbs_no_other(path: Path) -> None:
    """What each was promised is there, and each sees what the other has written."""
    store = SqliteStore(path, shared=True, busy_timeout=30)
    await store.open()
    ours = TaskKey(ADA, "t-2")
    await store.tasks.write(creation(ours))
    with process("writing_process", path, "shared") as child:
        assert read_line(child) == "open"
        promised = 0
        for number in range(1, 60):
            await store.tasks.write(addition(number, ours))
            promised = int(await asyncio.to_thread(read_line, child))
            head = await store.tasks.head(KEY)
            assert head is not None
            assert head.last_seq >= promised
        child.kill()
        child.communicate()
    for key, least in ((KEY, promised), (ours, 60)):
        head = await store.tasks.head(key)
        assert head is not None
        assert head.last_seq >= least
    await store.tasks.write(addition(60, ours))
    await store.close()
    assert FileMaintenance(path, lambda _: None).check().wrong == ()


async def test_workers_that_are_killed_again_and_again_leave_nothing_for_ever(path: Path) -> None:
    """Each has a worker id of its own, and none of them releases its lease."""
    moment = 1e9
    store = SqliteStore(path, shared=True, now=lambda: moment)
    async with opened(store):
        for number in range(3):
            await store.leases.renew(f"killed-{number}", seconds=10)
        moment += LONG_AGO + 11
        async with Engine(store, Agent("Any"), worker="new"):
            with closing(sqlite3.connect(path)) as reader:
                assert reader.execute("SELECT worker FROM leases").fetchall() == [("new",)]


@pytest.mark.parametrize("agent", [None, "cook"])
async def test_few_long_tasks_are_deleted_in_a_transaction(
    path: Path, monkeypatch: pytest.MonkeyPatch, agent: str | None
) -> None:
    """All other writes wait for a transaction. One that deletes millions of events takes many seconds."""
    monkeypatch.setattr("parley.stores.sqlite.tasks.DELETED_EVENTS", 10)
    async with opened(SqliteStore(path, shared=True)) as store:
        for number in range(5):
            key, at = TaskKey(ADA, f"t-{number}"), NOON + timedelta(minutes=number)
            await store.tasks.write(creation(key, state=TaskState.COMPLETED, at=at))
            for seq in range(1, 8):
                await store.tasks.write(structs.replace(addition(seq, key), state=TaskState.COMPLETED, status_at=at))
        transactions: list[object] = []
        submit = store._access.submit

        async def counted(change: Any) -> Any:
            transactions.append(await submit(change))
            return transactions[-1]

        store._access.submit = counted
        before = NOON + timedelta(minutes=9)
        assert await store.tasks.delete_finished(before=before, limit=4, agent=agent) == 4
        assert transactions == ([2, 2] if agent is None else [(2, 2), (2, 2)])
        assert await store.tasks.delete_finished(before=before, limit=4, agent=agent) == 1


# --- what reads cost --------------------------------------------------------------------------------------------------


async def steps_of(store: SqliteStore, read: Callable[[], Awaitable[object]]) -> int:
    """How many instructions SQLite runs for a read."""
    reader = store._access._reader
    assert reader is not None
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    store._access._thread_readers.append(reader)  # nothing runs at the same time here
    reader.set_progress_handler(count, 1)
    await read()
    reader.set_progress_handler(None, 1)
    store._access._thread_readers.remove(reader)
    return steps


async def test_reads_cost_what_they_show_however_much_others_have(path: Path) -> None:
    """The last page of a list as much as the first; what is orphaned or undelivered, beside what live workers hold."""
    store = SqliteStore(path, shared=True)
    await store.open()
    keys = [TaskKey(Owner(f"tenant-{number % 3}", f"owner-{number % 7}"), f"t-{number:04}") for number in range(2_000)]
    hooks = ((PushConfig("https://hook.example"), Version.V1_0),)
    writing: list[Awaitable[None]] = []
    for number, key in enumerate(keys):
        at = NOON + timedelta(seconds=number)
        new, holder = NewTask(f"agent-{number % 2}", f"c-{number}", Version.V1_0, at), f"worker-{number % 4}"
        write = creation(key, new=new, state=TaskState.WORKING, at=at)
        writing.append(store.tasks.write(structs.replace(held(write, "", holder), webhooks=hooks)))
    await asyncio.gather(*writing)
    live = frozenset({"worker-0", "worker-1", "worker-2"})

    for tenant in (None, "tenant-1"):
        everything = await store.tasks.list_all(TaskFilter(limit=9_999), tenant=tenant)
        first = TaskFilter(limit=20)
        last = TaskFilter(limit=20, after=(everything[-21].status_at, everything[-21].key.task_id))
        assert list(await store.tasks.list_all(last, tenant=tenant)) == list(everything[-20:])
        costs = [await steps_of(store, lambda q=q, t=tenant: store.tasks.list_all(q, tenant=t)) for q in (first, last)]
        assert costs[1] <= costs[0] * 1.2 < 5_000

    created = await store.tasks.newest("tenant-1", limit=9_999)
    befores = (None, (created[-21].created_at, created[-21].key.task_id))
    assert list(await store.tasks.newest("tenant-1", before=befores[1], limit=20)) == list(created[-20:])
    for before in befores:
        assert await steps_of(store, lambda b=before: store.tasks.newest("tenant-1", before=b, limit=20)) < 1_000

    assert len(await store.tasks.orphaned(live, limit=9_999)) == 500
    assert await steps_of(store, lambda: store.tasks.orphaned(live | {"worker-3"}, limit=100)) < 500
    assert await steps_of(store, lambda: store.tasks.orphaned(live, limit=10)) < 1_000

    async def undelivered(holder: str) -> int:
        return len(await store.outbox.undelivered(holder=holder, live=live | {"worker-3"}, after=None, limit=10))

    assert await undelivered("worker-3") == 10
    assert await steps_of(store, lambda: undelivered("worker-4")) < 500
    assert await steps_of(store, lambda: undelivered("worker-3")) < 1_000
    await store.close()


async def test_a_page_of_records_costs_what_it_shows_however_many_there_are(path: Path) -> None:
    """The last page as much as the first, in both directions, and in the list of all tenants."""
    store = SqliteStore(path, shared=True)
    await store.open()
    keys = [RecordKey("notes", f"tenant-{number % 3}", f"n-{number:04}") for number in range(2_000)]
    await store.records.write(*[PutRecord(key, {}, sort=number) for number, key in enumerate(keys)])
    records = store.records
    for newest_first in (True, False):
        for after in (None, (1_000, "n-1000"), (100 if newest_first else 1_900, "")):
            reading = partial(records.list, "notes", "tenant-1", after=after, limit=20, newest_first=newest_first)
            assert len(await reading()) == 20
            assert await steps_of(store, reading) < 500
    for place in (None, ("tenant-1", "n-1000"), ("tenant-2", "n-1900")):
        reading = partial(records.list_all, "notes", after=place, limit=20)
        assert len(await reading()) == 20
        assert await steps_of(store, reading) < 500
    assert await steps_of(store, lambda: records.get(keys[1_000])) < 50
    await store.close()
