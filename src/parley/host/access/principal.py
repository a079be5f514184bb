"""The principal behind a request: a token, a service account, a person or the operator, and what it may do.

Tasks belong to the tenant, whichever of its principals began them. The principal's name is kept beside: in the audit,
in usage, and with approvals.
"""

from __future__ import annotations

from dataclasses import dataclass

from parley.engine.caller import Caller
from parley.host.access.scopes import ALL_SCOPES, Scope
from parley.protocol.errors import PermissionDeniedError
from parley.protocol.jsonvalue import JsonObject

PRINCIPAL = "urn:parley:host-principal"
"""The claim that holds the name of the principal."""

TOKEN = "urn:parley:host-token"
"""The claim that holds the id of an access token, by which it is looked up again."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller of one tenant.

    Names: `tenant:1` (the tenant's own token), `token:1/k3x9…`, `account:1/ci`, `person:1/ada@example.com`, `admin`
    (the operator), `schedule:1/…` and `host` (the host itself).
    """

    name: str
    tenant: str
    scopes: frozenset[Scope] = ALL_SCOPES
    token: str = ""
    """The id of its access token; empty if it has another kind of token."""

    def may(self, scope: Scope) -> bool:
        """Whether it has a scope."""
        return scope in self.scopes

    def require(self, scope: Scope) -> None:
        """Refuse a principal without a scope. Raises PermissionDeniedError."""
        _require(self.scopes, scope)


def require_scope(caller: Caller, scope: Scope) -> None:
    """Refuse a caller of A2A whose token does not allow something. Raises PermissionDeniedError."""
    _require(caller.scopes, scope)


def _require(scopes: frozenset[Scope] | frozenset[str], scope: Scope) -> None:
    if scope not in scopes:
        raise PermissionDeniedError(f"This needs the scope '{scope}', which this token does not have.")


def principal_of(tenant: str, scopes: frozenset[str], claims: JsonObject) -> Principal:
    """The principal of an authenticated caller of a tenant."""
    name = claims.get(PRINCIPAL)
    known = frozenset([scope for scope in Scope if scope in scopes])
    token = claims.get(TOKEN)
    return Principal(
        name if isinstance(name, str) else f"tenant:{tenant}", tenant, known, token if isinstance(token, str) else ""
    )
