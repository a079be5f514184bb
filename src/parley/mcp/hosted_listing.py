"""The agents of a tenant of a Parley host, read from the host's own API with the credentials of a client."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

import msgspec
from msgspec import Struct

from parley.client.client import Client
from parley.client.transports.connections import Connections
from parley.client.transports.http import http_error
from parley.client.transports.transport import CallOptions
from parley.protocol.cards import AgentCard
from parley.protocol.errors import PeerProtocolError

HOST_VERSION = "stub"
"""The version in the card at the root of a host, which names no agent."""

HOST_SKILL = "discover"
HOST_PATH = "/v1/a2a"

MAX_LIST_BYTES = 32 * 1024 * 1024
"""A thousand constitutions of the greatest length."""

MAX_AGENTS = 10_000


class HostedAgent(Struct, frozen=True):
    """An agent of a host: its URL, and when it was changed."""

    id: str
    url: str
    revision: int


class _HostListed(Struct, frozen=True):
    id: str
    updated_at: int = 0


class _HostList(Struct, frozen=True):
    agents: list[_HostListed]


_decoder = msgspec.json.Decoder(_HostList)


def is_host(card: AgentCard) -> bool:
    """Whether a card is that of a host, and not of an agent."""
    return card.version == HOST_VERSION and any(skill.id == HOST_SKILL for skill in card.skills)


async def hosted_agents(client: Client, connections: Connections) -> Sequence[HostedAgent]:
    """The agents of the host that a client is open to.

    Raises:
        ParleyError: the host refuses the client's credentials, cannot be reached, or answers something else.
    """
    interface = client.interface
    base_url = interface.url.removesuffix(HOST_PATH)
    options = CallOptions({"accept": "application/json"}, timeout=connections.timeouts.card)
    if client.calls.authenticator is not None:
        options = await client.calls.authenticator.apply(options, interface)
    connections.trust(client.target)
    reply = await connections.channel.exchange("GET", f"{base_url}/v1/agents", b"", options, limit=MAX_LIST_BYTES)
    if reply.status != 200:
        raise http_error(reply)
    try:
        listed = _decoder.decode(reply.body).agents[:MAX_AGENTS]
    except msgspec.DecodeError as error:
        raise PeerProtocolError(f"The host's list of agents is not valid: {error}") from None
    urls = [f"{base_url}{HOST_PATH}/agents/{quote(agent.id, safe='')}" for agent in listed]
    return [HostedAgent(agent.id, url, agent.updated_at) for agent, url in zip(listed, urls, strict=True)]
