"""Cases about reading and cancelling tasks."""

from __future__ import annotations

from parley.check.cases.case import Cases
from parley.check.cases.expectations import INVALID, describe, expect
from parley.check.endpoints.probe import Probe, unknown_id
from parley.check.findings import Broken, Undecided
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.cards import Binding
from parley.protocol.errors import (
    A2AError,
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
)
from parley.protocol.lifecycle import is_terminal
from parley.protocol.tasks import Task, TaskState
from parley.protocol.versions import Version

CASES = Cases()


def invalid(probe: Probe) -> tuple[type[A2AError], ...]:
    """The errors that say that a request is invalid."""
    return INVALID if probe.binding is not Binding.JSONRPC else (InvalidParamsError,)


async def need_agent(probe: Probe) -> None:
    """Make sure that an agent answers before a 404 counts: any web server answers that."""
    if probe.binding is Binding.HTTP_JSON:
        await probe.samples.answer()


@CASES.case("An unknown task is not found", v1_0="G1.16", v0_3="G2.18", v0_1="A1.7a")
async def unknown_task(probe: Probe) -> str:
    await need_agent(probe)
    error = await probe.refusal(ops.GET_TASK, r.GetTaskRequest(unknown_id()))
    return expect(probe, error, TaskNotFoundError, what="Reading an unknown task")


@CASES.case("A task can be read", v1_0="G1.44", v0_3="G2.4", v0_1="A1.2a")
async def known_task(probe: Probe) -> str:
    task = await probe.samples.finished()
    read = await probe.call(ops.GET_TASK, r.GetTaskRequest(task.id))
    if read.id != task.id:
        raise Broken(f"task {task.id} reads as {read.id}")
    if read.status.state is not task.status.state:
        raise Undecided(f"the task was {task.status.state} and is {read.status.state}")
    return "The task reads as it was returned"


@CASES.case("A finished task stays finished", v0_3="G2.6")
async def stays_finished(probe: Probe) -> str:
    task = await probe.samples.finished()
    read = await read_task(probe, task.id)
    if read.status.state is not task.status.state:
        raise Broken(f"the task was {task.status.state} and is {read.status.state}")
    return f"The task is still {read.status.state}"


@CASES.case("Reading twice gives the same result", v1_0="G1.9")
async def idempotent(probe: Probe) -> str:
    task = await probe.samples.finished()
    first = await read_task(probe, task.id)
    second = await read_task(probe, task.id)
    if first != second:
        raise Broken("a finished task reads differently the second time")
    return "Both readings are equal"


async def _still_finished(probe: Probe) -> Task:
    """A finished task that still reads as finished: some servers forget the cancellation of a running task."""
    task = await probe.samples.finished()
    read = await read_task(probe, task.id)
    if not is_terminal(read.status.state):
        raise Undecided(f"the task was {task.status.state} and is {read.status.state}")
    return read


async def read_task(probe: Probe, task_id: str) -> Task:
    """A task as it reads now; another case tests whether it can be read at all."""
    try:
        return await probe.call(ops.GET_TASK, r.GetTaskRequest(task_id))
    except A2AError as error:
        raise Undecided(f"reading the task is answered with {describe(error)}") from error


@CASES.case("No more history than asked for", v1_0="G1.15a")
async def history(probe: Probe) -> str:
    task = await probe.samples.finished()
    whole = await read_task(probe, task.id)
    requests = [r.GetTaskRequest(task.id, history_length=length) for length in (0, 1)]
    shorter = [await probe.call(ops.GET_TASK, request) for request in requests]
    if (await read_task(probe, task.id)).history != whole.history:
        raise Broken("asking for less history has changed the task's history")
    for length, read in enumerate(shorter):
        if len(read.history) > length:
            raise Broken(f"with historyLength {length} the task has {len(read.history)} messages")
    if not whole.history:
        raise Undecided("the task has no history")
    return f"The whole history has {len(whole.history)} messages, and less is given when asked for"


@CASES.case("A send returns no more history than asked for", v1_0="G1.15a")
async def sent_history(probe: Probe) -> str:
    await probe.samples.task()
    sent = await probe.call(ops.SEND_MESSAGE, probe.request(history_length=0))
    if not isinstance(sent, Task):
        raise Undecided("this time the answer is a message")
    if sent.history:
        raise Broken(f"with historyLength 0 the task came back with {len(sent.history)} messages")
    return "With historyLength 0 the task came back without history"


@CASES.case("A negative history length is invalid", v1_0="G1.15b", v0_3="G2.20b", v0_1="A1.7b")
async def negative_history(probe: Probe) -> str:
    task = await probe.samples.task()
    error = await probe.refusal(ops.GET_TASK, r.GetTaskRequest(task.id, history_length=-1))
    must = probe.version is Version.V1_0
    return expect(probe, error, *invalid(probe), what="A history length of -1", must=must)


# --- cancel -----------------------------------------------------------------------------------------------------------


@CASES.case("Cancelling an unknown task is not found", v1_0="G1.23b", v0_3="G2.18", v0_1="A1.7a")
async def cancel_unknown(probe: Probe) -> str:
    await need_agent(probe)
    error = await probe.refusal(ops.CANCEL_TASK, r.CancelTaskRequest(unknown_id()))
    return expect(probe, error, TaskNotFoundError, what="Cancelling an unknown task")


@CASES.case("A finished task cannot be cancelled", v1_0="G1.23a", v0_3="G2.18", v0_1="A1.7a")
async def cancel_finished(probe: Probe) -> str:
    task = await _still_finished(probe)
    error = await probe.refusal(ops.CANCEL_TASK, r.CancelTaskRequest(task.id))
    if error is None and task.status.state is TaskState.CANCELED:
        raise Undecided("a canceled task can be cancelled again: the specification is ambiguous about it")
    return expect(probe, error, TaskNotCancelableError, what=f"Cancelling a {task.status.state} task")


@CASES.case("Cancelling returns the task", v1_0="G1.23c", v0_3="G2.4")
async def cancel(probe: Probe) -> str:
    task = await probe.samples.running()
    try:
        cancelled = await probe.call(ops.CANCEL_TASK, r.CancelTaskRequest(task.id))
    except A2AError as error:
        if isinstance(error, TaskNotCancelableError) or probe.has_no_error_format:
            raise Undecided(f"the task cannot be cancelled, or has ended, which is allowed: {error}") from error
        raise
    if cancelled.id != task.id:
        raise Broken("cancelling returned another task")
    return f"The task is {cancelled.status.state}"
