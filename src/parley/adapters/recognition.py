"""Finds the adapter for an object of a framework by the names of its classes, without importing any framework."""

from __future__ import annotations

import importlib
import sys
from typing import Any, NamedTuple

from parley.agents.agent import Agent
from parley.protocol.errors import LocalProtocolError


class Framework(NamedTuple):
    """How objects of a framework are known."""

    name: str
    package: str
    """The package that its classes are defined in."""
    classes: tuple[str, ...]
    """The classes whose objects, or those of subclasses, are agents."""
    adapter: str
    """The package of `parley.adapters` with its `adapt(thing, **settings)`."""
    has: str = ""
    """What else is in the framework's package, if other people may have a package of the same name."""


FRAMEWORKS = (
    Framework("LangGraph", "langgraph", ("Pregel",), "langgraph"),
    Framework("pydantic-ai", "pydantic_ai", ("AbstractAgent",), "pydantic_ai"),
    Framework("OpenAI Agents", "agents", ("Agent",), "openai_agents", has="Runner"),
    Framework("CrewAI", "crewai", ("Crew", "Flow", "Agent"), "crewai"),
    Framework("google-adk", "google.adk", ("BaseAgent", "App", "Workflow"), "google_adk"),
    Framework("Microsoft Agent Framework", "agent_framework", ("BaseAgent", "Workflow"), "agent_framework"),
    Framework("a2a-sdk", "a2a", ("AgentExecutor", "RequestHandler", "JSONRPCApplication"), "a2a_sdk"),
)


def framework_of(thing: object) -> Framework | None:
    """The framework that an object is an agent of, if it is one that there is an adapter for."""
    for kind in type(thing).__mro__:
        for framework in FRAMEWORKS:
            if kind.__name__ in framework.classes and _is_from(kind, framework):
                return framework
    return None


def _is_from(kind: type, framework: Framework) -> bool:
    is_inside = f"{kind.__module__}.".startswith(f"{framework.package}.")
    return is_inside and (not framework.has or hasattr(sys.modules.get(framework.package), framework.has))


def adapt(thing: object, **settings: Any) -> Agent:
    """An agent that runs an object of a framework.

    Raises:
        LocalProtocolError: no adapter knows such objects.
    """
    framework = framework_of(thing)
    if framework is None:
        known = ", ".join(framework.name for framework in FRAMEWORKS)
        raise LocalProtocolError(
            f"No adapter knows objects of type {type(thing).__module__}.{type(thing).__qualname__}. "
            f"There are adapters for agents of {known}."
        )
    module = importlib.import_module(f"parley.adapters.{framework.adapter}")
    agent: Agent = module.adapt(thing, **settings)
    return agent
