"""Executors of a2a-sdk, 1.x and 0.3, as agents. `task` has how they work on a task."""

from __future__ import annotations

import re
from typing import Any

from a2a.server.agent_execution import AgentExecutor

from parley.adapters.a2a_sdk.context import sdk
from parley.adapters.a2a_sdk.task import ExecutedTask
from parley.agents.agent import Agent
from parley.agents.turn import Turn
from parley.protocol.cards import AgentCard

_SETTINGS = ("name", "description", "version", "provider", "documentation_url", "icon_url")
_OF_SKILLS = ("id", "name", "description", "tags", "examples", "input_modes", "output_modes")


def adapt(
    thing: Any, *, card: Any = None, may_reply: bool = True, default_name: str = "Agent", **settings: Any
) -> Agent:
    """An agent that runs an executor: one of a2a-sdk, or that of a request handler or of an application of 0.3.

    `card` is an AgentCard of the SDK: its name, description and skills are the agent's. `may_reply` says whether a
    message that the executor enqueues at once is a reply without a task; if not, tasks are stored before `execute`.
    """
    executor, own_card = _executor_and_card(thing)
    described, skills = _described_by(card or own_card, _name_of(executor) or default_name)
    agent = Agent(**{**described, **{key: value for key, value in settings.items() if value is not None}})

    async def handle(turn: Turn) -> None:
        await ExecutedTask(executor, turn).work()

    agent.on_message(may_reply=may_reply)(handle)
    for skill in skills:
        agent.skill(**skill, may_reply=may_reply)(handle)
    return agent


def _executor_and_card(thing: Any) -> tuple[AgentExecutor, Any]:
    """The executor that a request handler or an application of 0.3 was made with, and its card if it has one."""
    handler = getattr(getattr(thing, "handler", None), "request_handler", thing)
    card = getattr(thing, "agent_card", None) or getattr(thing, "_agent_card", None)
    return getattr(handler, "agent_executor", handler), card


def _described_by(card: Any, default_name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The settings of an agent with this card of the SDK, and those of its skills."""
    if card is None:
        return {"name": default_name}, []
    ours: AgentCard = sdk.decode_card(card)
    settings = {
        **{name: getattr(ours, name) for name in _SETTINGS},
        "input_modes": _media_types(ours.default_input_modes),
        "output_modes": _media_types(ours.default_output_modes),
        "extensions": ours.capabilities.extensions,
    }
    return settings, [{name: getattr(skill, name) for name in _OF_SKILLS} for skill in ours.skills]


def _name_of(executor: AgentExecutor) -> str:
    """A name for an agent without a card: `HelloWorldAgentExecutor` → `"Hello World"`. It may be empty."""
    words = re.sub(r"(Agent)?Executor$", "", type(executor).__name__)
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", words)


def _media_types(modes: tuple[str, ...]) -> list[str]:
    """Modes as media types; samples of the SDK write `text`, which is none."""
    return ["text/plain" if mode == "text" else mode for mode in modes]
