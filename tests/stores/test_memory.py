import pytest

from parley.stores.interface import StoreError
from parley.stores.memory import MemoryStore
from parley.testing.stores import CONTEXT, NOON, MakeStore, StoreSuite


class TestMemoryTaskLog(StoreSuite):
    @pytest.fixture
    def make_store(self) -> MakeStore:
        store = MemoryStore()
        return lambda: store


@pytest.mark.anyio
async def test_a_value_that_is_not_json_is_refused_and_leaves_nothing() -> None:
    store = MemoryStore()
    with pytest.raises(StoreError, match="cannot be kept"):
        await store.contexts.put(CONTEXT, "name", "\ud800", at=NOON)
    assert await store.contexts.get(CONTEXT) == {}
