"""Who calls a host: `Authorization: Bearer` with a tenant's token, an access token, or the JWT of a person.

It is one scheme, so that whatever belongs to a tenant has one owner, whichever of its principals calls.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from parley.host.access.principal import PRINCIPAL, TOKEN
from parley.host.access.scopes import ALL_SCOPES
from parley.host.data.access_tokens import PREFIX, AccessTokens
from parley.host.data.tenant import Tenant
from parley.host.data.tenant_tokens import PREFIX as TENANT_PREFIX
from parley.host.data.tenants import Tenants
from parley.host.origin import EXTERNAL
from parley.host.people import People
from parley.protocol.cards import HttpAuthScheme, SecurityScheme
from parley.protocol.jsonvalue import JsonObject
from parley.server.security.credentials import PresentedCredentials
from parley.server.security.schemes.authorization_header import read_authorization
from parley.server.security.schemes.scheme import Challenge, Proof, Refused


class HostBearerScheme:
    """Accepts the principals of tenants that are not disabled."""

    def __init__(
        self,
        tenants: Tenants,
        tokens: AccessTokens,
        people: People | None = None,
        *,
        look_for_missing: Callable[[], Awaitable[bool]],
    ) -> None:
        """`look_for_missing` learns of tenants that another process has just created; False if there is none."""
        self._tenants = tenants
        self._look_for_missing = look_for_missing
        self._tokens = tokens
        self._people = people
        self.challenge = Challenge("Bearer")

    @property
    def card(self) -> SecurityScheme:
        """See `Scheme`."""
        about = f"A token of the tenant, or a JWT of {', '.join(self.issuers)}." if self.issuers else None
        return HttpAuthScheme("bearer", description=about)

    @property
    def issuers(self) -> tuple[str, ...]:
        """See `IssuedTokens`."""
        return () if self._people is None else self._people.issuers

    async def verify(self, credentials: PresentedCredentials) -> Proof | None:
        """The principal of the token; see `Scheme.verify`."""
        token = read_authorization(credentials, "bearer")
        if token is None:
            return None
        proof = await self._prove(token, credentials)
        if proof is None or self._tenants.active(proof.subject) is None:
            raise Refused("The token is not valid")
        await self._tenants.touch(proof.subject)
        return proof

    async def _prove(self, token: str, credentials: PresentedCredentials) -> Proof | None:
        if token.startswith(PREFIX):
            principal = await self._tokens.find(token)
            if principal is None:
                return None
            claims: JsonObject = {EXTERNAL: True, PRINCIPAL: principal.name, TOKEN: principal.token}
            return Proof(principal.tenant, frozenset(principal.scopes), claims, principal.tenant)
        tenant = await self._tenant_of(token)
        if tenant is not None:
            return Proof(tenant.id, frozenset(ALL_SCOPES), {EXTERNAL: True}, tenant.id)
        if self._people is not None and token.count(".") == 2:
            return await self._people.verify(credentials)
        return None

    async def _tenant_of(self, token: str) -> Tenant | None:
        """The tenant of a token, which another process may have just created."""
        tenant = self._tenants.find_by_token(token)
        if tenant is None and token.startswith(TENANT_PREFIX) and await self._look_for_missing():
            tenant = self._tenants.find_by_token(token)
        return tenant

    async def close(self) -> None:
        """Close the connections to the issuers."""
        if self._people is not None:
            await self._people.close()
