"""A console that is made when it is first used, so that a server without visitors starts as fast as one without it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from parley.console.recent_failures import RecentFailures

if TYPE_CHECKING:
    from parley.console.console import Console
    from parley.server.bindings.http import AsgiRequest


class DeferredConsole:
    """Makes a console with the first request for it. Its modules are imported beside the event loop."""

    def __init__(self, make: Callable[[], Console]) -> None:
        self._make = make
        self._console: Console | None = None
        self._failures = RecentFailures()
        self._lock = asyncio.Lock()
        self._is_draining = False

    async def answer(self, request: AsgiRequest) -> bool:
        """Answer as the console does; see `ServerConsole`."""
        console = self._console or await self._made()
        return await console.answer(request)

    async def _made(self) -> Console:
        async with self._lock:
            if self._console is None:
                await asyncio.to_thread(import_module, "parley.console.console")
                console = self._make()
                console.failures = self._failures
                await console.__aenter__()
                if self._is_draining:
                    console.drain()
                self._console = console
            return self._console

    def drain(self) -> None:
        """End the streams of all pages."""
        self._is_draining = True
        if self._console is not None:
            self._console.drain()

    async def __aenter__(self) -> DeferredConsole:
        """Nothing is made yet, but failures are noted, so that the first visitor sees them."""
        self._failures.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Stop the console, if there is one."""
        if self._console is not None:
            await self._console.__aexit__(*error)
        self._failures.close()
