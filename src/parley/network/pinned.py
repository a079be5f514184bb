"""Connects to checked addresses only.

A name is resolved once, every address is checked, and the connection goes to a checked address, so that the name cannot
resolve to another address a moment later (DNS rebinding). TLS and the Host header still use the name. `HostRules`
decide what is allowed.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from ipaddress import ip_address
from typing import Any, Protocol, TypeAlias

import httpcore2

from parley.network.addresses import Address, address_or_none
from parley.network.connection import Connection
from parley.network.errors import ConnectError, ConnectTimeoutError, connect_error
from parley.network.proxies import Proxies, Proxy

Factory: TypeAlias = Callable[[], Connection]
Attempt: TypeAlias = Callable[[], Coroutine[Any, Any, Connection]]

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a name, as text. Raises OSError if there are none."""

NEXT_ADDRESS_SECONDS = 0.25
"""How long one address is tried before the next is tried as well; as RFC 8305 recommends."""

MAX_ADDRESSES = 16
"""Addresses of one name that are tried. Otherwise the owner of a name could make us call any number of hosts."""

PROXY_LOOKUP_SECONDS = 2.0
"""For a name that a proxy will resolve. Behind a proxy many names do not resolve, and name servers may not answer."""

RESOLVER_THREADS = 8
"""Names resolved at the same time; one whose name servers do not answer takes half a minute."""


@cache
def machine_tls() -> ssl.SSLContext:
    """TLS with the authorities that this machine trusts. Reading them takes a while, so it is done once."""
    return httpcore2.default_ssl_context()


class HostRules(Protocol):
    """Which hosts may be called. Both methods raise an error of their own, which callers of `connect` see unchanged."""

    def check_host(self, host: str) -> None:
        """Check that an address may be called, or a name resolved."""
        ...

    def check_addresses(self, host: str, addresses: Sequence[Address]) -> None:
        """Check that all addresses of a host may be called."""
        ...


class NameResolver:
    """Resolves names as this machine does, in threads of its own."""

    def __init__(self, *, threads: int = RESOLVER_THREADS) -> None:
        # Slow names must not hold up other work that runs in threads.
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="parley-names")
        self._is_closed = False

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """The addresses of a name, as text. Raises OSError if there are none."""
        if self._is_closed:
            raise OSError("the resolver is closed")
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._look_up, host, port)

    def _look_up(self, host: str, port: int) -> Sequence[str]:
        if self._is_closed:  # in the meantime. Cancelling it instead would look like a cancellation of the waiting task
            raise OSError("the resolver is closed")
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))

    def close(self) -> None:
        """Stop the threads; pending lookups raise OSError."""
        self._is_closed = True
        self._threads.shutdown(wait=False)


class PinnedNetwork:
    """Opens connections to checked addresses only."""

    def __init__(self, rules: HostRules, resolve: Resolve, proxies: Proxies | None = None) -> None:
        """`proxies` are those that some hosts are reached through; by default none."""
        self.proxies = proxies or Proxies({})
        self._rules = rules
        self._resolve = resolve

    async def connect(
        self, factory: Factory, host: str, port: int, *, tls: ssl.SSLContext | None, timeout: float
    ) -> Connection:
        """A connection to the address of a host that answers first.

        Raises what the rules raise, and:
            ConnectError: none of its addresses answers.
        """
        addresses = await self.addresses(host, port, timeout=timeout)
        return await self._connect(factory, addresses, host, port, tls=tls, timeout=timeout)

    async def connect_to_proxy(self, factory: Factory, proxy: Proxy, *, timeout: float) -> Connection:
        """A connection to a proxy, which may be anywhere: the operator named it. Raises ConnectError."""
        tls = machine_tls() if proxy.scheme == "https" else None
        try:
            found = await self._look_up(proxy.host, proxy.port, timeout=timeout)
            return await self._connect(factory, found, proxy.host, proxy.port, tls=tls, timeout=timeout)
        except ConnectError as error:
            raise type(error)(f"the proxy {proxy.authority} cannot be reached: {error}") from error

    async def _connect(
        self,
        factory: Factory,
        addresses: Sequence[str],
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None,
        timeout: float,
    ) -> Connection:
        attempts = [
            partial(self._attempt, factory, address, port, tls, host, timeout) for address in addresses[:MAX_ADDRESSES]
        ]
        if len(attempts) == 1:
            return await attempts[0]()
        return await _first_connection(attempts)

    async def _attempt(
        self, factory: Factory, address: str, port: int, tls: ssl.SSLContext | None, host: str, timeout: float
    ) -> Connection:
        try:
            async with asyncio.timeout(timeout):
                return await self.dial(factory, address, port, tls, host)
        except TimeoutError:
            raise ConnectTimeoutError("the server does not answer") from None
        except OSError as error:
            raise connect_error(error) from error

    async def addresses(self, host: str, port: int, *, timeout: float) -> Sequence[str]:
        """The checked addresses of a host, as text. Raises as `connect` does."""
        self._rules.check_host(host)
        found = await self._look_up(host, port, timeout=timeout)
        self._rules.check_addresses(host, [ip_address(address) for address in found])
        return found

    async def _look_up(self, host: str, port: int, *, timeout: float) -> Sequence[str]:
        address = address_or_none(host)
        if address is not None:
            return [str(address)]
        try:
            async with asyncio.timeout(timeout):
                return await self._resolve(host, port)
        except TimeoutError as error:
            raise ConnectTimeoutError("the host name was not resolved in time") from error
        except OSError as error:
            raise ConnectError("the host name has no address") from error

    async def check(self, host: str, port: int) -> None:
        """Check a host that a proxy will connect to. A name that does not resolve here is left to the proxy.

        Raises what the rules raise.
        """
        with suppress(ConnectError):
            await self.addresses(host, port, timeout=PROXY_LOOKUP_SECONDS)

    async def dial(
        self, factory: Factory, address: str, port: int, tls: ssl.SSLContext | None, host: str
    ) -> Connection:
        """A connection to a checked address; TLS verifies the host name. Raises OSError."""
        name = host if tls is not None else None
        loop = asyncio.get_running_loop()
        _, protocol = await loop.create_connection(factory, address, port, ssl=tls, server_hostname=name)
        return protocol


async def _first_connection(attempts: Sequence[Attempt]) -> Connection:
    """The first connection that opens. Each attempt starts a moment after the previous one, or when that fails.

    Many names have IPv4 and IPv6 addresses of which only one family works here. RFC 8305.
    """
    waiting = deque(attempts)
    running: set[asyncio.Task[Connection]] = set()
    failure: BaseException = ConnectError("the host name has no address")
    try:
        while waiting or running:
            if waiting:
                running.add(asyncio.create_task(waiting.popleft()()))
            timeout = NEXT_ADDRESS_SECONDS if waiting else None
            done, _ = await asyncio.wait(running, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                running.discard(task)
                if (error := task.exception()) is None:
                    return task.result()
                failure = error
        raise failure
    finally:
        for late in running:
            late.cancel()
            late.add_done_callback(_close_late)


def _close_late(late: asyncio.Task[Connection]) -> None:
    """Close a connection that opened too late."""
    if not late.cancelled() and late.exception() is None:
        late.result().close()
