"""TLS from files: who is let in, what the application learns, and certificates that change."""

import asyncio
import os
import signal
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from starlette.types import Receive, Scope, Send

from parley import Agent
from parley.server.app import App
from parley.server.listener.limits import ListenerLimits
from parley.server.listener.listener import Listener
from parley.server.listener.tls import ClientCertificates, GrpcCertificateReload, TlsError, TlsFiles
from parley.server.run import Bound, Serving, serve
from parley.server.security.credentials import PeerCertificate
from tests.deadlines import fail_after

pytestmark = pytest.mark.anyio

AUTHORITY = trustme.CA()
STRANGER = trustme.CA()


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


def write_certificate(directory: Path) -> bytes:
    """Put a new certificate of the server into its files; the certificate in DER."""
    issued = AUTHORITY.issue_cert("127.0.0.1", "localhost")
    (directory / "cert.pem").write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(directory / "key.pem")
    return ssl.PEM_cert_to_DER_cert(issued.cert_chain_pems[0].bytes().decode())


@pytest.fixture
def files(tmp_path: Path) -> TlsFiles:
    write_certificate(tmp_path)
    AUTHORITY.cert_pem.write_to_path(tmp_path / "ca.pem")
    return TlsFiles(certificate=tmp_path / "cert.pem", key=tmp_path / "key.pem")


def with_clients(files: TlsFiles, clients: ClientCertificates) -> TlsFiles:
    authority = files.certificate.parent / "ca.pem"
    return TlsFiles(
        certificate=files.certificate, key=files.key, client_authority=authority, client_certificates=clients
    )


class Noting:
    """An application that notes the scopes it gets."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})


@asynccontextmanager
async def listening(files: TlsFiles, limits: ListenerLimits | None = None) -> AsyncGenerator[tuple[Noting, int]]:
    app = Noting()
    bound = socket.create_server(("127.0.0.1", 0))
    listener = Listener(app, tls=files.context(), limits=limits)
    with fail_after(10):
        await listener.start([bound])
        try:
            yield app, bound.getsockname()[1]
        finally:
            await listener.close()


def client_context(client: trustme.LeafCert | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    AUTHORITY.configure_trust(context)
    if client is not None:
        client.configure_cert(context)
    return context


async def ask(port: int, context: ssl.SSLContext) -> bytes:
    """The first line of the reply; nothing where the server refused, which TLS 1.3 tells after the handshake."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    except (ssl.SSLError, ConnectionError):
        return b""
    try:
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        return await reader.readline()
    except (ssl.SSLError, ConnectionError):
        return b""
    finally:
        writer.transport.abort()


async def test_a_plain_server_certificate_asks_for_no_other(files: TlsFiles) -> None:
    async with listening(files) as (app, port):
        assert (
            await ask(port, client_context(AUTHORITY.issue_cert("ada@example.com"))) == b"HTTP/1.1 204 No Content\r\n"
        )
    assert (app.scopes[0]["scheme"], app.scopes[0]["extensions"]) == ("https", {"tls": {"client_cert_der": None}})


@pytest.mark.parametrize("clients", ClientCertificates)
async def test_a_certificate_of_the_authority_reaches_the_application(
    files: TlsFiles, clients: ClientCertificates
) -> None:
    async with listening(with_clients(files, clients)) as (app, port):
        await ask(port, client_context(AUTHORITY.issue_cert("ada@example.com")))
    certificate = PeerCertificate.from_der(app.scopes[0]["extensions"]["tls"]["client_cert_der"])
    assert certificate.alternative_names == ("email:ada@example.com",)


async def test_a_caller_without_a_certificate_is_let_in_only_where_it_is_optional(files: TlsFiles) -> None:
    async with listening(with_clients(files, ClientCertificates.OPTIONAL)) as (app, port):
        await ask(port, client_context())
    assert app.scopes[0]["extensions"] == {"tls": {"client_cert_der": None}}
    async with listening(with_clients(files, ClientCertificates.REQUIRED)) as (app, port):
        assert await ask(port, client_context()) == b""
    assert app.scopes == []


@pytest.mark.parametrize("clients", ClientCertificates)
async def test_a_certificate_of_another_authority_is_refused(files: TlsFiles, clients: ClientCertificates) -> None:
    async with listening(with_clients(files, clients)) as (app, port):
        assert await ask(port, client_context(STRANGER.issue_cert("eve@example.com"))) == b""
    assert app.scopes == []


async def test_old_versions_of_tls_are_refused_and_1_3_is_preferred(files: TlsFiles) -> None:
    context = files.context()
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    names = [cipher["name"] for cipher in context.get_ciphers()]
    assert all(name.startswith(("TLS_", "ECDHE-")) for name in names)
    async with listening(files) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client_context())
        assert writer.get_extra_info("ssl_object").version() == "TLSv1.3"
        writer.transport.abort()
        del reader


async def test_a_handshake_that_does_not_go_on_is_cut_off(files: TlsFiles) -> None:
    async with listening(files, ListenerLimits(handshake_seconds=0.05)) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.transport.abort()


# --- bad files --------------------------------------------------------------------------------------------------------


