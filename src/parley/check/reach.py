"""The ways from a check to the places of a server: recorded, and guarded as a client's are.

Whoever runs the check names a host, and is trusted; what a card points to beyond that must be public. Spec: 1.0
sections 7 and 13.
"""

from __future__ import annotations

from parley.check.recording import RecordedNetwork, Recorder
from parley.client.connecting import Connections, Tls
from parley.client.guard import DialRules, is_same_host, read_target
from parley.client.http import HttpChannel
from parley.client.jsonrpc import JsonRpcTransport
from parley.client.options import Timeouts
from parley.client.rest import RestTransport
from parley.client.transport import Transport
from parley.network.pinned import NameResolver, PinnedNetwork
from parley.network.pool import ConnectionPool
from parley.protocol.cards import AgentInterface, Binding
from parley.protocol.versions import Version


class Reach:
    """The ways out of one check. Raises ForbiddenTargetError if the URL is none of an agent's."""

    def __init__(self, url: str, timeout: float) -> None:
        self._named = read_target(url).host
        self._timeouts = Timeouts(connect=min(10.0, timeout), reply=timeout, quiet=timeout)
        self._connections = Connections(timeouts=self._timeouts)
        self._connections.trust(url)
        rules = DialRules(self._connections.guard)
        rules.trust(self._named)
        self._names = NameResolver()
        self._network = PinnedNetwork(rules, self._names)
        self._tls = Tls().context()

    def is_named(self, url: str) -> bool:
        """Whether a URL leads to the host that the caller named. Raises ForbiddenTargetError if it leads nowhere."""
        return is_same_host(self._named, read_target(url).host)

    def channel(self, recorder: Recorder) -> HttpChannel:
        """HTTP that is written down."""
        pool = ConnectionPool(self._network, self._tls, connect_seconds=self._timeouts.connect)
        return HttpChannel(RecordedNetwork(pool, recorder), timeouts=self._timeouts)

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

    async def close(self) -> None:
        """Let everything go."""
        await self._connections.close()
        self._names.close()
