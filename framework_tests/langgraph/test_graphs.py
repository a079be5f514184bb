"""What is special to LangGraph: nodes side by side, subgraphs, interrupts, other inputs and outputs, memory."""

import asyncio
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any, Literal

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, SummarizationMiddleware
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.config import get_stream_writer
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import create_react_agent
from langgraph.runtime import Runtime
from langgraph.types import Send, interrupt
from pydantic import BaseModel
from typing_extensions import TypedDict

from framework_tests.langgraph.restarting import CrashingAnywhere, Restarting
from framework_tests.langgraph.samples import Said, ScriptedModel, call, tool_results, user_texts
from framework_tests.suite import say
from parley import Agent, File
from parley.adapters.durable_run import agent_of
from parley.adapters.langgraph.adapter import Graph, LangGraphAdapter
from parley.protocol.events import StatusUpdate
from parley.protocol.messages import DataPart, RawPart, text_of
from parley.protocol.tasks import Task, TaskState
from parley.testing import running, survives_crashes

pytestmark = pytest.mark.anyio

Node = Callable[[Any], Any]


def speaker(*words: str, notes: list[str] | None = None) -> Node:
    """A node that has a model say something, and notes what it said."""

    async def speak(state: MessagesState) -> dict[str, Any]:
        said = await ScriptedModel(script=lambda messages: iter(words)).ainvoke(state["messages"])
        if notes is not None:
            notes.append(str(said.text))
        return {"messages": [said]}

    return speak


def sequence(schema: Any, *, compiled: dict[str, Any] | None = None, **nodes: Any) -> Graph:
    """A graph of nodes one after another."""
    builder = StateGraph(schema)
    for before, (name, node) in zip((START, *nodes), nodes.items(), strict=False):
        builder.add_node(name, node).add_edge(before, name)
    return builder.compile(**(compiled or {}))


def data_of(task: Task) -> list[object]:
    return [part.data for artifact in task.artifacts for part in artifact.parts if isinstance(part, DataPart)]


async def texts_with_and_without_restarts(graph: Graph) -> list[str]:
    """What a graph says in an undisturbed run, and in one that begins anew after every checkpoint."""
    texts: list[str] = []
    for agent in (Agent.of(graph), agent_of(Restarting(LangGraphAdapter(graph)))):
        async with running(agent) as client:
            texts.append(client.text(await client.send("Go")))
    return texts


# --- nodes side by side -----------------------------------------------------------------------------------------------


class Worked(TypedDict):
    done: Annotated[list[str], operator.add]


async def test_a_finished_node_is_not_repeated_because_another_one_was_cut_off() -> None:
    calls: list[str] = []

    async def quick(state: Worked) -> Worked:
        calls.append("quick")
        return {"done": ["quick"]}

    async def slow(state: Worked) -> Worked:
        calls.append("slow")
        if calls.count("slow") == 1:
            await asyncio.Event().wait()  # until the run is cut off
        return {"done": ["slow"]}

    graph = StateGraph(Worked).add_node(quick).add_node(slow).add_edge(START, "quick").add_edge(START, "slow").compile()
    async with running(agent_of(Restarting(LangGraphAdapter(graph, input=lambda turn: {"done": []})))) as client:
        done = await client.send("Go")
    assert sorted(calls) == ["quick", "slow", "slow"]
    assert data_of(done) == [{"done": ["quick", "slow"]}]


def panel() -> Graph:
    builder = StateGraph(MessagesState)
    builder.add_node("first", speaker("One", " two", " three."))
    builder.add_node("second", speaker("Four", " five", " six", " seven."))
    builder.add_node("last", speaker("All", " have spoken."))
    builder.add_edge(START, "first").add_edge(START, "second").add_edge(["first", "second"], "last")
    return builder.compile()


async def test_messages_of_models_that_speak_at_the_same_time_are_not_mixed() -> None:
    said = "One two three.\n\nFour five six seven.\n\nAll have spoken."
    assert await texts_with_and_without_restarts(panel()) == [said, said]


async def test_models_that_speak_at_the_same_time_survive_crashes() -> None:
    await survives_crashes(Agent.of(panel()), "Go")


# --- subgraphs --------------------------------------------------------------------------------------------------------


