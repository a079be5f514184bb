"""Copies of the SDK's agents for one run, which replay finished calls and report the others.

An agent is copied with those that it hands off to; the original is not changed. Function tools, also those of MCP
servers, report what they return. The models are replaced only while recorded responses are left.
"""

from __future__ import annotations

import copy
import weakref
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from agents.agent_tool_state import drop_agent_tool_run_result, get_agent_tool_state_scope
from agents.tool_context import ToolContext

from agents import Agent, FunctionTool, Handoff, Model, RunConfig
from parley.adapters.openai_agents.calls import RecordedCalls
from parley.adapters.openai_agents.items import decode_response


class AgentCopies:
    """The copies for one run."""

    def __init__(self, agent: Agent[Any], run_config: RunConfig, calls: RecordedCalls) -> None:
        self._calls = calls
        self._given_config = run_config
        # The models of the copies hold the one of the configuration, which would replace them.
        self.run_config = replace(run_config, model=None) if calls.responses else run_config
        self._copies: dict[int, Agent[Any]] = {}
        self._first = self._copy(agent)

    def named(self, name: str) -> Agent[Any]:
        """The agent with this name, or else the first one."""
        return next((each for each in self._copies.values() if each.name == name), self._first)

    def _copy(self, agent: Agent[Any]) -> Agent[Any]:
        if id(agent) in self._copies:
            return self._copies[id(agent)]
        mine = self._copies[id(agent)] = copy.copy(agent)
        mine.tools = [self._tool(tool) for tool in agent.tools]
        mine.handoffs = [self._handoff(other) for other in agent.handoffs]

        async def get_mcp_tools(context: Any) -> list[Any]:
            return [self._tool(tool) for tool in await agent.get_mcp_tools(context)]

        mine.get_mcp_tools = get_mcp_tools  # type: ignore[method-assign]
        if self._calls.responses:
            model = self._given_config.model or agent.model
            real = model if isinstance(model, Model) else self._given_config.model_provider.get_model(model)
            mine.model = _ReplayingModel(real, self._calls.responses)
        return mine

    def _handoff(self, other: Agent[Any] | Handoff[Any, Any]) -> Any:
        if isinstance(other, Agent):
            return self._copy(other)
        mine = copy.copy(other)

        async def invoke(context: Any, arguments: str) -> Agent[Any]:
            return self._copy(await other.on_invoke_handoff(context, arguments))

        mine.on_invoke_handoff = invoke
        target = other._agent_ref() if other._agent_ref else None
        if isinstance(target, Agent):  # a RunState finds its agents by these references
            mine._agent_ref = weakref.ref(self._copy(target))
        return mine

    def _tool(self, tool: Any) -> Any:
        if not isinstance(tool, FunctionTool):
            return tool
        mine = copy.copy(tool)
        call, calls = mine.on_invoke_tool, self._calls

        async def invoke(context: ToolContext[Any], arguments: str) -> Any:
            id = context.tool_call_id
            if id in calls.outputs:
                if context.tool_call is not None:  # an agent's question that was answered before it returned
                    drop_agent_tool_run_result(context.tool_call, scope_id=get_agent_tool_state_scope(context))
                return calls.outputs[id]
            context.run_config = self._given_config  # an agent that is a tool runs with it
            output = await call(context, arguments)
            if not (mine._is_agent_tool and output is None):  # that is how an agent's own question shows
                await calls.record_output(id, output)
            return output

        mine.on_invoke_tool = invoke
        return mine


class _ReplayingModel(Model):
    """A model that says what is recorded, and then goes on itself."""

    def __init__(self, model: Model, responses: deque[Any]) -> None:
        self._model = model
        self._responses = responses

    async def get_response(self, *arguments: Any, **options: Any) -> Any:
        return await self._model.get_response(*arguments, **options)

    async def stream_response(self, *arguments: Any, **options: Any) -> AsyncIterator[Any]:
        if self._responses:
            yield decode_response(self._responses.popleft())
            return
        async for event in self._model.stream_response(*arguments, **options):
            yield event

    def get_retry_advice(self, request: Any) -> Any:
        return self._model.get_retry_advice(request)
