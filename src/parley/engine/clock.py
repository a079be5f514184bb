"""Time and ids, given to the engine from outside so that tests can script them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Protocol, TypeAlias


class Clock(Protocol):
    """What time it is, and waiting."""

    def now(self) -> datetime:
        """The present moment, in UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return when so much time has passed."""
        ...

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[asyncio.Timeout]:
        """A block that raises TimeoutError when it takes longer, and knows that it did; None lets it take for ever."""
        ...


class SystemClock:
    """The clock on the wall."""

    def now(self) -> datetime:
        """The present moment, in UTC, to the millisecond: the precision that A2A 1.0 recommends."""
        moment = datetime.now(UTC)
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)

    async def sleep(self, seconds: float) -> None:
        """Return when so much time has passed."""
        await asyncio.sleep(seconds)

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[asyncio.Timeout]:
        """A block that raises TimeoutError when it takes longer, and knows that it did; None lets it take for ever."""
        return asyncio.timeout(seconds)


NewId: TypeAlias = Callable[[], str]


def random_id() -> str:
    """An id that nobody can guess."""
    return str(uuid.uuid4())
