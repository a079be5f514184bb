"""Lists of tasks in SQLite, each merged from parts that an index holds in the order of the list.

A list of an owner has a part for each agent and state, one of all owners a part for each tenant, and the tasks that
workers left behind one for each worker. A page begins in each part where the page before ended, and reads only what it
shows: the last page costs what the first did. So one index serves the lists of one state and those of all.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from itertools import chain, islice, product, takewhile
from typing import Any

from parley.protocol.lifecycle import TERMINAL
from parley.protocol.tasks import TaskState
from parley.stores.encoding import encode, encode_time
from parley.stores.interface import Owner, TaskFilter, TaskHead, TaskHeads, TaskKey
from parley.stores.rows import HEAD, Row, Value, decode_head

_STATES = [state.value for state in TaskState]


@contextmanager
def one_moment(reader: sqlite3.Connection) -> Generator[None]:
    """Makes several queries see one state of the file."""
    reader.execute("BEGIN")
    try:
        yield
    finally:
        reader.execute("COMMIT")


def merged(
    connection: sqlite3.Connection,
    statement: str,
    parts: Iterable[Sequence[Value]],
    *,
    key: Callable[[Row], Any],
) -> Generator[Row]:
    """The rows of a statement for the values of each part, in their common order; no more are read than are taken."""
    cursors = [connection.execute(statement, values) for values in parts]
    try:
        yield from heapq.merge(*cursors, key=key)
    finally:
        for cursor in cursors:
            cursor.close()


def distinct(reader: sqlite3.Connection, column: str, source: str, *values: str) -> list[str]:
    """The values of a column, each found with one step in the index that `source` names."""
    found: list[str] = []
    statement = f"SELECT {column} FROM {source} AND {column} {{}} ? ORDER BY {column} LIMIT 1"
    row = reader.execute(statement.format(">="), (*values, "")).fetchone()
    while row is not None:
        found += row
        row = reader.execute(statement.format(">"), (*values, *row)).fetchone()
    return found


def read_list(reader: sqlite3.Connection, owner: Owner, query: TaskFilter) -> TaskHeads:
    """A page of an owner's list."""
    with one_moment(reader):
        names = (owner.tenant, owner.name)
        if query.context_id is not None:  # it has few tasks: they are sorted
            source = "tasks INDEXED BY tasks_by_context WHERE tenant = ? AND owner = ? AND context = ?"
            conditions, values = _conditions(agent=query.agent, state=query.state)
            parts = [(*names, query.context_id, *values)]
        else:
            source = "tasks INDEXED BY tasks_by_state WHERE tenant = ? AND owner = ?"
            agents = [query.agent] if query.agent is not None else distinct(reader, "agent", source, *names)
            states = [query.state.value] if query.state is not None else _STATES
            conditions = " AND agent = ? AND state = ?"
            parts = [(*names, *agent_and_state) for agent_and_state in product(agents, states)]
        source += conditions
        if query.status_at_or_after is not None:
            source += " AND status_at >= ?"
            parts = [(*part, encode_time(query.status_at_or_after)) for part in parts]
        count = f"SELECT count(*) FROM {source}"
        total = sum([reader.execute(count, part).fetchone()[0] for part in parts])
        with closing(_newest_first(reader, source, parts, query)) as rows:
            return TaskHeads(tuple([decode_head(row) for row in islice(rows, query.limit)]), total)


def read_list_of_all(
    reader: sqlite3.Connection, query: TaskFilter, tenant: str | None, name: str | None
) -> tuple[TaskHead, ...]:
    """A page of a list of many owners. Tasks of one id and moment in several tenants are on one page."""
    with one_moment(reader):
        source, parts = _parts_of_all(reader, query, tenant, name)
        with closing(_newest_first(reader, source, parts, query)) as rows:
            page = list(islice(rows, query.limit))
            ties = takewhile(lambda row: _by_status(row) == _by_status(page[-1]), rows) if page else ()
            return tuple([decode_head(row) for row in chain(page, ties)])


def count_list_of_all(
    reader: sqlite3.Connection, query: TaskFilter, tenant: str | None, name: str | None, most: int
) -> int:
    """How many tasks are on all pages of a list of many owners; no more than one beyond `most` are counted."""
    total = 0
    with one_moment(reader):
        source, parts = _parts_of_all(reader, query, tenant, name)
        for part in parts:
            statement = f"SELECT count(*) FROM (SELECT 1 FROM {source} LIMIT {most + 1 - total:d})"
            total += reader.execute(statement, part).fetchone()[0]
            if total > most:
                break
    return total


def _parts_of_all(
    reader: sqlite3.Connection, query: TaskFilter, tenant: str | None, name: str | None
) -> tuple[str, list[tuple[Value, ...]]]:
    """The source of a list of many owners, and the values of its parts, each in the order of an index.

    The tasks of a tenant are in one part; those of one owner are in a part for each agent and state.
    """
    every = "tasks INDEXED BY tasks_by_time WHERE TRUE"
    tenants = [tenant] if tenant is not None else distinct(reader, "tenant", every)
    if name is None or query.context_id is not None:
        index = "tasks_by_time" if name is None else "tasks_by_context"
        source = f"tasks INDEXED BY {index} WHERE tenant = ?"
        conditions, values = _conditions(owner=name, context=query.context_id, agent=query.agent, state=query.state)
        parts: list[tuple[Value, ...]] = [(each, *values) for each in tenants]
    else:
        source = "tasks INDEXED BY tasks_by_state WHERE tenant = ? AND owner = ?"
        conditions = " AND agent = ? AND state = ?"
        states = [query.state.value] if query.state is not None else _STATES
        parts = [
            (each, name, *agent_and_state)
            for each in tenants
            for agent_and_state in product(
                [query.agent] if query.agent is not None else distinct(reader, "agent", source, each, name), states
            )
        ]
    if query.status_at_or_after is not None:
        conditions += " AND status_at >= ?"
        parts = [(*part, encode_time(query.status_at_or_after)) for part in parts]
    return source + conditions, parts


