"""Handlers that have agents of other servers do the work, over HTTP."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from msgspec import structs

from parley import Agent, Client, DelegateFailedError, Turn
from parley.agents.delegation.peers import Peers
from parley.client import Guard, Retries, Timeouts
from parley.protocol.cards import AgentInterface, Binding
from parley.protocol.events import ArtifactUpdate, TaskEvent
from parley.protocol.extensions import DELEGATION
from parley.protocol.messages import DataPart, Part, TextPart, text_of
from parley.protocol.requests import SendMessageRequest
from parley.protocol.tasks import Task, TaskState
from parley.protocol.versions import Version
from parley.server.app import App
from parley.stores.interface import Owner
from parley.testing.client import running
from parley.testing.clock import FakeClock
from parley.testing.crashes import survives_crashes
from tests.client.raw_server import STREAM, Behaviour, frame, raw_server, reply, rpc, says
from tests.client.scripted_agent import card_of
from tests.deadlines import fail_after
from tests.peer_environments import ROOT, python_of, serving_process
from tests.server.serving import running as served

pytestmark = pytest.mark.anyio


def agent_of(handler: Any, name: str = "Parent", **options: Any) -> Agent:
    agent = Agent(name, **options)
    agent.on_message(handler)
    return agent


def new_id() -> str:
    return str(uuid4())


async def plans(turn: Turn) -> Any:
    days = await turn.ask("How many days?")
    for day in range(int(days.text)):
        yield f"Day {day + 1} in {turn.text}. "


async def test_another_server_is_asked_streamed_and_answered_through_crashes_at_every_write() -> None:
    async with served(App(agent_of(plans, "Planner"))) as http:
        url = str(http.base_url)

        async def parent(turn: Turn) -> Any:
            once = await turn.step("once", new_id)  # the ids of messages are the same in each of these conversations
            yield "Plan: "
            yield turn.delegate(url, metadata={"conversation": once})

        task = await survives_crashes(agent_of(parent), "Rome", answers=["3"])
    assert text_of(task.artifacts[0].parts) == "Plan: Day 1 in Rome. Day 2 in Rome. Day 3 in Rome. "


async def test_a_conversation_goes_on_at_the_other_agent_and_names_the_task_that_delegates() -> None:
    async def child(turn: Turn) -> Any:
        origin = turn.metadata[DELEGATION]
        return len(await turn.context.tasks()), origin

    app = App(agent_of(child, "Child"))

    other_agent = Client("http://other.example", app=app)

    async def parent(turn: Turn) -> Any:
        return (await turn.delegate(other_agent)).data

    async with app.running(), running(agent_of(parent)) as client:
        first = await client.send("go")
        await client.crash()
        await client.restart()
        message = structs.replace(client.message("go"), context_id=first.context_id)
        second = await client.agent.send_message(SendMessageRequest(message), client.caller)
        other = await client.send("go")
    assert isinstance(second, Task)
    tasks: list[Any] = [first, second, other]
    assert [task.artifacts[0].parts[0].data for task in tasks] == [
        [before, {"taskId": task.id, "depth": 1}] for before, task in ((0, first), (1, second), (0, other))
    ]


@pytest.mark.parametrize("text", ["work", "ask"])
async def test_a_task_at_another_server_is_canceled_with_ours(text: str) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def child(turn: Turn) -> Any:
        begun.set()
        if turn.text == "ask":
            await turn.ask("Well?")
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with served(App(agent_of(child, "Child"))) as http:
        url = str(http.base_url)

        async def parent(turn: Turn) -> Any:
            return turn.delegate(url)

        async with running(agent_of(parent)) as client, Client(url) as other:
            task = await client.start(text)
            await begun.wait()
            if text == "ask":
                await client.finished(task)
                await client.crash()
                await client.restart()
            await client.cancel(task)
            (theirs,) = [task async for task in other.list()]
            if text == "ask":
                while (await other.get(theirs)).state is not TaskState.CANCELED:
                    await asyncio.sleep(0)
            else:
                await stopped.wait()


async def test_a_client_with_its_secrets_is_used_only_for_the_tasks_of_the_owner_that_it_was_given_for() -> None:
    async def child(turn: Turn) -> Any:
        return (await turn.ask("Well?")).text

    app = App(agent_of(child, "Child"))
    other_agent = Client("http://other.example", app=app)  # the only way to reach it: the host does not exist

    async def parent(turn: Turn) -> Any:
        return turn.delegate("http://other.example" if turn.text == "by URL" else other_agent)

    async with app.running(), running(agent_of(parent)) as client, other_agent.copy() as other:
        asked = await client.send("by client")
        assert (await client.send("by URL")).status.state is TaskState.FAILED
        await client.cancel(asked)
        with fail_after(5):
            while [task.status.state async for task in other.list()] != [TaskState.CANCELED]:
                await asyncio.sleep(0)
        peers = client.engine.shared(Peers)
        assert peers.named_in_log(other_agent.target, client.caller.owner) is other_agent
        assert peers.named_in_log(other_agent.target, Owner("", "eve")) == other_agent.target


async def test_clients_are_closed_when_no_run_can_use_them_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    close = Client.__aexit__

    async def note_closing(client: Client, *arguments: Any) -> None:
        closed.append(client.target)
        await close(client, *arguments)

    async def child(turn: Turn) -> Any:
        return turn.text

    app = App(agent_of(child, "Child"))
    clients = {name: Client(f"http://{name}.example", app=app) for name in ("one", "two")}

    async def parent(turn: Turn) -> Any:
        return turn.delegate(clients[turn.text])

    monkeypatch.setattr(Client, "__aexit__", note_closing)
    async with app.running(), running(agent_of(parent)) as client:
        assert isinstance(client.clock, FakeClock)
        for name in ("one", "one"):
            assert client.text(await client.send(name)) == name
        await client.clock.advance(4_000)
        assert client.text(await client.send("two")) == "two"
        assert closed == ["http://one.example"]
    assert closed == ["http://one.example", "http://two.example"]


TASK = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
STUCK = frame(rpc(result={"task": TASK}))


def once(data: bytes) -> Behaviour:
    """Send this, close the connection, and close every later one without a reply."""
    left = [data]

    async def behave(writer: asyncio.StreamWriter) -> None:
        writer.write(left.pop() if left else b"")

    return behave


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (None, "connection refused"),
        (says(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"), "hello"),
        (says(reply(rpc(error={"code": -32603, "message": "Out of coffee"}))), "Out of coffee"),
        (says(STREAM, waits=True), "did not answer"),
        (once(STREAM + STUCK), "could not be resumed"),
        (says(STREAM + STUCK + frame(b"{}")), "Not an A2A event"),
    ],
    ids=["unreachable", "nonsense", "an error", "hangs", "dies in the middle", "nonsense in the middle"],
)
async def test_an_agent_that_cannot_be_used_is_one_clear_error(behaviour: Behaviour | None, reason: str) -> None:
    async with raw_server(behaviour or says(b"")) as server:
        card = card_of(interfaces=[AgentInterface(server.url, Binding.JSONRPC, Version.V1_0)])
        timeouts = Timeouts(connect=0.3, reply=0.3, read=0.3, quiet=0.3)
        retries = Retries(attempts=1, first_pause=0.01, longest_pause=0.01, outage=0.1)
        target = card if behaviour is not None else "http://127.0.0.1:1"
        other_agent = Client(target, timeouts=timeouts, retries=retries, guard=Guard(allowed_hosts=("127.0.0.1",)))

        async def parent(turn: Turn) -> Any:
            if turn.text == "not caught":
                return turn.delegate(other_agent)
            try:
                return await turn.delegate(other_agent)
            except DelegateFailedError as error:
                await turn.ask("Go on?")
                return f"{error.state}: {error.reason}"

        with fail_after(10):
            async with running(agent_of(parent)) as client:
                asked = await client.send("go")
                calls = len(server.heads)
                task = await client.send("yes", task=asked)
                assert len(server.heads) == calls
                assert client.text(task).startswith("None: ")
                assert reason in client.text(task)
                assert (await client.send("not caught")).status.state is TaskState.FAILED


WAITS = {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_INPUT_REQUIRED"}}
DATA = {"artifactId": "a", "parts": [{"data": {"value": "Go on?"}}]}


@pytest.mark.parametrize(
    ("artifact", "question"),
    [(DATA, TextPart("Please answer.")), ({**DATA, "name": "Interrupt"}, DataPart({"value": "Go on?"}))],
    ids=["without words", "in an artifact, as langgraph-api does"],
)
async def test_a_question_is_found_wherever_the_other_agent_puts_it(artifact: dict[str, Any], question: Part) -> None:
    update = {"taskId": "t", "contextId": "c", "artifact": artifact}
    results = [{"task": TASK}, {"artifactUpdate": update}, {"statusUpdate": WAITS}]
    frames = [frame(rpc(result=result)) for result in results]
    async with raw_server(says(STREAM + b"".join(frames))) as server:
        card = card_of(interfaces=[AgentInterface(server.url, Binding.JSONRPC, Version.V1_0)])
        other_agent = Client(card, guard=Guard(allowed_hosts=("127.0.0.1",)))

        async def parent(turn: Turn) -> Any:
            return await turn.delegate(other_agent)

        async with running(agent_of(parent)) as client:
            asked = await client.send("go")
    assert asked.status.state is TaskState.INPUT_REQUIRED
    assert asked.status.message is not None
    assert asked.status.message.parts == (question,)


async def test_an_agent_on_another_sdk_is_streamed_asked_and_continued_after_a_crash(tmp_path: Path) -> None:
    command = [python_of("a2a-sdk-1.3.0"), ROOT / "tests" / "peers" / "server_sdk_1_3_0.py"]
    with serving_process(command, log=tmp_path / "server.log") as (url, _), fail_after(30):

        async def parent(turn: Turn) -> Any:
            yield turn.delegate(url, turn.text)
            yield turn.delegate(url, "ask", into="table.txt")

        def is_third_chunk(event: TaskEvent) -> bool:
            return isinstance(event, ArtifactUpdate) and text_of(event.artifact.parts) == "3 "

        async with running(agent_of(parent)) as client:
            crashing = asyncio.create_task(client.crash_when(is_third_chunk))
            task = await client.start("count 5 pausing after 3 at gate")
            await crashing
            await client.restart()
            async with Client(url) as other:
                await other.send("open gate")
            asked = await client.finished(task)
            assert asked.status.state is TaskState.INPUT_REQUIRED
            assert asked.status.message is not None
            assert text_of(asked.status.message.parts) == "For how many?"
            await client.crash()
            await client.restart()
            done = await client.send("four", task=task)
    texts = {artifact.artifact_id: text_of(artifact.parts) for artifact in done.artifacts}
    assert texts == {"response": "1 2 3 4 5 ", "table.txt": "A table for four."}
