"""The adapter of Microsoft Agent Framework: agents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from agent_framework import Agent as FrameworkAgent
from agent_framework import (
    AgentResponse,
    AgentResponseUpdate,
    BaseAgent,
    ChatContext,
    ChatMiddleware,
    ChatResponseUpdate,
    Content,
    FunctionTool,
    Message,
    ResponseStream,
    tool,
)

from framework_tests.agent_framework import samples
from framework_tests.agent_framework.samples import Call, ScriptedClient, agent, tool_results
from framework_tests.suite import AdapterSuite, say
from parley import Agent, File
from parley.protocol.events import ArtifactUpdate, TaskEvent
from parley.protocol.messages import RawPart, text_of
from parley.protocol.tasks import TaskState
from parley.testing import running, survives_crashes

pytestmark = pytest.mark.anyio


class TestAgentFramework(AdapterSuite):
    samples = samples


def says(text: str) -> Callable[[TaskEvent], bool]:
    """Whether an event holds this text."""
    return lambda event: isinstance(event, ArtifactUpdate) and text in text_of(event.artifact.parts)


def calls_of(thing: Any) -> int:
    """How often the model of an agent was asked."""
    assert isinstance(thing.client, ScriptedClient)
    return thing.client.calls


# --- restarts ---------------------------------------------------------------------------------------------------------


async def test_no_finished_model_call_is_repeated_after_a_crash() -> None:
    results_seen: list[int] = []

    def work(messages: list[Message], tools: list[Any]) -> Iterator[str | Call]:
        results_seen.append(len(tool_results(messages)))
        return samples.work(messages, tools)

    async with running(Agent.of(agent("Worker", work, tools=[samples.charge]))) as client:
        task = await client.start("Go")
        await client.crash_when(says("All"))
        await client.restart()
        task = await client.finished(task)
    assert client.text(task) == "All done."
    assert results_seen.count(0) == 1, "the first model call was finished"
    assert task.metadata["usage"] == {"inputTokens": 20, "outputTokens": 10, "requests": 2}


async def test_a_crash_in_a_tool_repeats_neither_the_model_call_nor_the_finished_tool_beside_it() -> None:
    calls, may_end = list[str](), asyncio.Event()

    @tool(approval_mode="never_require")
    async def quick() -> str:
        calls.append("quick")
        return "quick"

    @tool(approval_mode="never_require")
    async def slow() -> str:
        calls.append("slow")
        await may_end.wait()
        return "slow"

    def both(messages: list[Message], tools: list[Any]) -> Iterator[str | Call]:
        if results := tool_results(messages):
            yield " and ".join(results)
        else:
            yield "Both: "
            yield "quick", {}
            yield "slow", {}

    thing = agent("Both", both, tools=[quick, slow])
    async with running(Agent.of(thing)) as client:
        task = await client.start("Go")
        await client.crash_when(lambda event: "'text': 'quick'" in repr(event))
        may_end.set()
        await client.restart()
        task = await client.finished(task)
    assert client.text(task) == "Both: \n\nquick and slow"
    assert calls == ["quick", "slow", "slow"]
    assert calls_of(thing) == 2


class OneIdClient(ScriptedClient):
    """A model that gives all calls the same id."""

    async def _updates(self, messages: list[Message], tools: list[Any]) -> AsyncIterator[ChatResponseUpdate]:
        async for update in super()._updates(messages, tools):
            for content in update.contents:
                if content.type == "function_call":
                    content.call_id = "call"
            yield update


async def test_each_call_gets_its_own_result_after_a_crash_also_if_the_model_repeats_ids() -> None:
    @tool(approval_mode="never_require")
    async def double(number: int) -> str:
        return str(2 * number)

    def script(messages: list[Message], tools: list[Any]) -> Iterator[str | Call]:
        results = tool_results(messages)
        if len(results) < 2:
            yield "double", {"number": len(results) + 1}
        else:
            yield " and ".join(results)

    thing = Agent.of(FrameworkAgent(OneIdClient(script), name="Doubler", tools=[double]))
    async with running(thing) as client:
        assert client.text(await client.send("Go")) == "2 and 4"
    await survives_crashes(thing, "Go")


class Shout(ChatMiddleware):
    """Middleware that changes what the model says."""

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        def loud(update: ChatResponseUpdate) -> ChatResponseUpdate:
            for content in update.contents:
                if content.type == "text" and content.text:
                    content.text = content.text.upper()
            return update

        context.stream_transform_hooks.append(loud)
        await call_next()


async def test_what_middleware_makes_of_the_text_is_said_also_after_a_crash() -> None:
    thing = Agent.of(agent("Worker", samples.work, tools=[samples.charge], middleware=[Shout()]))
    async with running(thing) as client:
        task = await client.send("Go")
    assert client.text(task) == "ALL DONE."
    await survives_crashes(thing, "Go")


# --- questions --------------------------------------------------------------------------------------------------------


def say_results(messages: list[Message], tools: list[Any]) -> Iterator[str | Call]:
    if results := tool_results(messages):
        yield " / ".join(results)
    else:
        yield "deploy", {"to": "rome"}
        yield "deploy", {"to": "oslo"}


async def test_two_calls_are_two_questions_and_each_has_its_own_answer() -> None:
    thing = Agent.of(agent("Deployer", say_results, tools=[samples.deploy]))
    async with running(thing) as client:
        task = await client.send("Go")
        assert task.status.message is not None
        assert task.status.message.text == "May I do this: deploy(to='rome')? Answer yes or no."
        task = await client.send("no", task=task)
        task = await client.send("yes", task=task)
    assert client.text(task) == "Error: Tool call invocation was rejected by user. / deployed to oslo"
    await survives_crashes(thing, "Go", answers=["no", "yes"])


async def test_a_tool_without_an_implementation_asks_the_caller_for_its_result() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    weather = FunctionTool(name="weather", description="Looks out of the window.", input_model=schema)

    def forecast(messages: list[Message], tools: list[Any]) -> Iterator[str | Call]:
        if results := tool_results(messages):
            yield f"It is {results[0]}."
        else:
            yield "weather", {"city": "Rome"}

    thing = Agent.of(agent("Forecaster", forecast, tools=[weather]))
    async with running(thing) as client:
        task = await client.send("Go")
        assert task.status.message is not None
        assert task.status.message.text == "What is the result of weather(city='Rome')?"
        task = await client.send("sunny", task=task)
    assert client.text(task) == "It is sunny."
    await survives_crashes(thing, "Go", answers=["sunny"])


async def test_the_usage_counts_what_came_before_a_question() -> None:
    async with running(Agent.of(samples.asker)) as client:
        task = await client.send("Go")
        task = await client.send("yes", task=task)
        assert task.metadata["usage"] == {"inputTokens": 20, "outputTokens": 10, "requests": 2}
        again = await say(client, "Go", after=task)
        assert again.status.state is TaskState.INPUT_REQUIRED


# --- input and output -------------------------------------------------------------------------------------------------


async def test_files_and_data_are_content_of_the_framework() -> None:
    def show(messages: list[Message], tools: list[Any]) -> Iterator[str | Call]:
        yield repr([(content.type, content.text or content.uri) for content in messages[-1].contents])

    async with running(Agent.of(agent("Shower", show))) as client:
        task = await client.send("Look", {"page": 1}, File(b"\x89PNG", "dot.png"), File(b"%PDF", "page.pdf"))
    assert client.text(task) == repr([
        ("text", "Look"),
        ("text", '{"page":1}'),
        ("data", "data:image/png;base64,iVBORw=="),
        ("data", "data:application/pdf;base64,JVBERg=="),
    ])  # fmt: skip


class Painter(BaseAgent):
    """An agent of one's own: it takes no middleware, and makes a file."""

    def run(self, messages: Any = None, *, stream: bool = False, session: Any = None, **options: Any) -> Any:
        async def updates() -> AsyncIterator[AgentResponseUpdate]:
            contents = [Content.from_text("Here: "), Content.from_data(b"\x89PNG", "image/png")]
            yield AgentResponseUpdate(contents=contents, role="assistant")

        return ResponseStream(updates(), finalizer=AgentResponse.from_updates)


