"""What the card says of a crew, a flow or an agent of CrewAI."""

from __future__ import annotations

import re
from inspect import cleandoc
from typing import Any

import crewai
from crewai.flow.flow import Flow
from crewai.tools.base_tool import BaseTool

from parley.adapters import adapter as a


def described(thing: crewai.Crew | Flow[Any] | crewai.Agent) -> a.Description:
    """Its name and description. The agents of a crew and the tools of an agent are skills."""
    match thing:
        case crewai.Crew() as crew:
            roles = {_words(agent.role): agent.goal.strip() for agent in crew.agents}
            goals = " ".join(f"{role}: {goal}" for role, goal in roles.items())
            skills = [a.skill(_words(role, "_").lower(), goal) for role, goal in roles.items()]
            return a.Description(name=crew.name or "Crew", description=goals, skills=skills)
        case crewai.Agent() as agent:
            skills = [a.skill(_words(tool.name, "_").lower(), _purpose(tool)) for tool in agent.tools or ()]
            return a.Description(name=agent.role.strip(), description=agent.goal.strip(), skills=skills)
        case flow:
            own = type(flow).__doc__ if type(flow) is not Flow else None
            return a.Description(name=flow.name or type(flow).__name__, description=cleandoc(own or ""))


def _words(text: str, separator: str = " ") -> str:
    return re.sub(r"\W+", separator, text).strip(separator)


def _purpose(tool: BaseTool) -> str:
    """The description of a tool without what CrewAI has added for models."""
    return tool.description.rpartition("Tool Description:")[2].strip()
