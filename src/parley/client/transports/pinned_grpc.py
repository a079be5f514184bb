"""gRPC to checked addresses: its name is resolved here, not by gRPC, so that it cannot mean something else later.

This machine itself needs no check, and gRPC resolves its names. It needs the extra `grpc`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import grpc

from parley.client.errors import UnreachableError
from parley.client.guard import read_target
from parley.client.options import Bounds, Timeouts
from parley.client.transports.grpc import GrpcTransport
from parley.client.transports.transport import CallOptions, ReceivedEvent
from parley.network.errors import ConnectError
from parley.network.pinned import PinnedNetwork
from parley.network.proxies import Proxy
from parley.network.urls import Url, host_and_port
from parley.protocol.cards import AgentInterface
from parley.protocol.operations import Operation
from parley.protocol.requests import Request, Result
from parley.protocol.versions import Version


class PinnedGrpcTransport:
    """Calls an agent over gRPC, at addresses that `network` has checked; without it, at any."""

    def __init__(
        self,
        interface: AgentInterface,
        version: Version,
        network: PinnedNetwork | None,
        *,
        credentials: grpc.ChannelCredentials | None,
        timeouts: Timeouts,
        bounds: Bounds,
    ) -> None:
        self.interface = interface
        self.version = version
        self._network = network
        self._credentials = credentials
        self._timeouts = timeouts
        self._bounds = bounds
        self._opening = asyncio.Lock()
        self._transport: GrpcTransport | None = None
        self._failures = 0

    async def call(self, operation: Operation, request: Request, options: CallOptions) -> Result:
        """See `Transport`."""
        transport = await self._opened()
        try:
            return await transport.call(operation, request, options)
        except UnreachableError as error:
            await self._forget(transport, error)
            raise

    async def stream(
        self, operation: Operation, request: Request, options: CallOptions
    ) -> AsyncGenerator[ReceivedEvent]:
        """See `Transport`."""
        transport = await self._opened()
        try:
            async with aclosing(transport.stream(operation, request, options)) as events:
                async for received in events:
                    yield received
        except UnreachableError as error:
            await self._forget(transport, error)
            raise

    async def close(self) -> None:
        """Close the connections."""
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.close()

    async def _opened(self) -> GrpcTransport:
        async with self._opening:
            if self._transport is None:
                address, proxy = await self._route()
                self._transport = GrpcTransport(
                    self.interface,
                    self.version,
                    credentials=self._credentials,
                    bounds=self._bounds,
                    address=address,
                    proxy=proxy,
                )
            return self._transport

    async def _route(self) -> tuple[str | None, Proxy | None]:
        """The gRPC target to dial, and the proxy that leads there. Raises UnreachableError."""
        if self._network is None:
            return None, None
        target = read_target(self.interface.url)
        scheme = "http" if self._credentials is None else "https"
        try:
            proxy = self._network.proxies.find(scheme, target.host, target.port)
            if proxy is None:
                return await self._address(self._network, target), None
            if proxy.scheme == "https":
                raise ConnectError(f"gRPC cannot use the proxy {proxy.authority}, which is called over https")
            await self._network.check(target.host, target.port)
            return host_and_port(target.host, target.port), proxy
        except ConnectError as error:
            raise UnreachableError(f"No connection to {target.origin}: {error}", was_sent=False) from error

    async def _address(self, network: PinnedNetwork, target: Url) -> str:
        """A gRPC target of checked addresses, of one family as gRPC has it; when nobody is there, of the other next."""
        found = await network.addresses(target.host, target.port, timeout=self._timeouts.connect)
        older = [host_and_port(address, target.port) for address in found if ":" not in address]
        newer = [host_and_port(address, target.port) for address in found if ":" in address]
        families = [f"{family}:{','.join(those)}" for family, those in (("ipv4", older), ("ipv6", newer)) if those]
        if not families:
            raise ConnectError("the host name has no address")
        return families[self._failures % len(families)]

    async def _forget(self, transport: GrpcTransport, error: UnreachableError) -> None:
        """Resolve the name again next time, if nobody was there."""
        if not error.was_sent and self._transport is transport:
            self._failures += 1
            await self.close()
