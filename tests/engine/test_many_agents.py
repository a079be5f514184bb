"""One engine, many agents: found by id when a message comes, added, replaced and removed while it runs."""

import asyncio
from typing import Any

import pytest

from parley import Agent, Turn
from parley.engine.engine import Engine
from parley.engine.limits import Limits
from parley.protocol.errors import RateLimitedError, TaskNotFoundError, UnavailableError
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.requests import CancelTaskRequest, GetTaskRequest, SendConfiguration, SendMessageRequest
from parley.protocol.tasks import Task, TaskState
from parley.testing.client import AgentClient
from tests.bounded import open_log
from tests.deadlines import fail_after

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_store")]

LATER = SendConfiguration(return_immediately=True)


def message(text: str, task: Task | None = None) -> Message:
    return Message(f"m-{text}", Role.USER, (TextPart(text),), None, task.id if task else None)


class Edition:
    """An agent that says which edition of itself speaks, after a gate is opened or its question is answered."""

    def __init__(self, name: str, id: str = "agent") -> None:
        self.name = name
        self.gate, self.begun = asyncio.Event(), asyncio.Event()
        self.agent = Agent("Agent", id=id)
        self.agent.on_message(self.handle)

    async def handle(self, turn: Turn) -> str:
        self.begun.set()
        if turn.text == "wait":
            await self.gate.wait()
        if turn.text == "ask":
            return f"{self.name}: {(await turn.ask('?')).text}"
        return self.name


async def test_a_run_keeps_the_program_it_began_with_and_the_next_message_gets_the_new_one() -> None:
    first, second = Edition("first"), Edition("second")
    with fail_after(5):
        async with Engine(await open_log(), first.agent) as engine:
            agent = engine.agent("agent")
            running = asyncio.create_task(agent.send_message(SendMessageRequest(message("wait"))))
            parked: Any = await agent.send_message(SendMessageRequest(message("ask")))
            await first.begun.wait()
            engine.replace(second.agent)
            fresh: Any = await agent.send_message(SendMessageRequest(message("go")))
            answered: Any = await agent.send_message(SendMessageRequest(message("answer", parked)))
            first.gate.set()
            assert [AgentClient.text(task) for task in (await running, fresh, answered)] == [
                "first",
                "second",
                "second: answer",
            ]


async def test_a_removed_agent_takes_no_messages_and_its_tasks_wait_for_its_return() -> None:
    first, second = Edition("first"), Edition("second")
    with fail_after(5):
        async with Engine(await open_log(), first.agent) as engine:
            agent = engine.agent("agent")
            running = asyncio.create_task(agent.send_message(SendMessageRequest(message("wait"))))
            parked: Any = await agent.send_message(SendMessageRequest(message("ask")))
            await first.begun.wait()
            engine.remove("agent")
            for text, task in (("go", None), ("answer", parked)):
                with pytest.raises(UnavailableError, match="'agent' is not served"):
                    await agent.send_message(SendMessageRequest(message(text, task)))
            assert (await agent.get_task(GetTaskRequest(parked.id))).status.state is TaskState.INPUT_REQUIRED
            first.gate.set()
            assert AgentClient.text(await running) == "first"  # pyright: ignore[reportArgumentType]
            engine.add(second.agent)
            assert AgentClient.text(await agent.send_message(SendMessageRequest(message("answer", parked)))) == (  # pyright: ignore[reportArgumentType]
                "second: answer"
            )
            for change in (engine.remove, lambda id: engine.replace(Edition("x", id).agent)):
                with pytest.raises(ValueError, match="no agent with the id 'other'"):
                    change("other")


@pytest.mark.embedded
async def test_what_one_agent_does_is_neither_seen_nor_stopped_nor_held_up_through_another() -> None:
    a, b = Edition("a", id="a"), Edition("b", id="b")
    limits = Limits(runs_at_once=1, sends_waiting=1)
    with fail_after(5):
        async with Engine(await open_log(), a.agent, b.agent, limits=limits, drain_seconds=0) as engine:
            of_a, of_b = engine.agent("a"), engine.agent("b")
            task: Any = await of_a.send_message(SendMessageRequest(message("wait"), LATER))
            await a.begun.wait()
            with pytest.raises(TaskNotFoundError):
                await of_b.get_task(GetTaskRequest(task.id))
            with pytest.raises(TaskNotFoundError):
                await of_b.cancel_task(CancelTaskRequest(task.id))
            await of_a.send_message(SendMessageRequest(message("queued"), LATER))
            with pytest.raises(RateLimitedError):
                await of_a.send_message(SendMessageRequest(message("refused"), LATER))
            assert engine.runs.by_agent() == {"a": (1, 1)}
            assert AgentClient.text(await of_b.send_message(SendMessageRequest(message("go")))) == "b"  # pyright: ignore[reportArgumentType]
