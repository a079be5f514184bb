"""A network that connects to checked addresses, and to those themselves.

A name is resolved once, every address is checked, and the connection goes to a checked address, so that a name cannot
mean something else a moment later; the name stays in TLS and in the Host header. What is allowed, the rules decide.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import ip_address
from typing import Any, Protocol, TypeAlias

from parley.network.addresses import Address
from parley.network.connection import Connection
from parley.network.errors import NotConnectedError, NotConnectedInTimeError

Factory: TypeAlias = Callable[[], Connection]
Attempt: TypeAlias = Callable[[], Coroutine[Any, Any, Connection]]

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a name, as text. Raises OSError if there are none."""

HEAD_START = 0.25
"""Seconds after which the next address is tried too, while one has not answered; as RFC 8305 recommends."""

MOST_ADDRESSES = 16
"""Of one name that are tried. Whoever has a name could otherwise have any number of hosts called by it."""

RESOLVER_THREADS = 8
"""Names resolved at a time; a name whose servers do not answer takes half a minute."""


class HostRules(Protocol):
    """What may be dialled. Both methods raise an error of the rules' own, which passes through unchanged."""

    def check_host(self, host: str) -> Address | None:
        """Make sure that a host may be resolved; the address that it is, or None if it is a name."""
        ...

    def check_addresses(self, host: str, addresses: Sequence[Address]) -> None:
        """Make sure that all of a host's addresses may be called."""
        ...


class NameResolver:
    """The addresses of names, as this machine resolves them."""

    def __init__(self, *, threads: int = RESOLVER_THREADS) -> None:
        # Threads of its own: names that take long to resolve must not hold up what else is done in threads.
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="parley-names")
        self._is_closed = False

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """The addresses of a name, as text. Raises OSError if there are none."""
        if self._is_closed:
            raise OSError("names are not resolved any more")
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._look_up, host, port)

    def _look_up(self, host: str, port: int) -> Sequence[str]:
        if self._is_closed:  # meanwhile. Were it canceled instead, who waits for it would think that they are
            raise OSError("names are not resolved any more")
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))

    def close(self) -> None:
        """Let the threads go; who still waits is told that there are no addresses."""
        self._is_closed = True
        self._threads.shutdown(wait=False)


class PinnedNetwork:
    """A network that connects to checked addresses only, and to those themselves."""

    def __init__(self, rules: HostRules, resolve: Resolve) -> None:
        self._rules = rules
        self._resolve = resolve

    async def connect(
        self, factory: Factory, host: str, port: int, *, tls: ssl.SSLContext | None, timeout: float
    ) -> Connection:
        """A connection to a host, at the address where somebody answers first.

        Raises what the rules raise, and:
            NotConnectedError: nobody answers at any of its addresses.
        """
        addresses = (await self.addresses(host, port, timeout=timeout))[:MOST_ADDRESSES]
        attempts = [partial(self._attempt, factory, address, port, tls, host, timeout) for address in addresses]
        if len(attempts) == 1:
            return await attempts[0]()
        return await _first_to_answer(attempts)

    async def _attempt(
        self, factory: Factory, address: str, port: int, tls: ssl.SSLContext | None, host: str, timeout: float
    ) -> Connection:
        try:
            async with asyncio.timeout(timeout):
                return await self.dial(factory, address, port, tls, host)
        except TimeoutError:
            raise NotConnectedInTimeError("nobody answers") from None
        except OSError as error:
            raise NotConnectedError(_reason(error)) from error

    async def addresses(self, host: str, port: int, *, timeout: float) -> Sequence[str]:
        """The checked addresses of a host, as text. Raises as `connect` does."""
        address = self._rules.check_host(host)
        if address is not None:
            found: Sequence[str] = [str(address)]
        else:
            try:
                async with asyncio.timeout(timeout):
                    found = await self._resolve(host, port)
            except TimeoutError as error:
                raise NotConnectedInTimeError("the name was not resolved in time") from error
            except OSError as error:
                raise NotConnectedError("the name has no address") from error
        self._rules.check_addresses(host, [ip_address(address) for address in found])
        return found

    async def dial(
        self, factory: Factory, address: str, port: int, tls: ssl.SSLContext | None, host: str
    ) -> Connection:
        """A connection to a checked address; with TLS, to whoever can prove to be the host. Raises OSError."""
        name = host if tls is not None else None
        loop = asyncio.get_running_loop()
        _, protocol = await loop.create_connection(factory, address, port, ssl=tls, server_hostname=name)
        return protocol


async def _first_to_answer(attempts: Sequence[Attempt]) -> Connection:
    """The first connection that stands, each attempt beginning a moment after the one before, or when that has failed.

    Many names have addresses of two families of which one leads nowhere from here. RFC 8305.
    """
    waiting = deque(attempts)
    running: set[asyncio.Task[Connection]] = set()
    failure: BaseException = NotConnectedError("the name has no address")
    try:
        while waiting or running:
            if waiting:
                running.add(asyncio.create_task(waiting.popleft()()))
            patience = HEAD_START if waiting else None
            done, _ = await asyncio.wait(running, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                running.discard(task)
                if (error := task.exception()) is None:
                    return task.result()
                failure = error
        raise failure
    finally:
        for late in running:
            late.cancel()
            late.add_done_callback(_hang_up)


def _hang_up(late: asyncio.Task[Connection]) -> None:
    """Close a connection that came too late."""
    if not late.cancelled() and late.exception() is None:
        late.result().close()


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate cannot be trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        cure = "; does it speak plain http?" if error.reason == "WRONG_VERSION_NUMBER" else ""
        return f"TLS fails: {error.reason or type(error).__name__}{cure}"
    return os.strerror(error.errno).lower() if error.errno else str(error)
