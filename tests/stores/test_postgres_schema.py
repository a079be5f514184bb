"""Opening a store in PostgreSQL: migrations, releases side by side, and databases that will not do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import asyncpg
import pytest

from parley.engine.store_errors import translated
from parley.protocol.errors import InvalidParamsError
from parley.stores.interface import (
    ContextKey,
    Owner,
    PutRecord,
    RecordKey,
    SendKey,
    SendRecord,
    StoreError,
    StoreUnavailableError,
    TaskKey,
)
from parley.stores.postgres.schema import Migration, migrate, migrations
from parley.stores.postgres.store import PostgresStore
from parley.stores.urls import opened
from tests.deadlines import fail_after
from tests.services.fixtures import empty_schema
from tests.services.postgres import Postgres
from tests.stores.writes import KEY, NEW, NOON, SEND, addition, creation

pytestmark = pytest.mark.anyio

KNOWN = len(migrations())


def later(number: int, script: str, *, oldest_compatible: int) -> Migration:
    return Migration(number, f"{number:04}_later", script, oldest_compatible)


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch):
    """Makes stores that are opened from now on those of a release with some migrations."""

    def choose(known: Sequence[Migration]) -> None:
        monkeypatch.setattr("parley.stores.postgres.access.migrations", lambda: known)

    return choose


async def execute(url: str, statement: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


async def test_ten_processes_may_open_an_empty_database_at_once(postgres_url: str) -> None:
    """One of them makes the tables, and the others find them."""
    stores = [PostgresStore(postgres_url, readers=1) for _ in range(10)]
    await asyncio.gather(*[store.open() for store in stores])
    await stores[0].tasks.write(creation())
    assert [head is not None for head in await asyncio.gather(*[store.tasks.head(KEY) for store in stores])] == [
        True
    ] * 10
    await asyncio.gather(*[store.close() for store in stores])
    assert await execute(postgres_url, "SELECT count(*) FROM parley_migrations") == KNOWN
    assert await execute(postgres_url, "SELECT count(*) FROM writers") == 0


async def test_a_process_that_looks_while_another_one_makes_the_tables_takes_them_for_ours(
    postgres_server: Postgres,
) -> None:
    """Some look before the tables are committed, some after, and with luck one just then: 8 processes, 15 times."""

    async def start(connection: asyncpg.Connection, number: int) -> None:
        await asyncio.sleep(0.004 * number)
        await migrate(connection, "PostgreSQL", migrations())

    for _ in range(15):
        url = empty_schema(postgres_server)
        connections = [await asyncpg.connect(url) for _ in range(8)]
        await asyncio.gather(*[start(connection, number) for number, connection in enumerate(connections)])
        for connection in connections:
            await connection.close()


async def test_two_releases_run_side_by_side_if_the_migration_allows_it(postgres_url: str, release) -> None:
    """The older one goes on, and can be started again, until a later migration takes away what it needs."""
    wider = [*migrations(), later(KNOWN + 1, "ALTER TABLE tasks ADD COLUMN mood text", oldest_compatible=KNOWN)]
    narrower = [*wider, later(KNOWN + 2, "ALTER TABLE tasks DROP COLUMN mood", oldest_compatible=KNOWN + 1)]
    async with opened(PostgresStore(postgres_url)) as older:
        await older.tasks.write(creation())
        release(wider)
        async with opened(PostgresStore(postgres_url)) as newer:
            await older.tasks.write(addition(1))
            await newer.tasks.write(addition(2))
        release(wider[:KNOWN])
        async with opened(PostgresStore(postgres_url)) as again:
            await again.tasks.write(addition(3))
    release(narrower)
    async with opened(PostgresStore(postgres_url)):
        pass
    release(wider[:KNOWN])
    refusal = rf"a newer Parley has changed this database \(schema {KNOWN + 2}, .+ knows {KNOWN}\)\. Upgrade Parley"
    with pytest.raises(StoreUnavailableError, match=refusal):
        await PostgresStore(postgres_url).open()
    release(wider)
    async with opened(PostgresStore(postgres_url)) as newer:
        await newer.tasks.write(addition(4))


async def test_a_migration_that_fails_leaves_nothing(postgres_url: str, release) -> None:
    """The next attempt begins where the last complete one ended."""
    script = "CREATE TABLE moods (mood text); SELECT nonsense"
    release([*migrations(), later(KNOWN + 1, script, oldest_compatible=1)])
    with pytest.raises(StoreUnavailableError, match="nonsense"):
        await PostgresStore(postgres_url).open()
    assert await execute(postgres_url, "SELECT to_regclass('tasks') IS NULL AND to_regclass('moods') IS NULL")
    release(migrations())
    async with opened(PostgresStore(postgres_url)):
        pass


async def test_a_migration_that_waits_for_a_table_keeps_no_other_process_from_it(postgres_url: str, release) -> None:
    """As during a backup, which reads the table for long. The upgrade goes on when it has ended."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%ADD COLUMN mood%'"
    backup = await asyncpg.connect(postgres_url)
    async with opened(PostgresStore(postgres_url)) as older:
        await older.tasks.write(creation())
        await backup.execute("BEGIN; LOCK TABLE tasks IN ACCESS SHARE MODE")
        release([*migrations(), later(KNOWN + 1, "ALTER TABLE tasks ADD COLUMN mood text", oldest_compatible=KNOWN)])
        newer = PostgresStore(postgres_url)
        opening = asyncio.create_task(newer.open())
        with fail_after(60):
            while await execute(postgres_url, waiting) == 0:
                await asyncio.sleep(0.01)
            await older.tasks.write(addition(1))
            assert not opening.done()
            await backup.close()
            await opening
        await newer.tasks.write(addition(2))
        await newer.close()


