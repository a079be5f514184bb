"""Webhooks over real HTTP: what is sent, what its answers mean, and whom nobody can make this server call."""

import asyncio
import dataclasses
import ipaddress
import logging
import socket
import ssl
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from parley import Agent, Turn
from parley.dialects.registry import DIALECTS
from parley.engine.caller import Caller
from parley.engine.observer import Observer
from parley.engine.webhooks.deliveries import Deliveries, DeliveryError, DeliveryRefusedError, NoAnswerError
from parley.engine.webhooks.notifications import Notification
from parley.network.addresses import is_public, is_public_resolved
from parley.network.errors import ConnectTimeoutError
from parley.network.pinned import NameResolver
from parley.network.urls import MAX_URL
from parley.protocol.errors import InvalidParamsError
from parley.protocol.events import ArtifactUpdate, StatusUpdate
from parley.protocol.lifecycle import fold
from parley.protocol.messages import TextPart
from parley.protocol.push import PushAuthentication, PushConfig
from parley.protocol.requests import SendConfiguration, SendMessageRequest
from parley.protocol.tasks import Artifact, Task, TaskState, TaskStatus
from parley.protocol.versions import Version
from parley.server.webhooks.guard import (
    PUBLIC_ONLY,
    WebhookForbiddenError,
    WebhookPolicy,
    WebhookRules,
    check_webhook,
    check_webhook_url,
)
from parley.server.webhooks.lookups import SharedLookups, looking_up_for
from parley.server.webhooks.sender import WebhookSender
from parley.stores.interface import Owner, Store, TaskKey
from parley.stores.memory import MemoryStore
from parley.stores.sqlite.store import SqliteStore
from tests.bounded import bounded
from tests.deadlines import fail_after
from tests.network.forward_proxy import forward_proxy
from tests.network.wire import Names, Wire
from tests.stores.writes import KEY, addition, chunk, created, creation, minute

ANYWHERE = WebhookPolicy(allow_private=True)
DONE = StatusUpdate("t-1", "c-1", TaskStatus(TaskState.COMPLETED, None, minute(1)))
TASK = fold(None, [created("t-1"), chunk(2), DONE])