def nested(notes: list[str]) -> Graph:
    """A subgraph as a node, and a node that calls a graph."""
    subgraph = sequence(MessagesState, a=speaker("In", "ner.", notes=notes), b=speaker("Still ", "inner.", notes=notes))
    called = sequence(MessagesState, c=speaker("Call", "ed.", notes=notes), d=speaker("Call", "ed again.", notes=notes))

    async def calls(state: MessagesState) -> Any:
        return await called.ainvoke(state)

    return sequence(MessagesState, subgraph=subgraph, calls=calls, e=speaker("Out", "er.", notes=notes))


async def test_nodes_of_subgraphs_are_not_repeated_and_speak_once() -> None:
    notes: list[str] = []
    said = ["Inner.", "Still inner.", "Called.", "Called again.", "Outer."]
    assert await texts_with_and_without_restarts(nested(notes)) == ["\n\n".join(said)] * 2
    assert notes == said * 2
    await survives_crashes(Agent.of(nested(notes)), "Go")


async def test_a_subgraph_without_checkpoints_is_repeated_as_a_whole_and_speaks_once() -> None:
    subgraph = sequence(
        MessagesState, compiled={"checkpointer": False}, a=speaker("In", "ner."), b=speaker("Still ", "inner.")
    )
    graph = sequence(MessagesState, subgraph=subgraph, e=speaker("Outer."))
    assert await texts_with_and_without_restarts(graph) == ["Inner.\n\nStill inner.\n\nOuter."] * 2
    await survives_crashes(Agent.of(graph), "Go")


async def test_a_subgraph_with_memory_of_its_own_remembers() -> None:
    class Counted(TypedDict):
        seen: Annotated[int, operator.add]

    async def count(state: Counted) -> Any:
        return {"seen": 1}

    counter = sequence(Counted, compiled={"checkpointer": True}, count=count)

    async def tell(state: MessagesState) -> Any:
        result = await counter.ainvoke({"seen": 0})
        return {"messages": [AIMessage(f"Call {result['seen']}")]}

    async with running(Agent.of(sequence(MessagesState, tell=tell))) as client:
        first = await say(client, "one")
        second = await say(client, "two", after=first)
    assert [client.text(task) for task in (first, second)] == ["Call 1", "Call 2"]


async def test_plain_functions_as_nodes_speak_once() -> None:
    def says(*words: str) -> Node:
        model = ScriptedModel(script=lambda messages: iter(words))
        return lambda state: {"messages": [model.invoke(state["messages"])]}

    called = sequence(MessagesState, c=says("Call", "ed."), d=says("Call", "ed again."))
    graph = sequence(MessagesState, a=says("Be", "gin."), calls=lambda state: called.invoke(state), e=says("E", "nd."))
    assert await texts_with_and_without_restarts(graph) == ["Begin.\n\nCalled.\n\nCalled again.\n\nEnd."] * 2
    await survives_crashes(Agent.of(graph), "Go", at_most=60)


async def test_workers_that_are_sent_out_speak_one_after_another() -> None:
    class Jobs(MessagesState):
        job: str

    async def work(state: Jobs) -> Any:
        model = ScriptedModel(script=lambda messages: iter([f"Job {state['job']}", " is", " done."]))
        return {"messages": [await model.ainvoke("Go")]}

    builder = StateGraph(Jobs).add_node("work", work).add_node("end", speaker("All", " done."))
    builder.add_conditional_edges(START, lambda state: [Send("work", {"job": job}) for job in "ABC"], ["work"])
    graph = builder.add_edge("work", "end").compile()
    said = "Job A is done.\n\nJob B is done.\n\nJob C is done.\n\nAll done."
    assert await texts_with_and_without_restarts(graph) == [said] * 2
    await survives_crashes(Agent.of(graph), "Go", at_most=80)


def meeting(random: Random) -> Graph:
    """Subgraphs and nodes that speak side by side, each for a random time."""

    def member(*words: str) -> Node:
        async def speak(state: MessagesState) -> dict[str, Any]:
            for _ in range(random.randrange(6)):
                await asyncio.sleep(0)
            said = await ScriptedModel(script=lambda messages: iter(words)).ainvoke(state["messages"])
            for _ in range(random.randrange(6)):
                await asyncio.sleep(0)
            return {"messages": [said]}

        return speak

    members = {
        "group": sequence(MessagesState, a=member("Group", " one."), b=member("Group", " two.")),
        "team": sequence(MessagesState, a=member("Team", " one."), b=member("Team", " two.")),
        "guest": member("A", " guest."),
        "note": lambda state: {"messages": [{"role": "assistant", "content": "A note."}]},
    }
    builder = StateGraph(MessagesState).add_node("end", member("The", " end."))
    for name, node in members.items():
        builder.add_node(name, node).add_edge(START, name)
    return builder.add_edge(list(members), "end").compile()


