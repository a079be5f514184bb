"""Hints over a connection of any kind: to NATS, to PostgreSQL, or a local socket.

    hints = ConnectedHints(NatsTransport("nats://localhost:4222"))

Hints that are published while an earlier message is on its way are sent together as one. A connection that fails is
replaced, for ever; meanwhile hints are dropped, and afterwards this process and the others are told to look for what
they may have missed. A probe notices a connection that is dead but not closed. A process does not hear its own hints.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Protocol, TypeAlias

from msgspec import Struct

from parley.cluster.encoding import decode, encode
from parley.cluster.hints import AnyHint, Listener, Listeners, LookHint, SentHint
from parley.cluster.pending import Pending

logger = logging.getLogger(__name__)

Receive: TypeAlias = Callable[[bytes], None]
Lost: TypeAlias = Callable[[str], None]


class LinkError(Exception):
    """A connection cannot be made, or has failed. The message completes the sentence "No connection to …:"."""


class Link(Protocol):
    """One connection. Its methods raise LinkError when it has failed."""

    async def send(self, messages: Sequence[bytes]) -> None:
        """Send messages to the other processes."""
        ...

    async def probe(self) -> None:
        """Send something that only this process hears, and return when it was heard."""
        ...

    async def close(self) -> None:
        """Close the connection, quickly; never raises."""
        ...


class HintTransport(Protocol):
    """Makes connections of one kind."""

    max_bytes: int
    """How long a message may be."""

    @property
    def name(self) -> str:
        """What connections lead to, for operators: without credentials."""
        ...

    async def connect(self, receive: Receive, lost: Lost) -> Link:
        """Connect; `receive` is called with every message of others, `lost` with the reason when the link fails."""
        ...


class CarrierTiming(Struct, frozen=True):
    """How long to wait for what, in seconds."""

    pause: float = 0.002
    """Between two messages: at most 500 a second, whatever is published. Each costs every reader 0.1 to 0.2 ms."""
    probe: float = 5.0
    answer: float = 5.0
    """For a connection, a probe or a message; a server that is slower than this is treated as gone."""
    first_retry: float = 0.1
    last_retry: float = 5.0
    close: float = 1.0
    look: float = 1.0
    """Between two looks. When a server is back, every process tells all others to look."""


class ConnectedHints:
    """Hints over one connection at a time: `async with hints: …`."""

    def __init__(self, transport: HintTransport, timing: CarrierTiming | None = None) -> None:
        """Nothing is opened yet."""
        self._transport = transport
        self._timing = timing or CarrierTiming()
        self._listeners = Listeners()
        self._pending = Pending()
        self._news = asyncio.Event()
        self._is_connected = False
        self._is_closing = False
        self._failure: str | None = "it was not opened"
        self._failing_since: float | None = None
        self._lag: float | None = None
        self._looked_at = float("-inf")
        self._look: asyncio.TimerHandle | None = None
        self._has_logged_foreign = False
        self._task: asyncio.Task[None] | None = None

    # --- what the Protocol `Hints` demands ----------------------------------------------------------------------------

    async def __aenter__(self) -> ConnectedHints:
        """Connect. If the first attempt fails, others follow in the background."""
        first_attempt = asyncio.Event()
        self._task = asyncio.create_task(self._stay_connected(first_attempt), name=f"hints over {self._transport.name}")
        try:
            await first_attempt.wait()
        except BaseException:
            self._task.cancel()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Send what waits, if that is quick, and close the connection."""
        assert self._task is not None
        self._is_closing = True
        self._news.set()
        if self._is_connected:
            await asyncio.wait([self._task], timeout=self._timing.close)
        self._task.cancel()
        await asyncio.wait([self._task])
        if self._look is not None:
            self._look.cancel()
        self._failure = "it was closed"

    def publish(self, hint: SentHint) -> None:
        """Notify the listeners of all other processes. This neither waits nor raises."""
        if self._is_connected:
            self._pending.add(hint)
            self._news.set()
        else:
            self._pending.lose_all()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call a listener with every hint of other processes until the returned function is called."""
        return self._listeners.add(listener)

    def problem(self) -> str | None:
        """Why hints do not flow now, in a sentence for operators; None if they do."""
        return None if self._failure is None else f"No connection to {self._transport.name}: {self._failure}."

    def lag(self) -> float | None:
        """The seconds that the last probe took; None before the first, and while there is no connection."""
        return self._lag if self._failure is None else None

    # --- the connection -----------------------------------------------------------------------------------------------

    async def _stay_connected(self, first_attempt: asyncio.Event) -> None:
        timing, loop = self._timing, asyncio.get_running_loop()
        delay = timing.first_retry
        while True:
            begun = loop.time()
            try:
                await self._connect_once(first_attempt)
            except LinkError as error:
                self._fail(str(error))
            except TimeoutError:
                self._fail(f"it did not answer within {timing.answer:g} seconds")
            except Exception as error:  # here a connection ends
                logger.exception("The connection to %s has failed", self._transport.name)
                self._fail(type(error).__name__)
            if self._is_closing:
                return
            first_attempt.set()
            if loop.time() - begun > timing.answer + timing.last_retry:  # longer than any attempt takes
                delay = timing.first_retry
            await asyncio.sleep(delay)
            delay = min(2 * delay, timing.last_retry)

    async def _connect_once(self, first_attempt: asyncio.Event) -> None:
        """Connect, and carry hints until the connection fails or is closed."""
        reasons: list[str] = []

        def lose(reason: str) -> None:
            reasons.append(reason)
            self._news.set()

        async with asyncio.timeout(self._timing.answer):
            link = await self._transport.connect(self._receive, lose)
        try:
            self._connected(is_first=not first_attempt.is_set())
            first_attempt.set()
            await self._carry(link, reasons)
        finally:
            self._is_connected = False
            self._pending.lose_all()  # what was on its way may not have arrived
            await link.close()

    def _connected(self, *, is_first: bool) -> None:
        self._is_connected, self._failure = True, None
        self._news.set()
        if self._failing_since is not None:
            seconds = asyncio.get_running_loop().time() - self._failing_since
            logger.warning("Connected to %s again, after %.1f seconds", self._transport.name, seconds)
            self._failing_since = None
        if not is_first:
            self._tell_to_look()

    def _fail(self, reason: str) -> None:
        self._failure = reason
        if self._failing_since is None:
            self._failing_since = asyncio.get_running_loop().time()
            logger.warning("%s What other processes change is noticed later until it is back.", self.problem())

    async def _carry(self, link: Link, reasons: list[str]) -> None:
        """Send what is published, and probe from time to time, until the link fails or the carrier is closed."""
        timing, loop = self._timing, asyncio.get_running_loop()
        next_probe = loop.time()
        while self._pending or not self._is_closing:
            self._news.clear()
            if reasons:
                raise LinkError(reasons[0])
            if loop.time() >= next_probe and not self._is_closing:
                begun = perf_counter()  # the loop's time has steps of a millisecond
                async with asyncio.timeout(timing.answer):
                    await link.probe()
                self._lag = perf_counter() - begun
                next_probe = loop.time() + timing.probe
            elif self._pending:
                messages = list(encode(self._pending.take(), max_bytes=self._transport.max_bytes))
                async with asyncio.timeout(timing.answer):
                    await link.send(messages)
                await asyncio.sleep(timing.pause)
            else:
                await self._wait_for_news(next_probe)

    async def _wait_for_news(self, until: float) -> None:
        """Wait until something is to be sent, the link has failed, or it is time for a probe."""
        timer = asyncio.get_running_loop().call_at(until, self._news.set)
        try:
            await self._news.wait()
        finally:
            timer.cancel()

    # --- what others send ---------------------------------------------------------------------------------------------

    def _receive(self, message: bytes) -> None:
        try:
            hints = decode(message)
        except ValueError as error:
            if not self._has_logged_foreign:
                self._has_logged_foreign = True
                logger.warning("Ignored a message over %s that is not of Parley: %s", self._transport.name, error)
            return
        for hint in hints:
            self._follow(hint)

    def _follow(self, hint: AnyHint) -> None:
        if isinstance(hint, LookHint):
            self._tell_to_look()
        else:
            self._listeners.tell(hint)

    def _tell_to_look(self) -> None:
        """Tell the listeners to look, now or as soon as they may be told again."""
        if self._look is None:
            loop = asyncio.get_running_loop()
            self._look = loop.call_at(max(loop.time(), self._looked_at + self._timing.look), self._look_now)

    def _look_now(self) -> None:
        self._look, self._looked_at = None, asyncio.get_running_loop().time()
        self._listeners.tell(LookHint())
