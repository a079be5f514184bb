"""Credentials that callers give to tasks: taken once, by the task that they are for, and in time.

What servers make of them is tested in `tests/server/test_in_task_authorization.py`. There a store answers before
another reader can look, no task names the credential of another one, and no run waits for minutes.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from parley import Agent, Turn
from parley.engine.credentials import CREDENTIALS, KEPT
from parley.engine.engine import Engine
from parley.protocol.authorization import GivenCredential
from parley.stores.interface import Owner, Store, TaskKey
from parley.stores.memory import MemoryStore
from parley.testing.clock import FakeClock
from tests.changed_store import ChangedStore

pytestmark = pytest.mark.anyio

KEY = TaskKey(Owner("acme", "ada"), "t-1")
GIVEN = GivenCredential("the-secret-of-the-calendar")


@asynccontextmanager
async def engine(store: Store, clock: FakeClock | None = None) -> AsyncGenerator[Engine]:
    async def handler(turn: Turn) -> None: ...

    agent = Agent("Test")
    agent.on_message(handler)
    async with Engine(store, agent, clock=clock or FakeClock()) as engine:
        yield engine


async def test_of_two_workers_that_take_a_credential_at_once_one_gets_it() -> None:
    class Slow(ChangedStore):
        async def records_get(self, *values: Any) -> Any:
            found = await super().records_get(*values)
            await asyncio.sleep(0)  # the other worker reads, too, before this one deletes
            return found

    store = Slow()
    async with engine(store) as one, engine(store) as other:
        id = await one.credentials.put(KEY, GIVEN)
        both = await asyncio.gather(one.credentials.take(KEY, id), other.credentials.take(KEY, id))
        assert sorted(both, key=bool) == [None, GIVEN]
        assert await store.records.count(CREDENTIALS, "acme") == 0


@pytest.mark.parametrize(
    "key",
    [
        TaskKey(Owner("acme", "ada"), "t-2"),
        TaskKey(Owner("acme", "eve"), "t-1"),
        TaskKey(Owner("umbrella", "ada"), "t-1"),
    ],
)
async def test_a_task_that_learns_the_id_of_a_credential_of_another_one_does_not_get_it(key: TaskKey) -> None:
    async with engine(MemoryStore()) as worker:
        id = await worker.credentials.put(KEY, GIVEN)
        assert await worker.credentials.take(key, id) is None


@pytest.mark.parametrize("seconds", [60, None])
async def test_a_credential_that_no_run_takes_in_time_is_of_no_use(seconds: float | None) -> None:
    """Its own time ends before the time for which credentials are kept, or there is none."""
    clock = FakeClock()
    async with engine(MemoryStore(), clock) as worker:
        kept = KEPT if seconds is None else timedelta(seconds=seconds)
        given = GivenCredential(GIVEN.value, expires_at=None if seconds is None else clock.now() + kept)
        early, late = [await worker.credentials.put(KEY, given) for _ in range(2)]
        clock.jump(kept.total_seconds() - 1)  # so maintenance does not run meanwhile, and deletes nothing
        assert await worker.credentials.take(KEY, early) == given
        clock.jump(1)
        assert await worker.credentials.take(KEY, late) is None
