"""Runs an app on HTTP and gRPC ports, from start to graceful shutdown.

The order matters. Ports are bound first, so that an error is known before the store is opened; then the app starts,
then connections are accepted. SIGTERM, SIGINT and a request to drain in the store stop it in reverse order: say that it
is not ready, and after a delay for load balancers accept nothing more, drain the app (runs finish or are left for
another process; streams end with an error that tells readers to subscribe again), and close. A second signal kills the
process at once. That loses nothing: everything a caller has seen is stored. SIGHUP reloads certificates, but stops a
server whose terminal was closed.
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
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from parley.protocol.errors import ParleyError
from parley.server.app import App
from parley.server.listener.browser_guard import BrowserGuard
from parley.server.listener.limits import ListenerLimits
from parley.server.listener.listener import BACKLOG, Listener
from parley.server.listener.tls import TlsError, TlsFiles

if TYPE_CHECKING:
    from parley.server.bindings.grpc import GrpcServer

GRACE_SECONDS = 5.0
"""The time to write replies after the app has drained."""

LONG_SECONDS = 86_400.0

logger = logging.getLogger(__name__)


class CannotServeError(ParleyError):
    """The app cannot be served with these settings."""


class PortError(CannotServeError):
    """A port cannot be used."""

    def __init__(self, port: int, reason: str) -> None:
        self.port = port
        super().__init__(reason)


class HostError(CannotServeError):
    """The host is not an address of this machine."""


class OpenToNetworkError(CannotServeError):
    """A server without authentication would be reachable from the network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """The settings of a server: ports, TLS, proxies and limits."""

    host: str = "127.0.0.1"
    port: int = 8080
    """0 picks a free port."""
    or_free_port: bool = False
    """Pick a free port if `port` cannot be used."""
    grpc_port: int | None = None
    """None turns gRPC off, and does not import it."""
    public_grpc: str | None = None
    """The gRPC URL in the cards. Without it, cards name the host of the request and the gRPC port."""
    tls: TlsFiles | None = None
    allow_anonymous: bool = False
    """Let other machines reach an app without authentication."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks whose `X-Forwarded-For` and `X-Forwarded-Proto` headers are used."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names that are accepted besides that of the public URL; `.example.com` includes all subdomains.

    On loopback, only loopback names and these are accepted; elsewhere every name is, unless this setting names some.
    """
    access_log: bool = False
    drain_delay: float = 0.0
    """Seconds between not being ready and accepting nothing more, in which load balancers find it out."""
    listening: tuple[int, ...] = ()
    """The descriptors of sockets that listen already, which several processes share; then gRPC shares its port, too."""
    limits: ListenerLimits = field(default_factory=ListenerLimits)


@dataclass(frozen=True, slots=True)
class Bound:
    """The URLs of a running app, as seen from its own machine."""

    url: str
    """Without a trailing slash."""
    grpc_target: str | None
    """`host:port`"""


async def serve(
    app: App,
    serving: Serving | None = None,
    *,
    on_start: Callable[[], Awaitable[None]] | None = None,
    on_ready: Callable[[Bound], None] | None = None,
    on_drain_asked: Callable[[], None] | None = None,
    on_drain: Callable[[int], None] | None = None,
    on_hangup: Callable[[], None] | None = None,
    log_fields: Mapping[str, object] | None = None,
    replica: str = "",
    stop: asyncio.Event | None = None,
) -> None:
    """Serve until SIGTERM, SIGINT, `stop` or a request in the store, then drain.

    `on_start` is awaited when the app has started and before it can be called; what it raises, `serve` raises.
    `on_ready` gets the URLs when it can be called. `on_drain_asked` is called if a request in the store ends the
    server. `on_drain` gets the number of active runs. `replica` is the name of the server among those that share its
    store.

    With `log_fields`, the log line about the start has these fields, `url` and `grpc`, for programs to read.

    Raises:
        OpenToNetworkError: the app has no authentication, the host is not loopback, and `allow_anonymous` is not set.
        HostError: the host is not an address of this machine.
        PortError: a port is in use or not permitted.
        TlsError: the TLS files cannot be used.
        StoreError: the store cannot be opened.
    """
    serving = serving or Serving()
    stop = stop or asyncio.Event()
    if app.is_unauthenticated and not serving.allow_anonymous:
        refuse_network(serving.host)
    context = serving.tls.context() if serving.tls else None
    sockets = _inherited(serving.listening) or _bind(serving)
    try:
        if serving.grpc_port and not serving.listening:  # gRPC itself only logs why a port cannot be used
            _close(bind(serving.host, serving.grpc_port))
        listener = Listener(
            _guarded(app, serving),
            limits=serving.limits,
            tls=context,
            trusted_proxies=serving.trusted_proxies,
            access_log=serving.access_log,
        )
        bound = Bound(_url(serving, sockets[0].getsockname()[1]), None)
        own_url = _own_url(serving, sockets[0].getsockname()[1])
        app.describe_replica(replica, own_url, hosts=serving.allowed_hosts)
        with _signals(stop, _hangup(serving.tls, context, on_hangup)):
            async with app.running():
                if on_start is not None:
                    await on_start()
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
                    if await _until_stopped(app, stop) and on_drain_asked is not None:
                        on_drain_asked()
                    await _announce_drain(app, serving, listener, grpc_server)
                    if on_drain is not None:
                        on_drain(active_runs(app))
                finally:
                    await _drain(app, listener, grpc_server)
    finally:
        _close(sockets)


