"""Finds the cards at a URL, each with its exchange and the result of verifying its signatures."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, cast

import msgspec

from parley.check.card_faults import intended_version
from parley.check.endpoints.connections import BOUNDS, recorded_channel
from parley.check.findings import RecordedExchange
from parley.check.options import CheckOptions
from parley.check.report.recording import Recorder
from parley.client.discovery.discovery import card_urls
from parley.client.discovery.signatures import SignaturePolicy, verify
from parley.client.errors import DiscoveryError, ForbiddenTargetError, TimedOutError, UnreachableError
from parley.client.transports.connections import Connections
from parley.client.transports.http import HttpChannel
from parley.client.transports.transport import CallOptions
from parley.dialects.cards import decode_any_card
from parley.network.urls import host_of, parse_url
from parley.protocol.cards import AgentCard
from parley.protocol.errors import ParleyError, PeerProtocolError
from parley.protocol.signing import VerifiedSignature, signature_headers
from parley.protocol.versions import Version


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of verifying a card's signatures: `signature` is the valid one; without one, `reason` says why."""

    signature: VerifiedSignature | None = None
    reason: str = ""
    is_certain: bool = True
    """Whether a key was known; without one, nothing can be said."""


@dataclass(frozen=True, slots=True)
class FoundCard:
    """A card, its version, its URL, its exchange, and whether its signatures verify."""

    card: AgentCard
    version: Version
    url: str
    exchange: RecordedExchange
    members: dict[str, Any] = field(default_factory=dict[str, Any])
    verification: Verification = field(default_factory=lambda: Verification(reason="not tried", is_certain=False))


class FaultyCardError(DiscoveryError):
    """A JSON object is at the URL of a card, but is not a valid card."""

    def __init__(self, message: str, *, url: str, members: dict[str, Any], exchange: RecordedExchange) -> None:
        super().__init__(message)
        self.url = url
        self.members = members
        self.exchange = exchange

    @property
    def version(self) -> Version:
        """The version that the card was written for."""
        return intended_version(self.members, self.exchange.body)


async def find_cards(url: str, recorder: Recorder, connections: Connections, options: CheckOptions) -> list[FoundCard]:
    """The cards at a URL: the one that it names, else those at the well-known paths below it, else at its root.

    Raises:
        FaultyCardError: no card is valid; this is about the first.
        DiscoveryError: there is no card.
        UnreachableError: there is no server.
    """
    found: list[FoundCard] = []
    faulty: list[FaultyCardError] = []
    reasons: list[str] = []
    channel = recorded_channel(connections, recorder)
    try:
        for candidates in _candidates(url):
            for candidate in candidates:
                try:
                    found.append(await _card_at(candidate, channel, recorder, options.timeout))
                except (DiscoveryError, PeerProtocolError, ForbiddenTargetError) as error:
                    reasons.append(f"{candidate.partition('?')[0]}: {error}")  # the query may contain a key
                    faulty += [error] if isinstance(error, FaultyCardError) else []
            if found:
                break  # the root may have the card of another agent
    except UnreachableError:
        if not found:
            raise
    if not found and faulty:
        raise faulty[0]
    if not found:
        raise DiscoveryError(f"There is no agent card: {'; '.join(reasons)}")
    return [
        replace(card, verification=await verify_document(card.exchange.body, connections, options.signatures))
        for card in found
    ]


def _candidates(url: str) -> list[list[str]]:
    """The URLs where cards may be, grouped by agent."""
    if parse_url(url).path.endswith(".json"):
        return [[url]]
    return [list(urls) for _, urls in groupby(card_urls(url), key=lambda url: url.partition("/.well-known/")[0])]


async def _card_at(url: str, channel: HttpChannel, recorder: Recorder, timeout: float) -> FoundCard:
    """Raises DiscoveryError if there is none, FaultyCardError or PeerProtocolError if it is not valid."""
    sent = CallOptions({"accept": "application/json"}, timeout=timeout)
    try:
        reply = await channel.exchange("GET", url, b"", sent)
    except TimedOutError:
        raise
    except UnreachableError:  # try once more: without a card there is no check
        reply = await channel.exchange("GET", url, b"", sent)
    if reply.status != 200:
        raise DiscoveryError(f"HTTP {reply.status}")
    if len(reply.body) > BOUNDS.card_bytes:
        raise PeerProtocolError(f"a card of {len(reply.body)} bytes")
    exchange = recorder.exchanges[-1]
    try:
        card, version = decode_any_card(reply.body)
    except PeerProtocolError as error:
        members = _members(reply.body)
        # Other URLs may hold anything; a JSON object at the URL of a card was meant as a card.
        if members is None or not parse_url(url).path.endswith(".json"):
            raise
        raise FaultyCardError(str(error), url=url, members=members, exchange=exchange) from error
    return FoundCard(card, version, url, exchange, _members(reply.body) or {})


def _members(body: bytes) -> dict[str, Any] | None:
    """The members of a JSON object, or None if the body is something else."""
    try:
        value: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return cast(dict[str, Any], value) if isinstance(value, dict) else None


async def verify_document(body: bytes, connections: Connections, policy: SignaturePolicy) -> Verification:
    """Verify a card with the caller's keys, and with key sets on hosts that the caller named or allows."""
    if not (_members(body) or {}).get("signatures"):
        return Verification(reason="the card is not signed", is_certain=False)
    failures: list[str] = []

    async def fetch(url: str) -> bytes:
        try:
            timeout = connections.timeouts.reply
            reply = await connections.channel.exchange("GET", url, b"", CallOptions(timeout=timeout))
            if reply.status != 200:
                raise DiscoveryError(f"{url} answers {reply.status}")
        except ParleyError as error:
            failures.append(f"the key set cannot be fetched: {error}")
            raise
        return reply.body

    try:
        headers = signature_headers(body)
        own = tuple(host_of(url) for header in headers if (url := header.jku) and _is_own(url, connections))
        policy = replace(policy, jwks_hosts=(*policy.jwks_hosts, *own))
        is_known = any(
            header.key_id in policy.keys or (header.jku and host_of(header.jku) in policy.jwks_hosts)
            for header in headers
        )
        if not is_known:
            return Verification(reason="the signer's key is not known", is_certain=False)
        return Verification(await verify(body, policy, fetch))
    except ParleyError as error:
        return Verification(reason="; ".join(failures) or str(error), is_certain=not failures)


def _is_own(url: str, connections: Connections) -> bool:
    try:
        return connections.is_named(url)
    except ForbiddenTargetError:
        return False
