"""Callers that wait for an answer which may take long: when one goes away, its waiting ends, and its place is free.

HTTP tells of a client that left only whom it asks. To ask for every request would cost more than most requests do, so
`Waits` asks for those that have waited for a while. The work itself goes on: a run does not belong to its caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from parley.server.bindings.failures import ClientGone
from parley.server.bindings.http import HttpRequest


class Waits:
    """All callers of an app that wait."""

    def __init__(self) -> None:
        self._waits: set[_Wait] = set()

    @contextmanager
    def waiting(self, request: HttpRequest) -> Generator[None]:
        """A block around what a request waits for.

        Raises:
            ClientGone: the client went away.
        """
        wait = _Wait(request)
        self._waits.add(wait)
        try:
            yield
        except asyncio.CancelledError:
            if not wait.is_over:
                raise
            wait.task.uncancel()
            raise ClientGone from None
        finally:
            self._waits.discard(wait)
            wait.stop()

    def look(self) -> None:
        """Ask for every caller that waits now whether it is still there."""
        for wait in self._waits:
            wait.look()


class _Wait:
    __slots__ = ("_request", "_watcher", "is_over", "task")

    def __init__(self, request: HttpRequest) -> None:
        task = asyncio.current_task()
        assert task is not None  # requests are answered in tasks
        self.task = task
        self.is_over = False
        self._request = request
        self._watcher: asyncio.Task[None] | None = None

    def look(self) -> None:
        if self._watcher is None:
            self._watcher = asyncio.get_running_loop().create_task(self._watch())

    def stop(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None  # its error has a traceback, whose frame has this wait

    async def _watch(self) -> None:
        await self._request.until_gone()
        self.is_over = True
        self.task.cancel()
