"""The published card of an agent: with the URLs that the caller can reach, its security and its signatures.

The card and the server use the same settings, so the card always declares what the server does. Spec: 1.0 sections 8.2
to 8.6.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

import msgspec
from msgspec import Struct, structs

from parley.agents.agent import Agent
from parley.dialects.cards import encode_superset_card
from parley.dialects.registry import DIALECTS
from parley.dialects.v1_0 import DIALECT as V1_0
from parley.network import urls
from parley.protocol.cards import AgentCard, AgentInterface, AgentSkill, Binding
from parley.protocol.signing import CardForm, CardKey, sign_card
from parley.protocol.versions import Version
from parley.server.bindings.cursor import CURSOR
from parley.server.bindings.idempotent_send import idempotent_send
from parley.server.contracts import CallerAuthenticator

K = TypeVar("K")
V = TypeVar("V")

MAX_CACHED = 64
"""Cards for different URLs that are cached. Callers choose the Host header, so there must be a limit."""

PUBLIC_SECONDS = 300
"""How long callers may cache a public card."""

KEYS_PATH = "/.well-known/jwks.json"
"""The path of the public signing key, relative to the agent's URL."""


class Signer(Struct, frozen=True):
    """A key to sign cards with, its id, and the URL of the public key if that is not at `KEYS_PATH`."""

    key: CardKey
    key_id: str
    jku: str | None = None

    def public_keys(self) -> bytes:
        """The public key as a JSON Web Key Set."""
        return msgspec.json.encode({"keys": [{**self.key.as_dict(private=False), "kid": self.key_id, "use": "sig"}]})


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

    `grpc_target` returns the `host:port` of the gRPC server for a caller of some URL, or None if there is none.
    `grpc_tenant` is the tenant that selects this agent among several there. `extensions` are those of the server.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        security: CallerAuthenticator | None = None,
        signer: Signer | None = None,
        has_push: bool = True,
        idempotency_seconds: float = 0.0,
        is_remote: bool = False,
        default_version: Version | None = None,
        grpc_target: Callable[[str], str | None] = lambda _: None,
        grpc_tenant: str | None = None,
    ) -> None:
        self._agent = agent
        self._modified = datetime.now(UTC).replace(microsecond=0)  # the card does not change after this
        self._security = security
        self.signer = signer
        self._default_version = default_version
        self.grpc_target = grpc_target
        self._grpc_tenant = grpc_tenant
        self.has_streaming = agent.streaming
        self.has_push = has_push
        # A remote agent declares its own extensions, and a proxy cannot add to them.
        added = (CURSOR, idempotent_send(idempotency_seconds)) if idempotency_seconds else (CURSOR,)
        self.extensions = () if is_remote else added
        self.has_extended = security is not None and agent.has_private_skills
        self._cards: OrderedDict[tuple[str, str | None, bool], AgentCard] = OrderedDict()
        self._documents: OrderedDict[tuple[str, str | None, str | None], CardDocument] = OrderedDict()

    def card(self, base_url: str, *, everything: bool = False) -> AgentCard:
        """The card for callers who reach the agent at this URL; `everything` returns the extended card."""
        target = self.grpc_target(base_url)
        return _cached(self._cards, (base_url, target, everything), lambda: self._make(base_url, target, everything))

    def document(self, base_url: str, version: Version | None = None) -> CardDocument:
        """The public card in one version, or in the form that clients of 0.3 and 1.0 both accept."""
        version = version or self._default_version
        key = (base_url, self.grpc_target(base_url), version)
        return _cached(self._documents, key, lambda: self._write(base_url, version))

    def _write(self, base_url: str, version: Version | None) -> CardDocument:
        card = self.card(base_url)
        body = DIALECTS[version].encode_card(card) if version else encode_superset_card(card)
        return CardDocument(body, f'"{hashlib.sha256(body).hexdigest()[:32]}"', self._modified)

    def _make(self, base_url: str, grpc_target: str | None, everything: bool) -> AgentCard:
        card = self._agent.card(
            *self._interfaces(base_url, grpc_target),
            push_notifications=self.has_push,
            extended_card=self.has_extended,
            everything=everything,
        )
        return self._declared(card, base_url)

    def published(self, card: AgentCard, base_url: str) -> AgentCard:
        """The card of a remote agent, for callers who reach it at this URL."""
        interfaces = tuple(self._interfaces(base_url, self.grpc_target(base_url)))
        return self._declared(structs.replace(card, interfaces=interfaces, signatures=()), base_url)

    def _declared(self, card: AgentCard, base_url: str) -> AgentCard:
        """The card with what the server adds: extensions, security and signatures."""
        own = {extension.uri for extension in self.extensions}
        others = [extension for extension in card.capabilities.extensions if extension.uri not in own]
        extensions = (*others, *self.extensions)
        card = structs.replace(card, capabilities=structs.replace(card.capabilities, extensions=extensions))
        if self._security is not None:
            card = structs.replace(
                card,
                security_schemes=dict(self._security.schemes),
                security=self._security.requirements,
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
        if not scopes or self._security is None:
            return skill
        return structs.replace(skill, security=self._security.requirements_for(scopes))

    def _signed(self, card: AgentCard, base_url: str) -> AgentCard:
        """The card with two signatures: in the form of the specification and in that of a2a-sdk."""
        if self.signer is None:
            return card
        spelled = msgspec.json.decode(V1_0.encode_card(card))
        jku = self.signer.jku or f"{base_url}{KEYS_PATH}"
        signatures = [
            sign_card(spelled, self.signer.key, key_id=self.signer.key_id, jku=jku, form=form)
            for form in (CardForm.SPEC, CardForm.NO_EMPTIES)
        ]
        return structs.replace(card, signatures=tuple(signatures))


def _cached(cache: OrderedDict[K, V], key: K, make: Callable[[], V]) -> V:
    value = cache.get(key)
    if value is None:
        value = cache[key] = make()
        if len(cache) > MAX_CACHED:
            cache.popitem(last=False)
    return value


def host_of(url: str) -> str:
    """The host in a URL, in brackets if it is an IPv6 address."""
    host = urls.host_of(url) or "localhost"
    return f"[{host}]" if ":" in host else host
