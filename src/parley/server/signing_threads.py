"""Threads in which cards and the tokens for webhooks are signed: a key in a KMS answers as slowly as the network does.

Signing in the event loop would stop all streams and all webhooks meanwhile. The threads are daemons, so that a key that
never answers does not keep the process from ending. Why a signature failed is for the operator, and only logged.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

logger = logging.getLogger(__name__)

THREADS = 4
"""A key in memory signs thousands of times in a second with one; one in a KMS, some dozens with each."""

MOST_THREADS = 32
"""With those whose signatures do not return. A thread that waits takes some ten kilobytes."""

SIGN_SECONDS = 10.0
"""For a signature: a caller, or an attempt to deliver, waits for it."""


class SigningError(Exception):
    """The key did not sign in time, or failed. It may sign the next time."""


@dataclass(slots=True, eq=False)
class _SigningJob:
    """A signature that a thread is to make."""

    sign: Callable[[], Any]
    result: asyncio.Future[Any]
    jobs: SimpleQueue[_SigningJob | None]
    """The queue that it came into: after `SigningThreads.close` there is another one."""
    timer: asyncio.TimerHandle | None = None
    has_begun: bool = False


class SigningThreads:
    """Signs outside of the event loop. Threads are started when they are needed, and end with this object.

    A thread whose signature does not return in time is stuck: another one is started in its place, and when the
    signature returns after all, one thread ends. Only the event loop changes what is counted here.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_SigningJob | None] = SimpleQueue()
        self._threads = 0
        """All that run, with those that are stuck."""
        self._stuck: set[_SigningJob] = set()

    async def run(self, sign: Callable[[], T]) -> T:
        """What the function returns, which signs.

        Raises:
            SigningError: it does not return in time, or raises something; or too many others have not returned.
        """
        if len(self._stuck) >= MOST_THREADS:
            logger.warning("Nothing is signed until the key answers: %d signatures have not returned", MOST_THREADS)
            raise SigningError
        loop = asyncio.get_running_loop()
        result: asyncio.Future[T] = loop.create_future()
        job = _SigningJob(sign, result, self._jobs)
        job.timer = loop.call_later(SIGN_SECONDS, self._give_up, job)
        self._start_thread()
        self._jobs.put(job)
        try:
            return await result
        except SigningError:
            raise
        except Exception as error:  # of any kind: a key of another module may raise anything
            logger.exception("The key that signs cards and tokens failed")
            raise SigningError from error

    def close(self) -> None:
        """Stop the threads when they have signed what waits; a later call starts new ones."""
        for _ in range(self._threads):
            self._jobs.put(None)
        self._jobs, self._threads, self._stuck = SimpleQueue(), 0, set()

    def _start_thread(self) -> None:
        if self._threads < min(THREADS + len(self._stuck), MOST_THREADS):
            self._threads += 1
            threading.Thread(target=self._work, args=(self._jobs,), name="parley-signing", daemon=True).start()

    def _work(self, jobs: SimpleQueue[_SigningJob | None]) -> None:
        """Sign, in a thread, what comes."""
        while (job := jobs.get()) is not None:
            job.has_begun = True  # first: `_give_up` looks in the opposite order
            signature, failure = None, None
            if not job.result.done():
                try:
                    signature = job.sign()
                except Exception as error:
                    failure = error
            try:
                job.result.get_loop().call_soon_threadsafe(self._finish, job, signature, failure)
            except RuntimeError:  # the event loop has ended
                logger.debug("A signature came after the end of the event loop")

    def _give_up(self, job: _SigningJob) -> None:
        """Tell the caller of a signature that it has not come in time."""
        logger.warning("The key that signs cards and tokens did not answer within %g seconds", SIGN_SECONDS)
        if not job.result.done():
            job.result.set_exception(SigningError())
        if job.has_begun and job.jobs is self._jobs:
            self._stuck.add(job)
            self._start_thread()

    def _finish(self, job: _SigningJob, signature: object, failure: Exception | None) -> None:
        """Give the caller of a signature what its thread has made, if the caller still waits."""
        assert job.timer is not None, "It is set before the job is in the queue"
        job.timer.cancel()
        if job in self._stuck:
            self._stuck.remove(job)
            self._threads -= 1
            self._jobs.put(None)
        if job.result.done():
            return
        if failure is None:
            job.result.set_result(signature)
        else:
            job.result.set_exception(failure)
