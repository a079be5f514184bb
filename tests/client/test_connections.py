"""The ways to interfaces: over the right binding, with TLS where it belongs, and to checked addresses only."""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from parley.client.client import Client
from parley.client.errors import ForbiddenTargetError, UnreachableError
from parley.client.guard import Guard
from parley.client.options import Retries
from parley.client.transports.connections import Connections, Tls
from parley.client.transports.grpc import GrpcTransport
from parley.client.transports.grpc_route import GrpcRoute
from parley.client.transports.jsonrpc import JsonRpcTransport
from parley.client.transports.rest import RestTransport
from parley.client.transports.transport import CallOptions
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.cards import AgentCard, AgentInterface, Binding
from parley.protocol.errors import PeerProtocolError
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.tasks import Task
from parley.protocol.versions import Version
from parley.server.app import App
from parley.server.bindings.grpc import GrpcServer
from parley.server.listener.tls import ClientCertificates, TlsFiles
from parley.server.run import Bound, Serving, serve
from tests.deadlines import fail_after
from tests.server.serving import echo_agent, running, serving

pytestmark = pytest.mark.anyio

ONCE = Retries(attempts=1)


@asynccontextmanager
async def connections(**options: Any) -> AsyncGenerator[Connections]:
    opened = Connections(**options)
    try:
        with fail_after(20):
            yield opened
    finally:
        await opened.close()


def face(url: str, binding: str = Binding.JSONRPC, version: Version = Version.V1_0) -> AgentInterface:
    return AgentInterface(url, binding, version.value)


class Names:
    """A resolver: every question gets the next answer, the last one for ever."""

    def __init__(self, *answers: list[str] | OSError) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, OSError):
            raise answer
        return answer


async def test_each_binding_has_its_transport() -> None:
    async with connections() as ways:
        kinds = {Binding.JSONRPC: JsonRpcTransport, Binding.HTTP_JSON: RestTransport, Binding.GRPC: GrpcTransport}
        for binding, kind in kinds.items():
            transport = ways.connect(face("https://agents.example/", binding), Version.V1_0)
            assert (type(transport), transport.version) == (kind, Version.V1_0)
            await transport.close()


async def test_what_a_version_has_no_binding_for_is_refused() -> None:
    async with connections() as ways:
        for binding, version in (Binding.GRPC, Version.V0_2), ("urn:pigeons", Version.V1_0):
            with pytest.raises(PeerProtocolError, match="has no binding"):
                ways.connect(face("https://agents.example/", binding), version)


# --- the guard --------------------------------------------------------------------------------------------------------


async def test_interfaces_that_may_not_be_called_are_left_out() -> None:
    async with connections() as ways:
        ways.trust("https://agents.example")
        ways.trust("http://localhost:8080")
        good = [(face(url), Version.V1_0) for url in ("https://other.example/", "http://127.0.0.1:9000/")]
        bad = [(face(url), Version.V1_0) for url in ("http://10.0.0.1/", "http://agents.example/", "nonsense://")]
        assert ways.permitted([bad[0], good[0], bad[1], good[1], bad[2]]) == good
        with pytest.raises(ForbiddenTargetError, match=r"^The card points to http://10\.0\.0\.1, which is not"):
            ways.permitted(bad)
        assert ways.permitted([]) == []


async def test_without_grpc_the_other_interfaces_are_called_and_the_error_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)  # as if it were not installed
    over_grpc, over_http = face("a.example:443", Binding.GRPC), face("https://a.example/")
    async with connections() as ways:
        ways.trust("https://a.example")
        both = [(over_grpc, Version.V1_0), (over_http, Version.V1_0)]
        assert ways.permitted(both) == [(over_http, Version.V1_0)]
        with pytest.raises(ForbiddenTargetError, match=r"parley-a2a\[grpc\]"):
            ways.permitted(both[:1])


async def test_a_card_that_was_given_is_no_more_trusted_than_one_that_was_found() -> None:
    async with running(App(echo_agent())) as http:
        url = str(http.base_url)
        card = AgentCard("Echo", "Echoes", "1", (face(url),))
        with pytest.raises(ForbiddenTargetError):
            async with Client(card):
                pass
        async with Client(card, guard=Guard(allowed_hosts=("127.0.0.1",))) as client:
            assert (await client.send("hello")).text == "hello"


