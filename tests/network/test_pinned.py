"""Connections that go to checked addresses only, with rules that note what they are asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from parley.network.addresses import Address, is_public, read_address
from parley.network.errors import NotConnectedError, NotConnectedInTimeError
from parley.network.pinned import NameResolver
from tests.network.wire import Names, Wire

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


async def test_a_name_is_resolved_once_and_the_checked_address_is_called() -> None:
    names = Names(["8.8.8.8"], ["127.0.0.1"])
    wire = Wire(PublicOnly(), names)
    await wire.call("agents.example")
    assert (wire.called, list(names.answers)) == (["8.8.8.8"], [["127.0.0.1"]])


async def test_an_address_needs_no_resolving() -> None:
    wire = Wire(PublicOnly(), Names())
    await wire.call("8.8.8.8")
    assert wire.called == ["8.8.8.8"]


@pytest.mark.parametrize("found", [["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["::1"]])
async def test_a_name_with_one_refused_address_is_not_called_at_all(found: list[str]) -> None:
    wire = Wire(PublicOnly(), Names(found))
    with pytest.raises(RefusedError):
        await wire.call("agents.example")
    assert wire.called == []


async def test_a_refused_host_is_not_even_resolved() -> None:
    names = Names(["8.8.8.8"])
    with pytest.raises(RefusedError):
        await Wire(PublicOnly(), names).call("agents.bad")
    assert list(names.answers) == [["8.8.8.8"]]


async def test_the_next_address_is_tried_when_nobody_is_at_one() -> None:
    wire = Wire(PublicOnly(), Names(["8.8.8.8", "8.8.4.4"]), "8.8.8.8")
    await wire.call("agents.example")
    assert wire.called == ["8.8.8.8", "8.8.4.4"]


async def test_a_host_without_an_address_and_one_with_nobody_there_cannot_be_connected_to() -> None:
    for found, text in ([], "the name has no address"), (["8.8.8.8"], "nobody"):
        with pytest.raises(NotConnectedError, match=text):
            await Wire(PublicOnly(), Names(found), "8.8.8.8").call("a.example")


async def test_a_name_that_cannot_be_resolved_in_time_or_at_all_cannot_be_connected_to() -> None:
    async def hang(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    async def fail(host: str, port: int) -> Sequence[str]:
        raise OSError("no such name")

    with pytest.raises(NotConnectedInTimeError):
        await Wire(PublicOnly(), hang).call("a.example", timeout=0.01)
    with pytest.raises(NotConnectedError, match="no address"):
        await Wire(PublicOnly(), fail).call("a.example")


async def test_names_are_resolved_as_the_machine_does() -> None:
    names = NameResolver()
    try:
        assert "127.0.0.1" in await names("localhost", 80)
    finally:
        names.close()
