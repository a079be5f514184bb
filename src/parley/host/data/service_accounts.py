"""Service accounts: programs that call a tenant's agents, each with a grant and with tokens of its own.

A token of an account allows at most what the account is granted. Disabling an account disables all its tokens at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from msgspec import Struct, structs, to_builtins

from parley.engine.clock import Clock
from parley.host.access.principal import Principal
from parley.host.data.audit import Audit
from parley.host.data.epoch import seconds
from parley.host.data.errors import InvalidValueError, LimitReachedError, NotFoundError
from parley.host.data.keys import ACCESS_TOKENS, SERVICE_ACCOUNTS
from parley.host.data.paging import each_record
from parley.host.data.roles import Grant, TenantRoles
from parley.host.data.transactions import Decision, TenantTransactions
from parley.protocol.jsonvalue import JsonObject
from parley.stores.interface import DeleteRecord, PutRecord, Record, RecordKey, Records

MOST_ACCOUNTS = 1_000
MAX_DESCRIPTION = 1_000

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class ServiceAccount(Struct, frozen=True):
    """A program of a tenant. Times are seconds since 1970."""

    name: str
    grant: Grant
    description: str = ""
    disabled: bool = False
    created_at: int = 0
    created_by: str = ""


class ServiceAccounts:
    """The accounts of all tenants."""

    def __init__(self, records: Records, clock: Clock, roles: TenantRoles) -> None:
        self._records = records
        self._clock = clock
        self._roles = roles
        self._audit = Audit(records, clock)
        self._transactions = TenantTransactions(records, clock)

    async def get(self, tenant: str, name: str) -> ServiceAccount:
        """One account. Raises NotFoundError."""
        return _decode(await self._read(tenant, name))

    async def list(self, tenant: str) -> Sequence[ServiceAccount]:
        """The accounts of a tenant, by name."""
        records = await self._records.list(SERVICE_ACCOUNTS, tenant, limit=MOST_ACCOUNTS)
        return sorted(map(_decode, records), key=lambda account: account.name)

    async def put(
        self, name: str, grant: Grant, *, by: Principal, description: str = "", disabled: bool = False
    ) -> ServiceAccount:
        """Create an account, or replace its grant, its description and whether it is disabled.

        Raises:
            InvalidValueError, LimitReachedError: it is not valid, or the tenant has too many.
            PermissionDeniedError: the caller lacks a scope that the account gets or has.
        """
        if not _NAME.fullmatch(name):
            raise InvalidValueError("must be 1 to 64 letters, digits, '.', '_' and '-'", "$.name")
        if len(description) > MAX_DESCRIPTION:
            raise InvalidValueError(f"may have up to {MAX_DESCRIPTION} characters", "$.description")
        await self._roles.check_grant(grant, by)

        async def decide() -> Decision[ServiceAccount]:
            record = await self._records.get(_key(by.tenant, name))
            before = None if record is None else _decode(record)
            if before is not None:
                await self._roles.check_change(before.grant, by)
            if before is None and await self._records.count(SERVICE_ACCOUNTS, by.tenant) >= MOST_ACCOUNTS:
                raise LimitReachedError(f"a tenant may have {MOST_ACCOUNTS} service accounts; delete one first")
            account = ServiceAccount(name, grant, description, disabled, seconds(self._clock.now()), by.name)
            if before is not None:
                account = structs.replace(account, created_at=before.created_at, created_by=before.created_by)
            entry = await self._audit.entry(
                "set_account",
                f"{by.tenant}/{name}",
                actor=by.name,
                kind="account",
                before=None if before is None else _audited(before),
                after=_audited(account),
            )
            put = PutRecord(_key(by.tenant, name), to_builtins(account), expected=record.revision if record else 0)
            return account, [put, entry]

        return await self._transactions.run(by.tenant, decide)

    async def delete(self, name: str, *, by: Principal) -> None:
        """Delete an account with its tokens: a later account of this name has others. Raises NotFoundError."""

        async def decide() -> Decision[None]:
            record = await self._read(by.tenant, name)
            tokens = [
                token
                async for token in each_record(self._records, ACCESS_TOKENS, by.tenant)
                if token.value["account"] == name
            ]
            entry = await self._audit.entry(
                "delete_account",
                f"{by.tenant}/{name}",
                actor=by.name,
                kind="account",
                before={**_audited(_decode(record)), "tokens": [token.key.id for token in tokens]},
            )
            return None, [*[DeleteRecord(one.key, one.revision) for one in (record, *tokens)], entry]

        await self._transactions.run(by.tenant, decide)

    async def _read(self, tenant: str, name: str) -> Record:
        record = await self._records.get(_key(tenant, name)) if _NAME.fullmatch(name) else None
        if record is None:
            raise NotFoundError(f"no service account '{name}' of this tenant")
        return record


def _key(tenant: str, name: str) -> RecordKey:
    return RecordKey(SERVICE_ACCOUNTS, tenant, name)


def _audited(account: ServiceAccount) -> JsonObject:
    return {"grant": to_builtins(account.grant), "disabled": account.disabled}


def _decode(record: Record) -> ServiceAccount:
    return msgspec.convert(record.value, ServiceAccount)
