import pytest

from parley.stores.interface import StoreError
from parley.stores.memory import MemoryDatabase, MemoryStore
from tests.stores.shared_store_suite import ManualTime, SharedStoreSuite
from tests.stores.store_suite import MakeStore, StoreSuite
from tests.stores.writes import CONTEXT, NOON


class TestMemoryStore(StoreSuite):
    @pytest.fixture
    def make_store(self) -> MakeStore:
        store = MemoryStore()
        return lambda: store


class TestSharedMemoryStore(SharedStoreSuite):
    @pytest.fixture
    def make_store(self, now: ManualTime) -> MakeStore:
        database = MemoryDatabase(now=now)
        return lambda: MemoryStore(database)


@pytest.mark.anyio
async def test_a_value_that_is_not_json_is_refused_and_leaves_nothing() -> None:
    store = MemoryStore()
    with pytest.raises(StoreError, match="cannot be kept"):
        await store.contexts.put(CONTEXT, "name", "\ud800", at=NOON)
    assert await store.contexts.get(CONTEXT) == {}
