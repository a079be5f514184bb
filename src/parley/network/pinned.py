"""A network that connects to checked addresses, and to those themselves.

A name is resolved once, every address is checked, and the connection goes to a checked address, so that a name cannot
mean something else a moment later; the name stays in TLS and in the Host header. What is allowed, the rules decide.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import ip_address
from typing import Protocol, TypeAlias, cast

import httpcore2

from parley.network.addresses import Address

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a name, as text. Raises OSError if there are none."""

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

    def __init__(self) -> None:
        # Threads of its own: names that take long to resolve must not hold up what else is done in threads.
        self._threads = ThreadPoolExecutor(RESOLVER_THREADS, thread_name_prefix="parley-names")

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """The addresses of a name, as text. Raises OSError if there are none."""
        question = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(self._threads, question)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))

    def close(self) -> None:
        """Let the threads go."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class PinnedNetwork(httpcore2.AsyncNetworkBackend):
    """A network that connects to checked addresses only, and to those themselves."""

    def __init__(
        self, rules: HostRules, resolve: Resolve, *, network: httpcore2.AsyncNetworkBackend | None = None
    ) -> None:
        """`network` makes the connections; without it, the machine's own does."""
        self._rules = rules
        self._resolve = resolve
        self._network = network or cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """A connection to a host, which the caller then tells by its name whom it wants to talk to.

        Raises what the rules raise, and:
            httpcore2.ConnectError, httpcore2.ConnectTimeout: nobody answers at any of its addresses.
        """
        failure: Exception = httpcore2.ConnectError("The name has no address")
        for address in await self.addresses(host, port, timeout=timeout):
            try:
                return await self._network.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure

    async def addresses(self, host: str, port: int, *, timeout: float | None = None) -> Sequence[str]:
        """The checked addresses of a host, as text. Raises as `connect_tcp` does."""
        address = self._rules.check_host(host)
        if address is not None:
            found: Sequence[str] = [str(address)]
        else:
            try:
                async with asyncio.timeout(timeout):
                    found = await self._resolve(host, port)
            except TimeoutError as error:
                raise httpcore2.ConnectTimeout("The name was not resolved in time") from error
            except OSError as error:
                raise httpcore2.ConnectError("The name has no address") from error
        self._rules.check_addresses(host, [ip_address(address) for address in found])
        return found
