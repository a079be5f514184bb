"""Crews, flows and single agents of CrewAI.

Each message runs a copy of the object. Finished crew tasks, flow methods, and the model and tool calls of crews and
agents are not repeated (`run`). The message fills the template variables of a crew or the state of a flow
(`input`); to a single agent it is a message of the conversation.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from inspect import cleandoc
from typing import Any, TypeAlias

import crewai
from crewai.flow.flow import Flow
from crewai.tools.base_tool import BaseTool
from crewai.tools.base_tool import tool as crewai_tool
from pydantic import BaseModel

from parley.adapters import adapter as a
from parley.adapters.agent_as_tool import AgentAsTool
from parley.adapters.crewai.agent import kickoff_agent
from parley.adapters.crewai.card import described
from parley.adapters.crewai.crew import kickoff_crew
from parley.adapters.crewai.flow import kickoff_flow
from parley.adapters.crewai.input import CrewRequest, field_of_state, missing_question
from parley.adapters.crewai.run import CrewRun
from parley.adapters.durable_run import agent_of
from parley.agents.agent import Agent
from parley.contents import parts_of

Runnable: TypeAlias = crewai.Crew | Flow[Any] | crewai.Agent


def adapt(
    thing: Runnable, *, input: str | None = None, response_format: type[BaseModel] | None = None, **settings: Any
) -> Agent:
    """An agent that runs a crew, a flow or a single agent of CrewAI.

    `input` names the template variable of a crew, or the field of a flow's state, that gets the text of the message.
    `response_format` is the class of what a single agent returns, if that is not text.
    """
    return agent_of(CrewAIAdapter(thing, input, response_format), **settings)


def remote_tool(target: str, **options: Any) -> BaseTool:
    """A remote A2A agent as a tool: `Agent(…, tools=[remote_tool("https://…")])`. Options as for `AgentAsTool`."""
    remote = AgentAsTool(target, **options)

    async def ask(message: str, reply_to: str | None = None) -> str:
        return await remote.ask(message, reply_to)

    ask.__doc__ = f"{remote.description}\n\n{cleandoc(remote.ask.__doc__ or '')}"
    made: BaseTool = crewai_tool(remote.tool_name)(ask)
    return made


class CrewAIAdapter:
    """One crew, flow or agent of CrewAI."""

    def __init__(self, thing: Runnable, input: str | None, response_format: type[BaseModel] | None) -> None:
        self._thing, self._response_format = thing, response_format
        self._input = field_of_state(thing, input) if isinstance(thing, Flow) else input

    def describe(self) -> a.Description:
        """Its name and description. The agents of a crew and the tools of an agent are skills."""
        return described(self._thing)

    async def run(self, start: a.Start) -> AsyncIterator[a.Piece]:
        """Run a copy of it in a thread, from what is done already."""
        run, request = CrewRun(start), await CrewRequest.of(start)
        if start.answers:
            yield a.Checkpoint({"answers": start.answers})
        match self._thing:
            case crewai.Crew() as crew:
                variables = {name for name in crew.fetch_inputs() if name.isidentifier()} - {"history"}
                answered = run.answers.get("inputs")
                request.fill(self._input, variables, answered if isinstance(answered, dict) else {})
                if missing := sorted(variables - set(request.inputs)):
                    yield a.Pause((missing_question(missing, request.text),), {})
                    return
                kickoff = partial(kickoff_crew, run, crew, request)
            case crewai.Agent() as agent:
                kickoff = partial(kickoff_agent, run, agent, request, self._response_format)
            case flow:
                request.inputs.setdefault(self._input or "message", request.text)
                kickoff = partial(kickoff_flow, run, flow, request)
        tracing, verbose = getattr(self._thing, "tracing", None), bool(getattr(self._thing, "verbose", False))
        async with aclosing(run.pieces(kickoff, tracing=tracing, verbose=verbose)) as pieces:
            async for piece in pieces:
                yield piece
                if isinstance(piece, a.Pause):
                    return
        text, data = _content_of(run.result)
        if data is not None:
            yield a.Output(parts_of(data))
        elif text.strip() != run.speech.said:
            yield run.speech.separator + text
        yield a.End(
            request.conversation_after(text, run.state), run.usage.total if any(run.usage.total.values()) else {}
        )


def _content_of(result: Any) -> tuple[str, Any]:
    """What a kickoff returned: its text, and its data if there is any."""
    if isinstance(result, BaseModel) and hasattr(result, "raw"):  # of a crew or an agent
        return result.raw, getattr(result, "pydantic", None) or getattr(result, "json_dict", None)
    return ("", None) if result is None else (str(result), None if isinstance(result, str) else result)
