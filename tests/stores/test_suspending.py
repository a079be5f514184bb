"""The store whose every call suspends keeps the promises of the interface."""

from random import Random

import pytest

from parley.stores.memory import MemoryDatabase, MemoryStore
from tests.stores.shared_store_suite import ManualTime, SharedStoreSuite
from tests.stores.store_suite import MakeStore, StoreSuite
from tests.suspending import suspending


class TestSuspendingStore(StoreSuite):
    @pytest.fixture
    def make_store(self) -> MakeStore:
        store = suspending(MemoryStore(), Random(1))
        return lambda: store


class TestSharedSuspendingStore(SharedStoreSuite):
    @pytest.fixture
    def make_store(self, now: ManualTime) -> MakeStore:
        database = MemoryDatabase(now=now)
        return lambda: suspending(MemoryStore(database), Random(1))
