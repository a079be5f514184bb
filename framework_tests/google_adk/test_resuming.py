"""Composed agents of google-adk: from every checkpoint, a run goes on as it did, and repeats nothing."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import pytest
from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.exit_loop_tool import exit_loop
from google.adk.tools.tool_context import ToolContext
from google.adk.workflow import JoinNode, Workflow
from google.genai import types

from framework_tests.google_adk.samples import Said, Trip, call, results, scripted
from framework_tests.suite import say
from parley import Agent, Turn
from parley.adapters.adapter import Checkpoint, End, Output, Piece, Progress, Start
from parley.adapters.google_adk.adapter import GoogleADKAdapter
from parley.protocol.messages import DataPart, RawPart
from parley.testing import running, survives_crashes

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore")]

WORDS = [f"{number} " for number in range(20)]

WORK: list[str] = []
"""The calls of models and tools, as they come."""


def look(city: str) -> dict[str, Any]:
    """Looks at a city."""
    WORK.append(f"look at {city}")
    return {"seen": city}


async def save_map(tool_context: ToolContext) -> str:
    """Saves a map."""
    WORK.append("save_map")
    tool_context.state["maps"] = tool_context.state["user:maps"] = tool_context.state.get("maps", 0) + 1
    await tool_context.save_artifact("map.txt", types.Part.from_bytes(data=b"N", mime_type="text/plain"))
    return "saved"


def looker(name: str, *cities: str, **options: Any) -> LlmAgent:
    """An agent that looks at cities, one after the other, and then says so."""

    def script(request: LlmRequest) -> Said:
        WORK.append(f"model of {name}")
        seen = len([one for one in results(request) if "seen" in one])
        return call("look", city=cities[seen]) if seen < len(cities) else [f"{name} ", "has ", "looked."]

    return LlmAgent(name=name, model=scripted(script), tools=[look], include_contents="none", **options)


def says(name: str, *words: str, **options: Any) -> LlmAgent:
    def script(request: LlmRequest) -> Said:
        WORK.append(f"model of {name}")
        return words

    return LlmAgent(name=name, model=scripted(script), **options)


def transferring() -> LlmAgent:
    def script(request: LlmRequest) -> Said:
        WORK.append("model of clerk")
        return call("transfer_to_agent", agent_name="guide")

    return LlmAgent(name="clerk", model=scripted(script), sub_agents=[looker("guide", "Rome")])


def leaving_a_loop() -> LoopAgent:
    def script(request: LlmRequest) -> Said:
        WORK.append("model of critic")
        return call("exit_loop") if WORK.count("model of critic") == 2 else ["Again."]

    critic = LlmAgent(name="critic", model=scripted(script), tools=[exit_loop])
    return LoopAgent(name="loop", max_iterations=5, sub_agents=[says("writer", "A draft."), critic])


def leaving_a_loop_by_a_tool() -> LoopAgent:
    def stop(tool_context: ToolContext) -> str:
        """Leaves the loop, after what is left to do."""
        tool_context.actions.escalate = True
        return "stopping"

    def script(request: LlmRequest) -> Said:
        WORK.append("model of critic")
        done = len(results(request))
        return [call("stop"), call("look", city="Rome"), ["Good."]][done]

    critic = LlmAgent(name="critic", model=scripted(script), tools=[stop, look])
    return LoopAgent(name="loop", max_iterations=5, sub_agents=[critic])


def mapping() -> LlmAgent:
    def script(request: LlmRequest) -> Said:
        WORK.append("model of mapper")
        return ["The map is ", "saved."] if results(request) else call("save_map")

    return LlmAgent(name="mapper", model=scripted(script), tools=[save_map])


def planning_with_tools() -> LlmAgent:
    def script(request: LlmRequest) -> Said:
        WORK.append("model of planner")
        return call("set_model_response", city="Rome", days=3) if results(request) else call("look", city="Rome")

    return LlmAgent(name="planner", model=scripted(script), tools=[look], output_schema=Trip)


def asking_inside() -> LlmAgent:
    def script(request: LlmRequest) -> Said:
        WORK.append("model of outer")
        return ["It says: ", results(request)[0]["result"]] if results(request) else call("inner", request="Go")

    return LlmAgent(name="outer", model=scripted(script), tools=[AgentTool(looker("inner", "Rome"))])


def looking_twice_at_once() -> LlmAgent:
    def script(request: LlmRequest) -> Said:
        WORK.append("model of twins")
        return ["Both."] if results(request) else [call("look", city="Rome"), call("look", city="Oslo")]

    return LlmAgent(name="twins", model=scripted(script), tools=[look])


def count_words(node_input: Any) -> dict[str, Any]:
    WORK.append("count_words")
    return {"words": len(str(node_input).split())}


def counting() -> Workflow:
    guide = looker("guide", "Rome")
    return Workflow(name="flow", edges=[("START", guide), (guide, count_words)])


def joining() -> Workflow:
    one, two, join = looker("one", "Rome"), looker("two", "Oslo"), JoinNode(name="join")
    return Workflow(name="flow", edges=[("START", one), ("START", two), (one, join), (two, join), (join, count_words)])


COMPOSED: dict[str, Callable[[], Any]] = {
    "one agent": lambda: looker("guide", "Rome", "Oslo"),
    "two calls at once": looking_twice_at_once,
    "a sequence": lambda: SequentialAgent(name="s", sub_agents=[looker("one", "Rome"), looker("two", "Oslo")]),
    "a loop": lambda: LoopAgent(name="l", max_iterations=2, sub_agents=[looker("one", "Rome"), says("two", "Hm.")]),
    "a loop that is left": leaving_a_loop,
    "a loop that is left by a tool": leaving_a_loop_by_a_tool,
    "a talker side by side with tools": lambda: ParallelAgent(
        name="p", sub_agents=[says("one", *WORDS), looker("two", "Rome", "Oslo", "Bonn", "Paris")]
    ),
    "agents side by side": lambda: ParallelAgent(name="p", sub_agents=[looker("one", "Rome"), looker("two", "Oslo")]),
    "sequences side by side": lambda: ParallelAgent(
        name="p",
        sub_agents=[
            SequentialAgent(name="s", sub_agents=[looker("one", "Rome"), looker("two", "Oslo")]),
            says("three", "Oh."),
        ],
    ),
    "a transfer": transferring,
    "an agent as a tool": asking_inside,
    "saved files": mapping,
    "structured output after tools": planning_with_tools,
    "a workflow": counting,
    "a workflow that joins": joining,
    "an app": lambda: App(name="app", root_agent=looker("guide", "Rome")),
}


async def all_pieces(adapter: GoogleADKAdapter, start: Start) -> list[Piece]:
    return [piece async for piece in adapter.run(start)]


def said(pieces: list[Piece]) -> list[str]:
    """What readers see of pieces, in any order: paragraphs, and everything else."""
    text, others = "", []
    for piece in pieces:
        if isinstance(piece, str):
            text += piece
        elif isinstance(piece, Checkpoint):
            text += "\n\n"
        elif isinstance(piece, Output | Progress):
            others.append(repr(piece))
    return sorted([*[paragraph for paragraph in text.split("\n\n") if paragraph], *others])


@pytest.mark.parametrize("kind", COMPOSED)
async def test_a_run_goes_on_from_every_checkpoint_and_repeats_neither_models_nor_tools(kind: str) -> None:
    """The adapter is driven by hand: an agent that tries every way to go on within one message."""
    tried: list[int] = []
    agent = Agent("Trier")

    @agent.on_message
    async def try_all(turn: Turn) -> str:
        WORK.clear()
        whole: list[Piece] = []
        done_at: list[tuple[int, int]] = []
        async for piece in GoogleADKAdapter(COMPOSED[kind]()).run(Start(turn=turn)):
            whole.append(piece)
            if isinstance(piece, Checkpoint):
                done_at.append((len(whole), len(WORK)))
        all_work = [*WORK]
        states = [piece.state for piece in whole if isinstance(piece, Checkpoint)]
        for number, (at, work) in enumerate(done_at, 1):
            WORK[:] = all_work[:work]
            rest = await all_pieces(GoogleADKAdapter(COMPOSED[kind]()), Start(turn=turn, states=tuple(states[:number])))
            assert said(rest) == said(whole[at:])
            if "side" in kind:  # what another agent was in the middle of is done again
                assert set(WORK) == set(all_work)
            else:
                assert sorted(WORK) == sorted(all_work), f"after checkpoint {number}"
            assert isinstance(rest[-1], End)
            assert isinstance(whole[-1], End)
            assert rest[-1].usage == whole[-1].usage
            tried.append(number)
        return "tried"

    async with running(agent) as client:
        assert client.text(await client.send("Go")) == "tried"
    assert tried, "there was no checkpoint"


@pytest.mark.parametrize("kind", [kind for kind in COMPOSED if kind != "a loop that is left"])
async def test_composed_agents_survive_crashes(kind: str) -> None:
    """All but the loop whose script counts the calls of all runs. Agents side by side may come in another order."""
    thing = COMPOSED[kind]()
    agent = Agent.of(thing)
    async with running(agent) as client:
        expected = sorted(client.text(await client.send("Go")).split("\n\n"))
    await survives_crashes(agent, "Go", accept=lambda text: sorted(text.split("\n\n")) == expected)


async def test_texts_of_agents_side_by_side_are_not_mixed() -> None:
    thing = ParallelAgent(name="p", sub_agents=[says("one", *WORDS), says("two", *reversed(WORDS), *WORDS)])
    async with running(Agent.of(thing)) as client:
        task = await client.send("Go")
    assert client.text(task) == "\n\n".join(["".join(WORDS), "".join([*reversed(WORDS), *WORDS])])


async def test_texts_of_a_sequence_are_paragraphs() -> None:
    thing = SequentialAgent(name="s", sub_agents=[says("one", "One."), says("two", "Two.")])
    async with running(Agent.of(thing)) as client:
        task = await client.send("Go")
    assert client.text(task) == "One.\n\nTwo."


async def test_the_output_of_a_workflow_is_data() -> None:
    async with running(Agent.of(App(name="flow", root_agent=counting()))) as client:
        task = await client.send("Go")
    parts = [part for artifact in task.artifacts for part in artifact.parts]
    assert [part.data for part in parts if isinstance(part, DataPart)] == [{"words": 3}]


async def test_files_and_state_of_tools_last_as_long_as_the_conversation() -> None:
    async def look_back(tool_context: ToolContext) -> str:
        """Looks at what was saved."""
        part = await tool_context.load_artifact("map.txt")
        assert part
        assert part.inline_data
        return f"{part.inline_data.data!r}, {tool_context.state['maps']} and {tool_context.state['user:maps']} saved"

    def script(request: LlmRequest) -> Said:
        if done := results(request):
            return [str(done[-1])]
        asked = [part.text for content in request.contents for part in content.parts or () if part.text]
        return call("save_map" if asked[-1] == "Save" else "look_back")

    thing = LlmAgent(name="mapper", model=scripted(script), tools=[save_map, look_back])
    async with running(Agent.of(thing)) as client:
        first = await client.send("Save")
        files = [part for artifact in first.artifacts if artifact.name == "map.txt" for part in artifact.parts]
        assert files == [RawPart(b"N", "text/plain", "map.txt")]
        second = await say(client, "Look back", after=first)
    assert "b'N', 1 and 1 saved" in client.text(second)


class Counter(BaseAgent):
    """An agent with code of its own, which knows nothing of resuming."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        for number in ("one", "two"):
            WORK.append(number)
            parts = [types.Part.from_function_call(name="count", args={"to": number})]
            yield Event(invocation_id=ctx.invocation_id, author=self.name, content=types.ModelContent(parts))
            yield Event(invocation_id=ctx.invocation_id, author=self.name, content=types.ModelContent(number))


async def checkpoints(thing: Any) -> int:
    found: list[Piece] = []
    agent = Agent("Counting")

    @agent.on_message
    async def run(turn: Turn) -> AsyncIterator[str]:
        async for piece in GoogleADKAdapter(thing).run(Start(turn=turn)):
            if isinstance(piece, Checkpoint):
                found.append(piece)
            elif isinstance(piece, str):
                yield piece

    async with running(agent) as client:
        assert client.text(await client.send("Go"))
    return len(found)


async def test_an_agent_with_code_of_its_own_has_checkpoints_only_if_its_app_is_resumable() -> None:
    resumable, fixed = ResumabilityConfig(is_resumable=True), ResumabilityConfig(is_resumable=False)
    assert await checkpoints(Counter(name="counter")) == 0
    assert await checkpoints(App(name="app", root_agent=Counter(name="counter"), resumability_config=resumable)) > 0
    assert await checkpoints(App(name="app", root_agent=looker("guide", "Rome"))) > 0
    assert await checkpoints(App(name="app", root_agent=looker("guide", "Rome"), resumability_config=fixed)) == 0
    await survives_crashes(Agent.of(Counter(name="counter")), "Go")
