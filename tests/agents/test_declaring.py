"""Declaring an agent: mistakes are named where they are made, not when the first message comes."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from parley import Agent, Turn
from parley.server.app import App


def reply(turn: Turn) -> str:
    return turn.text


def test_an_agent_without_a_handler_is_not_served() -> None:
    with pytest.raises(ValueError, match=r"^The agent 'Mute' has no handler: put @agent.on_message or @agent.skill"):
        App(Agent("Mute"))


@pytest.mark.parametrize("declare", [Agent.on_message, Agent.skill], ids=["on_message", "skill"])
def test_one_handler_is_enough_to_be_served(declare: Callable[..., Any]) -> None:
    agent = Agent("Echo")
    declare(agent, reply)
    assert App(agent).agents == (agent,)


def no_argument() -> None: ...


def two_arguments(turn: Turn, other: object) -> None: ...


def only_named(*, turn: Turn) -> None: ...


@pytest.mark.parametrize("handler", [no_argument, two_arguments, only_named])
def test_a_handler_takes_the_turn_and_nothing_else(handler: Callable[..., Any]) -> None:
    agent = Agent("Echo")
    for declare in (agent.on_message, agent.skill, agent.skill(id="other")):
        with pytest.raises(TypeError, match=f"^The handler {handler.__name__} must take one argument, the turn$"):
            declare(handler)
    with pytest.raises(ValueError, match="no handler"):
        agent.check()


class Greeter:
    def greet(self, turn: Turn, word: str = "Hello") -> str:
        return f"{word} {turn.text}"

    __call__ = greet


@pytest.mark.parametrize(
    "handler",
    [
        lambda *anything: "said",
        lambda turn, more=None: "said",
        partial(two_arguments, other=1),
        Greeter().greet,
        Greeter(),
        str,  # a builtin that does not say what it takes
    ],
    ids=["any number", "defaults", "partial", "method", "object", "builtin"],
)
def test_whatever_can_be_called_with_a_turn_is_a_handler(handler: Callable[..., Any]) -> None:
    agent = Agent("Echo")
    agent.on_message(handler)
    agent.check()


def test_a_second_on_message_handler_is_refused() -> None:
    agent = Agent("Echo")
    agent.on_message(reply)
    with pytest.raises(ValueError, match=r"^The agent 'Echo' has an on_message handler already: reply$"):
        agent.on_message(lambda turn: "another")


def test_a_second_skill_of_the_same_id_is_refused() -> None:
    agent = Agent("Echo")
    agent.skill(reply)
    with pytest.raises(ValueError, match=r"^The agent 'Echo' has a skill 'reply' already$"):
        agent.skill(id="reply")(lambda turn: "another")


@pytest.mark.parametrize(
    ("name", "id"),
    [
        ("Trip planner", "trip-planner"),
        ("Café Zürich", "cafe-zurich"),
        ("Straße №7", "strasse-no7"),
        ("  ﬁne — Ⅳ!", "fine-iv"),
        ("İstanbul", "istanbul"),
        ("日本", "agent"),
    ],
)
def test_the_id_is_the_name_in_plain_letters(name: str, id: str) -> None:
    assert Agent(name).id == id
