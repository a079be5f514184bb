"""Runs an app on ports, HTTP and gRPC side by side, from the first byte to a graceful end.

The order is what matters. Ports are taken first, so that a mistake is known before the store is touched; then the app
starts, then connections are accepted. SIGTERM and SIGINT end it the other way round: accept nothing more, let the app
drain (runs finish, or are left for the next process; streams end with an error that says to come back), and close. A
second signal kills at once, which loses nothing: what anybody has seen is durable. SIGHUP reads certificates again, but
ends a server whose terminal was closed.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import ipaddress
import logging
import os
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from parley.protocol.errors import ParleyError
from parley.server.app import App
from parley.server.listener.browser_guard import BrowserGuard
from parley.server.listener.limits import ListenerLimits
from parley.server.listener.listener import BACKLOG, Listener
from parley.server.listener.tls import TlsError, TlsFiles

if TYPE_CHECKING:
    from parley.server.bindings.grpc import GrpcServer

GRACE_SECONDS = 5.0
"""What replies get after the app has drained: they are decided, and have only to be written."""

LONG_SECONDS = 86_400.0

logger = logging.getLogger(__name__)


class CannotServeError(ParleyError):
    """The app cannot be served like this."""


class PortError(CannotServeError):
    """A port cannot be had."""

    def __init__(self, port: int, reason: str) -> None:
        self.port = port
        super().__init__(reason)


class HostError(CannotServeError):
    """The host is none of this machine's."""


class OpenToNetworkError(CannotServeError):
    """A server that asks nobody for credentials would be reachable from the network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """Where and how an app is served."""

    host: str = "127.0.0.1"
    port: int = 8080
    """0 picks a free one."""
    grpc_port: int | None = None
    """None serves no gRPC, and does not import it."""
    public_grpc: str | None = None
    """Where callers reach gRPC, as the cards say it; without it, `host:port` of the host they know and that port."""
    tls: TlsFiles | None = None
    allow_anonymous: bool = False
    """Let an app without security schemes be reached from other machines."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed."""
    allowed_hosts: tuple[str, ...] = ()
    """Names that the server answers to beside those of its public URL; `.example.com` stands for all below it.

    On loopback it answers to loopback names and these only; elsewhere to every name, unless there are some here.
    """
    access_log: bool = False
    limits: ListenerLimits = field(default_factory=ListenerLimits)


@dataclass(frozen=True, slots=True)
class Bound:
    """Where an app is to be found, from the machine it runs on."""

    url: str
    """Without a slash at the end."""
    grpc_target: str | None
    """`host:port`"""


