"""The statements of lists, with what the caller asks for: `queries/lists.sql` says how they work.

Conditions are put into a text only where they are asked for, so that the plan of each is made for the index it needs.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeAlias

from parley.protocol.tasks import TaskState
from parley.stores.encoding import encode_time
from parley.stores.interface import Owner, TaskFilter
from parley.stores.postgres.statements import load_statements

Query: TypeAlias = tuple[Any, ...]
"""A statement, and its parameters."""

_STATEMENTS = load_statements("lists")

_STATES = [state.value for state in TaskState]


class _Conditions:
    """Conditions, and the parameters that follow those of the statement."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values

    def add(self, condition: str, *values: Any) -> str:
        """A condition, in which {0}, {1}, … stand for its values."""
        first = len(self.values) + 1
        self.values += values
        return " AND " + condition.format(*[f"${first + n}" for n in range(len(values))])


def of_owner_query(owner: Owner, query: TaskFilter) -> Query:
    """A page of an owner's list, each head after the number of all tasks that match."""
    states = [query.state.value] if query.state is not None else _STATES
    third = states if query.context_id is None else query.context_id
    conditions = _Conditions([owner.tenant, owner.name, third, query.limit, query.agent])
    matching = ""
    if query.context_id is not None and query.state is not None:
        matching += conditions.add("state = {0}", query.state.value)
    if query.status_at_or_after is not None:
        matching += conditions.add("status_at >= {0}", encode_time(query.status_at_or_after))
    name = "of_owner" if query.context_id is None else "of_context"
    return _filled(name, conditions, matching=matching, paging=_after_status(conditions, query))


def of_all_query(query: TaskFilter, tenant: str | None, name: str | None) -> Query:
    """A page of a list of many owners."""
    conditions = _Conditions([query.limit, tenant])
    matching = _matching_of_all(conditions, query, name)
    return _filled("of_all", conditions, matching=matching, paging=_after_status(conditions, query))


def count_query(query: TaskFilter, tenant: str | None, name: str | None, most: int) -> Query:
    """How many tasks are on all pages of a list of many owners; no more than one beyond `most` are counted."""
    conditions = _Conditions([most + 1, tenant])
    return _filled("count_all", conditions, matching=_matching_of_all(conditions, query, name), paging="")


def _matching_of_all(conditions: _Conditions, query: TaskFilter, name: str | None) -> str:
    matching = ""
    state = query.state.value if query.state is not None else None
    columns = (("owner", name), ("agent", query.agent), ("context", query.context_id), ("state", state))
    for column, value in columns:
        if value is not None:
            matching += conditions.add(f"{column} = {{0}}", value)
    if query.status_at_or_after is not None:
        matching += conditions.add("status_at >= {0}", encode_time(query.status_at_or_after))
    return matching


def newest_query(tenant: str, before: tuple[datetime, str] | None, limit: int) -> Query:
    """A page of a tenant's tasks, by falling creation time and id."""
    conditions = _Conditions([tenant, limit])
    paging = ""
    if before is not None:
        paging = conditions.add("(created_at, id) < ({0}, {1})", encode_time(before[0]), before[1])
    return _filled("newest", conditions, paging=paging)


def orphaned_query(
    live: frozenset[str],
    now: datetime | None,
    agents: frozenset[str] | None,
    after: tuple[datetime, str] | None,
    limit: int,
) -> Query:
    """Tasks that no live worker holds and that do not sleep, or are to wake at or before `now`; the oldest first."""
    conditions = _Conditions([list(live), encode_time(now) if now is not None else None, limit])
    paging = ""
    if after is not None:
        paging += conditions.add("(created_at, id) > ({0}, {1})", encode_time(after[0]), after[1])
    if agents is not None:
        paging += conditions.add("agent = ANY ({0}::text[])", list(agents))
    return _filled("orphaned", conditions, paging=paging)


def _after_status(conditions: _Conditions, query: TaskFilter) -> str:
    if query.after is None:
        return ""
    # The first half is what the index can do.
    condition = "status_at <= {0} AND (status_at < {0} OR id > {1})"
    return conditions.add(condition, encode_time(query.after[0]), query.after[1])


def _filled(name: str, conditions: _Conditions, *, paging: str, matching: str = "") -> Query:
    text = _STATEMENTS[name].replace("{matching}", matching).replace("{paging}", paging)
    return (text, *conditions.values)
