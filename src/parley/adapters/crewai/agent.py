"""Agents: a copy of an agent for one run, whose model and tool calls are recorded."""

from __future__ import annotations

from copy import copy
from functools import partial
from inspect import iscoroutinefunction
from typing import Any

import crewai
import msgspec
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.agents.cache.cache_handler import CacheHandler
from crewai.agents.tools_handler import ToolsHandler
from crewai.llms.base_llm import BaseLLM
from crewai.tools.base_tool import BaseTool, Tool
from pydantic import BaseModel

from parley.adapters.crewai.input import CrewRequest
from parley.adapters.crewai.records import is_json, tool_key
from parley.adapters.crewai.run import CrewRun, Kickoff


def prepare_agent(
    run: CrewRun, original: crewai.Agent, request: CrewRequest, response_format: type[BaseModel] | None
) -> Kickoff:
    """An agent that answers to the conversation."""
    agent = original.copy()
    record_work_of(run, agent)
    plain = response_format is None and agent.guardrail is None
    run.speaks = lambda event: plain and event.task_id is None and event.agent_id == str(agent.id)
    data = msgspec.json.encode(request.inputs).decode() if request.inputs else ""
    texts = [f"{name}:\n{file.read_text()}" for name, file in request.files.items() if _is_text(file)]
    others = {name: file for name, file in request.files.items() if not _is_text(file)}
    content = "\n\n".join(filter(None, [request.text, data, *texts]))
    messages: Any = [*request.messages, {"role": "user", "content": content}]
    return partial(agent.kickoff_async, messages, response_format=response_format, input_files=others)


def record_work_of(run: CrewRun, agent: BaseAgent) -> None:
    """Have the model and tool calls of an agent recorded. Its coroutine tools run where they can be cancelled."""
    if isinstance(agent.llm, BaseLLM):
        agent.llm.stream = True
    run.record_calls_of(agent.llm)
    agent.tools_handler = ToolsHandler(
        cache=RecordedTools(run, agent.tools_handler.cache if agent.tools_handler else None)
    )
    agent.tools = [with_coroutines_awaited(run, tool) for tool in agent.tools or ()]


def with_coroutines_awaited(run: CrewRun, tool: BaseTool) -> BaseTool:
    """A tool that is a coroutine function, as one that waits for it."""
    if isinstance(tool, Tool):
        return tool.model_copy(update={"func": run.until_done(tool.func)}) if iscoroutinefunction(tool.func) else tool
    if not iscoroutinefunction(tool._run):
        return tool
    waiting = copy(tool)
    object.__setattr__(waiting, "_run", run.until_done(tool._run))
    return waiting


class RecordedTools(CacheHandler):
    """Stands where CrewAI looks for the results of earlier tool calls: those of this run, before it was cut off.

    A crew's own cache works on behind it.
    """

    def __init__(self, run: CrewRun, own: CacheHandler | None) -> None:
        super().__init__()
        self._run, self._own = run, own

    def read(self, tool: str, input: str) -> Any | None:
        """The result of a call that is recorded."""
        known = self._run.take(tool_key(tool, input))
        return known["result"] if known else self._own.read(tool, input) if self._own else None

    def add(self, tool: str, input: str, output: Any) -> None:
        """Record the result of a call. One that is not JSON cannot be recorded."""
        if self._own is not None:
            self._own.add(tool, input, output)
        if output is not None and is_json(output):
            self._run.checkpoint({"key": tool_key(tool, input), "result": output})


def _is_text(file: Any) -> bool:
    return file.content_type.startswith("text/") or file.content_type in ("application/json", "application/xml")
