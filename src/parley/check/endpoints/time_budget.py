"""How long a check waits for one endpoint: a total time, and a count of requests without an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from parley.check.findings import Undecided
from parley.client.errors import TimedOutError, UnreachableError
from parley.protocol.errors import ParleyError

T = TypeVar("T")


class TimeBudget:
    """The time that is left for one endpoint."""

    def __init__(self, *, per_answer: float, total: float) -> None:
        """Both are seconds."""
        self._per_answer = per_answer
        self._total = total
        self._left = total
        self.unanswered = 0
        """Requests without an answer since the last answer."""

    @property
    def is_over(self) -> bool:
        """Whether no time is left."""
        return self._left <= 0

    def extend(self, seconds: float) -> None:
        """Allow at least this much more time, to clean up."""
        self._left = max(self._left, seconds)

    async def wait(self, answer: Awaitable[T]) -> T:
        """Wait for an answer.

        Raises:
            Undecided: it does not come in time.
            UnreachableError: the connection breaks.
        """
        clock = asyncio.get_running_loop().time
        begun = clock()
        self.unanswered += 1
        try:
            async with asyncio.timeout(min(self._per_answer, max(self._left, 0))):
                came = await answer
        except (TimeoutError, TimedOutError) as error:
            if self._left < self._per_answer:
                raise Undecided(f"the {self._total:g} seconds for this endpoint are over") from error
            raise Undecided(f"no answer within {self._per_answer:g} seconds") from error
        except UnreachableError:
            raise
        except (ParleyError, StopAsyncIteration):
            self.unanswered = 0  # an answer that is an error, or the end of a stream
            raise
        finally:
            self._left -= clock() - begun
        self.unanswered = 0
        return came
