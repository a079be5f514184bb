"""Cases about sending messages."""

from __future__ import annotations

from contextlib import suppress
from uuid import uuid4

import msgspec

from parley.check.cases.case import Cases
from parley.check.cases.expectations import INVALID, describe, expect
from parley.check.endpoints.probe import Probe, unknown_id
from parley.check.findings import Broken, Undecided
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.errors import (
    A2AError,
    ContentTypeNotSupportedError,
    ParleyError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from parley.protocol.lifecycle import is_interrupted, is_terminal
from parley.protocol.messages import Message, RawPart, Role
from parley.protocol.negotiation import accepts
from parley.protocol.tasks import Task, TaskState
from parley.protocol.versions import Version

CASES = Cases()
UNKNOWN_TYPE = "application/x-parley-check"


@CASES.case("The answer to a message is a task or a message", v1_0="G1.7", v0_3="G2.4", v0_1="A1.2a")
async def answer(probe: Probe) -> str:
    try:
        sample = await probe.samples.answer()
    except Undecided as error:
        if probe.samples.is_unreadable:  # this breaks only this rule, and leaves the others undecided
            raise Broken(error.message) from error
        raise
    if isinstance(sample, Task):
        return f"The answer is a task in the state {sample.status.state}"
    if not sample.parts or sample.role is not Role.AGENT:
        raise Broken("the message has no parts, or its role is not agent")
    return "The answer is a message"


@CASES.case("Task ids are created by the agent, and unique", v1_0="G1.3", v0_3="G2.7a")
async def unique_ids(probe: Probe) -> str:
    first = await probe.samples.task()
    second = await probe.samples.another()
    if not first.id or not second.id:
        raise Broken("a task has no id")
    if first.id == second.id:
        raise Broken("two messages that name no task got one task id")
    return "Two tasks have two ids"


@CASES.case("A message to an unknown task is refused", v1_0="G1.2a", v0_3="G2.7a")
async def unknown_task(probe: Probe) -> str:
    await probe.samples.answer()
    chosen = unknown_id()
    try:
        result = await probe.call(ops.SEND_MESSAGE, probe.request(probe.message(task_id=chosen)))
    except A2AError as error:
        is_new = probe.version is Version.V1_0
        return expect(probe, error, TaskNotFoundError, what="A message to an unknown task", any_error=not is_new)
    if isinstance(result, Task) and result.id == chosen:
        raise Broken("the server created a task with the id that the caller chose")
    got = "a new task" if isinstance(result, Task) else "a message"
    raise Broken(f"the task id is ignored: the answer is {got}", must=probe.version is Version.V1_0)


@CASES.case("A message to a finished task is refused", v1_0="G1.1", v0_3="G2.6")
async def finished_task(probe: Probe) -> str:
    task = await probe.samples.finished()
    error = await probe.refusal(ops.SEND_MESSAGE, probe.request(probe.message(task_id=task.id)))
    wanted = (UnsupportedOperationError,) if probe.version is Version.V1_0 else ()
    return expect(probe, error, *wanted, what=f"A message to a {task.status.state} task", any_error=not wanted)


@CASES.case("A task and a context that do not belong together are refused", v1_0="G1.4b")
async def mismatch(probe: Probe) -> str:
    task = await probe.samples.interrupted()
    message = probe.message(task_id=task.id, context_id=f"check-other-{uuid4()}")
    error = await probe.refusal(ops.SEND_MESSAGE, probe.request(message))
    what = "A message to a task in another context"
    return expect(probe, error, *INVALID, what=what, any_error=True)


@CASES.case("A context id that is given is kept", v1_0="G1.5a", v0_3="G2.7b", v0_1="G3.1b")
async def context(probe: Probe) -> str:
    await probe.samples.answer()
    chosen = f"check-{uuid4()}"
    try:
        result = await probe.call(ops.SEND_MESSAGE, probe.request(probe.message(context_id=chosen)))
    except (*INVALID, UnsupportedOperationError) as error:
        return f"A context id from the caller is refused: {type(error).__name__}"
    except A2AError as error:
        raise Undecided(f"a message with a context id is answered with {describe(error)}") from error
    if result.context_id == chosen:
        return "The context id came back"
    if result.context_id is None and isinstance(result, Message):
        raise Undecided("the agent's message names no context")
    raise Broken(f"the context id {chosen} was replaced by {result.context_id}")


@CASES.case("A context id that the agent creates is returned", v1_0="G1.5b", v0_3="G2.7b", v0_1="G3.1b")
async def made_context(probe: Probe) -> str:
    task = await probe.samples.task()
    if task.context_id:
        return "The task has a context id"
    if probe.version is Version.V1_0:
        raise Undecided("the task has no context id; perhaps the agent created none")
    raise Broken("the task has no context id")


@CASES.case("A send waits for the end or for a question", v1_0="G1.8a", v0_3="G2.16")
async def waits(probe: Probe) -> str:
    if probe.version is Version.V1_0:
        await probe.samples.task()
    else:
        await probe.samples.quick()  # there is no list to find the task in, to cancel it
    message = probe.message()
    try:
        task = await probe.call(ops.SEND_MESSAGE, probe.request(message, return_immediately=False))
    except A2AError as error:
        raise Undecided(f"a message is answered with {describe(error)}") from error
    except Undecided:
        await _track_unanswered_send(probe, message)
        raise
    if not isinstance(task, Task):
        raise Undecided("this time the answer is a message")
    if not is_terminal(task.status.state) and not is_interrupted(task.status.state):
        raise Broken(f"the task came back {task.status.state}", must=probe.version is Version.V1_0)
    if probe.version is Version.V1_0:
        await _check_artifacts(probe, task)
    return f"The task came back {task.status.state}"


async def _check_artifacts(probe: Probe, task: Task) -> None:
    """A send that waits returns all artifacts."""
    try:
        read: Task = await probe.call(ops.GET_TASK, r.GetTaskRequest(task.id))
    except A2AError:
        return  # another case tests that
    came = {artifact.artifact_id for artifact in task.artifacts}
    missing = [artifact.artifact_id for artifact in read.artifacts if artifact.artifact_id not in came]
    if is_terminal(task.status.state) and missing:
        raise Broken(f"the task came back {task.status.state} and lacks {len(missing)} artifact(s) that it has")


async def _track_unanswered_send(probe: Probe, message: Message) -> None:
    """Find the task of a send that was not answered in time, so that it can be cancelled."""
    if probe.version is not Version.V1_0:
        return
    with suppress(ParleyError):
        request = r.ListTasksRequest(page_size=20, history_length=5)
        page = await probe.call(ops.LIST_TASKS, request)
        for task in page.tasks:
            if message.message_id in [said.message_id for said in task.history]:
                probe.track(task)


@CASES.case("A send returns immediately when asked to", v1_0="G1.8b", v0_3="G2.16")
async def returns(probe: Probe) -> str:
    task = await probe.samples.running()
    return f"The task came back {task.status.state}"


@CASES.case("The caller's task id is kept", v0_1="G3.1a")
async def callers_id(probe: Probe) -> str:
    chosen = f"check-{uuid4()}"
    await probe.samples.answer()
    result = await probe.call(ops.SEND_MESSAGE, probe.request(probe.message(task_id=chosen)))
    if not isinstance(result, Task) or result.id != chosen:
        raise Broken(f"the task {chosen} came back as another")
    return "The task has the caller's id"


@CASES.case("A media type that the agent does not accept is refused", v1_0="G1.10")
async def media_type(probe: Probe) -> str:
    await probe.samples.answer()
    modes = (*probe.card.default_input_modes, *(mode for skill in probe.card.skills for mode in skill.input_modes))
    if accepts(modes, UNKNOWN_TYPE):
        raise Undecided("the agent accepts all media types")
    message = msgspec.structs.replace(probe.message(), parts=(RawPart(b"check", UNKNOWN_TYPE),))
    error = await probe.refusal(ops.SEND_MESSAGE, probe.request(message))
    return expect(probe, error, ContentTypeNotSupportedError, what=f"A part of the type {UNKNOWN_TYPE}", must=False)


@CASES.case("Results are artifacts", v1_0="G1.12", v0_3="G2.14")
async def artifacts(probe: Probe) -> str:
    task = await probe.samples.task()
    if task.status.state is not TaskState.COMPLETED:
        raise Undecided(f"the task is {task.status.state}")
    if task.artifacts:
        return f"The task has {len(task.artifacts)} artifact(s)"
    if task.status.message is not None or any(message.role is Role.AGENT for message in task.history):
        raise Broken("the completed task has a message from the agent and no artifacts", must=False)
    raise Undecided("the task has no output")


@CASES.case("Authentication within a task is explained", v1_0="G1.50", v0_3="G2.12")
async def authentication(probe: Probe) -> str:
    task = await probe.samples.interrupted()
    if task.status.state is not TaskState.AUTH_REQUIRED:
        raise Undecided("the agent does not ask for authentication within a task")
    if task.status.message is None or not task.status.message.parts:
        raise Broken("the task does not explain what it needs", must=probe.version is Version.V1_0)
    return "The status message explains it"


@CASES.case("The answer to a message within a task is that task", v1_0="G1.14", v0_3="G2.7a", v0_1="G3.2")
async def follow_up(probe: Probe) -> str:
    """The last case of this module, because it consumes the interrupted task."""
    task = await probe.samples.interrupted()
    try:
        result = await probe.call(ops.SEND_MESSAGE, probe.request(probe.message(task_id=task.id)))
    except A2AError as error:
        if task.status.state is TaskState.AUTH_REQUIRED:  # credentials are sent in another way
            raise Undecided(
                f"while it waits for authentication, a message is answered with {describe(error)}"
            ) from error
        raise
    if not isinstance(result, Task) or result.id != task.id:
        raise Broken("the answer to a message within a task is not that task")
    if result.context_id != task.context_id:
        raise Broken(f"the task changed its context from {task.context_id} to {result.context_id}")
    return f"The task went on and is {result.status.state}"
