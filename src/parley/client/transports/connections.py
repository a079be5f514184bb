"""Opens transports to an agent's interfaces: guarded, bounded, with one connection pool for all HTTP.

gRPC is imported only when a card names it, because it is an extra.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import httpcore2

from parley.client.errors import ForbiddenTargetError
from parley.client.guard import DialRules, Guard, is_loopback, is_same_host, read_target
from parley.client.options import Bounds, Timeouts
from parley.client.transports.http import HttpChannel
from parley.client.transports.in_process import AsgiApp, InProcess
from parley.client.transports.jsonrpc import JsonRpcTransport
from parley.client.transports.rest import RestTransport
from parley.client.transports.transport import Transport
from parley.network.http import HttpNetwork, HttpRequest, HttpResponse
from parley.network.pinned import NameResolver, PinnedNetwork, Resolve, machine_tls
from parley.network.pool import ConnectionPool
from parley.network.proxies import Proxies
from parley.protocol.cards import AgentInterface, Binding
from parley.protocol.errors import PeerProtocolError
from parley.protocol.versions import Version


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """PEM files: authorities to trust (by default the machine's), and the caller's own certificate."""

    authorities: Path | None = None
    certificate: Path | None = None
    """The caller's certificate with its chain, for agents that demand mutual TLS."""
    key: Path | None = None

    def context(self) -> ssl.SSLContext:
        """An SSL context for HTTP. Raises OSError if a file cannot be read."""
        if self.authorities is not None:
            context = ssl.create_default_context(cafile=self.authorities)
        else:
            context = httpcore2.default_ssl_context()
        if self.certificate is not None:
            context.load_cert_chain(self.certificate, self.key)
        return context


class CertifiedNetwork:
    """Presents the caller's certificate only to the URLs that it is for."""

    def __init__(self, plain: HttpNetwork, certified: HttpNetwork, shows_certificate: Callable[[str], bool]) -> None:
        self._plain = plain
        self._certified = certified
        self._shows_certificate = shows_certificate

    async def send(self, request: HttpRequest, deadline: float) -> HttpResponse:
        """Send a request over the right connections."""
        network = self._certified if self._shows_certificate(request.url.text) else self._plain
        return await network.send(request, deadline)

    async def close(self) -> None:
        """Close all connections."""
        await self._plain.close()
        await self._certified.close()


class Connections:
    """The connections to one agent."""

    def __init__(
        self,
        *,
        timeouts: Timeouts | None = None,
        bounds: Bounds | None = None,
        guard: Guard | None = None,
        app: AsgiApp | None = None,
        tls: Tls | None = None,
        resolve: Resolve | None = None,
    ) -> None:
        """`app` is an ASGI application that is called in process instead of the network."""
        self.timeouts = timeouts or Timeouts()
        self.bounds = bounds or Bounds()
        self.guard = guard or Guard()
        self.is_in_process = app is not None
        self._tls = tls
        self._named: dict[str, None] = {}
        self.shows_certificate: Callable[[str], bool] = self.is_named
        """Whether the caller's certificate is presented to a URL; by default to hosts that the caller named."""
        self._rules = DialRules(self.guard)
        self._names = NameResolver()
        proxies = Proxies.of_environment() if self.guard.use_proxy else None
        self._network = PinnedNetwork(self._rules, resolve or self._names, proxies)
        network = InProcess(app) if app is not None else self._guarded(tls)
        self.channel = HttpChannel(network, timeouts=self.timeouts, bounds=self.bounds)

    def _guarded(self, tls: Tls | None) -> HttpNetwork:
        if tls is None:
            return self._pool(machine_tls())
        certified = self._pool(tls.context())
        if tls.certificate is None:
            return certified
        plain = self._pool(Tls(authorities=tls.authorities).context())
        return CertifiedNetwork(plain, certified, lambda url: self.shows_certificate(url))

    def _pool(self, tls: ssl.SSLContext) -> ConnectionPool:
        return ConnectionPool(self._network, tls, connect_seconds=self.timeouts.connect)

    def is_named(self, url: str) -> bool:
        """Whether a URL has a host that the caller named."""
        host = read_target(url).host  # at any port: gRPC and HTTP have different ones
        return any(is_same_host(read_target(named).host, host) for named in self._named)

    def trust(self, origin: str) -> None:
        """Trust a URL that the caller named: its host may have any address, and cards may point to it.

        Raises:
            ForbiddenTargetError: it must not be called.
        """
        self.guard.check_named(origin)
        self._named[origin] = None
        if self.guard.trust_named:
            self._rules.trust(read_target(origin).host)

    def trust_address(self, host: str) -> None:
        """Allow a host to have any address; cards still may not point to it."""
        self._rules.trust(host)

    def permitted(
        self, interfaces: Sequence[tuple[AgentInterface, Version]]
    ) -> Sequence[tuple[AgentInterface, Version]]:
        """The interfaces of a card that may be called, in the same order.

        Raises:
            ForbiddenTargetError: none may; the message gives the reason for the first.
        """
        refusal: ForbiddenTargetError | None = None
        permitted: list[tuple[AgentInterface, Version]] = []
        for interface, version in interfaces:
            try:
                self._check(interface)
                permitted.append((interface, version))
            except ForbiddenTargetError as error:
                refusal = refusal or error
        if refusal is not None and not permitted:
            raise refusal
        return permitted

    def connect(self, interface: AgentInterface, version: Version, channel: HttpChannel | None = None) -> Transport:
        """A transport to an interface, over `channel` instead of the usual one if given. Nothing is dialled yet.

        Raises:
            ForbiddenTargetError: the card must not point there.
            PeerProtocolError: the binding is unknown, or not defined in that version.
        """
        self._check(interface)
        channel = channel or self.channel
        match interface.binding:
            case Binding.JSONRPC:
                return JsonRpcTransport(interface, version, channel)
            case Binding.HTTP_JSON:
                return RestTransport(interface, version, channel)
            case Binding.GRPC if version in (Version.V0_3, Version.V1_0):
                return self._grpc(interface, version)
            case _:
                raise PeerProtocolError(f"A2A {version} has no binding {interface.binding}")

    def _check(self, interface: AgentInterface) -> None:
        if not self.is_in_process:
            self.guard.check_interface(interface.url, card_url=self._named_for(interface.url))
        elif interface.binding == Binding.GRPC:
            raise ForbiddenTargetError("An app in process cannot be called over gRPC")
        if interface.binding == Binding.GRPC and find_spec("grpc") is None:
            raise ForbiddenTargetError("gRPC is not installed: pip install 'parley-a2a[grpc]'")

    def _named_for(self, url: str) -> str | None:
        """The URL that the caller named, with the same host if there are several."""
        host = read_target(url).host
        same = [named for named in self._named if is_same_host(read_target(named).host, host)]
        return next(iter((*same, *self._named)), None)

    def _grpc(self, interface: AgentInterface, version: Version) -> Transport:
        import grpc

        from parley.client.transports.grpc import GrpcTransport
        from parley.client.transports.grpc_route import GrpcRoute

        credentials = None
        if self.guard.encrypts(interface.url, card_url=self._named_for(interface.url)):
            tls = self._tls
            if tls is not None and not self.shows_certificate(interface.url):
                tls = Tls(authorities=tls.authorities)
            credentials = grpc.ssl_channel_credentials(*_pem(tls))
        route = None
        if not is_loopback(read_target(interface.url).host):
            is_encrypted, seconds = credentials is not None, self.timeouts.connect
            route = GrpcRoute(interface.url, self._network, is_encrypted=is_encrypted, connect_seconds=seconds)
        return GrpcTransport(interface, version, credentials=credentials, bounds=self.bounds, route=route)

    async def close(self) -> None:
        """Close all connections."""
        await self.channel.close()
        self._names.close()


def _pem(tls: Tls | None) -> tuple[bytes | None, bytes | None, bytes | None]:
    """The arguments of gRPC: authorities, key, certificate."""
    if tls is None:
        return None, None, None
    return _bytes(tls.authorities), _bytes(tls.key or tls.certificate), _bytes(tls.certificate)


def _bytes(path: Path | None) -> bytes | None:
    return path.read_bytes() if path is not None else None
