"""Access tokens of a tenant, beside its own token: each with a name, a grant, and an expiry.

A token is `apt_<tenant>_<id>_<secret>`, so its record is found without an index; only the hash of the whole is kept.
What a token allows is looked up at most once in a second, so a change of a token, role or account made by another
process is in effect within that time. A change made by this process is in effect at once.
"""

from __future__ import annotations

import re
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from hmac import compare_digest

import msgspec
from msgspec import Struct, structs, to_builtins

from parley.engine.clock import Clock
from parley.host.access.principal import Principal
from parley.host.access.scopes import Scope
from parley.host.data.audit import Audit
from parley.host.data.epoch import seconds
from parley.host.data.errors import InvalidValueError, LimitReachedError, NotFoundError
from parley.host.data.keys import ACCESS_TOKENS
from parley.host.data.paging import each_record
from parley.host.data.roles import Grant, TenantRoles
from parley.host.data.service_accounts import ServiceAccounts
from parley.host.data.tenant_tokens import check_overlap
from parley.host.data.transactions import Decision, TenantTransactions
from parley.protocol.errors import UnauthenticatedError
from parley.protocol.jsonvalue import JsonObject
from parley.server.security.schemes.stored_secrets import hash_secret
from parley.stores.interface import DeleteRecord, PutRecord, Record, RecordChange, RecordKey, Records

PREFIX = "apt_"
MOST_TOKENS = 1_000
MAX_NAME = 200
MAX_LIFETIME = 10 * 366 * 86_400
"""Seconds. What should live for longer has no expiry."""

KNOWN_SECONDS = 1.0
MOST_KNOWN = 10_000

_TOKEN = re.compile(r"apt_([0-9]{1,15})_([a-z0-9]{12})_([0-9a-f]{64})", re.ASCII)
_ID = re.compile(r"[a-z0-9]{12}", re.ASCII)
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


class AccessToken(Struct, frozen=True):
    """A token of a tenant, without its secret. Times are seconds since 1970."""

    id: str
    name: str
    hash: str
    grant: Grant | None = None
    """None: that of its account."""
    account: str = ""
    """The service account that it belongs to; empty: none."""
    created_at: int = 0
    created_by: str = ""
    expires_at: int | None = None

    def is_expired(self, now: datetime) -> bool:
        """Whether it is refused."""
        return self.expires_at is not None and self.expires_at <= now.timestamp()


