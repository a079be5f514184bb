"""The agent card of A2A 0.1 in JSON: one endpoint, authentication by scheme name, media types called "text".

Spec: the 0.1 documents with their JSON schema.
"""

from __future__ import annotations

from msgspec import field

from parley.dialects.dialect import Codec
from parley.dialects.fields import NonEmpty, Reader, WireStruct, always_list, always_text
from parley.dialects.same_names import decoded, encoded
from parley.dialects.v0_3_card import interfaces_for
from parley.protocol import cards as c


class V01Provider(WireStruct):
    organization: str
    url: str | None = None


class V01Capabilities(WireStruct):
    streaming: bool | None = None
    push_notifications: bool | None = None
    state_transition_history: bool | None = None


class V01Authentication(WireStruct):
    schemes: list[str] | str  # samples of the documents name one scheme without its list
    credentials: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.schemes, str):
            self.schemes = [self.schemes]


class V01Skill(WireStruct):
    id: NonEmpty
    name: str = field(default_factory=always_text)
    description: str | None = None
    tags: list[str] | None = None
    examples: list[str] | None = None
    input_modes: list[str] | None = None
    output_modes: list[str] | None = None


class V01Card(WireStruct):
    name: NonEmpty
    url: NonEmpty
    version: str = field(default_factory=always_text)
    description: str | None = None
    provider: V01Provider | None = None
    documentation_url: str | None = None
    capabilities: V01Capabilities = field(default_factory=lambda: V01Capabilities())
    authentication: V01Authentication | None = None
    default_input_modes: list[str] | None = None
    default_output_modes: list[str] | None = None
    skills: list[V01Skill] = field(default_factory=always_list)


TEXT = ("text", "text/plain")
"""The name of plain text in 0.1, and its media type."""


def decode_modes(modes: list[str] | None, *, default: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Media types."""
    return tuple(TEXT[1] if mode == TEXT[0] else mode for mode in modes) if modes else default


def encode_modes(modes: tuple[str, ...]) -> list[str] | None:
    """Media types in 0.1."""
    return [TEXT[0] if mode == TEXT[1] else mode for mode in modes] or None


def encode_scheme_name(scheme: c.SecurityScheme) -> str:
    """All that 0.1 has for a security scheme."""
    match scheme:
        case c.HttpAuthScheme():
            return scheme.scheme
        case c.ApiKeyScheme():
            return "apiKey"
        case c.OAuth2Scheme():
            return "oauth2"
        case c.OpenIdConnectScheme():
            return "openIdConnect"
        case c.MutualTlsScheme():
            return "mutualTLS"


def decode_card(card: V01Card) -> c.AgentCard:
    """A card. A scheme name becomes an HTTP authentication scheme of that name, each an alternative."""
    schemes = card.authentication.schemes if card.authentication else []
    provider = card.provider
    return decoded(
        c.AgentCard,
        card,
        description=card.description or "",
        interfaces=(c.AgentInterface(card.url, c.Binding.JSONRPC.value, "0.1"),),
        capabilities=decoded(c.AgentCapabilities, card.capabilities),
        skills=tuple(
            decoded(
                c.AgentSkill,
                skill,
                description=skill.description or "",
                input_modes=decode_modes(skill.input_modes),
                output_modes=decode_modes(skill.output_modes),
            )
            for skill in card.skills
        ),
        default_input_modes=decode_modes(card.default_input_modes, default=TEXT[1:]),
        default_output_modes=decode_modes(card.default_output_modes, default=TEXT[1:]),
        provider=c.AgentProvider(provider.organization, provider.url or "") if provider else None,
        security_schemes={name: c.HttpAuthScheme(name) for name in schemes},
        security=tuple({name: ()} for name in dict.fromkeys(schemes)),
    )


def url_for(card: c.AgentCard) -> str:
    """The one endpoint of a card in 0.1, which has only JSON-RPC: the one of the oldest version."""
    speak = [interface for interface in card.interfaces if interface.binding == c.Binding.JSONRPC]
    fitting = interfaces_for(tuple(speak) or card.interfaces[:1], "0.1", "0.2", "0.3")
    return fitting[0].url if fitting else ""


def encode_card(card: c.AgentCard) -> V01Card:
    """A card in 0.1."""
    names = list(dict.fromkeys(encode_scheme_name(scheme) for scheme in card.security_schemes.values()))
    return encoded(
        V01Card,
        card,
        url=url_for(card),
        description=card.description or None,
        provider=V01Provider(card.provider.organization, card.provider.url or None) if card.provider else None,
        capabilities=encoded(V01Capabilities, card.capabilities),
        authentication=V01Authentication(names) if names else None,
        default_input_modes=encode_modes(card.default_input_modes),
        default_output_modes=encode_modes(card.default_output_modes),
        skills=[
            encoded(
                V01Skill,
                skill,
                description=skill.description or None,
                input_modes=encode_modes(skill.input_modes),
                output_modes=encode_modes(skill.output_modes),
            )
            for skill in card.skills
        ],
    )


CARDS = Codec(Reader(V01Card), decode_card, encode_card)
