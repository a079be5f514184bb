"""The agent card of A2A 1.0 in JSON.

Written as section 8.4.1 wants it for signing: required members always, optional ones when set. Read as ProtoJSON
writers produce it, which leave out every empty member, required or not. Spec: 1.0 section 4.4 and a2a.proto.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from msgspec import Struct, field

from parley.dialects.dialect import Codec
from parley.dialects.fields import NonEmpty, Reader, WireStruct, always_list, always_object, always_text, read_each
from parley.dialects.oauth_flows import one_flow_per_scheme
from parley.dialects.same_names import decoded, encoded
from parley.protocol import cards as c
from parley.protocol.versions import Version, without_patch

S = TypeVar("S", bound=Struct)


class V10Interface(WireStruct):
    url: NonEmpty
    protocol_binding: NonEmpty
    # Required, but Microsoft's agent-framework-a2a 1.0.0b261022 documents a card without it (A2AExecutor).
    protocol_version: str = field(default_factory=always_text)
    tenant: str | None = None


class V10Provider(WireStruct):
    url: str = field(default_factory=always_text)
    organization: str = field(default_factory=always_text)


class V10Extension(WireStruct):
    uri: str = field(default_factory=always_text)
    description: str | None = None
    required: bool = False
    params: dict[str, Any] | None = None


class V10Capabilities(WireStruct):
    streaming: bool | None = None
    push_notifications: bool | None = None
    extensions: list[V10Extension] | None = None
    extended_agent_card: bool | None = None


class V10Scopes(WireStruct):
    scopes: list[str] | None = field(default=None, name="list")


class V10Requirement(WireStruct):
    schemes: dict[str, V10Scopes] | None = None


class WireSkill(WireStruct):
    """What a skill has in 0.3 and in 1.0; they differ in how it states its security."""

    id: NonEmpty
    name: str = field(default_factory=always_text)
    description: str = field(default_factory=always_text)
    tags: list[str] = field(default_factory=always_list)
    examples: list[str] | None = None
    input_modes: list[str] | None = None
    output_modes: list[str] | None = None


class V10Skill(WireSkill):
    security_requirements: list[V10Requirement] | None = None


class V10Signature(WireStruct):
    protected: NonEmpty
    signature: NonEmpty
    header: dict[str, Any] | None = None


class WireScheme(WireStruct):
    """What satisfies a demand for credentials; `kind` is its canonical struct."""

    kind: ClassVar[type[Any]]


class V10ApiKey(WireScheme):
    kind = c.ApiKeyScheme
    location: c.ApiKeyLocation
    name: NonEmpty
    description: str | None = None


class V10HttpAuth(WireScheme):
    kind = c.HttpAuthScheme
    scheme: NonEmpty
    bearer_format: str | None = None
    description: str | None = None


class V10Flow(WireStruct):
    authorization_url: str | None = None
    token_url: str | None = None
    device_authorization_url: str | None = None
    refresh_url: str | None = None
    scopes: dict[str, str] = field(default_factory=always_object)
    pkce_required: bool = False


class V10Flows(WireStruct):
    authorization_code: V10Flow | None = None
    client_credentials: V10Flow | None = None
    implicit: V10Flow | None = None
    password: V10Flow | None = None
    device_code: V10Flow | None = None


class WireOAuth2(WireScheme):
    """An OAuth2 scheme of 0.3 or 1.0; they differ in the flows."""

    kind = c.OAuth2Scheme
    flows: Any
    metadata_url: str | None = field(default=None, name="oauth2MetadataUrl")
    description: str | None = None


class V10OAuth2(WireOAuth2):
    flows: V10Flows


class V10OpenIdConnect(WireScheme):
    kind = c.OpenIdConnectScheme
    url: NonEmpty = field(name="openIdConnectUrl")
    description: str | None = None


class V10MutualTls(WireScheme):
    kind = c.MutualTlsScheme
    description: str | None = None


class V10Scheme(WireStruct):
    api_key_security_scheme: V10ApiKey | None = None
    http_auth_security_scheme: V10HttpAuth | None = None
    oauth2_security_scheme: V10OAuth2 | None = None
    open_id_connect_security_scheme: V10OpenIdConnect | None = None
    mtls_security_scheme: V10MutualTls | None = None

    def given(self) -> list[WireScheme]:
        """The scheme; none if only later releases have it."""
        return [scheme for name in self.__struct_fields__ if (scheme := getattr(self, name)) is not None]

    def __post_init__(self) -> None:
        if len(self.given()) > 1:
            raise ValueError("A security scheme is only one of " + ", ".join(self.__struct_encode_fields__))


class V10Card(WireStruct):
    name: NonEmpty
    description: str = field(default_factory=always_text)
    supported_interfaces: list[V10Interface] = field(default_factory=always_list)
    version: str = field(default_factory=always_text)
    capabilities: V10Capabilities = field(default_factory=lambda: V10Capabilities())
    default_input_modes: list[str] = field(default_factory=always_list)
    default_output_modes: list[str] = field(default_factory=always_list)
    skills: list[V10Skill] = field(default_factory=always_list)
    provider: V10Provider | None = None
    documentation_url: str | None = None
    icon_url: str | None = None
    security_schemes: dict[str, Any] | None = None  # each a V10Scheme
    security_requirements: list[V10Requirement] | None = None
    signatures: list[V10Signature] | None = None


# --- security ---------------------------------------------------------------------------------------------------------


def decode_requirements(requirements: list[V10Requirement] | None) -> tuple[c.SecurityRequirement, ...]:
    """Alternatives, each a set of schemes with the scopes they need."""
    return tuple(
        {name: tuple(given.scopes or ()) for name, given in (requirement.schemes or {}).items()}
        for requirement in requirements or ()
    )


def encode_requirements(requirements: tuple[c.SecurityRequirement, ...]) -> list[V10Requirement] | None:
    """Alternatives in 1.0: `[{"schemes": {"oauth": {"list": ["read"]}}}]`."""
    return [
        V10Requirement({name: V10Scopes(list(scopes) or None) for name, scopes in requirement.items()} or None)
        for requirement in requirements
    ] or None


def decode_scheme(wire: WireScheme) -> c.SecurityScheme:
    """A security scheme of 0.3 or 1.0, by its struct."""
    if not isinstance(wire, WireOAuth2):
        return decoded(wire.kind, wire)
    named = {name: getattr(wire.flows, name) for name in wire.flows.__struct_fields__}
    flows = {name: decoded(c.OAuthFlow, flow) for name, flow in named.items() if flow is not None}
    return decoded(wire.kind, wire, flows=c.OAuthFlows(**flows))


def encode_scheme(
    scheme: c.SecurityScheme, wires: tuple[type[WireScheme], ...], flows: type[Struct], flow: type[WireStruct]
) -> Any:
    """A security scheme as the one of these structs that is for its kind."""
    wire = next(wire for wire in wires if wire.kind is type(scheme))
    if not isinstance(scheme, c.OAuth2Scheme):
        return encoded(wire, scheme)
    named = {name: getattr(scheme.flows, name) for name in flows.__struct_fields__}
    return encoded(
        wire, scheme, flows=flows(**{name: encoded(flow, one) for name, one in named.items() if one is not None})
    )


def decode_schemes(schemes: dict[str, Any]) -> dict[str, c.SecurityScheme]:
    """The card's security schemes by name, without those that only later releases have."""
    wires = read_each(_scheme_reader, schemes, "$.securitySchemes")
    return {name: decode_scheme(scheme) for name, wire in wires.items() for scheme in wire.given()}


