"""The memory for long bodies and frames that are being read or written, which all requests share.

Without it, a few dozen connections that each send or take a long body slowly would fill the machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from parley.protocol.errors import RateLimitedError

FREE_BODY = 64 * 1024
"""How much of a body is read or written even when there is no room for longer ones. Most are shorter."""


class BodyRoom:
    """The memory for long bodies that are being read or written, which all requests share.

    A reply that nobody else has to wait for is always let out, however long it is.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._total = 0
        self._held: Counter[str] = Counter()

    def take(self, address: str, size: int) -> None:
        """Take room for so many bytes of somebody's. Raises RateLimitedError if there is none."""
        own, total = self._held[address], self._total
        if (own and own + size > self._limit // 4) or (total and total + size > self._limit):
            raise RateLimitedError("Too many long requests and replies are under way; try again later")
        self._held[address] += size
        self._total += size

    def holding(self, address: str, size: int) -> AbstractContextManager[None]:
        """A block in which so many bytes of an address are in memory; a few need no room. Raises as `take` does."""
        return _FREE if size <= FREE_BODY else self._holding(address, size)

    @contextmanager
    def _holding(self, address: str, size: int) -> Generator[None]:
        self.take(address, size)
        try:
            yield
        finally:
            self.give_back(address, size)

    def give_back(self, address: str, size: int) -> None:
        """Give room back."""
        self._total -= size
        self._held[address] -= size
        if self._held[address] <= 0:
            del self._held[address]


_FREE = nullcontext()  # one for all: it holds nothing
