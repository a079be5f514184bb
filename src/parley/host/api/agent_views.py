"""Agents as the native API shows them: constitutions with all their members, agents of Python by their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from parley.agents.agent import Agent
from parley.host.constitution import (
    INDEX,
    Advisor,
    Brevity,
    Channel,
    Constitution,
    Intent,
    MemorySettings,
    Mode,
    render,
)
from parley.host.data.agents import StoredAgent


class AgentView(Struct, frozen=True, kw_only=True):
    """An agent. `index` and agents of Python have no times; agents of Python have a description and no constitution."""

    id: str
    name: str
    description: str | UnsetType = UNSET
    kind: Literal["python"] | UnsetType = UNSET
    role: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    """Empty: the host's default model."""
    goal: str | UnsetType = UNSET
    brevity: Brevity | UnsetType = UNSET
    max_tokens: int | UnsetType = UNSET
    temperature: float | UnsetType = UNSET
    advisor: Advisor | UnsetType = UNSET
    advisor_model: str | UnsetType = UNSET
    mode: Mode | UnsetType = UNSET
    channel: Channel | UnsetType = UNSET
    personality: str | UnsetType = UNSET
    rules: tuple[str, ...] | UnsetType = UNSET
    capabilities: tuple[str, ...] | UnsetType = UNSET
    intent: Intent | UnsetType = UNSET
    memory: MemorySettings | UnsetType = UNSET
    event_types: tuple[str, ...] | UnsetType = UNSET
    examples: tuple[str, ...] | UnsetType = UNSET
    created_at: int | UnsetType = UNSET
    updated_at: int | UnsetType = UNSET


class AgentList(Struct, frozen=True):
    """All agents of a tenant: `index`, its own, and those that the operator gives."""

    count: int
    agents: Sequence[AgentView]


def view_of_index() -> AgentView:
    """The master agent."""
    return _view(INDEX)


def view_of_stored(stored: StoredAgent) -> AgentView:
    """An agent that a tenant has stored."""
    return _view(stored.constitution, stored.created_at, stored.updated_at)


def view_of_python(agent: Agent) -> AgentView:
    """An agent of Python that the operator gives."""
    return AgentView(id=agent.id, name=agent.name, description=agent.description, kind="python")


def _view(constitution: Constitution, created_at: int | None = None, updated_at: int | None = None) -> AgentView:
    return msgspec.convert(render(constitution, created_at, updated_at), AgentView)
