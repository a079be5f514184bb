"""The client that gets tokens from an authorization server, and the flows it may use. `oauth` runs them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Flow(StrEnum):
    """The flows to a first token that Parley supports. Not implicit and password: RFC 9700 sections 2.1.2 and 2.4."""

    CLIENT_CREDENTIALS = "client-credentials"
    DEVICE_CODE = "device-code"
    AUTHORIZATION_CODE = "authorization-code"


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """A client of an authorization server. The secret is sent only to the server that `issuer` names.

    Without `issuer`, the secret goes only to a token endpoint at the agent's own origin. `scopes` replace those that
    the card demands. `resource` is what the token is for (RFC 8707), for servers that require it; some servers know it
    as `audience`.
    """

    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    issuer: str | None = None
    scopes: tuple[str, ...] | None = None
    resource: str | None = None
    audience: str | None = None
