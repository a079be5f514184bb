"""`parley.testing.running`, for five seconds at most: a test that hangs fails.

A test that uses the fixture `any_store` runs twice: on a store in memory, whose calls never suspend, and on one whose
every call suspends at places that a seed decides: the same in each run of the tests, others with `make soak`. With
`PARLEY_TEST_STORE=postgres` it runs once, on PostgreSQL.
"""

import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from random import Random
from typing import Any
from zlib import crc32

import pytest

from parley.sealed.keys import new_key
from parley.stores.interface import Store
from parley.stores.memory import MemoryStore
from parley.testing.client import AgentClient, running
from tests.deadlines import fail_after
from tests.services.fixtures import ON_POSTGRES, empty_schema
from tests.services.postgres import Postgres
from tests.stores.secrets_suite import Keys
from tests.suspending import suspending

SECONDS = 20 if ON_POSTGRES else 5
STORE_KEYS = Keys(new_key())
"""Of stores on PostgreSQL, which have no key otherwise, and warn of it."""

_seeds: list[int] = []
_servers: list[Postgres] = []
_opened: list[Store] = []


@pytest.fixture(params=["postgres"] if ON_POSTGRES else ["memory", "suspending"])
async def any_store(request: pytest.FixtureRequest, anyio_backend: object) -> AsyncGenerator[None]:
    """Let `bounded` and `log_under_test` make the stores of this kind; a failure shows the seed to repeat it with."""
    with _stores_of(request):
        yield
        while _opened:
            await _opened.pop().close()


@contextmanager
def _stores_of(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "memory":
        yield
        return
    if request.param == "postgres":
        _servers.append(request.getfixturevalue("postgres_server"))
        yield
        _servers.clear()
        return
    seed = int(os.environ.get("PARLEY_STORE_SEED") or crc32(request.node.name.encode()))
    print(f"To suspend at the same places again: PARLEY_STORE_SEED={seed}")
    _seeds.append(seed)
    yield
    _seeds.clear()


def log_under_test(store: Store | None = None) -> Store:
    """A store for a test: one in memory if none is given, made to suspend if that is this test's kind."""
    if store is None and _servers:
        return _store_of_dead_workers(empty_schema(_servers[-1]))
    store = MemoryStore() if store is None else store
    return suspending(store, Random(_seeds[-1])) if _seeds else store


async def open_log() -> Store:
    """A store for a test, as `log_under_test` makes it, which is open until the test ends."""
    store = log_under_test()
    await store.open()
    _opened.append(store)
    return store


def _store_of_dead_workers(url: str) -> Store:
    """A store that is opened when the leases of all workers before have expired, as after a long pause."""
    from parley.stores.postgres.store import PostgresStore

    class OpenedLater(PostgresStore):
        async def open(self) -> None:
            await super().open()
            for worker in await self.leases.workers():
                await self.leases.release(worker.worker)

    return OpenedLater(url, keys=STORE_KEYS)


@asynccontextmanager
async def bounded(program: Any, *, store: Store | None = None, **options: Any) -> AsyncGenerator[AgentClient]:
    with fail_after(SECONDS):
        async with running(program, store=log_under_test(store), **options) as client:
            yield client
