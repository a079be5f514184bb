"""The budgets of all tenants as they are kept: those of a tenant, from the operator and its own, are one record.

Every change is written together with its entry in the audit. What was spent is not here: see `budgets.ledger`.
"""

from __future__ import annotations

import msgspec
from msgspec import structs, to_builtins

from parley.engine.clock import Clock
from parley.host.data.audit import Audit
from parley.host.data.budget_policy import BudgetPolicy, Setter, TenantBudgets, with_budgets
from parley.host.data.errors import StaleRevisionError
from parley.host.data.keys import BUDGETS
from parley.host.data.paging import each_record_of_all
from parley.host.data.transactions import Decision, TenantTransactions
from parley.protocol.jsonvalue import JsonObject
from parley.stores.interface import PutRecord, Record, RecordKey, Records

FRESH_SECONDS = 1.0
"""How long budgets that were read are used. A change in another process counts after this time at the latest."""


class BudgetPolicies:
    """The budgets of all tenants. What was read is used for `FRESH_SECONDS`."""

    def __init__(self, records: Records, clock: Clock, transactions: TenantTransactions) -> None:
        self._records = records
        self._clock = clock
        self._audit = Audit(records, clock)
        self._transactions = transactions
        self._known: dict[str, tuple[BudgetPolicy | None, float]] = {}
        """By tenant: the budgets, None if there are none, and when they were read."""

    async def load(self) -> None:
        """Read the budgets of all tenants. Called again, it learns what other processes have changed."""
        async for record in each_record_of_all(self._records, BUDGETS):
            self._learn(record.key.tenant, _decode(record))

    async def refresh(self, tenant: str) -> None:
        """Read the budgets of a tenant, which another process may have changed."""
        self._learn(tenant, await self.read(tenant))

    def known(self, tenant: str) -> BudgetPolicy | None:
        """The budgets of a tenant as they were read last; None if there are none."""
        known = self._known.get(tenant)
        return None if known is None else known[0]

    async def current(self, tenant: str) -> BudgetPolicy | None:
        """The budgets of a tenant; None if there are none."""
        known = self._known.get(tenant)
        if known is not None and self._clock.monotonic() - known[1] < FRESH_SECONDS:
            return known[0]
        return self._learn(tenant, await self.read(tenant))

    async def read(self, tenant: str) -> BudgetPolicy:
        """The budgets of a tenant as they are stored."""
        record = await self._records.get(_key(tenant))
        return BudgetPolicy() if record is None else _decode(record)

    async def replace(
        self, tenant: str, budgets: TenantBudgets, *, setter: Setter, actor: str, revision: int | None = None
    ) -> BudgetPolicy:
        """Set all budgets of the operator or of the tenant. `revision` is the one that the caller has seen; None: any.

        Raises:
            InvalidBudgetError: an agent's id is not valid, or a budget of the tenant is above the operator's.
            StaleRevisionError: the budgets have another revision.
        """

        async def decide() -> Decision[BudgetPolicy]:
            before = await self.read(tenant)
            if revision not in (None, before.revision):
                text = f"the budgets have changed since revision {revision}: they are at {before.revision}"
                raise StaleRevisionError(f"{text}; read them again")
            changed = with_budgets(before, budgets, setter)
            entry = await self._audit.entry(
                "set_budgets",
                f"{tenant}/budgets",
                actor=actor,
                kind="budgets",
                before=_audited(before, setter),
                after=_audited(changed, setter),
            )
            value = to_builtins(structs.replace(changed, revision=0))
            return changed, [PutRecord(_key(tenant), value, expected=before.revision), entry]

        changed = await self._transactions.run(tenant, decide)
        self._learn(tenant, changed)
        return changed

    def _learn(self, tenant: str, policy: BudgetPolicy) -> BudgetPolicy | None:
        found = None if policy.is_empty else policy
        self._known[tenant] = found, self._clock.monotonic()
        return found


def _audited(policy: BudgetPolicy, setter: Setter) -> JsonObject:
    budgets = policy.operator if setter == "operator" else policy.own
    return {"set_by": setter, "revision": policy.revision, "budgets": to_builtins(budgets)}


def _decode(record: Record) -> BudgetPolicy:
    return structs.replace(msgspec.convert(record.value, BudgetPolicy), revision=record.revision)


def _key(tenant: str) -> RecordKey:
    return RecordKey(BUDGETS, tenant, "budgets")
