"""Calls a model again when its provider was busy or failed, as long as the caller has seen no text.

After the first text a new call could say something else, so the error goes to the caller. Errors of the request itself
are never retried. The SDKs' own retries are off: see `providers`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

from parley.host.models.closing import closing_stream
from parley.host.models.model import Model, ModelError, ModelFailure, ModelRequest, Piece
from parley.host.models.provider_calls import ProviderCallError, ProviderCounts

RETRIED = (ModelFailure.RATE_LIMITED, ModelFailure.PROVIDER_ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRetrySettings:
    """How often a model is called, and how long the pauses are."""

    attempts: int = 3
    first_pause: float = 1.0
    """In seconds; every further pause is twice as long."""
    jitter: float = 0.5
    """A pause is longer by up to this part of itself, so that callers do not return all at once."""
    max_retry_after: float = 20.0
    """A provider that asks for a longer pause is not called again: the caller should not wait for it."""


class RetryingModel:
    """A model that is called again when it fails before its first text."""

    def __init__(
        self,
        model: Model,
        settings: ModelRetrySettings,
        *,
        counts: ProviderCounts,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._model = model
        self._settings = settings
        self._counts = counts
        self._sleep = sleep
        self._draw = draw

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Piece]:
        """The stream of the first call that works.

        Raises:
            ModelError: the last call failed, or one that cannot be repeated.
        """
        attempt = 1
        while True:
            has_answered = False
            try:
                async with closing_stream(self._model, request) as pieces:
                    async for piece in pieces:
                        has_answered = True
                        yield piece
                return
            except ModelError as error:
                pause = self._pause(attempt, error)
                if has_answered or pause is None:
                    raise
            await self._sleep(pause)
            self._counts.retries += 1
            attempt += 1

    def _pause(self, attempt: int, error: ModelError) -> float | None:
        """How long to wait before the next attempt; None if there is none."""
        settings = self._settings
        if error.kind not in RETRIED or attempt >= settings.attempts:
            return None
        pause = settings.first_pause * 2 ** (attempt - 1) * (1 + settings.jitter * self._draw())
        asked = error.retry_after if isinstance(error, ProviderCallError) else None
        if asked is None:
            return pause
        return max(asked, pause) if asked <= settings.max_retry_after else None
