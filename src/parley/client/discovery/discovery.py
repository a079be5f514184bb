"""Finds an agent's card: at a URL of its own, or at the well-known places of every release.

What comes is bounded in size and time, and its signature is checked as the policy says. A card that is verified is read
from what was signed and from nothing else. Nothing is followed: a card that has moved is at the URL that its agent's
owner names. A card that is not for everybody is asked for again with proof of who asks, which goes to the origin that
the caller named and nowhere else, and such a card is not kept. Spec: 1.0 sections 8.2, 8.4 and 8.6; 0.3 section 5.3.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from msgspec import structs

from parley.client.discovery.card_cache import CardCache
from parley.client.discovery.signatures import SignaturePolicy, signature_at, verify
from parley.client.errors import DiscoveryError, ForbiddenTargetError, TimedOutError, UnreachableError
from parley.client.guard import read_target
from parley.client.options import Retries
from parley.client.transports.connections import Connections
from parley.client.transports.http import HttpReply
from parley.client.transports.transport import CallOptions
from parley.dialects.cards import decode_any_card
from parley.network.urls import with_scheme
from parley.protocol.cards import AgentCard
from parley.protocol.errors import PeerProtocolError, SignatureInvalidError
from parley.protocol.signing import VerifiedSignature
from parley.protocol.versions import Version

__all__ = ["WELL_KNOWN", "Discovery", "Found", "SignaturePolicy", "places", "with_scheme"]

WELL_KNOWN = ("/.well-known/agent-card.json", "/.well-known/agent.json")
"""Where cards are: since 0.3, and before."""

PASSING = frozenset({429, 502, 503, 504})
"""Answers that may be others a moment later."""

CLOSED = frozenset({401, 403})
"""Answers to somebody who has not said who he is."""

Prove: TypeAlias = Callable[[CallOptions], Awaitable[CallOptions]]
"""Adds to a request what proves who asks."""

VERSION = "A2A-Version"
"""By this a server knows which shape is wanted; servers of older releases do not look at it."""


@dataclass(frozen=True, slots=True)
class Found:
    """A card, where it was, in which version it is written, and the signature that was verified, if one was."""

    card: AgentCard
    url: str
    version: Version
    signature: VerifiedSignature | None = None


class Discovery:
    """Finds cards. `cache` may be shared by many; without it, every card is fetched.

    `version` is the newest that the caller speaks: a server of many versions may have another card for each, and the
    newest does not list what only older clients call.
    """

    def __init__(
        self,
        connections: Connections,
        signatures: SignaturePolicy | None = None,
        *,
        cache: CardCache | None = None,
        retries: Retries | None = None,
        prove: Prove | None = None,
        version: Version = Version.V1_0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._connections = connections
        self._signatures = signatures or SignaturePolicy()
        self._cache = cache
        self._retries = retries or Retries()
        self._prove = prove
        self._version = version
        self._sleep = sleep

    async def card(self, target: str) -> AgentCard:
        """The card of the agent at a URL, which is the agent's or the card's. Raises as `find` does."""
        return (await self.find(target)).card

    async def find(self, target: str) -> Found:
        """The card of the agent at a URL, which is the agent's or the card's, and what is known about it.

        Raises:
            DiscoveryError: there is none; the message says where it was looked for.
            PeerProtocolError: what is there is no card.
            SignatureInvalidError: it is not signed as the policy demands.
            ForbiddenTargetError: the URL must not be called.
            UnreachableError: nobody is there, or nothing comes in time.
        """
        target = with_scheme(target)
        self._connections.trust(target)
        seconds = self._connections.timeouts.card
        try:
            async with asyncio.timeout(seconds):
                return await self._cached(target) or await self._search(target)
        except TimeoutError as error:
            raise TimedOutError(f"No card of {read_target(target).origin} within {seconds:g} seconds") from error

    # --- where --------------------------------------------------------------------------------------------------------

    async def _cached(self, target: str) -> Found | None:
        """The card that is in the cache, if it is fresh, or its server says that it has not changed."""
        cached = self._cache.get(self._key(target)) if self._cache is not None else None
        if self._cache is None or cached is None:
            return None
        if self._cache.is_fresh(cached):
            return await self._read(cached.url, cached.body)
        self._cache.forget(self._key(target))  # until it is seen again
        try:
            reply = await self._get(cached.url, {"if-none-match": cached.etag} if cached.etag else {})
            if reply.status not in (200, 304):
                return None
            body = cached.body if reply.status == 304 else reply.body
            found = await self._read(cached.url, body)
        except SignatureInvalidError:
            raise
        except (ForbiddenTargetError, PeerProtocolError):
            return None  # it has gone from there
        etag = {"etag": cached.etag} if cached.etag else {}
        self._cache.keep(self._key(target), cached.url, body, {**etag, **reply.headers})
        return found

    def _key(self, target: str) -> str:
        """What a card is kept under: a target may have one for each version."""
        return f"{self._version} {target}"

    async def _search(self, target: str) -> Found:
        failures: dict[str, list[str]] = {}
        broken: PeerProtocolError | None = None
        for url in places(target):
            is_private = False
            try:
                reply = await self._get(url, {})
                if reply.status in CLOSED and self._prove is not None:
                    is_private = True
                    reply = await self._get_once(url, {}, self._prove)
            except (ForbiddenTargetError, PeerProtocolError) as error:  # it redirects, or is no HTTP, or too long
                _note(failures, f"does not give it ({error})", url)
                continue
            if reply.status != 200:
                _note(failures, f"answers {reply.status}{' to the credentials' if is_private else ''}", url)
                continue
            try:
                found = await self._read(url, reply.body)
            except SignatureInvalidError:
                raise
            except PeerProtocolError as error:
                # Many sites have a page for people at every URL. What is a JSON object was meant for us.
                is_meant = reply.body.lstrip().startswith(b"{")
                broken = broken or (error if is_meant else None)
                _note(failures, "has a web page" if _is_page(reply) else f"has no card ({error})", url)
                continue
            if self._cache is not None and not is_private:
                self._cache.keep(self._key(target), url, reply.body, reply.headers)
            return found
        if broken is not None:
            raise broken
        what = "; ".join(f"{what} at {', '.join(paths)}" for what, paths in failures.items())
        raise DiscoveryError(f"No agent card was found: {read_target(target).origin} {what}")

    # --- what ---------------------------------------------------------------------------------------------------------

    async def _read(self, url: str, body: bytes) -> Found:
        """The card in a document. Raises PeerProtocolError, and SignatureInvalidError as the policy says."""
        if not self._signatures.applies_to(body):
            card, version = decode_any_card(body)
            return Found(card, url, version)
        verified = await verify(body, self._signatures, self._fetch_keys)
        card, version = decode_any_card(verified.payload)
        return Found(structs.replace(card, signatures=(signature_at(body, verified.index),)), url, version, verified)

    async def _fetch_keys(self, url: str) -> bytes:
        self._connections.trust_address(read_target(url).host)  # the policy allows it by its name
        reply = await self._get(url, {})
        if reply.status != 200:
            raise DiscoveryError(f"The key set at {url} answers {reply.status}")
        return reply.body

    async def _get(self, url: str, headers: Mapping[str, str]) -> HttpReply:
        """A small document, asked for again while it is only not there for now."""
        pause = self._retries.first_pause
        for _ in range(1, self._retries.attempts):
            with suppress(UnreachableError):
                reply = await self._get_once(url, headers)
                if reply.status not in PASSING:
                    return reply
            await self._sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, self._retries.longest_pause)
        return await self._get_once(url, headers)

    async def _get_once(self, url: str, headers: Mapping[str, str], prove: Prove | None = None) -> HttpReply:
        channel, limit = self._connections.channel, self._connections.bounds.card_bytes
        seconds = self._connections.timeouts.card
        # A URL that asks for a version itself is not contradicted.
        version = {} if VERSION.lower() in read_target(url).query.lower() else {VERSION.lower(): self._version.value}
        options = CallOptions({"accept": "application/json", **version, **headers}, timeout=seconds)
        if prove is not None:
            options = await prove(options)
        return await channel.exchange("GET", url, b"", options, limit=limit)


def _note(failures: dict[str, list[str]], what: str, url: str) -> None:
    """Write a failure down, the same one once for all places: an error has not room for many URLs."""
    failures.setdefault(what, []).append(read_target(url).path or "/")


def _is_page(reply: HttpReply) -> bool:
    return reply.body.lstrip().startswith(b"<")


def places(target: str) -> list[str]:
    """Where the card of a target may be, the likeliest first.

    places("https://a.example/currency") == [
        "https://a.example/currency/.well-known/agent-card.json", "https://a.example/currency/.well-known/agent.json",
        "https://a.example/.well-known/agent-card.json", "https://a.example/.well-known/agent.json",
        "https://a.example/currency",
    ]
    """
    parts = read_target(target)
    if parts.scheme not in ("http", "https"):
        raise DiscoveryError("Cards are found over HTTP; give the card, or its URL")
    origin, path = parts.origin, parts.path.rstrip("/")
    for known in WELL_KNOWN:
        if path.endswith(known):  # the other generation's place is worth a try
            return [target, *(f"{origin}{path.removesuffix(known)}{other}" for other in WELL_KNOWN if other != known)]
    if path.endswith(".json"):
        return [target]
    bases = dict.fromkeys((f"{origin}{path}", origin))
    found = [f"{base}{known}" for base in bases for known in WELL_KNOWN]
    # The target last: a catalog may have cards anywhere.
    return [*found, target] if path or parts.query else found