def read_heads_of_id(
    reader: sqlite3.Connection, task_id: str, tenant: str | None, name: str | None
) -> tuple[TaskHead, ...]:
    """The tasks with an id in one tenant or in all, each found with one step in an index."""
    condition, values = ("", ()) if name is None else (" AND owner = ?", (name,))
    statement = f"SELECT {HEAD} FROM tasks WHERE tenant = ? AND id = ?{condition}"
    with one_moment(reader):
        every = "tasks INDEXED BY tasks_by_time WHERE TRUE"
        tenants = [tenant] if tenant is not None else distinct(reader, "tenant", every)
        rows = [row for each in tenants for row in reader.execute(statement, (each, task_id, *values))]
    return tuple([decode_head(row) for row in rows])


def read_newest(
    reader: sqlite3.Connection, tenant: str, before: tuple[datetime, str] | None, limit: int
) -> tuple[TaskHead, ...]:
    """A page of a tenant's tasks, by falling creation time and id."""
    condition, values = "", list[Value]([tenant])
    if before is not None:
        condition = "AND (created_at, id) < (?, ?)"
        values += [encode_time(before[0]), before[1]]
    rows = reader.execute(
        f"""
        SELECT {HEAD} FROM tasks INDEXED BY tasks_by_creation WHERE tenant = ? {condition}
        ORDER BY created_at DESC, id DESC LIMIT {limit:d}
        """,
        values,
    ).fetchall()
    return tuple([decode_head(row) for row in rows])


def read_abandoned(
    reader: sqlite3.Connection,
    live: frozenset[str],
    now: datetime | None,
    agents: frozenset[str] | None,
    after: tuple[datetime, str] | None,
    limit: int,
) -> tuple[TaskHead, ...]:
    """Tasks that no live worker holds and that do not sleep, or are to wake at or before `now`; the oldest first."""
    source = "tasks INDEXED BY tasks_by_holder WHERE state IN ('submitted', 'working') AND wake_at IS NULL"
    condition, values = "", list[Value]()
    if after is not None:
        condition, values = "AND (created_at, id) > (?, ?)", [encode_time(after[0]), after[1]]
    if agents is not None:
        condition += " AND agent IN (SELECT value FROM json_each(?))"
        values.append(encode([*agents]))
    condition += f" ORDER BY created_at, id LIMIT {limit:d}"
    held = f"SELECT {HEAD} FROM {source} AND holder = ? {condition}"
    due = f"SELECT {HEAD} FROM tasks INDEXED BY tasks_by_wake WHERE wake_at <= ? {condition}"
    with one_moment(reader):
        holders = [(holder, *values) for holder in distinct(reader, "holder", source) if holder not in live]
        wakes = [(encode_time(now), *values)] if now is not None else []
        with (
            closing(merged(reader, held, holders, key=_by_age)) as of_dead_workers,
            closing(merged(reader, due, wakes, key=_by_age)) as awake,
        ):
            rows = heapq.merge(of_dead_workers, awake, key=_by_age)
            return tuple([decode_head(row) for row in islice(rows, limit)])


def _conditions(*, state: TaskState | None, **columns: str | None) -> tuple[str, tuple[str, ...]]:
    wanted = {**columns, "state": state.value if state is not None else None}
    given = {column: value for column, value in wanted.items() if value is not None}
    return "".join([f" AND {column} = ?" for column in given]), tuple(given.values())


def _newest_first(
    reader: sqlite3.Connection, source: str, parts: Sequence[tuple[Value, ...]], query: TaskFilter
) -> Generator[Row]:
    """Heads after those of the page before."""
    page, position = "", list[Value]()
    if query.after is not None:
        status_at, task_id = encode_time(query.after[0]), query.after[1]
        page = "AND status_at <= ? AND (status_at < ? OR id > ?)"  # the first half is what the index can do
        position = [status_at, status_at, task_id]
    statement = f"SELECT {HEAD} FROM {source} {page} ORDER BY status_at DESC, id"
    return merged(reader, statement, [(*part, *position) for part in parts], key=_by_status)


def _by_status(row: Row) -> tuple[int, str]:
    return -row[6], row[2]


def _by_age(row: Row) -> tuple[int, str]:
    return row[7], row[2]


def read_finished_of_agent(
    reader: sqlite3.Connection, ended_before: int, limit: int, tenant: str | None, agent: str
) -> list[TaskKey]:
    """Tasks of an agent that ended before a moment: the oldest of each owner, at most `limit` in all."""
    source = "tasks INDEXED BY tasks_by_state WHERE"
    statement = f"""
        SELECT id FROM {source} tenant = ? AND owner = ? AND agent = ? AND state = ? AND status_at < ?
        ORDER BY status_at LIMIT ?
    """
    found: list[TaskKey] = []
    for one in distinct(reader, "tenant", f"{source} TRUE") if tenant is None else [tenant]:
        for owner in distinct(reader, "owner", f"{source} tenant = ?", one):
            for state in TERMINAL:
                values = (one, owner, agent, state.value, ended_before, limit - len(found))
                found += [TaskKey(Owner(one, owner), task_id) for (task_id,) in reader.execute(statement, values)]
                if len(found) >= limit:
                    return found
    return found
