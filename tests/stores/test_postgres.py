"""The store in PostgreSQL: the suites of all stores, on a real server."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from parley.stores.interface import SendKey, SendRecord, StoreUnavailableError
from parley.stores.postgres.store import PostgresStore
from parley.stores.urls import opened
from tests.stores.shared_store_suite import ManualTime, SharedStoreSuite
from tests.stores.store_suite import MakeStore, StoreSuite
from tests.stores.writes import ADA, minute

pytestmark = pytest.mark.anyio


class TestPostgresStore(StoreSuite):
    keeps_nul = False

    @pytest.fixture
    def make_store(self, postgres_url: str) -> MakeStore:
        return lambda: PostgresStore(postgres_url)

    async def test_a_store_that_is_not_shared_ends_all_leases_when_it_is_opened(self, make_store: MakeStore) -> None:
        """This one is always shared: the leases of other processes stay."""
        store = make_store()
        await store.open()
        assert store.is_shared is True
        await store.leases.renew("worker-1", seconds=1_000)
        await store.close()
        store = make_store()
        await store.open()
        assert await store.leases.live() == {"worker-1"}
        await store.close()


async def test_lookups_of_messages_at_the_same_time_each_get_their_own(postgres_url: str) -> None:
    """Also where several look for one, where one gives up, and where a value is damaged: the next lookup succeeds."""
    async with opened(PostgresStore(postgres_url)) as store:
        sends = [SendKey(f"m-{number}", b"d") for number in range(300)]
        records = [SendRecord(minute(number), f"t-{number}") for number in range(300)]
        putting = [store.sends.put(ADA, sends[number], records[number]) for number in range(0, 300, 2)]
        await asyncio.gather(*putting)
        looking = [asyncio.ensure_future(store.sends.find(ADA, send, since=minute(100))) for send in [*sends, *sends]]
        await asyncio.sleep(0)
        looking[10].cancel()
        found = await asyncio.gather(*looking, return_exceptions=True)
        expected = [records[number] if number >= 100 and number % 2 == 0 else None for number in range(300)]
        assert found[:10] == expected[:10]
        assert found[11:] == [*expected[11:], *expected]
        connection = await asyncpg.connect(postgres_url)
        await connection.execute("UPDATE sends SET reply = 'x' WHERE message_id = 'm-200'")
        await connection.close()
        with pytest.raises(StoreUnavailableError, match="a stored value is damaged"):
            await store.sends.find(ADA, sends[200], since=minute(0))
        assert await store.sends.find(ADA, sends[202], since=minute(0)) == records[202]


class TestSharedPostgresStore(SharedStoreSuite):
    @pytest.fixture
    def make_store(self, postgres_url: str, now: ManualTime) -> MakeStore:
        return lambda: PostgresStore(postgres_url, now=now)
