"""The agent card of A2A 1.0 in JSON.

Written as section 8.4.1 wants it for signing: required members always, optional ones when set. Read as ProtoJSON
writers produce it, which leave out every empty member, required or not. Spec: 1.0 section 4.4 and a2a.proto.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import field

from parley.dialects.dialect import Codec
from parley.dialects.fields import NonEmpty, Reader, WireStruct, always_list, always_object, always_text, read_each
from parley.dialects.oauth_flows import one_flow_per_scheme
from parley.protocol import cards as c
from parley.protocol.versions import Version, without_patch


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


class V10ApiKey(WireStruct):
    location: Literal["query", "header", "cookie"]
    name: NonEmpty
    description: str | None = None


class V10HttpAuth(WireStruct):
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


class V10OAuth2(WireStruct):
    flows: V10Flows
    oauth2_metadata_url: str | None = None
    description: str | None = None


class V10OpenIdConnect(WireStruct):
    open_id_connect_url: NonEmpty
    description: str | None = None


class V10MutualTls(WireStruct):
    description: str | None = None


class V10Scheme(WireStruct):
    api_key_security_scheme: V10ApiKey | None = None
    http_auth_security_scheme: V10HttpAuth | None = None
    oauth2_security_scheme: V10OAuth2 | None = None
    open_id_connect_security_scheme: V10OpenIdConnect | None = None
    mtls_security_scheme: V10MutualTls | None = None

    def __post_init__(self) -> None:
        if sum(getattr(self, name) is not None for name in self.__struct_fields__) > 1:
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


def decode_flow(flow: V10Flow | None) -> c.OAuthFlow | None:
    """One OAuth flow."""
    return flow and c.OAuthFlow(
        flow.scopes,
        flow.authorization_url or None,
        flow.token_url or None,
        flow.refresh_url or None,
        flow.device_authorization_url or None,
        flow.pkce_required,
    )


def encode_flow(flow: c.OAuthFlow | None) -> V10Flow | None:
    """One OAuth flow in 1.0."""
    return flow and V10Flow(
        flow.authorization_url,
        flow.token_url,
        flow.device_authorization_url,
        flow.refresh_url,
        flow.scopes,
        flow.pkce_required,
    )


def decode_schemes(schemes: dict[str, Any]) -> dict[str, c.SecurityScheme]:
    """The card's security schemes by name, without those that only later releases have."""
    wires = read_each(_scheme_reader, schemes, "$.securitySchemes")
    return {name: scheme for name, wire in wires.items() if (scheme := decode_scheme(wire)) is not None}


_scheme_reader = Reader(V10Scheme)


def decode_scheme(scheme: V10Scheme) -> c.SecurityScheme | None:
    """A security scheme, by the one member it has; none if that is unknown."""
    if given := scheme.api_key_security_scheme:
        return c.ApiKeyScheme(c.ApiKeyLocation(given.location), given.name, given.description or None)
    if given := scheme.http_auth_security_scheme:
        return c.HttpAuthScheme(given.scheme, given.bearer_format or None, given.description or None)
    if given := scheme.oauth2_security_scheme:
        flows = {name: decode_flow(getattr(given.flows, name)) for name in c.OAuthFlows.__struct_fields__}
        return c.OAuth2Scheme(c.OAuthFlows(**flows), given.oauth2_metadata_url or None, given.description or None)
    if given := scheme.open_id_connect_security_scheme:
        return c.OpenIdConnectScheme(given.open_id_connect_url, given.description or None)
    given = scheme.mtls_security_scheme
    return given and c.MutualTlsScheme(given.description or None)


def encode_scheme(scheme: c.SecurityScheme) -> V10Scheme:
    """A security scheme in 1.0, tagged by its member name."""
    match scheme:
        case c.ApiKeyScheme():
            given = V10ApiKey(scheme.location.value, scheme.name, scheme.description)
            return V10Scheme(api_key_security_scheme=given)
        case c.HttpAuthScheme():
            given = V10HttpAuth(scheme.scheme, scheme.bearer_format, scheme.description)
            return V10Scheme(http_auth_security_scheme=given)
        case c.OAuth2Scheme():
            flows = {name: encode_flow(getattr(scheme.flows, name)) for name in c.OAuthFlows.__struct_fields__}
            given = V10OAuth2(V10Flows(**flows), scheme.metadata_url, scheme.description)
            return V10Scheme(oauth2_security_scheme=given)
        case c.OpenIdConnectScheme():
            return V10Scheme(open_id_connect_security_scheme=V10OpenIdConnect(scheme.url, scheme.description))
        case c.MutualTlsScheme():
            return V10Scheme(mtls_security_scheme=V10MutualTls(scheme.description))


