"""Threads for the plain functions of authors, which may block for as long as they like.

They are daemons: nothing can interrupt a function that blocks, and a process that was told to end must not wait for it.
The tasks of such functions are in the log, and the next process goes on with them. `ThreadPoolExecutor` would join its
threads when the interpreter ends.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any


class DaemonThreads:
    """Up to `most` threads, started when they are needed and kept; more calls wait for one of them."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._lock = threading.Lock()
        self._started = 0
        self._unfinished = 0

    def submit(self, call: Callable[[], None]) -> None:
        """Have a thread make a call that raises nothing."""
        with self._lock:
            if self._started < min(self._unfinished + 1, self._most):
                threading.Thread(target=self._work, name=f"{self._name} {self._started + 1}", daemon=True).start()
                self._started += 1  # only now: the system may refuse one
            self._unfinished += 1
        self._calls.put(call)

    def _work(self) -> None:
        while True:
            self._calls.get()()
            with self._lock:
                self._unfinished -= 1


HANDLERS = DaemonThreads(256, "parley handler")
"""For plain handlers. They have threads of their own, because one that waits for a step must not hold the thread which
that step needs."""

STEPS = DaemonThreads(256, "parley step")
"""For plain functions that are steps."""


async def in_thread(threads: DaemonThreads, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """The result of a function that is called in a thread, with the context variables of here."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()
    call = partial(contextvars.copy_context().run, _guarded, function, *arguments, **named)
    threads.submit(partial(_make, call, loop, done))
    try:
        return await done
    finally:
        del done  # the traceback of its exception holds this frame


def is_running_here(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether this code runs in an event loop, and not in a thread beside it."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _make(call: Callable[[], Any], loop: asyncio.AbstractEventLoop, done: asyncio.Future[Any]) -> None:
    if done.cancelled():  # before there was a thread for it
        return
    try:
        result, error = call(), None
    except BaseException as raised:
        result, error = None, raised
    with suppress(RuntimeError):  # the loop is closed: the process ends, and this was cut off
        loop.call_soon_threadsafe(_resolve, done, result, error)
    del done, error  # the traceback of the error holds this frame


def _resolve(done: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if done.done():  # the caller was cancelled
        return
    if error is None:
        done.set_result(result)
    else:
        done.set_exception(error)


def _guarded(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Call a function, and replace the exceptions that a future cannot hold."""
    try:
        return function(*arguments, **named)
    except (StopIteration, SystemExit) as error:
        raise RuntimeError(f"{type(error).__name__} in an agent's function") from error
