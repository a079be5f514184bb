"""The agent card of A2A 0.3 in JSON, and of 0.2, which lacks some of its members.

A card before 1.0 has one main endpoint and lists the others beside it, all of one version. Spec: 0.3.0 section 5.5.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import field

from parley.dialects.dialect import Codec
from parley.dialects.fields import NonEmpty, Reader, WireStruct, always_list, always_object, always_text, read_each
from parley.dialects.same_names import decoded, encoded
from parley.dialects.v1_0_card import (
    V10ApiKey,
    V10Extension,
    V10HttpAuth,
    V10MutualTls,
    V10OpenIdConnect,
    V10Provider,
    V10Signature,
    WireOAuth2,
    WireScheme,
    WireSkill,
    decode_card_with,
    decode_extensions,
    decode_scheme,
    encode_card_with,
    encode_extensions,
)
from parley.dialects.v1_0_card import encode_scheme as encode_scheme_as
from parley.protocol import cards as c
from parley.protocol.jsonvalue import JsonValue
from parley.protocol.versions import Version, without_patch


class V03Interface(WireStruct):
    url: NonEmpty
    transport: NonEmpty


class V03Capabilities(WireStruct):
    streaming: bool | None = None
    push_notifications: bool | None = None
    state_transition_history: bool | None = None
    extensions: list[V10Extension] | None = None


class V03Flow(WireStruct):
    authorization_url: str | None = None
    token_url: str | None = None
    refresh_url: str | None = None
    scopes: dict[str, str] = field(default_factory=always_object)


class V03Flows(WireStruct):
    authorization_code: V03Flow | None = None
    client_credentials: V03Flow | None = None
    implicit: V03Flow | None = None
    password: V03Flow | None = None


# The schemes of 1.0, which has them from here, with the tag `type`.
class V03ApiKey(V10ApiKey, tag_field="type", tag="apiKey"):
    location: c.ApiKeyLocation = field(name="in")


class V03HttpAuth(V10HttpAuth, tag_field="type", tag="http"):
    pass


class V03OAuth2(WireOAuth2, tag_field="type", tag="oauth2"):
    flows: V03Flows


class V03OpenIdConnect(V10OpenIdConnect, tag_field="type", tag="openIdConnect"):
    pass


class V03MutualTls(V10MutualTls, tag_field="type", tag="mutualTLS"):
    pass


V03Scheme: TypeAlias = V03ApiKey | V03HttpAuth | V03OAuth2 | V03OpenIdConnect | V03MutualTls
V03Security: TypeAlias = list[dict[str, list[str]]]


class V03Skill(WireSkill):
    security: V03Security | None = None


class V03Card(WireStruct):
    name: NonEmpty
    url: NonEmpty
    description: str = field(default_factory=always_text)
    version: str = field(default_factory=always_text)
    protocol_version: str | None = None
    preferred_transport: str | None = None
    additional_interfaces: list[V03Interface] | None = None
    capabilities: V03Capabilities = field(default_factory=lambda: V03Capabilities())
    default_input_modes: list[str] = field(default_factory=always_list)
    default_output_modes: list[str] = field(default_factory=always_list)
    skills: list[V03Skill] = field(default_factory=always_list)
    provider: V10Provider | None = None
    documentation_url: str | None = None
    icon_url: str | None = None
    security_schemes: dict[str, Any] | None = None  # each a V03Scheme, or unknown to this release
    security: V03Security | None = None
    supports_authenticated_extended_card: bool | None = None
    supports_extended_agent_card: bool | None = None  # its name in drafts after 0.3.0
    signatures: list[V10Signature] | None = None


# --- interfaces -------------------------------------------------------------------------------------------------------


def interfaces_for(interfaces: tuple[c.AgentInterface, ...], *versions: str) -> list[c.AgentInterface]:
    """The interfaces of a card of the first of these versions that it has any of, or all if it has none.

    The first is the main one of a card before 1.0: JSON-RPC, if it is there, because readers of that time try nothing
    else.
    """
    by_version = ([face for face in interfaces if face.version == version] for version in versions)
    chosen = next(filter(None, by_version), list(interfaces))
    main = next((face for face in chosen if face.binding == c.Binding.JSONRPC), None)
    return chosen if main is None else [main, *(face for face in chosen if face is not main)]


def version_of_card(stated: str | None, *, unstated: Version) -> str:
    """The version of a card's endpoints, from the version that the card states.

    A card of this shape that states 1.0, as some servers write, cannot mean it: endpoints of 1.0 have versions of
    their own.
    """
    version = without_patch(stated or unstated)
    return version if version.startswith("0.") else Version.V0_3.value


def decode_interfaces(card: V03Card, unstated: Version) -> tuple[c.AgentInterface, ...]:
    """The main endpoint, then the additional ones without repeating it."""
    version = version_of_card(card.protocol_version, unstated=unstated)
    main = (card.url, card.preferred_transport or c.Binding.JSONRPC.value)
    others = [(interface.url, interface.transport) for interface in card.additional_interfaces or ()]
    return tuple(c.AgentInterface(url, binding, version) for url, binding in dict.fromkeys([main, *others]))


# --- security ---------------------------------------------------------------------------------------------------------


def decode_security(security: V03Security | None) -> tuple[c.SecurityRequirement, ...]:
    """Alternatives, each a set of schemes with the scopes they need."""
    return tuple({name: tuple(scopes) for name, scopes in needed.items()} for needed in security or ())


def encode_security(security: tuple[c.SecurityRequirement, ...]) -> V03Security | None:
    """Alternatives in 0.3: `[{"oauth": ["read"]}]`."""
    return [{name: list(scopes) for name, scopes in needed.items()} for needed in security] or None


def decode_schemes(schemes: dict[str, Any]) -> dict[str, c.SecurityScheme]:
    """The card's security schemes by name, without those of types that only later releases have."""
    known = {name: scheme for name, scheme in schemes.items() if not _is_of_unknown_type(scheme)}
    wires = read_each(_scheme_reader, known, "$.securitySchemes")
    return {name: decode_scheme(wire) for name, wire in wires.items()}


