"""Questions that are not for the caller of a task: a task waits, and the answer comes from elsewhere.

A host asks for approval this way. The task is `input-required` like one that asks its caller, and the host checks who
may answer. An agent that has delegated to such a task waits with it, and asks its own caller nothing: it goes on
when it is woken, and looks at the other task again.
"""

from __future__ import annotations

from msgspec import structs

from parley.engine.runs.run import Run
from parley.protocol.extensions import ANSWERED_ELSEWHERE
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.messages import Message, Part
from parley.protocol.tasks import TaskState, TaskStatus

_NAME = "parley:elsewhere "
"""What the names of these questions begin with in the log."""


def question_name(id: str) -> str:
    """The name of a question in the log."""
    return _NAME + id


def id_in_name(name: str | None) -> str | None:
    """The id of the question that has a name; None if that is a question to the caller, or none."""
    return name.removeprefix(_NAME) if name is not None and name.startswith(_NAME) else None


def asked_elsewhere(status: TaskStatus) -> tuple[str, str] | None:
    """The id of the question that a task waits for, and the task that it belongs to; None if its caller is asked."""
    marked = status.message.metadata.get(ANSWERED_ELSEWHERE) if status.message is not None else None
    match marked:
        case {"id": str(id), "taskId": str(task_id)}:
            return id, task_id
        case _:
            return None


async def ask_elsewhere(run: Run, id: str, parts: tuple[Part, ...], *, task_id: str | None = None) -> Message:
    """The answer to a question of this task, or of another one that it waits for, if it was given already.

    Raises:
        Stopped: the question was asked, and the task waits.
    """
    marked: JsonObject = {ANSWERED_ELSEWHERE: {"id": id, "taskId": task_id or run.key.task_id}}
    message = structs.replace(run.agent_message(parts), metadata=marked)
    return await run.ask(TaskState.INPUT_REQUIRED, parts, name=question_name(id), message=message, is_demanded=True)
