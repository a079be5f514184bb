"""Agents as the native API shows them: constitutions with all their members, agents of Python by their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs

from parley.agents.agent import Agent
from parley.host.approval_rules import ApprovalRules
from parley.host.budget_limits import BudgetLimit
from parley.host.constitution import (
    INDEX,
    Advisor,
    Brevity,
    Channel,
    Constitution,
    Intent,
    MemorySettings,
    Mode,
    PriorityName,
    WhenBusyMode,
    render,
)
from parley.host.data.agents import StoredAgent
from parley.host.data.stops import BY_OPERATOR, Stop


class StopView(Struct, frozen=True):
    """Why something was stopped, by which principal, and when, in seconds since 1970."""

    target: Literal["agent", "tenant", "operator"]
    """What was stopped: the agent; the tenant, by itself; the tenant, by the operator, who alone can resume it."""
    agent_id: str
    """Empty: all agents of the tenant."""
    reason: str
    by: str
    at: int


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
    mcp: tuple[str, ...] | UnsetType = UNSET
    intent: Intent | UnsetType = UNSET
    memory: MemorySettings | UnsetType = UNSET
    event_types: tuple[str, ...] | UnsetType = UNSET
    examples: tuple[str, ...] | UnsetType = UNSET
    when_busy: WhenBusyMode | UnsetType = UNSET
    priority: PriorityName | UnsetType = UNSET
    approvals: ApprovalRules | UnsetType = UNSET
    budget: BudgetLimit | UnsetType = UNSET
    created_at: int | UnsetType = UNSET
    updated_at: int | UnsetType = UNSET
    version: int | UnsetType = UNSET
    """The number of the newest version, which is the one that is shown."""
    changed_by: str | UnsetType = UNSET
    pinned_version: int | UnsetType = UNSET
    """The version that is called, if it is pinned."""
    stopped: StopView | UnsetType = UNSET


class AgentList(Struct, frozen=True):
    """All agents of a tenant: `index`, its own, and those that the operator gives."""

    count: int
    agents: Sequence[AgentView]


def view_of_index(stop: Stop | None = None) -> AgentView:
    """The master agent."""
    return _view(INDEX, stop)


def view_of_stored(stored: StoredAgent, stop: Stop | None = None) -> AgentView:
    """An agent that a tenant has stored: its newest version, also if another one is pinned."""
    view = _view(stored.constitution, stop, stored.created_at, stored.updated_at)
    pinned = stored.pinned or UNSET
    return structs.replace(view, version=stored.version, changed_by=stored.changed_by, pinned_version=pinned)


def view_of_python(agent: Agent, stop: Stop | None = None) -> AgentView:
    """An agent of Python that the operator gives."""
    stopped = _stopped(stop)
    return AgentView(id=agent.id, name=agent.name, description=agent.description, kind="python", stopped=stopped)


def view_of_stop(stop: Stop) -> StopView:
    """One thing that is stopped."""
    if not stop.is_of_tenant:
        return StopView("agent", stop.target, stop.reason, stop.by, stop.at)
    return StopView("operator" if stop.target == BY_OPERATOR else "tenant", "", stop.reason, stop.by, stop.at)


def _view(
    constitution: Constitution, stop: Stop | None, created_at: int | None = None, updated_at: int | None = None
) -> AgentView:
    view = msgspec.convert(render(constitution, created_at, updated_at), AgentView)
    return structs.replace(view, stopped=_stopped(stop))


def _stopped(stop: Stop | None) -> StopView | UnsetType:
    return UNSET if stop is None else view_of_stop(stop)
