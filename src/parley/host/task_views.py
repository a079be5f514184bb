"""Requests and conversations as views of tasks: a run is one task, whichever API shows it.

A request is a task that no other task of the host delegated. The messages of a conversation are those of its tasks:
what the user said, and what the agent answered. Their ids are made of the moment at which the task was created, so they
are in order and stay the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs

from parley.agents.delegation.delegated_task import DelegateProgress
from parley.agents.delegation.delegation import depth_of
from parley.agents.elsewhere import asked_elsewhere
from parley.engine.caller import Caller
from parley.engine.engine import Engine
from parley.engine.reading.views import fold_stored
from parley.engine.runs.journal import Journal
from parley.forms.fields import SCHEMA_TYPE
from parley.host.data.conversations import context_id_of, conversation_of
from parley.host.models.model import ModelMessage
from parley.host.orchestration.constitution_agent import CONSTITUTION, VERSION
from parley.host.orchestration.narration import PREFIX
from parley.host.origin import Surface, origin_of, owner_name
from parley.protocol.events import StepRecorded, TaskEvent
from parley.protocol.extensions import DELEGATION
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.lifecycle import is_interrupted, is_terminal
from parley.protocol.messages import DataPart, Role, TextPart, text_of
from parley.protocol.tasks import Task, TaskState
from parley.stores.interface import Owner, TaskFilter, TaskHead, TaskKey

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

MOST_TURNS = 1_000
"""Turns of one conversation that are shown, the newest of them."""

PAGE = 200
MOST_PAGES = 50
"""How many tasks are looked at for them: ten for each turn."""

HISTORY_MESSAGES = 100
"""Of the newest messages that a model is told, as documented."""

HISTORY_BYTES = 256 * 1024
"""Of these messages: more than fits into the context of most models, and every turn keeps what it was told."""

STATES = {
    TaskState.SUBMITTED: "running",
    TaskState.WORKING: "running",
    TaskState.INPUT_REQUIRED: "input_required",
    TaskState.AUTH_REQUIRED: "input_required",
    TaskState.COMPLETED: "completed",
    TaskState.FAILED: "failed",
    TaskState.REJECTED: "failed",
    TaskState.CANCELED: "canceled",
}


class WaitsFor(Struct, frozen=True, kw_only=True):
    """What a request waits for: an answer of its caller, or an approval."""

    question: str
    form: JsonObject | UnsetType = UNSET
    """The JSON Schema of the answer, if it has one."""
    approval_id: str | UnsetType = UNSET
    request_id: str | UnsetType = UNSET
    """The request that the approval belongs to: this one, or one that was delegated from it."""


class RequestView(Struct, frozen=True):
    """A task as the native API shows it. Times are seconds since 1970; 0: not yet."""

    request_id: str
    agent_id: str
    conversation_id: int
    state: str
    started_at: int
    completed_at: int
    error_message: str
    last_seq: int
    agent_version: int | UnsetType = UNSET
    """The version of the agent that the task began with; of a draft, the one that it was made from."""
    is_draft: bool | UnsetType = UNSET
    surface: Surface = "a2a"
    """Where it came from."""
    waits_for: WaitsFor | UnsetType = UNSET
    """What a request waits for that is `input_required`."""


class ConversationMessage(Struct, frozen=True, omit_defaults=True):
    """One message of a conversation."""

    id: int
    conversation_id: int
    role: str
    content: str
    input_tokens: int
    output_tokens: int
    created_at: int
    request_id: str


class TaskViews:
    """What the native API shows of an engine's tasks, for one tenant at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    # --- requests -----------------------------------------------------------------------------------------------------

    async def head(self, tenant_id: str, request_id: str) -> TaskHead | None:
        """A task of a tenant."""
        run = self._engine.runs.find(key := _key(tenant_id, request_id))
        if run is not None:
            await run.wait_until_known()
        return await self._engine.store.tasks.head(key)

    async def request(self, tenant_id: str, request_id: str) -> RequestView | None:
        """One request of a tenant, also one that was delegated."""
        head = await self.head(tenant_id, request_id)
        if head is None:
            return None
        (stored,) = await self._engine.store.tasks.read_many([head.key], artifacts=False)
        if stored is None:
            return None
        view = _request(head, fold_stored(stored))
        if view.agent_version is UNSET:  # the metadata has it when the task has ended
            version = version_in_log(await self._engine.views.events(head.key))
            view = structs.replace(view, agent_version=UNSET if version is None else version)
        return view

    async def requests(self, tenant_id: str, limit: int) -> list[RequestView]:
        """The newest requests of a tenant, without those that agents delegated to one another."""
        found: list[RequestView] = []
        before: tuple[datetime, str] | None = None
        while len(found) < limit:
            heads = await self._engine.store.tasks.newest(tenant_id, before=before, limit=limit)
            for head, task in await self._tasks(heads):
                if not await self._is_delegated(head, task):
                    found.append(_request(head, task))
            if len(heads) < limit:
                break
            before = (heads[-1].created_at, heads[-1].key.task_id)
        return found[:limit]

    async def tree(self, tenant_id: str, request_id: str) -> JsonObject | None:
        """A request with all that its agents delegated, as deep as it goes."""
        view = await self.request(tenant_id, request_id)
        if view is None:
            return None
        children: list[JsonValue] = []
        for child in await self._delegated_tasks(_key(tenant_id, request_id)):
            is_remote = "://" in child.agent  # its ids are its own, and may be the same as ours
            found = await self.tree(tenant_id, child.task) if child.task is not None and not is_remote else None
            if found is None and self._engine.find_named(child.agent, Caller(owner_name(tenant_id), tenant_id)) is None:
                is_remote = True  # it was called by its name in the registry
            children.append(found or {"request_id": child.task, "agent_id": child.agent, "is_remote": is_remote})
        tree: JsonObject = msgspec.to_builtins(view)
        tree["children"] = children
        return tree

    # --- conversations ------------------------------------------------------------------------------------------------

    async def messages(self, tenant_id: str, conversation_id: int) -> list[ConversationMessage]:
        """All messages of a conversation, oldest first."""
        return [
            message
            for head, task in await self._turns(tenant_id, conversation_id)
            for message in await self._messages_of(head, task, conversation_id)
        ]

    async def history(self, tenant_id: str, conversation_id: int, *, before: str) -> list[ModelMessage]:
        """What a model is told of a conversation: the newest messages before a request, oldest first.

        A request that failed has no answer, so it is left out. Of one that a newer message interrupted, the model is
        told what was said.
        """
        told: list[ModelMessage] = []
        for head, task in await self._turns(tenant_id, conversation_id):
            if head.key.task_id == before:
                break
            if head.state is TaskState.COMPLETED:
                told += [ModelMessage("user", _asked(task)), ModelMessage("assistant", await self.answer(head, task))]
            elif f"{PREFIX}interrupted_by" in task.metadata:
                said = text_in_artifacts(await self._engine.views.task(head.key, head.agent))
                told.append(ModelMessage("user", _asked(task)))
                told += [ModelMessage("assistant", f"{said} … [interrupted]")] if said else []
        return _newest(told[-HISTORY_MESSAGES:])

    async def _turns(self, tenant_id: str, conversation_id: int) -> list[tuple[TaskHead, Task]]:
        """The newest turns of a conversation, oldest first. What agents delegated is in its context, too."""
        turns: list[tuple[TaskHead, Task]] = []
        after: tuple[datetime, str] | None = None
        for _ in range(MOST_PAGES):
            query = TaskFilter(context_id=context_id_of(conversation_id), after=after, limit=PAGE)
            heads = (await self._engine.store.tasks.list(Owner(tenant_id, owner_name(tenant_id)), query)).heads
            for head, task in await self._tasks(heads):
                if not await self._is_delegated(head, task):
                    turns.append((head, task))
            if len(heads) < PAGE or len(turns) >= MOST_TURNS:
                break
            after = (heads[-1].status_at, heads[-1].key.task_id)
        return sorted(turns, key=lambda turn: (turn[0].created_at, turn[0].key.task_id))[-MOST_TURNS:]

    async def _tasks(self, heads: Sequence[TaskHead]) -> list[tuple[TaskHead, Task]]:
        stored = await self._engine.store.tasks.read_many([head.key for head in heads], artifacts=False)
        return [(head, fold_stored(one)) for head, one in zip(heads, stored, strict=True) if one is not None]

    async def _messages_of(self, head: TaskHead, task: Task, conversation_id: int) -> list[ConversationMessage]:
        number = 2 * ((head.created_at - EPOCH) // timedelta(microseconds=1))
        asked = task.history[0].text if task.history else ""
        at, request_id = _seconds(head.created_at), head.key.task_id
        messages = [ConversationMessage(number, conversation_id, "user", asked, 0, 0, at, request_id)]
        if head.state is TaskState.COMPLETED:
            messages.append(
                ConversationMessage(
                    id=number + 1,
                    conversation_id=conversation_id,
                    role="assistant",
                    content=await self.answer(head, task),
                    input_tokens=_count(task, "input_tokens"),
                    output_tokens=_count(task, "output_tokens"),
                    created_at=_seconds(head.status_at),
                    request_id=request_id,
                )
            )
        return messages

    async def _is_delegated(self, head: TaskHead, task: Task) -> bool:
        """Whether another task of the tenant began this one. A task that only pretends to has no parent here."""
        if not task.history or not depth_of(message := task.history[0]):
            return False
        if origin_of(message).delegated_by:  # only the host can say so
            return True
        parent = message.metadata.get(DELEGATION)
        parent_id = parent.get("taskId") if isinstance(parent, dict) else None
        if not isinstance(parent_id, str):
            return False
        children = await self._delegated_tasks(TaskKey(head.key.owner, parent_id))
        return any(child.task == head.key.task_id for child in children)

    async def _delegated_tasks(self, key: TaskKey) -> list[DelegateProgress]:
        """The tasks of other agents that a task has begun, in their order."""
        journal = Journal.read(await self._engine.views.events(key))
        return [msgspec.convert(progress, DelegateProgress) for progress in journal.progress_of("delegate")]

    async def answer(self, head: TaskHead, task: Task) -> str:
        """What the agent said in the end; an agent of Python may have put it into its artifacts only."""
        if task.status.message is not None:
            return text_of(task.status.message.parts)
        whole = await self._engine.views.task(head.key, head.agent)
        return text_in_artifacts(whole)


def text_in_artifacts(task: Task) -> str:
    """All text that a task has produced."""
    parts = [part for artifact in task.artifacts for part in artifact.parts if isinstance(part, TextPart)]
    return text_of(parts)


def version_in_log(events: Iterable[TaskEvent]) -> int | None:
    """The version of the agent that a task began with, if its run has begun and the agent has versions."""
    for event in events:
        if isinstance(event, StepRecorded) and event.name == CONSTITUTION and isinstance(event.value, dict):
            version = event.value.get(VERSION)
            return version if isinstance(version, int) else None
    return None


def agent_of(head: TaskHead) -> str:
    """The agent's id as its tenant knows it."""
    return head.agent.rpartition("/")[2]


def _request(head: TaskHead, task: Task) -> RequestView:
    is_over = is_terminal(head.state)
    agent, version = task.metadata.get(f"{PREFIX}agent_id"), task.metadata.get(f"{PREFIX}agent_version")
    defined = origin_of(task.history[0]).agent_def if task.history else None
    if defined is not None:
        agent = defined.get("id")
    return RequestView(
        request_id=head.key.task_id,
        agent_id=agent if isinstance(agent, str) else agent_of(head),
        conversation_id=conversation_of(head.context_id) or 0,
        state=STATES.get(head.state, "running"),
        started_at=_seconds(head.created_at),
        completed_at=_seconds(head.status_at) if is_over else 0,
        error_message=_error_of(task) if is_over and head.state is not TaskState.COMPLETED else "",
        last_seq=head.last_seq,
        agent_version=version if isinstance(version, int) else UNSET,
        is_draft=True if task.history and origin_of(task.history[0]).draft_of else UNSET,
        surface=origin_of(task.history[0]).surface if task.history else "a2a",
        waits_for=_waits_for(task) if is_interrupted(head.state) else UNSET,
    )


def _waits_for(task: Task) -> WaitsFor:
    parts = task.status.message.parts if task.status.message is not None else ()
    forms = [part.data for part in parts if isinstance(part, DataPart) and part.media_type == SCHEMA_TYPE]
    form = next((form for form in forms if isinstance(form, dict)), UNSET)
    approval_id, request_id = asked_elsewhere(task.status) or (UNSET, UNSET)
    return WaitsFor(question=text_of(parts), form=form, approval_id=approval_id, request_id=request_id)


def _asked(task: Task) -> str:
    """All that the user has said in a task."""
    return "\n\n".join([message.text for message in task.history if message.role is Role.USER])


def _error_of(task: Task) -> str:
    """Why a task did not complete: what its agent says, or else what the host says."""
    if task.status.message is not None:
        return text_of(task.status.message.parts)
    error = task.metadata.get(f"{PREFIX}error")
    return error if isinstance(error, str) else ""


def _newest(messages: list[ModelMessage]) -> list[ModelMessage]:
    """The newest messages that fit into `HISTORY_BYTES` together."""
    size, kept = 0, 0
    for message in reversed(messages):
        size += len(message.text.encode())
        if size > HISTORY_BYTES:
            break
        kept += 1
    return messages[len(messages) - kept :]


def _count(task: Task, name: str) -> int:
    count = task.metadata.get(f"{PREFIX}{name}")
    return count if isinstance(count, int) else 0


def _key(tenant_id: str, request_id: str) -> TaskKey:
    return TaskKey(Owner(tenant_id, owner_name(tenant_id)), request_id)


def _seconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(seconds=1)
