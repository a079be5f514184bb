"""Graphs of LangGraph: no finished node is repeated, and their state is in the log of the task.

A graph without a checkpointer, or with one in memory, is given `TaskCheckpoints`. One with a checkpointer of another
kind keeps it; then the states of our checkpoints only name its checkpoints, and a crash repeats the last superstep.
Interrupts are questions. `messages` streams text, and `input` makes what a graph is called with.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from copy import copy
from dataclasses import dataclass
from typing import Any, TypeAlias

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.pregel import Pregel
from langgraph.types import Command

from parley.adapters import adapter as a
from parley.adapters.agent_as_tool import AgentAsTool
from parley.adapters.durable_run import agent_of
from parley.adapters.langgraph.input import NothingToRunError, input_of
from parley.adapters.langgraph.output import results_of
from parley.adapters.langgraph.questions import questions_of, resume_values
from parley.adapters.langgraph.run import GraphRun
from parley.adapters.langgraph.visible_checkpoints import make_visible, saver_for
from parley.agents.agent import Agent
from parley.agents.turn import Turn
from parley.contents import parts_of
from parley.protocol.tasks import TaskState

Graph: TypeAlias = Pregel[Any, Any, Any, Any]


def adapt(
    graph: Graph,
    *,
    input: Callable[[Turn], Any] | None = None,
    output: Callable[[Any], Any] | None = None,
    context: Callable[[Turn], Any] | None = None,
    config: RunnableConfig | None = None,
    **settings: Any,
) -> Agent:
    """An agent that runs a graph.

    `input` makes what the graph is called with of a turn, `output` makes the answer of the final values of the graph,
    in place of the text of its models, and `context` makes the runtime context of a turn. Each may be async. `config`
    is LangGraph's.
    """
    return agent_of(LangGraphAdapter(graph, input, output, context, config), **settings)


def remote_tool(target: str, **options: Any) -> BaseTool:
    """A remote A2A agent as a tool: `create_agent(model, [remote_tool("https://…")])`. Options: see `AgentAsTool`."""
    remote = AgentAsTool(target, **options)
    return StructuredTool.from_function(coroutine=remote.ask, name=remote.tool_name, description=remote.description)


@dataclass(frozen=True)
class LangGraphAdapter:
    """One graph of LangGraph, with the options of `adapt`."""

    graph: Graph
    input: Callable[[Turn], Any] | None = None
    output: Callable[[Any], Any] | None = None
    context: Callable[[Turn], Any] | None = None
    config: RunnableConfig | None = None

    def __post_init__(self) -> None:
        make_visible(self.graph)

    def describe(self) -> a.Description:
        """Its name; the tools of its nodes, and of its subgraphs, are its skills."""
        graphs = [self.graph, *[subgraph for _, subgraph in self.graph.get_subgraphs(recurse=True)]]
        nodes = [node.bound for graph in graphs for node in getattr(graph, "nodes", {}).values()]
        tools = {tool.name: tool for node in nodes for tool in getattr(node, "tools_by_name", {}).values()}
        return a.Description(
            name=self.graph.get_name(), skills=[a.skill(tool.name, tool.description) for tool in tools.values()]
        )

    async def run(self, start: a.Start) -> AsyncIterator[a.Piece]:
        """Run it from its message, or from the checkpoints in the states."""
        if start.answers:
            yield a.Checkpoint({"answers": start.answers})
        graph = copy(self.graph)
        saver = saver_for(graph, (start.conversation, *start.states))
        graph.checkpointer = saver or graph.checkpointer
        run = GraphRun(start, saver, hides_text=self.output is not None)
        config = merge_configs(self.config, run.config)
        try:
            input = await (self._resume(graph, run, config) if start.states else self._begin(start.turn))
        except NothingToRunError as error:
            yield error.end
            return
        context = await _result(self.context(start.turn)) if self.context else None
        async with aclosing(run.stream(graph, input, run.position(config), context)) as pieces:
            async for piece in pieces:
                yield piece
        now = await graph.aget_state(config)
        if now.next:
            yield a.Pause(questions_of(now), run.pause_state())
            return
        if self.output is None:
            for piece in results_of(self.graph, run):
                yield piece
        else:
            made = await _result(self.output(run.values))
            yield made if isinstance(made, str) else a.Output(parts_of(made))
        yield a.End(run.conversation(), run.usage())

    async def _begin(self, turn: Turn) -> Any:
        return await _result(self.input(turn) if self.input else input_of(self.graph, turn))

    async def _resume(self, graph: Graph, run: GraphRun, config: RunnableConfig) -> Any:
        now = await graph.aget_state(run.position(config))
        if not now.tasks:  # LangGraph would end at once, as if the graph were done
            raise NothingToRunError(TaskState.FAILED, "This agent has changed, and cannot continue this task.")
        values = resume_values(now, run.answers)
        return Command(resume=values) if values else None


async def _result(made: Any) -> Any:
    """What a plain or async function returned."""
    return await made if inspect.isawaitable(made) else made
