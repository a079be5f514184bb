"""The store whose every call suspends keeps the promises of the interface."""

from random import Random

import pytest

from parley.stores.memory import MemoryTaskLog
from parley.testing.stores import MakeStore, TaskLogSuite
from parley.testing.suspending import suspending


class TestSuspendingTaskLog(TaskLogSuite):
    @pytest.fixture
    def make_store(self) -> MakeStore:
        log = suspending(MemoryTaskLog(), Random(1))
        return lambda: log
