"""Ports, hosts and signals of a server in this process; what needs a process of its own is in test_drain."""

import asyncio
import errno
import logging
import signal
import socket
import subprocess
import sys
import threading

import pytest

from parley import Agent
from parley.protocol.cards import Binding
from parley.server import run
from parley.server.app import App
from parley.server.run import Bound, HostError, OpenToNetworkError, PortError, Serving, bind, is_loopback, serve
from tests.deadlines import fail_after

pytestmark = pytest.mark.anyio


def echo() -> App:
    agent = Agent("Echo")
    agent.on_message(lambda turn: turn.text)
    return App(agent)


def test_every_address_of_a_host_gets_the_same_port() -> None:
    bound = bind("localhost", 0)
    try:
        assert len({each.getsockname()[1] for each in bound}) == 1
        with pytest.raises(PortError) as caught:
            bind("localhost", bound[0].getsockname()[1])
        assert caught.value.port == bound[0].getsockname()[1]
        assert str(caught.value).startswith(f"Port {caught.value.port} on localhost is in use.")
    finally:
        for each in bound:
            each.close()


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1"])
def test_a_host_that_is_not_this_machine_is_refused(host: str) -> None:
    with pytest.raises(HostError) as caught:
        bind(host, 0)
    hint = "Use 127.0.0.1, or 0.0.0.0 for all."
    assert str(caught.value) == f"Invalid host: {host} is not an address of this machine. {hint}"


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (
            errno.EACCES,
            "No permission for port 80 on 127.0.0.1: ports below 1024 need root. Choose another port.",
        ),
        (errno.ENOBUFS, "Port 80 on 127.0.0.1 cannot be used: [Errno 105] full"),
    ],
)
def test_what_the_system_refuses_is_said(monkeypatch: pytest.MonkeyPatch, number: int, reason: str) -> None:
    """Whoever runs the tests may be an administrator, so the refusal is played."""

    def refuse(*_: object) -> None:
        raise OSError(number, "full")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(PortError) as caught:
        bind("127.0.0.1", 80)
    assert str(caught.value) == reason


def test_which_hosts_are_loopback() -> None:
    hosts = ["127.0.0.1", "127.8.8.8", "::1", "localhost", "0.0.0.0", "::", "192.0.2.1", "no.such.host.invalid"]
    assert [is_loopback(host) for host in hosts] == [True, True, True, True, False, False, False, False]


async def test_an_open_app_is_not_served_to_the_network_by_accident() -> None:
    with pytest.raises(OpenToNetworkError):
        await serve(echo(), Serving(host="0.0.0.0", port=0))
    with pytest.raises(HostError):  # which is what is wrong first
        await serve(echo(), Serving(host="no.such.host.invalid", port=0))


