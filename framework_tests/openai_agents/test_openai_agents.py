"""The adapter of the OpenAI Agents SDK."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from agents.mcp import MCPServer
from mcp.types import CallToolResult, TextContent, Tool
from openai.types.responses import ResponseFunctionWebSearch
from openai.types.responses.response_output_item import ImageGenerationCall

from agents import (
    Agent,
    GuardrailFunctionOutput,
    Handoff,
    InputGuardrail,
    OutputGuardrail,
    RunConfig,
    RunContextWrapper,
    RunHooks,
    function_tool,
    handoff,
)
from framework_tests.openai_agents import samples
from framework_tests.openai_agents.samples import Call, Script, ScriptedModel, agent, tool_results, user_texts
from framework_tests.suite import AdapterSuite, say
from parley import Agent as ParleyAgent
from parley import File
from parley.adapters.adapter import Output, Progress
from parley.adapters.openai_agents.items import decode_response, encode_response, pieces_in
from parley.agents.turn import Turn
from parley.protocol.events import ArtifactUpdate, TaskEvent
from parley.protocol.messages import RawPart, text_of
from parley.protocol.tasks import TaskState
from parley.testing import running, survives_crashes

pytestmark = pytest.mark.anyio


class TestOpenAIAgents(AdapterSuite):
    samples = samples


def says(text: str) -> Any:
    """Whether an event holds this text."""

    def matches(event: TaskEvent) -> bool:
        return isinstance(event, ArtifactUpdate) and text in text_of(event.artifact.parts)

    return matches


def model_of(thing: Agent[Any]) -> ScriptedModel:
    assert isinstance(thing.model, ScriptedModel)
    return thing.model


# --- restarts ---------------------------------------------------------------------------------------------------------


async def test_no_finished_model_call_is_repeated_after_a_crash() -> None:
    results_seen: list[int] = []

    def work(items: list[Any], tools: list[Any]) -> Iterator[str | Call]:
        results_seen.append(len(tool_results(items)))
        return samples.work(items, tools)

    async with running(ParleyAgent.of(agent("Worker", work, tools=[samples.charge]))) as client:
        task = await client.start("Go")
        await client.crash_when(says("All"))
        await client.restart()
        task = await client.finished(task)
    assert client.text(task) == "All done."
    assert results_seen.count(0) == 1, "the first model call was finished"
    assert task.metadata["usage"] == {"inputTokens": 20, "outputTokens": 10, "requests": 2}


async def test_a_crash_in_a_tool_repeats_neither_the_model_call_nor_the_finished_tool_beside_it() -> None:
    calls, may_end = list[str](), asyncio.Event()

    @function_tool
    async def quick() -> str:
        calls.append("quick")
        return "quick"

    @function_tool
    async def slow() -> str:
        calls.append("slow")
        await may_end.wait()
        return "slow"

    def both(items: list[Any], tools: list[Any]) -> Iterator[str | Call]:
        if results := tool_results(items):
            yield " and ".join(results)
        else:
            yield "Both: "
            yield "quick", {}
            yield "slow", {}

    thing = agent("Both", both, tools=[quick, slow])
    async with running(ParleyAgent.of(thing)) as client:
        task = await client.start("Go")
        await client.crash_when(lambda event: "'output': 'quick'" in repr(event))
        may_end.set()
        await client.restart()
        task = await client.finished(task)
    assert client.text(task) == "Both: \n\nquick and slow"
    assert calls == ["quick", "slow", "slow"]
    assert model_of(thing).calls == 2


async def test_the_model_of_the_run_config_is_replayed_too() -> None:
    model = ScriptedModel(samples.work)
    worker = Agent("Worker", tools=[samples.charge], model="of no provider")
    async with running(ParleyAgent.of(worker, run_config=RunConfig(model=model))) as client:
        task = await client.start("Go")
        await client.crash_when(says("All"))
        await client.restart()
        task = await client.finished(task)
    assert client.text(task) == "All done."
    assert model.calls in (2, 3), "the second call was cut off or not"


async def test_an_agent_that_is_a_tool_has_the_model_of_the_run_config_after_a_crash_too() -> None:
    def say(items: list[Any], tools: list[Any]) -> Iterator[str | Call]:
        if not tools:
            yield "I am inside."
        else:
            yield from tool_results(items) or ["One moment. ", ("inner", {"input": "Go"})]

    inner = Agent("Inner", model="of no provider")
    outer = Agent("Outer", tools=[inner.as_tool("inner", "Is inside.")], model="of no provider")
    async with running(ParleyAgent.of(outer, run_config=RunConfig(model=ScriptedModel(say)))) as client:
        task = await client.start("Go")
        await client.crash_when(lambda event: "'response'" in repr(event))
        await client.restart()
        task = await client.finished(task)
    assert client.text(task) == "One moment. \n\nI am inside."


class Till(MCPServer):
    """An MCP server in this process, with one tool."""

    name = "till"

    async def connect(self) -> None: ...
    async def cleanup(self) -> None: ...
    async def list_prompts(self) -> Any: ...
    async def get_prompt(self, name: str, arguments: Any = None) -> Any: ...

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[Tool]:
        return [Tool(name="charge", input_schema={"type": "object", "properties": {"amount": {"type": "integer"}}})]

    async def call_tool(self, tool_name: str, arguments: Any, meta: Any = None) -> CallToolResult:
        samples.EFFECTS.append("charged")
        return CallToolResult(content=[TextContent(type="text", text="charged by MCP")])


async def test_a_finished_call_of_an_mcp_server_is_not_repeated_after_a_crash() -> None:
    samples.EFFECTS.clear()

    def work(items: list[Any], tools: list[Any]) -> Iterator[str | Call]:
        if results := tool_results(items):
            yield f"Done: {results}"
        else:
            yield "charge", {"amount": 5}

    worker = ParleyAgent.of(agent("Worker", work, mcp_servers=[Till()]))
    async with running(worker) as client:
        task = await client.start("Go")
        await client.crash_when(says("Done"))
        await client.restart()
        task = await client.finished(task)
    assert client.text(task) == "Done: [[{'type': 'input_text', 'text': 'charged by MCP'}]]"
    assert samples.EFFECTS == ["charged"]
    await survives_crashes(worker, "Go")


# --- questions --------------------------------------------------------------------------------------------------------


async def test_a_call_that_is_not_approved_is_not_made() -> None:
    def say_result(items: list[Any], tools: list[Any]) -> Iterator[str | Call]:
        if results := tool_results(items):
            yield f"I was told: {results[0]}"
        else:
            yield "deploy", {"to": "rome"}

    async with running(ParleyAgent.of(agent("Deployer", say_result, tools=[samples.deploy]))) as client:
        task = await client.send("Go")
        assert task.status.message is not None
        assert task.status.message.text == "May I do this: deploy(to='rome')? Answer yes or no."
        task = await client.send("no", task=task)
    assert client.text(task) == "I was told: Tool execution was not approved."


async def test_two_calls_are_two_questions_and_each_has_its_own_answer() -> None:
    def say_results(items: list[Any], tools: list[Any]) -> Iterator[str | Call]:
        if results := tool_results(items):
            yield " / ".join(results)
        else:
            yield "deploy", {"to": "rome"}
            yield "deploy", {"to": "oslo"}

    thing = ParleyAgent.of(agent("Deployer", say_results, tools=[samples.deploy]))
    async with running(thing) as client:
        task = await client.send("Go")
        task = await client.send("no", task=task)
        task = await client.send("yes", task=task)
    assert client.text(task) == "Tool execution was not approved. / deployed to oslo"
    await survives_crashes(thing, "Go", answers=["no", "yes"])


async def test_the_question_of_an_agent_that_is_a_tool_is_asked_and_survives_crashes() -> None:
    inner = agent("Deployer", samples.ask_to_deploy, tools=[samples.deploy])

    def use_inner(items: list[Any], tools: list[Any]) -> Iterator[str | Call]:
        if results := tool_results(items):
            yield f"It says: {results[0]}"
        else:
            yield "deployer", {"input": "to rome"}

    outer = agent("Outer", use_inner, tools=[inner.as_tool("deployer", "Deploys.")])
    async with running(ParleyAgent.of(outer)) as client:
        task = await client.send("Go")
        assert task.status.state is TaskState.INPUT_REQUIRED
        await client.crash()
        await client.restart()
        task = await client.send("yes", task=task)
        assert client.text(task) == "It says: Deployed: deployed to rome."
        assert model_of(inner).calls == 2
        assert model_of(outer).calls == 2
    await survives_crashes(ParleyAgent.of(outer), "Go", answers=["yes"])


@dataclass
class Basket:
    customer: str
    things: list[str] = field(default_factory=list)


async def test_the_context_is_made_of_the_turn_and_a_mapping_is_kept_over_questions() -> None:
    @function_tool
    def put(context: RunContextWrapper[Any], thing: str) -> str:
        context.context["things"].append(thing)
        return "done"

    @function_tool(needs_approval=True)
    def pay(context: RunContextWrapper[Any]) -> str:
        return f"{context.context['customer']} paid for {context.context['things']}"

    def shop(items: list[Any], tools: list[Any]) -> Iterator[str | Call]:
        match tool_results(items):
            case []:
                yield "put", {"thing": "bread"}
            case ["done"]:
                yield "pay", {}
            case [*_, paid]:
                yield paid

    thing = agent("Shop", shop, tools=[put, pay])
    made = ParleyAgent.of(thing, context=lambda turn: {"customer": turn.caller.name, "things": []})
    async with running(made) as client:
        task = await client.send("Go")
        await client.crash()
        await client.restart()
        task = await client.send("yes", task=task)
    assert client.text(task) == f"{client.caller.name} paid for ['bread']"


async def test_an_async_function_can_make_the_context() -> None:
    @function_tool
    def who(context: RunContextWrapper[Any]) -> str:
        return context.context

    async def load(turn: Turn) -> str:
        return f"caller {turn.caller.name}"

    def say_result(items: list[Any], tools: list[Any]) -> Iterator[str | Call]:
        yield from tool_results(items) or [("who", {})]

    async with running(ParleyAgent.of(agent("Who", say_result, tools=[who]), context=load)) as client:
        assert client.text(await client.send("Go")) == f"caller {client.caller.name}"


async def test_a_context_of_a_class_of_ones_own_is_made_anew_after_a_question() -> None:
    @function_tool(needs_approval=True)
    def pay(context: RunContextWrapper[Basket]) -> str:
        return f"{context.context.customer} paid"

    def shop(items: list[Any], tools: list[Any]) -> Iterator[str | Call]:
        yield from tool_results(items) or [("pay", {})]

    made = ParleyAgent.of(agent("Shop", shop, tools=[pay]), context=lambda turn: Basket(f"Customer of {turn.text}"))
    async with running(made) as client:
        task = await client.send("Go")
        task = await client.send("yes", task=task)
    assert client.text(task) == "Customer of Go paid"


# --- handoffs ---------------------------------------------------------------------------------------------------------


def hand_off_to(name: str) -> Script:
    def script(items: list[Any], tools: list[Any]) -> Iterator[str | Call]:
        yield "One moment. "
        yield f"transfer_to_{name}", {}

    return script


def as_agent(other: Agent[Any]) -> Agent[Any]:
    return other


def as_handoff(other: Agent[Any]) -> Handoff[Any, Any]:
    return handoff(other)


@pytest.mark.parametrize("form", [as_agent, as_handoff])
async def test_an_agent_hands_off_and_the_other_one_has_the_conversation(form: Any) -> None:
    samples.EFFECTS.clear()
    biller = agent("biller", samples.work, tools=[samples.charge], handoff_description="Charges.")
    triage = agent("Triage", hand_off_to("biller"), handoffs=[form(biller)])
    async with running(ParleyAgent.of(triage)) as client:
        task = await client.start("Go")
        await client.crash_when(says("All"))
        await client.restart()
        task = await client.finished(task)
        assert client.text(task) == "One moment. \n\nAll done."
        assert samples.EFFECTS == ["charged"]
        assert model_of(triage).calls == 1
        again = await say(client, "More", after=task)
        assert client.text(again) == "All done."
        assert model_of(triage).calls == 1
    assert [skill.id for skill in ParleyAgent.of(triage).card().skills] == ["biller"]
    await survives_crashes(ParleyAgent.of(triage), "Go")


async def test_the_question_of_an_agent_that_was_handed_off_to_survives_crashes() -> None:
    deployer = agent("deployer", samples.ask_to_deploy, tools=[samples.deploy])
    triage = agent("Triage", hand_off_to("deployer"), handoffs=[handoff(deployer)])
    await survives_crashes(ParleyAgent.of(triage), "Go", answers=["yes"])
    async with running(ParleyAgent.of(triage)) as client:
        task = await client.send("Go")
        task = await client.send("yes", task=task)
    assert client.text(task) == f"One moment. \n\n{samples.ANSWERED}"


# --- guardrails and hooks ---------------------------------------------------------------------------------------------


def trips(*_: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info="secret", tripwire_triggered=True)


def fails(*_: Any) -> GuardrailFunctionOutput:
    raise RuntimeError("secret")


@pytest.mark.parametrize("in_parallel", [True, False])
@pytest.mark.parametrize(("check", "state"), [(trips, TaskState.REJECTED), (fails, TaskState.FAILED)])
async def test_an_input_guardrail_that_trips_rejects_the_message(
    check: Any, state: TaskState, in_parallel: bool
) -> None:
    samples.EFFECTS.clear()
    guardrail = InputGuardrail(check, run_in_parallel=in_parallel)
    thing = agent("Worker", samples.work, tools=[samples.charge], input_guardrails=[guardrail])
    async with running(ParleyAgent.of(thing)) as client:
        task = await client.send("Go")
    assert task.status.state is state
    assert "secret" not in repr(task)
    assert samples.EFFECTS == []


async def test_an_input_guardrail_that_trips_while_the_model_speaks_rejects_the_message() -> None:
    thing = agent("Speaker", samples.speak, input_guardrails=[InputGuardrail(trips)])
    async with running(ParleyAgent.of(thing)) as client:
        task = await client.send("Go")
    assert task.status.state is TaskState.REJECTED


@pytest.mark.parametrize("place", ["agent", "run_config"])
async def test_text_is_shown_after_output_guardrails_have_checked_it(place: str) -> None:
    def check(context: Any, agent: Any, output: str) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered="bad" in output)

    options: dict[str, Any] = {"output_guardrails": [OutputGuardrail(check)]}
    thing = agent("Echo", lambda items, tools: user_texts(items), **(options if place == "agent" else {}))
    run_config = RunConfig(**(options if place == "run_config" else {}))
    async with running(ParleyAgent.of(thing, run_config=run_config)) as client:
        good, bad = await client.send("good"), await client.send("bad")
    assert (good.status.state, client.text(good)) == (TaskState.COMPLETED, "good")
    assert (bad.status.state, client.text(bad)) == (TaskState.FAILED, "")


async def test_hooks_of_the_author_are_called() -> None:
    class Notes(RunHooks[Any]):
        def __init__(self) -> None:
            self.called: list[str] = []

        async def on_llm_end(self, *_: Any) -> None:
            self.called.append("model")

        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            self.called.append(tool.name)

    notes = Notes()
    async with running(ParleyAgent.of(samples.worker, hooks=notes)) as client:
        await client.send("Go")
    assert notes.called == ["model", "charge", "model"]


# --- input and output -------------------------------------------------------------------------------------------------


async def test_images_and_documents_are_content_of_the_sdk() -> None:
    def show(items: list[Any], tools: list[Any]) -> Iterator[str | Call]:
        yield repr(items[-1]["content"])

    async with running(ParleyAgent.of(agent("Shower", show))) as client:
        files = File(b"\x89PNG", "dot.png"), File(b"%PDF", "page.pdf")
        task = await client.send("Look", {"page": 1}, *files)
    assert client.text(task) == repr([
        {"type": "input_text", "text": "Look"},
        {"type": "input_text", "text": '{"page":1}'},
        {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,iVBORw=="},
        {"type": "input_file", "filename": "page.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
    ])  # fmt: skip


async def test_what_a_tool_returns_is_the_text_if_the_run_stops_there() -> None:
    thing = agent("Worker", samples.work, tools=[samples.charge], tool_use_behavior="stop_on_first_tool")
    async with running(ParleyAgent.of(thing)) as client:
        task = await client.send("Go")
    assert client.text(task) == "charged 5"
    await survives_crashes(ParleyAgent.of(thing), "Go")


class HangingModel(ScriptedModel):
    """A model that says something and then nothing more."""

    async def stream_response(self, *arguments: Any, **options: Any) -> AsyncIterator[Any]:
        events = super().stream_response(*arguments, **options)
        yield await anext(events)
        try:
            await asyncio.Event().wait()
        finally:
            samples.STOPPED.set()


async def test_a_cancel_stops_the_model() -> None:
    samples.STOPPED.clear()
    async with running(ParleyAgent.of(Agent("Hanger", model=HangingModel(samples.speak)))) as client:
        events = client.stream("Go")
        task = await anext(events)
        async for event in events:
            if says("Hello")(event):
                break
        assert (await client.cancel(task.id)).status.state is TaskState.CANCELED
        assert await asyncio.to_thread(samples.STOPPED.wait, 30)


def test_pictures_of_the_model_are_files_and_hosted_calls_are_progress() -> None:
    picture = ImageGenerationCall(id="1", status="completed", type="image_generation_call", result="iVBORw==")
    search = ResponseFunctionWebSearch(
        id="2", status="completed", type="web_search_call", action={"type": "search", "query": "Rome"}
    )
    response = samples.response_with([picture, search], number=1)
    pieces = [Output((RawPart(b"\x89PNG", "image/png"),)), Progress("Calling web_search()")]
    assert pieces_in(response) == pieces
    assert pieces_in(decode_response(encode_response(response)).response) == pieces


async def test_the_agent_itself_is_not_changed() -> None:
    worker = agent("Worker", samples.work, tools=[samples.charge])
    tools, model, members = list(worker.tools), worker.model, set(vars(worker))
    async with running(ParleyAgent.of(worker)) as client:
        await client.send("Go")
    assert (worker.tools, worker.model, set(vars(worker))) == (tools, model, members)
