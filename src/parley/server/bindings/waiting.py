"""Callers that wait for a slow answer: when the client disconnects, the wait ends and its resources are released.

ASGI reports a disconnect only to a request that asks for it. Asking for every request would cost more than most
requests do, so `WaitingCallers` asks only for those that have waited for a while. The run itself continues: it does not
belong to its caller.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

from parley.server.bindings.failures import ClientDisconnected
from parley.server.bindings.http import AsgiRequest


class WaitingCallers:
    """All callers of an app that wait for an answer."""

    def __init__(self) -> None:
        self._callers: set[_WaitingCaller] = set()

    def waiting(self, request: AsgiRequest) -> _WaitingCaller:
        """A context in which a request waits. Raises ClientDisconnected if the client disconnects."""
        return _WaitingCaller(request, self._callers)

    def check(self) -> None:
        """Start to watch the connections of all callers that wait now."""
        for caller in self._callers:
            caller.start()


class _WaitingCaller:
    """A context for one request; every request has one, and a generator would take twice as long."""

    __slots__ = ("_callers", "_is_disconnected", "_request", "_task", "_watcher")

    def __init__(self, request: AsgiRequest, callers: set[_WaitingCaller]) -> None:
        task = asyncio.current_task()
        assert task is not None  # requests are answered in tasks
        self._task = task
        self._is_disconnected = False
        self._request = request
        self._callers = callers
        self._watcher: asyncio.Task[None] | None = None

    def __enter__(self) -> None:
        self._callers.add(self)

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        self._callers.discard(self)
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None  # the traceback of its error refers to this object
        if self._is_disconnected and isinstance(error, asyncio.CancelledError):
            self._task.uncancel()
            raise ClientDisconnected from None

    def start(self) -> None:
        if self._watcher is None:
            self._watcher = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        await self._request.wait_for_disconnect()
        self._is_disconnected = True
        self._task.cancel()
