"""Roles: named sets of scopes. Every tenant has those of `access.scopes`, and may define others.

A grant is what a token or a service account is given: a role, whose scopes are looked up whenever it is used, or a
fixed set of scopes. No principal can grant what it does not have itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from msgspec import Struct, to_builtins

from parley.engine.clock import Clock
from parley.host.access.principal import Principal
from parley.host.access.scopes import ROLES, Scope
from parley.host.data.audit import Audit
from parley.host.data.errors import AlreadyExistsError, InvalidValueError, LimitReachedError, NotFoundError
from parley.host.data.keys import TENANT_ROLES
from parley.host.data.transactions import Decision, TenantTransactions
from parley.protocol.errors import PermissionDeniedError
from parley.stores.interface import DeleteRecord, PutRecord, RecordKey, Records

MOST_ROLES = 100
"""Roles that one tenant may define."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class AccessRole(Struct, frozen=True):
    """A named set of scopes."""

    name: str
    scopes: tuple[Scope, ...]
    is_built_in: bool = False


class Grant(Struct, frozen=True):
    """What a token or an account is given: a role, or scopes."""

    role: str = ""
    scopes: tuple[Scope, ...] = ()

    def check(self, path: str = "$") -> None:
        """Refuse a grant of nothing, and one of both. Raises InvalidValueError."""
        if bool(self.role) == bool(self.scopes):
            raise InvalidValueError("must have either a role or scopes", path)


class KeptRole(Struct, frozen=True):
    """A role, as it is stored."""

    scopes: tuple[Scope, ...]


class TenantRoles:
    """The roles of all tenants."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._audit = Audit(records, clock)
        self._transactions = TenantTransactions(records, clock)

    async def list(self, tenant: str) -> Sequence[AccessRole]:
        """The built-in roles, then those that a tenant has defined, by name."""
        built_in = [AccessRole(name, tuple(sorted(scopes)), is_built_in=True) for name, scopes in ROLES.items()]
        records = await self._records.list(TENANT_ROLES, tenant, limit=MOST_ROLES)
        own = [AccessRole(record.key.id, msgspec.convert(record.value, KeptRole).scopes) for record in records]
        return [*built_in, *sorted(own, key=lambda role: role.name)]

    async def scopes_of(self, tenant: str, grant: Grant) -> frozenset[Scope]:
        """What a grant allows now; nothing, if its role was deleted."""
        if not grant.role:
            return frozenset(grant.scopes)
        if grant.role in ROLES:
            return ROLES[grant.role]
        record = await self._records.get(_key(tenant, grant.role)) if _NAME.fullmatch(grant.role) else None
        return frozenset(msgspec.convert(record.value, KeptRole).scopes) if record is not None else frozenset()

    async def check_grant(self, grant: Grant, granting: Principal, path: str = "$") -> None:
        """Refuse a grant that is not valid, or that gives more than its giver has.

        Raises:
            InvalidValueError: it names nothing, or an unknown role.
            PermissionDeniedError: the giver lacks a scope.
        """
        grant.check(path)
        scopes = await self.scopes_of(granting.tenant, grant)
        if not scopes:
            raise InvalidValueError(f"There is no role '{grant.role}' with scopes", f"{path}.role")
        _check_has(granting, scopes)

    async def check_change(self, grant: Grant, by: Principal) -> None:
        """Refuse a principal that changes what has a grant which it could not give. Raises PermissionDeniedError."""
        _check_has(by, await self.scopes_of(by.tenant, grant))

    async def put(self, name: str, scopes: Sequence[Scope], *, by: Principal) -> AccessRole:
        """Define a role, or change it: what has the role is allowed something else from now on.

        Raises:
            InvalidValueError: the name is not valid, or there is no scope.
            AlreadyExistsError: it is a built-in role.
            LimitReachedError: the tenant has too many roles.
            PermissionDeniedError: the caller lacks a scope of the role, as it is or as it was.
        """
        if not _NAME.fullmatch(name):
            raise InvalidValueError("must be 1 to 64 letters, digits, '.', '_' and '-'", "$.name")
        if name in ROLES:
            raise AlreadyExistsError(f"the role '{name}' is built in and cannot be changed")
        if not scopes:
            raise InvalidValueError("must name at least one scope", "$.scopes")
        _check_has(by, frozenset(scopes))
        role = AccessRole(name, tuple(sorted(set(scopes))))

        async def decide() -> Decision[AccessRole]:
            key = _key(by.tenant, name)
            before = await self._records.get(key)
            if before is None and await self._records.count(TENANT_ROLES, by.tenant) >= MOST_ROLES:
                raise LimitReachedError(f"a tenant may define {MOST_ROLES} roles; delete one first")
            old = None if before is None else msgspec.convert(before.value, KeptRole)
            if old is not None:
                _check_has(by, frozenset(old.scopes))
            entry = await self._audit.entry(
                "set_role",
                f"{by.tenant}/{name}",
                actor=by.name,
                kind="role",
                before=None if old is None else {"scopes": list(old.scopes)},
                after={"scopes": list(role.scopes)},
            )
            kept = to_builtins(KeptRole(role.scopes))
            return role, [PutRecord(key, kept, expected=before.revision if before else 0), entry]

        return await self._transactions.run(by.tenant, decide)

    async def delete(self, name: str, *, by: Principal) -> None:
        """Delete a role. What has it is allowed nothing any more.

        Raises:
            NotFoundError: the tenant has not defined it.
        """

        async def decide() -> Decision[None]:
            key = _key(by.tenant, name)
            record = await self._records.get(key) if _NAME.fullmatch(name) else None
            if record is None:
                raise NotFoundError(f"no role '{name}' of this tenant")
            entry = await self._audit.entry(
                "delete_role", f"{by.tenant}/{name}", actor=by.name, kind="role", before=record.value
            )
            return None, [DeleteRecord(key, record.revision), entry]

        await self._transactions.run(by.tenant, decide)


def _check_has(granting: Principal, scopes: frozenset[Scope]) -> None:
    missing = sorted(scopes - granting.scopes)
    if missing:
        raise PermissionDeniedError(f"Only a token with the scope '{missing[0]}' can give it to others.")


def _key(tenant: str, name: str) -> RecordKey:
    return RecordKey(TENANT_ROLES, tenant, name)