@pytest.mark.parametrize("binding", list(Binding))
@pytest.mark.parametrize("found", [["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["::1"]])
async def test_a_public_name_that_leads_into_a_private_network_is_not_called(binding: str, found: list[str]) -> None:
    called: list[Any] = []
    server = await asyncio.start_server(lambda *connection: called.append(connection), "127.0.0.1", 0)
    async with server, connections(resolve=Names(found)) as ways:
        url = f"https://innocent.example:{server.sockets[0].getsockname()[1]}"
        transport = ways.connect(face(url, binding), Version.V1_0)
        with pytest.raises(ForbiddenTargetError, match=r"innocent\.example has an address that is not public"):
            await transport.call(ops.GET_TASK, r.GetTaskRequest("1"), CallOptions(timeout=5))
        with pytest.raises(ForbiddenTargetError):
            await anext(transport.stream(ops.SUBSCRIBE_TO_TASK, r.SubscribeToTaskRequest("1"), CallOptions(timeout=5)))
        await transport.close()
    assert called == []


async def test_a_named_host_that_is_private_is_called_over_grpc_too() -> None:
    app = App(echo_agent())
    server = GrpcServer(app, http_url="http://127.0.0.1")
    async with app.running(), connections(resolve=Names(["127.0.0.1"])) as ways:
        port = await server.start("127.0.0.1", 0)
        ways.trust("http://intranet.example")
        transport = ways.connect(face(f"intranet.example:{port}", Binding.GRPC), Version.V1_0)
        assert isinstance(await transport.call(ops.SEND_MESSAGE, hello(), CallOptions(timeout=5)), Task)
        await transport.close()
        await server.stop()


async def test_a_callers_certificate_is_not_shown_to_hosts_that_it_did_not_name(authority: Authority) -> None:
    """The server demands one, and gets none."""
    certificate, key = authority.files("127.0.0.1")
    mine, my_key = authority.files("me.example")
    files = TlsFiles(
        certificate=certificate,
        key=key,
        client_authority=authority.file,
        client_certificates=ClientCertificates.REQUIRED,
    )
    async with serving_both(files) as bound:
        tls = Tls(authorities=authority.file, certificate=mine, key=my_key)
        for interface in (face(bound.url), face(f"grpcs://{bound.grpc_target}", Binding.GRPC)):
            card, allowed = AgentCard("Echo", "Echoes", "1", (interface,)), Guard(allowed_hosts=("127.0.0.1",))
            async with Client(card, tls=tls, guard=allowed, retries=ONCE) as client:
                with pytest.raises(UnreachableError):
                    await client.send("hello")


async def test_a_server_of_a_named_host_cannot_redirect_into_a_private_network() -> None:
    async def redirecting(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"location", b"http://169.254.169.254/latest/meta-data/")]
        await send({"type": "http.response.start", "status": 307, "headers": headers})
        await send({"type": "http.response.body"})

    async with serving(redirecting) as http, connections() as ways:
        ways.trust(str(http.base_url))
        transport = ways.connect(face(str(http.base_url)), Version.V1_0)
        with pytest.raises(ForbiddenTargetError, match="redirects"):
            await transport.call(ops.GET_TASK, r.GetTaskRequest("1"), CallOptions(timeout=5))


# --- TLS --------------------------------------------------------------------------------------------------------------


class Authority:
    """A certificate authority with its files."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ca = trustme.CA()
        self.file = directory / "ca.pem"
        self.ca.cert_pem.write_to_path(self.file)

    def files(self, name: str) -> tuple[Path, Path]:
        """A certificate for a name, and its key."""
        issued = self.ca.issue_cert(name)
        certificate, key = self.directory / f"{name}.pem", self.directory / f"{name}-key.pem"
        certificate.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(key)
        return certificate, key


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@asynccontextmanager
async def serving_both(files: TlsFiles) -> AsyncGenerator[Bound]:
    """A server with TLS over HTTP and gRPC."""
    ready: asyncio.Future[Bound] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    with fail_after(20):
        async with asyncio.TaskGroup() as group:
            app = App(echo_agent(), drain_seconds=0)
            serving = Serving(port=0, grpc_port=0, tls=files)
            group.create_task(serve(app, serving, on_ready=ready.set_result, stop=stop))
            try:
                yield await ready
            finally:
                stop.set()


@pytest.mark.parametrize("binding", list(Binding))
async def test_a_caller_shows_its_certificate_over_every_binding(authority: Authority, binding: Binding) -> None:
    certificate, key = authority.files("127.0.0.1")
    files = TlsFiles(
        certificate=certificate,
        key=key,
        client_authority=authority.file,
        client_certificates=ClientCertificates.REQUIRED,
    )
    mine, my_key = authority.files("me.example")
    async with serving_both(files) as bound:
        tls = Tls(authorities=authority.file, certificate=mine, key=my_key)
        async with Client(bound.url, bindings=[binding], tls=tls, retries=ONCE) as client:
            assert (await client.send("hello")).text == "hello"
        with pytest.raises(UnreachableError):
            async with Client(bound.url, tls=Tls(authorities=authority.file), retries=ONCE):
                pass


async def test_a_server_whose_authority_is_not_trusted_is_not_talked_to(authority: Authority) -> None:
    certificate, key = authority.files("127.0.0.1")
    async with serving_both(TlsFiles(certificate=certificate, key=key)) as bound:
        with pytest.raises(UnreachableError, match="its certificate cannot be trusted") as caught:
            async with Client(bound.url, retries=ONCE):
                pass
        assert caught.value.was_sent is False


async def test_who_speaks_tls_to_a_server_without_it_is_told_so() -> None:
    async with running(App(echo_agent(), drain_seconds=0)) as http:
        with pytest.raises(UnreachableError, match=r"TLS fails: .*does it speak plain http\?"):
            async with Client(f"https://127.0.0.1:{http.base_url.port}", retries=ONCE):
                pass


@pytest.mark.parametrize(("url", "complaint"), [("", "is empty"), ("ftp://agent.example", "must start with http://")])
async def test_what_is_no_url_of_an_agent_is_said(url: str, complaint: str) -> None:
    with pytest.raises(ForbiddenTargetError, match=complaint):
        async with Client(url):
            pass


def test_files_that_cannot_be_read_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        Tls(authorities=tmp_path / "none.pem").context()
    assert Tls().context().verify_mode is ssl.CERT_REQUIRED


# --- gRPC to checked addresses ----------------------------------------------------------------------------------------


def hello() -> r.SendMessageRequest:
    return r.SendMessageRequest(Message("m-1", Role.USER, (TextPart("hello"),)))


class Anywhere:
    """Rules that find every address public, so that a server of this machine can stand for one."""

    def check_host(self, host: str) -> None:
        return None

    def check_addresses(self, host: str, addresses: Sequence[Any]) -> None:
        """Allow them."""


def pinned(url: str, names: Names, tls: Tls | None = None) -> GrpcTransport:
    import grpc

    from parley.network.pinned import PinnedNetwork

    network = PinnedNetwork(Anywhere(), names)
    credentials = None
    if tls is not None and tls.authorities is not None:
        credentials = grpc.ssl_channel_credentials(tls.authorities.read_bytes())
    interface = face(url, Binding.GRPC)
    route = GrpcRoute(url, network, is_encrypted=credentials is not None, connect_seconds=10)
    return GrpcTransport(interface, Version.V1_0, credentials=credentials, route=route)


async def test_grpc_goes_to_the_checked_address_and_tls_still_asks_for_the_name(authority: Authority) -> None:
    certificate, key = authority.files("agents.example")
    async with serving_both(TlsFiles(certificate=certificate, key=key)) as bound:
        assert bound.grpc_target is not None
        port = bound.grpc_target.rpartition(":")[2]
        names = Names(["127.0.0.1"])
        transport = pinned(f"grpcs://agents.example:{port}", names, Tls(authorities=authority.file))
        for _ in range(2):
            task = await transport.call(ops.SEND_MESSAGE, hello(), CallOptions(timeout=5))
            assert isinstance(task, Task)
        assert names.asked == ["agents.example"]
        await transport.close()
        stranger = pinned(f"grpcs://other.example:{port}", names, Tls(authorities=authority.file))
        with pytest.raises(UnreachableError):
            await stranger.call(ops.SEND_MESSAGE, hello(), CallOptions(timeout=5))
        await stranger.close()


async def test_grpc_resolves_a_name_again_when_nobody_was_there() -> None:
    app = App(echo_agent())
    server = GrpcServer(app, http_url="http://127.0.0.1")
    with fail_after(20):
        async with app.running():
            port = await server.start("127.0.0.1", 0)
            # Nothing, nobody, and then the family that is not the first.
            names = Names(OSError("no such name"), [], ["::1", "127.0.0.9"], ["::1"], ["::1", "127.0.0.1"])
            transport = pinned(f"grpc://agents.example:{port}", names)
            for _ in range(4):
                with pytest.raises(UnreachableError) as caught:
                    await transport.call(ops.SEND_MESSAGE, hello(), CallOptions(timeout=5))
                assert caught.value.was_sent is False
            stream = transport.stream(ops.SEND_STREAMING_MESSAGE, hello(), CallOptions(timeout=5))
            events = [received.event async for received in stream]
            assert isinstance(events[0], Task)
            await transport.close()
            await server.stop()
    assert names.asked == ["agents.example"] * 5


async def test_grpc_streams_that_find_nobody_resolve_again_too() -> None:
    names = Names(["::1"])
    transport = pinned("grpc://agents.example:9", names)
    with fail_after(20):
        for _ in range(2):
            with pytest.raises(UnreachableError):
                await anext(transport.stream(ops.SEND_STREAMING_MESSAGE, hello(), CallOptions(timeout=5)))
    await transport.close()
    assert names.asked == ["agents.example"] * 2
