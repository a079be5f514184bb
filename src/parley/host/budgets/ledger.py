"""The ledger of budgets: what is spent, and what calls at work have reserved.

Before a call, its upper bound is added to `reserved` of every scope that it counts for, if all of them have so much
left; this is one transaction with compare-and-set, so callers at once, in several processes, cannot exceed a budget
together. After the call, what it really took replaces the bound, in the transaction that records its usage. A
reservation that was cut off by a crash stays reserved, and is charged when the call is made again: the provider may
have charged for it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import TypeAlias

import msgspec
from msgspec import to_builtins

from parley.engine.clock import Clock
from parley.host.budgets.amounts import NOTHING, Amount, Span, period_name, period_start
from parley.host.budgets.reservations import Reservation, added, reserved_in, settled
from parley.host.budgets.scopes import ScopeSums, SpanSum, SpendingScope, sums_key
from parley.host.data.epoch import milliseconds
from parley.host.data.expiring import ExpiringRecords
from parley.host.data.keys import BUDGET_REQUESTS, BUDGET_RESERVATIONS, BUDGET_SUMS
from parley.host.data.paging import each_record, each_record_of_all
from parley.host.data.transactions import Decision, TenantTransactions
from parley.host.data.usage_days import UsageDays, UsageSums
from parley.stores.interface import DeleteRecord, PutRecord, Record, RecordChange, RecordKey, Records

REQUEST_LIFETIME = timedelta(days=90)
"""How long a request with a budget may pause without its budget beginning again."""

Choose: TypeAlias = Callable[[Sequence[tuple[SpendingScope, ScopeSums]]], Amount]
"""How much to reserve in view of the sums, or an error."""


class _LedgerPage:
    """The sums that one transaction changes."""

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        self.sums: dict[str, ScopeSums] = {}
        self.revisions: dict[str, int] = {}
        self.used: dict[Span, dict[str, UsageSums]] = {}
        """What agents have used in a period, if that was looked up."""

    def changes(self, now: int) -> list[RecordChange]:
        """The changes that write them."""
        return [
            PutRecord(sums_key(self.tenant, scope), to_builtins(sums), now, expected=self.revisions[scope])
            for scope, sums in self.sums.items()
        ]


class BudgetLedger:
    """What all tenants have spent of their budgets."""

    def __init__(self, records: Records, clock: Clock, transactions: TenantTransactions, days: UsageDays) -> None:
        self._records = records
        self._clock = clock
        self._transactions = transactions
        self._days = days
        self._requests = ExpiringRecords(records, collection=BUDGET_REQUESTS, lifetime=REQUEST_LIFETIME)
        self._reservations = ExpiringRecords(records, collection=BUDGET_RESERVATIONS, lifetime=REQUEST_LIFETIME)
        self._seen: dict[tuple[str, str], ScopeSums] = {}

    async def load(self) -> None:
        """Read the sums of all tenants and agents, for `seen`."""
        async for record in each_record_of_all(self._records, BUDGET_SUMS):
            self._seen[record.key.tenant, record.key.id] = _sums(record)

    async def load_tenant(self, tenant: str) -> None:
        """The same for one tenant."""
        async for record in each_record(self._records, BUDGET_SUMS, tenant):
            self._seen[tenant, record.key.id] = _sums(record)

    def seen(self, tenant: str, scope: SpendingScope) -> ScopeSums:
        """The sums of a tenant or an agent when this process saw them last: they may be too low."""
        sums = self._seen.get((tenant, scope.id))
        return sums.on(self._today()) if sums is not None and sums.since == scope.since else ScopeSums(scope.since)

    async def read(self, tenant: str, scopes: Sequence[SpendingScope]) -> Sequence[tuple[SpendingScope, ScopeSums]]:
        """The sums of scopes as they are now."""
        page = _LedgerPage(tenant)
        for scope in scopes:
            await self._load(page, scope)
        self._remember(page)
        return [(scope, page.sums[scope.id]) for scope in scopes]

    # --- before and after a call --------------------------------------------------------------------------------------

    async def reserve(
        self, tenant: str, call_id: str, scopes: Sequence[SpendingScope], choose: Choose
    ) -> tuple[Reservation, Amount | None]:
        """Reserve what a call may spend. It is durable when this returns.

        A reservation of an earlier attempt is charged, and returned as the second value.

        Raises: what `choose` raises; nothing is reserved then.
        """
        key = RecordKey(BUDGET_RESERVATIONS, tenant, call_id)

        async def decide() -> Decision[tuple[Reservation, Amount | None]]:
            page = _LedgerPage(tenant)
            earlier = await self._records.get(key)
            before = _reservation(earlier) if earlier is not None else None
            if before is not None:
                await self._settle(page, before, before.bound)
            for scope in scopes:
                await self._load(page, scope)
            self._remember(page)
            bound = choose([(scope, page.sums[scope.id]) for scope in scopes])
            reserved = [reserved_in(scope, page.sums[scope.id]) for scope in scopes]
            for scope in scopes:
                page.sums[scope.id] = added(page.sums[scope.id], reserved=bound)
            made = Reservation(secrets.token_hex(8), bound, tuple(reserved))
            now = milliseconds(self._clock.now())
            put = PutRecord(key, to_builtins(made), now, expected=earlier.revision if earlier is not None else 0)
            return (made, before.bound if before is not None else None), [*self._written(page), put]

        result = await self._transactions.run(tenant, decide)
        await self._prune(tenant, scopes)
        return result

    async def settlement(
        self, tenant: str, call_id: str, scopes: Sequence[SpendingScope], actual: Amount
    ) -> list[RecordChange]:
        """The changes that count what a call has really taken. Write them together with its usage.

        `scopes` are those that have budgets now; the call may have begun when they had none. A call without tokens
        counts at its bound: some servers do not tell how many there were.
        """
        page, record = _LedgerPage(tenant), await self._records.get(RecordKey(BUDGET_RESERVATIONS, tenant, call_id))
        changes: list[RecordChange] = []
        counted = frozenset[str]()
        if record is not None:
            reservation = _reservation(record)
            actual = actual if actual.tokens else reservation.bound  # the provider has not told
            counted = await self._settle(page, reservation, actual)
            changes.append(DeleteRecord(record.key, record.revision))
        for scope in scopes:
            if scope.id not in counted:
                await self._load(page, scope)
                page.sums[scope.id] = added(page.sums[scope.id], spent=actual)
        return [*self._written(page), *changes]

    async def give_up(self, tenant: str, call_id: str, reservation: Reservation, *, is_charged: bool) -> None:
        """End a reservation whose call gave no result: charge its bound, or nothing."""
        key = RecordKey(BUDGET_RESERVATIONS, tenant, call_id)

        async def decide() -> Decision[None]:
            record = await self._records.get(key)
            if record is None or _reservation(record).token != reservation.token:
                return None, ()  # another attempt has charged it
            page = _LedgerPage(tenant)
            await self._settle(page, reservation, reservation.bound if is_charged else NOTHING)
            return None, [*self._written(page), DeleteRecord(key, record.revision)]

        await self._transactions.run(tenant, decide)

    # --- sums ---------------------------------------------------------------------------------------------------------

    async def _load(self, page: _LedgerPage, scope: SpendingScope) -> None:
        """Have the sums of a scope on the page, with one for each of its budgets."""
        if scope.id not in page.sums:
            await self._read(page, scope.id)
        kept, today = page.sums[scope.id], self._today()
        if kept.since != scope.since:  # the budget was removed meanwhile, and nothing was counted
            kept = ScopeSums(scope.since)
        sums = dict(kept.on(today).sums)
        for span in scope.limits:
            if span not in sums:
                spent = NOTHING if scope.is_request else await self._spent_before(page, scope, span, today)
                sums[span] = SpanSum(period_name(span, today), spent)
        page.sums[scope.id] = ScopeSums(kept.since, sums)

    async def _read(self, page: _LedgerPage, scope_id: str) -> None:
        record = await self._records.get(sums_key(page.tenant, scope_id))
        page.sums[scope_id] = _sums(record) if record is not None else ScopeSums()
        page.revisions[scope_id] = record.revision if record is not None else 0

    async def _spent_before(self, page: _LedgerPage, scope: SpendingScope, span: Span, today: date) -> Amount:
        """What was used in a period before it had a budget."""
        if span not in page.used:
            used = page.used[span] = dict[str, UsageSums]()
            async for one in self._days.each(page.tenant, period_start(span, today), today):
                used[one.agent] = used.get(one.agent, UsageSums()) + one.sums
        counted = [sums for agent, sums in page.used[span].items() if scope.agent in (None, agent)]
        return Amount(sum([sums.tokens for sums in counted]), sum([sums.cost for sums in counted], Decimal(0)))

    async def _settle(self, page: _LedgerPage, reservation: Reservation, actual: Amount) -> frozenset[str]:
        """Replace what was reserved with what it came to, where it still counts. Returns the ids of those scopes."""
        counted: set[str] = set()
        for reserved in reservation.scopes:
            if reserved.id not in page.sums:
                await self._read(page, reserved.id)
            kept = page.sums[reserved.id]
            if kept.since == reserved.since:
                page.sums[reserved.id] = settled(kept, reserved, reservation.bound, actual)
                counted.add(reserved.id)
        return frozenset(counted)

    def _written(self, page: _LedgerPage) -> list[RecordChange]:
        """The changes of a page, which is taken for seen: it is once they are written."""
        self._remember(page)
        return page.changes(milliseconds(self._clock.now()))

    def _remember(self, page: _LedgerPage) -> None:
        for scope_id, sums in page.sums.items():
            if sums_key(page.tenant, scope_id).collection == BUDGET_SUMS:
                self._seen[page.tenant, scope_id] = sums

    async def _prune(self, tenant: str, scopes: Sequence[SpendingScope]) -> None:
        now = self._clock.now()
        await self._reservations.prune(tenant, now)
        if any(scope.is_request for scope in scopes):
            await self._requests.prune(tenant, now)

    def _today(self) -> date:
        return self._clock.now().date()


def _sums(record: Record) -> ScopeSums:
    return msgspec.convert(record.value, ScopeSums)


def _reservation(record: Record) -> Reservation:
    return msgspec.convert(record.value, Reservation)
