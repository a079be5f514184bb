"""How often a step is tried, and how long it may take.

A step that fails is tried again after a pause that doubles each time. Pauses and time limits go by the engine's clock,
which tests script. Attempts are not counted over restarts: a handler that begins again begins with the first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import TypeVar

from parley.agents.durations import Duration, parse_duration
from parley.engine.runs.run import Run
from parley.protocol.errors import LocalProtocolError, ParleyError

T = TypeVar("T")

logger = logging.getLogger(__name__)

MAX_DOUBLINGS = 40
"""A pause of a millisecond that was doubled so often is longer than a lifetime; a float holds no more than 1,023."""


class StepTimeoutError(ParleyError, TimeoutError):
    """A step took longer than it may."""


class RetryPolicy:
    """When a step is tried again."""

    def __init__(
        self,
        *,
        attempts: int,
        backoff: Duration,
        max_backoff: Duration,
        timeout: Duration | None,
        deadline: Duration | None,
        on: type[Exception] | tuple[type[Exception], ...],
        jitter: Callable[[], float],
    ) -> None:
        if attempts < 1:
            raise LocalProtocolError(f"A step needs at least one attempt, not {attempts}")
        self._attempts = attempts
        self._backoff = parse_duration(backoff).total_seconds()
        self._max_backoff = parse_duration(max_backoff).total_seconds()
        self._timeout = _limit("timeout", timeout)
        self._deadline = _limit("deadline", deadline)
        self._on = on
        self._jitter = jitter

    async def call(self, run: Run, name: str, call: Callable[[], Awaitable[T]], *, is_plain: bool) -> T:
        """What a call returns that is tried again as long as it fails. A plain function cannot be interrupted.

        Raises:
            StepTimeoutError: the deadline has passed, or the last attempt took longer than its timeout.
        """
        hint = "; its function goes on in a thread, because nothing can interrupt it" if is_plain else ""
        attempt = partial(_within, run, call, self._timeout, f"Step {name!r} took longer than its timeout", hint)
        attempts = partial(self._attempt, run, name, attempt)
        return await _within(run, attempts, self._deadline, f"Step {name!r} missed its deadline", hint)

    async def _attempt(self, run: Run, name: str, attempt: Callable[[], Awaitable[T]]) -> T:
        number = 1
        while True:
            try:
                return await attempt()
            except Exception as error:
                if isinstance(error, LocalProtocolError) or not isinstance(error, self._on):
                    raise
                logger.warning(
                    "Step %r failed, attempt %d of %d: %s: %s",
                    name,
                    number,
                    self._attempts,
                    type(error).__name__,
                    error,
                    extra=run.log_fields,
                )
                if number == self._attempts:
                    raise
            if pause := self._pause_after(number):
                await run.engine.clock.sleep(pause)
            await run.prepare_effect()
            number += 1

    def _pause_after(self, number: int) -> float:
        """The seconds between a failed attempt and the next."""
        longest = self._backoff * 2 ** min(number - 1, MAX_DOUBLINGS)
        return min(longest, self._max_backoff) * (1 + self._jitter()) / 2


def _limit(name: str, given: Duration | None) -> timedelta | None:
    limit = None if given is None else parse_duration(given)
    if limit == timedelta():
        raise LocalProtocolError(f"The {name} of a step must be longer than zero")
    return limit


async def _within(run: Run, call: Callable[[], Awaitable[T]], limit: timedelta | None, error: str, hint: str) -> T:
    """What a call returns, if it takes no longer than the limit."""
    if limit is None:
        return await call()
    timer: asyncio.Timeout | None = None
    try:
        async with run.engine.clock.timeout(limit.total_seconds()) as timer:
            return await call()
    except TimeoutError as raised:
        if timer is None or not timer.expired():  # the function's own
            raise
        raise StepTimeoutError(f"{error} of {limit}{hint}") from raised
