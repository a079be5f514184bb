"""The operator of a host, who presents the admin token: alone, or with a tenant in a header to act for that tenant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.host.access.principal import PRINCIPAL, Principal
from parley.host.access.scopes import ALL_SCOPES
from parley.host.admin_scheme import AdminTokenScheme
from parley.host.data.admin_token import is_admin_token
from parley.host.data.tenant import Tenant
from parley.host.errors import Unauthorized, Unavailable
from parley.host.origin import EXTERNAL, owner_name
from parley.host.people import TENANT_HEADER
from parley.protocol.jsonvalue import JsonObject
from parley.server.bindings.http import AsgiRequest
from parley.server.security.authentication import Security
from parley.server.security.credentials import Identity
from parley.server.security.schemes.authorization_header import read_authorization
from parley.server.security.schemes.scheme import Refused

if TYPE_CHECKING:
    from parley.host.host import Host

OPERATOR = Principal("admin", "")


class OperatorAccess:
    """Recognizes the operator."""

    def __init__(self, host: Host) -> None:
        self._host = host
        token = host.settings.admin_token
        self._security = Security({"admin": AdminTokenScheme(token)}) if token else None

    def is_operator(self, request: AsgiRequest) -> bool:
        """Whether a caller presents the admin token."""
        try:
            token = read_authorization(request.credentials(), "bearer")
        except Refused:  # as it is for a tenant, which is looked at next
            return False
        return token is not None and is_admin_token(self._host.settings.admin_token, token)

    def acts_for_tenant(self, request: AsgiRequest) -> bool:
        """Whether the operator names a tenant to act for."""
        return TENANT_HEADER in request.headers and self.is_operator(request)

    async def admit(self, request: AsgiRequest) -> None:
        """Check the admin token. Wrong ones count against the address, as those of tenants do.

        Raises:
            UnauthenticatedError, RateLimitedError: the token is not right, or too many were not.
            Unavailable: the host has no admin token.
        """
        if self._security is None:
            raise Unavailable("the admin API is closed: the host has no admin token")
        shared = self._host.app.shared
        shared.throttle.check_address(request.address)
        with shared.counting_refusals(request.address):
            await self._security.authenticate(request.credentials())

    async def tenant_named(self, request: AsgiRequest) -> Tenant:
        """The tenant that the operator acts for. Raises NotFoundError if there is none."""
        await self._host.know_tenant(request.headers[TENANT_HEADER])
        return self._host.tenants.get(request.headers[TENANT_HEADER])

    async def identity(self, request: AsgiRequest) -> Identity:
        """The operator as a caller of a tenant's agents. Raises as `admit` and `tenant_named` do."""
        await self.admit(request)
        tenant = await self.tenant_named(request)
        if tenant.disabled:
            raise Unauthorized
        claims: JsonObject = {EXTERNAL: True, PRINCIPAL: OPERATOR.name}
        return Identity(owner_name(tenant.id), frozenset(ALL_SCOPES), claims, tenant.id)
