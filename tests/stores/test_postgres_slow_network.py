"""What a store in PostgreSQL does while the way to the server is so slow that transactions take too long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from msgspec import structs

from parley.protocol.events import MessageAdded
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.push import PushConfig
from parley.stores.interface import StoreUnavailableError, TaskKey
from parley.stores.postgres.store import PostgresStore
from parley.stores.urls import opened
from tests.chaos.network import FaultProxy
from tests.deadlines import fail_after
from tests.services.postgres import Postgres
from tests.stores.writes import ADA, creation

pytestmark = pytest.mark.anyio

KEYS = [TaskKey(ADA, f"t-{number}") for number in range(60)]
HOOK = PushConfig("https://h.example", id="hook")


@pytest.fixture
async def network(postgres_server: Postgres) -> AsyncGenerator[FaultProxy]:
    network = FaultProxy(postgres_server.port)
    await network.start()
    yield network
    await network.close()


@pytest.fixture
async def store(
    network: FaultProxy, postgres_server: Postgres, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[PostgresStore]:
    """A store behind the network, with tasks, whose transactions may take two seconds instead of ten."""
    monkeypatch.setattr("parley.stores.postgres.writer.ANSWER_SECONDS", 2.0)
    monkeypatch.setattr("parley.stores.postgres.writer.LATE_SECONDS", 100.0)
    store = PostgresStore(postgres_url.replace(f":{postgres_server.port}", f":{network.port}"))
    async with opened(store):
        await asyncio.gather(*[store.tasks.write(creation(key)) for key in KEYS])
        yield store
        network.heal()


async def test_writes_that_take_too_long_in_one_transaction_are_written_in_several(
    store: PostgresStore, network: FaultProxy
) -> None:
    """And not together again, for ever, with everything behind them."""
    network.delay = 0.01  # 60 webhooks ask the server three times each, which takes more than three seconds
    registering = [store.outbox.put(key, HOOK) for key in KEYS]
    with fail_after(100):
        await asyncio.gather(*registering, store.tasks.write(creation(TaskKey(ADA, "another"))))
    network.heal()
    for key in KEYS:
        assert [config.id for config in await store.outbox.configs(key)] == ["hook"]


async def test_a_long_task_that_takes_too_long_keeps_no_others_waiting(
    store: PostgresStore, network: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An append is one statement, of which it is not known whether it was written until the server was asked."""
    monkeypatch.setattr("parley.stores.postgres.writer.ANSWER_SECONDS", 1.0)
    message = Message("m-1", Role.USER, (TextPart("x" * 4_000_000),), task_id="long", context_id="c-1")
    long = creation(TaskKey(ADA, "long"))
    long = structs.replace(long, events=(*long.events, MessageAdded("long", "c-1", message)))
    network.delay = 0.1  # for each 64 KB of it
    with fail_after(100):
        writing = asyncio.ensure_future(store.tasks.write(long))
        await asyncio.sleep(0)  # its transaction begins
        short = asyncio.ensure_future(store.tasks.write(creation(TaskKey(ADA, "short"))))
        with pytest.raises(StoreUnavailableError, match=r"too long\. Nothing of this was written"):
            await writing
        network.delay = 0.0
        await short
    assert await store.tasks.head(TaskKey(ADA, "long")) is None


async def test_a_write_that_takes_too_long_by_itself_fails_and_may_be_tried_again(
    store: PostgresStore, network: FaultProxy
) -> None:
    network.delay = 0.25
    with fail_after(60), pytest.raises(StoreUnavailableError, match=r"too long\. Nothing of this was written"):
        await store.outbox.put(KEYS[0], HOOK)
    network.heal()
    assert await store.outbox.configs(KEYS[0]) == []
    await store.outbox.put(KEYS[0], HOOK)
