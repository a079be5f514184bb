"""Agents: a copy of an agent for one run, whose model and tool calls are recorded."""

from __future__ import annotations

import asyncio
from copy import copy
from inspect import iscoroutinefunction
from typing import Any

import crewai
import msgspec
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.agents.tools_handler import ToolsHandler
from crewai.tools.base_tool import BaseTool, Tool
from pydantic import BaseModel

from parley.adapters.crewai.input import CrewRequest
from parley.adapters.crewai.recorded_calls import RecordedTools, record_calls_of
from parley.adapters.crewai.run import CrewRun


async def kickoff_agent(
    run: CrewRun, original: crewai.Agent, request: CrewRequest, response_format: type[BaseModel] | None
) -> Any:
    """Have an agent answer to the conversation."""
    agent = original.copy()
    keep_servers(original, agent)
    record_work_of(run, agent)
    is_final = response_format is None and agent.guardrail is None and not agent.planning_enabled
    run.speech.is_heard = lambda event: is_final and event.task_id is None and event.agent_id == str(agent.id)
    data = msgspec.json.encode(request.inputs).decode() if request.inputs else ""
    texts = [f"{name}:\n{file.read_text()}" for name, file in request.files.items() if _is_text(file)]
    others = {name: file for name, file in request.files.items() if not _is_text(file)}
    content = "\n\n".join(filter(None, [request.text, data, *texts]))
    messages: Any = [*request.messages, {"role": "user", "content": content}]
    # `kickoff_async` cannot try again after a guardrail has refused an answer (CrewAI 1.15.30).
    return await asyncio.to_thread(agent.kickoff, messages, response_format=response_format, input_files=others)


def keep_servers(original: BaseAgent, copied: BaseAgent) -> None:
    """Give a copy of an agent what CrewAI leaves out: its MCP servers and apps."""
    copied.mcps, copied.apps = original.mcps, original.apps


def record_work_of(run: CrewRun, agent: BaseAgent) -> None:
    """Have the model and tool calls of an agent recorded. Its coroutine tools run where they can be cancelled."""
    record_calls_of(run, agent.llm)
    own = agent.tools_handler.cache if agent.tools_handler else None
    agent.tools_handler = ToolsHandler(cache=RecordedTools(run, own))
    agent.tools = [with_coroutines_awaited(run, tool) for tool in agent.tools or ()]


def with_coroutines_awaited(run: CrewRun, tool: BaseTool) -> BaseTool:
    """A tool that is a coroutine function, as one that waits for it."""
    if isinstance(tool, Tool):
        waits = iscoroutinefunction(tool.func)
        return tool.model_copy(update={"func": run.thread.blocking(tool.func)}) if waits else tool
    if not iscoroutinefunction(tool._run):
        return tool
    waiting = copy(tool)
    object.__setattr__(waiting, "_run", run.thread.blocking(tool._run))
    return waiting


def _is_text(file: Any) -> bool:
    return file.content_type.startswith("text/") or file.content_type in ("application/json", "application/xml")
