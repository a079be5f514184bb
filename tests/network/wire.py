"""A network under a test's eyes, and names under an attacker's control."""

from __future__ import annotations

import ssl
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from parley.network.pinned import HostRules, PinnedNetwork, Resolve

P = TypeVar("P")


class Wire(PinnedNetwork):
    """A network that notes which addresses are called, and connects nobody; nobody is at the addresses in `dead`."""

    def __init__(self, rules: HostRules, resolve: Resolve, *dead: str) -> None:
        super().__init__(rules, resolve)
        self.called: list[str] = []
        self.dead = dead

    async def dial(self, factory: Callable[[], P], address: str, port: int, tls: ssl.SSLContext | None, host: str) -> P:
        self.called.append(address)
        if address in self.dead:
            raise ConnectionRefusedError("nobody")
        return factory()

    async def call(self, host: str, port: int = 443, *, timeout: float = 5.0) -> Any:
        """Connect to a host."""
        return await self.connect(object, host, port, tls=None, timeout=timeout)  # type: ignore[type-var]


class Names:
    """A resolver under an attacker's control: every question gets the next answer."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = deque(answers)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        return self.answers.popleft()
