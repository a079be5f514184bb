"""Which adapter is for an object, by the names of its classes."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from parley import Agent
from parley.adapters.recognition import FRAMEWORKS, framework_of
from parley.cli.serving.agent_loading import TargetError, load_agent
from parley.protocol.errors import LocalProtocolError


def made_in(module: str, name: str) -> object:
    """An object of a subclass of a class with this name in this module."""
    base = type(name, (), {"__module__": module})
    return type("Own", (base,), {"__module__": "app"})()


@pytest.mark.parametrize(
    ("module", "name", "framework"),
    [
        ("langgraph.pregel.main", "Pregel", "LangGraph"),
        ("pydantic_ai.agent.abstract", "AbstractAgent", "pydantic-ai"),
        ("agents.agent", "Agent", "OpenAI Agents"),
        ("crewai.crew", "Crew", "CrewAI"),
        ("google.adk.agents.base_agent", "BaseAgent", "google-adk"),
        ("agent_framework._agents", "BaseAgent", "Microsoft Agent Framework"),
        ("a2a.server.agent_execution.agent_executor", "AgentExecutor", "a2a-sdk"),
        ("a2a.server.request_handlers.request_handler", "RequestHandler", "a2a-sdk"),
        ("a2a.server.apps.jsonrpc.jsonrpc_app", "JSONRPCApplication", "a2a-sdk"),
    ],
)
def test_an_object_is_known_by_a_class_of_its_framework(
    module: str, name: str, framework: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "agents", SimpleNamespace(Runner=object))
    found = framework_of(made_in(module, name))
    assert found is not None
    assert found.name == framework


@pytest.mark.parametrize(
    ("module", "name"), [("app.agents", "Agent"), ("langgraph_tools.x", "Pregel"), ("langgraph.graph", "Other")]
)
def test_other_objects_are_not_taken_for_agents(module: str, name: str) -> None:
    assert framework_of(made_in(module, name)) is None


def test_another_package_called_agents_is_not_the_one_of_openai() -> None:
    assert framework_of(made_in("agents.agent", "Agent")) is None


def test_every_adapter_has_its_page_and_its_tests() -> None:
    root = Path(__file__).parent.parent.parent
    for framework in FRAMEWORKS:
        assert (root / "src" / "parley" / "adapters" / framework.adapter / "adapter.py").is_file()
        assert (root / "framework_tests" / framework.adapter / f"test_{framework.adapter}.py").is_file()
        assert (root / "docs" / "adapters" / f"{framework.adapter.replace('_', '-')}.md").is_file()


def test_an_unknown_object_is_refused_with_the_frameworks_that_are_known() -> None:
    with pytest.raises(LocalProtocolError, match=r"No adapter knows objects of type builtins\.int\. .* LangGraph, "):
        Agent.of(7)


def test_an_object_whose_adapter_fails_is_a_target_error(tmp_path: Path) -> None:
    target = tmp_path / "broken_target.py"
    target.write_text("class Pregel:\n    __module__ = 'langgraph.pregel'\ngraph = Pregel()\nother = 7\n")
    with pytest.raises(TargetError, match=r"broken_target\.py:graph cannot be served"):
        load_agent(f"{target}:graph")
    with pytest.raises(TargetError, match=r"Did you mean .*broken_target\.py:graph"):
        load_agent(f"{target}:missing")
