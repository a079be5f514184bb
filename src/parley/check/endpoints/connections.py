"""The ways from a check to the places of a server: recorded, bounded, and guarded as a client's are.

Whoever runs the check names a host, and is trusted; what a card points to beyond that must be public. Spec: 1.0
sections 7 and 13.
"""

from __future__ import annotations

from parley.check.options import Options
from parley.check.report.recording import RecordedNetwork, Recorder
from parley.client.credentials.credentials import BoundCredentials
from parley.client.errors import DiscoveryError
from parley.client.guard import DialRules, is_same_host, read_target
from parley.client.options import Bounds, Timeouts
from parley.client.transports.connections import Connections, Tls
from parley.client.transports.http import HttpChannel
from parley.client.transports.jsonrpc import JsonRpcTransport
from parley.client.transports.rest import RestTransport
from parley.client.transports.transport import Sent, Transport
from parley.network.pinned import NameResolver, PinnedNetwork
from parley.network.pool import ConnectionPool
from parley.protocol.cards import AgentCard, AgentInterface, Binding
from parley.protocol.versions import Version

BOUNDS = Bounds(reply_bytes=16 * 1024 * 1024, frame_bytes=4 * 1024 * 1024, stream_bytes=32 * 1024 * 1024)
"""Less than a client takes: an agent that says so much to a greeting is not what a check wants to hear to its end, and
what it said is kept until the report is written."""


class Reach:
    """The ways out of one check. Raises ForbiddenTargetError if the URL is none of an agent's."""

    def __init__(self, url: str, options: Options) -> None:
        self._url = url
        self._named = read_target(url).host
        self._options = options
        timeout = options.timeout
        self._timeouts = Timeouts(connect=min(10.0, timeout), reply=timeout, quiet=timeout)
        self._connections = Connections(timeouts=self._timeouts, bounds=BOUNDS, guard=options.guard, tls=options.tls)
        self._connections.trust(url)
        rules = DialRules(options.guard)
        rules.trust(self._named)
        self._names = NameResolver()
        self._network = PinnedNetwork(rules, self._names)
        tls = options.tls or Tls()
        self._certified = tls.context()
        self._plain = Tls(authorities=tls.authorities).context() if options.shows_certificate else self._certified

    def is_named(self, url: str) -> bool:
        """Whether a URL leads to the host that the caller named. Raises ForbiddenTargetError if it leads nowhere."""
        return is_same_host(self._named, read_target(url).host)

    def channel(self, recorder: Recorder, url: str) -> HttpChannel:
        """HTTP to a URL's host that is written down; only the host that the caller named sees its certificate."""
        tls = self._certified if self.is_named(url) else self._plain
        pool = ConnectionPool(self._network, tls, connect_seconds=self._timeouts.connect)
        return HttpChannel(RecordedNetwork(pool, recorder), timeouts=self._timeouts, bounds=BOUNDS)

    def connect(self, interface: AgentInterface, version: Version, channel: HttpChannel) -> Transport:
        """A way to an interface. Raises ForbiddenTargetError if the card must not point there."""
        self._connections.permitted([(interface, version)])
        match interface.binding:
            case Binding.JSONRPC:
                return JsonRpcTransport(interface, version, channel)
            case Binding.HTTP_JSON:
                return RestTransport(interface, version, channel)
            case _:
                return self._connections.connect(interface, version)

    def authenticator(self, card: AgentCard) -> BoundCredentials:
        """What proves to the agent of a card who the caller is. What it fetches itself is not written down."""
        connections = self._connections
        return self._options.credentials.bound(
            card,
            given=self._url,
            channel=connections.channel,
            check=lambda url: connections.guard.check_interface(url, card_url=self._url),
            trust=lambda url: connections.trust_address(read_target(url).host),
        )

    async def fetch(self, url: str) -> bytes:
        """A document that is no agent's: a key set. Raises DiscoveryError if there is none, and as a channel does."""
        reply = await self._connections.channel.exchange("GET", url, b"", Sent(timeout=self._options.timeout))
        if reply.status != 200:
            raise DiscoveryError(f"{url} answers {reply.status}")
        return reply.body

    async def close(self) -> None:
        """Let everything go."""
        await self._connections.close()
        self._names.close()
