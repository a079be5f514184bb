"""Approvals: what waits for a decision, and what was decided. The inbox of approvers shows these records.

The log of a task is what counts: it holds the request, and the message that decided. A record follows the log, and is
written in the same transaction as the entry of the audit and the timers that go with it. Each change is made once,
however often it is reported and by how many processes. What waits and what is over are two collections, so that a list
of either reads nothing of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct, structs, to_builtins

from parley.engine.clock import Clock
from parley.host.approval_rules import RuleKind, Verdict
from parley.host.data.approval_timers import ApprovalTimer, put_timer, remove_timer
from parley.host.data.audit import Audit, AuditAction
from parley.host.data.epoch import milliseconds
from parley.host.data.errors import NotFoundError
from parley.host.data.keys import APPROVALS_DECIDED, APPROVALS_PENDING
from parley.host.data.transactions import Decision, TenantTransactions
from parley.protocol.jsonvalue import JsonObject
from parley.stores.interface import DeleteRecord, PutRecord, Record, RecordChange, RecordKey, Records

MAX_PAGE = 200

WAKE_AFTER = timedelta(seconds=10)
"""When a task that waits for a decision of another one is looked at again. Usually it is woken at once."""

ApprovalState: TypeAlias = Literal["pending", "approved", "denied", "expired", "withdrawn"]
"""`expired`: the default of its rule counts. `withdrawn`: its task ended before a decision."""

_ACTIONS: dict[ApprovalState, AuditAction] = {
    "approved": "approve",
    "denied": "deny",
    "expired": "expire_approval",
    "withdrawn": "withdraw_approval",
}


class ApprovalNotFoundError(NotFoundError):
    """There is no such approval for this tenant."""


class RequiredApprover(Struct, frozen=True, omit_defaults=True):
    """Which principals may decide, with the scopes that the roles had when the approval was requested."""

    principals: tuple[str, ...] = ()
    roles: dict[str, tuple[str, ...]] = {}


class ChainLink(Struct, frozen=True):
    """One task of a chain of delegations."""

    request_id: str
    agent: str


class ApprovalRequest(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What an agent wants to do, as its task's log and the record hold it. Times are milliseconds since 1970."""

    id: str
    request_id: str
    """The task that waits."""
    agent: str
    on: RuleKind
    names: tuple[str, ...] = ()
    """What the rules compare with: a command, agents, a tool."""
    action: str
    """What will happen, in one line."""
    detail: str = ""
    """The arguments, shortened and made safe to print."""
    hidden_characters: int = 0
    """How much of the arguments `detail` does not show."""
    cost: str | None = None
    """Decimal text: what a model call may cost."""
    tokens: int = 0
    requested_by: str
    requested_at: int
    expires_at: int = 0
    """0: it waits until it is decided."""
    default: Verdict = "deny"
    approvers: tuple[RequiredApprover, ...] = ()
    """A principal must be one of each."""
    four_eyes: bool = False
    senders: tuple[str, ...] = ()
    """The principals that have sent more messages to the request. With four eyes, they do not decide either."""
    messages: tuple[str, ...] = ()
    chain: tuple[ChainLink, ...] = ()
    """The tasks that wait for this one, from the user's request on."""


class ApprovalOutcome(Struct, frozen=True, omit_defaults=True):
    """How an approval ended."""

    verdict: Verdict
    by: str
    comment: str = ""
    state: ApprovalState = "pending"


class Approval(Struct, frozen=True, kw_only=True):
    """An approval, pending or decided."""

    request: ApprovalRequest
    state: ApprovalState = "pending"
    decided_by: str = ""
    decided_at: int = 0
    """Milliseconds since 1970; 0: not yet."""
    comment: str = ""

    @property
    def sort(self) -> int:
        """Where it stands in its list."""
        return self.decided_at or self.request.requested_at