async def test_a_server_is_ready_when_it_says_so_and_gives_its_ports_back() -> None:
    for host, name in (("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "localhost")):
        serving = Serving(host=host, port=0, allow_anonymous=True)
        bound = await served_once(serving)
        assert (bound.url.rpartition(":")[0], bound.grpc_target) == (f"http://{name}", None)
        port = int(bound.url.rpartition(":")[2])
        for each in bind(host, port):
            each.close()


async def served_once(serving: Serving) -> Bound:
    """Where a server was, which answered a request and has ended."""
    seen: list[Bound] = []
    stop = asyncio.Event()

    async def visit() -> None:
        while not seen:
            await asyncio.sleep(0)
        reader, writer = await asyncio.open_connection("127.0.0.1", int(seen[0].url.rpartition(":")[2]))
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        stop.set()
        await reader.read()
        writer.close()

    with fail_after(10):
        async with asyncio.TaskGroup() as group:
            group.create_task(serve(echo(), serving, on_ready=seen.append, stop=stop))
            group.create_task(visit())
    return seen[0]


async def test_signals_are_as_before_afterwards() -> None:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    await served_once(Serving(port=0))
    assert [signal.getsignal(number) for number in numbers] == before


async def test_hanging_up_calls_who_asked_for_it() -> None:
    stop = asyncio.Event()

    def hang_up(_: Bound) -> None:
        signal.raise_signal(signal.SIGHUP)

    with fail_after(10):
        await serve(echo(), Serving(port=0), on_ready=hang_up, on_hangup=stop.set, stop=stop)


async def test_hanging_up_leaves_a_server_alone_that_has_nothing_to_read_again() -> None:
    stop = asyncio.Event()
    drained: list[int] = []

    def hang_up(_: Bound) -> None:
        signal.raise_signal(signal.SIGHUP)
        asyncio.get_running_loop().call_later(0.01, stop.set)

    with fail_after(10):
        await serve(echo(), Serving(port=0), on_ready=hang_up, on_drain=drained.append, stop=stop)
    assert drained == [0]


@pytest.mark.parametrize("is_ignored", [False, True], ids=["", "nohup"])
async def test_a_server_ends_with_its_terminal_unless_it_was_told_not_to_mind(
    monkeypatch: pytest.MonkeyPatch, is_ignored: bool
) -> None:
    """Tests have no terminal to close, so it is played."""
    terminal = iter([True, False])
    monkeypatch.setattr(run, "has_terminal", lambda: next(terminal))
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if is_ignored else signal.SIG_DFL)
    hung_up = asyncio.Event()
    try:
        with fail_after(10):
            await serve(
                echo(),
                Serving(port=0),
                on_ready=lambda _: signal.raise_signal(signal.SIGHUP),
                on_hangup=hung_up.set,
                stop=hung_up if is_ignored else None,
            )
    finally:
        signal.signal(signal.SIGHUP, before)
    assert hung_up.is_set() == is_ignored


def test_a_process_knows_whether_it_has_a_terminal() -> None:
    ask = [sys.executable, "-c", "from parley.server.run import has_terminal; print(has_terminal())"]
    ask_in_terminal = [sys.executable, "-c", f"import pty; pty.spawn({ask!r})"]
    answers = [
        subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, check=True, start_new_session=True, timeout=30
        ).stdout.strip()
        for words in (ask, ask_in_terminal)
    ]
    assert answers == [b"False", b"True"]


async def test_the_card_names_grpc_where_callers_reach_it() -> None:
    app, stop = echo(), asyncio.Event()
    with fail_after(10):
        await serve(
            app,
            Serving(port=0, grpc_port=0, public_grpc="grpcs://grpc.example"),
            on_ready=lambda _: stop.set(),
            stop=stop,
        )
    faces = app.table.site("echo").service.cards.card("http://here").interfaces
    assert {face.url for face in faces if face.binding is Binding.GRPC} == {"grpcs://grpc.example"}


async def test_the_log_line_has_fields_for_machines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    stop, seen = asyncio.Event(), list[Bound]()

    def ready(bound: Bound) -> None:
        seen.append(bound)
        stop.set()

    with fail_after(10):
        await serve(echo(), Serving(port=0), on_ready=ready, log_fields={"store": "memory:"}, stop=stop)
    (line,) = [record for record in caplog.records if record.message == f"Serving at {seen[0].url}"]
    facts = vars(line)
    assert {name: facts[name] for name in ("url", "grpc", "store")} == {
        "url": seen[0].url,
        "grpc": None,
        "store": "memory:",
    }


def test_a_thread_serves_without_touching_signals() -> None:
    ended: list[Bound] = []
    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=lambda: ended.append(asyncio.run(served_once(Serving(port=0)))))
    thread.start()
    thread.join(10)
    assert (len(ended), signal.getsignal(signal.SIGTERM)) == (1, before)


async def test_a_grpc_port_that_somebody_takes_at_the_last_moment_is_a_port_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The port is free when it is tried and taken when gRPC wants it: nobody can time that, so the trial is skipped."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        real = bind
        monkeypatch.setattr("parley.server.run.bind", lambda host, wanted: real(host, 0 if wanted == port else wanted))
        with pytest.raises(PortError) as caught:
            await serve(echo(), Serving(port=0, grpc_port=port))
    assert caught.value.port == port


def test_addresses_that_the_machine_does_not_have_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with `localhost`, which is `::1` too in the hosts file of machines without IPv6."""
    hosts = ("127.0.0.1", "127.0.0.2", "192.0.2.1")
    found = [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, 0)) for host in hosts]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    bound = bind("several", 0)
    try:
        port = bound[0].getsockname()[1]
        assert [each.getsockname() for each in bound] == [("127.0.0.1", port), ("127.0.0.2", port)]
    finally:
        for each in bound:
            each.close()
