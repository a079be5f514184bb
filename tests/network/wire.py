"""A network under a test's eyes, and names under an attacker's control."""

from __future__ import annotations

import ssl
from collections import deque
from collections.abc import Sequence

from parley.network.addresses import Address
from parley.network.connection import Connection
from parley.network.pinned import Factory, HostRules, PinnedNetwork, Resolve
from parley.network.urls import parse_url


class Anywhere:
    """Rules that allow every address."""

    def check_host(self, host: str) -> None:
        """Allow it."""

    def check_addresses(self, host: str, addresses: Sequence[Address]) -> None:
        """Allow them."""


class Wire(PinnedNetwork):
    """A network that notes which addresses are called, and connects nobody; nobody is at the addresses in `dead`."""

    def __init__(self, rules: HostRules, resolve: Resolve, *dead: str) -> None:
        super().__init__(rules, resolve)
        self.called: list[str] = []
        self.dead = dead

    async def dial(
        self, factory: Factory, address: str, port: int, tls: ssl.SSLContext | None, host: str
    ) -> Connection:
        self.called.append(address)
        if address in self.dead:
            raise ConnectionRefusedError("nobody")
        return factory()

    async def call(self, host: str, port: int = 443, *, timeout: float = 5.0) -> Connection:
        """Connect to a host."""
        return await self.connect(unconnected, host, port, tls=None, timeout=timeout)


def unconnected() -> Connection:
    return Connection(parse_url("https://a.example"), on_idle=lambda _: None)


class Names:
    """A resolver under an attacker's control: every question gets the next answer."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = deque(answers)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        return self.answers.popleft()
