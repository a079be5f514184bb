"""Threads in which cards and the tokens for webhooks are signed: a key in a KMS answers as slowly as the network does.

Signing in the event loop would stop all streams and all webhooks meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

logger = logging.getLogger(__name__)

THREADS = 4
"""A key in memory signs thousands of times in a second with one; one in a KMS, some dozens with each."""

SIGN_SECONDS = 10.0
"""For a signature: a caller, or an attempt to deliver, waits for it."""


class SigningThreads:
    """Signs outside of the event loop. Threads are started when they are needed, and end with this object."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    async def run(self, sign: Callable[[], T]) -> T:
        """What the function returns, which signs.

        Raises:
            TimeoutError: it does not return in time.
        """
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="parley-signing")
        try:
            async with asyncio.timeout(SIGN_SECONDS):
                return await asyncio.get_running_loop().run_in_executor(self._threads, sign)
        except TimeoutError:
            logger.warning("The key that signs cards and tokens did not answer within %g seconds", SIGN_SECONDS)
            raise

    def close(self) -> None:
        """Stop the threads when they have signed what waits; a later call starts new ones."""
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False)
