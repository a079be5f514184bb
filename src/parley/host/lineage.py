"""Whose request a run is part of: the principal that began it, its task, and the budgets that hold for it.

The messages of the native API, of agents that a constitution describes, and in a shared store those over A2A carry it
(`RunOrigin`). Otherwise it is in the claims of the caller, which do not survive a crash: there it is recorded in the
log of the task, unless it says no more than the task itself does. In a store of one process, that is part of the first
write of the task.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct, structs

from parley.engine.runs.run import Run
from parley.host.access.principal import principal_of
from parley.host.budget_limits import BudgetLimit, budget_of, lowest
from parley.host.origin import EXTERNAL, RequestBudget, origin_of
from parley.protocol.jsonvalue import JsonObject

LINEAGE = "urn:parley:host-lineage"
"""The claim of runs that holds it, so that what they delegate has it as well."""

STEP = "parley lineage"
"""The value in the log that holds it."""


class Lineage(Struct, frozen=True):
    """Whose request a run is part of."""

    principal: str
    request_id: str
    """The task of the whole request."""
    budgets: tuple[RequestBudget, ...] = ()
    """Of the tasks that the run was delegated from, and of its own."""

    def with_budget(self, task_id: str, limit: BudgetLimit | None) -> Lineage:
        """The same with one more budget of a task; the lowest of several holds."""
        if limit is None:
            return self
        others = tuple([one for one in self.budgets if one.task_id != task_id])
        both = lowest([limit, *[one.limit for one in self.budgets if one.task_id == task_id]])
        return structs.replace(self, budgets=(*others, RequestBudget(task_id, both or limit)))

    @property
    def claims(self) -> JsonObject:
        """The claims of a run that has it."""
        return {LINEAGE: msgspec.to_builtins(self)}


def lineage_of(run: Run) -> Lineage:
    """Whose request a run is part of, before its caller's claims are replaced. It may record that."""
    task_id, origin = run.key.task_id, origin_of(run.message)
    own = Lineage(f"tenant:{run.key.owner.tenant}", task_id)
    if principal := origin.principal or origin.draft_of:  # a draft works for its author only
        found = Lineage(principal, origin.request_id or task_id, origin.budgets)
    elif run.journal.is_replayed:
        kept = run.journal.recorded_step(STEP)
        found = own if kept is None else _recorded(run, own)
    else:
        found = _of_claims(run, own)
        if found != own:
            found = _recorded(run, found)
    return found.with_budget(task_id, budget_of(run.message))


def known_lineage(run: Run) -> Lineage:
    """The lineage of a run that is at work."""
    return msgspec.convert(run.caller.claims[LINEAGE], Lineage)


def _of_claims(run: Run, own: Lineage) -> Lineage:
    caller = run.caller
    if EXTERNAL in caller.claims:
        name = principal_of(caller.tenant, caller.scopes, caller.claims).name
        return structs.replace(own, principal=name)
    return known_lineage(run) if LINEAGE in caller.claims else own


def _recorded(run: Run, found: Lineage) -> Lineage:
    return msgspec.convert(run.steps.value(STEP, lambda: msgspec.to_builtins(found)), Lineage)
