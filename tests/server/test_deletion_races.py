"""A caller's data is deleted while a run, a delivery or an authorization works with it: nothing of it comes back."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import aclosing, closing
from pathlib import Path

import pytest

from parley import Agent, Client, Turn
from parley.engine.credentials import CREDENTIALS
from parley.engine.limits import Limits
from parley.protocol.errors import TaskNotFoundError
from parley.protocol.push import PushConfig
from parley.protocol.tasks import TaskState
from parley.server.app import App
from parley.stores.interface import Store
from parley.stores.memory import MemoryStore
from parley.stores.sqlite.store import SqliteStore
from tests.server.authorization_server import authorization_server
from tests.server.serving import deleted_data
from tests.server.test_in_task_authorization import Calendar, served
from tests.server.webhook_receiver import ANYWHERE, webhook

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "tasks.db")


async def test_a_handler_that_outlives_the_deletion_of_its_task_leaves_no_memory(store: Store) -> None:
    agent, begun, released, ended = Agent("Diary"), asyncio.Event(), asyncio.Event(), asyncio.Event()

    @agent.on_message
    async def handle(turn: Turn) -> str:
        await turn.step("stored", str)  # which waits until the task is in the store
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            try:
                await released.wait()
                await turn.context.set("last", "what the caller said")
            finally:
                ended.set()
        return ""

    app = App(agent, store=store, engine_limits=Limits(cancel_seconds=0.01))
    async with served(app) as (url, _), Client(url) as client:
        sending = asyncio.create_task(client.send("hello"))
        await begun.wait()
        assert (await deleted_data(app)).tasks == 1
        released.set()
        await ended.wait()
        await asyncio.gather(sending, return_exceptions=True)
        assert await store.owner_data.owners(limit=10) == []


async def test_a_reader_of_a_task_that_waits_for_its_caller_learns_that_it_was_deleted(store: Store) -> None:
    agent = Agent("Diary")

    @agent.on_message
    async def handle(turn: Turn) -> str:
        return await turn.ask("What happened?")

    app = App(agent, store=store)
    async with served(app) as (url, _), Client(url) as client:
        asked = await client.send("hello")
        assert asked.task is not None
        async with aclosing(client.subscribe(asked.task)) as updates:
            assert (await anext(updates)).state is TaskState.INPUT_REQUIRED
            assert (await deleted_data(app)).tasks == 1
            with pytest.raises(TaskNotFoundError):
                await anext(updates)


async def test_a_delivery_that_is_under_way_writes_nothing_back(tmp_path: Path) -> None:
    agent, path = Agent("Diary"), tmp_path / "tasks.db"

    @agent.on_message
    async def handle(turn: Turn) -> str:
        return "noted"

    async with webhook(lambda _: None) as hook:
        app = App(agent, store=SqliteStore(path), webhooks=ANYWHERE, drain_seconds=0)
        async with served(app) as (url, _), Client(url) as client:
            await client.send("hello", push=PushConfig(hook.url()))
            await hook.notified("/hook")
            deleted = await deleted_data(app)
            assert (deleted.tasks, deleted.webhooks) == (1, 1)
    with closing(sqlite3.connect(path)) as connection:
        for table in ("tasks", "events", "push_configs", "outbox", "sends", "inbox", "context_values"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table


async def test_an_authorization_of_deleted_data_is_not_finished(store: Store) -> None:
    async with authorization_server() as issuer:
        calendar = Calendar(issuer)
        app = App(calendar.agent, store=store)
        async with served(app) as (url, http), Client(url) as client:
            asked = await client.send("What is on?")
            assert asked.authorization is not None
            redirect = await http.get(asked.authorization.url or "")
            await deleted_data(app)
            page = await http.get(redirect.headers["location"])
            assert page.status_code == 400
            assert await store.records.count(CREDENTIALS, "") == 0
        assert issuer.forms == []
    assert calendar.got == []