class Receiver:
    """An HTTP server that writes down what it gets and answers what a test wants, 200 otherwise."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.answers: deque[bytes] = deque()
        self.gate = asyncio.Event()
        self.gate.set()
        self.connections = 0
        self.port = 0
        self._arrived = asyncio.Condition()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while line := (await reader.readline()).decode():
                headers: dict[str, str] = {}
                while (header := (await reader.readline()).decode().rstrip()) != "":
                    name, _, value = header.partition(":")
                    headers[name.lower()] = value.strip()
                body = await reader.readexactly(int(headers["content-length"]))
                async with self._arrived:
                    self.requests.append((line.rsplit(" ", 1)[0], headers, body))
                    self._arrived.notify_all()
                await self.gate.wait()
                writer.write(self.answers.popleft() if self.answers else answer(200))
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def until(self, number: int) -> None:
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) >= number)

    def url(self, path: str = "/hook") -> str:
        return f"http://127.0.0.1:{self.port}{path}"


def answer(status: int, *headers: str, body: str = "") -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}", *headers, "", body]
    return "\r\n".join(lines).encode()


@asynccontextmanager
async def receiving(tls: ssl.SSLContext | None = None, address: str = "127.0.0.1") -> AsyncGenerator[Receiver]:
    receiver = Receiver()
    with fail_after(5):
        server = await asyncio.start_server(receiver.serve, address, 0, ssl=tls)
        receiver.port = server.sockets[0].getsockname()[1]
        try:
            yield receiver
        finally:
            server.close()
            receiver.gate.set()


def notification(url: str, event: Any = DONE, *, version: Version = Version.V1_0, **members: Any) -> Notification:
    return Notification(KEY, "cook", PushConfig(url, "t-1", "hook", **members), version, 7, event)


# --- what is sent -----------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_1_0_gets_the_event_itself_with_all_that_its_config_asks_for() -> None:
    async with receiving() as receiver, WebhookSender(ANYWHERE) as sender:
        authentication = PushAuthentication(("Bearer", "Basic"), "c2VjcmV0")
        told = notification(receiver.url("/hook?tenant=7"), token="t0ken", authentication=authentication)
        await sender.send(told)
        ((line, headers, body),) = receiver.requests
        assert line == "POST /hook?tenant=7"
        assert headers == {
            "host": f"127.0.0.1:{receiver.port}",
            "content-type": "application/a2a+json",
            "content-length": str(len(body)),
            "user-agent": "parley/0.1.0",
            "accept-encoding": "identity",
            "parley-event-id": "t-1:7",
            "x-a2a-notification-token": "t0ken",
            "authorization": "Bearer c2VjcmV0",
        }
        assert DIALECTS[Version.V1_0].decode_push(body) == DONE
        assert body.startswith(b'{"statusUpdate":')


@pytest.mark.anyio
@pytest.mark.parametrize("version", [Version.V0_1, Version.V0_2, Version.V0_3])
async def test_before_1_0_a_webhook_gets_the_whole_task(version: Version) -> None:
    async with receiving() as receiver, WebhookSender(ANYWHERE) as sender:
        await sender.send(notification(receiver.url(), TASK, version=version))
        ((_, headers, body),) = receiver.requests
        assert headers["content-type"] == "application/json"
        decoded = DIALECTS[version].decode_push(body)
        assert isinstance(decoded, Task)
        assert (decoded.id, decoded.status, len(decoded.artifacts)) == ("t-1", TASK.status, 1)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "authentication", [None, PushAuthentication(()), PushAuthentication((), "x"), PushAuthentication(("Bearer",))]
)
async def test_without_scheme_and_credentials_there_is_no_authorization(authentication: Any) -> None:
    async with receiving() as receiver, WebhookSender(ANYWHERE) as sender:
        await sender.send(notification(receiver.url(), authentication=authentication))
        ((_, headers, _),) = receiver.requests
        assert not {"authorization", "x-a2a-notification-token", "cookie"} & set(headers)


@pytest.mark.anyio
async def test_further_headers_can_be_added_but_not_in_place_of_the_configs() -> None:
    def trace(told: Notification) -> dict[str, str]:
        return {"traceparent": f"00-{told.seq:032x}-{1:016x}-01", "Authorization": "mine"}

    async with receiving() as receiver, WebhookSender(ANYWHERE, extra_headers=trace) as sender:
        await sender.send(notification(receiver.url(), authentication=PushAuthentication(("Bearer",), "theirs")))
        ((_, headers, _),) = receiver.requests
        assert headers["traceparent"] == f"00-{7:032x}-{1:016x}-01"
        assert headers["authorization"] == "Bearer theirs"


@pytest.mark.anyio
async def test_an_id_of_any_characters_fits_into_a_header() -> None:
    async with receiving() as receiver, WebhookSender(ANYWHERE) as sender:
        told = structs.replace(notification(receiver.url()), key=structs.replace(KEY, task_id="ü/\r\nX: y:1"))
        await sender.send(told)
        ((_, headers, _),) = receiver.requests
        assert headers["parley-event-id"] == "%C3%BC%2F%0D%0AX%3A%20y%3A1:7"


@pytest.mark.anyio
@pytest.mark.skipif(not socket.has_ipv6, reason="the machine has no IPv6")
async def test_an_ipv6_address_keeps_its_brackets() -> None:
    async with receiving(address="::1") as receiver, WebhookSender(ANYWHERE) as sender:
        await sender.send(notification(f"http://[::1]:{receiver.port}/hook"))
        ((line, headers, _),) = receiver.requests
        assert (line, headers["host"]) == ("POST /hook", f"[::1]:{receiver.port}")


@pytest.mark.anyio
async def test_connections_are_used_again_and_cookies_are_not_kept() -> None:
    async with receiving() as receiver, WebhookSender(ANYWHERE) as sender:
        receiver.answers.append(answer(204, "Set-Cookie: who=tenant-1"))
        await sender.send(notification(receiver.url()))
        await sender.send(notification(receiver.url()))
        assert receiver.connections == 1
        assert ["cookie" in headers for _, headers, _ in receiver.requests] == [False, False]


@pytest.mark.anyio
async def test_a_sender_that_was_closed_can_be_used_again() -> None:
    async with receiving() as receiver:
        sender = WebhookSender(ANYWHERE)
        await sender.close()
        for _ in range(2):
            await sender.send(notification(f"http://localhost:{receiver.port}/hook"))
            await sender.close()
        assert (len(receiver.requests), receiver.connections) == (2, 2)


@pytest.mark.anyio
async def test_proxies_of_the_environment_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would resolve the name themselves, and see what is secret."""
    async with receiving() as receiver, receiving() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url())
        async with WebhookSender(ANYWHERE) as sender:
            await sender.send(notification(receiver.url()))
        assert (len(receiver.requests), proxy.connections) == (1, 0)


# --- what answers mean ------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_any_2xx_takes_it(status: int) -> None:
    async with receiving() as receiver, WebhookSender(ANYWHERE) as sender:
        receiver.answers.append(answer(status))
        await sender.send(notification(receiver.url()))


@pytest.mark.anyio
@pytest.mark.parametrize("status", [401, 403, 404, 408, 409, 425, 429, 500, 502, 503, 504])
async def test_an_answer_that_may_change_is_worth_another_try(status: int) -> None:
    async with receiving() as receiver, WebhookSender(ANYWHERE) as sender:
        receiver.answers.append(answer(status, body="the token s3cret is wrong"))
        with pytest.raises(DeliveryError) as failure:
            await sender.send(notification(receiver.url("/s3cret"), token="s3cret"))
        assert type(failure.value) is DeliveryError
        assert str(failure.value) == f"It answered with status {status}"


