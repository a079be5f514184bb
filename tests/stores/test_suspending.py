"""The store whose every call suspends keeps the promises of the interface."""

from random import Random

import pytest

from parley.stores.memory import MemoryStore
from parley.testing.stores import MakeStore, StoreSuite
from parley.testing.suspending import suspending


class TestSuspendingTaskLog(StoreSuite):
    @pytest.fixture
    def make_store(self) -> MakeStore:
        store = suspending(MemoryStore(), Random(1))
        return lambda: store
