"""What reads cost in PostgreSQL, however much there is: counted in pages that the server looks at."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from msgspec import structs

from parley.protocol.push import PushConfig
from parley.protocol.tasks import TaskState
from parley.protocol.versions import Version
from parley.stores.interface import NewTask, Owner, PutRecord, RecordKey, SendKey, TaskFilter, TaskKey
from parley.stores.postgres.store import PostgresStore
from parley.stores.urls import opened
from tests.stores.shared_store_suite import held
from tests.stores.writes import NOON, addition, creation

pytestmark = pytest.mark.anyio

NUMBER = 3_000
KEYS = [TaskKey(Owner(f"tenant-{number % 3}", f"owner-{number % 7}"), f"t-{number:04}") for number in range(NUMBER)]
LIVE = frozenset({"worker-0", "worker-1", "worker-2"})


@pytest.fixture
async def store(postgres_url: str) -> AsyncGenerator[PostgresStore]:
    """A store with many tasks of several tenants, owners and workers, all with a webhook that is behind."""
    hooks = ((PushConfig("https://hook.example"), Version.V1_0),)
    async with opened(PostgresStore(postgres_url)) as store:
        writing: list[Awaitable[None]] = []
        for number, key in enumerate(KEYS):
            at = NOON + timedelta(seconds=number)
            new, holder = NewTask(f"agent-{number % 2}", f"c-{number}", Version.V1_0, at), f"worker-{number % 4}"
            write = creation(key, new=new, state=TaskState.WORKING, at=at)
            writing.append(store.tasks.write(structs.replace(held(write, "", holder), webhooks=hooks)))
        await asyncio.gather(*writing)
        yield store


async def pages_of(store: PostgresStore, read: Callable[[], Awaitable[Any]]) -> int:
    """How many pages the server looks at for a read. A scan of a whole table fails."""
    fetch, fetch_row, pages = store._access.fetch, store._access.fetch_row, 0

    async def count(statement: str, *values: Any) -> None:
        nonlocal pages

        async def run(connection: asyncpg.Connection) -> str:
            return await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", *values)

        plan = await store._access._readers.run(run)
        assert "Seq Scan" not in plan
        (top,) = json.loads(plan)
        pages += top["Plan"]["Shared Hit Blocks"] + top["Plan"]["Shared Read Blocks"]

    async def explain(statement: str, *values: Any) -> Any:
        await count(statement, *values)
        return await fetch(statement, *values)

    async def explain_row(statement: str, *values: Any) -> Any:
        await count(statement, *values)
        return await fetch_row(statement, *values)

    store._access.fetch, store._access.fetch_row = explain, explain_row
    try:
        await read()
    finally:
        store._access.fetch, store._access.fetch_row = fetch, fetch_row
    return pages


async def test_lists_cost_what_they_show(store: PostgresStore) -> None:
    """The last page as much as the first; what is orphaned or undelivered, beside what live workers hold."""
    tasks = store.tasks
    for tenant in (None, "tenant-1"):
        everything = await tasks.list_all(TaskFilter(limit=9_999), tenant=tenant)
        first = TaskFilter(limit=20)
        last = TaskFilter(limit=20, after=(everything[-21].status_at, everything[-21].key.task_id))
        assert list(await tasks.list_all(last, tenant=tenant)) == list(everything[-20:])
        costs = [await pages_of(store, lambda q=q, t=tenant: tasks.list_all(q, tenant=t)) for q in (first, last)]
        assert max(costs) < 200

    owner = KEYS[0].owner
    of_owner = (await tasks.list(owner, TaskFilter(limit=9_999))).heads
    page = TaskFilter(limit=10, after=(of_owner[-11].status_at, of_owner[-11].key.task_id), state=TaskState.WORKING)
    assert (await tasks.list(owner, page)).heads == of_owner[-10:]
    assert await pages_of(store, lambda: tasks.list(owner, structs.replace(page, after=None))) < 400
    assert await pages_of(store, lambda: tasks.list(owner, page)) < 400

    created = await tasks.newest("tenant-1", limit=9_999)
    befores = (None, (created[-21].created_at, created[-21].key.task_id))
    assert list(await tasks.newest("tenant-1", before=befores[1], limit=20)) == list(created[-20:])
    for before in befores:
        assert await pages_of(store, lambda b=before: tasks.newest("tenant-1", before=b, limit=20)) < 50


async def test_the_work_of_dead_workers_is_found_without_reading_that_of_others(store: PostgresStore) -> None:
    """Whether it is tasks or webhooks."""
    assert len(await store.tasks.orphaned(LIVE, limit=9_999)) == NUMBER // 4
    assert await pages_of(store, lambda: store.tasks.orphaned(LIVE | {"worker-3"}, limit=100)) < 50
    assert await pages_of(store, lambda: store.tasks.orphaned(LIVE, limit=10)) < 60

    async def undelivered(holder: str) -> int:
        return len(await store.outbox.undelivered(holder=holder, live=LIVE | {"worker-3"}, after=None, limit=10))

    assert await undelivered("worker-3") == 10
    assert await pages_of(store, lambda: undelivered("worker-4")) < 50
    assert await pages_of(store, lambda: undelivered("worker-3")) < 60


async def test_a_page_of_records_costs_what_it_shows(postgres_url: str) -> None:
    """The last page as much as the first, in both directions, and in the list of all tenants."""
    async with opened(PostgresStore(postgres_url)) as store:
        keys = [RecordKey("notes", f"tenant-{number % 3}", f"n-{number:04}") for number in range(2_000)]
        await store.records.write(*[PutRecord(key, {}, sort=number) for number, key in enumerate(keys)])
        records = store.records
        for newest_first in (True, False):
            for after in (None, (1_000, "n-1000"), (100 if newest_first else 1_900, "")):

                async def read(a: tuple[int, str] | None = after, n: bool = newest_first) -> None:
                    assert len(await records.list("notes", "tenant-1", after=a, limit=20, newest_first=n)) == 20

                assert await pages_of(store, read) < 50
        for place in (None, ("tenant-1", "n-1000"), ("tenant-2", "n-1900")):
            assert await pages_of(store, lambda p=place: records.list_all("notes", after=p, limit=20)) < 50


async def test_a_task_costs_the_same_however_many_its_owner_has(store: PostgresStore) -> None:
    """Also in tables that were never analysed, as those of a new database are."""
    tasks, key = store.tasks, KEYS[0]
    assert len((await tasks.list(key.owner, TaskFilter(limit=9_999))).heads) > 100
    assert await pages_of(store, lambda: tasks.head(key)) < 50
    assert await pages_of(store, lambda: tasks.read(key)) < 50
    assert await pages_of(store, lambda: tasks.read_many([key, key])) < 50
    assert await pages_of(store, lambda: tasks.events(key, after=0, limit=64)) < 50


async def test_what_is_read_by_many_keys_is_planned_once(store: PostgresStore) -> None:
    """And not again for every number of keys: planning takes longer than reading."""
    owner, since = KEYS[0].owner, NOON - timedelta(days=1)
    for number in range(30):
        assert await store.sends.find(owner, SendKey(f"m-{number}", b"digest"), since=since) is None
        assert None not in await store.tasks.read_many(KEYS[: number % 3 + 1])
    plans = "SELECT custom_plans FROM pg_prepared_statements WHERE strpos(statement, $1) > 0"
    for statement in ("JOIN sends ON", "JOIN LATERAL"):
        ((custom_plans,),) = await store._access.fetch(plans, statement)
        assert custom_plans <= 5


async def test_a_page_of_events_costs_what_it_shows(postgres_url: str) -> None:
    """Wherever it begins in a long task, and within its bound of characters."""
    async with opened(PostgresStore(postgres_url)) as store:
        key = KEYS[0]
        await store.tasks.write(held(creation(key), "", "w"))
        await asyncio.gather(*[store.tasks.write(held(addition(number, key), "w", "w")) for number in range(1, 3_000)])
        for after in (0, 1_500, 2_900):
            assert await pages_of(store, lambda a=after: store.tasks.events(key, after=a, limit=64)) < 50
        bounded = await store.tasks.events(key, after=10, limit=1_000, size=2_000)
        assert 5 < len(bounded) < 40
        assert bounded[0][0] == 11


async def test_callers_that_write_again_at_once_share_commits(postgres_url: str) -> None:
    """Those that wait for the same commit, and those that wait for the next one: from then on they write together."""
    async with opened(PostgresStore(postgres_url)) as store:
        writer = store._access._writer
        assert writer._session is not None

        async def write_often(key: TaskKey) -> None:
            await store.tasks.write(held(creation(key), "", "w"))
            for number in range(1, 20):
                await store.tasks.write(held(addition(number, key), "w", "w"))

        before = writer._session.last_batch
        first = [asyncio.create_task(write_often(key)) for key in KEYS[:4]]
        while len(writer._queue) < 4:
            await asyncio.sleep(0)
        while writer._queue:  # the first commit is under way
            await asyncio.sleep(0)
        await asyncio.gather(*first, *[write_often(key) for key in KEYS[4:8]])
        assert writer._session.last_batch - before == 21