def _guarded(app: App, serving: Serving) -> BrowserGuard:
    """The app behind a browser guard for its host names."""
    on_loopback = is_loopback(serving.host)
    return BrowserGuard(
        app,
        is_loopback=on_loopback,
        # On loopback the host to listen on is accepted too; it may be the name of the machine.
        allowed_hosts=(*serving.allowed_hosts, serving.host) if on_loopback else serving.allowed_hosts,
        own_urls=app.own_urls,
        allowed_origins=app.cors_origins,
    )


def active_runs(app: App) -> int:
    """How many runs of all agents are running or queued."""
    return sum(working + waiting for working, waiting in app.engine.runs.by_agent().values())


async def _until_stopped(app: App, stop: asyncio.Event) -> bool:
    """Wait until the server is to end; whether a request in the store asked for it."""
    waiting = [asyncio.create_task(event.wait()) for event in (stop, app.local_engine.drain_asked)]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
    if stop.is_set():
        return False
    logger.info("Another process has asked this server to drain")
    return True


async def _announce_drain(app: App, serving: Serving, listener: Listener, grpc_server: GrpcServer | None) -> None:
    """Let health checks say that the server drains, and serve on for the time that load balancers need to notice."""
    app.health.is_draining = True
    listener.end_kept_alive()
    if grpc_server is not None:
        await grpc_server.refresh_health()
    if serving.drain_delay:
        logger.info("Draining in %g seconds: requests are still accepted", serving.drain_delay)
        await asyncio.sleep(serving.drain_delay)


async def _drain(app: App, listener: Listener, grpc_server: GrpcServer | None) -> None:
    listener.stop_accepting()
    await asyncio.sleep(0)  # the event loop closes the listening sockets in its next iteration
    logger.info("Draining: no new requests are accepted")
    # The app ends its own calls when it drains, so gRPC needs no earlier limit.
    stopping = asyncio.create_task(grpc_server.stop(LONG_SECONDS)) if grpc_server else None
    await app.drain()
    await listener.close(grace=GRACE_SECONDS)
    if grpc_server is not None and stopping is not None:
        await asyncio.wait([stopping], timeout=GRACE_SECONDS)
        await grpc_server.stop(0)
        await stopping
    logger.info("Stopped")


async def _start_grpc(app: App, serving: Serving, bound: Bound, port: int) -> tuple[GrpcServer, Bound]:
    # gRPC is optional, and importing it takes longer than everything else together.
    from parley.server.bindings.grpc import GrpcServer

    server = GrpcServer(app, http_url=bound.url, shares_port=bool(serving.listening))
    credentials = serving.tls.grpc_credentials() if serving.tls else None
    try:
        port = await server.start(serving.host, port, credentials)
    except OSError as error:
        raise PortError(port, str(error)) from error
    if serving.public_grpc is not None:
        app.announce_grpc(port, serving.public_grpc)
    return server, Bound(bound.url, f"{_reachable(serving.host)}:{port}")


def run(main: Coroutine[object, object, None]) -> None:
    """Run a coroutine in uvloop, with the highest number of open files that the system allows."""
    tune_collector()
    if sys.platform == "win32":
        asyncio.run(main)
    else:
        import resource

        import uvloop

        # A connection is an open file. The usual soft limit of 1,024 is meant for programs that use select().
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        uvloop.run(main)


