"""Threads in which the tokens for webhooks are signed: a key in a KMS answers as slowly as the network does.

Signing in the event loop would stop all streams and all other webhooks meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from parley.engine.webhooks.deliveries import DeliveryError

logger = logging.getLogger(__name__)

THREADS = 4
"""A key in memory signs thousands of tokens in a second with one; one in a KMS, some dozens with each."""

SIGN_SECONDS = 10.0
"""For a signature: an attempt to deliver waits for it."""


class SigningThreads:
    """Signs tokens outside of the event loop."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    async def run(self, sign: Callable[[], str]) -> str:
        """The token.

        Raises:
            DeliveryError: there is none in time.
        """
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="parley-signing")
        try:
            async with asyncio.timeout(SIGN_SECONDS):
                return await asyncio.get_running_loop().run_in_executor(self._threads, sign)
        except TimeoutError as error:
            logger.warning("The key that signs tokens for webhooks did not answer within %g seconds", SIGN_SECONDS)
            raise DeliveryError("The server could not sign a token for it") from error

    def close(self) -> None:
        """Stop the threads when they have signed what waits; a later call starts new ones."""
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False)
