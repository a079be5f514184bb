"""A page of a list of tasks, newest status first.

A page of tasks in several states is merged from one list for each. Text, and agents whose tasks no index finds, are
looked for in 2,000 tasks at most, and for some seconds; the next page goes on from there.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Sequence
from datetime import datetime
from itertools import chain

from msgspec import Struct

from parley.console.backend import OwnerFilter
from parley.console.tasks.access import TaskAccess
from parley.console.tasks.filters import TaskListQuery
from parley.console.tasks.moments import show_moment
from parley.console.tasks.rows import TaskRow, rows_of
from parley.console.tasks.summaries import Summaries
from parley.console.tasks.text_search import tasks_with_text
from parley.engine.reading.paging import encode_page_token
from parley.protocol.tasks import TaskState
from parley.stores.interface import TaskFilter, TaskHead

MOST_SEARCHED = 2_000
"""Tasks that one reply looks into."""

SEARCH_PAGE = 25
"""Tasks that are read at once, of up to some megabytes each."""

SEARCH_SECONDS = 3.0
"""After which a reply says how far it got: large tasks take long."""

MOST_COUNTED = 100_000
"""More tasks than this are not counted: that would take longer than the page itself."""

Position = tuple[datetime, str]


class Searched(Struct, frozen=True):
    """How far a search got."""

    tasks: int
    until: str
    """The status of the last task that was looked into; empty if there was none."""


class TaskListPage(Struct, frozen=True):
    """A page of a list."""

    tasks: list[TaskRow]
    next: str | None
    total: int | None
    searched: Searched | None


async def list_page(access: TaskAccess, summaries: Summaries, wanted: TaskListQuery) -> TaskListPage:
    """The page that a caller wants. Raises ConsoleError if the cursor is not one of ours."""
    position = wanted.position()
    owners = access.owners(wanted.tenant)
    if owners is None:
        return TaskListPage([], None, 0, None)
    listing = TaskListing(access, owners, wanted)
    if listing.is_search:
        heads, last, searched = await listing.search(position)
        rows = await rows_of(access, summaries, heads)
        return TaskListPage(rows, None if last is None else encode_page_token(*last), None, searched)
    heads, has_more = await listing.page(position, wanted.limit)
    total = None if wanted.cursor or wanted.until is not None else await listing.count()
    rows = await rows_of(access, summaries, heads)
    return TaskListPage(rows, encode_page_token(*position_of(heads[-1])) if has_more else None, total, None)


def position_of(head: TaskHead) -> Position:
    """Where a page ends that has this task as its last."""
    return head.status_at, head.key.task_id


class TaskListing:
    """The tasks of some owners that match a filter."""

    def __init__(self, access: TaskAccess, owners: OwnerFilter, wanted: TaskListQuery) -> None:
        self._access = access
        self._owners = owners
        self._wanted = wanted
        self._program = access.program_of(wanted.agent) if wanted.agent else None
        self.is_search = bool(wanted.needle) or (bool(wanted.agent) and self._program is None)

    def _filter(self, state: TaskState | None, after: Position | None, limit: int) -> TaskFilter:
        wanted = self._wanted
        return TaskFilter(
            agent=self._program,
            context_id=wanted.context or None,
            state=state,
            status_at_or_after=wanted.since,
            after=after,
            limit=limit,
        )

    @property
    def _states(self) -> Sequence[TaskState | None]:
        return list(dict.fromkeys(self._wanted.state)) or [None]

    async def page(self, after: Position | None, limit: int) -> tuple[list[TaskHead], bool]:
        """The tasks after a position, and whether there are more. Tasks of one moment and id are on one page."""
        tasks, owners = self._access.store.tasks, self._owners
        lists = await asyncio.gather(
            *[
                tasks.list_all(self._filter(state, after, limit + 1), tenant=owners.tenant, name=owners.name)
                for state in self._states
            ]
        )
        merged = list(heapq.merge(*lists, key=_order)) if len(lists) > 1 else list(chain(*lists))
        end = limit
        while 0 < end < len(merged) and position_of(merged[end]) == position_of(merged[end - 1]):
            end += 1
        return merged[:end], end < len(merged)

    async def count(self) -> int | None:
        """How many tasks there are on all pages; None if there are too many to be counted."""
        tasks, owners = self._access.store.tasks, self._owners
        counts = await asyncio.gather(
            *[
                tasks.count_all(self._filter(state, None, 1), tenant=owners.tenant, name=owners.name, most=MOST_COUNTED)
                for state in self._states
            ]
        )
        total = sum(counts)
        return total if total <= MOST_COUNTED else None

    async def search(self, after: Position | None) -> tuple[list[TaskHead], Position | None, Searched]:
        """Tasks with the text and of the agent, where the next page goes on, and into how many was looked."""
        found: list[TaskHead] = []
        searched, until, has_more = 0, "", True
        deadline = time.monotonic() + SEARCH_SECONDS
        while has_more and searched < MOST_SEARCHED and len(found) < self._wanted.limit:
            if searched and time.monotonic() > deadline:
                break
            heads, has_more = await self.page(after, SEARCH_PAGE)
            hits = await self.matching(heads)
            room = self._wanted.limit - len(found)
            if len(hits) > room:  # go on after the last one that is shown
                heads, has_more = heads[: heads.index(hits[room - 1]) + 1], True
                hits = hits[:room]
            found += hits
            searched += len(heads)
            if heads:
                after, until = position_of(heads[-1]), show_moment(heads[-1].status_at)
        return found, after if has_more else None, Searched(searched, until)

    async def matching(self, heads: Sequence[TaskHead]) -> list[TaskHead]:
        """Those of some tasks that are of the agent and contain the text."""
        wanted = self._wanted
        if wanted.agent and self._program is None:
            heads = [head for head in heads if self._access.agent_id(head) == wanted.agent]
        elif self._program is not None:
            heads = [head for head in heads if head.agent == self._program]
        return await tasks_with_text(self._access.store, heads, wanted.needle) if wanted.needle else list(heads)


def _order(head: TaskHead) -> tuple[float, str]:
    return -head.status_at.timestamp(), head.key.task_id