def tune_collector() -> None:
    """Make the garbage collector run less often. Call it when everything is imported.

    Python looks for reference cycles after 700 new objects, which is every few requests, and each time visits a part of
    all tasks in memory. Cycles are rare here: reference counts free nearly everything. This halves the cost of a send.
    """
    gc.collect()
    gc.freeze()  # existing objects, such as modules, are never freed
    gc.set_threshold(50_000, 20, 50)


# --- ports ------------------------------------------------------------------------------------------------------------


def bind(host: str, port: int) -> list[socket.socket]:
    """Listen on all addresses of a host, on the same port.

    Raises:
        PortError: the port is in use or not permitted.
        HostError: the host is not an address of this machine.
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
            opened.listen(BACKLOG)  # only this fails if another process has bound the same port
        except OSError as error:
            opened.close()
            problem = error
            if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                continue  # the hosts file may give localhost an IPv6 address although the machine has no IPv6
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


def _bind(serving: Serving) -> list[socket.socket]:
    try:
        return bind(serving.host, serving.port)
    except PortError:
        if not serving.or_free_port:
            raise
    return bind(serving.host, 0)


def _inherited(descriptors: Iterable[int]) -> list[socket.socket]:
    sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
    for each in sockets:
        each.setblocking(False)
    return sockets


def _host_error(host: str) -> HostError:
    return HostError(f"Invalid host: {host} is not an address of this machine. Use 127.0.0.1, or 0.0.0.0 for all.")


def _why_not(host: str, port: int, problem: OSError | None) -> str:
    match problem.errno if problem else None:
        case errno.EADDRINUSE:
            return f"Port {port} on {host} is in use. Stop the program that uses it, or choose another port."
        case errno.EACCES | errno.EPERM:
            return f"No permission for port {port} on {host}: ports below 1024 need root. Choose another port."
        case _:
            return f"Port {port} on {host} cannot be used: {problem}"


def _close(sockets: Iterable[socket.socket]) -> None:
    for each in sockets:
        each.close()


def refuse_network(host: str) -> None:
    """Check that only this machine can reach a host.

    Raises:
        OpenToNetworkError: other machines can reach it.
        HostError: the host cannot be resolved.
    """
    try:
        is_safe = _is_loopback(host)
    except socket.gaierror as error:
        raise _host_error(host) from error
    if not is_safe:
        raise OpenToNetworkError(
            f"Every machine that can reach {host} could use the agent, because no security scheme is configured. "
            "Configure one, listen on 127.0.0.1 only, or allow anonymous callers."
        )


def is_loopback(host: str) -> bool:
    """Whether all addresses of a host are loopback addresses. False if it cannot be resolved."""
    try:
        return _is_loopback(host)
    except socket.gaierror:
        return False


def _is_loopback(host: str) -> bool:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return all(ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback for *_, address in found)


def _url(serving: Serving, port: int) -> str:
    return f"{'https' if serving.tls else 'http'}://{_reachable(serving.host)}:{port}"


def _own_url(serving: Serving, port: int) -> str:
    """The URL for operators of several machines."""
    host = socket.gethostname() if serving.host in ("", "0.0.0.0", "::") else _reachable(serving.host)
    return f"{'https' if serving.tls else 'http'}://{host}:{port}"


def _reachable(host: str) -> str:
    """A host that a client on this machine can connect to."""
    if host in ("", "0.0.0.0", "::"):
        return "localhost"
    return f"[{host}]" if ":" in host else host


# --- signals ----------------------------------------------------------------------------------------------------------


@contextmanager
def _signals(stop: asyncio.Event, on_hangup: Callable[[], None]) -> Generator[None]:
    """Let the first SIGTERM or SIGINT set the event, the second one kill the process, and SIGHUP call `on_hangup`."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread can handle signals
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
        # SIGHUP is also sent when the terminal is closed, and then stops the server, unless nohup started it.
        needs_terminal = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN and has_terminal()

        def hang_up(_number: int, _frame: object) -> None:
            is_closed = needs_terminal and not has_terminal()
            loop.call_soon_threadsafe(stop.set if is_closed else on_hangup)

        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, hang_up)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def has_terminal() -> bool:
    """Whether this process has a controlling terminal."""
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
                logger.info("The certificate was reloaded")
            except TlsError as error:
                logger.error("The certificate was not reloaded; the old one stays in use: %s", error)
        if also is not None:
            also()

    return hang_up
