"""Agents of pydantic-ai: neither a finished model call nor a finished tool call is repeated.

A run is driven node by node, and each call ends in a checkpoint. Tools that are deferred, for approval or because they
are executed elsewhere, are questions.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from typing import Any

import pydantic_ai as ai
from pydantic_ai.capabilities import Hooks

from parley.adapters import adapter as a
from parley.adapters.agent_as_tool import AgentAsTool
from parley.adapters.durable_run import agent_of
from parley.adapters.pydantic_ai.messages import RunSoFar, dump, has_tool_calls
from parley.adapters.pydantic_ai.output import not_said, said_in
from parley.agents.agent import Agent
from parley.agents.turn import Turn


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
        self._agent, self._deps = agent, deps
        kinds: Any = agent.output_type if isinstance(agent.output_type, list | tuple) else [agent.output_type]
        has_validators = bool(getattr(agent, "_output_validators", ()))  # with them, a run takes no type of its own
        may_defer = has_validators or any(kind is ai.DeferredToolRequests for kind in kinds)
        self._output_type: Any = None if may_defer else [*kinds, ai.DeferredToolRequests]
        rewritten = (ai.NativeOutput, ai.PromptedOutput, ai.TextOutput)
        # What a validator refuses, or a function makes something else of, must not be said.
        self._streams_text = not has_validators and not any(isinstance(kind, rewritten) for kind in kinds)

    def describe(self) -> a.Description:
        """Its name and description; its tools are its skills."""
        own = [toolset.tools for toolset in self._agent.toolsets if isinstance(toolset, ai.FunctionToolset)]
        skills = [a.skill(tool.name, tool.description) for tools in own for tool in tools.values()]
        return a.Description(name=self._agent.name or "", description=self._agent.description or "", skills=skills)

    async def run(self, start: a.Start) -> AsyncIterator[a.Piece]:
        """Run it from the messages so far."""
        so_far = await RunSoFar.of(start)
        if start.answers:
            yield a.Checkpoint({"answers": start.answers})
        deps = self._deps(start.turn) if callable(self._deps) else self._deps
        said: list[a.Piece] = []
        async with self._agent.iter(
            None if start.states else await _prompt(start.turn),
            message_history=so_far.messages,
            deferred_tool_results=so_far.deferred_results(),
            deps=await deps if inspect.isawaitable(deps) else deps,
            output_type=self._output_type,
            usage=so_far.usage,
            capabilities=[Hooks(tool_execute=so_far.call_tool)],
        ) as run:
            async for node in run:
                if ai.Agent.is_model_request_node(node):
                    said.clear()
                    async with node.stream(run.ctx) as events:
                        async for event in events:
                            if piece := said_in(event, with_text=self._streams_text):
                                said.append(piece)
                                yield piece
                    if has_tool_calls(messages := run.all_messages()):  # else the end comes next
                        yield a.Checkpoint(await so_far.state(messages))
                elif ai.Agent.is_call_tools_node(node):
                    async with node.stream(run.ctx) as events:
                        async for event in events:
                            if piece := await so_far.tool_piece(event):
                                yield piece
            assert run.result is not None
            output, messages = run.result.output, run.all_messages()
        if isinstance(output, ai.DeferredToolRequests):
            approvals = [call.tool_call_id for call in output.approvals]
            yield a.Pause(_questions(output), {**await so_far.state(messages), "approvals": approvals})
            return
        for piece in not_said(output, said):
            yield piece
        yield a.End(await dump(messages), so_far.usage_json())


async def _prompt(turn: Turn) -> list[ai.UserContent]:
    """The message of a turn: its text, its data as JSON, its files."""
    files = [(await file.read(), file.media_type or "application/octet-stream") for file in turn.files]
    return [*a.texts_of(turn), *[ai.BinaryContent(content, media_type=kind) for content, kind in files]]


def _questions(requests: ai.DeferredToolRequests) -> tuple[a.Question, ...]:
    shown = {call.tool_call_id: a.call_text(call.tool_name, call.args_as_dict()) for call in requests.approvals}
    wanted = {call.tool_call_id: a.call_text(call.tool_name, call.args_as_dict()) for call in requests.calls}
    approvals = [a.approval(id, text) for id, text in shown.items()]
    return (*approvals, *[a.Question(id, f"What is the result of {text}?") for id, text in wanted.items()])
