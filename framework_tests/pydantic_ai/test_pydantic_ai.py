"""The adapter of pydantic-ai: the shared set, and what only pydantic-ai has."""

import asyncio
import json
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
    ModelRetry,
    NativeOutput,
    RunContext,
    TextOutput,
    TextPart,
    ToolOutput,
    ToolReturn,
    ToolReturnPart,
)
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.models import CompletedStreamedResponse, StreamedResponse
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from framework_tests.pydantic_ai import samples
from framework_tests.suite import AdapterSuite, say
from parley import Agent, Turn
from parley.protocol.events import ArtifactUpdate, StepRecorded, TaskEvent
from parley.protocol.messages import DataPart, RawPart
from parley.protocol.messages import TextPart as Text
from parley.protocol.tasks import TaskState
from parley.testing import running, survives_crashes

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


@pytest.mark.parametrize("kind", ["function", "file", "tool", "text function"])
async def test_output_that_the_model_has_not_said_itself_is_said(kind: str) -> None:
    def shout(text: str) -> str:
        return text.upper()

    def draw(text: str) -> BinaryImage:
        return BinaryImage(text.encode(), media_type="image/png")

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> Said:
        if info.output_tools and kind != "text function":
            (name, argument), *_ = [
                (tool.name, next(iter(tool.parameters_json_schema["properties"]))) for tool in info.output_tools
            ]
            yield {0: DeltaToolCall(name=name, json_args=json.dumps({argument: "hello"}), tool_call_id="call-1")}
        else:
            yield "hel"
            yield "lo"

    kinds: dict[str, Any] = {
        "function": shout,
        "file": draw,
        "tool": ToolOutput(str),
        "text function": [samples.Trip, TextOutput(shout)],
    }
    agent = PydanticAgent(FunctionModel(stream_function=answer), output_type=kinds[kind])
    async with running(Agent.of(agent)) as client:
        task = await client.send("Go")
    said = [part for artifact in task.artifacts for part in artifact.parts]
    expected: dict[str, Any] = {
        "function": [Text("HELLO")],
        "file": [RawPart(b"hello", "image/png")],
        "tool": [Text("hello")],
        "text function": [Text("HELLO")],
    }
    assert said == expected[kind]


async def test_an_answer_that_a_validator_refuses_is_not_said() -> None:
    async def answer(messages: list[ModelMessage], info: AgentInfo) -> Said:
        yield "wrong answer." if len(messages) == 1 else "right answer."

    agent = PydanticAgent(FunctionModel(stream_function=answer))

    @agent.output_validator
    def check(text: str) -> str:
        if text.startswith("wrong"):
            raise ModelRetry("Try again")
        return text.upper()

    async with running(Agent.of(agent)) as client:
        assert client.text(await client.send("Go")) == "RIGHT ANSWER."
    await survives_crashes(Agent.of(agent), "Go")


def a_model_that_uses_ids_again(*steps: str | tuple[str, str]) -> FunctionModel:
    # A model whose responses are these, one by one: texts, or calls with the id `call_0`.
    async def stream(messages: list[ModelMessage], info: AgentInfo) -> Said:
        step = steps[len([message for message in messages if isinstance(message, ModelResponse)])]
        if isinstance(step, str):
            yield step
        else:
            yield {0: DeltaToolCall(name=step[0], json_args=step[1], tool_call_id="call_0")}

    return FunctionModel(stream_function=stream)


async def test_an_approval_is_for_one_call_even_if_the_model_uses_its_id_again() -> None:
    deployed: list[str] = []
    calls = [("deploy", '{"to": "staging"}'), ("deploy", '{"to": "production"}')]
    agent = PydanticAgent(a_model_that_uses_ids_again(*calls, "Done."), retries=3)

    @agent.tool_plain(requires_approval=True)
    def deploy(to: str) -> str:
        deployed.append(to)
        raise ModelRetry("Not there")

    def is_the_second_response(event: TaskEvent) -> bool:
        return isinstance(event, StepRecorded) and "production" in str(event.value)

    async with running(Agent.of(agent)) as client:
        asked = await client.send("Go")
        answering = asyncio.create_task(client.exchange("yes", task=asked))
        await client.crash_when(is_the_second_response)
        await asyncio.wait([answering])
        await client.restart()
        task = await client.finished(asked)
    assert answering.exception() is not None
    assert task.status.state is TaskState.INPUT_REQUIRED
    assert task.status.message is not None
    assert "production" in task.status.message.text
    assert deployed == ["staging"]


