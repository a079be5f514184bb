"""The tokens of tenants as a security scheme: `Authorization: Bearer atr_…` names the tenant."""

from __future__ import annotations

from parley.host.access.scopes import ALL_SCOPES
from parley.host.data.tenants import Tenants
from parley.host.origin import EXTERNAL
from parley.protocol.cards import HttpAuthScheme, SecurityScheme
from parley.server.security.credentials import PresentedCredentials
from parley.server.security.schemes.authorization_header import read_authorization
from parley.server.security.schemes.scheme import Challenge, Proof, Refused


class TenantTokenScheme:
    """Accepts the tokens of tenants that are not disabled."""

    def __init__(self, tenants: Tenants) -> None:
        self._tenants = tenants
        self.card: SecurityScheme = HttpAuthScheme("bearer")
        self.challenge = Challenge("Bearer")

    async def verify(self, credentials: PresentedCredentials) -> Proof | None:
        """The tenant of the token; see `Scheme.verify`."""
        token = read_authorization(credentials, "bearer")
        if token is None:
            return None
        tenant = self._tenants.find_by_token(token)
        if tenant is None:
            raise Refused("The token is not valid")
        await self._tenants.touch(tenant.id)
        return Proof(tenant.id, scopes=frozenset(ALL_SCOPES), claims={EXTERNAL: True}, tenant=tenant.id)

    async def close(self) -> None:
        """Nothing to do."""
