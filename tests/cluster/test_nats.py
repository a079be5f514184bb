"""Hints over a real NATS server: the suite of all carriers, URLs, credentials, TLS, and foreign messages."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import nats
import pytest
from nats.errors import NoServersError

from parley.cluster.carrier import ConnectedHints, LinkError
from parley.cluster.nats import NatsAddress, NatsLink, NatsTransport, parse_nats_url
from tests.cluster.carrier_suite import AwayAndBackSuite, AwayServer, CarrierSuite, Make
from tests.cluster.listening import QUICK, Heard, events, until
from tests.services.nats import Nats, running_nats

pytestmark = pytest.mark.anyio


class NatsAway(AwayServer):
    def __init__(self, nats: Nats) -> None:
        self.url = nats.url
        self.kill, self.start = nats.kill, nats.start
        self.pause = lambda: os.kill(nats.pid, signal.SIGSTOP)
        self.resume = lambda: os.kill(nats.pid, signal.SIGCONT)


class TestNats(CarrierSuite):
    @pytest.fixture
    def make(self, nats_server: Nats, request: pytest.FixtureRequest) -> Make:
        return lambda: NatsTransport(f"{nats_server.url}/{cluster_name(request)}")

    @pytest.fixture
    def make_other_cluster(self, nats_server: Nats, request: pytest.FixtureRequest) -> Make:
        return lambda: NatsTransport(f"{nats_server.url}/{cluster_name(request)}-other")

    async def test_foreign_messages_are_ignored_with_one_log_line(
        self, nats_server: Nats, caplog: pytest.LogCaptureFixture
    ) -> None:
        url = f"{nats_server.url}/foreign"
        async with ConnectedHints(NatsTransport(url), QUICK) as a, ConnectedHints(NatsTransport(url), QUICK) as b:
            at_b = Heard(b)
            stranger = await nats.connect(nats_server.url)
            for garbage in (b"", b"\xff" * 1000, b"{}", b"\x91\x91\xcb" + bytes(8), b"\x93\x01\x02\x03"):
                await stranger.publish("foreign.hints", garbage)
            await stranger.close()
            a.publish(events(1))
            await at_b.until_told(events(1))
            assert b.problem() is None
        assert at_b.all == [events(1)]
        ours = [record for record in caplog.records if "not of Parley" in record.getMessage()]
        assert len(ours) == 2  # one of a, one of b


class TestNatsAway(AwayAndBackSuite):
    @pytest.fixture
    def server(self) -> Iterator[NatsAway]:
        with running_nats() as server:
            yield NatsAway(server)

    @pytest.fixture
    def make(self, server: NatsAway) -> Make:
        return lambda: NatsTransport(server.url)


def cluster_name(request: pytest.FixtureRequest) -> str:
    return request.node.name[:50].rstrip("]").replace("[", "-")


async def test_the_next_server_is_used_when_the_first_does_not_answer(nats_server: Nats) -> None:
    with running_nats() as gone:
        pass
    url = f"{gone.url},127.0.0.1:{nats_server.port}/several"
    async with ConnectedHints(NatsTransport(url), QUICK) as a, ConnectedHints(NatsTransport(url), QUICK) as b:
        at_b = Heard(b)
        await until(lambda: a.problem() is None and b.problem() is None)
        a.publish(events(1))
        await at_b.until_told(events(1))


async def test_a_tls_url_refuses_a_server_without_tls(nats_server: Nats) -> None:
    url = nats_server.url.replace("nats://", "tls://ada:secret@")
    async with ConnectedHints(NatsTransport(url), QUICK) as hints:
        assert hints.problem() == (
            f"No connection to NATS at tls://127.0.0.1:{nats_server.port}: "
            "the server does not use TLS; a tls:// URL needs it."
        )


@pytest.mark.parametrize("turns", range(1, 5))
async def test_a_call_that_fails_while_it_is_cancelled_leaves_no_unread_error(turns: int) -> None:
    """The runner of the tests fails a test if a task ends with an error that is not read."""

    async def fail() -> None:
        raise NoServersError

    waiting = asyncio.create_task(NatsLink("subject", lambda _: None).run(fail()))
    for _ in range(turns):
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    if not waiting.cancelled():
        assert isinstance(waiting.exception(), LinkError)
    del waiting
    gc.collect()


def test_a_file_of_credentials_needs_the_package_that_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.cluster.nats.find_spec", lambda _: None)
    with pytest.raises(ValueError, match=r"pip install 'nats-py\[nkeys\]'"):
        NatsTransport("nats://localhost?credentials=/etc/parley.creds")


def test_a_file_of_credentials_that_is_not_there_is_named_at_the_start(tmp_path: Path) -> None:
    """Not as the reason why there is no connection, which would be tried again for ever."""
    file = tmp_path / "parley.creds"
    with pytest.raises(ValueError, match=rf"cannot be read: {file}$"):
        NatsTransport(f"nats://localhost?credentials={file}")
    file.touch()
    NatsTransport(f"nats://localhost?credentials={file}")


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("nats://localhost", NatsAddress(("nats://localhost:4222",), False)),
        ("tls://nats.example:1/prod", NatsAddress(("tls://nats.example:1",), True, "prod")),
        (
            "nats://ada:p%40ss@a:1,b,[::1]:3/x_y-1?credentials=/etc/a.creds",
            NatsAddress(
                ("nats://a:1", "nats://b:4222", "nats://[::1]:3"),
                False,
                "x_y-1",
                user="ada",
                password="p@ss",
                credentials="/etc/a.creds",
            ),
        ),
        ("nats://t0ken@localhost:1", NatsAddress(("nats://localhost:1",), False, token="t0ken")),
    ],
)
def test_a_url_names_servers_the_cluster_and_credentials(url: str, address: NatsAddress) -> None:
    assert parse_nats_url(url) == address


@pytest.mark.parametrize(
    "url",
    [
        "nats://",
        "nats:///name",
        "http://localhost",
        "nats://host:99999",
        "nats://host:x",
        "nats://a,,b",
        "nats://ho st",
        "nats://host/a.b",
        "nats://host/a/b",
        "nats://host/*",
        "nats://host?x=1",
        "nats://host?credentials=",
        "nats://ada:secret@",
        "nats://[::1",
        "nats://ada:x/secret@host",
        "nats://ada:secret/x@host",
        "nats://ada:secret#x@host",
    ],
)
def test_an_invalid_url_is_refused_without_repeating_a_password(url: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 — any of several messages
        NatsTransport(url)
    assert "secret" not in str(refused.value)
