"""Connections that go to checked addresses only, with rules that note what they are asked."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Sequence

import pytest

from parley.network import pinned
from parley.network.addresses import Address, is_public, read_address
from parley.network.connection import Connection
from parley.network.errors import ConnectError, ConnectTimeoutError
from parley.network.pinned import Factory, NameResolver, PinnedNetwork
from tests.deadlines import fail_after
from tests.network.wire import Anywhere, Names, Wire, unconnected

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


async def test_a_name_with_countless_addresses_has_only_some_of_them_called() -> None:
    many = [f"8.8.8.{number}" for number in range(200)]
    wire = Wire(PublicOnly(), Names(many), *many)
    with pytest.raises(ConnectError):
        await wire.call("agents.example")
    assert wire.called == many[: pinned.MAX_ADDRESSES]


async def test_a_host_without_an_address_and_one_with_nobody_there_cannot_be_connected_to() -> None:
    for found, text in ([], "the host name has no address"), (["8.8.8.8"], "nobody"):
        with pytest.raises(ConnectError, match=text):
            await Wire(PublicOnly(), Names(found), "8.8.8.8").call("a.example")


async def test_a_name_that_cannot_be_resolved_in_time_or_at_all_cannot_be_connected_to() -> None:
    async def hang(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    async def fail(host: str, port: int) -> Sequence[str]:
        raise OSError("no such name")

    with pytest.raises(ConnectTimeoutError):
        await Wire(PublicOnly(), hang).call("a.example", timeout=0.01)
    with pytest.raises(ConnectError, match="no address"):
        await Wire(PublicOnly(), fail).call("a.example")


class Slow(Wire):
    """A network in which nobody answers at the addresses in `dead`, and nobody says so."""

    async def dial(
        self, factory: Factory, address: str, port: int, tls: ssl.SSLContext | None, host: str
    ) -> Connection:
        self.called.append(address)
        if address in self.dead:
            await asyncio.Event().wait()
        return factory()


async def test_an_address_that_leads_nowhere_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinned, "NEXT_ADDRESS_SECONDS", 0.01)
    slow = Slow(PublicOnly(), Names(["2606:4700::1", "8.8.8.8", "8.8.4.4"]), "2606:4700::1")
    with fail_after(5):
        await slow.call("agents.example", timeout=60)
    assert slow.called == ["2606:4700::1", "8.8.8.8"]
    with pytest.raises(ConnectTimeoutError):
        await Slow(PublicOnly(), Names(["8.8.8.8", "8.8.4.4"]), "8.8.8.8", "8.8.4.4").call("a.example", timeout=0.05)


async def test_a_connection_that_stands_too_late_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinned, "NEXT_ADDRESS_SECONDS", 0.0)
    accepted: list[asyncio.StreamReader] = []
    both = asyncio.Event()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.append(reader)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    class Together(PinnedNetwork):
        """A network in which two connections stand at the same moment."""

        async def dial(
            self, factory: Factory, address: str, port: int, tls: ssl.SSLContext | None, host: str
        ) -> Connection:
            connection = await super().dial(factory, "127.0.0.1", port, tls, host)
            if address == "127.0.0.2":
                both.set()
            await both.wait()
            return connection

    network = Together(Anywhere(), Names(["127.0.0.1", "127.0.0.2"]))
    with fail_after(5):
        first = await network.connect(unconnected, "a.example", port, tls=None, timeout=5)
        while len(accepted) < 2:
            await asyncio.sleep(0.01)
        for left in (1, 0):
            while sum(not reader.at_eof() for reader in accepted) > left:
                await asyncio.sleep(0.01)
            assert sum(not reader.at_eof() for reader in accepted) == left
            first.close()
    server.close()
    await server.wait_closed()


async def test_names_are_resolved_as_the_machine_does() -> None:
    names = NameResolver()
    try:
        assert "127.0.0.1" in await names("localhost", 80)
    finally:
        names.close()


async def test_names_that_wait_for_a_thread_when_the_resolver_closes_have_no_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody who waits for one may think that they were canceled."""
    goes_on = threading.Event()

    def look_up(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        goes_on.wait(5)
        return [(0, 0, 0, "", ("127.0.0.1", port))]

    monkeypatch.setattr(pinned.socket, "getaddrinfo", look_up)
    names = NameResolver(threads=1)
    asking = [asyncio.ensure_future(names("a.example", 80)) for _ in range(2)]
    await asyncio.sleep(0)
    names.close()
    goes_on.set()
    with fail_after(5):
        await asyncio.wait(asking)
    for late in (asking[1], asyncio.ensure_future(names("a.example", 80))):
        with pytest.raises(OSError, match="the resolver is closed"):
            await late
