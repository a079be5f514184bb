"""Workflows of the builders of agent-framework-orchestrations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import uuid4

import agent_framework_orchestrations as builders
import pytest
from agent_framework import Agent as FrameworkAgent
from agent_framework import Message

from framework_tests.agent_framework.samples import Call, ScriptedClient, agent, tool_results
from parley import Agent
from parley.protocol.tasks import Task
from parley.testing import running, survives_crashes

pytestmark = pytest.mark.anyio


class UniqueCalls(ScriptedClient):
    """A model that gives each call an id of its own, as most do."""

    async def _updates(self, messages: list[Message], tools: list[Any]) -> AsyncIterator[Any]:
        async for update in super()._updates(messages, tools):
            for content in update.contents:
                if content.type == "function_call":
                    content.call_id = str(uuid4())
            yield update


def hand_off(messages: list[Message], tools: list[Any]) -> Iterator[str | Call]:
    if tool_results(messages):
        yield "Handed off."
    else:
        yield tools[0].name, {}


def echo(messages: list[Message], tools: list[Any]) -> Iterator[str | Call]:
    yield f"You said: {messages[-1].text}."


def question_of(task: Task) -> str:
    assert task.status.message is not None
    return task.status.message.text


async def test_a_handoff_reaches_the_other_agent_which_asks_until_the_user_is_done() -> None:
    options: Any = {"require_per_service_call_history_persistence": True}
    clerk = FrameworkAgent(UniqueCalls(hand_off), name="clerk", **options)
    expert = FrameworkAgent(UniqueCalls(echo), name="expert", **options)

    def is_done(messages: list[Message]) -> bool:
        return any(message.role == "user" and message.text == "bye" for message in messages)

    builder = builders.HandoffBuilder(participants=[clerk, expert], termination_condition=is_done)
    made = Agent.of(builder.with_start_agent(clerk).build())
    async with running(made) as client:
        tasks = await asyncio.gather(client.send("one"), client.send("two"))
        assert [question_of(task) for task in tasks] == ["You said: one.", "You said: two."]
        task = await client.send("three", task=tasks[0])
        task = await client.send("bye", task=task)
    assert client.text(task) == "You said: one.\n\nYou said: three."
    await survives_crashes(made, "one", answers=["three", "bye"])


async def test_a_review_is_accepted_with_yes_and_anything_else_is_a_change() -> None:
    builder = builders.SequentialBuilder(participants=[agent("writer", echo), agent("last", echo)])
    made = Agent.of(builder.with_request_info(agents=["writer"]).build())
    async with running(made) as client:
        asked = await client.send("Go")
        assert question_of(asked) == "You said: Go.\nAnswer yes if this is right, or say what to change."
        asked = await client.send("Shorter", task=asked)
        assert question_of(asked).startswith("You said: Shorter.")
        task = await client.send("Yes.", task=asked)
    assert client.text(task) == "You said: You said: Shorter.."


async def test_agents_side_by_side_say_paragraphs() -> None:
    made = Agent.of(builders.ConcurrentBuilder(participants=[agent("one", echo), agent("two", echo)]).build())
    async with running(made) as client:
        task = await client.send("Go")
    assert client.text(task) == "You said: Go.\n\nYou said: Go."
