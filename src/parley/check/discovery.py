"""The cards at a URL, each with how it came and whether its signatures verify."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

import msgspec

from parley.check.options import Options
from parley.check.reach import BOUNDS, Reach
from parley.check.recording import Recorder
from parley.check.verdict import Exchange
from parley.client.discovery import WELL_KNOWN
from parley.client.errors import DiscoveryError, ForbiddenTargetError, TimedOutError, UnreachableError
from parley.client.http import HttpChannel
from parley.client.signatures import SignaturePolicy, verify
from parley.client.transport import Sent
from parley.dialects.cards import decode_any_card
from parley.protocol.cards import AgentCard
from parley.protocol.errors import ParleyError, PeerProtocolError
from parley.protocol.signing import VerifiedSignature, signature_headers
from parley.protocol.versions import Version


@dataclass(frozen=True, slots=True)
class Verification:
    """What came of verifying a card's signatures: `signature` is the one that does, else `reason` says why none."""

    signature: VerifiedSignature | None = None
    reason: str = ""
    is_certain: bool = True
    """Whether it was tried with a key; without one, nothing can be said."""


@dataclass(frozen=True, slots=True)
class FoundCard:
    """A card, its version, where it was, how it came, and whether its signatures verify."""

    card: AgentCard
    version: Version
    url: str
    exchange: Exchange
    members: dict[str, Any] = field(default_factory=dict[str, Any])
    verification: Verification = field(default_factory=lambda: Verification(reason="not tried", is_certain=False))


async def find_cards(url: str, recorder: Recorder, reach: Reach, options: Options) -> list[FoundCard]:
    """The cards at a URL: the one that it names, else those at the well-known paths below it, else at its root.

    Raises:
        DiscoveryError: there is none.
        UnreachableError: there is no server.
    """
    found: list[FoundCard] = []
    reasons: list[str] = []
    channel = reach.channel(recorder, url)
    try:
        for candidates in _candidates(url):
            for candidate in candidates:
                try:
                    found.append(await _card_at(candidate, channel, recorder, options.timeout))
                except (DiscoveryError, PeerProtocolError, ForbiddenTargetError) as error:
                    reasons.append(f"{candidate.partition('?')[0]}: {error}")  # a query may be a key
            if found:
                break  # the root may have another agent's
    except UnreachableError:
        if not found:
            raise
    finally:
        await channel.close()
    if not found:
        raise DiscoveryError(f"There is no agent card: {'; '.join(reasons)}")
    return [replace(card, verification=await _verified(card, reach, options.signatures)) for card in found]


def _candidates(url: str) -> list[list[str]]:
    """Where cards may be: each list is about one agent."""
    parts = urlsplit(url)
    if parts.path.endswith(".json"):
        return [[url]]
    origin = f"{parts.scheme}://{parts.netloc}"
    bases = dict.fromkeys((f"{origin}{parts.path.rstrip('/')}", origin))
    known = [[f"{base}{path}" for path in WELL_KNOWN] for base in bases]
    return [*known, [url]] if parts.path.strip("/") or parts.query else known  # a catalog may have cards anywhere


async def _card_at(url: str, channel: HttpChannel, recorder: Recorder, timeout: float) -> FoundCard:
    """Raises DiscoveryError if none is there, PeerProtocolError if it is none, and UnreachableError."""
    sent = Sent({"accept": "application/json"}, timeout=timeout)
    try:
        reply = await channel.exchange("GET", url, b"", sent)
    except TimedOutError:
        raise
    except UnreachableError:  # a connection may break, and without a card there is no check
        reply = await channel.exchange("GET", url, b"", sent)
    if reply.status != 200:
        raise DiscoveryError(f"HTTP {reply.status}")
    if len(reply.body) > BOUNDS.card_bytes:
        raise PeerProtocolError(f"a card of {len(reply.body)} bytes")
    card, version = decode_any_card(reply.body)
    members: dict[str, Any] = msgspec.json.decode(reply.body)
    return FoundCard(card, version, url, recorder.exchanges[-1], members)


async def _verified(found: FoundCard, reach: Reach, policy: SignaturePolicy) -> Verification:
    """Verify with the caller's keys, and with key sets on hosts that the caller allows or named."""
    if not found.card.signatures:
        return Verification(reason="the card is not signed", is_certain=False)
    failures: list[str] = []

    async def fetch(url: str) -> bytes:
        try:
            return await reach.fetch(url)
        except ParleyError as error:
            failures.append(f"the key set cannot be fetched: {error}")
            raise

    try:
        headers = signature_headers(found.exchange.body)
        own = tuple(urlsplit(url).hostname or "" for header in headers if (url := header.jku) and _is_own(url, reach))
        policy = replace(policy, jwks_hosts=(*policy.jwks_hosts, *own))
        is_known = any(
            header.key_id in policy.keys or (header.jku and urlsplit(header.jku).hostname in policy.jwks_hosts)
            for header in headers
        )
        if not is_known:
            return Verification(reason="the signer's key is not known", is_certain=False)
        return Verification(await verify(found.exchange.body, policy, fetch))
    except ParleyError as error:
        return Verification(reason="; ".join(failures) or str(error), is_certain=not failures)


def _is_own(url: str, reach: Reach) -> bool:
    try:
        return reach.is_named(url)
    except ForbiddenTargetError:
        return False
