"""What a store in PostgreSQL does when connections break, the server restarts, or another process holds a lock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from msgspec import structs

from parley.protocol.push import PushConfig
from parley.protocol.tasks import TaskState
from parley.sealed.sealer import Sealer
from parley.stores.appends import encode_write
from parley.stores.interface import (
    LeaseLostError,
    PutRecord,
    RecordKey,
    SendKey,
    SendRecord,
    Store,
    StoreUnavailableError,
    TaskKey,
    Write,
)
from parley.stores.postgres.address import parse_address
from parley.stores.postgres.connecting import SETTINGS
from parley.stores.postgres.errors import DRIVER_ERRORS
from parley.stores.postgres.jobs import Job
from parley.stores.postgres.session import SessionReplacedError, open_session
from parley.stores.postgres.store import PostgresStore
from parley.stores.urls import opened
from tests.chaos.network import FaultProxy
from tests.deadlines import fail_after
from tests.services.fixtures import empty_schema
from tests.services.postgres import Postgres, running_postgres
from tests.stores.cutting_proxy import Cut, CuttingProxy, cutting_proxy
from tests.stores.shared_store_suite import W1, W2, held
from tests.stores.writes import ADA, KEY, NOON, addition, creation, minute

pytestmark = pytest.mark.anyio

RECORD = RecordKey("agents", "acme", "a-1")


@pytest.fixture
async def proxy(postgres_server: Postgres) -> AsyncGenerator[CuttingProxy]:
    async with cutting_proxy(postgres_server.port) as proxy:
        yield proxy


@pytest.fixture
async def store(postgres_url: str, proxy: CuttingProxy) -> AsyncGenerator[PostgresStore]:
    """A store behind the proxy, with a task that a worker holds."""
    store = PostgresStore(proxy.url(postgres_url))
    await store.open()
    await store.tasks.write(held(creation(), "", W1))
    yield store
    await store.close()


@asynccontextmanager
async def connected(url: str) -> AsyncGenerator[asyncpg.Connection]:
    """A connection of its own, for looking at the server."""
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def numbers_of(store: Store, key: TaskKey = KEY) -> list[int]:
    return [seq for seq, _ in await store.tasks.events(key, after=0, limit=10_000)]


# --- a commit whose answer got lost -----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", Cut)
async def test_an_append_whose_answer_got_lost_is_written_once(
    store: PostgresStore, proxy: CuttingProxy, how: Cut
) -> None:
    """One statement is one transaction. One that reaches the server after its session was replaced writes nothing."""
    proxy.cut_at(b"chunk 2", how)
    with fail_after(20):
        await store.tasks.write(held(addition(1), W1, W1))
        assert proxy.cuts.is_set()
        if how is Cut.LATE:
            await proxy.deliver()
        await store.tasks.write(held(addition(2), W1, W1))
    assert await numbers_of(store) == [1, 2, 3]


@pytest.mark.parametrize("how", Cut)
async def test_a_transaction_whose_answer_got_lost_is_committed_once(
    store: PostgresStore, proxy: CuttingProxy, how: Cut
) -> None:
    """A record that was written twice would show it. A late COMMIT is waited for."""
    proxy.cut_at(b"COMMIT", how)
    with fail_after(20):
        writing = asyncio.ensure_future(store.records.write(PutRecord(RECORD, {"n": 1})))
        await proxy.cuts.wait()
        if how is Cut.LATE:
            await proxy.deliver()
        await writing
        number = await store.records.next_number("todos", "acme")
    record = await store.records.get(RECORD)
    assert record is not None
    assert (record.revision, number) == (1, 1)


async def test_a_session_that_was_replaced_writes_nothing(store: PostgresStore, postgres_url: str) -> None:
    """Its last statement may reach the server at any later moment, with whatever numbers."""
    address = parse_address(postgres_url)
    former, present = await open_session(address, "w"), await open_session(address, "w")
    key = TaskKey(ADA, "t-2")
    for writes in ([creation(key)], [held(addition(1), W1, W1)]):
        jobs = [
            Job(encode_write(write, None, Sealer()), asyncio.get_running_loop().create_future(), 0.0)
            for write in writes
        ]
        with pytest.raises(SessionReplacedError):
            await former.run(jobs)
        await former.roll_back()
    assert await store.tasks.head(key) is None
    assert await numbers_of(store) == [1]
    for session in (former, present):
        await session.connection.close()


async def test_a_connection_that_breaks_before_the_commit_costs_nothing(
    store: PostgresStore, proxy: CuttingProxy
) -> None:
    """Nothing had happened: all of it is done again."""
    for how in (Cut.ANSWERED, Cut.DROPPED):
        proxy.cut_at(b"BEGIN", how)
        await store.records.write(PutRecord(RECORD, {"n": 1}))
    record = await store.records.get(RECORD)
    assert record is not None
    assert record.revision == 2


async def test_an_outcome_that_cannot_be_looked_up_in_time_is_said_to_be_unknown(
    postgres_url: str, proxy: CuttingProxy
) -> None:
    """And only that of the write which was under way: others were not written."""
    async with opened(PostgresStore(proxy.url(postgres_url), patience=2)) as store:
        await store.tasks.write(held(creation(), "", W1))
        proxy.cut_at(b"chunk 2", Cut.ANSWERED)
        writing = asyncio.ensure_future(store.tasks.write(held(addition(1), W1, W1)))
        await proxy.cuts.wait()
        await proxy.refuse()
        with pytest.raises(StoreUnavailableError, match="may have happened: read before you try it again"):
            await writing
        with pytest.raises(StoreUnavailableError, match="Nothing of this was written, and it may be tried again"):
            await store.tasks.write(held(addition(2), W1, W1))
        assert store.problem() == "The store could not be written: the database cannot be reached."
        await proxy.start()
        await store.tasks.write(held(addition(2), W1, W1))
        assert await numbers_of(store) == [1, 2, 3]
        assert store.problem() is None


# --- servers that stop ------------------------------------------------------------------------------------------------


async def test_connections_that_an_operator_ends_are_replaced(store: PostgresStore, postgres_url: str) -> None:
    """Of the writer and of readers, between writes and during them; all that is acknowledged is there once."""
    async with connected(postgres_url) as operator:
        writing: list[Awaitable[None]] = []
        for number in range(1, 200):
            writing.append(store.tasks.write(held(addition(number), W1, W1)))
            if number % 40 == 0:
                await operator.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'parley'"
                )
        with fail_after(20):
            await asyncio.gather(*writing)
            assert await numbers_of(store) == list(range(1, 201))


async def test_reads_go_on_when_connections_are_silent_for_ever(postgres_server: Postgres, postgres_url: str) -> None:
    """As when the machine of the server is gone, and another one has its address: nothing ends the connections."""
    network = FaultProxy(postgres_server.port)
    await network.start()
    url = postgres_url.replace(f":{postgres_server.port}", f":{network.port}")
    with fail_after(30):
        async with opened(PostgresStore(url, patience=4.0)) as store:
            await asyncio.gather(store.leases.live(), *[store.tasks.head(KEY) for _ in range(4)])
            assert network.abandon() == 6  # with that of the writer
            assert await asyncio.gather(*[store.leases.live() for _ in range(5)]) == [frozenset()] * 5
            await network.cut()
    await network.close()


async def test_writes_wait_for_a_server_that_restarts() -> None:
    """Also if it is killed in the middle of transactions: what it acknowledged is there, and nothing is there twice."""
    with running_postgres() as server:
        url = await asyncio.to_thread(empty_schema, server)
        async with opened(PostgresStore(url, patience=30)) as store:
            await store.tasks.write(held(creation(), "", W1))
            for end, first in ((server.stop, 1), (server.kill, 101)):
                writing = [store.tasks.write(held(addition(first + number), W1, W1)) for number in range(50)]
                await writing[0]
                await asyncio.to_thread(end)
                writing += [store.tasks.write(held(addition(first + number), W1, W1)) for number in range(50, 100)]
                reading = asyncio.ensure_future(store.tasks.head(KEY))
                await asyncio.to_thread(server.start)
                with fail_after(30):
                    await asyncio.gather(*writing)
                    assert await reading is not None
                assert await numbers_of(store) == list(range(1, first + 101))
                assert store.problem() is None


async def test_writes_to_a_server_that_is_too_slow_fail_in_time_however_many_there_are(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not each after a wait of its own for the server's limit. When it is fast again, writes succeed."""
    monkeypatch.setattr("parley.stores.postgres.writer.LATE_SECONDS", 2.5)
    slow = """
        CREATE SEQUENCE attempts;
        CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN PERFORM nextval('attempts'); PERFORM pg_sleep(60); RETURN NEW; END $$;
        CREATE TRIGGER wait BEFORE INSERT ON events EXECUTE FUNCTION wait()
    """
    keys = [TaskKey(ADA, f"t-{number}") for number in range(40)]
    async with opened(PostgresStore(f"{postgres_url}&statement_timeout=1s")) as store:
        async with connected(postgres_url) as operator:
            await operator.execute(slow)
            writing = [store.tasks.write(creation(key)) for key in keys]
            outcomes = await asyncio.gather(*writing, return_exceptions=True)
            assert {type(outcome) for outcome in outcomes} == {StoreUnavailableError}
            assert "Nothing of this was written, and it may be tried again" in str(outcomes[-1])
            assert await operator.fetchval("SELECT last_value FROM attempts") < 20
            assert store.problem() == "The store could not be written: the database took too long."
            await operator.execute("DROP TRIGGER wait ON events")
        await asyncio.gather(*[store.tasks.write(creation(key)) for key in keys])
        assert store.problem() is None


