"""Lists the tasks that went through a proxy, where the agent's dialect has no list: only 1.0 has.

Each task is read from the agent, because only it knows how the task stands. What the ledger has forgotten, and what
was not begun here, is not in the list. Spec: 1.0 section 3.1.4.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from msgspec import structs

from parley.engine.paging import EPOCH, cut_history, decode_page_token, encode_page_token
from parley.engine.views import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE
from parley.protocol.errors import InvalidParamsError, TaskNotFoundError
from parley.protocol.requests import ListTasksRequest, TaskPage
from parley.protocol.tasks import Task

MOST_READ = 200
"""Tasks that are read for one list, the newest: each is a call of the agent."""

AT_ONCE = 8
"""Calls of the agent at the same time, for all lists together: one request of a caller becomes many of them here."""

Read = Callable[[str], Awaitable[Task]]


class Listing:
    """Makes lists."""

    def __init__(self) -> None:
        self._room = asyncio.Semaphore(AT_ONCE)

    async def page(self, remote_ids: Sequence[str], read: Read, request: ListTasksRequest) -> TaskPage:
        """A page of these tasks, newest status first.

        Raises:
            InvalidParamsError: the page size is out of range, or the token is not one of ours.
        """
        size = DEFAULT_PAGE_SIZE if request.page_size is None else request.page_size
        if not 1 <= size <= MAX_PAGE_SIZE:
            raise InvalidParamsError(f"Must be between 1 and {MAX_PAGE_SIZE}", path="$.pageSize")
        after = decode_page_token(request.page_token) if request.page_token else None
        tasks = await self._read_all(remote_ids[:MOST_READ], read, request)
        found = sorted((task for task in tasks if _is_wanted(task, request)), key=_place, reverse=True)
        rest = [task for task in found if after is None or _place(task) < after]
        page = tuple(rest[:size])
        token = encode_page_token(*_place(page[-1])) if len(rest) > size else ""
        return TaskPage(page, token, size, len(found))

    async def _read_all(self, remote_ids: Sequence[str], read: Read, request: ListTasksRequest) -> list[Task]:
        """All of these tasks that the agent still knows, without what nobody has asked for: that may be a lot."""

        async def read_one(remote_id: str) -> Task | None:
            async with self._room:
                try:
                    task = await read(remote_id)
                except TaskNotFoundError:
                    return None
            shown = task if request.include_artifacts else structs.replace(task, artifacts=())
            return cut_history(shown, request.history_length)

        reading = [asyncio.create_task(read_one(remote_id)) for remote_id in remote_ids]
        try:
            return [task for task in await asyncio.gather(*reading) if task is not None]
        finally:
            for one in reading:
                one.cancel()


def _is_wanted(task: Task, request: ListTasksRequest) -> bool:
    since = request.status_timestamp_after
    return (
        request.context_id in (None, task.context_id)
        and request.state in (None, task.status.state)
        and (since is None or _place(task)[0] >= since)
    )


def _place(task: Task) -> tuple[datetime, str]:
    """Where a task stands in the list. Before 1.0 a status may have no time."""
    return task.status.timestamp or EPOCH, task.id
