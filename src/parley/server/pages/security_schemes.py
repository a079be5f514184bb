"""The security schemes and requirements of a card in the format of OpenAPI 3.1.

OpenAPI has no device code flow, so such a flow is left out. Spec: OpenAPI 3.1 sections 4.8.27 to 4.8.30.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from parley.protocol import cards as c
from parley.protocol.jsonvalue import JsonObject, JsonValue


def encode_requirements(requirements: Sequence[c.SecurityRequirement]) -> list[JsonValue]:
    """The requirements: alternatives, each a set of schemes with the scopes they need."""
    return [{name: list(scopes) for name, scopes in requirement.items()} for requirement in requirements]


def encode_schemes(schemes: Mapping[str, c.SecurityScheme]) -> JsonObject:
    """The security schemes by name."""
    return {name: encode_scheme(scheme) for name, scheme in schemes.items()}


def encode_scheme(scheme: c.SecurityScheme) -> JsonObject:
    """One security scheme."""
    return _encode(scheme) | ({"description": scheme.description} if scheme.description else {})


def _encode(scheme: c.SecurityScheme) -> JsonObject:
    match scheme:
        case c.ApiKeyScheme():
            return {"type": "apiKey", "in": scheme.location.value, "name": scheme.name}
        case c.HttpAuthScheme():
            wire: JsonObject = {"type": "http", "scheme": scheme.scheme}
            return wire | ({"bearerFormat": scheme.bearer_format} if scheme.bearer_format else {})
        case c.OAuth2Scheme():
            return {"type": "oauth2", "flows": _encode_flows(scheme.flows)}
        case c.OpenIdConnectScheme():
            return {"type": "openIdConnect", "openIdConnectUrl": scheme.url}
        case c.MutualTlsScheme():
            return {"type": "mutualTLS"}


def _encode_flows(flows: c.OAuthFlows) -> JsonObject:
    given = {
        "authorizationCode": flows.authorization_code,
        "clientCredentials": flows.client_credentials,
        "implicit": flows.implicit,
        "password": flows.password,
    }
    return {name: _encode_flow(flow) for name, flow in given.items() if flow is not None}


def _encode_flow(flow: c.OAuthFlow) -> JsonObject:
    urls = {"authorizationUrl": flow.authorization_url, "tokenUrl": flow.token_url, "refreshUrl": flow.refresh_url}
    return {"scopes": {**flow.scopes}, **{name: url for name, url in urls.items() if url}}
