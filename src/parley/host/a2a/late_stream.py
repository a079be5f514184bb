"""A stream that is found out when it is read: something must be done first that takes time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from parley.engine.reading.following import Batch
from parley.server.contracts import EventStream


class LateStream:
    """The events of the stream that a function returns. It is called for the first batch."""

    def __init__(self, begin: Callable[[], Awaitable[EventStream]]) -> None:
        self._begin = begin
        self._stream: EventStream | None = None

    async def __anext__(self) -> Batch:
        """The next batch."""
        if self._stream is None:
            self._stream = await self._begin()
        return await self._stream.__anext__()

    async def aclose(self) -> None:
        """Release what the stream holds, if there is one."""
        if self._stream is not None:
            await self._stream.aclose()
