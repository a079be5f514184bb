"""The agent card: who an agent is, where it listens, what it can do and what it requires.

The union of all four dialects, shaped like 1.0: every endpoint is an interface with its binding and version. Spec: 1.0
section 4.4; security schemes follow OpenAPI 3.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from parley.protocol.jsonvalue import JsonObject


class Binding(StrEnum):
    """The bindings A2A defines. An interface may name another one by URI."""

    JSONRPC = "JSONRPC"
    HTTP_JSON = "HTTP+JSON"
    GRPC = "GRPC"


class ApiKeyLocation(StrEnum):
    """Where an API key travels."""

    QUERY = "query"
    HEADER = "header"
    COOKIE = "cookie"


class AgentInterface(Struct, frozen=True, omit_defaults=True):
    """One endpoint: its URL, binding and version (Major.Minor)."""

    url: str
    binding: str
    version: str
    tenant: str | None = None


class AgentProvider(Struct, frozen=True, omit_defaults=True):
    """Who offers the agent."""

    organization: str
    url: str


class AgentExtension(Struct, frozen=True, omit_defaults=True):
    """A protocol extension that the agent supports, and whether callers must activate it."""

    uri: str
    description: str | None = None
    required: bool = False
    params: JsonObject = {}


class AgentCapabilities(Struct, frozen=True, omit_defaults=True):
    """What the agent can do beyond answering; `None` where the card does not state it."""

    streaming: bool | None = None
    push_notifications: bool | None = None
    extended_card: bool | None = None
    state_transition_history: bool | None = None
    extensions: tuple[AgentExtension, ...] = ()


class OAuthFlow(Struct, frozen=True, omit_defaults=True):
    """One way to get a token. Which URLs it has depends on its name in `OAuthFlows`."""

    scopes: dict[str, str] = {}
    authorization_url: str | None = None
    token_url: str | None = None
    refresh_url: str | None = None
    device_authorization_url: str | None = None
    pkce_required: bool = False


class OAuthFlows(Struct, frozen=True, omit_defaults=True):
    """The flows of one OAuth2 scheme. 1.0 and protobuf allow one, JSON before 1.0 several."""

    authorization_code: OAuthFlow | None = None
    client_credentials: OAuthFlow | None = None
    implicit: OAuthFlow | None = None
    password: OAuthFlow | None = None
    device_code: OAuthFlow | None = None


class ApiKeyScheme(Struct, frozen=True, omit_defaults=True, tag="api-key"):
    """A secret in a header, query parameter or cookie."""

    location: ApiKeyLocation
    name: str
    description: str | None = None


class HttpAuthScheme(Struct, frozen=True, omit_defaults=True, tag="http"):
    """An `Authorization` header of an IANA scheme, such as Bearer or Basic."""

    scheme: str
    bearer_format: str | None = None
    description: str | None = None


class OAuth2Scheme(Struct, frozen=True, omit_defaults=True, tag="oauth2"):
    """OAuth 2.0."""

    flows: OAuthFlows
    metadata_url: str | None = None
    description: str | None = None


class OpenIdConnectScheme(Struct, frozen=True, omit_defaults=True, tag="openid-connect"):
    """OpenID Connect discovery."""

    url: str
    description: str | None = None


class MutualTlsScheme(Struct, frozen=True, omit_defaults=True, tag="mutual-tls"):
    """A client certificate."""

    description: str | None = None


SecurityScheme: TypeAlias = ApiKeyScheme | HttpAuthScheme | OAuth2Scheme | OpenIdConnectScheme | MutualTlsScheme
SecurityRequirement: TypeAlias = dict[str, tuple[str, ...]]
"""All of these schemes together, each with the scopes it needs. A list of requirements offers alternatives."""


class AgentSkill(Struct, frozen=True, omit_defaults=True):
    """Something the agent can be asked to do."""

    id: str
    name: str
    description: str
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    input_modes: tuple[str, ...] = ()
    output_modes: tuple[str, ...] = ()
    security: tuple[SecurityRequirement, ...] = ()


class CardSignature(Struct, frozen=True, omit_defaults=True):
    """One JWS over the card: base64url of the protected header and of the signature, and an open header."""

    protected: str
    signature: str
    header: JsonObject = {}


class AgentCard(Struct, frozen=True, omit_defaults=True):
    """The description of an agent. `interfaces` is ordered: the agent prefers the first."""

    name: str
    description: str
    version: str
    interfaces: tuple[AgentInterface, ...]
    capabilities: AgentCapabilities = AgentCapabilities()
    skills: tuple[AgentSkill, ...] = ()
    default_input_modes: tuple[str, ...] = ("text/plain",)
    default_output_modes: tuple[str, ...] = ("text/plain",)
    provider: AgentProvider | None = None
    documentation_url: str | None = None
    icon_url: str | None = None
    security_schemes: dict[str, SecurityScheme] = {}
    security: tuple[SecurityRequirement, ...] = ()
    signatures: tuple[CardSignature, ...] = ()