async def test_what_is_wrong_with_the_files_is_said(files: TlsFiles, tmp_path: Path) -> None:
    missing, text, other, locked = (tmp_path / name for name in ("no.pem", "text.pem", "other.pem", "locked.pem"))
    text.write_text("hello")
    leaf = AUTHORITY.issue_cert("localhost")
    leaf.private_key_pem.write_to_path(other)
    key = serialization.load_pem_private_key(leaf.private_key_pem.bytes(), None)
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    cases = [
        (TlsFiles(certificate=missing, key=files.key), f"{missing} cannot be read: No such file or directory"),
        (
            TlsFiles(certificate=files.certificate, key=text),
            f"{files.certificate} and {text} are not a certificate and key in PEM format",
        ),
        (TlsFiles(certificate=files.certificate, key=other), f"{other} is not the key of {files.certificate}"),
        (
            TlsFiles(certificate=files.certificate, key=locked),
            "The key is encrypted. Decrypt it first: openssl pkey -in key.pem -out plain.pem",
        ),
        (
            TlsFiles(certificate=files.certificate, key=files.key, client_authority=text),
            f"{text} contains no certificates in PEM format",
        ),
        (
            TlsFiles(certificate=files.certificate, key=files.key, client_authority=missing),
            f"{missing} cannot be read: No such file or directory",
        ),
    ]
    for wrong, reason in cases:
        with pytest.raises(TlsError) as caught:
            wrong.context()
        assert str(caught.value) == reason


# --- renewal ----------------------------------------------------------------------------------------------------------


async def test_sighup_brings_a_renewed_certificate_to_http_and_a_broken_one_changes_nothing(
    files: TlsFiles, caplog: pytest.LogCaptureFixture
) -> None:
    hung_up: list[str] = []
    async with serving_grpc_too(files, on_hangup=lambda: hung_up.append(bound.url)) as bound:
        before = await certificate_at(bound.url)
        after = write_certificate(files.certificate.parent)
        assert after != before
        os.kill(os.getpid(), signal.SIGHUP)
        while await certificate_at(bound.url) != after:
            await asyncio.sleep(0)
        assert hung_up == [bound.url]
        files.key.write_text("broken")
        os.kill(os.getpid(), signal.SIGHUP)
        while not any(line.startswith("The certificate was not reloaded") for line in caplog.messages):
            await asyncio.sleep(0)
        assert await certificate_at(bound.url) == after


async def certificate_at(url: str) -> bytes:
    host, _, port = url.removeprefix("https://").rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=client_context())
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    return der


@asynccontextmanager
async def serving_grpc_too(files: TlsFiles, **options: Any) -> AsyncGenerator[Bound]:
    agent = Agent("Echo")
    agent.on_message(lambda turn: turn.text)
    ready: asyncio.Future[Bound] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    serving = Serving(port=0, grpc_port=0, tls=files)
    with fail_after(20):
        async with asyncio.TaskGroup() as group:
            group.create_task(serve(App(agent), serving, on_ready=ready.set_result, stop=stop, **options))
            try:
                yield await ready
            finally:
                stop.set()


async def test_grpc_has_the_same_certificates_and_the_same_rule(files: TlsFiles) -> None:
    async with serving_grpc_too(files) as bound:
        assert bound.grpc_target is not None
        assert await grpc_calls(bound.grpc_target, None) is grpc.StatusCode.OK
        write_certificate(files.certificate.parent)
        assert await grpc_calls(bound.grpc_target, None) is grpc.StatusCode.OK
        files.key.write_text("broken")
        assert await grpc_calls(bound.grpc_target, None) is grpc.StatusCode.OK
        files.key.unlink()
        assert await grpc_calls(bound.grpc_target, None) is grpc.StatusCode.OK


def test_grpc_is_given_a_certificate_when_it_has_changed_and_can_be_used(files: TlsFiles) -> None:
    """gRPC asks in a thread of its own, so here the question is asked directly."""
    renewal = GrpcCertificateReload(files)
    assert renewal() is None
    write_certificate(files.certificate.parent)
    os.utime(files.certificate, ns=(1, 1))
    assert (renewal() is None, renewal() is None) == (False, True)
    files.key.write_text("broken")
    assert renewal() is None
    files.key.unlink()
    assert renewal() is None


async def test_grpc_refuses_callers_without_a_required_certificate(files: TlsFiles) -> None:
    async with serving_grpc_too(with_clients(files, ClientCertificates.REQUIRED)) as bound:
        assert bound.grpc_target is not None
        assert await grpc_calls(bound.grpc_target, AUTHORITY.issue_cert("ada@example.com")) is grpc.StatusCode.OK
        assert await grpc_calls(bound.grpc_target, None) is grpc.StatusCode.UNAVAILABLE


async def grpc_calls(target: str, client: trustme.LeafCert | None) -> grpc.StatusCode:
    """How a health check ends. With TLS 1.3 a client knows that it is refused only when it says something."""
    chain = b"".join(pem.bytes() for pem in client.cert_chain_pems) if client else None
    key = client.private_key_pem.bytes() if client else None
    credentials = grpc.ssl_channel_credentials(AUTHORITY.cert_pem.bytes(), key, chain)
    async with grpc.aio.secure_channel(target, credentials) as channel:
        try:
            await channel.unary_unary("/grpc.health.v1.Health/Check")(b"")
        except grpc.aio.AioRpcError as error:
            return error.code()
        return grpc.StatusCode.OK
