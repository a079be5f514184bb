"""Stores that earlier versions wrote: they open, nothing is missing, and their tasks go on. See tests/golden/stores."""

import asyncio
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from parley.engine.caller import Caller
from parley.protocol.messages import Message, Role, TextPart, text_of
from parley.protocol.requests import GetTaskRequest, SendMessageRequest
from parley.protocol.tasks import Task, TaskState
from parley.protocol.versions import Version
from parley.stores.interface import ContextKey, Owner, TaskFilter, TaskKey
from parley.stores.sqlite.maintenance import FileMaintenance
from parley.stores.sqlite.store import SqliteStore
from parley.testing.client import running
from parley.testing.clock import FakeClock
from tests.deadlines import fail_after
from tests.stores.golden_agents import Kitchen

FOLDER = Path(__file__).parent.parent / "golden" / "stores"
SOON_AFTER = datetime(2026, 11, 16, 18, 5, tzinfo=UTC)
ADA = Caller("ada", "acme", version=Version.V1_0)
CALLERS = (  # each with the number in the id of the first of its five tasks
    (ADA, 1),
    (Caller("bob", "acme", version=Version.V0_3), 13),
    (Caller("ada", "umbrella", version=Version.V0_2), 25),
    (Caller("", "", version=Version.V0_1), 37),
)
BREAD, SOUP, CAKE, STONE, EGGS = 0, 2, 4, 7, 10
"""What is to be added to that number for each task."""

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["schema-6.db", "schema-8.db"])
def path(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return Path(shutil.copy(FOLDER / request.param, tmp_path / "tasks.db"))


class Hooks:
    """Webhooks that take everything."""

    def __init__(self) -> None:
        self.told: dict[str, list[int]] = {}

    async def send(self, notification: Any) -> None:
        self.told.setdefault(notification.key.task_id, []).append(notification.seq)


def reply_id(path: Path, caller: Caller) -> str:
    """The id of the direct reply that a caller got from the earlier version."""
    query = "SELECT json_extract(reply, '$.message_id') FROM sends WHERE tenant = ? AND owner = ? AND reply IS NOT NULL"
    with closing(sqlite3.connect(path)) as file:
        (found,) = file.execute(query, (caller.tenant, caller.name)).fetchone()
        return found


def text(task: Task) -> str:
    return text_of([part for artifact in task.artifacts for part in artifact.parts])


async def test_a_store_of_an_earlier_version_holds_everything_that_it_held(path: Path) -> None:
    """And the check has nothing to say about it, before anything else is done with it."""
    with closing(sqlite3.connect(path)) as file:
        tables = ("tasks", "events", "snapshots", "sends", "push_configs", "context_values")
        before = {table: file.execute(f"SELECT count(*) FROM {table}").fetchone() for table in tables}
    log = SqliteStore(path)
    await log.open()
    states = [TaskState.COMPLETED, TaskState.WORKING, TaskState.INPUT_REQUIRED, TaskState.REJECTED, TaskState.COMPLETED]
    for caller, first in CALLERS:
        heads = (await log.tasks.list(caller.owner, TaskFilter())).heads
        ids = [f"id-{first + dish}" for dish in (BREAD, SOUP, CAKE, STONE, EGGS)]
        assert {head.key.task_id: (head.state, head.created_in) for head in heads} == {
            name: (state, caller.version) for name, state in zip(ids, states, strict=True)
        }
        assert await log.contexts.get(ContextKey(caller.owner, "cook", f"id-{first + 1}")) == {"dish": "bread"}
        hooks = {
            name: [w.delivered_seq for w in await log.outbox.webhooks(TaskKey(caller.owner, name))] for name in ids
        }
        flaky = 4 if caller.version is Version.V1_0 else 6
        assert list(hooks.values()) == [[7], [flaky], [6], [], [0]]
    bob = Owner("umbrella", "bob")
    banquet, failed, canceled = sorted(
        (await log.tasks.list(bob, TaskFilter())).heads, key=lambda head: head.key.task_id
    )
    assert (failed.state, canceled.state) == (TaskState.FAILED, TaskState.CANCELED)
    stored = await log.tasks.read(banquet.key)
    assert stored is not None
    assert stored.snapshot_seq == 157
    assert stored.snapshot is not None
    assert text(stored.snapshot).endswith("148 149 Done.")
    assert len(await log.tasks.events(banquet.key, after=0, limit=999)) == 157
    timed = await log.tasks.timed_events(banquet.key, after=0, limit=999)
    assert [each.written_at for each in timed] == [None] * 157  # the file does not say
    await log.close()
    with closing(sqlite3.connect(path)) as file:
        assert before == {table: file.execute(f"SELECT count(*) FROM {table}").fetchone() for table in tables}
    findings = FileMaintenance(path, lambda _: None).check()
    assert (findings.wrong, findings.unchecked) == ((), None)


async def test_the_tasks_of_a_store_of_an_earlier_version_go_on(path: Path) -> None:
    """Running ones from where they were, waiting ones with an answer; repeats are known, webhooks hear the rest."""
    kitchen, hooks, clock = Kitchen(), Hooks(), FakeClock(SOON_AFTER)
    first_reply = reply_id(path, CALLERS[1][0])
    log = SqliteStore(path)
    with fail_after(10):
        async with running(kitchen.cook, store=log, clock=clock, sender=hooks) as client:
            kitchen.is_hot.set()
            for caller, first in CALLERS:
                ask = client.as_caller(name=caller.name, tenant=caller.tenant, version=caller.version)
                soup = await ask.finished(f"id-{first + SOUP}")
                assert (soup.status.state, text(soup)) == (TaskState.COMPLETED, "soup costs 4. Heating. Done.")
                answer = Message(f"answer-{caller.version}", Role.USER, (TextPart("six"),), None, f"id-{first + CAKE}")
                cake = await ask.agent.send_message(SendMessageRequest(answer), caller)
                assert isinstance(cake, Task)
                assert (cake.status.state, text(cake)) == (TaskState.COMPLETED, "cake costs 4. For six. Done.")
                repeat = Message("message-1000002", Role.USER, (TextPart("cake"),))
                repeated = await ask.agent.send_message(SendMessageRequest(repeat), caller)
                assert isinstance(repeated, Task)
                assert repeated.id == cake.id
                for dish in (SOUP, CAKE, EGGS):
                    while not hooks.told.get(f"id-{first + dish}"):
                        await asyncio.sleep(0)
            assert kitchen.prices == []
            bread = await client.agent.get_task(GetTaskRequest("id-1"), ADA)
            assert text(bread) == "bread costs 5. Done."
        assert hooks.told["id-11"] == [3, 5, 6, 7]
        async with running(kitchen.waiter, store=log, clock=clock) as waiter:
            repeat = Message("message-1000000", Role.USER, (TextPart("bob"),))
            reply = await waiter.agent.send_message(SendMessageRequest(repeat), CALLERS[1][0])
            assert isinstance(reply, Message)
            assert reply.message_id == first_reply
    findings = FileMaintenance(path, lambda _: None).check()
    assert (findings.wrong, findings.unchecked) == ((), None)