async def serve(
    app: App,
    serving: Serving | None = None,
    *,
    on_ready: Callable[[Bound], None] | None = None,
    on_drain: Callable[[int], None] | None = None,
    on_hangup: Callable[[], None] | None = None,
    log_fields: Mapping[str, object] | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Serve until SIGTERM, SIGINT or `stop`, then drain; `on_drain` is told how many runs are under way then.

    `log_fields` makes the log line that says where it serves one for machines: with these fields, `url` and `grpc`.

    Raises:
        OpenToNetworkError: the app is open, the host is not loopback, and nobody said that this is meant.
        HostError: the host is none of this machine's.
        PortError: a port is taken, or not ours to take.
        TlsError: the files cannot be used.
        StoreError: the store cannot be opened.
    """
    serving = serving or Serving()
    stop = stop or asyncio.Event()
    if app.is_unauthenticated and not serving.allow_anonymous:
        refuse_network(serving.host)
    context = serving.tls.context() if serving.tls else None
    sockets = bind(serving.host, serving.port)
    try:
        if serving.grpc_port:  # gRPC only logs why a port cannot be had
            _close(bind(serving.host, serving.grpc_port))
        listener = Listener(
            _guarded(app, serving),
            limits=serving.limits,
            tls=context,
            trusted_proxies=serving.trusted_proxies,
            access_log=serving.access_log,
        )
        with _signals(stop, _hangup(serving.tls, context, on_hangup)):
            async with app.running():
                bound = Bound(_url(serving, sockets[0].getsockname()[1]), None)
                grpc_server = None
                if serving.grpc_port is not None:
                    grpc_server, bound = await _start_grpc(app, serving, bound, serving.grpc_port)
                try:
                    await listener.start(sockets)
                    where = {"url": bound.url, "grpc": bound.grpc_target}
                    fields = None if log_fields is None else {**where, **log_fields}
                    logger.info("Serving at %s", bound.url, extra=fields)
                    if on_ready is not None:
                        on_ready(bound)
                    await stop.wait()
                    if on_drain is not None:
                        on_drain(runs_under_way(app))
                finally:
                    await _drain(app, listener, grpc_server)
    finally:
        _close(sockets)


def _guarded(app: App, serving: Serving) -> BrowserGuard:
    """The app behind a guard that knows at which address it is served."""
    on_loopback = is_loopback(serving.host)
    return BrowserGuard(
        app,
        is_loopback=on_loopback,
        # On loopback the name that it was told to listen at is its own, such as that of the machine.
        allowed_hosts=(*serving.allowed_hosts, serving.host) if on_loopback else serving.allowed_hosts,
        own_urls=app.own_urls,
        allowed_origins=app.cors_origins,
    )


def runs_under_way(app: App) -> int:
    """How many runs of all agents are at work or wait for their turn."""
    return sum(service.engine.runs.working + service.engine.runs.waiting for service in app.services.values())


async def _drain(app: App, listener: Listener, grpc_server: GrpcServer | None) -> None:
    listener.stop_accepting()
    await asyncio.sleep(0)  # the loop closes what it listens at in its next round
    logger.info("Draining: nothing new is accepted")
    # The app itself ends its calls when it drains; gRPC needs no limit before that.
    stopping = asyncio.create_task(grpc_server.stop(LONG_SECONDS)) if grpc_server else None
    await app.drain()
    await listener.close(grace=GRACE_SECONDS)
    if grpc_server is not None and stopping is not None:
        await asyncio.wait([stopping], timeout=GRACE_SECONDS)
        await grpc_server.stop(0)
        await stopping
    logger.info("Stopped")


async def _start_grpc(app: App, serving: Serving, bound: Bound, port: int) -> tuple[GrpcServer, Bound]:
    # Importing gRPC takes longer than everything else together, and not everybody has it.
    from parley.server.bindings.grpc import GrpcServer

    server = GrpcServer(app, http_url=bound.url)
    credentials = serving.tls.grpc_credentials() if serving.tls else None
    try:
        port = await server.start(serving.host, port, credentials)
    except OSError as error:
        raise PortError(port, str(error)) from error
    if serving.public_grpc is not None:
        app.announce_grpc(port, serving.public_grpc)
    return server, Bound(bound.url, f"{_reachable(serving.host)}:{port}")


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in the event loop that servers of this process use, with as many files as the system allows."""
    tune_collector()
    if sys.platform == "win32":
        asyncio.run(main)
    else:
        import resource

        import uvloop

        # A connection is a file. The usual soft limit of 1,024 is for programs that use select().
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        uvloop.run(main)


def tune_collector() -> None:
    """Let the garbage collector run as often as a server needs it; call it when everything is imported.

    Python looks for cycles after 700 new objects, which is every few requests, and each time looks at a part of all
    tasks in memory. Reference counts free nearly everything here; cycles are rare, and can wait. It halves the cost of
    a send.
    """
    gc.collect()
    gc.freeze()  # what is there now stays for good
    gc.set_threshold(50_000, 20, 50)


# --- ports ------------------------------------------------------------------------------------------------------------


def bind(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen at every address a host has, all at one port.

    Raises:
        PortError: the port is taken, or not ours to take.
        HostError: the host is none of this machine's.
    """
    bound: list[socket.socket] = []
    problem: OSError | None = None
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise _host_error(host) from error
    for family, kind, protocol, _, address in dict.fromkeys(found):
        if port == 0 and bound:
            address = (address[0], bound[0].getsockname()[1], *address[2:])
        opened = socket.socket(family, kind, protocol)
        try:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            opened.bind(address)
            opened.listen(BACKLOG)  # until now two may bind the same port
        except OSError as error:
            opened.close()
            problem = error
            if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                continue  # localhost has an IPv6 address in the hosts file of machines without IPv6
            break
        opened.setblocking(False)
        bound.append(opened)
    else:
        if bound:
            return bound
    _close(bound)
    if problem is not None and problem.errno == errno.EADDRNOTAVAIL:
        raise _host_error(host) from problem
    raise PortError(port, _why_not(host, port, problem)) from problem


def _host_error(host: str) -> HostError:
    return HostError(f"{host} is no address of this machine. Use 127.0.0.1, 0.0.0.0 for all, or one that it has.")


def _why_not(host: str, port: int, problem: OSError | None) -> str:
    match problem.errno if problem else None:
        case errno.EADDRINUSE:
            return f"Port {port} at {host} is in use. Stop the program that uses it, or choose another port."
        case errno.EACCES | errno.EPERM:
            return f"Port {port} at {host} may not be used: ports below 1024 are for administrators. Choose another."
        case _:
            return f"Port {port} at {host} cannot be used: {problem}"


def _close(sockets: Iterable[socket.socket]) -> None:
    for each in sockets:
        each.close()


def refuse_network(host: str) -> None:
    """Nothing, if only this machine reaches a host.

    Raises:
        OpenToNetworkError: others do.
        HostError: nobody knows the host.
    """
    try:
        is_safe = _is_loopback(host)
    except socket.gaierror as error:
        raise _host_error(host) from error
    if not is_safe:
        raise OpenToNetworkError(
            f"Anybody who reaches {host} could use the agent, because no security scheme is configured. "
            "Configure one, serve at 127.0.0.1 only, or say that it is meant."
        )


def is_loopback(host: str) -> bool:
    """Whether every address of a host is this machine's own. A host that nobody knows is not."""
    try:
        return _is_loopback(host)
    except socket.gaierror:
        return False


def _is_loopback(host: str) -> bool:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return all(ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback for *_, address in found)


def _url(serving: Serving, port: int) -> str:
    return f"{'https' if serving.tls else 'http'}://{_reachable(serving.host)}:{port}"


def _reachable(host: str) -> str:
    """A host as one can connect to it from here; every address is nowhere in particular."""
    if host in ("", "0.0.0.0", "::"):
        return "localhost"
    return f"[{host}]" if ":" in host else host


# --- signals ----------------------------------------------------------------------------------------------------------


@contextmanager
def _signals(stop: asyncio.Event, on_hangup: Callable[[], None]) -> Generator[None]:
    """SIGTERM and SIGINT set the event, once; then they kill, as they do by default. SIGHUP hangs up."""
    if threading.current_thread() is not threading.main_thread():  # then signals are somebody else's
        yield
        return
    loop = asyncio.get_running_loop()
    ending = (signal.SIGTERM, signal.SIGINT)

    def end(_number: int, _frame: object) -> None:
        for number in ending:
            signal.signal(number, signal.SIG_DFL)
        loop.call_soon_threadsafe(stop.set)

    before = {number: signal.signal(number, end) for number in ending}
    if sys.platform != "win32":
        # The same signal says that the terminal was closed. Who started us with nohup does not mind that.
        minds_terminal = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN and has_terminal()

        def hang_up(_number: int, _frame: object) -> None:
            is_closed = minds_terminal and not has_terminal()
            loop.call_soon_threadsafe(stop.set if is_closed else on_hangup)

        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, hang_up)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def has_terminal() -> bool:
    """Whether this process can be talked to from a terminal."""
    with suppress(OSError):
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
        return True
    return False


def _hangup(
    tls: TlsFiles | None, context: ssl.SSLContext | None, also: Callable[[], None] | None
) -> Callable[[], None]:
    def hang_up() -> None:
        if tls is not None and context is not None:
            try:
                tls.load_certificate(context)
                logger.info("The certificate is read again")
            except TlsError as error:
                logger.error("The old certificate stays: %s", error)
        if also is not None:
            also()

    return hang_up
