import pytest

from parley.stores.interface import StoreError
from parley.stores.memory import MemoryTaskLog
from parley.testing.stores import CONTEXT, NOON, MakeStore, TaskLogSuite


class TestMemoryTaskLog(TaskLogSuite):
    @pytest.fixture
    def make_store(self) -> MakeStore:
        log = MemoryTaskLog()
        return lambda: log


@pytest.mark.anyio
async def test_a_value_that_is_not_json_is_refused_and_leaves_nothing() -> None:
    log = MemoryTaskLog()
    with pytest.raises(StoreError, match="cannot be kept"):
        await log.remember(CONTEXT, "name", "\ud800", at=NOON)
    assert await log.recall(CONTEXT) == {}
