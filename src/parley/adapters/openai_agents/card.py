"""What the card says of an agent of the OpenAI Agents SDK."""

from __future__ import annotations

from typing import Any

from agents import Agent, Handoff
from parley.adapters.adapter import Description, skill


def described(agent: Agent[Any]) -> Description:
    """Its name and description; its tools and the agents that it hands off to are its skills."""
    tools = [skill(tool.name, getattr(tool, "description", None)) for tool in agent.tools]
    others = [
        skill(other.agent_name, other.tool_description)
        if isinstance(other, Handoff)
        else skill(other.name, other.handoff_description)
        for other in agent.handoffs
    ]
    skills = {each.id: each for each in (*tools, *others)}
    description = agent.handoff_description or ""
    return Description(name=agent.name, description=description, skills=list(skills.values()))