async def test_a_server_that_can_only_be_read_is_waited_for(postgres_server: Postgres) -> None:
    """As after a failover, until another one has taken over. A URL may name several hosts."""
    name = "only_read"
    async with connected(postgres_server.url()) as operator:
        await operator.execute(f"CREATE DATABASE {name}")
        url = postgres_server.url(name).replace("@", "@127.0.0.1:1,")
        async with opened(PostgresStore(url, patience=20)) as store:
            await store.tasks.write(held(creation(), "", W1))
            await operator.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
            await operator.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
            writing = asyncio.ensure_future(store.tasks.write(held(addition(1), W1, W1)))
            with fail_after(20):
                while (problem := store.problem()) is None:
                    await asyncio.sleep(0.01)
                assert problem.endswith(("can only be read.", "cannot be reached."))
                await operator.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
                await writing
            assert await numbers_of(store) == [1, 2]
        await operator.execute(f"DROP DATABASE {name} WITH (FORCE)")


# --- other processes --------------------------------------------------------------------------------------------------


async def test_a_server_that_is_silent_keeps_no_other_one_from_being_used(
    postgres_server: Postgres, postgres_url: str
) -> None:
    """As after a failover because a machine is gone: nothing refuses connections to it, and nothing answers."""
    network = FaultProxy(postgres_server.port)
    await network.start()
    network.partition()
    here = f"127.0.0.1:{postgres_server.port}"
    async with opened(PostgresStore(postgres_url.replace(here, f"127.0.0.1:{network.port},{here}"))) as store:
        await store.tasks.write(creation())
        assert await numbers_of(store) == [1]
    await network.close()