async def test_a_result_is_for_one_call_even_if_the_model_uses_its_id_again() -> None:
    looked_up: list[int] = []
    calls = [("look_up", "{}"), ("deploy", "{}"), ("look_up", "{}")]
    agent = PydanticAgent(a_model_that_uses_ids_again(*calls, "Done."))

    @agent.tool_plain
    def look_up() -> int:
        looked_up.append(len(looked_up))
        return len(looked_up)

    @agent.tool_plain(requires_approval=True)
    def deploy() -> str:
        return "deployed"

    async with running(Agent.of(agent)) as client:
        task = await client.send("yes", task=await client.send("Go"))
    assert client.text(task) == "Done."
    assert looked_up == [0, 1]


async def test_a_history_that_the_agent_shortens_is_the_one_that_goes_on() -> None:
    charged: list[int] = []
    agent = PydanticAgent(
        calling(charge="{}"), capabilities=[ProcessHistory(lambda messages: messages[-3:])], instructions="Be brief."
    )

    @agent.tool_plain(requires_approval=True)
    def charge() -> str:
        charged.append(len(charged))
        return "charged"

    async with running(Agent.of(agent)) as client:
        last = await client.send("yes", task=await client.send("One"))
        for word in ("two", "three", "four"):
            asked = await say(client, word, after=last)
            await client.crash()
            await client.restart()
            last = await client.send("yes", task=asked)
            assert client.text(last) == "Results: ['charged']"
            assert last.metadata["usage"]["requests"] == 2  # type: ignore[index,call-overload]
    assert len(charged) == 4


async def test_a_tool_that_asks_the_model_to_try_again_is_not_called_again_after_a_crash() -> None:
    charged: list[str] = []

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> Said:
        if len(messages) == 1:
            yield {0: DeltaToolCall(name="charge", json_args="{}", tool_call_id="call-1")}
        else:
            yield f"Told: {messages[-1].parts[0].content}"

    agent = PydanticAgent(FunctionModel(stream_function=stream))

    @agent.tool_plain
    def charge() -> ToolReturn[str]:
        charged.append("charged")
        raise ModelRetry("Too little")

    async with running(Agent.of(agent)) as client:
        task = await client.start("Go")
        await client.crash_when(lambda event: isinstance(event, ArtifactUpdate))
        await client.restart()
        task = await client.finished(task)
    assert "Too little" in client.text(task)
    assert charged == ["charged"]


async def test_metadata_of_a_tool_that_is_not_json_and_a_tool_that_exits_do_no_harm() -> None:
    agent = PydanticAgent(calling(look_up="{}"))

    @agent.tool_plain
    def look_up() -> ToolReturn[str]:
        return ToolReturn("found", metadata={"object": object()})

    leaver = PydanticAgent(calling(leave="{}"))

    @leaver.tool_plain
    def leave() -> str:
        raise SystemExit(3)

    async with running(Agent.of(agent)) as client:
        assert client.text(await client.send("Go")) == "Results: ['found']"
    async with running(Agent.of(leaver)) as client:
        assert (await client.send("Go")).status.state is TaskState.FAILED


async def test_dependencies_may_be_made_of_the_turn() -> None:
    @dataclass
    class Account:
        caller: str

    agent = PydanticAgent(calling(who="{}"), deps_type=Account)

    @agent.tool
    def who(ctx: RunContext[Account]) -> str:
        return ctx.deps.caller

    async def account_of(turn: Turn) -> Account:
        return Account(turn.caller.name)

    async with running(Agent.of(agent, name="Accounts", deps=account_of)) as client:
        task = await client.as_caller(name="ada").send("Go")
    assert client.text(task) == "Results: ['ada']"
