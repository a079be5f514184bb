"""Threads in which cards and the tokens for webhooks are signed: a key in a KMS answers as slowly as the network does.

Signing in the event loop would stop all streams and all webhooks meanwhile. The threads are daemons, so that a key that
never answers does not keep the process from ending. Why a signature failed is for the operator, and only logged.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

logger = logging.getLogger(__name__)

THREADS = 4
"""A key in memory signs thousands of times in a second with one; one in a KMS, some dozens with each."""

SIGN_SECONDS = 10.0
"""For a signature: a caller, or an attempt to deliver, waits for it."""


class SigningError(Exception):
    """The key did not sign in time, or failed. It may sign the next time."""


class SigningThreads:
    """Signs outside of the event loop. Threads are started when they are needed, and end with this object."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads = 0

    async def run(self, sign: Callable[[], T]) -> T:
        """What the function returns, which signs.

        Raises:
            SigningError: it does not return in time, or raises something.
        """
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if self._threads < THREADS:
            self._threads += 1
            threading.Thread(target=_work, args=(self._jobs,), name="parley-signing", daemon=True).start()
        self._jobs.put(lambda: _finish(done, sign))
        try:
            async with asyncio.timeout(SIGN_SECONDS):
                return await done
        except TimeoutError as error:
            logger.warning("The key that signs cards and tokens did not answer within %g seconds", SIGN_SECONDS)
            raise SigningError from error
        except Exception as error:  # of any kind: a key of another module may raise anything
            logger.exception("The key that signs cards and tokens failed")
            raise SigningError from error

    def close(self) -> None:
        """Stop the threads when they have signed what waits; a later call starts new ones."""
        for _ in range(self._threads):
            self._jobs.put(None)
        self._jobs, self._threads = SimpleQueue(), 0


def _work(jobs: SimpleQueue[Callable[[], None] | None]) -> None:
    while (job := jobs.get()) is not None:
        job()


def _finish(done: asyncio.Future[Any], sign: Callable[[], Any]) -> None:
    """Sign in a thread, unless the caller has given up, and tell the caller."""
    if done.cancelled():
        return
    result, failure = None, None
    try:
        result = sign()
    except Exception as error:
        failure = error

    def tell() -> None:
        if done.done():
            return
        if failure is None:
            done.set_result(result)
        else:
            done.set_exception(failure)

    try:
        done.get_loop().call_soon_threadsafe(tell)
    except RuntimeError:  # the event loop has ended
        logger.debug("A signature came after the end of the event loop")