async def test_a_process_that_is_paused_in_a_transaction_holds_up_others_for_a_moment_only(
    store: PostgresStore, postgres_url: str
) -> None:
    """The server ends its transaction, long before a lease expires."""
    assert SETTINGS["idle_in_transaction_session_timeout"] == "3s"
    paused = await asyncpg.connect(f"{postgres_url}&idle_in_transaction_session_timeout=200")
    await paused.execute("BEGIN; SELECT * FROM tasks FOR UPDATE")
    with fail_after(10):
        await store.tasks.write(held(addition(1), W1, W1))
    with pytest.raises(DRIVER_ERRORS):
        await paused.execute("COMMIT")
    paused.terminate()


async def test_two_processes_that_get_the_same_messages_make_one_task_of_each(postgres_url: str) -> None:
    """However their transactions meet, also in opposite order."""
    one, two = PostgresStore(postgres_url), PostgresStore(postgres_url)
    async with opened(one), opened(two):
        numbers = list(range(100))
        writing: list[Awaitable[None]] = []
        for name, store, order in (("a", one, numbers), ("b", two, numbers[::-1])):
            for number in order:
                key, send = TaskKey(ADA, f"{name}-{number}"), SendKey(f"m-{number}", b"d")
                write = held(creation(key, sends=((send, SendRecord(NOON, key.task_id)),)), "", name)
                writing.append(store.tasks.write(structs.replace(write, sends_since=minute(-10))))
        with fail_after(30):
            outcomes = await asyncio.gather(*writing, return_exceptions=True)
        accepted = [outcome is None for outcome in outcomes]
        assert {type(outcome).__name__ for outcome in outcomes} == {"NoneType", "RepeatedSendError"}
        assert [a != b for a, b in zip(accepted[:100], accepted[:99:-1], strict=True)] == [True] * 100


