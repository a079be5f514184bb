"""What models of google-adk say beyond text, and what apps and options change."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig
from google.adk.apps.app import App
from google.adk.artifacts import FileArtifactService
from google.adk.memory import InMemoryMemoryService
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from framework_tests.google_adk.samples import Said, call, results, scripted, user_texts
from framework_tests.suite import say
from parley import Agent
from parley.protocol.events import ArtifactUpdate
from parley.protocol.messages import DataPart, RawPart, TextPart, text_of
from parley.protocol.tasks import TaskState
from parley.testing import running

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore")]


async def test_thoughts_are_not_said_and_pictures_are_files() -> None:
    parts = [
        types.Part(text="Hm.", thought=True),
        types.Part(text="Here it is: "),
        types.Part.from_bytes(data=b"PNG", mime_type="image/png"),
    ]
    async with running(Agent.of(LlmAgent(name="painter", model=scripted(lambda request: parts)))) as client:
        task = await client.send("Paint")
    (response,) = task.artifacts
    assert response.parts == (TextPart("Here it is: "), RawPart(b"PNG", "image/png"))


async def test_what_a_callback_makes_of_the_whole_text_is_said_as_well() -> None:
    def warn(callback_context: Any, llm_response: LlmResponse) -> LlmResponse | None:
        return None if llm_response.partial else LlmResponse(content=types.ModelContent("No advice."))

    model = scripted(lambda request: ["Buy ", "gold."])
    async with running(Agent.of(LlmAgent(name="bank", model=model, after_model_callback=warn))) as client:
        task = await client.send("Go")
    assert client.text(task) == "Buy gold.\n\nNo advice."


class Convert:
    """Converts money.

    More about it.
    """

    def __call__(self, amount: int) -> int:
        return amount


def test_tools_of_all_kinds_and_sub_agents_are_skills() -> None:
    model = scripted(lambda request: [""])
    namesake = LlmAgent(name="lookup", description="Knows all rates.", model=model)
    agent = LlmAgent(name="bank", model=model, tools=[FunctionTool(lookup), Convert()], sub_agents=[namesake])
    skills = [(skill.id, skill.description) for skill in Agent.of(agent).card().skills]
    assert skills == [("lookup", "Looks a rate up."), ("Convert", "Converts money.")]


def lookup() -> float:
    """Looks a rate up."""
    return 0.9


async def test_a_result_that_no_model_summarizes_is_the_output() -> None:
    def rate(tool_context: ToolContext) -> dict[str, Any]:
        """Tells the rate."""
        tool_context.actions.skip_summarization = True
        return {"rate": 0.9}

    agent = LlmAgent(name="bank", model=scripted(lambda request: call("rate")), tools=[rate])
    async with running(Agent.of(agent)) as client:
        task = await client.send("Go")
    assert [part for artifact in task.artifacts for part in artifact.parts] == [DataPart({"rate": 0.9})]


class FailingModel(BaseLlm):
    """A model whose provider refuses."""

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> Any:
        yield LlmResponse(error_code="PROHIBITED_CONTENT", error_message="secret of the provider")


async def test_an_error_of_the_model_fails_the_task_and_stays_in_the_log() -> None:
    async with running(Agent.of(LlmAgent(name="failing", model=FailingModel(model="failing")))) as client:
        task = await client.send("Go")
    assert task.status.state is TaskState.FAILED
    assert "secret" not in repr(task)


async def test_data_reaches_the_model_as_json() -> None:
    def repeat(request: LlmRequest) -> Said:
        return [str(part.text) for part in request.contents[-1].parts or ()]

    async with running(Agent.of(LlmAgent(name="echo", model=scripted(repeat)))) as client:
        task = await client.send("See: ", {"days": 3})
    assert client.text(task) == 'See: {"days":3}'


async def test_a_plain_tool_does_not_block_the_event_loop() -> None:
    threads: list[bool] = []

    def work() -> str:
        """Works."""
        threads.append(threading.current_thread() is threading.main_thread())
        return "done"

    def script(request: LlmRequest) -> Said:
        return ["Done."] if results(request) else call("work")

    async with running(Agent.of(LlmAgent(name="worker", model=scripted(script), tools=[work]))) as client:
        await client.send("Go")
    assert threads == [False]


class Stamp(BasePlugin):
    """Changes what users say."""

    async def on_user_message_callback(self, *, invocation_context: Any, user_message: types.Content) -> types.Content:
        return types.UserContent(f"{(user_message.parts or [types.Part()])[0].text}!")


async def test_the_plugins_of_an_app_are_used() -> None:
    def repeat(request: LlmRequest) -> Said:
        return [str((request.contents[-1].parts or [types.Part()])[0].text)]

    app = App(name="stamped", root_agent=LlmAgent(name="echo", model=scripted(repeat)), plugins=[Stamp("stamp")])
    agent = Agent.of(app)
    assert agent.name == "stamped"
    async with running(agent) as client:
        assert client.text(await client.send("Hello")) == "Hello!"


async def test_the_options_of_a_run_and_an_artifact_service_can_be_given(tmp_path: Path) -> None:
    async def save(tool_context: ToolContext) -> str:
        """Saves."""
        part = types.Part.from_bytes(data=b"N", mime_type="text/plain")
        return f"version {await tool_context.save_artifact('map.txt', part)}"

    def script(request: LlmRequest) -> Said:
        return ["Saved ", "it."] if results(request) else call("save")

    thing = LlmAgent(name="mapper", model=scripted(script), tools=[save])
    agent = Agent.of(thing, run_config=RunConfig(), artifact_service=FileArtifactService(tmp_path), name="Mapper")
    async with running(agent) as client:
        events = [event async for event in client.stream("Go")]
    written = [event.artifact for event in events if isinstance(event, ArtifactUpdate)]
    maps = [part for one in written if one.name == "map.txt" for part in one.parts if isinstance(part, RawPart)]
    assert maps == [RawPart(b"N", "text/plain", "map.txt")]
    texts = [text_of(one.parts) for one in written if one.artifact_id == "response"]
    assert [text for text in texts if text] == ["Saved it."], "without streaming"
    assert [path.read_bytes() for path in tmp_path.rglob("map.txt") if path.is_file()] == [b"N"]


async def test_tools_know_the_caller_and_can_search_memory() -> None:
    async def look_back(tool_context: ToolContext) -> str:
        """Looks back."""
        found = await tool_context.search_memory("Rome")
        return f"{tool_context.user_id} remembers {len(found.memories)}"

    def script(request: LlmRequest) -> Said:
        done = results(request)
        return [done[-1]["result"]] if done else call("look_back")

    thing = LlmAgent(name="rememberer", model=scripted(script), tools=[look_back])
    async with running(Agent.of(thing, memory_service=InMemoryMemoryService())) as client:
        assert client.text(await client.send("Go")) == "anonymous remembers 0"
        ann = client.as_caller(name="ann@example.com")
        assert client.text(await ann.send("Go")) == "ann@example.com remembers 0"


async def test_a_task_that_fails_adds_nothing_to_the_conversation() -> None:
    def script(request: LlmRequest) -> Said:
        texts = user_texts(request)
        if texts[-1] == "fail":
            raise RuntimeError
        return [", ".join(texts)]

    async with running(Agent.of(LlmAgent(name="rememberer", model=scripted(script)))) as client:
        first = await say(client, "one")
        failed = await say(client, "fail", after=first)
        last = await say(client, "two", after=failed)
    assert client.text(last) == "one, two"
