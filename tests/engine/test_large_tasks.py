"""Large tasks: what is not shown is not read, what is large is worked on beside the event loop, and shared."""

import asyncio
import gc
import threading
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from parley import Agent, Turn
from parley.engine.caller import ANONYMOUS_CALLER, Caller
from parley.engine.reading.large import encoded
from parley.protocol.events import ArtifactUpdate, StatusUpdate
from parley.protocol.messages import DataPart, Message, RawPart, Role, TextPart, UrlPart
from parley.protocol.requests import GetTaskRequest, ListTasksRequest, SubscribeToTaskRequest, TaskPage
from parley.protocol.tasks import Artifact, Task, TaskState, TaskStatus
from parley.stores.interface import Owner, StoredTask, TaskFilter, TaskHeads, TaskKey
from parley.stores.sqlite.store import SqliteStore
from tests.bounded import bounded
from tests.changed_store import ChangedStore

pytestmark = pytest.mark.anyio

MEGABYTE = 1_000_000


def verbose() -> Agent:
    """An agent that says as much as it is asked for, in pieces, and then asks something."""
    agent = Agent("Verbose")

    @agent.on_message
    async def talk(turn: Turn) -> Any:
        chunks, size = turn.text.split()
        for _ in range(int(chunks)):
            yield "x" * int(size)
        await turn.ask("What next?")

    return agent


@pytest.mark.parametrize("text", ["1 2000000", "200 10000"], ids=["in an event", "in a snapshot"])
async def test_a_list_reads_no_artifacts_that_it_does_not_show(tmp_path: Path, text: str) -> None:
    store = SqliteStore(tmp_path / "tasks.db")
    async with bounded(verbose(), store=store) as client:
        task = await client.send(text)
        while (
            text.startswith("200") and (await store.tasks.read(TaskKey(client.caller.owner, task.id))).snapshot is None
        ):  # pyright: ignore[reportOptionalMemberAccess]
            await asyncio.sleep(0.01)
        del task
        gc.collect()
        tracemalloc.start()
        (listed,) = (await client.agent.list_tasks(ListTasksRequest(), client.caller)).tasks
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert (listed.artifacts, listed.status.state) == ((), TaskState.INPUT_REQUIRED)
        assert most < MEGABYTE // 4
        request = ListTasksRequest(include_artifacts=True)
        (whole,) = (await client.agent.list_tasks(request, client.caller)).tasks
        assert len(client.text(whole)) == 2 * MEGABYTE


async def test_an_owners_lists_are_made_one_at_a_time_and_those_of_others_beside_them() -> None:
    class Log(ChangedStore):
        at_once = 0
        most = 0

        async def tasks_list(self, owner: Owner, query: TaskFilter) -> TaskHeads:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
            for _ in range(3):
                await asyncio.sleep(0)
            self.at_once -= 1
            return await super().tasks_list(owner, query)

    store = Log()
    async with bounded(verbose(), store=store) as client:
        mallory, alice = Caller("mallory"), Caller("alice")
        lists = [client.agent.list_tasks(ListTasksRequest(), caller) for caller in (*[mallory] * 9, alice)]
        await asyncio.gather(*lists)
        assert store.most == 2


async def test_a_large_task_that_many_want_at_once_is_loaded_once(tmp_path: Path) -> None:
    class Log(SqliteStore):
        loaded = 0

        def __init__(self, path: Path) -> None:
            super().__init__(path)
            self._read_many, self.tasks.read_many = self.tasks.read_many, self._read_and_count

        async def _read_and_count(self, keys: Sequence[TaskKey], **options: Any) -> Sequence[StoredTask | None]:
            self.loaded += 1
            return await self._read_many(keys, **options)

    store = Log(tmp_path / "tasks.db")
    async with bounded(verbose(), store=store) as client:
        task = await client.send("1 3000000")
        store.loaded = 0
        subscriptions = [client.agent.subscribe_to_task(SubscribeToTaskRequest(task.id)) for _ in range(20)]
        reads = [client.agent.get_task(GetTaskRequest(task.id), ANONYMOUS_CALLER) for _ in range(20)]
        *openings, whole = await asyncio.gather(*[anext(batches) for batches in subscriptions], reads[0])
        assert all(opening[0][1] is whole for opening in openings)
        assert store.loaded == 1
        for batches, read in zip(subscriptions[1:], reads[1:], strict=True):
            await batches.aclose()
            read.close()
        await subscriptions[0].aclose()


def task_of(*parts: Any) -> Task:
    return Task("t", "c", TaskStatus(TaskState.WORKING), (Artifact("a", parts),))


LONG = "x" * 100_000
SPOKEN = Message("m", Role.AGENT, (TextPart(LONG),))


@pytest.mark.parametrize(
    ("value", "is_large"),
    [
        (ArtifactUpdate("t", "c", Artifact("a", (TextPart("short"),))), False),
        (ArtifactUpdate("t", "c", Artifact("a", (TextPart(LONG),))), True),
        (ArtifactUpdate("t", "c", Artifact("a", (RawPart(LONG.encode()),))), True),
        (StatusUpdate("t", "c", TaskStatus(TaskState.WORKING)), False),
        (StatusUpdate("t", "c", TaskStatus(TaskState.WORKING, SPOKEN)), True),
        (SPOKEN, True),
        (task_of(TextPart("short"), UrlPart("https://example.com/")), False),
        (task_of(*[TextPart("word ")] * 1_000), True),
        (task_of(DataPart({"rows": [[1, "two", None]] * 10})), False),
        (task_of(DataPart({"rows": [[1, "two", None]] * 1_000})), True),
        (task_of(DataPart({"text": LONG})), True),
        (TaskPage((Task("t", "c", TaskStatus(TaskState.WORKING), (), (SPOKEN,)),), "", 1, 1), True),
        (TaskPage((task_of(TextPart("short")),), "", 1, 1), False),
    ],
)
async def test_large_values_are_encoded_beside_the_event_loop(value: Any, is_large: bool) -> None:
    where = await encoded(value, lambda _: threading.current_thread().name.encode())
    assert where.startswith(b"parley-large") is is_large
