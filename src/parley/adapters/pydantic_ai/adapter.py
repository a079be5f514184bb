"""Agents of pydantic-ai: neither a finished model call nor a finished tool call is repeated.

A run is driven node by node, and each call ends in a checkpoint. Tools that are deferred, for approval or because they
are executed elsewhere, are questions.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pydantic_ai as ai
from pydantic_ai.capabilities import Hooks

from parley.adapters import adapter as a
from parley.adapters.agent_as_tool import AgentAsTool
from parley.adapters.durable_run import agent_of
from parley.adapters.pydantic_ai.messages import RunSoFar, dump, has_tool_calls, usage_of
from parley.agents.agent import Agent
from parley.agents.turn import Turn
from parley.contents import parts_of
from parley.protocol.messages import RawPart


def adapt(agent: ai.Agent[Any, Any], *, deps: Any = None, **settings: Any) -> Agent:
    """An agent that runs one of pydantic-ai. `deps` is for its tools, or a function that makes them of the turn."""
    return agent_of(PydanticAIAdapter(agent, deps), **settings)


def remote_tool(target: str, **options: Any) -> ai.Tool[Any]:
    """A remote A2A agent as a tool: `Agent(…, tools=[remote_tool("https://…")])`. `options` as for `AgentAsTool`."""
    remote = AgentAsTool(target, **options)
    return ai.Tool(remote.ask, takes_ctx=False, name=remote.tool_name, description=remote.description)


class PydanticAIAdapter:
    """One agent of pydantic-ai."""

    def __init__(self, agent: ai.Agent[Any, Any], deps: Any = None) -> None:
        self._agent = agent
        self._deps: Callable[[Turn], Any] = deps if callable(deps) else lambda turn: deps
        kinds: Any = agent.output_type if isinstance(agent.output_type, list | tuple) else [agent.output_type]
        has_deferred = any(kind is ai.DeferredToolRequests for kind in kinds)
        self._output_type: Any = [*kinds, *([] if has_deferred else [ai.DeferredToolRequests])]
        self._streams_text = not isinstance(kinds[0], ai.NativeOutput | ai.PromptedOutput | ai.TextOutput)

    def describe(self) -> a.Description:
        """Its name and description; its tools are its skills."""
        own = [toolset.tools for toolset in self._agent.toolsets if isinstance(toolset, ai.FunctionToolset)]
        skills = [a.skill(tool.name, tool.description) for tools in own for tool in tools.values()]
        return a.Description(name=self._agent.name or "", description=self._agent.description or "", skills=skills)

    async def run(self, start: a.Start) -> AsyncIterator[a.Piece]:
        """Run it from the messages so far."""
        so_far = RunSoFar(start)
        if start.answers:
            yield a.Checkpoint({"answers": start.answers})
        async with self._agent.iter(
            None if start.states else await _prompt(start.turn),
            message_history=so_far.messages,
            deferred_tool_results=so_far.deferred_results(),
            deps=self._deps(start.turn),
            output_type=self._output_type,
            capabilities=[Hooks(before_tool_execute=so_far.skip_if_done)],
        ) as run:
            async for node in run:
                if ai.Agent.is_model_request_node(node):
                    async with node.stream(run.ctx) as events:
                        async for event in events:
                            if piece := self._piece(event):
                                yield piece
                    if has_tool_calls(messages := run.all_messages()):  # else the end comes next
                        yield a.Checkpoint({"messages": so_far.new(messages)})
                elif ai.Agent.is_call_tools_node(node):
                    async with node.stream(run.ctx) as events:
                        async for event in events:
                            if piece := so_far.tool_piece(event):
                                yield piece
            assert run.result is not None
            output, messages = run.result.output, run.all_messages()
        if isinstance(output, ai.DeferredToolRequests):
            approvals = [call.tool_call_id for call in output.approvals]
            yield a.Pause(_questions(output), {"messages": so_far.new(messages), "approvals": approvals})
            return
        if not isinstance(output, str | ai.BinaryContent) or not self._streams_text:
            yield a.Output(parts_of(output))
        yield a.End(dump(messages), usage_of(messages[so_far.length_before :]))

    def _piece(self, event: object) -> a.Piece | None:
        """What a model says: the first text of a part is in its start, the rest in its deltas."""
        match event:
            case ai.PartStartEvent(part=ai.TextPart(content=text)) if self._streams_text:
                return text
            case ai.PartDeltaEvent(delta=ai.TextPartDelta(content_delta=text)) if self._streams_text:
                return text
            case ai.PartStartEvent(part=ai.FilePart(content=content)):
                return a.Output((RawPart(content.data, content.media_type),))
            case _:
                return None


async def _prompt(turn: Turn) -> list[ai.UserContent]:
    """The message of a turn: its text, its data as JSON, its files."""
    files = [(await file.read(), file.media_type or "application/octet-stream") for file in turn.files]
    return [*a.texts_of(turn), *[ai.BinaryContent(content, media_type=kind) for content, kind in files]]


def _questions(requests: ai.DeferredToolRequests) -> tuple[a.Question, ...]:
    approvals = [
        a.approval(call.tool_call_id, a.call_text(call.tool_name, call.args_as_dict())) for call in requests.approvals
    ]
    calls = [
        a.Question(call.tool_call_id, f"What is the result of {a.call_text(call.tool_name, call.args_as_dict())}?")
        for call in requests.calls
    ]
    return (*approvals, *calls)
