"""The admin token as a security scheme: `Authorization: Bearer adm_…`."""

from __future__ import annotations

from parley.host.data.admin_token import is_admin_token
from parley.protocol.cards import HttpAuthScheme, SecurityScheme
from parley.server.security.credentials import PresentedCredentials
from parley.server.security.schemes.authorization_header import read_authorization
from parley.server.security.schemes.scheme import Challenge, Proof, Refused


class AdminTokenScheme:
    """Accepts the admin token."""

    def __init__(self, token: str) -> None:
        self._token = token
        self.card: SecurityScheme = HttpAuthScheme("bearer")
        self.challenge = Challenge("Bearer")

    async def verify(self, credentials: PresentedCredentials) -> Proof | None:
        """The operator, if the token is right; see `Scheme.verify`."""
        token = read_authorization(credentials, "bearer")
        if token is None:
            return None
        if not is_admin_token(self._token, token):
            raise Refused("The token is not valid")
        return Proof("admin")

    async def close(self) -> None:
        """Nothing to do."""
