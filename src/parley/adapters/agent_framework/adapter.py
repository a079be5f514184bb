"""Agents and workflows of Microsoft Agent Framework.

A run that was cut off begins again from the message, or from the session of its last question. What models said and
tools returned since then is in the states of its checkpoints (`calls`), and is not asked for again.
Tools that need approval, tools without an implementation, and consents are questions. A conversation is a session.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing
from typing import Any

from agent_framework import (
    Agent,
    AgentResponse,
    AgentSession,
    BaseAgent,
    Content,
    FunctionalWorkflowAgent,
    FunctionTool,
    Message,
    Workflow,
    WorkflowAgent,
)
from pydantic_core import to_jsonable_python

from parley.adapters.adapter import Checkpoint, Description, End, Output, Pause, Piece, Start, skill
from parley.adapters.agent_as_tool import AgentAsTool
from parley.adapters.agent_framework.calls import ReplayModels, ReplayTools, RunRecord
from parley.adapters.agent_framework.messages import answer_to, message_of, pieces_of, question_of, usage_of
from parley.adapters.agent_framework.workflows import WorkflowAdapter, given_name
from parley.adapters.durable_run import agent_of
from parley.agents.agent import Agent as ParleyAgent
from parley.protocol.errors import LocalProtocolError
from parley.protocol.messages import DataPart


def adapt(
    thing: BaseAgent | Workflow,
    *,
    build: Callable[[], Workflow] | None = None,
    checkpoint_types: Iterable[type] = (),
    **settings: Any,
) -> ParleyAgent:
    """An agent that runs an agent or a workflow.

    For a workflow that cannot be copied, `build` makes one per run. Beside the types that its executors declare, those
    in `checkpoint_types` may be in its checkpoints.
    """
    if isinstance(thing, Workflow):
        return agent_of(WorkflowAdapter(thing, build, checkpoint_types), **settings)
    if isinstance(thing, WorkflowAgent):
        settings["name"] = settings.get("name") or given_name(thing.name)
        settings.setdefault("description", thing.description or "")
        return adapt(thing.workflow, build=build, checkpoint_types=checkpoint_types, **settings)
    if isinstance(thing, FunctionalWorkflowAgent):
        raise LocalProtocolError("A functional workflow keeps the state of one caller; build one with executors")
    return agent_of(AgentFrameworkAdapter(thing), **settings)


def remote_tool(target: str, **options: Any) -> FunctionTool:
    """A remote A2A agent as a tool: `Agent(…, tools=[remote_tool("https://…")])`. `options` as for `AgentAsTool`."""
    remote = AgentAsTool(target, **options)
    named: Any = {"name": remote.tool_name, "description": remote.description}
    return FunctionTool(func=remote.ask, approval_mode="never_require", **named)


class AgentFrameworkAdapter:
    """One agent."""

    def __init__(self, agent: Any) -> None:
        self._agent = agent
        self._options: Any = getattr(agent, "default_options", None) or {}

    def describe(self) -> Description:
        """Its name and description; its tools are its skills."""
        tools = [tool for tool in self._options.get("tools") or () if isinstance(tool, FunctionTool)]
        skills = [skill(tool.name, tool.description) for tool in tools]
        return Description(name=self._agent.name or "", description=self._agent.description or "", skills=skills)

    async def run(self, start: Start) -> AsyncIterator[Piece]:
        """Run it in the session of the conversation, from the message or from the last question."""
        record = RunRecord(start.states, start.answers)
        if start.answers:
            yield Checkpoint({"answers": start.answers})
        pause = record.pause or {"requests": [], "session": start.conversation, "usage": {}}
        saved = pause["session"]
        session = AgentSession.from_dict(saved) if saved else AgentSession(session_id=start.turn.idempotency_key)
        asked = [Content.from_dict(request) for request in pause["requests"]]
        answers = [answer_to(request, record.answers.get(str(number))) for number, request in enumerate(asked)]
        message = Message("user", answers) if answers else await message_of(start.turn)
        # Only `Agent` takes middleware. Of other agents, nothing is recorded before they end or ask.
        replay = {"middleware": [ReplayModels(record), ReplayTools(record)]} if isinstance(self._agent, Agent) else {}
        stream = self._agent.run([message], stream=True, session=session, **replay)
        async with aclosing(record.queue.pieces_of(self._report(stream, record))) as pieces:
            async for piece in pieces:
                yield piece
        response: AgentResponse[Any] = await stream.get_final_response()
        used: Any = response.usage_details or {}
        usage = usage_of(used, record.model_calls, pause["usage"])
        kept = to_jsonable_python(session.to_dict())
        if requests := response.user_input_requests:
            questions = tuple(question_of(str(number), request) for number, request in enumerate(requests))
            saved = [request.to_dict() for request in requests]
            yield Pause(questions, {"requests": saved, "session": kept, "usage": usage})
            return
        if self._options.get("response_format") is not None:
            yield Output((DataPart(to_jsonable_python(response.value)),))
        yield End(kept, usage)

    async def _report(self, stream: Any, record: RunRecord) -> None:
        async for update in stream:
            for piece in [] if record.is_replaying else pieces_of(update):
                if not (isinstance(piece, str) and self._options.get("response_format") is not None):
                    record.queue.put(piece)
