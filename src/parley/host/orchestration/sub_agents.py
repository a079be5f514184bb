"""`/agent`, `/parallel` and `/a2a call`: what an agent has others do.

Agents of the tenant are called through `turn.delegate`, so each has a task of its own, which survives crashes and is
canceled with its parent. A remote agent gets the text of the message and nothing else of the tenant's.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from msgspec import Struct

from parley.agents.delegation.peers import OtherAgent
from parley.agents.delegation.result import DelegateFailedError, DelegateResult
from parley.agents.turn import run_of
from parley.host.commands.arguments import SubAgentCall
from parley.host.commands.framing import ResultStatus
from parley.host.commands.usage import MAX_WRITTEN_BYTES
from parley.host.data.artifact_path import clean_path
from parley.host.data.errors import InvalidValueError
from parley.host.models.model import TokenUsage
from parley.host.orchestration.narration import PREFIX
from parley.host.orchestration.prompt import message_text
from parley.host.orchestration.turn_context import MOST_DEPTH, TurnContext
from parley.host.origin import RunOrigin, metadata_of
from parley.host.priorities import inherited_priority
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.messages import DataPart, RawPart, UrlPart, text_of
from parley.protocol.tasks import Artifact, TaskState

MASTER = "index"

_MEDIA_TYPE = re.compile(r"[\w.+-]{1,100}/[\w.+-]{1,100}(;[ \w.+=-]{0,100})?", re.ASCII)


class SubAgentAnswer(Struct, frozen=True):
    """What another agent has answered, or why it has not."""

    agent_id: str
    body: str
    status: ResultStatus = ResultStatus.OK


async def call_agent(context: TurnContext, call: SubAgentCall, step: str) -> SubAgentAnswer:
    """Have one agent of the tenant do something."""
    (answer,) = await _call_all(context, [call], step, may_be_self=False)
    return answer


async def call_agents(context: TurnContext, calls: Sequence[SubAgentCall], step: str) -> list[SubAgentAnswer]:
    """Have several agents of the tenant do something at the same time. The answers are in the order of the calls."""
    return await _call_all(context, calls, step, may_be_self=True)


async def call_remote(context: TurnContext, name: str, message: str, step: str) -> SubAgentAnswer:
    """Have a remote agent do something. Raises UnknownRemoteAgentError."""
    client = await context.services.remote.client(context.tenant, name)
    if refusal := _depth_refusal(context):
        return SubAgentAnswer(name, refusal, ResultStatus.ERROR)
    stream_id = context.narration.delegated(name)
    result = await _delegate(context, client, message, step, reveals_task=False, metadata=None)
    return await _tell(context, name, stream_id, result, is_remote=True)


async def _call_all(
    context: TurnContext, calls: Sequence[SubAgentCall], step: str, *, may_be_self: bool
) -> list[SubAgentAnswer]:
    journal = run_of(context.turn).journal
    refusals = [
        "" if journal.recorded_step(f"{step}.{number}") else _refusal(context, call, may_be_self=may_be_self)
        for number, call in enumerate(calls, 1)
    ]
    streams = [
        0 if refusal else context.narration.delegated(call.agent_id)
        for call, refusal in zip(calls, refusals, strict=True)
    ]
    origin = context.origin
    metadata = metadata_of(
        RunOrigin(
            surface=origin.surface,
            conversation=origin.conversation,
            channel=origin.channel,
            original_query=origin.original_query or context.query[:1_000],
            delegated_by=context.agent_id,
            principal=context.lineage.principal,
            request_id=context.lineage.request_id,
            budgets=context.lineage.budgets,
        )
    ) | inherited_priority(context.turn.message)
    results = await asyncio.gather(
        *[
            _delegate(context, call.agent_id, call.message, f"{step}.{number}", reveals_task=True, metadata=metadata)
            for number, (call, refusal) in enumerate(zip(calls, refusals, strict=True), 1)
            if not refusal
        ]
    )
    answered = iter(results)
    answers: list[SubAgentAnswer] = []
    for call, refusal, stream_id in zip(calls, refusals, streams, strict=True):
        if refusal:
            answers.append(SubAgentAnswer(call.agent_id, refusal, ResultStatus.ERROR))
        else:
            answers.append(await _tell(context, call.agent_id, stream_id, next(answered)))
    return answers


def _refusal(context: TurnContext, call: SubAgentCall, *, may_be_self: bool) -> str:
    """Why an agent may not be called; empty if it may."""
    agent_id = call.agent_id
    if too_deep := _depth_refusal(context):
        return too_deep
    if agent_id == MASTER:
        return "The agent index cannot be called by other agents."
    if agent_id == context.agent_id and not may_be_self:
        return "An agent cannot call itself."
    known = [entry.id for entry in context.services.roster(context.tenant.id)]
    if agent_id not in known:
        return f"There is no agent {agent_id!r}. There are: {', '.join(known[:50]) or 'none'}."
    return ""


def _depth_refusal(context: TurnContext) -> str:
    """Why an agent so deep in a chain of delegations may call none, on this host or another; empty if it may."""
    if context.depth < MOST_DEPTH:
        return ""
    return f"Agents at depth {context.depth} of {MOST_DEPTH} cannot delegate; do it yourself."


async def _delegate(
    context: TurnContext,
    agent: OtherAgent,
    message: str,
    step: str,
    *,
    reveals_task: bool,
    metadata: JsonObject | None,
) -> DelegateResult | DelegateFailedError:
    asks = context.tenant.settings.input_required
    try:
        return await context.turn.delegate(
            agent, message, name=step, metadata=metadata, reveals_task=reveals_task, asks=asks
        )
    except DelegateFailedError as error:
        return error


async def _tell(
    context: TurnContext,
    agent_id: str,
    stream_id: int,
    result: DelegateResult | DelegateFailedError,
    *,
    is_remote: bool = False,
) -> SubAgentAnswer:
    """Tell the readers of this run what another agent has answered."""
    narration, task = context.narration, result.task
    if isinstance(result, DelegateFailedError):
        asks = result.state in (TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED)
        text = f"The agent asks: {result.reason}" if asks else result.reason or str(result)
        answer = SubAgentAnswer(agent_id, text, ResultStatus.UPSTREAM_FAILED)
    else:
        answer = SubAgentAnswer(agent_id, _text_of(result))
        for number, part in enumerate(result.files, 1):
            if isinstance(part, RawPart) and narration.files_bytes + len(part.raw) <= MAX_WRITTEN_BYTES:
                await narration.file(_safe_name(part.filename, number), part.raw, _safe_type(part.media_type))
    if task is not None and not is_remote:  # what another host says of tokens is not ours to count
        narration.count(_usage_of(task.metadata))
    await narration.sub_agent_response(
        agent_id, answer.body, stream_id=stream_id, task_id=task.id if task is not None else None
    )
    narration.delegation_ended(agent_id, stream_id, ok=answer.status is ResultStatus.OK)
    return answer


def _safe_name(name: str | None, number: int) -> str:
    """The name of a file from another agent, if it is one that our own agents could give."""
    try:
        return clean_path(name or "")
    except InvalidValueError:
        return f"file-{number}"


def _safe_type(media_type: str | None) -> str:
    return media_type if media_type and _MEDIA_TYPE.fullmatch(media_type) else "application/octet-stream"


def _text_of(result: DelegateResult) -> str:
    """What an agent says in the end; if its last message says nothing, what it has produced."""
    said = text_of(result.message.parts) if result.message is not None else ""
    produced = [part for artifact in result.artifacts if not _is_narrated(artifact) for part in artifact.parts]
    more = [part for part in produced if isinstance(part, DataPart | UrlPart)]
    return "\n".join(filter(None, [said or result.text, message_text(more)])) or "(no text)"


def _is_narrated(artifact: Artifact) -> bool:
    """Whether an artifact of another host only tells what its agents did."""
    return any(name.startswith(PREFIX) for name in artifact.metadata)


def _usage_of(metadata: JsonObject) -> TokenUsage:
    input_tokens = metadata.get(f"{PREFIX}input_tokens")
    output_tokens = metadata.get(f"{PREFIX}output_tokens")
    return TokenUsage(
        input_tokens if isinstance(input_tokens, int) else 0, output_tokens if isinstance(output_tokens, int) else 0
    )
