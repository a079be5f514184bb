"""A client behind an HTTP proxy: every binding, streams, logins, and the hosts that are called directly."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import trustme

from parley import Agent
from parley.client.client import Client
from parley.client.credentials.oauth import AuthorizationServer, Endpoints
from parley.client.credentials.oauth_client import OAuthClient
from parley.client.errors import ForbiddenTargetError, UnreachableError
from parley.client.guard import Guard
from parley.client.transports.connections import Connections, Tls
from parley.client.transports.transport import CallOptions
from parley.protocol.cards import AgentInterface, Binding
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.operations import SEND_MESSAGE
from parley.protocol.requests import SendMessageRequest
from parley.protocol.tasks import Task
from parley.protocol.versions import Version
from parley.server.app import App
from parley.server.listener.tls import TlsFiles
from parley.server.run import Bound, Serving, serve
from tests.deadlines import fail_after
from tests.network.forward_proxy import ForwardProxy, forward_proxy
from tests.network.scripted_server import OK, answering, opened
from tests.server.serving import echo_agent, running

pytestmark = pytest.mark.anyio


def hello() -> SendMessageRequest:
    return SendMessageRequest(Message(str(uuid4()), Role.USER, (TextPart("hello"),)))


@pytest.fixture
async def proxy(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[ForwardProxy]:
    """The proxy that the environment names."""
    async with forward_proxy() as running_proxy:
        for name in ("HTTPS_PROXY", "HTTP_PROXY"):
            monkeypatch.setenv(name, running_proxy.url.replace("://", "://ada:hush@"))
        with fail_after(20):
            yield running_proxy


class Slow:
    """An agent that says the second half of a text when the gate opens."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.agent = Agent("Slow", description="Takes its time")

        @self.agent.on_message
        async def say(turn: Any) -> Any:
            yield "first "
            await self.gate.wait()
            yield "second"


