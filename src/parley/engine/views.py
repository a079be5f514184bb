"""Reading tasks: from live memory where it reaches back far enough, otherwise from the store, as of one moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TypeAlias

from parley.engine.caller import Caller
from parley.engine.feed import Feeds
from parley.engine.large import LARGE_BYTES, Turns, is_long, run_beside_loop
from parley.engine.limits import Limits
from parley.engine.paging import cut_history, decode_page_token, encode_page_token
from parley.engine.sizes import size_of_task
from parley.protocol.errors import InvalidParamsError, TaskNotFoundError, UnsupportedOperationError
from parley.protocol.events import ArtifactUpdate, StatusUpdate, StreamEvent, TaskEvent
from parley.protocol.lifecycle import fold, is_terminal
from parley.protocol.requests import ListTasksRequest, TaskPage
from parley.protocol.tasks import Task
from parley.protocol.versions import Version
from parley.stores.interface import Owner, Store, StoredTask, TaskFilter, TaskHead, TaskKey

DEFAULT_PAGE_SIZE = 50
MAX_PAGE_SIZE = 100

Numbered: TypeAlias = tuple[int, StreamEvent]
"""A stream event with its number in the task's log: the cursor from which its reader can come back."""
Batch: TypeAlias = list[Numbered]
"""Stream events that were there at the same moment; never none.

A batch belongs to its reader, who empties it: so no generator on the way to the reader holds what it has read."""

_SHOWN = (StatusUpdate, ArtifactUpdate)
"""The events that a stream shows."""


class Views:
    """What callers may see of their tasks."""

    def __init__(self, store: Store, feeds: Feeds, limits: Limits, *, agent: str) -> None:
        self._agent = agent
        self._store = store
        self._feeds = feeds
        self._limits = limits
        self._lists: Turns[Owner] = Turns()
        self._reading: dict[tuple[TaskKey, int], asyncio.Task[tuple[int, Task]]] = {}

    async def stored(self, key: TaskKey) -> StoredTask:
        """A task with its events since the last snapshot.

        Raises:
            TaskNotFoundError: this owner has no such task.
        """
        stored = await self._store.tasks.read(key)
        if stored is None or stored.head.agent != self._agent:
            raise TaskNotFoundError.for_task(key.task_id)
        return stored

    async def head(self, key: TaskKey) -> TaskHead:
        """What is known of a task without its events. Raises as `stored` does."""
        head = await self._store.tasks.head(key)
        if head is None or head.agent != self._agent:
            raise TaskNotFoundError.for_task(key.task_id)
        return head

    async def task(self, key: TaskKey) -> Task:
        """A task as it stands. Raises as `stored` does."""
        feed = self._feeds.get(key)
        whole = feed.whole_task() if feed else None
        return whole if whole is not None else (await self.snapshot(key))[1]

    async def events(self, key: TaskKey) -> list[TaskEvent]:
        """All events of a task from the first on."""
        events: list[TaskEvent] = []
        while page := await self._store.tasks.events(key, after=len(events), limit=self._limits.page_events):
            events.extend(event for _, event in page)
        return events

    async def page(self, request: ListTasksRequest, caller: Caller) -> TaskPage:
        """A page of the caller's tasks, newest status first. An owner's pages are made one at a time.

        Raises:
            InvalidParamsError: the page size is out of range, or the token is not one of ours.
        """
        size = DEFAULT_PAGE_SIZE if request.page_size is None else request.page_size
        if not 1 <= size <= MAX_PAGE_SIZE:
            raise InvalidParamsError(f"Must be between 1 and {MAX_PAGE_SIZE}", path="$.pageSize")
        query = TaskFilter(
            agent=self._agent,
            context_id=request.context_id,
            state=request.state,
            status_at_or_after=request.status_timestamp_after,
            after=decode_page_token(request.page_token) if request.page_token else None,
            limit=size + 1,
        )
        async with self._lists.turn(caller.owner):
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

    async def subscribe(self, key: TaskKey, version: Version, *, after: int | None) -> AsyncGenerator[Batch]:
        """Follow a task: from a cursor exactly where it left off, otherwise from a snapshot of now.

        Raises:
            TaskNotFoundError: this owner has no such task.
            InvalidParamsError: the task has no such event yet.
            UnsupportedOperationError: the task has ended, and 1.0 lets nobody subscribe to it without a cursor.
        """
        opening: Batch = []
        if after is None:
            last, task = await self.snapshot(key)
            if is_terminal(task.status.state):
                if version is Version.V1_0:
                    raise UnsupportedOperationError("The task has ended; read it, or subscribe from a cursor")
                yield [(last, StatusUpdate(task.id, task.context_id, task.status))]
                return
            after, opening = last, [(last, task)]
            del task  # only the batch has it, which its reader empties
        else:
            head = await self.head(key)
            last = head.last_seq
            if not 0 <= after <= last:
                raise InvalidParamsError(f"The task has {last} events; there is none with number {after}")
            if after == last and is_terminal(head.state):
                return
        async with aclosing(self.stream(key, after=after, until=last, opening=opening)) as batches:
            async for batch in batches:
                yield batch

    async def snapshot(self, key: TaskKey) -> tuple[int, Task]:
        """A task as it is stored, and the number of its last event. Raises as `stored` does.

        All who want the same large task at the same time get the same copy.
        """
        head = await self.head(key)
        if head.size <= LARGE_BYTES:
            return await self._load(key)
        return await asyncio.shield(self._shared(key, head.last_seq))

    def _shared(self, key: TaskKey, last_seq: int) -> asyncio.Task[tuple[int, Task]]:
        place = (key, last_seq)  # what was committed since must be in the copy
        if place not in self._reading:
            self._reading[place] = asyncio.get_running_loop().create_task(self._load(key))
            self._reading[place].add_done_callback(lambda _: self._reading.pop(place))
        return self._reading[place]

    async def _load(self, key: TaskKey) -> tuple[int, Task]:
        stored = await self.stored(key)
        return stored.head.last_seq, await folded(stored)

    async def stream(
        self, key: TaskKey, *, after: int, until: int = 0, opening: Batch | None = None
    ) -> AsyncGenerator[Batch]:
        """The events after a number that a stream shows, until one at or after `until` ends it.

        `opening` comes before them, together with what is there already.
        """
        shown = opening or []
        if shown and not self._feeds.has_more(key, after=after):
            yield shown
            shown = []
        async with aclosing(self._feeds.follow(key, after=after, until=until)) as batches:
            async for events in batches:
                shown += [(seq, event) for seq, event in events if isinstance(event, _SHOWN)]
                events.clear()
                if shown:
                    yield shown
                    shown = []


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
