"""The client's connections, with every HTTP request and reply recorded.

The host that the caller names is trusted; what a card points to beyond that must be public. Spec: 1.0, 7 and 13.
"""

from __future__ import annotations

from parley.check.options import CheckOptions
from parley.check.report.recording import RecordedNetwork, Recorder
from parley.client.credentials.credentials import BoundCredentials
from parley.client.errors import DiscoveryError
from parley.client.guard import read_target
from parley.client.options import Bounds, Timeouts
from parley.client.transports.connections import Connections
from parley.client.transports.http import HttpChannel
from parley.client.transports.transport import CallOptions, Transport
from parley.protocol.cards import AgentCard, AgentInterface
from parley.protocol.versions import Version

BOUNDS = Bounds(reply_bytes=16 * 1024 * 1024, frame_bytes=4 * 1024 * 1024, stream_bytes=32 * 1024 * 1024)
"""Less than a client accepts: a greeting needs no long answer, and all answers are kept until the report is written."""


class CheckConnections:
    """The connections of one check. Raises ForbiddenTargetError if the URL cannot be one of an agent."""

    def __init__(self, url: str, options: CheckOptions) -> None:
        self._url = url
        self._options = options
        timeout = options.timeout
        timeouts = Timeouts(connect=min(10.0, timeout), reply=timeout, quiet=timeout)
        self._connections = Connections(timeouts=timeouts, bounds=BOUNDS, guard=options.guard, tls=options.tls)
        self._connections.trust(url)

    def is_named(self, url: str) -> bool:
        """Whether a URL has the host that the caller named. Raises ForbiddenTargetError if it has no valid host."""
        return self._connections.is_named(url)

    def channel(self, recorder: Recorder) -> HttpChannel:
        """A channel that records; the connections below it are shared with the other channels."""
        network = RecordedNetwork(self._connections.channel.network, recorder)
        return HttpChannel(network, timeouts=self._connections.timeouts, bounds=BOUNDS)

    def connect(self, interface: AgentInterface, version: Version, channel: HttpChannel) -> Transport:
        """A transport to an interface. Raises ForbiddenTargetError if the card must not point there."""
        return self._connections.connect(interface, version, channel)

    def authenticator(self, card: AgentCard) -> BoundCredentials:
        """What proves to the agent of a card who the caller is. Requests for tokens are not recorded."""
        connections = self._connections
        return self._options.credentials.bind(
            card,
            target_url=self._url,
            channel=connections.channel,
            check=lambda url: connections.guard.check_interface(url, card_url=self._url),
            trust=lambda url: connections.trust_address(read_target(url).host),
        )

    async def fetch(self, url: str) -> bytes:
        """A key set. Raises DiscoveryError if there is none, and as a channel does."""
        reply = await self._connections.channel.exchange("GET", url, b"", CallOptions(timeout=self._options.timeout))
        if reply.status != 200:
            raise DiscoveryError(f"{url} answers {reply.status}")
        return reply.body

    async def close(self) -> None:
        """Close all connections."""
        await self._connections.close()
