"""Ownership: several workers on one store, of which one at a time holds a task."""

from datetime import UTC, datetime
from random import Random

import pytest
from anyio import create_task_group, fail_after, lowlevel

from parley.engine.feed import Feeds
from parley.engine.following import Follower
from parley.engine.hints import Hint, HintKind, LocalHints
from parley.engine.limits import Limits
from parley.protocol.errors import TaskNotFoundError
from parley.protocol.events import StatusUpdate, TaskClaimed, TaskCreated, TaskEvent
from parley.protocol.tasks import TaskState, TaskStatus
from parley.protocol.versions import Version
from parley.stores.interface import NewTask, Owner, TaskKey, Write
from parley.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio

KEY = TaskKey(Owner("", "ann"), "t-1")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def events_of_a_life(claims: int) -> list[TaskEvent]:
    working = StatusUpdate(KEY.task_id, "c", TaskStatus(TaskState.WORKING, timestamp=NOW))
    claimed = [event for number in range(claims) for event in (TaskClaimed(KEY.task_id, "c", f"w-{number}"), working)]
    ended = StatusUpdate(KEY.task_id, "c", TaskStatus(TaskState.COMPLETED, timestamp=NOW))
    return [TaskCreated(KEY.task_id, "c", TaskStatus(TaskState.SUBMITTED, timestamp=NOW)), *claimed, ended]


def follower(feeds: Feeds, after: int = 0) -> Follower:
    async def start(follower: Follower) -> None:
        follower.use(KEY, "a")
        follower.begin(after=after)

    return Follower(feeds, start)


@pytest.mark.parametrize("seed", range(20))
async def test_a_reader_sees_every_event_once_whichever_worker_wrote_it(seed: int) -> None:
    """Events of this worker are published; of others there is a hint, perhaps late, or none until the poller looks."""
    chance, log, seen = Random(seed), MemoryStore(), list[list[int]]()
    feeds = Feeds(log, Limits(events_in_memory=2, page_events=3))
    events = events_of_a_life(15)

    async def read() -> None:
        seen.append([seq async for batch in follower(feeds) for seq, _ in batch])

    with fail_after(5):
        async with create_task_group() as readers:
            kept = feeds.use(KEY, "a")
            seq = 0
            while seq < len(events):
                some = tuple(events[seq : seq + chance.randint(1, 3)])
                state = TaskState.COMPLETED if seq + len(some) == len(events) else TaskState.WORKING
                new = NewTask("a", "c", Version.V1_0, NOW) if seq == 0 else None
                await log.tasks.write(Write(KEY, seq, some, state, NOW, new=new))
                match chance.randrange(4):
                    case 0 | 1:
                        kept.publish(seq + 1, some)
                    case 2:
                        kept.note(chance.randint(0, seq + len(some)))
                    case _:
                        await feeds.poll(lambda key: chance.random() < 0.5)
                seq += len(some)
                if seq > 3 and chance.random() < 0.1:
                    readers.start_soon(read)
                await lowlevel.checkpoint()
            readers.start_soon(read)
            await lowlevel.checkpoint()
            while kept.users > 1:  # by readers
                await feeds.poll(lambda key: False)
                await lowlevel.checkpoint()
    whole = [seq for seq, event in enumerate(events, 1) if isinstance(event, StatusUpdate)]
    assert all(one == whole for one in seen)


async def test_a_reader_of_a_task_that_another_worker_deleted_is_told() -> None:
    log = MemoryStore()
    feeds = Feeds(log, Limits())
    await log.tasks.write(
        Write(
            KEY, 0, tuple(events_of_a_life(0)[:1]), TaskState.SUBMITTED, NOW, new=NewTask("a", "c", Version.V1_0, NOW)
        )
    )

    async def read() -> None:
        with pytest.raises(TaskNotFoundError):
            async for _ in follower(feeds, after=1):
                pass

    with fail_after(5):
        async with create_task_group() as readers:
            readers.start_soon(read)
            await lowlevel.checkpoint()
            await log.tasks.delete(KEY)
            await feeds.poll(lambda key: False)


def test_hints_reach_all_listeners_until_they_stop() -> None:
    hints, heard = LocalHints(), list[Hint]()
    news = Hint(HintKind.NEWS, KEY, 3)
    stop = hints.listen(heard.append)
    hints.publish(news)
    stop()
    hints.publish(news)
    assert heard == [news]
