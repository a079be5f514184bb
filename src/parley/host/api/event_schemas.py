"""What the events of native streams hold, for the OpenAPI document. `native_events` makes them of a task's log.

The order is: `request_received`, then for each agent `stream_start` to `stream_end`, and at last `done`. The stream of
the agent that was called has the number 0; those of agents that it delegates to count up from 1 and may interleave.
"""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType


class RequestReceivedEvent(Struct, frozen=True):
    """The first event. `message` is the beginning of what was asked."""

    request_id: str
    agent: str
    tenant: str
    tenant_id: int
    message: str
    channel: str | UnsetType = UNSET


class QueuedEvent(Struct, frozen=True):
    """The request waits for another one of its conversation, at this position."""

    waits_for: str
    position: int


class PriorityChangedEvent(Struct, frozen=True):
    """The priority of the request was changed while it waited."""

    priority: int
    by: str


class MessageReceivedEvent(Struct, frozen=True):
    """A message came while the request was at work, or answers its question."""

    message_id: str
    message: str


class AnswerStartEvent(Struct, frozen=True):
    """The agent begins to answer messages that came meanwhile. The first answer of a request has no such event."""

    agent: str
    stream_id: int
    answer: int
    message_ids: list[str]


class InterruptedEvent(Struct, frozen=True):
    """A message interrupted the agent in a model call, or in the commands after it."""

    agent: str
    stream_id: int
    call: int


class IntentEvent(Struct, frozen=True):
    """Which agent the request looks like. The agent that was called decides itself."""

    kind: str
    confidence: float
    source: str
    target_agent: str
    applied: bool
    requested_agent: str
    applied_agent: str
    todo_seed_count: int
    plan_seed_count: int


class AgentStartEvent(Struct, frozen=True):
    """An agent begins; `depth` is 0 for the one that was called. `agent_start` comes for others only."""

    agent: str
    stream_id: int
    depth: int


class TextEvent(Struct, frozen=True):
    """More of the answer. With `replace`, it replaces all text before it."""

    agent: str
    stream_id: int
    depth: int
    delta: str
    replace: bool | UnsetType = UNSET


class ToolCallEvent(Struct, frozen=True):
    """A command was carried out."""

    tool: str
    ok: bool
    agent: str
    stream_id: int
    depth: int


class FileEvent(Struct, frozen=True):
    """A file was written."""

    path: str
    size: int
    encoding: Literal["utf-8", "base64"]
    content: str
    agent: str
    stream_id: int
    depth: int


class SubAgentResponseEvent(Struct, frozen=True):
    """An agent that was delegated to has answered. `task_id` is its request."""

    agent: str
    depth: int
    content: str
    stream_id: int | UnsetType = UNSET
    task_id: str | UnsetType = UNSET


class TokenUsageEvent(Struct, frozen=True):
    """A model was called."""

    agent: str
    stream_id: int
    depth: int
    model: str
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int | UnsetType = UNSET
    cache_create_tokens: int | UnsetType = UNSET


class BudgetEvent(Struct, frozen=True):
    """A budget had too little left for a whole answer of a model, so the answer could have `max_tokens` only."""

    agent: str
    stream_id: int
    max_tokens: int


class AdvisorEvent(Struct, frozen=True):
    """What the advisor said: `consult`, or a decision of the gate."""

    agent: str
    stream_id: int
    kind: str
    detail: str | UnsetType = UNSET
    preview: str | UnsetType = UNSET
    malformed: bool | UnsetType = UNSET


class EscalationEvent(Struct, frozen=True):
    """The agent could not finish as it should."""

    agent: str
    stream_id: int
    reason: str


class StatusEvent(Struct, frozen=True):
    """What an agent of Python says that it is doing."""

    agent: str
    stream_id: int
    message: str


class InputRequiredEvent(Struct, frozen=True):
    """The request waits, and the stream ends: for an answer to a question of the agent, or for an approval.

    Answer with `POST /v1/requests/{id}/answer`, or with A2A. An approval is decided with `POST /v1/approvals/{id}`.
    """

    agent: str
    stream_id: int
    state: str
    question: str
    approval_id: str | UnsetType = UNSET
    request_id: str | UnsetType = UNSET
    """The request that the approval belongs to: this one, or one that was delegated from it."""


class ApprovalRequestedEvent(Struct, frozen=True):
    """A step needs approval. `expires_at` is 0 if it waits until it is decided."""

    agent: str
    stream_id: int
    approval_id: str
    on: str
    action: str
    requested_by: str
    expires_at: int
    default: str


class ApprovalDecidedEvent(Struct, frozen=True):
    """A step was approved or denied, or its time was over and the default counts."""

    agent: str
    stream_id: int
    approval_id: str
    decision: str
    state: str
    decided_by: str
    comment: str


class StreamEndEvent(Struct, frozen=True):
    """An agent is done."""

    agent: str
    stream_id: int
    ok: bool


class ErrorEvent(Struct, frozen=True):
    """The request failed; or, with `last_event_id`, the stream was cut off, and the reader should come back."""

    message: str
    error_code: str
    last_event_id: str | UnsetType = UNSET


class DoneEvent(Struct, frozen=True):
    """The last event. `content` is the whole answer."""

    ok: bool
    content: str
    input_tokens: int
    output_tokens: int
    files_bytes: int
    tenant_id: int
    request_id: str
    duration_ms: int
    conversation_id: int | UnsetType = UNSET
    gate_approved: bool | UnsetType = UNSET
    error: str | UnsetType = UNSET
    error_code: str | UnsetType = UNSET


EVENTS: dict[str, type[Struct]] = {
    "request_received": RequestReceivedEvent,
    "queued": QueuedEvent,
    "priority_changed": PriorityChangedEvent,
    "message_received": MessageReceivedEvent,
    "answer_start": AnswerStartEvent,
    "interrupted": InterruptedEvent,
    "intent": IntentEvent,
    "stream_start": AgentStartEvent,
    "agent_start": AgentStartEvent,
    "text": TextEvent,
    "tool_call": ToolCallEvent,
    "file": FileEvent,
    "sub_agent_response": SubAgentResponseEvent,
    "token_usage": TokenUsageEvent,
    "budget": BudgetEvent,
    "advisor": AdvisorEvent,
    "escalation": EscalationEvent,
    "status": StatusEvent,
    "approval_requested": ApprovalRequestedEvent,
    "approval_decided": ApprovalDecidedEvent,
    "input_required": InputRequiredEvent,
    "stream_end": StreamEndEvent,
    "error": ErrorEvent,
    "done": DoneEvent,
}
"""The data of each event, by its name."""
