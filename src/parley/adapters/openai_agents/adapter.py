"""Agents of the OpenAI Agents SDK.

A run that was cut off begins again from the message, or from the `RunState` of its last question. What models said and
tools returned since then is in the states of its checkpoints (`calls`), and is not asked for again.
Calls of tools that need approval are questions.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Any

from agents.run import DEFAULT_MAX_TURNS
from pydantic_core import to_jsonable_python

from agents import (
    Agent,
    FunctionTool,
    InputGuardrailTripwireTriggered,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    RunHooks,
    Runner,
    RunResultStreaming,
    RunState,
    function_tool,
)
from parley.adapters.adapter import Checkpoint, Description, End, Output, Pause, Piece, Start, is_approved
from parley.adapters.agent_as_tool import AgentAsTool
from parley.adapters.durable_run import agent_of
from parley.adapters.openai_agents.calls import RecordedCalls
from parley.adapters.openai_agents.card import described
from parley.adapters.openai_agents.copies import AgentCopies
from parley.adapters.openai_agents.items import message_of, questions_of
from parley.agents.agent import Agent as ParleyAgent
from parley.agents.turn import Turn
from parley.protocol.messages import DataPart, TextPart
from parley.protocol.tasks import TaskState


def adapt(
    agent: Agent[Any],
    *,
    context: Callable[[Turn], Any] | None = None,
    run_config: RunConfig | None = None,
    max_turns: int | None = DEFAULT_MAX_TURNS,
    hooks: RunHooks[Any] | None = None,
    **settings: Any,
) -> ParleyAgent:
    """An agent that runs one of the SDK.

    `context` is a function, plain or async, that makes the context object of a run. `run_config`, `max_turns` and
    `hooks` are those of `Runner`.
    """
    adapter = OpenAIAgentsAdapter(agent, context, run_config or RunConfig(), max_turns, hooks or RunHooks())
    return agent_of(adapter, **settings)


def remote_tool(target: str, **options: Any) -> FunctionTool:
    """A remote A2A agent as a tool: `Agent(…, tools=[remote_tool("https://…")])`. `options` as for `AgentAsTool`."""
    remote = AgentAsTool(target, **options)
    return function_tool(remote.ask, name_override=remote.tool_name, description_override=remote.description)


class OpenAIAgentsAdapter:
    """One agent of the SDK, and those that it hands off to."""

    def __init__(
        self,
        agent: Agent[Any],
        context: Callable[[Turn], Any] | None,
        run_config: RunConfig,
        max_turns: int | None,
        hooks: RunHooks[Any],
    ) -> None:
        self._agent = agent
        self._context = context or (lambda turn: None)
        self._run_config = run_config
        self._max_turns = max_turns
        self._hooks = hooks

    def describe(self) -> Description:
        """Its name and description; its tools and the agents that it hands off to are its skills."""
        return described(self._agent)

    async def run(self, start: Start) -> AsyncIterator[Piece]:
        """Run its loop, from the message or from the last question."""
        calls = RecordedCalls(start.states, start.answers, self._hooks)
        if start.answers:
            yield Checkpoint({"answers": start.answers})
        result = await self._begin(start, calls)
        try:
            async with aclosing(calls.pieces_of(result, self._is_streamed)) as pieces:
                async for piece in pieces:
                    yield piece
        except InputGuardrailTripwireTriggered:
            yield End(state=TaskState.REJECTED, message=(TextPart("A guardrail has rejected this message."),))
            return
        except OutputGuardrailTripwireTriggered:
            yield End(state=TaskState.FAILED, message=(TextPart("A guardrail has rejected the answer."),))
            return
        if result.interruptions:
            state = result.to_state().to_json(context_serializer=lambda context: {})
            yield Pause(questions_of(result.interruptions), {"run": state})
            return
        output = result.final_output
        if not isinstance(output, str):
            yield Output((DataPart(to_jsonable_python(output)),))
        elif not self._is_streamed(result.last_agent) or not _has_message(result):
            yield output
        used = result.context_wrapper.usage
        usage = {"inputTokens": used.input_tokens, "outputTokens": used.output_tokens, "requests": used.requests}
        yield End({"agent": result.last_agent.name, "items": to_jsonable_python(result.to_input_list())}, usage)

    def _is_streamed(self, agent: Agent[Any]) -> bool:
        """Whether the text of an agent is shown as it comes: not JSON, nor what output guardrails have yet to check."""
        return agent.output_type in (None, str) and not (agent.output_guardrails or self._run_config.output_guardrails)

    async def _begin(self, start: Start, calls: RecordedCalls) -> RunResultStreaming:
        conversation: Any = start.conversation or {"agent": self._agent.name, "items": []}
        copies = AgentCopies(self._agent, self._run_config, calls)
        agent = copies.named(conversation["agent"])
        made = self._context(start.turn)
        context = await made if inspect.isawaitable(made) else made
        if calls.run_state is None:
            given: Any = [*conversation["items"], await message_of(start.turn)]
        else:
            rebuild = None if isinstance(context, Mapping) else lambda saved: context
            given = await RunState.from_json(agent, calls.run_state, context_deserializer=rebuild)
            for number, item in enumerate(given.get_interruptions()):
                decide = given.approve if is_approved(calls.answers.get(str(number))) else given.reject
                decide(item)
            context = None  # the one of the state is used
        options: Any = {
            "context": context,
            "max_turns": self._max_turns,
            "hooks": calls,
            "run_config": copies.run_config,
        }
        return Runner.run_streamed(agent, given, **options)


def _has_message(result: RunResultStreaming) -> bool:
    """Whether the model said something at the end. If not, the output is what a tool returned (`tool_use_behavior`)."""
    return any(item.type == "message" for item in result.raw_responses[-1].output)
