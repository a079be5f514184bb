"""The audit: who changed which tenant or agent, and when. Entries are written with the change that they describe.

No entry holds a token or its hash, or the text of a constitution: those belong to tenants, and the audit to the host.
Entries are never deleted. Only the comment of a decision is removed, when the data of its request is deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct, structs, to_builtins

from parley.engine.clock import Clock
from parley.host.data.epoch import seconds
from parley.host.data.keys import AUDIT, HOST, number_id
from parley.protocol.jsonvalue import JsonObject
from parley.stores.interface import PutRecord, RecordKey, Records

DEFAULT_PAGE = 50
MAX_PAGE = 200
MOST_READ = 2_000
"""Entries of all tenants that one request for those of one tenant reads."""

ADMIN = "admin"
"""The actor of everything that is done with the admin token."""

AuditAction: TypeAlias = Literal[
    "create_tenant",
    "update_tenant",
    "rotate_tenant_token",
    "export_tenant",
    "import_tenant",
    "create_agent",
    "update_agent",
    "delete_agent",
    "rollback_agent",
    "pin_agent",
    "unpin_agent",
    "publish_agent",
    "save_draft",
    "delete_draft",
    "stop_agent",
    "resume_agent",
    "stop_tenant",
    "resume_tenant",
    "set_agent_public",
    "register_agent",
    "accept_card",
    "unregister_agent",
    "add_catalog",
    "remove_catalog",
    "create_token",
    "rotate_token",
    "revoke_token",
    "set_role",
    "delete_role",
    "set_budgets",
    "set_account",
    "delete_account",
    "create_schedule",
    "update_schedule",
    "pause_schedule",
    "resume_schedule",
    "delete_schedule",
    "request_approval",
    "approve",
    "deny",
    "expire_approval",
    "withdraw_approval",
    "put_mcp_server",
    "delete_mcp_server",
    "prioritize_request",
    "delete_data",
]
"""Every kind of change that the audit knows."""

TargetKind: TypeAlias = Literal[
    "tenant",
    "agent",
    "registered_agent",
    "catalog",
    "budgets",
    "token",
    "role",
    "account",
    "schedule",
    "approval",
    "mcp_server",
    "request",
]
"""What a change is about."""


class AuditEntry(Struct, frozen=True):
    """One change. `before` is None for what was created, `after` for what was deleted."""

    id: int
    ts: int
    """Seconds since 1970."""
    actor: str
    """The name of a principal: see `access.principal`."""
    action: AuditAction
    target_kind: TargetKind
    target_id: str
    """The id of a tenant; for something of a tenant, the id of the tenant and its own: `1/writer`."""
    before: JsonObject | None = None
    after: JsonObject | None = None

    @property
    def tenant(self) -> str:
        """The tenant that the change belongs to."""
        return self.target_id.partition("/")[0]


class Audit:
    """The entries of all tenants."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock

    async def entry(
        self,
        action: AuditAction,
        target_id: str,
        *,
        actor: str,
        kind: TargetKind | None = None,
        before: JsonObject | None = None,
        after: JsonObject | None = None,
    ) -> PutRecord:
        """The change that adds an entry. Write it with the change that it describes."""
        entry = AuditEntry(
            id=await self._records.next_number(AUDIT, HOST),
            ts=seconds(self._clock.now()),
            actor=actor,
            action=action,
            target_kind=kind or ("agent" if action.endswith("_agent") else "tenant"),
            target_id=target_id,
            before=before,
            after=after,
        )
        return PutRecord(RecordKey(AUDIT, HOST, number_id(entry.id)), to_builtins(entry), entry.id, expected=0)

    async def list(self, before_id: int | None = None, limit: int = DEFAULT_PAGE) -> Sequence[AuditEntry]:
        """Entries with smaller ids than `before_id`, newest first, at most `MAX_PAGE`."""
        after = (before_id, "") if before_id else None
        found = await self._records.list(AUDIT, HOST, after=after, limit=min(max(limit, 1), MAX_PAGE))
        return [msgspec.convert(record.value, AuditEntry) for record in found]

    async def list_of(
        self, tenant: str, before_id: int | None = None, limit: int = DEFAULT_PAGE
    ) -> tuple[Sequence[AuditEntry], int | None]:
        """The entries of one tenant, newest first, and where to go on: the entries of others are read and left out.

        A call reads at most `MOST_READ` entries. It may return few or none, and still say where to go on.
        """
        found: list[AuditEntry] = []
        for _ in range(MOST_READ // MAX_PAGE):
            page = await self.list(before_id, MAX_PAGE)
            for entry in page:
                before_id = entry.id
                if entry.tenant == tenant:
                    found.append(entry)
                    if len(found) == limit:
                        return found, before_id
            if len(page) < MAX_PAGE:
                return found, None
        return found, before_id


def changed_members(before: Struct, after: Struct) -> tuple[str, ...]:
    """The names of the members in which two structs of one type differ."""
    return tuple(name for name in structs.asdict(before) if getattr(before, name) != getattr(after, name))
