"""Connecting to one of several servers: the first in the order of the URL that accepts a connection and can be written.

The driver tries them one after the other, and waits for each of them. A server whose machine is gone neither accepts
nor refuses, and would keep all others from being tried. So the next one is tried as well after half a second.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

import asyncpg

from parley.stores.postgres.address import Address

CONNECT_SECONDS = 5.0
"""How long it may take until one of the servers accepts a connection."""

NEXT_SERVER_SECONDS = 0.5
"""How long a server may take to answer before the next one is tried as well."""


async def connect_to_any(address: Address, **options: Any) -> asyncpg.Connection:
    """A connection to one of the servers of an address. Raises what the driver raises."""
    untried = deque(address.urls)
    attempts: list[asyncio.Task[asyncpg.Connection]] = []
    waiting: set[asyncio.Task[asyncpg.Connection]] = set()
    chosen: asyncio.Task[asyncpg.Connection] | None = None
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            while untried or waiting:
                if untried:
                    connecting = asyncpg.connect(untried.popleft(), **address.options(), **options)
                    attempts.append(asyncio.create_task(connecting))
                    waiting.add(attempts[-1])
                seconds = NEXT_SERVER_SECONDS if untried else None
                _, waiting = await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                chosen = next((each for each in attempts if each.done() and each.exception() is None), None)
                if chosen is not None:
                    return chosen.result()
    except TimeoutError:
        pass
    finally:
        for attempt in attempts:
            if attempt is not chosen:
                attempt.cancel()
                attempt.add_done_callback(_discard)
    raise _most_telling([error for each in attempts if each.done() and (error := each.exception()) is not None])


def _discard(attempt: asyncio.Task[asyncpg.Connection]) -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().terminate()


def _most_telling(errors: Sequence[BaseException]) -> BaseException:
    """Of the errors of several servers, the one to act on; that a server is not there says the least."""

    def rank(error: BaseException) -> int:
        match error:
            case OSError():
                return 3
            case asyncpg.TargetServerAttributeNotMatched():
                return 2
            case asyncpg.CannotConnectNowError() | asyncpg.TooManyConnectionsError():
                return 1
            case _:
                return 0

    return min(errors, key=rank, default=TimeoutError())
