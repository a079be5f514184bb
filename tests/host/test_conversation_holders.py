"""Which request of a conversation is at work: the record, the log, and whether the worker of its task may be alive."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from parley.host.data.conversation_holders import ConversationHolders
from parley.protocol.events import TaskCreated
from parley.protocol.tasks import TaskState, TaskStatus
from parley.protocol.versions import Version
from parley.stores.interface import NewTask, Owner, TaskKey, Write
from parley.stores.memory import MemoryDatabase, MemoryStore

pytestmark = pytest.mark.anyio

OWNER = Owner("1", "ann")
CONVERSATION = (OWNER, "writer", "c")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def write_task(store: MemoryStore, task_id: str, *, holder: str) -> None:
    status = TaskStatus(TaskState.WORKING, timestamp=NOW)
    new = NewTask("writer", "c", Version.V1_0, NOW)
    created = TaskCreated(task_id, "c", status)
    await store.tasks.write(
        Write(TaskKey(OWNER, task_id), 0, (created,), TaskState.WORKING, NOW, new=new, holder=holder)
    )


@pytest.mark.parametrize(("holder", "is_at_work"), [("may be alive", True), ("dead", False), ("", False)])
async def test_a_request_has_its_conversation_while_its_worker_may_be_alive(holder: str, is_at_work: bool) -> None:
    """After the store was away, no lease says that a worker is alive. A task that waits for room is not at work."""
    store = MemoryStore(MemoryDatabase())

    async def may_be_alive(worker: str) -> bool:
        return worker != "dead"

    holders = ConversationHolders(store.records, store, is_here=lambda _: False, may_be_alive=may_be_alive)
    await write_task(store, "first", holder=holder)
    assert await holders.take(*CONVERSATION, "first") is not None
    assert await holders.task_at_work(*CONVERSATION) == ("first" if is_at_work else None)
    assert (await holders.take(*CONVERSATION, "second") is None) is is_at_work