class Approvals:
    """The approvals of all tenants."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self._audit = Audit(records, clock)
        self._transactions = TenantTransactions(records, clock)

    async def get(self, tenant: str, approval_id: str) -> Approval:
        """One approval.

        Raises:
            ApprovalNotFoundError: the tenant has none with this id.
        """
        found = await self._find(tenant, approval_id)
        if found is None:
            raise ApprovalNotFoundError(f"no approval '{approval_id[:64]}' for this tenant")
        return found

    async def list(
        self, tenant: str, *, is_pending: bool, after: tuple[int, str] | None = None, limit: int = MAX_PAGE
    ) -> Sequence[Approval]:
        """Approvals that wait, or that are over; the newest first. `after` is the sort and the id of the last one."""
        collection = APPROVALS_PENDING if is_pending else APPROVALS_DECIDED
        found = await self._records.list(collection, tenant, after=after, limit=min(max(limit, 1), MAX_PAGE))
        return [_decode(record) for record in found]

    async def all_pending(self, *, after: tuple[str, str] | None = None) -> Sequence[tuple[str, Approval]]:
        """A page of what waits in all tenants, each with its tenant; `after` is the tenant and id of the last one."""
        found = await self._records.list_all(APPROVALS_PENDING, after=after, limit=MAX_PAGE)
        return [(record.key.tenant, _decode(record)) for record in found]

    async def request(self, tenant: str, request: ApprovalRequest) -> Approval:
        """Put a request into the inbox, with the timer of its end; what is there already stays as it is."""

        async def decide() -> Decision[Approval]:
            known = await self._find(tenant, request.id)
            if known is not None:
                return known, ()
            approval = Approval(request=request)
            changes: list[RecordChange] = [
                PutRecord(_key(tenant, request.id), to_builtins(approval), approval.sort, expected=0),
                await self._entry("request_approval", tenant, request, actor=request.requested_by),
            ]
            if request.expires_at:
                changes.append(put_timer(ApprovalTimer("expire", tenant, request.id), request.expires_at))
            return approval, changes

        return await self._transactions.run(tenant, decide)

    async def settle(self, tenant: str, request: ApprovalRequest, outcome: ApprovalOutcome) -> Approval:
        """Keep how an approval ended, once: what was settled before stays."""

        async def decide() -> Decision[Approval]:
            pending = await self._records.get(_key(tenant, request.id))
            decided = await self._records.get(_decided_key(tenant, request.id))
            if decided is not None:
                return _decode(decided), ()
            now = self._clock.now()
            approval = Approval(
                request=request,
                state=outcome.state,
                decided_by=outcome.by,
                decided_at=milliseconds(now),
                comment=outcome.comment,
            )
            changes: list[RecordChange] = [
                PutRecord(_decided_key(tenant, request.id), to_builtins(approval), approval.sort, expected=0),
                await self._entry(_ACTIONS[outcome.state], tenant, request, actor=outcome.by, outcome=outcome),
                *self._timers_after(tenant, request, now),
            ]
            if pending is not None:
                changes.append(DeleteRecord(pending.key, pending.revision))
            return approval, changes

        return await self._transactions.run(tenant, decide)

    def _timers_after(self, tenant: str, request: ApprovalRequest, now: datetime) -> list[RecordChange]:
        changes: list[RecordChange] = []
        if request.expires_at:
            changes.append(remove_timer(ApprovalTimer("expire", tenant, request.id)))
        if request.chain:
            changes.append(put_timer(ApprovalTimer("wake", tenant, request.id), milliseconds(now + WAKE_AFTER)))
        return changes

    async def _find(self, tenant: str, approval_id: str) -> Approval | None:
        """An approval; one that is settled just now is in the second collection when it has left the first."""
        for key in (_key(tenant, approval_id), _decided_key(tenant, approval_id)):
            record = await self._records.get(key)
            if record is not None:
                return _decode(record)
        return None

    async def _entry(
        self,
        action: AuditAction,
        tenant: str,
        request: ApprovalRequest,
        *,
        actor: str,
        outcome: ApprovalOutcome | None = None,
    ) -> PutRecord:
        about: JsonObject = {"request_id": request.request_id, "agent": request.agent, "on": request.on}
        if outcome is None:
            about |= {"names": list(request.names), "expires_at": request.expires_at // 1000}
        else:
            about |= {"verdict": outcome.verdict, "comment": outcome.comment}
        return await self._audit.entry(action, f"{tenant}/{request.id}", actor=actor, kind="approval", after=about)


def _key(tenant: str, approval_id: str) -> RecordKey:
    return RecordKey(APPROVALS_PENDING, tenant, approval_id)


def _decided_key(tenant: str, approval_id: str) -> RecordKey:
    return structs.replace(_key(tenant, approval_id), collection=APPROVALS_DECIDED)


def _decode(record: Record) -> Approval:
    return msgspec.convert(record.value, Approval)
