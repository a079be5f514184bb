"""Finds an agent's card: at the URL that it is given, below it, or at the well-known URLs of every release.

Cards are bounded in size and time, and their signatures are verified as the policy says. Of a verified card, only the
signed content is used. Redirects are not followed. A card that requires authentication is requested again with the
caller's credentials, which go only to the origin that the caller named, and is not cached. Spec: 1.0 sections 8.2, 8.4
and 8.6; 0.3 section 5.3.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
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

__all__ = ["WELL_KNOWN", "DiscoveredCard", "Discovery", "SignaturePolicy", "card_urls", "with_scheme"]

WELL_KNOWN = ("/.well-known/agent-card.json", "/.well-known/agent.json")
"""The paths of cards: since 0.3, and before."""

BELOW_AGENT = "/agent-card.json"
"""The path below an agent's URL where hosts of many agents serve its card: arbiter 0.12, and Parley's host. Their
well-known card describes the host and none of its agents."""

TEMPORARY = frozenset({429, 502, 503, 504})
"""Statuses for which a request is repeated."""

UNAUTHENTICATED = frozenset({401, 403})
"""Statuses for which a request is repeated with credentials."""

Authenticate: TypeAlias = Callable[[CallOptions], Awaitable[CallOptions]]
"""Adds credentials to a request."""

VERSION = "A2A-Version"
"""The header that asks for the card of a version. Servers of older releases ignore it."""


@dataclass(frozen=True, slots=True)
class DiscoveredCard:
    """A card, its URL, the version it is written in, its signature if that was verified, and the document itself."""

    card: AgentCard
    url: str
    version: Version
    signature: VerifiedSignature | None = None
    document: bytes = field(default=b"", repr=False, compare=False)


class Discovery:
    """Finds cards. Without `cache`, every card is fetched.

    `version` is the newest that the caller speaks. A server of several versions may have a card for each, and the
    newest may not list the interfaces for older clients.
    """

    def __init__(
        self,
        connections: Connections,
        signatures: SignaturePolicy | None = None,
        *,
        cache: CardCache | None = None,
        retries: Retries | None = None,
        authenticate: Authenticate | None = None,
        version: Version = Version.V1_0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._connections = connections
        self._signatures = signatures or SignaturePolicy()
        self._cache = cache
        self._retries = retries or Retries()
        self._authenticate = authenticate
        self._version = version
        self._sleep = sleep

    async def card(self, target: str) -> AgentCard:
        """The card at a URL, which is the agent's or the card's own. Raises as `find` does."""
        return (await self.find(target)).card

    async def find(self, target: str) -> DiscoveredCard:
        """The card at a URL, which is the agent's or the card's own, and where it was found.

        Raises:
            DiscoveryError: there is none; the message names the URLs that were tried.
            PeerProtocolError: the document is not a card.
            SignatureInvalidError: it is not signed as the policy demands.
            ForbiddenTargetError: the URL must not be called.
            UnreachableError: the server cannot be reached, or does not answer in time.
        """
        target = with_scheme(target)
        self._connections.trust(target)
        seconds = self._connections.timeouts.card
        try:
            async with asyncio.timeout(seconds):
                return await self._cached(target) or await self._search(target)
        except TimeoutError as error:
            raise TimedOutError(f"No card of {read_target(target).origin} within {seconds:g} seconds") from error

    # --- finding ------------------------------------------------------------------------------------------------------

    async def _cached(self, target: str) -> DiscoveredCard | None:
        """The cached card, if it is fresh or its server says that it has not changed."""
        cached = self._cache.get(self._key(target)) if self._cache is not None else None
        if self._cache is None or cached is None:
            return None
        if self._cache.is_fresh(cached):
            return await self.read(cached.url, cached.body)
        self._cache.forget(self._key(target))  # until it is found again
        try:
            reply = await self._get(cached.url, {"if-none-match": cached.etag} if cached.etag else {})
            if reply.status not in (200, 304):
                return None
            body = cached.body if reply.status == 304 else reply.body
            found = await self.read(cached.url, body)
        except SignatureInvalidError:
            raise
        except (ForbiddenTargetError, PeerProtocolError):
            return None  # it is no longer there
        etag = {"etag": cached.etag} if cached.etag else {}
        self._cache.keep(self._key(target), cached.url, body, {**etag, **reply.headers})
        return found

    def _key(self, target: str) -> str:
        """The cache key of a target, which may have a card for each version."""
        return f"{self._version} {target}"

    async def _search(self, target: str) -> DiscoveredCard:
        failures: dict[str, list[str]] = {}
        broken: PeerProtocolError | None = None
        for url in card_urls(target):
            is_private = False
            try:
                reply = await self._get(url, {})
                if reply.status in UNAUTHENTICATED and self._authenticate is not None:
                    is_private = True
                    reply = await self._get_once(url, {}, self._authenticate)
            except (ForbiddenTargetError, PeerProtocolError) as error:  # a redirect, invalid HTTP, or too long
                _note(failures, f"fails ({error})", url)
                continue
            if reply.status != 200:
                _note(failures, f"answers {reply.status}{' to the credentials' if is_private else ''}", url)
                continue
            try:
                found = await self.read(url, reply.body)
            except SignatureInvalidError:
                raise
            except PeerProtocolError as error:
                # Many sites serve a web page at every URL. A JSON object was meant to be a card.
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

    # --- reading ------------------------------------------------------------------------------------------------------

    async def read(self, url: str, body: bytes) -> DiscoveredCard:
        """The card in a document that comes from this URL. Raises PeerProtocolError or SignatureInvalidError."""
        if not self._signatures.applies_to(body):
            card, version = decode_any_card(body)
            return DiscoveredCard(card, url, version, document=body)
        verified = await verify(body, self._signatures, self._fetch_keys)
        card, version = decode_any_card(verified.payload)
        return DiscoveredCard(
            structs.replace(card, signatures=(signature_at(body, verified.index),)), url, version, verified, body
        )

    async def _fetch_keys(self, url: str) -> bytes:
        self._connections.trust_address(read_target(url).host)  # the policy allows this host
        reply = await self._get(url, {})
        if reply.status != 200:
            raise DiscoveryError(f"The key set at {url} answers {reply.status}")
        return reply.body

    async def _get(self, url: str, headers: Mapping[str, str]) -> HttpReply:
        """A small document; temporary failures are retried."""
        pause = self._retries.first_pause
        for _ in range(1, self._retries.attempts):
            with suppress(UnreachableError):
                reply = await self._get_once(url, headers)
                if reply.status not in TEMPORARY:
                    return reply
            await self._sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, self._retries.longest_pause)
        return await self._get_once(url, headers)

    async def _get_once(
        self, url: str, headers: Mapping[str, str], authenticate: Authenticate | None = None
    ) -> HttpReply:
        channel, limit = self._connections.channel, self._connections.bounds.card_bytes
        seconds = self._connections.timeouts.card
        # The URL may ask for a version itself.
        version = {} if VERSION.lower() in read_target(url).query.lower() else {VERSION.lower(): self._version.value}
        options = CallOptions({"accept": "application/json", **version, **headers}, timeout=seconds)
        if authenticate is not None:
            options = await authenticate(options)
        return await channel.exchange("GET", url, b"", options, limit=limit)


def _note(failures: dict[str, list[str]], what: str, url: str) -> None:
    """Record a failure, the same one once for all URLs: error messages are short."""
    failures.setdefault(what, []).append(read_target(url).path or "/")


def _is_page(reply: HttpReply) -> bool:
    return reply.body.lstrip().startswith(b"<")


def card_urls(target: str) -> list[str]:
    """The URLs at which the card of a target may be, the likeliest first.

    card_urls("https://a.example/currency") == [
        "https://a.example/currency/.well-known/agent-card.json", "https://a.example/currency/.well-known/agent.json",
        "https://a.example/currency/agent-card.json",
        "https://a.example/.well-known/agent-card.json", "https://a.example/.well-known/agent.json",
        "https://a.example/currency",
    ]
    """
    parts = read_target(target)
    if parts.scheme not in ("http", "https"):
        raise DiscoveryError("Cards are fetched over HTTP: pass the card, or its URL")
    origin, path = parts.origin, parts.path.rstrip("/")
    for known in WELL_KNOWN:
        if path.endswith(known):  # it may also be at the path of the other releases
            return [target, *(f"{origin}{path.removesuffix(known)}{other}" for other in WELL_KNOWN if other != known)]
    if path.endswith(".json"):
        return [target]
    below = [f"{origin}{path}{known}" for known in (*WELL_KNOWN, BELOW_AGENT)] if path else []
    found = [*below, *(f"{origin}{known}" for known in WELL_KNOWN)]
    # Last the target itself: a catalog may have cards at any URL.
    return [*found, target] if path or parts.query else found
