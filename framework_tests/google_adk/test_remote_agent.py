"""Remote A2A agents as sub-agents of google-adk."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from google.adk.agents import LlmAgent, SequentialAgent
from google.adk.models.llm_request import LlmRequest
from tests.cli.served import served

from framework_tests.google_adk.samples import Said, call, scripted
from framework_tests.suite import say
from parley import Agent
from parley.adapters.google_adk.remote import remote_agent
from parley.protocol.events import ArtifactUpdate
from parley.protocol.messages import RawPart, text_of
from parley.protocol.tasks import TaskState
from parley.testing import running

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore")]

REMOTE = """
from dataclasses import dataclass
from parley import Agent, File

agent = Agent("Bar of Rome", description="Makes coffee.")

@dataclass
class Order:
    size: str
    milk: bool

@agent.on_message
async def order(turn):
    if turn.text == "menu":
        yield "The "
        yield "menu."
        yield File(b"coffee", "menu.txt", "text/plain")
    elif turn.text == "beer":
        await turn.fail("No beer here.")
    elif turn.text == "again":
        yield f"As before: {await turn.context.get('last', 'nothing')}"
    else:
        yield "One moment. "
        order = await turn.ask("Which one?", form=Order)
        await turn.context.set("last", order.size)
        yield f"One {order.size} {turn.text}" + (" with milk." if order.milk else ".")
"""


@pytest.fixture(scope="module")
def bar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("bar")
    (folder / "bar.py").write_text(REMOTE)
    with served("bar.py", "--port", "0", "--store", "memory:", cwd=folder) as server:
        yield server.until_ready()


async def concierge(url: str) -> LlmAgent:
    """An agent that transfers everything to the bar."""

    def script(request: LlmRequest) -> Said:
        return call("transfer_to_agent", agent_name="bar_of_rome")

    remote = await asyncio.to_thread(remote_agent, url)
    return LlmAgent(name="concierge", model=scripted(script), sub_agents=[remote])


async def test_a_remote_agent_takes_its_name_and_description_from_its_card(bar: str) -> None:
    remote = await asyncio.to_thread(remote_agent, bar)
    assert (remote.name, remote.description.splitlines()[0]) == ("bar_of_rome", "Makes coffee.")


async def test_its_text_is_streamed_and_its_files_come_through(bar: str) -> None:
    async with running(Agent.of(await concierge(bar))) as client:
        events = [event async for event in client.stream("menu")]
        task = await client.get(events[0].id)
    chunks = [text_of(event.artifact.parts) for event in events if isinstance(event, ArtifactUpdate)]
    assert [chunk for chunk in chunks if chunk] == ["The ", "menu."]
    files = [part for artifact in task.artifacts for part in artifact.parts if isinstance(part, RawPart)]
    assert [(file.raw, file.media_type) for file in files] == [(b"coffee", "text/plain")]


async def test_its_question_is_asked_with_its_form_and_the_answer_reaches_it(bar: str) -> None:
    async with running(Agent.of(await concierge(bar))) as client:
        asked = await say(client, "espresso")
        assert asked.status.state is TaskState.INPUT_REQUIRED
        assert asked.status.message
        assert asked.status.message.text == "Which one?"
        await client.restart()
        task = await client.send({"size": "small", "milk": True}, task=asked)
        assert client.text(task) == "One moment. \n\nOne small espresso with milk."
        assert client.text(await say(client, "again", after=task)) == "As before: small"


async def test_it_is_told_what_the_agent_before_it_said(bar: str) -> None:
    first = LlmAgent(name="first", model=scripted(lambda request: ["menu"]))
    thing = SequentialAgent(name="both", sub_agents=[first, await asyncio.to_thread(remote_agent, bar)])
    async with running(Agent.of(thing)) as client:
        task = await client.send("What is there?")
    assert client.text(task) == "menu\n\nThe menu."


async def test_its_failure_is_a_failure(bar: str) -> None:
    async with running(Agent.of(await asyncio.to_thread(remote_agent, bar))) as client:
        task = await client.send("beer")
    assert task.status.state is TaskState.FAILED
