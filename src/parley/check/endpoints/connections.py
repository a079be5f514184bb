"""The client's connections, with every HTTP request and reply recorded.

The host that the caller names is trusted; what a card points to beyond that must be public. Spec: 1.0, 7 and 13.
"""

from __future__ import annotations

from parley.check.options import CheckOptions
from parley.check.report.recording import RecordedNetwork, Recorder
from parley.client.credentials.credentials import BoundCredentials, Credentials
from parley.client.guard import read_target
from parley.client.options import Bounds, Timeouts
from parley.client.transports.connections import Connections
from parley.client.transports.http import HttpChannel
from parley.protocol.cards import AgentCard

BOUNDS = Bounds(reply_bytes=16 * 1024 * 1024, frame_bytes=4 * 1024 * 1024, stream_bytes=32 * 1024 * 1024)
"""Less than a client accepts: a greeting needs no long answer, and all answers are kept until the report is written."""


def connections_for(url: str, options: CheckOptions) -> Connections:
    """The connections of one check. Raises ForbiddenTargetError if the URL cannot be one of an agent."""
    timeout = options.timeout
    timeouts = Timeouts(connect=min(10.0, timeout), reply=timeout, quiet=timeout)
    connections = Connections(timeouts=timeouts, bounds=BOUNDS, guard=options.guard, tls=options.tls, app=options.app)
    connections.trust(url)
    return connections


def recorded_channel(connections: Connections, recorder: Recorder) -> HttpChannel:
    """A channel that records; the connections below it are shared with the other channels."""
    network = RecordedNetwork(connections.channel.network, recorder)
    return HttpChannel(network, timeouts=connections.timeouts, bounds=BOUNDS)


def bound_credentials(
    url: str, credentials: Credentials, connections: Connections, card: AgentCard
) -> BoundCredentials:
    """What proves to the agent of a card who the caller is. Requests for tokens are not recorded."""
    return credentials.bind(
        card,
        target_url=url,
        channel=connections.channel,
        check=lambda other: connections.guard.check_interface(other, card_url=url),
        trust=lambda other: connections.trust_address(read_target(other).host),
    )