class AccessTokens:
    """The tokens of all tenants."""

    def __init__(self, records: Records, clock: Clock, roles: TenantRoles, accounts: ServiceAccounts) -> None:
        self._records = records
        self._clock = clock
        self._roles = roles
        self._accounts = accounts
        self._audit = Audit(records, clock)
        self._transactions = TenantTransactions(records, clock)
        self._known: OrderedDict[str, tuple[float, Principal, int | None]] = OrderedDict()
        """By the hash of a token, or its id: when it was looked up, what was found, and when that expires."""
        self._changes = 0

    # --- use ----------------------------------------------------------------------------------------------------------

    async def find(self, text: str) -> Principal | None:
        """The principal that a token stands for; None if it is unknown, expired or revoked."""
        hashed = hash_secret(text)
        return await self._known_or_read(hashed, lambda: self._read_token(text, hashed))

    async def check_again(self, principal: Principal, scope: Scope) -> None:
        """Refuse a principal whose access token does not allow something any more.

        Raises:
            UnauthenticatedError: the token was revoked, or has expired.
            PermissionDeniedError: it does not have the scope any more.
        """
        tenant, token_id = principal.tenant, principal.token
        if token_id:
            found = await self._known_or_read(f"{tenant}/{token_id}", lambda: self._read_by_id(tenant, token_id))
            if found is None:
                raise UnauthenticatedError("The token is not valid any more")
            found.require(scope)

    async def _known_or_read(
        self, name: str, read: Callable[[], Awaitable[tuple[str, AccessToken] | None]]
    ) -> Principal | None:
        known, now, changes = self._known.get(name), self._clock.monotonic(), self._changes
        if known is not None and now - known[0] < KNOWN_SECONDS:
            principal, expires_at = known[1:]
            return None if expires_at is not None and expires_at <= self._clock.now().timestamp() else principal
        self._known.pop(name, None)
        token = await read()
        if token is None or token[1].is_expired(self._clock.now()):
            return None
        principal = await self._principal(*token)
        if principal is not None and changes == self._changes:  # otherwise it may be what was before the change
            self._known[name] = (now, principal, token[1].expires_at)
            if len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
        return principal

    def forget(self) -> None:
        """Look up every token again: a role or an account was changed."""
        self._changes += 1
        self._known.clear()

    async def _read_token(self, text: str, hashed: str) -> tuple[str, AccessToken] | None:
        match = _TOKEN.fullmatch(text)
        record = await self._records.get(_key(match[1], match[2])) if match else None
        if match is None or record is None:
            return None
        token = _decode(record)
        return (match[1], token) if compare_digest(token.hash, hashed) else None

    async def _read_by_id(self, tenant: str, token_id: str) -> tuple[str, AccessToken] | None:
        record = await self._records.get(_key(tenant, token_id))
        return None if record is None else (tenant, _decode(record))

    async def _principal(self, tenant: str, token: AccessToken) -> Principal | None:
        own = None if token.grant is None else await self._roles.scopes_of(tenant, token.grant)
        if not token.account:
            return Principal(f"token:{tenant}/{token.id}", tenant, own or frozenset(), token.id)
        try:
            account = await self._accounts.get(tenant, token.account)
        except NotFoundError:
            return None
        if account.disabled:
            return None
        granted = await self._roles.scopes_of(tenant, account.grant)
        scopes = granted if own is None else granted & own
        return Principal(f"account:{tenant}/{account.name}", tenant, scopes, token.id)

    # --- management ---------------------------------------------------------------------------------------------------

    async def list(self, tenant: str) -> Sequence[AccessToken]:
        """The tokens of a tenant, newest first."""
        return [_decode(record) for record in await self._records.list(ACCESS_TOKENS, tenant, limit=MOST_TOKENS)]

    async def create(
        self,
        name: str,
        grant: Grant | None,
        *,
        by: Principal,
        account: str = "",
        lifetime_seconds: int | None = None,
    ) -> tuple[AccessToken, str]:
        """A new token, and its text, which is shown only now. Without a grant, it has that of its account.

        Raises:
            InvalidValueError, NotFoundError, LimitReachedError: it is not valid, or there is no such account.
            PermissionDeniedError: the caller lacks a scope that the token would have.
        """
        if not name.strip() or len(name) > MAX_NAME or not name.isprintable():
            raise InvalidValueError(f"must be 1 to {MAX_NAME} printable characters", "$.name")
        if lifetime_seconds is not None and not 1 <= lifetime_seconds <= MAX_LIFETIME:
            raise InvalidValueError(f"must be from 1 to {MAX_LIFETIME}", "$.expires_in_seconds")
        if account:
            granted = (await self._accounts.get(by.tenant, account)).grant
            await self._roles.check_grant(granted, by)
        if grant is not None or not account:
            await self._roles.check_grant(grant or Grant(), by)
        now = seconds(self._clock.now())
        token, text = _new_token(
            by.tenant,
            AccessToken(
                "",
                name.strip(),
                "",
                grant,
                account,
                now,
                by.name,
                None if lifetime_seconds is None else now + lifetime_seconds,
            ),
        )

        async def decide() -> Decision[None]:
            room = await self._room(by.tenant)
            entry = await self._audit.entry(
                "create_token", f"{by.tenant}/{token.id}", actor=by.name, kind="token", after=_audited(token)
            )
            return None, [_put(by.tenant, token, 0), *room, entry]

        await self._transactions.run(by.tenant, decide)
        return token, text

    async def revoke(self, token_id: str, *, by: Principal) -> None:
        """Revoke a token: it is refused from now on. Raises NotFoundError."""

        async def decide() -> Decision[None]:
            record = await self._read(by.tenant, token_id)
            entry = await self._audit.entry(
                "revoke_token",
                f"{by.tenant}/{token_id}",
                actor=by.name,
                kind="token",
                before=_audited(_decode(record)),
            )
            return None, [DeleteRecord(record.key, record.revision), entry]

        await self._transactions.run(by.tenant, decide)
        self.forget()

    async def rotate(self, token_id: str, overlap_seconds: int, *, by: Principal) -> tuple[AccessToken, str]:
        """A new token in the place of another one, which stays valid for the overlap; without one, it is revoked.

        Raises:
            NotFoundError: there is no such token.
            InvalidValueError: the overlap is negative, or longer than 30 days.
            LimitReachedError: the tenant has too many tokens for one more during the overlap.
            PermissionDeniedError: the caller lacks a scope of the token.
        """
        check_overlap(overlap_seconds)
        before = _decode(await self._read(by.tenant, token_id))
        for grant in filter(None, [before.grant]):
            await self._roles.check_grant(grant, by)
        if before.account:
            await self._roles.check_grant((await self._accounts.get(by.tenant, before.account)).grant, by)
        now = seconds(self._clock.now())
        lifetime = None if before.expires_at is None else before.expires_at - before.created_at
        token, text = _new_token(
            by.tenant,
            structs.replace(
                before, created_at=now, created_by=by.name, expires_at=None if lifetime is None else now + lifetime
            ),
        )

        async def decide() -> Decision[None]:
            record = await self._read(by.tenant, token_id)
            old, ends_at = _decode(record), now + overlap_seconds
            if old.expires_at is not None:
                ends_at = min(ends_at, old.expires_at)
            entry = await self._audit.entry(
                "rotate_token",
                f"{by.tenant}/{token_id}",
                actor=by.name,
                kind="token",
                after={"new": token.id, "overlap_seconds": overlap_seconds},
            )
            changes: list[RecordChange] = [_put(by.tenant, token, 0), entry]
            if not overlap_seconds:
                return None, [*changes, DeleteRecord(record.key, record.revision)]
            last = _put(by.tenant, structs.replace(old, expires_at=ends_at), record.revision)
            return None, [*changes, last, *await self._room(by.tenant, kept=token_id)]

        await self._transactions.run(by.tenant, decide)
        self.forget()
        return token, text

    async def _room(self, tenant: str, *, kept: str = "") -> Sequence[RecordChange]:
        """The changes that make room for one more token: expired ones are forgotten. Raises LimitReachedError."""
        if await self._records.count(ACCESS_TOKENS, tenant) < MOST_TOKENS:
            return []
        now = self._clock.now()
        records = [record async for record in each_record(self._records, ACCESS_TOKENS, tenant)]
        expired = [one for one in records if one.key.id != kept and _decode(one).is_expired(now)]
        if not expired:
            raise LimitReachedError(f"a tenant may have {MOST_TOKENS} tokens; revoke one first")
        return [DeleteRecord(record.key, record.revision) for record in expired]

    async def _read(self, tenant: str, token_id: str) -> Record:
        record = await self._records.get(_key(tenant, token_id)) if _ID.fullmatch(token_id) else None
        if record is None:
            raise NotFoundError(f"no token '{token_id}' of this tenant")
        return record


def _new_token(tenant: str, token: AccessToken) -> tuple[AccessToken, str]:
    """The same token with a new id and a new secret, and its text."""
    token_id = "".join([secrets.choice(_LETTERS) for _ in range(12)])
    text = f"{PREFIX}{tenant}_{token_id}_{secrets.token_hex(32)}"
    return structs.replace(token, id=token_id, hash=hash_secret(text)), text


def _put(tenant: str, token: AccessToken, revision: int) -> PutRecord:
    return PutRecord(_key(tenant, token.id), to_builtins(token), token.created_at, expected=revision)


def _key(tenant: str, token_id: str) -> RecordKey:
    return RecordKey(ACCESS_TOKENS, tenant, token_id)


def _audited(token: AccessToken) -> JsonObject:
    return {
        "name": token.name,
        "grant": None if token.grant is None else to_builtins(token.grant),
        "account": token.account,
        "expires_at": token.expires_at,
    }


def _decode(record: Record) -> AccessToken:
    return msgspec.convert(record.value, AccessToken)
