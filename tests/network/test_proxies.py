"""Requests through an HTTP proxy, over real sockets: which proxy, what it sees, and what it cannot do."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from parley.network import pinned
from parley.network.errors import ConnectError, ConnectTimeoutError, NetworkError
from parley.network.pinned import PinnedNetwork
from parley.network.pool import ConnectionPool
from parley.network.proxies import Proxies
from tests.network.forward_proxy import ForwardProxy, forward_proxy
from tests.network.scripted_server import HELLO, ScriptedServer, answering, asked, contexts, exchange, opened, resolve
from tests.network.wire import Anywhere

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("environment", "origin", "proxy"),
    [
        ({}, ("https", "a.example", 443), None),
        ({"HTTPS_PROXY": "http://proxy.example:3128"}, ("https", "a.example", 443), "http://proxy.example:3128"),
        ({"HTTPS_PROXY": "http://proxy.example:3128"}, ("http", "a.example", 80), None),
        ({"HTTP_PROXY": "proxy.example"}, ("http", "a.example", 80), "http://proxy.example"),
        ({"HTTP_PROXY": "one.example", "http_proxy": "two.example"}, ("http", "a.example", 80), "http://two.example"),
        ({"HTTP_PROXY": "proxy.example", "REQUEST_METHOD": "GET"}, ("http", "a.example", 80), None),
        ({"http_proxy": "p.example", "REQUEST_METHOD": "GET"}, ("http", "a.example", 80), "http://p.example"),
        ({"ALL_PROXY": "https://proxy.example"}, ("https", "a.example", 443), "https://proxy.example"),
        ({"ALL_PROXY": "p.example", "HTTPS_PROXY": "s.example"}, ("https", "a.example", 443), "http://s.example"),
        ({"ALL_PROXY": "p.example"}, ("http", "localhost", 80), None),
        ({"ALL_PROXY": "p.example"}, ("http", "127.0.0.1", 80), None),
        ({"ALL_PROXY": "p.example"}, ("http", "::1", 80), None),
        ({"ALL_PROXY": "[2001:db8::1]:3128"}, ("http", "a.example", 80), "http://[2001:db8::1]:3128"),
    ],
)
def test_the_environment_names_the_proxy(
    environment: dict[str, str], origin: tuple[str, str, int], proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = Proxies.of_environment().find(*origin)
    assert (found and f"{found.scheme}://{found.authority}") == proxy


@pytest.mark.parametrize(
    ("exceptions", "host", "is_direct"),
    [
        ("*", "a.example", True),
        ("a.example", "A.Example", True),
        ("a.example", "deep.a.example", True),
        (".a.example", "a.example", True),
        ("a.example", "nota.example", False),
        ("b.example, a.example", "a.example", True),
        ("b.example a.example", "a.example", True),
        ("a.example:8443", "a.example", True),
        ("a.example:443", "a.example", False),
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("10.0.0.0/8", "a.example", False),
        ("2001:db8::/32", "2001:db8::1", True),
        ("[2001:db8::1]", "2001:db8::1", True),
        ("[2001:db8::1]:8443", "2001:db8::1", True),
        ("1.2.3.4", "0x1.2.3.4", False),
        ("*.a.example", "deep.a.example", True),
        ("a.example.", "a.example", True),
        ("a.example", "a.example.", True),
        ("a.example:²", "a.example", False),
        ("", "a.example", False),
    ],
)
def test_no_proxy_names_the_hosts_that_are_called_directly(exceptions: str, host: str, is_direct: bool) -> None:
    proxies = Proxies({"https": "proxy.example", "no": exceptions})
    assert (proxies.find("https", host, 8443) is None) == is_direct


@pytest.mark.parametrize("url", ["socks5://ada:hush@proxy.example", "http://ada:hush@", "http://a b", "http://x:y:z"])
def test_a_proxy_that_cannot_be_used_is_named_without_its_password(url: str) -> None:
    with pytest.raises(ConnectError, match=r"^Invalid proxy URL in the environment for https\. It must") as refused:
        Proxies({"https": url}).find("https", "a.example", 443)
    assert "hush" not in str(refused.value)
    assert "hush" not in repr(Proxies({"https": "http://ada:hush@proxy.example"}).find("https", "a.example", 443))


@asynccontextmanager
async def proxied(
    proxy: ForwardProxy, *, user: str = "", scheme: str = "http", trust: ssl.SSLContext | None = None
) -> AsyncGenerator[ConnectionPool]:
    url = f"{scheme}://{user}127.0.0.1:{proxy.port}"
    network = PinnedNetwork(Anywhere(), resolve, Proxies({"http": url, "https": url}))
    pool = ConnectionPool(network, trust or ssl.create_default_context(), connect_seconds=2)
    try:
        yield pool
    finally:
        await pool.close()


async def test_a_plain_request_is_forwarded_with_the_whole_url_and_the_credentials_stay_at_the_proxy() -> None:
    async with opened(answering(HELLO)) as (peer, _), forward_proxy() as proxy:
        async with proxied(proxy, user="ada:p%40ss@") as pool:
            assert await exchange(pool, asked(peer, "POST", "/x?y", b"body")) == (200, b"hello")
        assert proxy.lines == [f"POST http://agent.example:{peer.port}/x?y"]
        assert proxy.authorizations == ["Basic YWRhOnBAc3M="]
        (request,) = peer.requests
        assert request.startswith(b"POST /x?y HTTP/1.1\r\n")
        assert request.endswith(b"\r\n\r\nbody")
        assert b"authorization" not in request


@pytest.mark.parametrize("is_encrypted", [False, True], ids=["proxy over http", "proxy over https"])
async def test_https_goes_through_a_tunnel_that_is_used_again_and_the_proxy_sees_nothing_of_it(
    is_encrypted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    served, trust = contexts("agent.example")
    own, trusting = contexts("127.0.0.1")
    monkeypatch.setattr(pinned, "machine_tls", lambda: trusting)
    async with (
        opened(answering(HELLO), tls=served) as (peer, _),
        forward_proxy(tls=own if is_encrypted else None) as proxy,
        proxied(proxy, user="ada:pw@", scheme="https" if is_encrypted else "http", trust=trust) as pool,
    ):
        for _ in range(2):
            assert await exchange(pool, asked(peer, "POST", "/secret", scheme="https")) == (200, b"hello")
        assert proxy.lines == [f"CONNECT agent.example:{peer.port}"]
        assert proxy.authorizations == ["Basic YWRhOnB3"]
        assert (peer.connections, len(peer.requests)) == (1, 2)
        assert all(b"proxy" not in request and b"POST /secret " in request for request in peer.requests)


async def test_a_tunnel_to_another_server_than_the_named_one_is_not_used() -> None:
    served, trust = contexts("other.example")
    async with (
        opened(answering(HELLO), tls=served) as (peer, _),
        forward_proxy() as proxy,
        proxied(proxy, trust=trust) as pool,
    ):
        with pytest.raises(ConnectError, match="its certificate cannot be trusted"):
            await pool.send(asked(peer, scheme="https"), float("inf"))
        assert peer.requests == []


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n", "it answered with status 407$"),
        (b"HTTP/1.1 403 Forbidden\r\n\r\n<html>", "it answered with status 403$"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "not valid HTTP"),
        (b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "it sent a body$"),
    ],
)
async def test_a_proxy_that_opens_no_tunnel_gets_no_request(refusal: bytes, reason: str) -> None:
    async with opened(answering(HELLO)) as (peer, _), forward_proxy() as proxy, proxied(proxy, user="ada:pw@") as pool:
        proxy.refusal = refusal
        with pytest.raises(ConnectError, match=reason) as refused:
            await pool.send(asked(peer, scheme="https"), float("inf"))
        assert "pw" not in str(refused.value)


async def test_a_proxy_that_is_silent_or_gone_is_given_up() -> None:
    async def silence(peer: ScriptedServer, reader: object, writer: object) -> None:
        await peer.is_over.wait()

    async with opened(silence) as (peer, _), forward_proxy() as proxy:
        proxy.port = peer.port
        async with proxied(proxy) as pool:
            pool._connect_seconds = 0.05  # pyright: ignore[reportPrivateUsage]
            with pytest.raises(ConnectTimeoutError, match="through the proxy"):
                await pool.send(asked(peer, scheme="https"), float("inf"))
    async with proxied(proxy) as pool:
        with pytest.raises(ConnectError, match=rf"^the proxy 127\.0\.0\.1:{peer.port} cannot be reached: "):
            await pool.send(asked(peer, scheme="https"), float("inf"))


class Forbidding(Anywhere):
    """Rules that allow no address that is looked up."""

    def check_addresses(self, host: str, addresses: object) -> None:
        raise PermissionError(host)


async def test_a_host_is_checked_before_the_proxy_is_asked_unless_only_the_proxy_knows_its_name() -> None:
    async with opened(answering(HELLO)) as (peer, _), forward_proxy() as proxy:
        proxies = Proxies({"http": proxy.url})
        pool = ConnectionPool(PinnedNetwork(Forbidding(), resolve, proxies), ssl.create_default_context())
        with pytest.raises(PermissionError):
            await exchange(pool, asked(peer))
        assert proxy.lines == []

        async def unknown(host: str, port: int) -> list[str]:
            if host == "agent.example":
                raise OSError("unknown")
            return [host]

        pool = ConnectionPool(PinnedNetwork(Forbidding(), unknown, proxies), ssl.create_default_context())
        assert await exchange(pool, asked(peer)) == (200, b"hello")
        await pool.close()


async def test_a_tunnel_that_breaks_is_an_error_of_the_request_in_it() -> None:
    served, trust = contexts("agent.example")

    async def cut(peer: ScriptedServer, reader: object, writer: object) -> None:
        await peer.request(reader)  # type: ignore[arg-type]
        proxy.cut()

    async with opened(cut, tls=served) as (peer, _), forward_proxy() as proxy, proxied(proxy, trust=trust) as pool:
        with pytest.raises(NetworkError, match="without a response"):
            await exchange(pool, asked(peer, scheme="https"))