# --- the card ---------------------------------------------------------------------------------------------------------


def decode_extension(extension: V10Extension) -> c.AgentExtension:
    """An extension the agent declares."""
    return c.AgentExtension(extension.uri, extension.description or None, extension.required, extension.params or {})


def encode_extension(extension: c.AgentExtension) -> V10Extension:
    """An extension in the form that all dialects since 0.2.2 share."""
    return V10Extension(extension.uri, extension.description, extension.required, extension.params or None)


def decode_skill(skill: WireSkill, security: tuple[c.SecurityRequirement, ...]) -> c.AgentSkill:
    """A skill of 0.3 or 1.0."""
    return c.AgentSkill(
        skill.id,
        skill.name,
        skill.description,
        tuple(skill.tags),
        tuple(skill.examples or ()),
        tuple(skill.input_modes or ()),
        tuple(skill.output_modes or ()),
        security,
    )


def skill_members(skill: c.AgentSkill) -> dict[str, Any]:
    """The members of a `WireSkill`."""
    return {
        "id": skill.id,
        "name": skill.name,
        "description": skill.description,
        "tags": list(skill.tags),
        "examples": list(skill.examples) or None,
        "input_modes": list(skill.input_modes) or None,
        "output_modes": list(skill.output_modes) or None,
    }


def decode_signatures(signatures: list[V10Signature] | None) -> tuple[c.CardSignature, ...]:
    """The card's signatures."""
    return tuple(c.CardSignature(s.protected, s.signature, s.header or {}) for s in signatures or ())


def encode_signatures(signatures: tuple[c.CardSignature, ...]) -> list[V10Signature] | None:
    """The card's signatures in the form that 0.3 and 1.0 share."""
    return [V10Signature(s.protected, s.signature, s.header or None) for s in signatures] or None


def decode_card(card: V10Card) -> c.AgentCard:
    """A card."""
    given = card.capabilities
    return c.AgentCard(
        name=card.name,
        description=card.description,
        version=card.version,
        interfaces=tuple(
            c.AgentInterface(
                i.url, i.protocol_binding, without_patch(i.protocol_version or Version.V1_0), i.tenant or None
            )
            for i in card.supported_interfaces
        ),
        capabilities=c.AgentCapabilities(
            given.streaming,
            given.push_notifications,
            given.extended_agent_card,
            extensions=tuple(decode_extension(extension) for extension in given.extensions or ()),
        ),
        skills=tuple(decode_skill(s, decode_requirements(s.security_requirements)) for s in card.skills),
        default_input_modes=tuple(card.default_input_modes),
        default_output_modes=tuple(card.default_output_modes),
        provider=c.AgentProvider(card.provider.organization, card.provider.url) if card.provider else None,
        documentation_url=card.documentation_url or None,
        icon_url=card.icon_url or None,
        security_schemes=decode_schemes(card.security_schemes or {}),
        security=decode_requirements(card.security_requirements),
        signatures=decode_signatures(card.signatures),
    )


def encode_card(card: c.AgentCard) -> V10Card:
    """A card in 1.0; a scheme with several OAuth flows becomes several schemes."""
    card = one_flow_per_scheme(card)
    given = card.capabilities
    return V10Card(
        name=card.name,
        description=card.description,
        supported_interfaces=[V10Interface(i.url, i.binding, i.version, i.tenant) for i in card.interfaces],
        version=card.version,
        capabilities=V10Capabilities(
            given.streaming,
            given.push_notifications,
            [encode_extension(extension) for extension in given.extensions] or None,
            given.extended_card,
        ),
        default_input_modes=list(card.default_input_modes),
        default_output_modes=list(card.default_output_modes),
        skills=[
            V10Skill(**skill_members(s), security_requirements=encode_requirements(s.security)) for s in card.skills
        ],
        provider=V10Provider(card.provider.url, card.provider.organization) if card.provider else None,
        documentation_url=card.documentation_url,
        icon_url=card.icon_url,
        security_schemes={name: encode_scheme(s) for name, s in card.security_schemes.items()} or None,
        security_requirements=encode_requirements(card.security),
        signatures=encode_signatures(card.signatures),
    )


# No tolerance for snake_case here: a signature covers the names of the specification, and others could be smuggled in.
CARDS = Codec(Reader(V10Card), decode_card, encode_card)