async def test_every_message_is_said_once_in_any_order_of_events_with_crashes_anywhere() -> None:
    said = ["A guest.", "A note.", "Group one.", "Group two.", "Team one.", "Team two.", "The end."]
    for seed in range(30):
        random = Random(seed)
        async with running(agent_of(CrashingAnywhere(LangGraphAdapter(meeting(random)), random))) as client:
            paragraphs = client.text(await client.send("Go")).split("\n\n")
        assert sorted(paragraphs) == said, f"seed {seed}"
        assert paragraphs[-1] == "The end.", f"seed {seed}"


# --- agents of the framework ------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")
async def test_tool_calls_side_by_side_are_checkpoints_of_their_own() -> None:
    calls: list[str] = []

    @tool
    async def look(city: str) -> str:
        """Looks at a city."""
        calls.append(city)
        if city == "Rome" and calls.count("Rome") == 1:
            await asyncio.Event().wait()  # until the run is cut off
        return f"sunny in {city}"

    def script(messages: list[BaseMessage]) -> Iterator[Said]:
        if results := tool_results(messages):
            yield " and ".join(results)
        else:
            yield call("look", 0, city="Rome")
            yield call("look", 1, city="Oslo")

    for made in (create_agent, create_react_agent):
        calls.clear()
        graph: Graph = made(ScriptedModel(script=script), [look])
        async with running(agent_of(Restarting(LangGraphAdapter(graph)))) as client:
            done = await client.send("Go")
        assert client.text(done) == "sunny in Rome and sunny in Oslo"
        assert calls.count("Oslo") == 1, made
        assert calls.count("Rome") == 2, made


async def test_each_tool_call_is_approved_or_rejected() -> None:
    charged: list[int] = []

    @tool
    def charge(amount: int) -> str:
        """Charges."""
        charged.append(amount)
        return f"charged {amount}"

    def script(messages: list[BaseMessage]) -> Iterator[Said]:
        if tool_results(messages):
            yield "Done."
        else:
            yield call("charge", 0, amount=5)
            yield call("charge", 1, amount=7)

    for mode in ("batched", "per_call"):
        charged.clear()
        review = HumanInTheLoopMiddleware(interrupt_on={"charge": True}, interrupt_mode=mode)
        graph = create_agent(ScriptedModel(script=script), [charge], middleware=[review])
        async with running(Agent.of(graph)) as client:
            asked = await client.send("Go")
            assert "charge(amount=5)" in str(asked.status.message)
            asked = await client.send("yes", task=asked)
            assert "charge(amount=7)" in str(asked.status.message)
            done = await client.send("no", task=asked)
        assert client.text(done) == "Done."
        assert charged == [5], mode


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [("yes", (TaskState.COMPLETED, "charged 5")), ("no", (TaskState.CANCELED, ""))],
)
async def test_a_no_cancels_the_task_if_the_tool_call_cannot_be_rejected(answer: str, outcome: object) -> None:
    @tool
    def charge(amount: int) -> str:
        """Charges."""
        return f"charged {amount}"

    def script(messages: list[BaseMessage]) -> Iterator[Said]:
        yield from tool_results(messages) or [call("charge", amount=5)]

    review = HumanInTheLoopMiddleware(interrupt_on={"charge": {"allowed_decisions": ["approve", "edit"]}})
    async with running(Agent.of(create_agent(ScriptedModel(script=script), [charge], middleware=[review]))) as client:
        asked = await client.send("Go")
        assert "charge(amount=5)? Answer yes or no." in str(asked.status.message)
        done = await client.send(answer, task=asked)
    assert (done.status.state, client.text(done)) == outcome


# --- questions --------------------------------------------------------------------------------------------------------


class Size(BaseModel):
    width: int
    unit: Literal["cm", "inch"] = "cm"


class Order(TypedDict):
    said: Annotated[list[str], operator.add]