_scheme_reader = Reader(V10Scheme)
_WIRES: dict[type[WireScheme], str] = {
    V10ApiKey: "api_key_security_scheme",
    V10HttpAuth: "http_auth_security_scheme",
    V10OAuth2: "oauth2_security_scheme",
    V10OpenIdConnect: "open_id_connect_security_scheme",
    V10MutualTls: "mtls_security_scheme",
}


def encode_schemes(schemes: dict[str, c.SecurityScheme]) -> dict[str, V10Scheme] | None:
    """The card's security schemes in 1.0, each tagged by its member name."""
    wires = {name: encode_scheme(scheme, tuple(_WIRES), V10Flows, V10Flow) for name, scheme in schemes.items()}
    return {name: V10Scheme(**{_WIRES[type(wire)]: wire}) for name, wire in wires.items()} or None


# --- the card ---------------------------------------------------------------------------------------------------------


def decode_extensions(extensions: list[V10Extension] | None) -> tuple[c.AgentExtension, ...]:
    """The extensions that the agent declares."""
    return tuple(decoded(c.AgentExtension, extension) for extension in extensions or ())


def encode_extensions(extensions: tuple[c.AgentExtension, ...]) -> list[V10Extension] | None:
    """The extensions in the form that all dialects since 0.2.2 share."""
    return [encoded(V10Extension, extension) for extension in extensions] or None


def decode_card_with(card: Any, **given: Any) -> c.AgentCard:
    """A card of 0.3 or 1.0, with these members in the form of its version."""
    provider = decoded(c.AgentProvider, card.provider) if card.provider else None
    signatures = tuple(decoded(c.CardSignature, signature) for signature in card.signatures or ())
    return decoded(c.AgentCard, card, provider=provider, signatures=signatures, **given)


def encode_card_with(kind: type[S], card: c.AgentCard, **given: Any) -> S:
    """A card as the struct of 0.3 or 1.0, with these members in the form of its version."""
    provider = encoded(V10Provider, card.provider) if card.provider else None
    signatures = [encoded(V10Signature, signature) for signature in card.signatures] or None
    return encoded(kind, card, provider=provider, signatures=signatures, **given)


def decode_card(card: V10Card) -> c.AgentCard:
    """A card."""
    given = card.capabilities
    return decode_card_with(
        card,
        interfaces=tuple(
            c.AgentInterface(
                i.url, i.protocol_binding, without_patch(i.protocol_version or Version.V1_0), i.tenant or None
            )
            for i in card.supported_interfaces
        ),
        capabilities=decoded(
            c.AgentCapabilities,
            given,
            extended_card=given.extended_agent_card,
            extensions=decode_extensions(given.extensions),
        ),
        skills=tuple(
            decoded(c.AgentSkill, skill, security=decode_requirements(skill.security_requirements))
            for skill in card.skills
        ),
        security_schemes=decode_schemes(card.security_schemes or {}),
        security=decode_requirements(card.security_requirements),
    )


def encode_card(card: c.AgentCard) -> V10Card:
    """A card in 1.0; a scheme with several OAuth flows becomes several schemes."""
    card = one_flow_per_scheme(card)
    given = card.capabilities
    return encode_card_with(
        V10Card,
        card,
        supported_interfaces=[V10Interface(i.url, i.binding, i.version, i.tenant) for i in card.interfaces],
        capabilities=encoded(
            V10Capabilities,
            given,
            extensions=encode_extensions(given.extensions),
            extended_agent_card=given.extended_card,
        ),
        skills=[
            encoded(V10Skill, skill, security_requirements=encode_requirements(skill.security)) for skill in card.skills
        ],
        security_schemes=encode_schemes(card.security_schemes),
        security_requirements=encode_requirements(card.security),
    )


# No tolerance for snake_case here: a signature covers the names of the specification, and others could be smuggled in.
CARDS = Codec(Reader(V10Card), decode_card, encode_card)
