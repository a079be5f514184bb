"""Reading tasks: from the live feed if it has all events, otherwise from the store, as of one moment."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from weakref import WeakValueDictionary

from parley.engine.caller import Caller
from parley.engine.limits import Limits
from parley.engine.reading.feed import Feeds
from parley.engine.reading.large import LARGE_BYTES, is_long, run_beside_loop
from parley.engine.reading.paging import cut_history, decode_page_token, encode_page_token
from parley.engine.reading.sizes import size_of_task
from parley.protocol.errors import InvalidParamsError, TaskNotFoundError
from parley.protocol.events import TaskEvent
from parley.protocol.lifecycle import fold
from parley.protocol.requests import ListTasksRequest, TaskPage
from parley.protocol.tasks import Task
from parley.stores.interface import Owner, Store, StoredTask, TaskFilter, TaskHead, TaskKey

DEFAULT_PAGE_SIZE = 50
MAX_PAGE_SIZE = 100


class Views:
    """What callers may see of their tasks."""

    def __init__(self, store: Store, feeds: Feeds, limits: Limits) -> None:
        self._store = store
        self._feeds = feeds
        self._limits = limits
        self._lists: WeakValueDictionary[Owner, asyncio.Lock] = WeakValueDictionary()
        self._reading: dict[tuple[TaskKey, int], asyncio.Task[tuple[int, Task]]] = {}

    async def stored(self, key: TaskKey, agent: str) -> StoredTask:
        """A task with its events since the last snapshot.

        Raises:
            TaskNotFoundError: this owner has no such task with the agent.
        """
        stored = await self._store.tasks.read(key)
        if stored is None or stored.head.agent != agent:
            raise TaskNotFoundError.for_task(key.task_id)
        return stored

    async def head(self, key: TaskKey, agent: str) -> TaskHead:
        """What is known of a task without its events. Raises as `stored` does."""
        return await find_head(self._store, key, agent)

    async def task(self, key: TaskKey, agent: str) -> Task:
        """A task as it stands. Raises as `stored` does."""
        if not self._store.is_shared:
            feed = self._feeds.get(key)
            whole = feed.whole_task() if feed is not None and feed.agent == agent else None
            if whole is not None:
                return whole
        return (await self.snapshot(key, agent))[1]

    async def events(self, key: TaskKey) -> list[TaskEvent]:
        """All events of a task from the first on."""
        events: list[TaskEvent] = []
        while page := await self._store.tasks.events(key, after=len(events), limit=self._limits.page_events):
            events.extend(event for _, event in page)
        return events

    async def page(self, request: ListTasksRequest, caller: Caller, agent: str) -> TaskPage:
        """A page of the caller's tasks, newest status first. An owner's pages are made one at a time.

        Raises:
            InvalidParamsError: the page size is out of range, or the token is not one of ours.
        """
        size = DEFAULT_PAGE_SIZE if request.page_size is None else request.page_size
        if not 1 <= size <= MAX_PAGE_SIZE:
            raise InvalidParamsError(f"Must be between 1 and {MAX_PAGE_SIZE}", path="$.pageSize")
        query = TaskFilter(
            agent=agent,
            context_id=request.context_id,
            state=request.state,
            status_at_or_after=request.status_timestamp_after,
            after=decode_page_token(request.page_token) if request.page_token else None,
            limit=size + 1,
        )
        async with self._lists.setdefault(caller.owner, asyncio.Lock()):
            return await self._page(request, query, caller.owner, size)

    async def _page(self, request: ListTasksRequest, query: TaskFilter, owner: Owner, size: int) -> TaskPage:
        found = await self._store.tasks.list(owner, query)
        keys = [head.key for head in found.heads[:size]]
        stored = await self._store.tasks.read_many(
            keys, artifacts=request.include_artifacts, size=self._limits.page_bytes
        )
        if request.include_artifacts or is_long(sum([len(each.events) for each in stored if each is not None])):
            tasks = await run_beside_loop(_listed, stored, request, self._limits.page_bytes)
        else:
            tasks = _listed(stored, request, self._limits.page_bytes)
        last = found.heads[len(tasks) - 1] if tasks else None
        has_more = last is not None and last is not found.heads[-1]
        token = encode_page_token(last.status_at, last.key.task_id) if last is not None and has_more else ""
        return TaskPage(tuple([task for task in tasks if task is not None]), token, size, found.total)

    async def snapshot(self, key: TaskKey, agent: str) -> tuple[int, Task]:
        """A task as it is stored, and the number of its last event. Raises as `stored` does.

        Concurrent readers of the same large task share one copy.
        """
        head = await self.head(key, agent)
        if head.size <= LARGE_BYTES:
            return await self._load(key, agent)
        return await asyncio.shield(self._shared(head))

    def _shared(self, head: TaskHead) -> asyncio.Task[tuple[int, Task]]:
        version = (head.key, head.last_seq)  # what was committed since must be in the copy
        if version not in self._reading:
            self._reading[version] = asyncio.get_running_loop().create_task(self._load(head.key, head.agent))
            self._reading[version].add_done_callback(lambda _: self._reading.pop(version))
        return self._reading[version]

    async def _load(self, key: TaskKey, agent: str) -> tuple[int, Task]:
        stored = await self.stored(key, agent)
        return stored.head.last_seq, await folded(stored)


async def find_head(store: Store, key: TaskKey, agent: str) -> TaskHead:
    """The head of a task. Raises TaskNotFoundError if its owner has no such task with the agent."""
    head = await store.tasks.head(key)
    if head is None or head.agent != agent:
        raise TaskNotFoundError.for_task(key.task_id)
    return head


def _listed(stored: Sequence[StoredTask | None], request: ListTasksRequest, page_bytes: int) -> list[Task | None]:
    """Tasks as a list shows them, None for those deleted meanwhile; fewer than there are, where these are large."""
    tasks: list[Task | None] = []
    taken = 0
    for each in stored:
        if taken > page_bytes:
            break
        task = None
        if each is not None:
            task = fold_stored(each)
            if not request.include_artifacts:
                task = Task(task.id, task.context_id, task.status, (), task.history, task.metadata)
            task = cut_history(task, request.history_length)
            taken += size_of_task(task)
        tasks.append(task)
    return tasks


def fold_stored(stored: StoredTask) -> Task:
    """The task that a store keeps."""
    return fold(stored.snapshot, stored.events)


async def folded(stored: StoredTask) -> Task:
    """The task that a store keeps; one of many events is folded in a thread."""
    return await run_beside_loop(fold_stored, stored) if is_long(len(stored.events)) else fold_stored(stored)
