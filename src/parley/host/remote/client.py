"""A client for a remote agent that the operator has listed.

It calls private addresses only where the operator allows them, sends the agent's token to its origin alone, and tells
the agent nothing about the tenant: messages hold what the author of a delegation puts into them, and the only header
beyond those of the protocol is the id of the trace.
"""

from __future__ import annotations

from dataclasses import replace

from parley.client.calls import Attempt
from parley.client.client import Client
from parley.client.discovery.card_cache import CardCache
from parley.client.discovery.signatures import SignaturePolicy, read_key_set
from parley.client.guard import Guard
from parley.client.options import Retries, Timeouts
from parley.host.remote.config import RemoteAgentConfig

RETRIES = Retries(attempts=2)
"""Once more, for a connection that breaks. A model decides sooner than a client whether to try again."""


def remote_client(agent: RemoteAgentConfig, *, allowed_hosts: tuple[str, ...], cards: CardCache | None) -> Client:
    """A client of a remote agent, which is not open. `allowed_hosts` may have private addresses."""
    return Client(
        agent.url,
        credentials=None if agent.token is None else {"bearer": agent.token, "api-key": agent.token},
        signatures=signature_policy(agent),
        guard=Guard(trust_named=False, allowed_hosts=allowed_hosts),
        timeouts=_timeouts(agent.timeout_seconds),
        retries=RETRIES,
        cards=cards,
        interceptors=(without_baggage,),
    )


def signature_policy(agent: RemoteAgentConfig) -> SignaturePolicy:
    """Which cards of a remote agent are accepted."""
    keys = read_key_set(agent.trusted_keys.encode()) if agent.trusted_keys else {}
    return SignaturePolicy(agent.signature_mode, keys)


def _timeouts(seconds: float | None) -> Timeouts:
    default = Timeouts()
    if seconds is None:
        return default
    return Timeouts(
        connect=min(seconds, default.connect),
        reply=seconds,
        read=min(seconds, default.read),
        quiet=min(seconds, default.quiet),
        card=min(seconds, default.card),
    )


async def without_baggage(attempt: Attempt) -> Attempt:
    """The same attempt without OpenTelemetry's baggage, which may hold anything that the tenant's caller sent."""
    headers = {name: value for name, value in attempt.options.headers.items() if name.lower() != "baggage"}
    return replace(attempt, options=replace(attempt.options, headers=headers))
