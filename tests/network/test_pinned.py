"""Connections that go to checked addresses only, with rules that note what they are asked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import httpcore2
import pytest

from parley.network.addresses import Address, is_public, read_address
from parley.network.pinned import NameResolver, PinnedNetwork

pytestmark = pytest.mark.anyio


class RefusedError(Exception):
    """What these rules raise."""


class PublicOnly:
    """Rules that allow public addresses."""

    def check_host(self, host: str) -> Address | None:
        if host.endswith(".bad"):
            raise RefusedError(host)
        return read_address(host)

    def check_addresses(self, host: str, addresses: Sequence[Address]) -> None:
        if not all(is_public(address) for address in addresses):
            raise RefusedError(addresses)


class Wire(httpcore2.AsyncNetworkBackend):
    """A network that notes who is called; nobody is at the addresses in `dead`."""

    def __init__(self, *dead: str) -> None:
        self.called: list[str] = []
        self.dead = dead

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        self.called.append(host)
        if host in self.dead:
            raise httpcore2.ConnectError("nobody")
        return httpcore2.AsyncMockStream([])


class Names:
    """A resolver under an attacker's control: every question gets the next answer."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        return self.answers.pop(0)


async def test_a_name_is_resolved_once_and_the_checked_address_is_called() -> None:
    names, wire = Names(["8.8.8.8"], ["127.0.0.1"]), Wire()
    await PinnedNetwork(PublicOnly(), names, network=wire).connect_tcp("agents.example", 443)
    assert (wire.called, names.answers) == (["8.8.8.8"], [["127.0.0.1"]])


async def test_an_address_needs_no_resolving() -> None:
    wire = Wire()
    await PinnedNetwork(PublicOnly(), Names(), network=wire).connect_tcp("8.8.8.8", 443)
    assert wire.called == ["8.8.8.8"]


@pytest.mark.parametrize("found", [["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["::1"]])
async def test_a_name_with_one_refused_address_is_not_called_at_all(found: list[str]) -> None:
    wire = Wire()
    with pytest.raises(RefusedError):
        await PinnedNetwork(PublicOnly(), Names(found), network=wire).connect_tcp("agents.example", 443)
    assert wire.called == []


async def test_a_refused_host_is_not_even_resolved() -> None:
    names = Names(["8.8.8.8"])
    with pytest.raises(RefusedError):
        await PinnedNetwork(PublicOnly(), names, network=Wire()).connect_tcp("agents.bad", 443)
    assert names.answers == [["8.8.8.8"]]


async def test_the_next_address_is_tried_when_nobody_is_at_one() -> None:
    wire = Wire("8.8.8.8")
    await PinnedNetwork(PublicOnly(), Names(["8.8.8.8", "8.8.4.4"]), network=wire).connect_tcp("agents.example", 443)
    assert wire.called == ["8.8.8.8", "8.8.4.4"]


async def test_a_host_without_an_address_and_one_with_nobody_there_cannot_be_connected_to() -> None:
    for found, text in ([], "The name has no address"), (["8.8.8.8"], "nobody"):
        with pytest.raises(httpcore2.ConnectError, match=text):
            await PinnedNetwork(PublicOnly(), Names(found), network=Wire("8.8.8.8")).connect_tcp("a.example", 443)


async def test_a_name_that_cannot_be_resolved_in_time_or_at_all_cannot_be_connected_to() -> None:
    async def hang(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    async def fail(host: str, port: int) -> Sequence[str]:
        raise OSError("no such name")

    with pytest.raises(httpcore2.ConnectTimeout):
        await PinnedNetwork(PublicOnly(), hang, network=Wire()).connect_tcp("a.example", 443, timeout=0.01)
    with pytest.raises(httpcore2.ConnectError):
        await PinnedNetwork(PublicOnly(), fail, network=Wire()).connect_tcp("a.example", 443)


async def test_names_are_resolved_as_the_machine_does() -> None:
    names = NameResolver()
    try:
        assert "127.0.0.1" in await names("localhost", 80)
    finally:
        names.close()
