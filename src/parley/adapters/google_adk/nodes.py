"""What an agent of google-adk is made of, and where ADK can resume a run of it from its events without repeating any.

The rules for resuming are those of ADK 2.13, found by resuming runs after each of their events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.events.event import Event
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.workflow import BaseNode

from parley.adapters.adapter import skill
from parley.protocol.cards import AgentSkill

RUNNING = 2
"""The status of a node that has begun, in the notes of a `Workflow`. These numbers are stored, so ADK keeps them."""

RESUMABLE_CODE = ("google.adk.", "parley.adapters.")
"""Where agents come from that go on from their events. Those of others begin again, unless their app says otherwise."""


class ResumePoints:
    """Finds the events of a run after which it can be resumed.

    After tool calls and their results it can, and where a workflow agent notes which agent comes next. An agent whose
    last event is its final text says it again, until such a note; of agents side by side, until its end is noted. A
    loop forgets that it was to be left, and all workflow agents forget that a question waits for its answer. A
    `Workflow` takes a node that has begun for done.
    """

    def __init__(self, nodes: Sequence[BaseNode]) -> None:
        root = nodes[0]
        self._workflow = None if isinstance(root, BaseAgent) else root.name
        self._forgets_questions = not all(isinstance(node, LlmAgent) for node in nodes)
        self._has_asked = False
        self._ended: set[str | None] = set()
        self._is_escalating = False

    def include(self, event: Event) -> bool:
        """Whether the run can be resumed after an event. It must be asked about each of them."""
        actions, branch = event.actions, event.branch
        if event.partial:
            return False
        if self._workflow is not None:
            nodes = (actions.agent_state or {}).get("nodes") or {}
            is_running = any(node.get("status") == RUNNING for node in nodes.values())
            return bool(nodes) and event.author == self._workflow and not is_running
        is_noted = actions.agent_state is not None
        is_end_noted = bool(actions.end_of_agent) and (branch or "").endswith(f".{event.author}")
        if event.content and (event.is_final_response() or actions.set_model_response is not None):
            self._ended.add(branch)
        elif event.content or is_noted or is_end_noted:
            self._ended.discard(branch)
        self._is_escalating = (self._is_escalating or bool(actions.escalate)) and not is_noted
        self._has_asked = self._has_asked or bool(event.long_running_tool_ids)
        if self._has_asked and self._forgets_questions:
            return False
        has_calls = bool(event.get_function_calls() or event.get_function_responses())
        return (is_noted or has_calls) and not self._ended and not self._is_escalating


def nodes_of(node: Any) -> Iterator[BaseNode]:
    """A node with all that it is made of: sub-agents, and the nodes of workflows."""
    yield node
    for child in (*getattr(node, "sub_agents", ()), *getattr(getattr(node, "graph", None), "nodes", ())):
        yield from nodes_of(child)


def skills_of(root: Any) -> list[AgentSkill]:
    """The tools and sub-agents of an agent as skills. Toolsets are not asked for theirs: that may take a network."""
    tools = [FunctionTool(tool) if callable(tool) else tool for tool in getattr(root, "tools", ())]
    parts = [one for one in (*tools, *getattr(root, "sub_agents", ())) if isinstance(one, BaseTool | BaseNode)]
    skills: dict[str, AgentSkill] = {}
    for one in parts:  # a sub-agent may have the name of a tool
        skills.setdefault(one.name, skill(one.name, one.description.partition("\n")[0]))
    return [*skills.values()]


def is_resumable(node: BaseNode) -> bool:
    """Whether a node goes on from its events, as those of ADK itself do."""
    code = getattr(type(node), "_run_async_impl", None) or type(node)._run_impl  # the methods that subclasses write
    return code.__module__.startswith(RESUMABLE_CODE)
