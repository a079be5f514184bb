"""The security schemes and requirements of a card in the format of OpenAPI 3.1.

OpenAPI has no device code flow, so such a flow is left out. Spec: OpenAPI 3.1 sections 4.8.27 to 4.8.30.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import structs, to_builtins

from parley.dialects import v0_3_card
from parley.protocol import cards as c
from parley.protocol.jsonvalue import JsonObject, JsonValue


def encode_requirements(requirements: Sequence[c.SecurityRequirement]) -> list[JsonValue]:
    """The requirements: alternatives, each a set of schemes with the scopes they need."""
    return [{name: list(scopes) for name, scopes in requirement.items()} for requirement in requirements]


def encode_schemes(schemes: Mapping[str, c.SecurityScheme]) -> JsonObject:
    """The security schemes by name."""
    return {name: encode_scheme(scheme) for name, scheme in schemes.items()}


def encode_scheme(scheme: c.SecurityScheme) -> JsonObject:
    """One security scheme: as in A2A 0.3, which has them from OpenAPI, but without the URL of OAuth metadata."""
    if isinstance(scheme, c.OAuth2Scheme):
        scheme = structs.replace(scheme, metadata_url=None)
    return to_builtins(v0_3_card.encode_scheme(scheme))
