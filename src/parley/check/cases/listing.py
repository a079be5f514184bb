"""Cases about lists of tasks, which 1.0 alone has."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from parley.check.cases.case import HTTP, Cases
from parley.check.cases.expectations import INCONCLUSIVE, describe, expect
from parley.check.cases.reading import invalid
from parley.check.endpoints.probe import Probe, unknown_id
from parley.check.findings import Broken, Undecided
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.errors import (
    A2AError,
    PeerProtocolError,
)
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.tasks import Task, TaskState

CASES = Cases()
DEFAULT_PAGE = 50


async def _list(probe: Probe, **fields: Any) -> r.TaskPage:
    try:
        page: r.TaskPage = await probe.call(ops.LIST_TASKS, r.ListTasksRequest(**fields))
    except A2AError as error:
        raise Undecided(f"listing is answered with {describe(error)}") from error
    except PeerProtocolError as error:  # it fails "Tasks can be listed", once
        raise Undecided(f"the list cannot be read: {error}") from error
    return page


@CASES.case("Tasks can be listed", v1_0="G1.44")
async def listed(probe: Probe) -> str:
    error = await probe.refusal(ops.LIST_TASKS, r.ListTasksRequest())
    if error is None:
        return "There is a list of tasks"
    if isinstance(error, INCONCLUSIVE):
        raise Undecided(f"listing is answered with {describe(error)}") from error
    raise Broken(f"tasks cannot be listed: {describe(error)}")


@CASES.case("Tasks are listed newest first", v1_0="G1.18")
async def order(probe: Probe) -> str:
    await probe.samples.task()
    page = await _list(probe, page_size=100)
    times = [task.status.timestamp for task in page.tasks if task.status.timestamp is not None]
    if times != sorted(times, reverse=True):
        raise Broken("the tasks are not sorted by the time of their status, newest first")
    if len(times) < 2:
        raise Undecided("there are not two tasks with a time")
    return f"{len(times)} tasks are in order"


@CASES.case("A page size out of range is invalid", v1_0="G1.19b")
async def page_size(probe: Probe) -> str:
    await _list(probe, page_size=1)
    for size in (101, -1, 0):
        error = await probe.refusal(ops.LIST_TASKS, r.ListTasksRequest(page_size=size))
        expect(probe, error, *invalid(probe), what=f"A page size of {size}")
    return "Page sizes of 101, -1 and 0 are refused"


@CASES.case("A page token that the server did not make is invalid", v1_0="G1.19c")
async def page_token(probe: Probe) -> str:
    await _list(probe, page_size=1)
    error = await probe.refusal(ops.LIST_TASKS, r.ListTasksRequest(page_token="check!"))
    return expect(probe, error, *invalid(probe), what="A made-up page token")


@CASES.case("Pages follow each other", v1_0="G1.19a")
async def pages(probe: Probe) -> str:
    await probe.samples.task()
    first = await _list(probe, page_size=1)
    if len(first.tasks) > 1:
        raise Broken(f"a page of size 1 has {len(first.tasks)} tasks")
    if not first.next_page_token:
        raise Undecided("there is only one page")
    second = await _list(probe, page_size=1, page_token=first.next_page_token)
    if {task.id for task in first.tasks} & {task.id for task in second.tasks}:
        raise Broken("the second page has a task of the first")
    return "The second page has another task"


async def _raw_list(probe: Probe, members: JsonObject) -> JsonObject:
    answer = await probe.raw(ops.LIST_TASKS, members)
    if answer.error is not None:
        raise Undecided(f"listing is answered with {describe(answer.error)}") from answer.error
    return answer.value if isinstance(answer.value, dict) else {}


@CASES.case("A page says where the next one is, and how many there are", v1_0="G1.20", bindings=HTTP)
async def page_members(probe: Probe) -> str:
    await probe.samples.answer()
    value = await _raw_list(probe, {})
    missing = [name for name in ("tasks", "nextPageToken", "pageSize", "totalSize") if name not in value]
    if missing:
        raise Broken(f"the page lacks {', '.join(missing)}")
    tasks, total, token = value["tasks"], value["totalSize"], value["nextPageToken"]
    if not isinstance(tasks, list) or not isinstance(total, int) or not isinstance(token, str):
        raise Broken("tasks is not a list, totalSize not a number, or nextPageToken not a string")
    if total < len(tasks):
        raise Broken(f"totalSize is {total}, which is less than the {len(tasks)} tasks on the page")
    if total == len(tasks) and token:
        raise Broken(f"all {total} tasks are on the page, and nextPageToken is not empty")
    if len(tasks) > DEFAULT_PAGE:
        raise Broken(f"the page has {len(tasks)} tasks; the default size is {DEFAULT_PAGE}")
    return "The page has all its members"


@CASES.case("Artifacts are listed only when asked for", v1_0="G1.21", bindings=HTTP)
async def listed_artifacts(probe: Probe) -> str:
    task = await probe.samples.task()
    tasks = (await _raw_list(probe, {"pageSize": 100})).get("tasks")
    shown = [
        item
        for item in (tasks if isinstance(tasks, list) else [])
        if isinstance(item, dict) and item.get("artifacts") is not None
    ]
    if shown:
        raise Broken(f"{len(shown)} tasks have the member artifacts, which was not asked for")
    if not task.artifacts:
        raise Undecided("no task of this check has artifacts")
    page = await _list(probe, include_artifacts=True, page_size=100)
    mine = [item for item in page.tasks if item.id == task.id]
    if not mine:
        raise Undecided("the task of this check is not among the first hundred")
    if not mine[0].artifacts:
        raise Broken("with includeArtifacts a task lacks its artifacts")
    return "The member is there only when asked for"


@CASES.case("An unknown status is invalid", v1_0="G1.22b", bindings=HTTP)
async def unknown_status(probe: Probe) -> str:
    await _list(probe, page_size=1)
    answer = await probe.raw(ops.LIST_TASKS, {"status": "TASK_STATE_NAPPING"})
    return expect(probe, answer.error, *invalid(probe), what="The status TASK_STATE_NAPPING")


@CASES.case("Lists have no more history than asked for", v1_0="G1.15a")
async def listed_history(probe: Probe) -> str:
    await probe.samples.task()
    page = await _list(probe, page_size=100, history_length=0)
    if not page.tasks:
        raise Undecided("the list is empty")
    if any(task.history for task in page.tasks):
        raise Broken("with historyLength 0 there are tasks with history in the list")
    return f"With historyLength 0 none of {len(page.tasks)} tasks has history"


def _matching_filters(task: Task) -> dict[str, Any]:
    """Filters that match exactly one task."""
    filters: dict[str, Any] = {"context_id": task.context_id, "state": task.status.state}
    if task.status.timestamp is not None:
        filters["status_timestamp_after"] = task.status.timestamp
    return filters


@CASES.case("Lists are filtered", v1_0="G1.22a")
async def filters(probe: Probe) -> str:
    task = await _listed_task(probe)
    page = await _list(probe, page_size=100, **_matching_filters(task))
    others = [
        item.id for item in page.tasks if (item.context_id, item.status.state) != (task.context_id, task.status.state)
    ]
    if others:
        raise Broken(f"the list has {len(others)} tasks of another context or status")
    if task.id not in [item.id for item in page.tasks]:
        raise Broken("the list lacks a task with this context, this status and exactly this time")
    return "The list has the matching tasks, and the time is inclusive"


@CASES.case("Every filter of a list is applied", v1_0="G1.22a")
async def excluding_filters(probe: Probe) -> str:
    task = await _listed_task(probe)
    matching = _matching_filters(task)
    excluding: dict[str, Any] = {"context_id": unknown_id(), "state": _another(task.status.state)}
    if task.status.timestamp is not None:
        excluding["status_timestamp_after"] = task.status.timestamp + timedelta(days=1)
    for name, value in excluding.items():
        page = await _list(probe, page_size=100, **{**matching, name: value})
        if task.id in [item.id for item in page.tasks]:
            raise Broken(f"the list has a task that does not match the filter {name}")
    return f"The filters {', '.join(excluding)} each excluded a task that does not match"


def _another(state: TaskState) -> TaskState:
    return TaskState.FAILED if state is not TaskState.FAILED else TaskState.COMPLETED


async def _listed_task(probe: Probe) -> Task:
    """A finished task that is in the list of its context."""
    task = await probe.samples.finished()
    if not task.context_id:
        raise Undecided("the task has no context")
    page = await _list(probe, page_size=100, context_id=task.context_id)
    found = [item for item in page.tasks if item.id == task.id]
    if not found:
        raise Broken("a list of the tasks of a context lacks one of them")
    return found[0]
