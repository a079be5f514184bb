"""Who asks an authorization server for tokens, and in which way. How, `oauth` knows."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Flow(StrEnum):
    """The ways to a first token that Parley goes. Not implicit and password: see RFC 9700, sections 2.1.2 and 2.4."""

    CLIENT_CREDENTIALS = "client-credentials"
    DEVICE_CODE = "device-code"
    AUTHORIZATION_CODE = "authorization-code"


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """Who asks for tokens. `issuer` is the authorization server that the secret is for: it is sent to no other.

    Without `issuer`, a secret goes only to a token endpoint at the agent's own origin. `scopes` are asked for in place
    of those that the card demands: a card is a stranger's wish. `resource` is what the token is to be good for (RFC
    8707), for servers that want to know.
    """

    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    issuer: str | None = None
    scopes: tuple[str, ...] | None = None
    resource: str | None = None
