"""Reads the whole log of all tasks from the store, by SQL of its own and without Parley's code."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import asyncpg

from tests.chaos.evidence import LoggedTask

UNFINISHED = ("submitted", "working")


async def read_tasks(store: str) -> dict[str, LoggedTask]:
    """Every task with all of its events."""
    # Sorted here: the server would write a sort of all events to its disk, which is small on purpose.
    tasks = sorted(await _rows(store, "SELECT number, id, state, last_seq FROM tasks"))
    events = sorted(await _rows(store, "SELECT task, last_seq, events FROM events"))
    of_tasks: dict[int, list[tuple[int, dict[str, Any]]]] = {}
    for number, last_seq, row in events:
        batch = json.loads(row)
        of_tasks.setdefault(number, []).extend(enumerate(batch, last_seq - len(batch) + 1))
    return {
        task_id: LoggedTask(task_id, state, last_seq, tuple(of_tasks.get(number, ())))
        for number, task_id, state, last_seq in tasks
    }


async def tasks_in_outbox(store: str) -> tuple[str, ...]:
    """Tasks of which not all webhooks have been told all."""
    return tuple([row[0] for row in await _rows(store, "SELECT task FROM outbox")])


async def unfinished_tasks(store: str) -> int:
    """How many tasks are neither ended nor waiting for their callers."""
    return int((await _rows(store, f"SELECT count(*) FROM tasks WHERE state IN {UNFINISHED}"))[0][0])


async def _rows(store: str, query: str) -> list[tuple[Any, ...]]:
    if store.startswith("sqlite:///"):
        with closing(sqlite3.connect(store.removeprefix("sqlite:///"), timeout=30)) as connection:
            return connection.execute(query).fetchall()
    reader = await asyncpg.connect(store)
    try:
        return [tuple(row) for row in await reader.fetch(query)]
    finally:
        await reader.close()
