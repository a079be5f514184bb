"""The adapter of pydantic-ai: the shared set, and what only pydantic-ai has."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import (
    BinaryImage,
    CallDeferred,
    FilePart,
    ModelMessage,
    ModelProfile,
    ModelResponse,
    NativeOutput,
    RunContext,
    TextPart,
    ToolReturn,
    ToolReturnPart,
)
from pydantic_ai.models import CompletedStreamedResponse, StreamedResponse
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from framework_tests.pydantic_ai import samples
from framework_tests.suite import AdapterSuite
from parley import Agent, Turn
from parley.protocol.events import StepRecorded, TaskEvent
from parley.protocol.messages import DataPart, RawPart
from parley.protocol.tasks import TaskState
from parley.testing import running

pytestmark = pytest.mark.anyio

Said = AsyncIterator[str | dict[int, DeltaToolCall]]


class TestPydanticAI(AdapterSuite):
    samples = samples


def calling(**calls: str) -> FunctionModel:
    """A model that calls tools with JSON, and then says what they returned."""

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> Said:
        results = [part.content for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        if results:
            yield f"Results: {results}"
        else:
            for number, (name, arguments) in enumerate(calls.items()):
                yield {number: DeltaToolCall(name=name, json_args=arguments, tool_call_id=f"call-{number}")}

    return FunctionModel(stream_function=stream)


async def test_a_denied_call_is_not_made_and_the_model_is_told() -> None:
    async with running(Agent.of(samples.asker)) as client:
        asked = await client.send("Go")
        task = await client.send("no", task=asked)
    assert task.status.state is TaskState.COMPLETED
    assert "denied" in client.text(task)


async def test_the_result_of_a_call_that_is_made_elsewhere_is_an_answer() -> None:
    agent = PydanticAgent(calling(measure='{"room": "hall"}'))

    @agent.tool_plain
    def measure(room: str) -> float:
        raise CallDeferred

    async with running(Agent.of(agent)) as client:
        asked = await client.send("Go")
        assert asked.status.message is not None
        assert asked.status.message.text == "What is the result of measure(room='hall')?"
        await client.crash()
        await client.restart()
        task = await client.send({"celsius": 21.5}, task=asked)
    assert client.text(task) == "Results: [{'celsius': 21.5}]"


async def test_of_two_parallel_calls_only_the_unfinished_one_is_made_again() -> None:
    made: list[str] = []
    may_end = asyncio.Event()
    agent = PydanticAgent(calling(quick="{}", slow="{}"))

    @agent.tool_plain
    async def quick() -> ToolReturn[str]:
        made.append("quick")
        return ToolReturn("quick result", content=["See also: the manual."])

    @agent.tool_plain
    async def slow() -> str:
        made.append("slow")
        await may_end.wait()
        return "slow result"

    def is_the_quick_result(event: TaskEvent) -> bool:
        return isinstance(event, StepRecorded) and "quick result" in str(event.value)

    async with running(Agent.of(agent)) as client:
        task = await client.start("Go")
        await client.crash_when(is_the_quick_result)
        may_end.set()
        await client.restart()
        task = await client.finished(task)
    assert client.text(task) == "Results: ['quick result', 'slow result']"
    assert made == ["quick", "slow", "slow"]


async def test_json_that_the_model_writes_for_us_is_data_and_not_text() -> None:
    async def write_json(messages: list[ModelMessage], info: AgentInfo) -> Said:
        yield '{"city": "Rome",'
        yield '"days": 3}'

    agent = PydanticAgent(FunctionModel(stream_function=write_json), output_type=NativeOutput(samples.Trip))
    async with running(Agent.of(agent)) as client:
        task = await client.send("Go")
    assert [artifact.parts for artifact in task.artifacts] == [(DataPart({"city": "Rome", "days": 3}),)]


class Painter(FunctionModel):
    """A model whose whole response is there at once."""

    @asynccontextmanager
    async def request_stream(
        self, messages: Any, settings: Any, parameters: Any, run_context: Any = None
    ) -> AsyncIterator[StreamedResponse]:
        response = ModelResponse([TextPart("Here: "), FilePart(BinaryImage(b"PNG", media_type="image/png"))])
        yield CompletedStreamedResponse(response, model_request_parameters=parameters, replay_events=True)


async def test_a_picture_that_the_model_draws_is_a_file() -> None:
    model = Painter(stream_function=samples.speak, profile=ModelProfile(supports_image_output=True))
    async with running(Agent.of(PydanticAgent(model, output_type=[BinaryImage, str]))) as client:
        task = await client.send("Go")
    parts = [part for artifact in task.artifacts for part in artifact.parts]
    assert [part for part in parts if isinstance(part, RawPart)] == [RawPart(b"PNG", "image/png")]
    assert client.text(task) == "Here: "


async def test_dependencies_may_be_made_of_the_turn() -> None:
    @dataclass
    class Account:
        caller: str

    agent = PydanticAgent(calling(who="{}"), deps_type=Account)

    @agent.tool
    def who(ctx: RunContext[Account]) -> str:
        return ctx.deps.caller

    def account_of(turn: Turn) -> Account:
        return Account(turn.caller.name)

    async with running(Agent.of(agent, name="Accounts", deps=account_of)) as client:
        task = await client.as_caller(name="ada").send("Go")
    assert client.text(task) == "Results: ['ada']"