def order() -> Graph:
    """Three nodes side by side, each with a question, and one of them with two."""

    def ask_size(state: Order) -> Any:
        size = interrupt("Which size?", response_schema=Size)
        return {"said": [f"{size.width} {size.unit}"]}

    def ask_names(state: Order) -> Any:
        first = interrupt({"question": "First name?"})
        return {"said": [f"{first} {interrupt('Last name?')}"]}

    def ask_colour(state: Order) -> Any:
        return {"said": [interrupt("Which colour?", response_schema={"enum": ["red", "blue"]})]}

    builder = StateGraph(Order).add_node(ask_size).add_node(ask_names).add_node(ask_colour)
    for name in ("ask_size", "ask_names", "ask_colour"):
        builder.add_edge(START, name)
    return builder.compile()


ANSWERS = {"size": {"width": 3}, "First": "Ada", "Last": "Lovelace", "colour": {"answer": "red"}}


def asked_about(question: str) -> str:
    return next(word for word in ANSWERS if word in question)


async def test_several_interrupts_are_questions_one_after_another() -> None:
    for made in (LangGraphAdapter, lambda *args: Restarting(LangGraphAdapter(*args))):
        asked: list[str] = []
        async with running(agent_of(made(order(), lambda turn: {"said": []}))) as client:
            task = await client.send("Go")
            while task.status.state is TaskState.INPUT_REQUIRED:
                assert task.status.message is not None
                asked.append(asked_about(task.status.message.text))
                task = await client.send(ANSWERS[asked[-1]], task=task)
        assert asked == ["size", "First", "colour", "Last"]
        (data,) = data_of(task)
        assert isinstance(data, dict)
        assert sorted(data["said"]) == ["3 cm", "Ada Lovelace", "red"]


async def test_interrupts_survive_crashes() -> None:
    agent = Agent.of(order(), input=lambda turn: {"said": []})
    await survives_crashes(agent, "Go", answers=lambda question: ANSWERS[asked_about(question)], at_most=60)


async def test_an_interrupt_in_a_subgraph_is_a_question() -> None:
    def ask(state: MessagesState) -> Any:
        return {"messages": [AIMessage(f"Hello, {interrupt('Your name?')}.")]}

    inner = sequence(MessagesState, greet=speaker("Wel", "come."), ask=ask)
    graph = sequence(MessagesState, inner=inner, after=speaker("Bye."))
    task = await survives_crashes(Agent.of(graph), "Go", answers=["Ada"], at_most=40)
    assert (
        text_of([part for artifact in task.artifacts for part in artifact.parts]) == "Welcome.\n\nHello, Ada.\n\nBye."
    )


@pytest.mark.parametrize("place", [{"interrupt_before": ["pay"]}, {"interrupt_after": ["plan"]}])
async def test_a_breakpoint_is_an_approval(place: dict[str, Any]) -> None:
    graph = sequence(MessagesState, compiled=place, plan=speaker("A plan."), pay=speaker("Paid."))
    async with running(Agent.of(graph)) as client:
        asked = await client.send("Go")
        assert "continue with pay" in str(asked.status.message)
        approved = await client.send("yes", task=asked)
        refused = await client.send("no", task=await client.send("Go"))
    assert client.text(approved) == "A plan.\n\nPaid."
    assert (refused.status.state, client.text(refused)) == (TaskState.CANCELED, "A plan.")


# --- what is said -----------------------------------------------------------------------------------------------------


async def test_messages_that_nodes_write_without_streaming_are_said_once() -> None:
    graph = sequence(
        MessagesState,
        whole=lambda state: {"messages": [AIMessage("A message.")]},
        written=lambda state: {"messages": [{"role": "assistant", "content": "A dict."}]},
        listed=lambda state: {"messages": ("ai", "A tuple.")},
        again=lambda state: {"messages": state["messages"]},
    )
    assert await texts_with_and_without_restarts(graph) == ["A message.\n\nA dict.\n\nA tuple."] * 2


async def test_a_model_tagged_nostream_is_not_heard_and_its_tokens_count() -> None:
    async def think(state: MessagesState) -> Any:
        silent = ScriptedModel(script=lambda messages: iter(["Hm", "m."])).with_config(tags=["nostream"])
        return {"messages": [await silent.ainvoke(state["messages"])]}

    graph = sequence(MessagesState, think=think, tell=speaker("Not ", "bad."))
    assert await texts_with_and_without_restarts(graph) == ["Not bad."] * 2
    async with running(Agent.of(graph)) as client:
        task = await client.send("Go")
    assert task.metadata["usage"] == {"requests": 2, "inputTokens": 14, "outputTokens": 6}


