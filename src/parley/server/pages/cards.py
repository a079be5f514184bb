"""The published card of an agent: with the URLs that the caller can reach, its security and its signatures.

The card and the server use the same settings, so the card always declares what the server does. Spec: 1.0 sections 8.2
to 8.6.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Hashable
from contextlib import asynccontextmanager
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import partial

import msgspec
from msgspec import Struct, structs

from parley.agents.agent import Agent
from parley.dialects.cards import encode_superset_card
from parley.dialects.registry import DIALECTS
from parley.dialects.v1_0 import DIALECT as V1_0
from parley.network import urls
from parley.protocol.cards import AgentCard, AgentInterface, AgentSkill, Binding
from parley.protocol.errors import UnavailableError
from parley.protocol.signing import CardForm, make_signature
from parley.protocol.versions import Version
from parley.server import signing_threads
from parley.server.app_resources import AppResources
from parley.server.pages.signer import KEYS_PATH
from parley.server.signing_threads import SigningError

PUBLIC_SECONDS = 300
"""How long callers may cache a public card."""


class CardDocument(Struct, frozen=True):
    """An encoded card with its `ETag` and `Last-Modified`."""

    body: bytes
    etag: str
    modified: datetime

    def is_known(self, etags: str | None, since: str | None) -> bool:
        """Whether the caller has this card, by its `If-None-Match`, or else by its `If-Modified-Since`."""
        if etags is not None:
            return etags.strip() == "*" or self.etag in (tag.strip().removeprefix("W/") for tag in etags.split(","))
        try:
            date = parsedate_to_datetime(since) if since else None
        except (ValueError, OverflowError):
            return False  # RFC 9110 section 13.1.3: an invalid date is ignored
        return date is not None and date.tzinfo is not None and date >= self.modified


class Cards:
    """The cards of one agent, for any URL under which callers reach it.

    `since` is when the agent was added or replaced. `grpc_tenant` is the tenant that names this agent among several to
    the gRPC server.
    """

    __slots__ = ("_agent", "_grpc_tenant", "_shared", "_since", "has_extended")

    def __init__(self, agent: Agent, shared: AppResources, *, since: datetime, grpc_tenant: str | None) -> None:
        self._agent = agent
        self._shared = shared
        self._since = since
        self._grpc_tenant = grpc_tenant
        self.has_extended = shared.security is not None and agent.has_private_skills

    @property
    def has_streaming(self) -> bool:
        """Whether the agent streams."""
        return self._agent.streaming

    @property
    def has_push(self) -> bool:
        """Whether webhooks may be registered."""
        return self._shared.check_webhook is not None

    async def prepare(self, base_url: str, *, everything: bool = False) -> None:
        """Sign a card in a thread, unless it is in the cache or gets no signature; `card` and `document` find it there.

        Raises:
            UnavailableError: the key does not answer in time, or fails.
        """
        target = self._shared.grpc_target(base_url)
        key = self._key(base_url, target, everything)
        if key in self._shared.cards or not self._is_signed(base_url):
            return
        async with self._in_time(), self._shared.cards_in_signing.setdefault(key, asyncio.Lock()):
            if key not in self._shared.cards:
                card = await self._shared.signing.run(partial(self._make, base_url, target, everything))
                self._shared.cards.get(key, lambda: card)

    def card(self, base_url: str, *, everything: bool = False) -> AgentCard:
        """The card for callers who reach the agent at this URL; `everything` returns the extended card."""
        target = self._shared.grpc_target(base_url)
        key = self._key(base_url, target, everything)
        return self._shared.cards.get(key, lambda: self._make(base_url, target, everything))

    def _key(self, base_url: str, grpc_target: str | None, everything: bool) -> Hashable:
        return (self._agent, base_url, grpc_target, self.has_push, everything, self._shared.card_revision)

    @asynccontextmanager
    async def _in_time(self) -> AsyncGenerator[None]:
        try:
            async with asyncio.timeout(signing_threads.SIGN_SECONDS):
                yield
        except (TimeoutError, SigningError) as error:
            raise UnavailableError("The card could not be signed") from error

    def document(self, base_url: str, version: Version | None = None) -> CardDocument:
        """The public card in one version, or in the form that clients of 0.3 and 1.0 both accept."""
        version = version or self._shared.card_version
        target = self._shared.grpc_target(base_url)
        key = (self._agent, base_url, target, self.has_push, "document", version, self._shared.card_revision)
        return self._shared.cards.get(key, lambda: self._write(base_url, version))

    def _write(self, base_url: str, version: Version | None) -> CardDocument:
        card = self.card(base_url)
        body = DIALECTS[version].encode_card(card) if version else encode_superset_card(card)
        return self._document(body)

    def _document(self, body: bytes) -> CardDocument:
        """A card with its validators. It was modified when the agent was, or later when a key or the auth file was."""
        changed = self._shared.cards_changed_at
        modified = self._since if changed is None else max(self._since, changed.replace(microsecond=0))
        return CardDocument(body, f'"{hashlib.sha256(body).hexdigest()[:32]}"', modified)

    def _make(self, base_url: str, grpc_target: str | None, everything: bool) -> AgentCard:
        card = self._agent.card(
            *self._interfaces(base_url, grpc_target),
            push_notifications=self.has_push,
            extended_card=self.has_extended,
            everything=everything,
        )
        return self._declared(card, base_url)

    async def published(self, card: AgentCard, base_url: str) -> AgentCard:
        """The card of a remote agent, for callers who reach it at this URL. Raises as `prepare` does."""
        interfaces = tuple(self._interfaces(base_url, self._shared.grpc_target(base_url)))
        card = structs.replace(card, interfaces=interfaces, signatures=())
        if not self._is_signed(base_url):
            return self._declared(card, base_url)
        async with self._in_time():
            return await self._shared.signing.run(partial(self._declared, card, base_url))

    def _declared(self, card: AgentCard, base_url: str) -> AgentCard:
        """The card with what the server adds: extensions, security and signatures."""
        added = self._shared.extensions
        if self.has_push and self._shared.webhook_auth is not None:
            added = (*added, self._shared.webhook_auth.extension(self._agent.id, self._keys_url(base_url)))
        own = {extension.uri for extension in added}
        others = [extension for extension in card.capabilities.extensions if extension.uri not in own]
        extensions = (*others, *added)
        card = structs.replace(card, capabilities=structs.replace(card.capabilities, extensions=extensions))
        if self._shared.security is not None:
            card = structs.replace(
                card,
                security_schemes=dict(self._shared.security.schemes),
                security=self._shared.security.requirements,
                skills=tuple(self._secured(skill) for skill in card.skills),
            )
        return self._signed(card, base_url)

    def _interfaces(self, base_url: str, grpc_target: str | None) -> list[AgentInterface]:
        """The interfaces of the agent, newest version first. gRPC of 0.3 has no tenant to select one of several agents.

        The URL of JSON-RPC has a trailing slash: frameworks that mount the app answer only there, and 0.3 requires a
        URL to have one transport only.
        """
        interfaces: list[AgentInterface] = []
        for version in (Version.V1_0, Version.V0_3):
            interfaces.append(AgentInterface(f"{base_url}/", Binding.JSONRPC, version))
            interfaces.append(AgentInterface(base_url, Binding.HTTP_JSON, version))
            if grpc_target is not None and (version is Version.V1_0 or self._grpc_tenant is None):
                tenant = self._grpc_tenant if version is Version.V1_0 else None
                interfaces.append(AgentInterface(grpc_target, Binding.GRPC, version, tenant))
        return interfaces

    def _secured(self, skill: AgentSkill) -> AgentSkill:
        scopes = self._agent.skill_scopes.get(skill.id, ())
        if not scopes or self._shared.security is None:
            return skill
        return structs.replace(skill, security=self._shared.security.requirements_for(scopes))

    def _is_signed(self, base_url: str) -> bool:
        """Whether the card with a URL is signed.

        A card with a URL that a caller may have made up is not: it would let another server prove that it is this one.
        """
        return self._shared.signer is not None and self._shared.may_sign_for(base_url)

    def _signed(self, card: AgentCard, base_url: str) -> AgentCard:
        """The card with two signatures: in the form of the specification and in that of a2a-sdk."""
        if self._shared.signer is None or not self._is_signed(base_url):
            return card
        spelled = msgspec.json.decode(V1_0.encode_card(card))
        key, jku = self._shared.signer.current, self._keys_url(base_url)
        signatures = [
            make_signature(spelled, key.sign, algorithm=key.algorithm, key_id=key.key_id, jku=jku, form=form)
            for form in (CardForm.SPEC, CardForm.NO_EMPTIES)
        ]
        return structs.replace(card, signatures=tuple(signatures))

    def _keys_url(self, base_url: str) -> str:
        """Where the public keys are, for callers who reach the agent at this URL."""
        elsewhere = None if self._shared.signer is None else self._shared.signer.jku
        return elsewhere or f"{base_url}{KEYS_PATH}"


def host_of(url: str) -> str:
    """The host in a URL, in brackets if it is an IPv6 address."""
    host = urls.host_of(url) or "localhost"
    return f"[{host}]" if ":" in host else host
