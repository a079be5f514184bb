"""`parley.testing.running`, for five seconds at most: a test that hangs fails.

A test that uses the fixture `any_store` runs twice: on a store in memory, whose calls never suspend, and on one whose
every call suspends at places that a seed decides: the same in each run of the tests, others with `make soak`.
"""

import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any
from zlib import crc32

import pytest
from anyio import fail_after

from parley.stores.interface import Store
from parley.stores.memory import MemoryStore
from parley.testing.client import AgentClient, running
from tests.suspending import suspending

_seeds: list[int] = []


@pytest.fixture(params=["memory", "suspending"])
def any_store(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let `bounded` and `log_under_test` make the stores of this kind; a failure shows the seed to repeat it with."""
    if request.param == "memory":
        yield
        return
    seed = int(os.environ.get("PARLEY_STORE_SEED") or crc32(request.node.name.encode()))
    print(f"To suspend at the same places again: PARLEY_STORE_SEED={seed}")
    _seeds.append(seed)
    yield
    _seeds.clear()


def log_under_test(store: Store | None = None) -> Store:
    """A store for a test: one in memory if none is given, made to suspend if that is this test's kind."""
    store = MemoryStore() if store is None else store
    return suspending(store, Random(_seeds[-1])) if _seeds else store


@asynccontextmanager
async def bounded(program: Any, *, store: Store | None = None, **options: Any) -> AsyncGenerator[AgentClient]:
    with fail_after(5):
        async with running(program, store=log_under_test(store), **options) as client:
            yield client
