"""Cases about reading, listing and cancelling tasks."""

from __future__ import annotations

from typing import Any

from parley.check.cases import HTTP, Cases
from parley.check.envelope import absent
from parley.check.probe import SAYS_NOTHING, Probe, expect
from parley.check.verdict import Broken, Undecided
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.cards import Binding
from parley.protocol.errors import (
    A2AError,
    InvalidParamsError,
    InvalidRequestError,
    PeerProtocolError,
    TaskNotCancelableError,
    TaskNotFoundError,
)
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.tasks import Task
from parley.protocol.versions import Version

CASES = Cases()
INVALID = (InvalidParamsError, InvalidRequestError)
"""HTTP+JSON and gRPC have one status for both."""


def _get(probe: Probe, task_id: str, **fields: Any) -> r.GetTaskRequest:
    return r.GetTaskRequest(task_id, tenant=probe.tenant, **fields)


def _invalid(probe: Probe) -> tuple[type[A2AError], ...]:
    return INVALID if probe.binding is not Binding.JSONRPC else (InvalidParamsError,)


@CASES.case("An unknown task is not found", v1_0="G1.16", v0_3="G2.18", v0_1="A1.7")
async def unknown_task(probe: Probe) -> str:
    error = await probe.refusal(ops.GET_TASK, _get(probe, absent()))
    return expect(probe, error, TaskNotFoundError, what="Reading an unknown task")


@CASES.case("A task can be read", v1_0="G1.16", v0_3="G2.4", v0_1="A1.2")
async def known_task(probe: Probe) -> str:
    task = await probe.finished()
    read = await probe.call(ops.GET_TASK, _get(probe, task.id))
    if (read.id, read.status.state) != (task.id, task.status.state):
        raise Broken(f"task {task.id}, which is {task.status.state}, reads as {read.id}, {read.status.state}")
    return "The task reads as it was answered"


@CASES.case("Reading twice gives the same", v1_0="G1.9")
async def idempotent(probe: Probe) -> str:
    task = await probe.finished()
    first = await probe.call(ops.GET_TASK, _get(probe, task.id))
    second = await probe.call(ops.GET_TASK, _get(probe, task.id))
    if first != second:
        raise Broken("a finished task reads differently the second time")
    return "Both readings are equal"


@CASES.case("No more history than asked for", v1_0="G1.15")
async def history(probe: Probe) -> str:
    task = await probe.finished()
    whole = await probe.call(ops.GET_TASK, _get(probe, task.id))
    for length in (0, 1):
        read = await probe.call(ops.GET_TASK, _get(probe, task.id, history_length=length))
        if len(read.history) > length:
            raise Broken(f"with historyLength {length} the task has {len(read.history)} messages")
    again = await probe.call(ops.GET_TASK, _get(probe, task.id))
    if again.history != whole.history:
        raise Broken("asking for less history has changed the task's history")
    return f"The whole history has {len(whole.history)} messages, and less is given when asked for"


@CASES.case("A negative history length is invalid", v1_0="G1.15", v0_3="G2.20", v0_1="A1.7")
async def negative_history(probe: Probe) -> str:
    task = await probe.task()
    error = await probe.refusal(ops.GET_TASK, _get(probe, task.id, history_length=-1))
    must = probe.version is Version.V1_0
    return expect(probe, error, *_invalid(probe), what="A history length of -1", must=must)


# --- cancel -----------------------------------------------------------------------------------------------------------


def _cancel(probe: Probe, task_id: str) -> r.CancelTaskRequest:
    return r.CancelTaskRequest(task_id, tenant=probe.tenant)


@CASES.case("Cancelling an unknown task is not found", v1_0="G1.23", v0_3="G2.18", v0_1="A1.7")
async def cancel_unknown(probe: Probe) -> str:
    error = await probe.refusal(ops.CANCEL_TASK, _cancel(probe, absent()))
    return expect(probe, error, TaskNotFoundError, what="Cancelling an unknown task")


@CASES.case("A finished task cannot be cancelled", v1_0="G1.23", v0_3="G2.18", v0_1="A1.7")
async def cancel_finished(probe: Probe) -> str:
    task = await probe.finished()
    error = await probe.refusal(ops.CANCEL_TASK, _cancel(probe, task.id))
    return expect(probe, error, TaskNotCancelableError, what=f"Cancelling a {task.status.state} task")


@CASES.case("Cancelling gives the task", v1_0="G1.23", v0_3="G2.4")
async def cancel(probe: Probe) -> str:
    task = await probe.running()
    try:
        cancelled = await probe.call(ops.CANCEL_TASK, _cancel(probe, task.id))
    except A2AError as error:
        if isinstance(error, TaskNotCancelableError) or probe.is_formless:
            raise Undecided(f"the task cannot be cancelled, which is allowed: {error}") from error
        raise
    if cancelled.id != task.id:
        raise Broken("cancelling gave another task")
    return f"The task is {cancelled.status.state}"


# --- list -------------------------------------------------------------------------------------------------------------


async def _list(probe: Probe, **fields: Any) -> r.TaskPage:
    try:
        page: r.TaskPage = await probe.call(ops.LIST_TASKS, r.ListTasksRequest(tenant=probe.tenant, **fields))
    except A2AError as error:
        raise Undecided(f"listing is answered with {type(error).__name__}: {error}") from error
    except PeerProtocolError as error:  # it fails "Tasks can be listed", once
        raise Undecided(f"the list cannot be read: {error}") from error
    return page


