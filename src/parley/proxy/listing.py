"""Lists the tasks that went through a proxy, for agents without a list: only 1.0 has one.

Each task is read from the agent, because only the agent knows its state. Tasks that are not in the ledger are not
listed. Spec: 1.0 section 3.1.4.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from msgspec import structs

from parley.engine.reading.paging import EPOCH, cut_history, decode_page_token, encode_page_token
from parley.engine.reading.views import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE
from parley.protocol.errors import InvalidParamsError, TaskNotFoundError
from parley.protocol.requests import ListTasksRequest, TaskPage
from parley.protocol.tasks import Task

MAX_READ = 200
"""Tasks that are read for one list, the newest: each takes a call to the agent."""

MAX_CONCURRENT = 8
"""Concurrent calls to the agent, for all lists together: one request of a caller takes many calls."""

Read = Callable[[str], Awaitable[Task]]


class Listing:
    """Builds lists."""

    def __init__(self) -> None:
        self._room = asyncio.Semaphore(MAX_CONCURRENT)

    async def page(self, remote_ids: Sequence[str], read: Read, request: ListTasksRequest) -> TaskPage:
        """A page of these tasks, newest status first.

        Raises:
            InvalidParamsError: the page size is out of range, or the token is not one of ours.
        """
        size = DEFAULT_PAGE_SIZE if request.page_size is None else request.page_size
        if not 1 <= size <= MAX_PAGE_SIZE:
            raise InvalidParamsError(f"Must be between 1 and {MAX_PAGE_SIZE}", path="$.pageSize")
        after = decode_page_token(request.page_token) if request.page_token else None
        tasks = await self._read_all(remote_ids[:MAX_READ], read, request)
        found = sorted((task for task in tasks if _is_wanted(task, request)), key=_sort_key, reverse=True)
        rest = [task for task in found if after is None or _sort_key(task) < after]
        page = tuple(rest[:size])
        token = encode_page_token(*_sort_key(page[-1])) if len(rest) > size else ""
        return TaskPage(page, token, size, len(found))

    async def _read_all(self, remote_ids: Sequence[str], read: Read, request: ListTasksRequest) -> list[Task]:
        """All of these tasks that the agent still has, without artifacts and history that were not asked for."""

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
        and (since is None or _sort_key(task)[0] >= since)
    )


def _sort_key(task: Task) -> tuple[datetime, str]:
    """The position of a task in the list. Before 1.0 a status may have no time."""
    return task.status.timestamp or EPOCH, task.id