class Careful(BaseAgent):
    """An agent of one's own that needs a consent first."""

    def run(self, messages: Any = None, *, stream: bool = False, session: Any = None, **options: Any) -> Any:
        async def updates() -> AsyncIterator[AgentResponseUpdate]:
            if messages[-1].text == "done":
                content = Content.from_text("Thanks.")
            else:
                content = Content.from_oauth_consent_request("https://consent.example/1")
            yield AgentResponseUpdate(contents=[content], role="assistant")

        return ResponseStream(updates(), finalizer=AgentResponse.from_updates)


async def test_a_consent_is_asked_for() -> None:
    async with running(Agent.of(Careful(name="Careful"))) as client:
        task = await client.send("Go")
        assert task.status.state is TaskState.AUTH_REQUIRED
        assert task.status.message is not None
        assert "https://consent.example/1" in task.status.message.text
        task = await client.send("done", task=task)
    assert client.text(task) == "Thanks."


class HangingClient(ScriptedClient):
    """A model that says something and then nothing more."""

    async def _updates(self, messages: list[Message], tools: list[Any]) -> AsyncIterator[ChatResponseUpdate]:
        updates = super()._updates(messages, tools)
        yield await anext(updates)
        try:
            await asyncio.Event().wait()
        finally:
            samples.STOPPED.set()


async def test_a_cancel_stops_the_model() -> None:
    samples.STOPPED.clear()
    async with running(Agent.of(FrameworkAgent(HangingClient(samples.speak), name="Hanger"))) as client:
        events = client.stream("Go")
        task = await anext(events)
        async for event in events:
            if says("Hello")(event):
                break
        assert (await client.cancel(task.id)).status.state is TaskState.CANCELED
        assert await asyncio.to_thread(samples.STOPPED.wait, 30)


async def test_an_agent_of_one_s_own_is_served_and_its_file_is_in_the_response() -> None:
    async with running(Agent.of(Painter(name="Painter", description="Paints."))) as client:
        task = await client.send("Go")
    (artifact,) = task.artifacts
    assert client.text(task) == "Here: "
    assert artifact.parts[1] == RawPart(b"\x89PNG", "image/png")