@CASES.case("Tasks can be listed", v1_0="G1.44")
async def listed(probe: Probe) -> str:
    error = await probe.refusal(ops.LIST_TASKS, r.ListTasksRequest(tenant=probe.tenant))
    if error is None:
        return "There is a list of tasks"
    if isinstance(error, SAYS_NOTHING):
        raise Undecided(f"listing is answered with {type(error).__name__}: {error}")
    raise Broken(f"tasks cannot be listed: {type(error).__name__}: {error}")


@CASES.case("Tasks are listed newest first", v1_0="G1.18")
async def order(probe: Probe) -> str:
    await probe.task()
    page = await _list(probe, page_size=100)
    times = [task.status.timestamp for task in page.tasks if task.status.timestamp is not None]
    if times != sorted(times, reverse=True):
        raise Broken("the tasks are not sorted by the time of their status, newest first")
    if len(times) < 2:
        raise Undecided("there are not two tasks with a time")
    return f"{len(times)} tasks are in order"


@CASES.case("A page size out of range is invalid", v1_0="G1.19")
async def page_size(probe: Probe) -> str:
    await _list(probe, page_size=1)
    for size in (101, -1, 0):
        error = await probe.refusal(ops.LIST_TASKS, r.ListTasksRequest(page_size=size, tenant=probe.tenant))
        expect(probe, error, *_invalid(probe), what=f"A page size of {size}")
    return "Page sizes of 101, -1 and 0 are refused"


@CASES.case("A page token that the server did not make is invalid", v1_0="G1.19")
async def page_token(probe: Probe) -> str:
    await _list(probe, page_size=1)
    error = await probe.refusal(ops.LIST_TASKS, r.ListTasksRequest(page_token="check!", tenant=probe.tenant))
    return expect(probe, error, *_invalid(probe), what="A made-up page token")


@CASES.case("Pages follow each other", v1_0="G1.19")
async def pages(probe: Probe) -> str:
    await probe.task()
    first = await _list(probe, page_size=1)
    if len(first.tasks) > 1:
        raise Broken(f"a page of size 1 has {len(first.tasks)} tasks")
    if not first.next_page_token:
        raise Undecided("there is one page only")
    second = await _list(probe, page_size=1, page_token=first.next_page_token)
    if {task.id for task in first.tasks} & {task.id for task in second.tasks}:
        raise Broken("the second page has a task of the first")
    return "The second page has another task"


@CASES.case("A page says where the next one is, and how many there are", v1_0="G1.20", bindings=HTTP)
async def page_members(probe: Probe) -> str:
    await probe.sample()
    answer = await probe.raw(ops.LIST_TASKS, {})
    if answer.error is not None:
        await _list(probe)
    value: JsonObject = answer.value if isinstance(answer.value, dict) else {}
    missing = [name for name in ("tasks", "nextPageToken", "pageSize", "totalSize") if name not in value]
    if missing:
        raise Broken(f"the page lacks {', '.join(missing)}")
    tasks, total = value["tasks"], value["totalSize"]
    if not isinstance(tasks, list) or not isinstance(total, int) or total < len(tasks):
        raise Broken(f"totalSize is {total!r}, which is less than the number of tasks on the page")
    return "The page has all its members"


@CASES.case("Artifacts are listed only when asked for", v1_0="G1.21", bindings=HTTP)
async def listed_artifacts(probe: Probe) -> str:
    task = await probe.task()
    answer = await probe.raw(ops.LIST_TASKS, {"pageSize": 100})
    if answer.error is not None:
        await _list(probe)
    value: JsonObject = answer.value if isinstance(answer.value, dict) else {}
    tasks = value.get("tasks")
    shown = [
        item for item in (tasks if isinstance(tasks, list) else []) if isinstance(item, dict) and "artifacts" in item
    ]
    if shown:
        raise Broken(f"{len(shown)} tasks have the member artifacts, which nobody asked for")
    if not task.artifacts:
        raise Undecided("no task of this check has artifacts")
    page = await _list(probe, include_artifacts=True, page_size=100)
    mine = [item for item in page.tasks if item.id == task.id]
    if mine and not mine[0].artifacts:
        raise Broken("with includeArtifacts a task lacks its artifacts")
    return "The member is there only when asked for"


@CASES.case("An unknown status is invalid", v1_0="G1.22", bindings=HTTP)
async def unknown_status(probe: Probe) -> str:
    await _list(probe, page_size=1)
    answer = await probe.raw(ops.LIST_TASKS, {"status": "TASK_STATE_NAPPING"})
    return expect(probe, answer.error, *_invalid(probe), what="The status TASK_STATE_NAPPING")


@CASES.case("Lists are filtered", v1_0="G1.22")
async def filters(probe: Probe) -> str:
    task: Task = await probe.finished()
    if not task.context_id:
        raise Undecided("the task has no context")
    fields: dict[str, Any] = {"context_id": task.context_id, "state": task.status.state}
    if task.status.timestamp is not None:
        fields["status_timestamp_after"] = task.status.timestamp
    page = await _list(probe, page_size=100, **fields)
    others = [
        item.id for item in page.tasks if (item.context_id, item.status.state) != (task.context_id, task.status.state)
    ]
    if others:
        raise Broken(f"the list has {len(others)} tasks of another context or status")
    if task.id not in [item.id for item in page.tasks]:
        raise Broken("the list lacks a task that has this context, this status and just this time")
    return "The list has what fits, and the time is inclusive"
