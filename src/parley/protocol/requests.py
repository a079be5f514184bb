"""The requests to an agent, one struct per operation of `operations`, and the pages in its answers.

A caller's tenant travels in each request because 1.0 puts it there; older dialects leave it `None`.
Spec: 1.0 sections 3.1 and 3.2.
"""

from __future__ import annotations

from datetime import datetime
from typing import TypeAlias

from msgspec import Struct

from parley.protocol.cards import AgentCard
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.messages import Message
from parley.protocol.push import PushConfig
from parley.protocol.tasks import Task, TaskState


class SendConfiguration(Struct, frozen=True, gc=False, omit_defaults=True):
    """How the caller wants its answer."""

    accepted_output_modes: tuple[str, ...] = ()
    push_config: PushConfig | None = None
    history_length: int | None = None
    return_immediately: bool = False


class SendMessageRequest(Struct, frozen=True, gc=False, omit_defaults=True):
    """Send a message to the agent: `SendMessage` and `SendStreamingMessage`.

    `caller_names_task` is set in 0.1 alone, where the caller chooses the task id: an unknown id creates its task, and
    a finished task is reopened. `idempotency_key` travels beside the request, in a header: sends with the same key and
    content are one.
    """

    message: Message
    configuration: SendConfiguration = SendConfiguration()
    metadata: JsonObject = {}
    tenant: str | None = None
    caller_names_task: bool = False
    idempotency_key: str | None = None


class GetTaskRequest(Struct, frozen=True, gc=False, omit_defaults=True):
    """Read a task."""

    task_id: str
    history_length: int | None = None
    metadata: JsonObject = {}
    tenant: str | None = None


class ListTasksRequest(Struct, frozen=True, gc=False, omit_defaults=True):
    """Read the caller's tasks, newest status first, a page at a time."""

    context_id: str | None = None
    state: TaskState | None = None
    page_size: int | None = None
    page_token: str | None = None
    history_length: int | None = None
    status_timestamp_after: datetime | None = None
    include_artifacts: bool = False
    tenant: str | None = None


class CancelTaskRequest(Struct, frozen=True, gc=False, omit_defaults=True):
    """Stop a task."""

    task_id: str
    metadata: JsonObject = {}
    tenant: str | None = None


class SubscribeToTaskRequest(Struct, frozen=True, gc=False, omit_defaults=True):
    """Follow a task that exists already."""

    task_id: str
    metadata: JsonObject = {}
    tenant: str | None = None


class CreatePushConfigRequest(Struct, frozen=True, gc=False, omit_defaults=True):
    """Register a webhook for a task."""

    task_id: str
    config: PushConfig
    metadata: JsonObject = {}
    tenant: str | None = None


class GetPushConfigRequest(Struct, frozen=True, gc=False, omit_defaults=True):
    """Read one webhook of a task; without an id, the one registered without an id (0.1 to 0.3)."""

    task_id: str
    id: str | None = None
    metadata: JsonObject = {}
    tenant: str | None = None


class ListPushConfigsRequest(Struct, frozen=True, gc=False, omit_defaults=True):
    """Read all webhooks of a task."""

    task_id: str
    page_size: int | None = None
    page_token: str | None = None
    metadata: JsonObject = {}
    tenant: str | None = None


class DeletePushConfigRequest(Struct, frozen=True, gc=False, omit_defaults=True):
    """Remove a webhook of a task."""

    task_id: str
    id: str
    metadata: JsonObject = {}
    tenant: str | None = None


class GetExtendedCardRequest(Struct, frozen=True, gc=False, omit_defaults=True):
    """Read the card that only authenticated callers see."""

    tenant: str | None = None


class TaskPage(Struct, frozen=True, gc=False, omit_defaults=True):
    """One page of tasks; `next_page_token` is empty on the last one."""

    tasks: tuple[Task, ...]
    next_page_token: str
    page_size: int
    total_size: int


class PushConfigPage(Struct, frozen=True, gc=False, omit_defaults=True):
    """One page of webhooks."""

    configs: tuple[PushConfig, ...] = ()
    next_page_token: str | None = None


Request: TypeAlias = (
    SendMessageRequest
    | GetTaskRequest
    | ListTasksRequest
    | CancelTaskRequest
    | SubscribeToTaskRequest
    | CreatePushConfigRequest
    | GetPushConfigRequest
    | ListPushConfigsRequest
    | DeletePushConfigRequest
    | GetExtendedCardRequest
)
Result: TypeAlias = Task | Message | TaskPage | PushConfig | PushConfigPage | AgentCard | None
