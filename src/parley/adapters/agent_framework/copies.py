"""Copies of workflows of Microsoft Agent Framework: each run has one, because executors keep the state of a run.

Agents are shared by all copies, with their clients, tools and connections. What a run changes is not: workflows within
the workflow, and what the framework's handoff builder has put into its agents.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from agent_framework import Workflow, WorkflowAgent, WorkflowExecutor

from parley.protocol.errors import LocalProtocolError

BUILDERS = "agent_framework_orchestrations."
"""The package with the framework's builders."""

EXTENSIONS = ("context_providers", "middleware")
"""Where builders put what is theirs into an agent."""


def copy_of(workflow: Workflow) -> Workflow:
    """A workflow for one run.

    Raises:
        LocalProtocolError: an executor cannot be copied.
    """
    try:
        return copy.deepcopy(workflow, {id(each): each for each in _shared(workflow)})
    except TypeError as exc:
        hint = "Pass a function that builds it: Agent.of(workflow, build=make_workflow)"
        raise LocalProtocolError(f"The workflow {workflow.name!r} cannot be copied: {exc}. {hint}") from exc


def _shared(workflow: Workflow) -> Iterator[Any]:
    for executor in workflow.get_executors_list():
        agent: Any = getattr(executor, "agent", None)
        if isinstance(executor, WorkflowExecutor):
            yield from _shared(executor.workflow)
        elif isinstance(agent, WorkflowAgent):
            yield from _shared(agent.workflow)
        elif agent is not None:
            yield from _shared_of(agent)


def _shared_of(agent: Any) -> Iterator[Any]:
    """The agent itself, or, if a builder has put something of its own into it, everything else in it."""
    parts = [part for name in EXTENSIONS for part in getattr(agent, name, None) or ()]
    shared = [part for part in parts if not type(part).__module__.startswith(BUILDERS)]
    if len(shared) == len(parts):
        yield agent
    else:
        yield from shared
        yield from [value for name, value in vars(agent).items() if name not in EXTENSIONS]
