"""Registered agents, added catalogues and search results, as the native API takes and shows them.

No view has a token: `has_token` says that there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from parley.ai_catalog.model import AiCatalogEntry
from parley.host.api.catalog_entries import Origin
from parley.host.data.catalog_sources import CatalogSource
from parley.host.data.registered_agents import CardSummary, RegisteredAgent, SignatureMode
from parley.host.data.registry_checks import HealthState, RegistryCheck
from parley.protocol.jsonvalue import JsonObject

NAME_PATTERN = "^[A-Za-z0-9_-]{1,64}\\Z"
TOKEN_PATTERN = "^[\\x21-\\x7e]{1,8192}\\Z"

RegistryName = Annotated[str, Meta(pattern=NAME_PATTERN)]
RegistryUrl = Annotated[str, Meta(min_length=1, max_length=2_048)]


class RemoteCredentials(Struct, frozen=True, forbid_unknown_fields=True):
    """What a remote server gets: a bearer token or an API key, as its card requires."""

    token: Annotated[str, Meta(pattern=TOKEN_PATTERN)]


class SignatureDemand(Struct, frozen=True, forbid_unknown_fields=True):
    """Which cards are accepted: all (`off`), signed ones if they verify (`if signed`), or only verified ones."""

    mode: SignatureMode = "if signed"
    jwks: JsonObject | None = None
    """The keys that are trusted: a JSON Web Key Set."""


class AgentRegistration(Struct, frozen=True, forbid_unknown_fields=True):
    """An agent to register. Without a name it gets that of its card."""

    url: RegistryUrl
    name: RegistryName | None = None
    description: Annotated[str, Meta(max_length=1_000)] | None = None
    credentials: RemoteCredentials | None = None
    signatures: SignatureDemand = SignatureDemand()


class SourceAddition(Struct, frozen=True, forbid_unknown_fields=True):
    """A catalogue to add. Without a name it gets that of its host."""

    url: RegistryUrl
    name: RegistryName | None = None
    credentials: RemoteCredentials | None = None


class CheckRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """How to check: whether a card that has changed is accepted."""

    accept: bool = False


class HealthView(Struct, frozen=True):
    """What the last check found, and since when that is so."""

    state: HealthState
    reason: str
    since: int
    checked_at: int


class RegisteredAgentView(Struct, frozen=True):
    """A registered agent."""

    name: str
    url: str
    description: str
    card: CardSummary
    signature_mode: SignatureMode
    has_token: bool
    health: HealthView | None
    created_at: int
    updated_at: int


class RegisteredAgentList(Struct, frozen=True):
    """All registered agents of a tenant."""

    count: int
    agents: Sequence[RegisteredAgentView]


class SourceView(Struct, frozen=True):
    """A catalogue that was added."""

    name: str
    url: str
    has_token: bool
    entry_count: int
    problems: Sequence[str]
    is_complete: bool
    """Whether all of its entries are known."""
    read_at: int
    health: HealthView | None
    created_at: int


class SourceList(Struct, frozen=True):
    """All catalogues that a tenant has added."""

    count: int
    sources: Sequence[SourceView]


class CatalogHit(Struct, frozen=True):
    """An entry that was found. `name` is how agents of the tenant call it; it is missing if they cannot."""

    identifier: str
    display_name: str
    media_type: str
    origin: Origin
    is_callable: bool
    """Whether it is an A2A agent."""
    description: str
    tags: Sequence[str]
    skills: Sequence[str]
    name: str | UnsetType = UNSET
    source: str | UnsetType = UNSET
    """The added catalogue that has it."""
    url: str | UnsetType = UNSET
    version: str | UnsetType = UNSET


class CatalogPage(Struct, frozen=True):
    """A page of what was found, the best first."""

    total: int
    entries: Sequence[CatalogHit]
    next_offset: int | None


class PublicState(Struct, frozen=True):
    """Whether an agent is public, and where its card is then."""

    public: bool
    card_url: str | UnsetType = UNSET


class PublicChange(Struct, frozen=True, forbid_unknown_fields=True):
    """Whether an agent is to be public."""

    public: bool


def agent_view(agent: RegisteredAgent, check: RegistryCheck | None) -> RegisteredAgentView:
    """A registered agent with its health."""
    return RegisteredAgentView(
        agent.name,
        agent.url,
        agent.description or agent.card.description,
        agent.card,
        agent.signatures.mode,
        agent.has_token,
        _health(check),
        agent.created_at,
        agent.updated_at,
    )


def source_view(source: CatalogSource, check: RegistryCheck | None) -> SourceView:
    """An added catalogue with its health."""
    return SourceView(
        source.name,
        source.url,
        source.has_token,
        source.entry_count,
        source.problems,
        source.is_complete,
        source.read_at,
        _health(check),
        source.created_at,
    )


def hit_view(entry: AiCatalogEntry, origin: Origin, *, name: str = "", source: str = "") -> CatalogHit:
    """An entry that was found."""
    return CatalogHit(
        entry.identifier,
        entry.display_name,
        entry.media_type,
        origin,
        entry.is_agent,
        entry.description,
        entry.tags,
        entry.skills,
        name or UNSET,
        source or UNSET,
        entry.url or UNSET,
        entry.version or UNSET,
    )


def _health(check: RegistryCheck | None) -> HealthView | None:
    return None if check is None else HealthView(check.state, check.reason, check.since, check.checked_at)