async def test_of_many_writers_that_believe_in_the_same_number_one_succeeds(postgres_url: str) -> None:
    """In each of many rounds, with heads from memory that others have made wrong."""
    stores = [PostgresStore(postgres_url) for _ in range(3)]
    async with opened(stores[0]), opened(stores[1]), opened(stores[2]):
        await stores[0].tasks.write(held(creation(), "", W1))
        for number in range(1, 30):
            outcomes = await asyncio.gather(
                *[store.tasks.write(held(addition(number), W1, W1)) for store in stores], return_exceptions=True
            )
            assert [type(outcome).__name__ for outcome in outcomes].count("LeaseLostError") == 2
        assert await numbers_of(stores[1]) == list(range(1, 31))


async def test_a_head_from_memory_lets_nothing_pass_that_adds_no_event(postgres_url: str) -> None:
    """Only the row of the task can refuse it: the log has no number for it."""
    async with opened(PostgresStore(postgres_url)) as one, opened(PostgresStore(postgres_url)) as two:
        await one.tasks.write(held(creation(), "", W1))
        handed_on = Write(KEY, 1, (), TaskState.WORKING, NOON, expected_holder=W1, holder=W2)
        await two.tasks.write(handed_on)
        with pytest.raises(LeaseLostError):
            await one.tasks.write(Write(KEY, 1, (), TaskState.FAILED, NOON, expected_holder=W1))
        head = await one.tasks.head(KEY)
        assert head is not None
        assert (head.state, head.holder) == (TaskState.WORKING, W2)


async def test_the_key_of_the_log_refuses_what_the_row_of_a_task_lets_pass(postgres_url: str) -> None:
    """Even if the row is wrong, a number is written once."""
    async with opened(PostgresStore(postgres_url)) as store, connected(postgres_url) as operator:
        await store.tasks.write(held(creation(), "", W1))
        await store.tasks.write(held(addition(1), W1, W1))
        await operator.execute("UPDATE tasks SET last_seq = 1")
        for holder, expected in ((W1, "LeaseLostError"), ("", "ConflictError")):
            await operator.execute("UPDATE tasks SET holder = $1", holder)
            outcomes = await asyncio.gather(
                store.tasks.write(held(addition(1), holder, holder)),
                store.tasks.write(creation(TaskKey(ADA, f"of {expected}"))),
                return_exceptions=True,
            )
            assert [type(outcome).__name__ for outcome in outcomes] == [expected, "NoneType"]
        assert await operator.fetchval("SELECT count(*) FROM events WHERE first_seq = 2") == 1


async def test_old_tasks_are_deleted_by_several_processes_that_wait_for_no_writer(postgres_url: str) -> None:
    """A task that another transaction has locked is left out; each of the others is deleted once."""
    async with opened(PostgresStore(postgres_url)) as one, opened(PostgresStore(postgres_url)) as two:
        keys = [TaskKey(ADA, f"t-{number}") for number in range(200)]
        await asyncio.gather(*[one.tasks.write(creation(key, state=TaskState.COMPLETED)) for key in keys])
        async with connected(postgres_url) as other:
            await other.execute("BEGIN; SELECT * FROM tasks WHERE id = 't-7' FOR UPDATE")
            with fail_after(10):
                deleted = [0, 0]
                while sum(deleted) < 199:
                    counts = await asyncio.gather(
                        *[store.tasks.delete_finished(before=minute(1), limit=60) for store in (one, two)]
                    )
                    deleted = [before + now for before, now in zip(deleted, counts, strict=True)]
            assert await other.fetchval("SELECT count(*) FROM tasks") == 1
            await other.execute("ROLLBACK")
        assert await one.tasks.delete_finished(before=minute(1), limit=60) == 1


