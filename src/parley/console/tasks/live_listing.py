"""The channel `task_list`: the first page of a list, and then every task that has changed.

A task that was shown and does not match the filter any more, or was deleted, is named in `removed`.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping

from msgspec import Struct

from parley.console.api.errors import ConsoleError
from parley.console.streams.channel import ChannelCall
from parley.console.tasks.access import TaskAccess
from parley.console.tasks.filters import TaskListQuery
from parley.console.tasks.listing import TaskListing, list_page
from parley.console.tasks.live_heads import LiveTasks
from parley.console.tasks.rows import TaskRow, rows_of
from parley.console.tasks.summaries import Summaries
from parley.stores.interface import TaskHead, TaskKey

MOST_REMEMBERED = 20_000
"""Tasks of which a channel remembers whether the page shows them."""

SEARCH_PAUSE_SECONDS = 1.0
"""Between two looks into the texts of tasks that change."""

MOST_ROWS = 200
"""In one frame."""


class TaskListChange(Struct, frozen=True):
    """What has changed in a list."""

    tasks: list[TaskRow]
    removed: list[str]


async def open_task_list(call: ChannelCall) -> AsyncGenerator[object]:
    """The first page of a list, and then what changes."""
    wanted = call.read(TaskListQuery)
    if wanted.cursor:
        raise ConsoleError("bad_request", "A live list begins with its first page", path="$.cursor")
    access = TaskAccess(call.backend, call.caller)
    engine, summaries = access.engine, call.console.shared(Summaries)
    owners = access.owners(wanted.tenant)
    if owners is None:
        yield TaskListChange([], [])
        return
    changes = _Changes(access, TaskListing(access, owners, wanted), wanted)
    async with call.console.shared(LiveTasks).of(engine, owners) as live:
        number = live.number  # before the page is read: what changes meanwhile comes again
        first = await list_page(access, summaries, wanted)
        yield TaskListChange(first.tasks, [])
        del first
        while True:
            await live.wait(number)
            if wanted.needle:  # a task that grows is read again and again
                await asyncio.sleep(SEARCH_PAUSE_SECONDS)
            changed, number = live.since(number), live.number
            shown, removed = await changes.sort(changed)
            del changed
            for begin in range(0, max(len(shown), len(removed)), MOST_ROWS):
                rows = await rows_of(access, summaries, shown[begin : begin + MOST_ROWS])
                yield TaskListChange(rows, removed[begin : begin + MOST_ROWS])


class _Changes:
    """What changes mean to one list."""

    def __init__(self, access: TaskAccess, listing: TaskListing, wanted: TaskListQuery) -> None:
        self._access = access
        self._listing = listing
        self._wanted = wanted
        self._shown: OrderedDict[TaskKey, bool] = OrderedDict()
        """Whether the page was told last that a task is in the list."""

    async def sort(self, changed: Mapping[TaskKey, TaskHead | None]) -> tuple[list[TaskHead], list[str]]:
        """The tasks to show, newest status first, and the ids of those to remove."""
        candidates = [head for head in changed.values() if head is not None and self._wanted.matches(head)]
        shown = await self._listing.matching(candidates)
        keys = {head.key for head in shown}
        removed = [key for key in changed if key not in keys and self._shown.get(key, True)]
        for key in keys:
            self._note(key, is_shown=True)
        for key in removed:
            self._note(key, is_shown=False)
        shown.sort(key=lambda head: head.status_at, reverse=True)
        return shown, [key.task_id for key in removed]

    def _note(self, key: TaskKey, *, is_shown: bool) -> None:
        self._shown[key] = is_shown
        self._shown.move_to_end(key)
        if len(self._shown) > MOST_REMEMBERED:
            self._shown.popitem(last=False)
