"""The thread in which CrewAI works on one message, with an event loop of its own: most of CrewAI blocks.

Pieces cross from the threads of a run to the loop of the server, where nothing else of the run happens. A run that is
stopped raises `RunStopped` in its threads: where one waits or reports something, and amid plain Python code.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import wraps
from threading import Thread, current_thread, get_ident
from typing import Any

from parley.adapters.adapter import Piece
from parley.adapters.crewai.interruptions import InterruptibleCalls
from parley.adapters.piece_queue import PieceQueue


class RunStopped(BaseException):
    """The task was cancelled, or waits for an answer. CrewAI must not take it for an error, and try again."""


class RunThread:
    """One run's thread. CrewAI starts more threads from it."""

    def __init__(self) -> None:
        self._server_loop = asyncio.get_running_loop()
        self._queue = PieceQueue()
        self._thread: Thread | None = None
        self._main: asyncio.Task[Any] | None = None
        self._is_stopped = False
        self._waiting: set[Future[Any]] = set()
        self.calls = InterruptibleCalls()

    def pieces_of(self, work: Callable[[], Awaitable[None]]) -> AsyncIterator[Piece]:
        """What is reported while some work is done in the thread. The work is stopped if this is closed."""
        return self._queue.pieces_of(self._in_thread(work))

    async def _in_thread(self, work: Callable[[], Awaitable[None]]) -> None:
        ended = Future[None]()
        ended.set_running_or_notify_cancel()

        async def play() -> None:
            self._main = asyncio.current_task()
            self.check()
            await work()

        def run() -> None:
            try:
                ended.set_result(asyncio.run(play()))
            except Exception as error:
                ended.set_exception(error)
            except BaseException as error:  # such as the SystemExit of a tool, which would end the server
                ended.set_exception(RuntimeError(f"CrewAI was ended by {error!r}"))

        self._thread = Thread(target=run, name="parley-crewai", daemon=True)
        self._thread.start()
        try:
            await asyncio.wrap_future(ended)
        except asyncio.CancelledError:
            self._stop()
            raise

    def _stop(self) -> None:
        self._is_stopped = True
        self.calls.interrupt(RunStopped)
        for future in tuple(self._waiting):
            future.cancel()
        if self._main is not None:
            with suppress(RuntimeError):  # its loop is closed
                self._main.get_loop().call_soon_threadsafe(self._main.cancel)

    def check(self) -> None:
        """Raise RunStopped if the run is stopped."""
        if self._is_stopped:
            raise RunStopped

    def put(self, piece: Piece) -> None:
        """Report a piece, from any thread of the run."""
        self.check()
        self._server_loop.call_soon_threadsafe(self._queue.put, piece)

    def put_and_wait(self, piece: Piece) -> None:
        """Report a checkpoint, and wait until it is in the log."""

        async def put() -> None:
            await self._queue.put(piece).wait()

        self.wait_for(lambda: asyncio.run_coroutine_threadsafe(put(), self._server_loop))

    def wait_for(self, start: Callable[[], Future[Any]]) -> Any:
        """The result of a future, which is cancelled if the run is stopped."""
        self.calls.end(get_ident())  # a thread that waits is not interrupted as well
        self.check()
        future = start()
        self._waiting.add(future)
        try:
            if self._is_stopped:
                future.cancel()
            return future.result()
        except CancelledError:
            raise RunStopped from None
        finally:
            self._waiting.discard(future)

    def blocking(self, function: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
        """A coroutine function as a plain one, which waits for it. It runs in the loop of the run."""

        @wraps(function)
        def plain(*args: Any, **kwargs: Any) -> Any:
            if self._main is None or current_thread() is self._thread:  # it would wait for itself
                return function(*args, **kwargs)
            loop = self._main.get_loop()
            return self.wait_for(lambda: asyncio.run_coroutine_threadsafe(function(*args, **kwargs), loop))

        return plain
