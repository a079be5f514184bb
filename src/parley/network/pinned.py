"""A network that connects to checked addresses, and to those themselves.

A name is resolved once, every address is checked, and the connection goes to a checked address, so that a name cannot
mean something else a moment later; the name stays in TLS and in the Host header. What is allowed, the rules decide.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import ip_address
from typing import Protocol, TypeAlias, TypeVar

from parley.network.addresses import Address
from parley.network.errors import NotConnectedError, NotConnectedInTimeError

P = TypeVar("P", bound=asyncio.Protocol)

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


class PinnedNetwork:
    """A network that connects to checked addresses only, and to those themselves."""

    def __init__(self, rules: HostRules, resolve: Resolve) -> None:
        self._rules = rules
        self._resolve = resolve

    async def connect(
        self, factory: Callable[[], P], host: str, port: int, *, tls: ssl.SSLContext | None, timeout: float
    ) -> P:
        """A connection to a host, at the first of its addresses where somebody answers in time.

        Raises what the rules raise, and:
            NotConnectedError: nobody answers at any of its addresses.
        """
        failure = NotConnectedError("the name has no address")
        for address in await self.addresses(host, port, timeout=timeout):
            try:
                async with asyncio.timeout(timeout):
                    return await self.dial(factory, address, port, tls, host)
            except TimeoutError:
                failure = NotConnectedInTimeError("nobody answers")
            except OSError as error:
                failure = NotConnectedError(_reason(error))
        raise failure

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

    async def dial(self, factory: Callable[[], P], address: str, port: int, tls: ssl.SSLContext | None, host: str) -> P:
        """A connection to a checked address; with TLS, to whoever can prove to be the host. Raises OSError."""
        name = host if tls is not None else None
        loop = asyncio.get_running_loop()
        _, protocol = await loop.create_connection(factory, address, port, ssl=tls, server_hostname=name)
        return protocol


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate cannot be trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS fails: {error.reason or type(error).__name__}"
    return os.strerror(error.errno).lower() if error.errno else str(error)