@asynccontextmanager
async def serving_tls(agent: Agent, directory: Path) -> AsyncGenerator[tuple[Bound, Tls]]:
    """An agent over HTTP and gRPC with a certificate for agent.example."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(directory / "ca.pem")
    authority.issue_cert("agent.example").private_key_and_cert_chain_pem.write_to_path(directory / "own.pem")
    files = TlsFiles(certificate=directory / "own.pem", key=directory / "own.pem")
    ready: asyncio.Future[Bound] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        serving = Serving(port=0, grpc_port=0, tls=files, allowed_hosts=("agent.example",))
        group.create_task(serve(App(agent, drain_seconds=0), serving, on_ready=ready.set_result, stop=stop))
        try:
            yield await ready, Tls(authorities=directory / "ca.pem")
        finally:
            stop.set()


@pytest.mark.parametrize("binding", list(Binding))
async def test_a_stream_passes_the_proxy_at_once_and_goes_on_after_a_cut(
    binding: Binding, proxy: ForwardProxy, tmp_path: Path
) -> None:
    slow = Slow()
    async with serving_tls(slow.agent, tmp_path) as (bound, tls):
        port = bound.url.rpartition(":")[2]
        async with Client(f"https://agent.example:{port}", bindings=[binding], tls=tls) as client:
            text = ""
            async for update in client.stream("hello"):
                text += update.text
                if not slow.gate.is_set() and text:
                    proxy.cut()
                    slow.gate.set()
            assert text == "first second"
        called = bound.grpc_target.rpartition(":")[2] if binding == Binding.GRPC and bound.grpc_target else port
        assert proxy.lines.count(f"CONNECT agent.example:{called}") >= 2
        assert all(line.startswith("CONNECT agent.example:") for line in proxy.lines)
        assert set(proxy.authorizations) == {"Basic YWRhOmh1c2g="}


async def test_plain_http_is_forwarded(proxy: ForwardProxy) -> None:
    async with running(App(echo_agent(), drain_seconds=0)) as http:
        url = f"http://agent.example:{http.base_url.port}"
        async with Client(url) as client:
            assert (await client.send("hello")).text == "hello"
        assert proxy.lines[0] == f"GET {url}/.well-known/agent-card.json"
        assert len(proxy.lines) == 2


async def test_a_login_gets_its_token_through_the_proxy(proxy: ForwardProxy, tmp_path: Path) -> None:
    authority, served = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("issuer.example").configure_cert(served)
    token = b'{"access_token": "t-1", "token_type": "Bearer"}'
    answer = OK + b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(token), token)
    async with opened(answering(answer), tls=served) as (issuer, _):
        proxy.ports = {443: issuer.port}
        connections = Connections(tls=Tls(authorities=tmp_path / "ca.pem"))
        endpoints = Endpoints("https://issuer.example/token")
        server = AuthorizationServer(connections.channel, OAuthClient("parley", "s3cret"), endpoints)
        assert (await server.client_credentials(())).access_token == "t-1"
        await connections.close()
        assert issuer.requests[0].endswith(b"grant_type=client_credentials")
    assert proxy.lines == ["CONNECT issuer.example:443"]


async def test_this_machine_and_the_hosts_of_no_proxy_are_called_directly(
    proxy: ForwardProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def here(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    monkeypatch.setenv("NO_PROXY", "elsewhere.example, agent.example")
    async with serving_tls(echo_agent(), tmp_path) as (bound, tls), running(App(echo_agent())) as http:
        async with Client(str(http.base_url)) as client:
            assert (await client.send("hello")).text == "hello"
        connections = Connections(guard=Guard(allow_private=True), tls=tls, resolve=here)
        for binding in Binding:
            port = str(bound.grpc_target if binding == Binding.GRPC else bound.url).rpartition(":")[2]
            face = AgentInterface(f"https://agent.example:{port}", binding, "1.0")
            transport = connections.connect(face, Version.V1_0)
            assert isinstance(await transport.call(SEND_MESSAGE, hello(), CallOptions(timeout=5)), Task)
            await transport.close()
        await connections.close()
    assert proxy.lines == []


async def test_a_card_cannot_have_the_proxy_call_a_private_network(proxy: ForwardProxy) -> None:
    """By its text, or by an address that this machine knows for the name."""
    connections = Connections()
    for host in ("10.0.0.1", "intranet"):
        with pytest.raises(ForbiddenTargetError, match="is not a public"):
            await connections.channel.exchange("GET", f"https://{host}/", b"", CallOptions(timeout=5))
    await connections.close()
    connections = Connections(resolve=_inside)
    for binding in Binding:
        transport = connections.connect(AgentInterface("https://agent.example", binding, "1.0"), Version.V1_0)
        with pytest.raises(ForbiddenTargetError, match="has an address that is not public"):
            await transport.call(SEND_MESSAGE, hello(), CallOptions(timeout=5))
    await connections.close()
    assert proxy.lines == []


async def _inside(host: str, port: int) -> list[str]:
    return ["10.0.0.1"]


async def test_a_client_that_uses_no_proxy_connects_itself(proxy: ForwardProxy) -> None:
    async def nowhere(host: str, port: int) -> list[str]:
        raise OSError("unknown")

    connections = Connections(guard=Guard(use_proxy=False), resolve=nowhere)
    with pytest.raises(UnreachableError, match="the host name has no address"):
        await connections.channel.exchange("GET", "https://agent.example/", b"", CallOptions(timeout=5))
    await connections.close()
    assert proxy.lines == []


@pytest.mark.parametrize(
    ("url", "reason"),
    [("https://proxy.example", "gRPC cannot use the proxy"), ("socks5://p.example", "Invalid proxy URL")],
)
async def test_grpc_names_the_proxy_that_it_cannot_use(url: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", url)
    connections = Connections()
    transport = connections.connect(AgentInterface("agent.example:443", Binding.GRPC, "1.0"), Version.V1_0)
    with pytest.raises(UnreachableError, match=reason):
        await transport.call(SEND_MESSAGE, hello(), CallOptions(timeout=5))
    await connections.close()
