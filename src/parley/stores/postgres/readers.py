"""A few connections for reads, and for changes that need no order among the writes. They never wait for the writer.

They are opened when they are needed. A read whose connection breaks or goes silent is repeated on another one, for
`patience` seconds at most: it changes nothing, or can be done twice. One of them is for what is urgent, such as leases,
and waits for no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg

from parley.stores.interface import StoreUnavailableError
from parley.stores.postgres.address import Address
from parley.stores.postgres.connecting import connect
from parley.stores.postgres.errors import DRIVER_ERRORS, EXPLAINED, explain, is_lost, meaning_of

T = TypeVar("T")

LONGEST_PAUSE = 0.5
"""Seconds between two attempts."""

URGENT_SECONDS = 2.0
"""How long something urgent may take; milliseconds are usual. A silent connection must not cost a lease."""


class Readers:
    """Connections that are shared by all reads."""

    def __init__(self, address: Address, *, most: int, patience: float) -> None:
        self._address = address
        self._patience = patience
        self.answer_seconds = patience / 2
        """How long a read may take; afterwards the server counts as gone, and a second attempt is left."""
        self._free = asyncio.Semaphore(max(1, most - 1))
        self._free_for_urgent = asyncio.Semaphore(1)
        self._idle: list[asyncpg.Connection] = []
        self._is_open = False
        self.refusal: str | None = None
        """Why the last read failed, if the database was the reason; None after one that succeeded."""

    def open(self, connection: asyncpg.Connection) -> None:
        """Begin with a connection."""
        self._is_open = True
        self._idle.append(connection)

    async def close(self) -> None:
        """Close the connections; reads under way end first."""
        self._is_open = False
        while self._idle:
            connection = self._idle.pop()
            try:
                await connection.close(timeout=self._patience)
            except DRIVER_ERRORS:
                connection.terminate()

    async def run(
        self,
        query: Callable[[asyncpg.Connection], Awaitable[T]],
        *,
        is_urgent: bool = False,
        seconds: float | None = None,
    ) -> T:
        """What a query returns; `seconds` is how long it may take, if that is longer than a read may.

        Raises:
            StoreUnavailableError: the database cannot be reached, or too many other queries wait.
        """
        free = self._free_for_urgent if is_urgent else self._free
        seconds = seconds or (min(self.answer_seconds, URGENT_SECONDS) if is_urgent else self.answer_seconds)
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + self._patience, 0.02
        while True:
            if not self._is_open:
                raise StoreUnavailableError(f"{self._address.name}: the store is not open.")
            await self._wait_for(free, deadline)
            try:
                result = await self._run_once(query, seconds)
                self.refusal = None
                return result
            except EXPLAINED as error:
                if is_lost(error):
                    self.refusal = meaning_of(error)
                if not is_lost(error) or loop.time() + pause >= deadline:
                    explained = explain(error, self._address.name)
                    raise explained from explained.__cause__
            finally:
                free.release()
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _wait_for(self, free: asyncio.Semaphore, deadline: float) -> None:
        """Wait for a connection. Raises StoreUnavailableError if others have them for too long."""
        try:
            async with asyncio.timeout_at(deadline):
                await free.acquire()
        except TimeoutError:
            why = self.refusal or "too many reads wait for it"
            raise StoreUnavailableError(f"{self._address.name}: {why}. It may be tried again.") from None

    async def _run_once(self, query: Callable[[asyncpg.Connection], Awaitable[T]], seconds: float) -> T:
        connection = self._take() or await connect(self._address, answer_seconds=self.answer_seconds)
        try:
            async with asyncio.timeout(seconds):
                result = await query(connection)
        except TimeoutError:  # the server may be gone, and the other connections are to the same one
            for silent in (connection, *self._idle):
                silent.terminate()
            self._idle.clear()
            raise
        except asyncpg.PostgresError as error:
            self._put_back(connection, is_usable=not is_lost(error))
            raise
        except BaseException:  # cancelled, or of the driver: what the server does now is not known
            self._put_back(connection, is_usable=False)
            raise
        self._put_back(connection, is_usable=True)
        return result

    def _take(self) -> asyncpg.Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return None

    def _put_back(self, connection: asyncpg.Connection, *, is_usable: bool) -> None:
        if is_usable and self._is_open:
            self._idle.append(connection)
        else:
            connection.terminate()
