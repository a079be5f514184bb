"""The memory for long bodies and frames that are being read or written, shared by all requests.

Without it, a few dozen connections that send or read a long body slowly would fill the memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from parley.protocol.errors import RateLimitedError

FREE_BYTES = 64 * 1024
"""A body up to this size does not count. Most are shorter."""


class BodyBudget:
    """The bytes that long bodies may take, in total and a quarter of it per address.

    A single reply is always allowed, however long it is.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._total = 0
        self._by_address: Counter[str] = Counter()

    def reserve(self, address: str, size: int) -> None:
        """Reserve bytes for an address. Raises RateLimitedError if the budget is used up."""
        own, total = self._by_address[address], self._total
        if (own and own + size > self._limit // 4) or (total and total + size > self._limit):
            raise RateLimitedError("Too many long requests and replies at the same time; try again later")
        self._by_address[address] += size
        self._total += size

    def reserved(self, address: str, size: int) -> AbstractContextManager[None]:
        """A context in which bytes are reserved for an address. Raises as `reserve` does."""
        return _FREE if size <= FREE_BYTES else self._reserved(address, size)

    @contextmanager
    def _reserved(self, address: str, size: int) -> Generator[None]:
        self.reserve(address, size)
        try:
            yield
        finally:
            self.release(address, size)

    def release(self, address: str, size: int) -> None:
        """Give reserved bytes back."""
        self._total -= size
        self._by_address[address] -= size
        if self._by_address[address] <= 0:
            del self._by_address[address]


_FREE = nullcontext()  # shared: it has no state