async def test_every_migration_says_which_release_can_live_with_it() -> None:
    """None demands a schema that comes after it."""
    assert [1 <= each.oldest_compatible <= each.number for each in migrations()] == [True] * KNOWN


async def test_a_schema_of_another_program_is_left_alone(postgres_url: str) -> None:
    await execute(postgres_url, "CREATE TABLE tasks (title text)")
    with pytest.raises(StoreUnavailableError, match=r"has a table `tasks` of another program.+search_path"):
        await PostgresStore(postgres_url).open()
    assert await execute(postgres_url, "SELECT to_regclass('parley_migrations')") is None


async def test_databases_that_will_not_do_are_refused_with_the_reason(postgres_server: Postgres) -> None:
    """A schema or a database that is not there, one in another encoding, and a server that is not there."""
    await execute(postgres_server.url(), "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    for url, reason in (
        (postgres_server.url(search_path="missing"), "does not exist, or this user may not use it. Create it with"),
        (postgres_server.url("missing"), "there is no database of this name"),
        (postgres_server.url("latin"), "the encoding of this database is LATIN1"),
        (postgres_server.url().replace(f":{postgres_server.port}", ":1"), "the database cannot be reached"),
        (postgres_server.url(work_mem="nonsense"), "nonsense"),
        (postgres_server.url(sslmode="ful"), "the URL or the environment has an invalid setting .+sslmode"),
        (
            postgres_server.url(sslmode="verify-full", sslrootcert="/x.pem"),
            "a file that the URL or the environment names",
        ),
        # Of several servers, the one that is there says more than the one that is not.
        (postgres_server.url("missing").replace("@", "@127.0.0.1:1,"), "there is no database of this name"),
        (postgres_server.url("missing").replace("/missing", ",127.0.0.1:1/missing"), "there is no database of this"),
        (postgres_server.url(default_transaction_read_only="on").replace("@", "@127.0.0.1:1,"), "can only be read"),
    ):
        with pytest.raises(StoreUnavailableError, match=reason):
            await PostgresStore(url).open()


async def test_no_message_shows_the_password(postgres_server: Postgres, caplog: pytest.LogCaptureFixture) -> None:
    """Neither of an opening that fails, nor of a store that is not open, nor in the log."""
    caplog.set_level(logging.DEBUG)
    for url in (
        f"postgresql://nobody:hunter2@127.0.0.1:{postgres_server.port}/postgres",
        "postgresql://nobody:hunter2@127.0.0.1:1/postgres",
        "postgresql://nobody:hunter2:x@127.0.0.1:1/postgres",
        "postgresql://nobody:p%40hunter2@127.0.0.1:1/postgres",
        f"postgresql://nobody:hunter2@127.0.0.1:1,127.0.0.1:{postgres_server.port}/postgres",
    ):
        store = PostgresStore(url, patience=0.1)
        with pytest.raises(StoreError) as refusal:
            await store.open()
        with pytest.raises(StoreError) as closed:
            await store.tasks.head(KEY)
        assert "hunter2" not in f"{refusal.value} {closed.value} {caplog.text} {store.problem()}"


async def test_a_name_with_a_nul_is_refused_as_the_callers_mistake(postgres_url: str) -> None:
    """PostgreSQL has no such texts. What was written together with it is not touched."""
    odd, owner = "a\x00b", Owner("acme", "a\x00b")
    key = TaskKey(owner, "t-1")
    async with opened(PostgresStore(postgres_url)) as store:
        context = ContextKey(owner, "cook", "c-1")
        for call in (
            lambda: store.tasks.write(creation(key)),
            lambda: store.tasks.write(creation(sends=((SendKey(odd, b""), SendRecord(NOON, "t-1")),))),
            lambda: store.tasks.head(key),
            lambda: store.tasks.read(key),
            lambda: store.tasks.read_many([key]),
            lambda: store.tasks.delete(key),
            lambda: store.sends.find(owner, SEND, since=NOON),
            lambda: store.sends.put(owner, SEND, SendRecord(NOON)),
            lambda: store.contexts.get(context),
            lambda: store.contexts.put(context, "name", "value", at=NOON),
            lambda: store.records.get(RecordKey(odd, "", "")),
            lambda: store.records.write(PutRecord(RecordKey("", "", odd), {})),
            lambda: store.outbox.mark_delivered(key, "", 1, holder=""),
            lambda: store.leases.renew(odd, seconds=1),
        ):
            with pytest.raises(InvalidParamsError), translated:
                await call()
            with pytest.raises(StoreError, match=r"U\+0000"):
                await call()
        outcomes = await asyncio.gather(
            store.tasks.write(creation(new=NEW)), store.tasks.write(creation(key)), return_exceptions=True
        )
        assert [type(outcome) for outcome in outcomes] == [type(None), StoreError]
        half = TaskKey(Owner("acme", "\ud800"), "t-1")
        for call in (lambda: store.tasks.head(half), lambda: store.tasks.write(creation(half))):
            with pytest.raises(InvalidParamsError), translated:
                await call()