_scheme_reader: Reader[V03Scheme] = Reader(V03Scheme)
_WIRES = (V03ApiKey, V03HttpAuth, V03OAuth2, V03OpenIdConnect, V03MutualTls)
_SCHEME_TYPES = [wire.__struct_config__.tag for wire in _WIRES]


def _is_of_unknown_type(scheme: JsonValue) -> bool:
    stated = scheme.get("type") if isinstance(scheme, dict) else None
    return isinstance(stated, str) and stated not in _SCHEME_TYPES


def encode_scheme(scheme: c.SecurityScheme) -> WireScheme:
    """A security scheme in 0.3, tagged by `type`."""
    return encode_scheme_as(scheme, _WIRES, V03Flows, V03Flow)


# --- the card ---------------------------------------------------------------------------------------------------------


def decode_card(card: V03Card, *, unstated: Version = Version.V0_3) -> c.AgentCard:
    """A card; one that does not state its version is of `unstated`."""
    given = card.capabilities
    extended = card.supports_authenticated_extended_card
    return decode_card_with(
        card,
        interfaces=decode_interfaces(card, unstated),
        capabilities=decoded(
            c.AgentCapabilities,
            given,
            extended_card=card.supports_extended_agent_card if extended is None else extended,
            extensions=decode_extensions(given.extensions),
        ),
        skills=tuple(decoded(c.AgentSkill, skill, security=decode_security(skill.security)) for skill in card.skills),
        security_schemes=decode_schemes(card.security_schemes or {}),
        security=decode_security(card.security),
    )


def encode_card(card: c.AgentCard) -> V03Card:
    """A card in 0.3, with the interfaces of that version."""
    interfaces = interfaces_for(card.interfaces, "0.3", "0.2", "0.1")
    given = card.capabilities
    return encode_card_with(
        V03Card,
        card,
        url=interfaces[0].url if interfaces else "",
        protocol_version="0.3.0",
        preferred_transport=interfaces[0].binding if interfaces else None,
        additional_interfaces=[V03Interface(i.url, i.binding) for i in interfaces] or None,
        capabilities=encoded(V03Capabilities, given, extensions=encode_extensions(given.extensions)),
        skills=[encoded(V03Skill, skill, security=encode_security(skill.security)) for skill in card.skills],
        security_schemes={name: encode_scheme(s) for name, s in card.security_schemes.items()} or None,
        security=encode_security(card.security),
        supports_authenticated_extended_card=given.extended_card,
    )


CARDS = Codec(Reader(V03Card), decode_card, encode_card)
