"""Secrets in PostgreSQL."""

from __future__ import annotations

import asyncio
import re
from itertools import count

import asyncpg
import pytest

from parley.stores.postgres.store import PostgresStore
from parley.stores.store_secrets import STORE_KEYS
from parley.stores.urls import opened
from tests.stores.secrets_suite import (
    EVERYTHING,
    FIRST,
    SECOND,
    Execute,
    Keys,
    Open,
    SecretsSuite,
    check_without_lost_secrets,
    put_all,
    put_what_is_not_renewed,
    read_all,
    script_for_a_lost_key,
    texts,
)
from tests.stores.writes import KEY

pytestmark = pytest.mark.anyio


@pytest.fixture
def execute(postgres_url: str) -> Execute:
    async def execute(statement: str, *values: str) -> list[str]:
        numbers = count(1)
        connection = await asyncpg.connect(postgres_url)
        try:
            rows = await connection.fetch(re.sub(r"\?", lambda _: f"${next(numbers)}", statement), *values)
            return [row[0] for row in rows]
        finally:
            await connection.close()

    return execute


class TestPostgresSecrets(SecretsSuite):
    @pytest.fixture
    def open_with(self, postgres_url: str) -> Open:
        return lambda keys: PostgresStore(postgres_url, keys=keys)


async def test_looking_for_values_of_a_key_that_is_gone_may_take_longer_than_a_read(postgres_url: str) -> None:
    """It reads whole tables: a large store opens all the same, and forgets the key."""
    async with opened(PostgresStore(postgres_url, keys=Keys(FIRST))):
        pass
    holder = await asyncpg.connect(postgres_url)
    try:
        await holder.execute("BEGIN; LOCK TABLE snapshots")
        held = asyncio.create_task(holder.execute("SELECT pg_sleep(2.5); COMMIT"))
        async with opened(PostgresStore(postgres_url, keys=Keys(SECOND), patience=2)) as store:
            assert held.done()
            found = await store.records.list_all(STORE_KEYS, limit=9)
            assert [record.key.id for record in found] == [SECOND.id]
        await held
    finally:
        await holder.close()


async def test_without_a_key_secrets_stay_plain_and_the_log_says_so(
    postgres_url: str, execute: Execute, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(PostgresStore(postgres_url)) as store:
        await put_all(store)
        assert await read_all(store) == EVERYTHING
    assert "secret-token" in await texts(execute)
    assert "Secrets in the store are not encrypted. Name a file with a key: --store-key FILE" in caplog.text
    async with opened(PostgresStore(postgres_url, keys=Keys(FIRST))) as store:
        assert await read_all(store) == EVERYTHING
    assert "secret-" not in await texts(execute)


async def test_a_process_without_the_key_of_the_others_does_not_start(postgres_url: str) -> None:
    async with opened(PostgresStore(postgres_url, keys=Keys(FIRST))) as store:
        await put_all(store)
        with pytest.raises(Exception, match=f"encrypted with key {FIRST.id} .+, and there is no key"):
            await PostgresStore(postgres_url).open()
        async with opened(PostgresStore(postgres_url, migrates=False)) as reader:  # parley cluster status
            assert await reader.tasks.head(KEY) is not None


async def test_a_store_whose_key_is_lost_opens_after_what_the_documentation_says(postgres_url: str) -> None:
    async with opened(PostgresStore(postgres_url, keys=Keys(FIRST))) as store:
        await put_all(store)
        await put_what_is_not_renewed(store)
    connection = await asyncpg.connect(postgres_url)
    await connection.execute(script_for_a_lost_key("PostgreSQL", FIRST))
    await connection.close()
    async with opened(PostgresStore(postgres_url, keys=Keys(SECOND))) as store:
        await check_without_lost_secrets(store)