async def test_what_models_say_to_middleware_is_not_heard() -> None:
    model = ScriptedModel(script=lambda messages: iter([f"{len(messages)}", " messages."]))
    summary = SummarizationMiddleware(
        ScriptedModel(script=lambda messages: iter(["A ", "summary."])), trigger=("messages", 3), keep=("messages", 1)
    )
    async with running(Agent.of(create_agent(model, middleware=[summary]))) as client:
        first = await say(client, "one")
        second = await say(client, "two", after=first)
    assert [client.text(task) for task in (first, second)] == ["1 messages.", "2 messages."]


async def test_an_image_that_a_model_makes_is_a_file() -> None:
    block = {"type": "image", "base64": "aW1hZ2U=", "mime_type": "image/png"}
    graph = sequence(
        MessagesState, draw=lambda state: {"messages": [AIMessage([{"type": "text", "text": "Here."}, block])]}
    )
    async with running(Agent.of(graph)) as client:
        task = await client.send("Go")
    assert client.text(task) == "Here."
    parts = [part for artifact in task.artifacts for part in artifact.parts]
    assert [part for part in parts if isinstance(part, RawPart)] == [RawPart(b"image", "image/png")]


async def test_what_a_node_writes_to_its_stream_is_progress() -> None:
    def work(state: MessagesState) -> Any:
        get_stream_writer()("Reading page 1")
        get_stream_writer()({"page": 2})
        get_stream_writer()({"bytes": b"\xff"})
        return {"messages": [AIMessage("Read.")]}

    async with running(Agent.of(sequence(MessagesState, work=work))) as client:
        events = [event async for event in client.stream("Go")]
    shown = [event.status.message.text for event in events if isinstance(event, StatusUpdate) and event.status.message]
    assert shown == ["Reading page 1", '{"page":2}', '{"bytes":"_w=="}']


# --- other inputs and outputs -----------------------------------------------------------------------------------------


class Topic(TypedDict):
    topic: str
    length: int


class Poem(TypedDict):
    poem: str


class Both(Topic, Poem):
    pass


def poet() -> Graph:
    builder = StateGraph(Both, input_schema=Topic, output_schema=Poem)
    builder.add_node("write", lambda state: {"poem": f"{state['topic']} x {state.get('length', 1)}"})
    return builder.add_edge(START, "write").compile()


async def test_text_goes_into_the_only_text_field_and_one_text_comes_out() -> None:
    async with running(Agent.of(poet())) as client:
        assert client.text(await client.send("Sea")) == "Sea x 1"
        assert client.text(await client.send({"topic": "Sky", "length": 2})) == "Sky x 2"


async def test_a_message_that_does_not_fit_is_refused_with_the_reason() -> None:
    async with running(Agent.of(poet())) as client:
        unknown = await client.send({"topic": "Sky", "size": 2})
        listed = await client.send([1, 2])
    wanted = "Send one data part, an object with some of these members: topic (str), length (int)."
    assert unknown.status.state is listed.status.state is TaskState.REJECTED
    assert unknown.status.message is not None
    assert listed.status.message is not None
    assert text_of(unknown.status.message.parts) == f"Unknown members of the data: size. {wanted}"
    assert text_of(listed.status.message.parts) == wanted


async def test_a_model_as_state_is_checked_and_is_data() -> None:
    class Parcel(BaseModel):
        to: str
        weight: int = 1
        price: float | None = None

    graph = sequence(Parcel, price=lambda parcel: {"price": parcel.weight * 2.5})
    async with running(Agent.of(graph)) as client:
        done = await client.send({"to": "Rome", "weight": 4})
        refused = await client.send({"weight": "much"})
    assert data_of(done) == [{"to": "Rome", "weight": 4, "price": 10.0}]
    assert refused.status.state is TaskState.REJECTED
    assert refused.status.message is not None
    assert refused.status.message.text.startswith("to: Field required. weight: Input should be a valid integer")


