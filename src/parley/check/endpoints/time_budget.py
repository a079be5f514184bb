"""How long a place is worth waiting for: a bound on the whole, and a count of questions that nobody answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from parley.check.findings import Undecided
from parley.client.errors import TimedOutError, UnreachableError
from parley.protocol.errors import ParleyError

T = TypeVar("T")


class Patience:
    """The patience that is left with one place."""

    def __init__(self, *, answer: float, place: float) -> None:
        """`answer` are the seconds for one answer, `place` those for all."""
        self._answer = answer
        self._place = place
        self._left = place
        self.unanswered = 0
        """Questions without an answer since the last one with."""

    @property
    def is_over(self) -> bool:
        """Whether all the time is spent."""
        return self._left <= 0

    def forgive(self, seconds: float) -> None:
        """Allow some more time, so that what was begun can be ended."""
        self._left = max(self._left, seconds)

    async def wait(self, answer: Awaitable[T]) -> T:
        """The answer, if it comes in time.

        Raises:
            Undecided: it does not.
            UnreachableError: the connection breaks.
        """
        clock = asyncio.get_running_loop().time
        begun = clock()
        self.unanswered += 1
        try:
            async with asyncio.timeout(min(self._answer, max(self._left, 0))):
                came = await answer
        except (TimeoutError, TimedOutError) as error:
            if self._left < self._answer:
                raise Undecided(f"the {self._place:g} seconds for this place are over") from error
            raise Undecided(f"nothing came within {self._answer:g} seconds") from error
        except UnreachableError:
            raise
        except (ParleyError, StopAsyncIteration):
            self.unanswered = 0  # an answer that is an error, or the end of a stream
            raise
        finally:
            self._left -= clock() - begun
        self.unanswered = 0
        return came