async def test_few_long_tasks_are_deleted_in_a_transaction(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement that deletes millions of events takes so long that the server seems to be gone."""
    monkeypatch.setattr("parley.stores.postgres.tasks.DELETED_EVENTS", 10)
    async with opened(PostgresStore(postgres_url)) as store:
        for number in range(5):
            key = TaskKey(ADA, f"t-{number}")
            at = minute(number)
            await store.tasks.write(creation(key, state=TaskState.COMPLETED, at=at))
            for seq in range(1, 8):
                await store.tasks.write(structs.replace(addition(seq, key), state=TaskState.COMPLETED, status_at=at))
        batches: list[int] = []
        delete_old = store._access.delete_old

        async def counted(statement: str, *values: Any) -> int:
            batches.append(await delete_old(statement, *values))
            return batches[-1]

        store._access.delete_old = counted
        assert await store.tasks.delete_finished(before=minute(9), limit=4) == 4
        assert batches == [2, 2]
        assert await store.tasks.delete_finished(before=minute(9), limit=4) == 1


# --- many reads -------------------------------------------------------------------------------------------------------


async def test_a_lease_is_renewed_at_once_however_many_slow_reads_wait(postgres_url: str) -> None:
    """Otherwise a caller who lists much would cost its worker the lease, and all callers their runs."""
    async with opened(PostgresStore(postgres_url)) as store, connected(postgres_url) as operator:
        await operator.execute("BEGIN; LOCK TABLE tasks")
        slow = [asyncio.ensure_future(store.tasks.head(KEY)) for _ in range(20)]
        await asyncio.sleep(0.1)
        with fail_after(1):
            await store.leases.renew(W1, seconds=10)
            assert await store.leases.live() == {W1}
        await operator.execute("ROLLBACK")
        assert await asyncio.gather(*slow) == [None] * 20


async def test_a_read_that_takes_too_long_costs_no_connection_and_the_server_counts_as_there(postgres_url: str) -> None:
    """The server ends it. Otherwise it would go on there, and a health check would say that there is no server."""
    async with opened(PostgresStore(postgres_url, patience=8)) as store, connected(postgres_url) as operator:
        await asyncio.gather(*[store.tasks.head(KEY) for _ in range(4)])
        idle = store._access._readers._idle
        before = set(idle)
        with pytest.raises(StoreUnavailableError, match="the database took too long"):
            await store._access.fetch("SELECT pg_sleep(60)")
        assert store.problem() is None
        assert set(idle) == before
        at_work = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query = 'SELECT pg_sleep(60)'"
        assert await operator.fetchval(at_work) == 0


async def test_deleting_what_is_old_may_take_longer_than_a_read(postgres_url: str) -> None:
    """And what fails leaves a connection that can be used."""
    async with opened(PostgresStore(postgres_url, patience=4, readers=1)) as store:
        assert await store._access.delete_old("SELECT 7 FROM pg_sleep(2.5)") == 7
        with pytest.raises(StoreUnavailableError, match="division by zero"):
            await store._access.delete_old("SELECT 1 / 0")
        assert await store._access.delete_old("SELECT 1") == 1


async def test_reads_from_a_server_that_is_silent_fail_in_time_however_many_there_are(
    postgres_server: Postgres, postgres_url: str
) -> None:
    proxy = FaultProxy(postgres_server.port)
    url = postgres_url.replace(f":{postgres_server.port}", f":{await proxy.start()}")
    store = PostgresStore(url, patience=3)
    await store.open()
    proxy.partition()
    with fail_after(8):  # the patience, and an attempt to connect
        reads = await asyncio.gather(*[store.tasks.head(KEY) for _ in range(40)], return_exceptions=True)
    assert {type(outcome) for outcome in reads} == {StoreUnavailableError}
    await proxy.close()
    await store.close()


async def test_processes_that_lock_many_tasks_at_once_do_not_wait_for_each_other_in_a_circle(postgres_url: str) -> None:
    """As when two of them take over the tasks of a third one: appends between other changes, in opposite order."""
    stores = [PostgresStore(postgres_url) for _ in range(2)]
    hook = PushConfig("https://example.com/hook", "h-1")
    async with opened(stores[0]), opened(stores[1]), connected(postgres_url) as operator:
        keys = [TaskKey(ADA, f"t-{number}") for number in range(30)]
        await asyncio.gather(*[stores[0].tasks.write(held(creation(key), "", W1)) for key in keys])
        await asyncio.gather(*[stores[0].outbox.put(key, hook, after=0, holder=W1) for key in keys])
        for seq in range(1, 11):
            changes: list[Awaitable[Any]] = []
            for store, order in zip(stores, (keys, keys[::-1]), strict=True):
                for key in order:
                    changes.append(store.tasks.write(held(addition(seq, key=key), W1, W1)))
                    changes.append(store.outbox.mark_delivered(key, "h-1", seq, holder=W1))
                    changes.append(store.outbox.claim([key], holder=W2, live=frozenset()))
            with fail_after(20):
                await asyncio.gather(*changes, return_exceptions=True)
        found = await operator.fetchval("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        assert found == 0
