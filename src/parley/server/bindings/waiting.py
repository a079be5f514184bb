"""Callers that wait for a slow answer: when the client disconnects, the wait ends and its resources are released.

ASGI reports a disconnect only to a request that asks for it. Asking for every request would cost more than most
requests do, so `WaitingCallers` asks only for those that have waited for a while. The run itself continues: it does not
belong to its caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from parley.server.bindings.failures import ClientDisconnected
from parley.server.bindings.http import AsgiRequest


class WaitingCallers:
    """All callers of an app that wait for an answer."""

    def __init__(self) -> None:
        self._callers: set[_WaitingCaller] = set()

    @contextmanager
    def waiting(self, request: AsgiRequest) -> Generator[None]:
        """A context in which a request waits.

        Raises:
            ClientDisconnected: the client has disconnected.
        """
        caller = _WaitingCaller(request)
        self._callers.add(caller)
        try:
            yield
        except asyncio.CancelledError:
            if not caller.is_disconnected:
                raise
            caller.task.uncancel()
            raise ClientDisconnected from None
        finally:
            self._callers.discard(caller)
            caller.stop()

    def check(self) -> None:
        """Start to watch the connections of all callers that wait now."""
        for caller in self._callers:
            caller.start()


class _WaitingCaller:
    __slots__ = ("_request", "_watcher", "is_disconnected", "task")

    def __init__(self, request: AsgiRequest) -> None:
        task = asyncio.current_task()
        assert task is not None  # requests are answered in tasks
        self.task = task
        self.is_disconnected = False
        self._request = request
        self._watcher: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._watcher is None:
            self._watcher = asyncio.get_running_loop().create_task(self._watch())

    def stop(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None  # the traceback of its error refers to this object

    async def _watch(self) -> None:
        await self._request.wait_for_disconnect()
        self.is_disconnected = True
        self.task.cancel()
