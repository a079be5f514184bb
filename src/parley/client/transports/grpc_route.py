"""Where gRPC connects to: checked addresses of a host, or the HTTP proxy that leads to it.

The host name is resolved here and not by gRPC, so that it cannot resolve to a forbidden address later.
"""

from __future__ import annotations

from typing import TypeAlias

from parley.client.errors import UnreachableError
from parley.client.guard import read_target
from parley.network.errors import ConnectError
from parley.network.pinned import PinnedNetwork
from parley.network.urls import host_and_port

ChannelOptions: TypeAlias = list[tuple[str, str | int]]


class GrpcRoute:
    """The route to one interface, over a network that checks addresses."""

    def __init__(self, url: str, network: PinnedNetwork, *, is_encrypted: bool, connect_seconds: float) -> None:
        self._url = url
        self._target = read_target(url)
        self._network = network
        self._scheme = "https" if is_encrypted else "http"
        self._connect_seconds = connect_seconds
        self.failures = 0
        """Connections that failed: gRPC dials one address family at a time, and each failure selects the other."""

    async def find(self) -> tuple[str, ChannelOptions]:
        """The gRPC target to dial, and options for its channel. Raises UnreachableError."""
        options: ChannelOptions = [("grpc.default_authority", target_of(self._url))]  # stays the name in TLS
        host, port = self._target.host, self._target.port
        try:
            proxy = self._network.proxies.find(self._scheme, host, port)
            if proxy is None:
                return await self._addresses(), options
            if proxy.scheme == "https":
                raise ConnectError(f"gRPC cannot use the proxy {proxy.authority}, which is called over https")
            await self._network.check(host, port)
        except ConnectError as error:
            raise UnreachableError(f"No connection to {self._target.origin}: {error}", was_sent=False) from error
        headers = "\n".join(f"{name}:{value}" for name, value in proxy.headers.items())
        options += [("grpc.http_connect_server", host_and_port(host, port)), ("grpc.http_connect_headers", headers)]
        return f"dns:///{host_and_port(proxy.host, proxy.port)}", options

    async def _addresses(self) -> str:
        port = self._target.port
        found = await self._network.addresses(self._target.host, port, timeout=self._connect_seconds)
        ipv4 = [host_and_port(address, port) for address in found if ":" not in address]
        ipv6 = [host_and_port(address, port) for address in found if ":" in address]
        families = [f"{family}:{','.join(those)}" for family, those in (("ipv4", ipv4), ("ipv6", ipv6)) if those]
        if not families:
            raise ConnectError("the host name has no address")
        return families[self.failures % len(families)]


def target_of(url: str) -> str:
    """The gRPC target of a URL: `grpcs://host:443` is `host:443`; without a scheme it is a target already."""
    _, separator, rest = url.partition("://")
    return (rest if separator else url).rstrip("/")
