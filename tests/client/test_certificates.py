"""Client certificates over HTTP and gRPC, with real TLS: who gets to see them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from parley.client.client import Client
from parley.client.credentials.credentials import Credentials
from parley.client.errors import CredentialsError
from parley.client.transports.connections import Connections, Tls
from parley.client.transports.transport import CallOptions
from parley.protocol.cards import Binding
from parley.protocol.errors import UnauthenticatedError
from parley.server.app import App
from parley.server.listener.tls import ClientCertificates, TlsFiles
from parley.server.run import Bound, Serving, serve
from parley.server.security.authentication import Security
from parley.server.security.schemes.mutual_tls import MutualTls
from tests.deadlines import fail_after
from tests.server.serving import echo_agent

pytestmark = pytest.mark.anyio

AUTHORITY = trustme.CA()


def issue(directory: Path, name: str) -> tuple[Path, Path]:
    """Files with a certificate for a name, and its key."""
    issued = AUTHORITY.issue_cert(name, "localhost")
    certificate, key = directory / f"{name}.pem", directory / f"{name}.key"
    certificate.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(key)
    return certificate, key


@asynccontextmanager
async def agent(directory: Path, clients: ClientCertificates) -> AsyncGenerator[Bound]:
    """An agent that demands a certificate of the authority."""
    AUTHORITY.cert_pem.write_to_path(directory / "ca.pem")
    certificate, key = issue(directory, "127.0.0.1")
    files = TlsFiles(
        certificate=certificate, key=key, client_authority=directory / "ca.pem", client_certificates=clients
    )
    app = App(echo_agent(), security=Security({"tls": MutualTls()}), drain_seconds=0)
    ready: asyncio.Future[Bound] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    serving = Serving(port=0, grpc_port=0, tls=files)
    with fail_after(20):
        running = asyncio.ensure_future(serve(app, serving, on_ready=ready.set_result, stop=stop))
        try:
            done, _ = await asyncio.wait({running, ready}, return_when=asyncio.FIRST_COMPLETED)
            if running in done:
                await running
            yield ready.result()
        finally:
            stop.set()
            await running


def ada(directory: Path) -> Tls:
    certificate, key = issue(directory, "ada@example.com")
    return Tls(authorities=directory / "ca.pem", certificate=certificate, key=key)


@pytest.mark.parametrize("binding", [Binding.JSONRPC, Binding.HTTP_JSON, Binding.GRPC])
async def test_an_agent_sees_the_certificate_over_every_binding(binding: Binding, tmp_path: Path) -> None:
    async with agent(tmp_path, ClientCertificates.REQUIRED) as bound:
        origin = f"grpcs://{bound.grpc_target}"
        credentials = Credentials({"mutual-tls": ada(tmp_path)}, origins=[origin])
        async with Client(bound.url, credentials=credentials, bindings=[binding]) as client:
            assert (await client.send("hello")).text == "hello"


async def test_without_a_certificate_an_agent_that_demands_one_is_not_called(tmp_path: Path) -> None:
    async with agent(tmp_path, ClientCertificates.OPTIONAL) as bound:
        trusting: Any = Tls(authorities=tmp_path / "ca.pem")
        async with Client(bound.url, credentials=Credentials({"other": trusting})) as client:
            with pytest.raises(CredentialsError, match="a client certificate"):
                await client.send("hello")


async def test_a_certificate_is_shown_to_the_origins_it_is_for_and_to_no_others(tmp_path: Path) -> None:
    async with agent(tmp_path, ClientCertificates.OPTIONAL) as bound:
        connections = Connections(tls=ada(tmp_path))
        try:
            connections.trust_address("127.0.0.1")
            url = f"{bound.url.rstrip('/')}/tasks"
            asked = [(await connections.channel.exchange("GET", url, b"", CallOptions({"a2a-version": "1.0"}))).status]
            connections.trust(bound.url)
            asked.append(
                (await connections.channel.exchange("GET", url, b"", CallOptions({"a2a-version": "1.0"}))).status
            )
            assert asked == [UnauthenticatedError.row.http, 200]
        finally:
            await connections.close()
