"""Lists the tasks that callers created through a proxy, for agents without lists; only 1.0 has them.

Each task is read from the agent, which alone knows its state. Tasks that are not in the ledger are not listed. Spec:
1.0 section 3.1.4.
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
"""The newest tasks, which are read for one list; each needs a call to the agent."""

MAX_CONCURRENT = 8
"""Concurrent calls to the agent, for all lists together: one request of a caller causes many."""

Read = Callable[[str], Awaitable[Task]]


class TaskLister:
    """Lists tasks by reading each of them."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)

    async def page(self, remote_ids: Sequence[str], read: Read, request: ListTasksRequest) -> TaskPage:
        """A page of these tasks, newest status first.

        Raises:
            InvalidParamsError: the page size is out of range, or the page token is invalid.
        """
        size = DEFAULT_PAGE_SIZE if request.page_size is None else request.page_size
        if not 1 <= size <= MAX_PAGE_SIZE:
            raise InvalidParamsError(f"Must be between 1 and {MAX_PAGE_SIZE}", path="$.pageSize")
        after = decode_page_token(request.page_token) if request.page_token else None
        tasks = await self._read_all(remote_ids[:MAX_READ], read, request)
        found = sorted((task for task in tasks if _matches(task, request)), key=_sort_key, reverse=True)
        rest = [task for task in found if after is None or _sort_key(task) < after]
        page = tuple(rest[:size])
        token = encode_page_token(*_sort_key(page[-1])) if len(rest) > size else ""
        return TaskPage(page, token, size, len(found))

    async def _read_all(self, remote_ids: Sequence[str], read: Read, request: ListTasksRequest) -> list[Task]:
        """The tasks that the agent still has, without the artifacts and messages that the request leaves out."""

        async def read_one(remote_id: str) -> Task | None:
            async with self._slots:
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


def _matches(task: Task, request: ListTasksRequest) -> bool:
    since = request.status_timestamp_after
    return (
        request.context_id in (None, task.context_id)
        and request.state in (None, task.status.state)
        and (since is None or _sort_key(task)[0] >= since)
    )


def _sort_key(task: Task) -> tuple[datetime, str]:
    """The position of a task in the list. Before 1.0 a status may have no time."""
    return task.status.timestamp or EPOCH, task.id