@pytest.mark.anyio
@pytest.mark.parametrize("status", [301, 302, 307, 308, 400, 405, 410, 413, 415, 422, 501])
async def test_an_answer_that_will_not_change_is_final_and_no_redirect_is_followed(status: int) -> None:
    async with receiving() as receiver, receiving() as elsewhere, WebhookSender(ANYWHERE) as sender:
        receiver.answers.append(answer(status, f"Location: {elsewhere.url()}"))
        with pytest.raises(DeliveryRefusedError, match=str(status)):
            await sender.send(notification(receiver.url()))
        assert (len(receiver.requests), elsewhere.connections) == (1, 0)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), ("0", 0.0), ("", 0.0), ("-1", 0.0), ("Wed, 21 Oct 2026 07:28:00 GMT", 0.0), ("9" * 400, 0.0)],
)
async def test_a_webhook_may_say_when_to_come_back(header: str, seconds: float) -> None:
    async with receiving() as receiver, WebhookSender(ANYWHERE) as sender:
        receiver.answers.append(answer(503, f"Retry-After: {header}"))
        with pytest.raises(DeliveryError) as failure:
            await sender.send(notification(receiver.url()))
        assert failure.value.retry_after == seconds


@pytest.mark.anyio
async def test_of_a_long_answer_only_the_beginning_is_read() -> None:
    """It claims a gigabyte and sends a part of it; whoever waited for the rest would wait for ever."""
    async with receiving() as receiver, WebhookSender(ANYWHERE) as sender:
        receiver.answers.append(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n" + bytes(100_000))
        await sender.send(notification(receiver.url()))


@pytest.mark.anyio
@pytest.mark.parametrize("reply", [None, b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nslow"])
async def test_a_webhook_that_does_not_end_its_answer_is_hung_up_on(reply: bytes | None) -> None:
    async with receiving() as receiver, WebhookSender(ANYWHERE, timeout=0.05) as sender:
        if reply is None:
            receiver.gate.clear()
        else:
            receiver.answers.append(reply)
        with pytest.raises(NoAnswerError, match=r"did not answer within 0\.05 seconds"):
            await sender.send(notification(receiver.url()))


@pytest.mark.anyio
@pytest.mark.parametrize("reply", [b"220 mail.example ESMTP\r\n\r\n", b"\x16\x03\x01\x02\x00" * 50])
async def test_what_is_no_http_is_worth_another_try(reply: bytes) -> None:
    async with receiving() as receiver, WebhookSender(ANYWHERE, timeout=10) as sender:
        receiver.answers.append(reply)
        with pytest.raises(DeliveryError, match="not valid HTTP"):
            await sender.send(notification(receiver.url()))


@pytest.mark.anyio
async def test_nobody_at_the_door_is_worth_another_try() -> None:
    async with receiving() as receiver:
        url = receiver.url("/s3cret")
    with fail_after(5):
        async with WebhookSender(ANYWHERE) as sender:
            with pytest.raises(NoAnswerError) as failure:
                await sender.send(notification(url))
    assert str(failure.value) == "It could not be called: connection refused"


@pytest.mark.anyio
async def test_what_cannot_be_written_is_refused_before_anybody_is_called() -> None:
    broken = ArtifactUpdate("t-1", "c-1", Artifact("a-1", (TextPart("\ud800"),)))
    async with receiving() as receiver, WebhookSender(ANYWHERE) as sender:
        for told in (notification(receiver.url(), broken), notification(receiver.url(), token="a\r\nX-Evil: yes")):
            with pytest.raises(DeliveryRefusedError):
                await sender.send(told)
        assert receiver.connections == 0


# --- TLS --------------------------------------------------------------------------------------------------------------


def make_tls(authority: trustme.CA, *names: str) -> tuple[ssl.SSLContext, list[str | None]]:
    """A server's side of TLS, and the names by which it is called."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(server)
    called: list[str | None] = []

    def note(_: Any, name: str | None, __: Any) -> None:
        called.append(name)

    server.sni_callback = note
    return server, called


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@pytest.mark.anyio
async def test_a_checked_address_is_called_under_its_name() -> None:
    """In TLS and in the Host header, although the connection goes to the address."""
    authority = trustme.CA()
    server, called = make_tls(authority, "hook.example")

    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    policy = WebhookPolicy(allowed_hosts=("hook.example",))
    async with (
        receiving(server) as receiver,
        WebhookSender(policy, tls=trusting(authority), resolve=resolve) as sender,
    ):
        await sender.send(notification(f"https://hook.example:{receiver.port}/hook"))
        ((_, headers, _),) = receiver.requests
        assert (headers["host"], called) == (f"hook.example:{receiver.port}", ["hook.example"])


@pytest.mark.anyio
@pytest.mark.parametrize("names", [("other.example",), ()])
async def test_a_certificate_of_somebody_else_is_not_accepted(names: tuple[str, ...]) -> None:
    """Whether it is for another name, or by an authority that nobody trusts."""
    authority = trustme.CA()
    server, _ = make_tls(authority, *(names or ("hook.example",)))

    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    policy = WebhookPolicy(allowed_hosts=("hook.example",))
    tls = trusting(authority) if names else None
    async with receiving(server) as receiver, WebhookSender(policy, tls=tls, resolve=resolve) as sender:
        with pytest.raises(DeliveryError, match="its certificate cannot be trusted"):
            await sender.send(notification(f"https://hook.example:{receiver.port}/hook"))
        assert receiver.requests == []


# --- which URLs may be registered -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "https://hook.example.com",
        "https://hook.example.com:8443/path?query=1&b=%20#part",
        "HTTPS://Hook.Example.COM/",
        "https://xn--bcher-kva.example/",
        "https://a_b.example.com/",
        "https://93.184.216.34/hook",
        "https://[2606:2800:220:1:248:1893:25c8:1946]:443/hook",
        "https://1.example.com",
        "https://0x7f.example.com",
    ],
)
def test_public_urls_may_be_registered(url: str) -> None:
    check_webhook_url(url)


METADATA = [
    "169.254.169.254",
    "169.254.169.254.",
    "2852039166",
    "0xa9fea9fe",
    "0xA9FEA9FE",
    "025177524776",
    "0251.0376.0251.0376",
    "0xa9.0xfe.0xa9.0xfe",
    "169.254.43518",
    "169.16689662",
    "169.254.169.254.nip.internal",
    "00169.254.169.254",
    "169.254.169.0xfe",
    "１６９.254.169.254",
    "169。254。169。254",
    "%31%36%39.254.169.254",
    "[::ffff:169.254.169.254]",
    "[::ffff:a9fe:a9fe]",
    "[0:0:0:0:0:ffff:a9fe:a9fe]",
    "[::169.254.169.254]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b::808:808]",
    "[64:ff9b:1::a9fe:a9fe]",
    "[2002:a9fe:a9fe::1]",
    "[2001:0:a9fe:a9fe::1]",
    "[fe80::a9fe:a9fe%25eth0]",
    "[fd00:ec2::254]",
    "metadata",
    "metadata.google.internal",
    "METADATA.GOOGLE.INTERNAL",
    "metadata.google.internal.",
    "100.100.100.200",
    "192.0.0.192",
    "168.63.129.16",
]


@pytest.mark.parametrize("host", METADATA)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_no_spelling_leads_to_the_metadata_of_a_cloud(scheme: str, host: str) -> None:
    with pytest.raises(InvalidParamsError) as refusal:
        check_webhook_url(f"{scheme}://{host}/latest/meta-data/")
    assert refusal.value.path == "$.url"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hook.example.com",
        "//hook.example.com",
        "https:hook.example.com",
        "https:/hook.example.com",
        "https://",
        "https:///path",
        "https://:443/",
        "http://hook.example.com/",
        "ftp://hook.example.com/",
        "file:///etc/passwd",
        "gopher://hook.example.com/",
        "javascript:alert(1)",
        "https://user@hook.example.com/",
        "https://user:password@hook.example.com/",
        "https://hook.example.com@127.0.0.1/",
        "https://127.0.0.1#@hook.example.com/",
        "https://127.0.0.1\\@hook.example.com/",
        "https://hook.example.com\\.internal/",
        "https://hook.example.com:/",
        "https://hook.example.com:0/",
        "https://hook.example.com:99999/",
        "https://hook.example.com:port/",
        "https://hook.example.com./",
        "https://.hook.example.com/",
        "https://hook..example.com/",
        "https://-hook.example.com/",
        "https://hook example.com/",
        "https://hook.example.com/\r\nX-Evil: yes",
        "https://hook.example.com/\x00",
        " https://hook.example.com/",
        "https://bücher.example/",
        "https://ⓔxample.com/",
        "https://127.1/",
        "https://0/",
        "https://0x/",
        "https://0.0.0.0/",
        "https://255.255.255.255/",
        "https://224.0.0.1/",
        "https://10.0.0.1/",
        "https://172.31.255.255/",
        "https://192.168.1.1/",
        "https://198.18.0.1/",
        "https://256.1.1.1/",
        "https://1.2.3.4.5/",
        "https://[::]/",
        "https://[::1]/",
        "https://[fe80::1]/",
        "https://[fe80::1%eth0]/",
        "https://[2606:2800:220:1::1%25x]/",
        "https://[fc00::1]/",
        "https://[fec0::1]/",
        "https://[ff02::1]/",
        "https://[2001:db8::1]/",
        "https://[3fff::1]/",
        "https://[::1/",
        "https://[nonsense]/",
        "https://localhost/",
        "https://LOCALHOST/",
        "https://foo.localhost/",
        "https://printer.local/",
        "https://db.internal/",
        "https://redis/",
        "https://1.0.0.127.in-addr.arpa/",
        "https://" + "a" * 64 + ".example.com/",
        "https://" + "a." * 130 + "example.com/",
        "https://hook.example.com/" + "a" * MAX_URL,
    ],
)
def test_other_urls_are_refused_with_their_place(url: str) -> None:
    with pytest.raises(InvalidParamsError) as refusal:
        check_webhook_url(url, path="$.configuration.pushNotificationConfig.url")
    assert refusal.value.path == "$.configuration.pushNotificationConfig.url"


@pytest.mark.parametrize(
    ("url", "is_allowed"),
    [
        ("http://hooks.corp/a", True),
        ("http://HOOKS.corp:8080/a", True),
        ("http://a.team.internal/a", True),
        ("http://10.1.2.3/a", True),
        ("http://[fd00::7]:8080/a", True),
        ("http://team.internal/a", False),
        ("http://hooks.corp.evil.example/a", False),
        ("http://evil-hooks.corp/a", False),
        ("http://10.1.2.4/a", False),
        ("http://hook.example.com/a", False),
        ("http://user@hooks.corp/a", False),
        ("http://hooks.corp./a", False),
    ],
)
def test_whoever_runs_the_server_may_allow_hosts(url: str, is_allowed: bool) -> None:
    policy = WebhookPolicy(allowed_hosts=("hooks.corp", ".team.internal", "10.1.2.3", "fd00::7"))
    if is_allowed:
        check_webhook_url(url, policy)
    else:
        with pytest.raises(InvalidParamsError):
            check_webhook_url(url, policy)


LISTED_ONLY = WebhookPolicy(allowed_hosts=("hooks.corp", ".team.example", "93.184.216.34"), only_listed=True)


@pytest.mark.parametrize(
    ("url", "is_allowed"),
    [
        ("https://hooks.corp/a", True),
        ("http://HOOKS.corp:8080/a", True),
        ("https://a.team.example/a", True),
        ("https://93.184.216.34/a", True),
        ("https://team.example/a", False),
        ("https://hook.example.com/a", False),
        ("https://hooks.corp.example.com/a", False),
        ("https://93.184.216.35/a", False),
        ("https://127.0.0.1/a", False),
    ],
)
@pytest.mark.parametrize("allow_private", [False, True])
def test_only_the_listed_hosts_may_be_called_if_the_operator_says_so(
    url: str, is_allowed: bool, allow_private: bool
) -> None:
    policy = dataclasses.replace(LISTED_ONLY, allow_private=allow_private)
    if is_allowed:
        check_webhook_url(url, policy)
        return
    with pytest.raises(InvalidParamsError, match="not one of those that the server calls") as refusal:
        check_webhook_url(url, policy, path="$.config.url")
    assert refusal.value.path == "$.config.url"


@pytest.mark.anyio
async def test_a_host_that_is_not_listed_any_more_is_not_called() -> None:
    names = Names(["93.184.216.34"])
    async with WebhookSender(LISTED_ONLY, resolve=names) as sender:
        with pytest.raises(DeliveryRefusedError, match="not one of those that the server calls"):
            await sender.send(notification("https://hook.example.com/"))
    with pytest.raises(WebhookForbiddenError):
        WebhookRules(LISTED_ONLY).check_host("hook.example.com")
    assert len(names.answers) == 1, "it was not looked up"


def test_on_one_machine_everything_may_be_called_that_is_spelt_plainly() -> None:
    for url in ("http://localhost:1/", "http://127.0.0.1/", "http://[::1]/", "http://redis/", "http://192.168.0.1/"):
        check_webhook_url(url, ANYWHERE)
    for url in ("http://2130706433/", "http://127.1/", "ftp://localhost/", "http://a@localhost/", "http://localhost./"):
        with pytest.raises(InvalidParamsError):
            check_webhook_url(url, ANYWHERE)


@pytest.mark.parametrize(
    ("members", "path"),
    [
        ({"url": "http://10.0.0.1"}, "$.config.url"),
        ({"token": "a\r\nX: y"}, "$.config.token"),
        ({"token": "schlüssel"}, "$.config.token"),
        ({"authentication": PushAuthentication(("Bearer",), "a\nb")}, "$.config.authentication.credentials"),
        ({"authentication": PushAuthentication(("Bea\rer",), "b")}, "$.config.authentication.scheme"),
    ],
)
def test_a_config_that_no_request_can_carry_is_refused(members: dict[str, Any], path: str) -> None:
    config = PushConfig(**{"url": "https://hook.example.com/", **members})
    with pytest.raises(InvalidParamsError) as refusal:
        check_webhook(config, path="$.config")
    assert refusal.value.path == path


def test_a_config_with_everything_is_accepted() -> None:
    check_webhook(PushConfig("https://hook.example.com", None, None, "t 0", PushAuthentication(("Bearer",), "x=")))


def host_of(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    return f"[{address}]" if address.version == 6 else str(address)


@given(st.ip_addresses())
def test_an_address_is_accepted_exactly_if_it_is_public(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    """And nothing is public that the standard library knows better about."""
    if is_public(address):
        check_webhook_url(f"https://{host_of(address)}/")
        assert address.is_global
        assert not any([address.is_private, address.is_loopback, address.is_link_local, address.is_multicast])
        assert not address.is_unspecified
        assert not address.is_reserved
    else:
        with pytest.raises(InvalidParamsError):
            check_webhook_url(f"https://{host_of(address)}/")


@given(st.ip_addresses(v=4), st.integers(0, 2**64 - 1))
def test_no_ipv6_address_that_holds_an_ipv4_address_is_public(address: ipaddress.IPv4Address, other: int) -> None:
    """Unless a name leads to it: machines that have only IPv6 see all others through NAT64."""
    number = int(address)
    assert is_public_resolved(ipaddress.IPv6Address(0x64FF9B << 96 | number)) == is_public(address)
    for holder in (
        0x64FF9B << 96 | number,  # NAT64
        number,  # compatible
        0xFFFF << 32 | number,  # mapped
        0xFFFF << 48 | number,  # translated
        0x64FF9B0001 << 80 | number,  # NAT64 of one's own
        0x2002 << 112 | number << 80 | other,  # 6to4
        0x20010000 << 96 | number << 64 | other,  # Teredo, by its server
        0x20010000 << 96 | (number ^ 0xFFFFFFFF),  # Teredo, by its client
        0xFE80 << 112 | 0x5EFE << 32 | number,  # ISATAP
    ):
        assert not is_public(ipaddress.IPv6Address(holder))


# --- whom a connection reaches ----------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_name_is_resolved_once_and_the_address_that_was_checked_is_called() -> None:
    """Between a check and a second look the name could have become another."""
    names = Names(["93.184.216.34"], ["127.0.0.1"])
    wire = Wire(WebhookRules(PUBLIC_ONLY), names)
    await wire.call("rebinding.example")
    assert wire.called == ["93.184.216.34"]
    with pytest.raises(WebhookForbiddenError):
        await wire.call("rebinding.example")
    assert (wire.called, list(names.answers)) == (["93.184.216.34"], [])


@pytest.mark.anyio
@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["93.184.216.34", "10.0.0.1"],
        ["10.0.0.1", "93.184.216.34"],
        ["::ffff:169.254.169.254"],
        ["fe80::1%lo"],
        ["64:ff9b::7f00:1"],
    ],
)
async def test_a_public_name_with_an_address_that_is_not_public_is_not_called(addresses: list[str]) -> None:
    """Not even at its other addresses, and it is told nothing."""
    async with receiving() as receiver, WebhookSender(resolve=Names(addresses)) as sender:
        with pytest.raises(DeliveryRefusedError, match="not public"):
            await sender.send(notification(f"https://innocent.example:{receiver.port}/"))
        assert receiver.connections == 0


@pytest.mark.anyio
@pytest.mark.parametrize(
    "host", ["169.254.169.254", "64:ff9b::808:808", "::1", "localhost", "2130706433", "1::2::3", "a b", "x.internal"]
)
async def test_hosts_are_checked_again_when_they_are_called(host: str) -> None:
    """However the URL got past its registration."""
    wire = Wire(WebhookRules(PUBLIC_ONLY), Names())
    with pytest.raises(WebhookForbiddenError):
        await wire.call(host, 80)
    assert wire.called == []


@pytest.mark.anyio
async def test_a_webhook_whose_host_is_allowed_no_longer_is_not_called() -> None:
    async with receiving() as receiver, WebhookSender() as sender:
        with pytest.raises(DeliveryRefusedError, match="must start with https"):
            await sender.send(notification(receiver.url()))
        assert receiver.connections == 0


@pytest.mark.anyio
async def test_the_addresses_of_a_host_are_tried_in_turn() -> None:
    async with receiving() as receiver:
        policy = WebhookPolicy(allowed_hosts=("hook.example",))
        # Nobody listens at the first: the receiver has 127.0.0.1 only.
        async with WebhookSender(policy, resolve=Names(["127.0.0.2", "127.0.0.1"])) as sender:
            await sender.send(notification(f"http://hook.example:{receiver.port}/"))
        assert len(receiver.requests) == 1


@pytest.mark.anyio
async def test_a_name_without_addresses_is_worth_another_try() -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        raise OSError("No such name")

    async def hang(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        raise AssertionError

    for resolver in (resolve, Names([])):
        async with WebhookSender(resolve=resolver) as sender:
            with pytest.raises(NoAnswerError, match="no address"):
                await sender.send(notification("https://hook.example.com/"))
    with pytest.raises(ConnectTimeoutError):
        await Wire(WebhookRules(PUBLIC_ONLY), hang).call("hook.example.com", timeout=0.01)


@pytest.mark.anyio
async def test_names_are_resolved_as_the_machine_does() -> None:
    names = NameResolver()
    assert set(await names("localhost", 80)) <= {"127.0.0.1", "::1"}
    names.close()
    async with receiving() as receiver, WebhookSender(ANYWHERE) as sender:
        await sender.send(notification(f"http://localhost:{receiver.port}/"))


@pytest.mark.anyio
async def test_a_webhook_is_called_through_the_proxy_once_its_known_addresses_are_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    authority = trustme.CA()
    server, _ = make_tls(authority, "hook.example")
    names = Names(["8.8.8.8"], ["10.0.0.1"], ["8.8.8.8", "::1"])
    async with receiving(server) as receiver, forward_proxy() as proxy:
        monkeypatch.setenv("https_proxy", proxy.url)
        url = f"https://hook.example:{receiver.port}/hook"
        for _ in range(3):
            async with WebhookSender(tls=trusting(authority), resolve=names) as sender:
                if receiver.requests:
                    with pytest.raises(DeliveryRefusedError, match="not public"):
                        await sender.send(notification(url))
                else:
                    await sender.send(notification(url))
        assert (len(receiver.requests), proxy.lines) == (1, [f"CONNECT hook.example:{receiver.port}"])
        policy = WebhookPolicy(use_proxy=False, allowed_hosts=("hook.example",))
        async with WebhookSender(policy, tls=trusting(authority), resolve=Names(["127.0.0.1"])) as sender:
            await sender.send(notification(url))
        assert (len(receiver.requests), len(proxy.lines)) == (2, 1)


@pytest.mark.anyio
async def test_the_owner_of_a_webhook_does_not_learn_which_proxy_the_server_has(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with forward_proxy() as proxy:
        proxy.refusal = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n"
        monkeypatch.setenv("https_proxy", proxy.url)
        async with WebhookSender(resolve=Names(["8.8.8.8"])) as sender:
            with pytest.raises(NoAnswerError) as refused:
                await sender.send(notification("https://hook.example/"))
    expected = "It could not be called: the server's proxy opens no tunnel: it answered with status 403"
    assert str(refused.value) == expected
    assert f"the proxy 127.0.0.1:{proxy.port} opens no tunnel" in caplog.text


# --- fair between owners ----------------------------------------------------------------------------------------------


class Outcomes:
    """An observer that knows whose webhooks were called, and how that ended."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.changed = asyncio.Event()

    def delivered(self, key: TaskKey, agent: str, config_id: str, outcome: str, seconds: float) -> None:
        self.seen.append((key.owner.name, outcome))
        self.changed.set()


async def register(store: Store, owner: str, number: int, url: str) -> TaskKey:
    """A task with one event that its webhook has not been told of."""
    key = TaskKey(Owner("", owner), f"{owner}-{number}")
    await store.tasks.write(creation(key))
    await store.outbox.put(key, PushConfig(url, key.task_id, "hook"))
    await store.tasks.write(addition(1, key))
    return key


@pytest.mark.anyio
async def test_hanging_webhooks_of_one_owner_do_not_delay_those_of_another() -> None:
    """320 of them, at as many hosts, each of which takes a call and never answers."""
    hanging: list[asyncio.StreamWriter] = []
    some_hang = asyncio.Event()

    def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hanging.append(writer)
        some_hang.set()

    store, outcomes = MemoryStore(), Outcomes()
    server = await asyncio.start_server(hang, "0.0.0.0", 0)
    port = server.sockets[0].getsockname()[1]
    for number in range(320):
        await register(store, "ada", number, f"http://127.1.{number // 200}.{number % 200 + 1}:{port}/")
    async with receiving() as receiver, WebhookSender(ANYWHERE) as sender:
        deliveries = Deliveries(store, sender, observer=cast("Observer", outcomes))
        await deliveries.start()
        await some_hang.wait()
        deliveries.notify(await register(store, "grace", 0, receiver.url()))
        await outcomes.changed.wait()
        # It is the first of all calls to end: those that hang have not timed out yet.
        assert outcomes.seen == [("grace", "delivered")]
        await deliveries.stop(grace=0)
    server.close()
    for writer in hanging:
        writer.close()


@pytest.mark.anyio
async def test_names_that_are_never_resolved_hold_up_their_owner_only() -> None:
    """A lookup counts as its owner's until it ends, also when its call has given up before."""
    asked: list[str] = []
    end = asyncio.Event()

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        if host.startswith("hang"):
            await end.wait()
        return ["127.0.0.1"]

    lookups = SharedLookups(resolve, limit=8)

    async def look_up(owner: str, host: str) -> Sequence[str]:
        with looking_up_for(Owner("", owner)):
            return await lookups(host, 443)

    with fail_after(5):
        hanging = [asyncio.create_task(look_up("ada", f"hang-{number}.example")) for number in range(20)]
        while len(asked) < 4:
            await asyncio.sleep(0)
        for call in hanging[:10]:
            call.cancel()
        assert await look_up("grace", "quick.example") == ["127.0.0.1"]
        assert asked[4:] == ["quick.example"]
        end.set()
        assert await asyncio.gather(*hanging[10:]) == [["127.0.0.1"]] * 10
        assert len(asked) == 15


# --- all together -----------------------------------------------------------------------------------------------------


def agent_of(handler: Any) -> Agent:
    agent = Agent("Test")
    agent.on_message(handler)
    return agent


async def counting(turn: Turn) -> Any:
    for number in range(4):
        yield f"{number} "


COUNTED = ["working", "0 ", "1 ", "2 ", "3 ", "completed"]


def told(receiver: Receiver) -> list[str]:
    """What a receiver of 1.0 got, briefly."""
    found: list[str] = []
    for _, _, body in receiver.requests:
        event = DIALECTS[Version.V1_0].decode_push(body)
        if isinstance(event, StatusUpdate):
            found.append(event.status.state.value)
        elif isinstance(event, ArtifactUpdate):
            found += [part.text for part in event.artifact.parts if isinstance(part, TextPart)]
    return found


def request(client: Any, *urls: str) -> SendMessageRequest:
    config = PushConfig(urls[0], token="s3cret")
    return SendMessageRequest(client.message("go"), SendConfiguration(push_config=config))


@pytest.mark.anyio
async def test_a_webhook_is_told_of_a_task_from_beginning_to_end() -> None:
    async with receiving() as receiver, WebhookSender(ANYWHERE) as sender:
        async with bounded(agent_of(counting), sender=sender) as client:
            task = await client.agent.send_message(request(client, receiver.url()))
            assert isinstance(task, Task)
            await receiver.until(len(COUNTED))
        assert told(receiver) == COUNTED
        ids = [headers["parley-event-id"] for _, headers, _ in receiver.requests]
        assert ids == [f"{task.id}:{seq}" for seq in range(3, 9)]
        assert receiver.connections == 1


@pytest.mark.anyio
async def test_an_older_webhook_is_told_in_its_dialect() -> None:
    async with receiving() as receiver, WebhookSender(ANYWHERE) as sender:
        caller = Caller(version=Version.V0_3)
        async with bounded(agent_of(counting), sender=sender, caller=caller) as client:
            task = await client.agent.send_message(request(client, receiver.url()), caller)
            await receiver.until(2)
        got = [DIALECTS[Version.V0_3].decode_push(body) for _, _, body in receiver.requests]
        assert all(isinstance(each, Task) for each in got)
        assert [each.status.state.value for each in got if isinstance(each, Task)] == ["working", "completed"]
        assert DIALECTS[Version.V0_3].pushes.encode(task) == receiver.requests[-1][2]


@pytest.mark.anyio
async def test_a_slow_webhook_keeps_nobody_waiting() -> None:
    async with receiving() as receiver, WebhookSender(ANYWHERE) as sender:
        receiver.gate.clear()
        async with bounded(agent_of(counting), sender=sender) as client:
            task = await client.agent.send_message(request(client, receiver.url()))
            assert isinstance(task, Task)
            assert (task.status.state, client.text(task)) == (TaskState.COMPLETED, "0 1 2 3 ")
            await receiver.until(1)
            assert len(receiver.requests) == 1
            receiver.gate.set()
            await receiver.until(len(COUNTED))
        assert told(receiver) == COUNTED


@pytest.mark.anyio
async def test_a_failing_webhook_gets_everything_in_order_once_it_recovers(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "parley")
    async with receiving() as receiver, WebhookSender(ANYWHERE) as sender:
        receiver.answers.extend([answer(200), answer(503), b"HTTP/1.1 garbage\r\n\r\n", answer(500, body="oh")])
        async with bounded(agent_of(counting), sender=sender) as client:
            await client.agent.send_message(request(client, receiver.url()))
            while len(receiver.requests) < len(COUNTED) + 3:
                await client.clock.advance(1)
        assert told(receiver) == ["working", "0 ", "0 ", "0 ", *COUNTED[1:]]
        assert "s3cret" not in caplog.text


@pytest.mark.anyio
async def test_a_crash_loses_no_notification(tmp_path: Path) -> None:
    """What was under way is told again; the receiver can tell by its id."""
    store = SqliteStore(tmp_path / "tasks.db")
    async with receiving() as receiver, WebhookSender(ANYWHERE) as sender:
        async with bounded(agent_of(counting), sender=sender, store=store) as client:
            receiver.gate.clear()
            await client.agent.send_message(request(client, receiver.url()))
            await receiver.until(1)
            await client.crash()
            receiver.gate.set()
            await client.restart()
            await receiver.until(len(COUNTED) + 1)
        assert told(receiver) == ["working", *COUNTED]
        ids = [headers["parley-event-id"] for _, headers, _ in receiver.requests]
        assert ids[0] == ids[1]
        assert len(set(ids)) == len(COUNTED)