async def test_bytes_in_the_output_are_base64() -> None:
    class Drawing(TypedDict):
        topic: str
        picture: bytes

    graph = sequence(Drawing, draw=lambda state: {"picture": b"\x89PNG"})
    async with running(Agent.of(graph)) as client:
        assert data_of(await client.send("Sea")) == [{"topic": "Sea", "picture": "iVBORw=="}]


@pytest.mark.parametrize("is_async", [False, True])
async def test_functions_make_the_input_the_context_and_the_output(is_async: bool) -> None:
    def either(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        async def later(value: Any) -> Any:
            return function(value)

        return later if is_async else function

    @dataclass
    class User:
        name: str

    async def write(state: Both, runtime: Runtime[User]) -> Any:
        return {"poem": f"{state['topic']} for {runtime.context.name}"}

    builder = StateGraph(Both, context_schema=User).add_node(write).add_edge(START, "write")
    agent = Agent.of(
        builder.compile(),
        input=either(lambda turn: {"topic": turn.text.upper()}),
        context=either(lambda turn: User(turn.metadata["user"])),
        output=either(lambda values: {"title": values["topic"], "text": values["poem"]}),
        name="Poet",
    )
    async with running(agent) as client:
        task = await client.send("sea", metadata={"user": "Ada"})
    assert agent.name == "Poet"
    assert data_of(task) == [{"title": "SEA", "text": "SEA for Ada"}]


async def test_a_function_is_a_graph_and_its_finished_tasks_are_not_repeated() -> None:
    calls: list[str] = []

    @task
    async def measure(word: str) -> int:
        calls.append(word)
        return len(word)

    @entrypoint()
    async def total(text: str) -> dict[str, int]:
        """Adds the lengths of words."""
        lengths = [await measure(word) for word in text.split()]
        confirmed = interrupt("Is that all?")
        return {"total": sum(lengths) + len(confirmed)}

    async with running(Agent.of(total)) as client:
        asked = await client.send("one three")
        done = await client.send("yes", task=asked)
    assert data_of(done) == [{"total": 11}]
    assert calls == ["one", "three"]


async def test_tasks_of_a_function_speak_once() -> None:
    @task
    async def tell(word: str) -> str:
        said = await ScriptedModel(script=lambda messages: iter([word, " once."])).ainvoke(word)
        return str(said.text)

    @entrypoint()
    async def both(text: str) -> str:
        first = await tell("First")
        second, third = await asyncio.gather(tell("Second"), tell("Third"))
        return first + second + third

    assert await texts_with_and_without_restarts(both) == ["First once.\n\nSecond once.\n\nThird once."] * 2
    await survives_crashes(Agent.of(both), "Go", at_most=60)


async def test_files_are_content_blocks() -> None:
    def script(messages: list[BaseMessage]) -> Iterator[Said]:
        blocks: Any = messages[-1].content
        yield " ".join(f"{block['type']}:{block.get('mime_type', block.get('text'))}" for block in blocks)

    files = [
        File(b"\x89PNG", "a.png", "image/png"),
        File(b"%PDF", "b.pdf", "application/pdf"),
        File(b"hi", "c.txt", "text/plain"),
    ]
    async with running(Agent.of(create_agent(ScriptedModel(script=script)))) as client:
        task = await client.send("Look", *files)
    assert client.text(task) == "text:Look image:image/png file:application/pdf text:c.txt:\nhi"


# --- state ------------------------------------------------------------------------------------------------------------


async def test_a_node_can_read_the_state_of_its_graph() -> None:
    async def look(state: MessagesState, config: RunnableConfig) -> Any:
        now = await graph.aget_state({"configurable": {"thread_id": config["configurable"]["thread_id"]}})
        assert now.metadata is not None
        return {"messages": [AIMessage(f"{len(now.values['messages'])} message at step {now.metadata['step']}")]}

    graph = sequence(MessagesState, compiled={"checkpointer": InMemorySaver()}, look=look)
    async with running(Agent.of(graph)) as client:
        assert client.text(await client.send("Go")) == "1 message at step 0"
    elsewhere: Any = await graph.ainvoke({"messages": ["Go"]}, {"configurable": {"thread_id": "1"}})
    assert elsewhere["messages"][-1].text == "1 message at step 0"


async def test_a_task_whose_next_node_is_gone_fails() -> None:
    def ask(state: MessagesState) -> Any:
        return {"messages": [AIMessage(f"Hello, {interrupt('Your name?')}.")]}

    graph = sequence(MessagesState, greet=speaker("Wel", "come."), ask=ask)
    async with running(Agent.of(graph)) as client:
        asked = await client.send("Go")
        renamed = sequence(MessagesState, greet=speaker("Wel", "come."), ask_name=ask)
        vars(graph).update(vars(renamed))  # as after a restart with other code
        task = await client.send("Ada", task=asked)
    assert task.status.state is TaskState.FAILED
    assert "This agent has changed" in str(task.status.message)


async def test_states_hold_only_what_is_new() -> None:
    """The twentieth step with a model takes no more room than the second one."""

    @tool
    def turn_page() -> str:
        """Turns a page."""
        return "x" * 1000

    def script(messages: list[BaseMessage]) -> Iterator[Said]:
        pages = len(tool_results(messages))
        yield "Read." if pages == 20 else call("turn_page", pages)

    adapter = Restarting(LangGraphAdapter(create_agent(ScriptedModel(script=script), [turn_page])))
    async with running(agent_of(adapter)) as client:
        assert client.text(await client.send("Go")) == "Read."
    sizes = [len(repr(state)) for state in adapter.states]
    assert len(sizes) >= 40
    assert max(sizes[-10:]) < max(sizes[:6]) * 1.1, sizes


async def test_a_channel_of_deltas_is_remembered() -> None:
    def extend(state: list[str], writes: list[list[str]]) -> list[str]:
        return [*state, *[item for write in writes for item in write]]

    class Log(TypedDict):
        lines: Annotated[list[str], DeltaChannel(extend)]

    graph = sequence(Log, add=lambda state: {"lines": [f"({len(state['lines'])})"]})
    for made in (LangGraphAdapter, lambda *args, **options: Restarting(LangGraphAdapter(*args, **options))):
        async with running(agent_of(made(graph, input=lambda turn: {"lines": [turn.text]}))) as client:
            last = None
            for text in ("one", "two", "three"):
                last = await say(client, text, after=last)
        assert last is not None
        assert data_of(last) == [{"lines": ["one", "(1)", "two", "(3)", "three", "(5)"]}]


def greeter(saver: AsyncSqliteSaver) -> Graph:
    def ask(state: MessagesState) -> Any:
        number = len(user_texts(state["messages"]))
        return {"messages": [AIMessage(f"Hello, {interrupt('Your name?')}, for time {number}.")]}

    return sequence(MessagesState, compiled={"checkpointer": saver}, greet=speaker("Wel", "come."), ask=ask)


async def test_a_graph_with_another_checkpointer_keeps_it() -> None:
    for made in (LangGraphAdapter, lambda graph: Restarting(LangGraphAdapter(graph))):
        async with AsyncSqliteSaver.from_conn_string(":memory:") as saver:
            async with running(agent_of(made(greeter(saver)))) as client:
                task = None
                texts: list[str] = []
                for _ in range(2):
                    asked = await say(client, "Hi", after=task)
                    task = await client.send("Ada", task=asked)
                    texts.append(client.text(task))
            assert texts == ["Welcome.\n\nHello, Ada, for time 1.", "Welcome.\n\nHello, Ada, for time 2."]
            assert [checkpoint async for checkpoint in saver.alist(None)]


async def test_a_graph_with_another_checkpointer_survives_crashes() -> None:
    async with AsyncSqliteSaver.from_conn_string(":memory:") as saver:
        await survives_crashes(Agent.of(greeter(saver)), "Hi", answers=["Ada"])


async def test_a_failed_task_leaves_nothing_in_the_thread_of_another_checkpointer() -> None:
    def fail(state: MessagesState) -> Any:
        if "fail" in user_texts(state["messages"])[-1]:
            raise RuntimeError
        return {"messages": [AIMessage(", ".join(str(message.text) for message in state["messages"]))]}

    async with AsyncSqliteSaver.from_conn_string(":memory:") as saver:
        graph = sequence(MessagesState, compiled={"checkpointer": saver}, greet=speaker("Wel", "come."), fail=fail)
        async with running(Agent.of(graph)) as client:
            first = await say(client, "one")
            failed = await say(client, "fail", after=first)
            last = await say(client, "two", after=failed)
    assert failed.status.state is TaskState.FAILED
    assert client.text(last) == "Welcome.\n\none, Welcome., one, Welcome., two, Welcome."
