"""Handlers that have other agents do the work: on the same server, and over HTTP."""

import asyncio
from typing import Any

import pytest

from parley import Agent, DelegateFailedError, File, Turn
from parley.agents.delegation import delegated_task
from parley.engine.clock import SystemClock
from parley.engine.limits import Limits
from parley.protocol.events import ArtifactUpdate, MessageAdded, StepProgressed, TaskEvent
from parley.protocol.extensions import DELEGATION
from parley.protocol.lifecycle import is_terminal
from parley.protocol.messages import DataPart, RawPart, Role, TextPart, text_of
from parley.protocol.requests import ListTasksRequest
from parley.protocol.tasks import Artifact, Task, TaskState
from parley.stores.interface import TaskKey
from parley.testing.client import AgentClient
from parley.testing.crashes import survives_crashes
from tests.bounded import bounded

pytestmark = pytest.mark.anyio
on_any_store = pytest.mark.usefixtures("any_store")


def agent_of(handler: Any, name: str = "Parent", **options: Any) -> Agent:
    agent = Agent(name, **options)
    agent.on_message(handler)
    return agent


@on_any_store
async def test_the_result_of_another_agent_has_its_text_data_files_and_task() -> None:
    async def child(turn: Turn) -> Any:
        return f"{turn.text}!", {"a": 1}, File(b"png", "a.png")

    async def parent(turn: Turn) -> Any:
        result = await turn.delegate("child", "hi")
        assert result.task is not None
        assert result.message is None
        yield result.text, result.data, result.files, {"state": result.task.status.state, "of": len(result.artifacts)}
        yield turn.delegate("oracle", "ho")

    others = [agent_of(child, "Child"), agent_of(child, "The Oracle", id="oracle", replies_directly=True)]
    async with bounded(agent_of(parent), others=others) as client:
        task = await client.send("go")
    file = RawPart(b"png", "image/png", "a.png")
    assert task.artifacts[0].parts == (
        *(TextPart("hi!"), DataPart({"a": 1}), file, DataPart({"state": "completed", "of": 1})),
        *(TextPart("ho!"), DataPart({"a": 1}), file),
    )


# --- streams ----------------------------------------------------------------------------------------------------------


async def counts(turn: Turn) -> Any:
    for number in turn.text:
        yield f"{number} "


async def yields(turn: Turn) -> Any:
    yield "Days: "
    yield turn.delegate("child")
    yield "done."


async def returns(turn: Turn) -> Any:
    return turn.delegate("child")


async def writes(turn: Turn) -> Any:
    report = turn.artifact("report.md")
    await report.write("Days: ")
    await report.write(turn.delegate("child"))
    await report.write("done.")


def returns_plainly(turn: Turn) -> Any:
    result = turn.wait(turn.delegate("child"))
    return result, turn.wait(turn.delegate("child", result)).text


async def streams_into(turn: Turn) -> Any:
    result = await turn.delegate("child", turn.text, into="report.md")
    return f"{len(result.text)} characters"


HANDLERS = [yields, returns, writes, streams_into, returns_plainly]


@pytest.mark.parametrize("parent", HANDLERS, ids=lambda parent: parent.__name__)
async def test_a_result_is_streamed_and_survives_crashes_at_every_write(parent: Any) -> None:
    task = await survives_crashes(agent_of(parent), "12345", others=[agent_of(counts, "Child")])
    texts = {artifact.artifact_id: text_of(artifact.parts) for artifact in task.artifacts}
    assert (
        texts
        == {
            yields: {"response": "Days: 1 2 3 4 5 done."},
            returns: {"response": "1 2 3 4 5 "},
            writes: {"report.md": "Days: 1 2 3 4 5 done."},
            streams_into: {"report.md": "1 2 3 4 5 ", "response": "10 characters"},
            returns_plainly: {"response": "1 2 3 4 5 1   2   3   4   5   "},
        }[parent]
    )


@on_any_store
async def test_chunks_come_through_while_the_other_agent_works() -> None:
    gate = asyncio.Event()

    async def child(turn: Turn) -> Any:
        yield "one "
        await gate.wait()
        yield "two"

    async with bounded(agent_of(yields), others=[agent_of(child, "Child")]) as client:
        texts: list[str] = []
        async for event in client.stream("go"):
            if isinstance(event, ArtifactUpdate):
                texts.append(text_of(event.artifact.parts))
                if texts[-1] == "one ":
                    gate.set()
    assert "".join(texts) == "Days: one twodone."


async def test_an_artifact_that_the_other_agent_replaces_is_replaced_here() -> None:
    async def child(turn: Turn) -> Any:
        yield Artifact("a", (TextPart("draft "),))
        yield Artifact("b", (DataPart({"n": 1}),))
        yield Artifact("a", (TextPart("final "),))
        await turn.artifact("a").write("version ")

    task = await survives_crashes(agent_of(yields), "go", others=[agent_of(child, "Child")])
    assert task.artifacts[0].parts == (TextPart("Days: final version "), DataPart({"n": 1}), TextPart("done."))


# --- questions --------------------------------------------------------------------------------------------------------


async def orders(turn: Turn) -> Any:
    yield f"{turn.text}: "
    size = await turn.ask("Which size?")
    yield size.text
    milk = await turn.require_auth(DataPart({"question": "Milk?"}))
    yield f" with {milk.text}"


async def relays(turn: Turn) -> Any:
    yield turn.delegate("middle")


@pytest.mark.parametrize("parent", [yields, relays], ids=["one level", "two levels"])
async def test_questions_of_the_other_agent_are_asked_and_answered_through_crashes(parent: Any) -> None:
    others = [agent_of(orders, "Child"), agent_of(returns, "Middle")]
    task = await survives_crashes(agent_of(parent), "Coffee", answers=["large", "milk"], others=others)
    assert task.status.state is TaskState.COMPLETED
    expected = "Coffee: large with milk"
    assert text_of(task.artifacts[0].parts) == (expected if parent is relays else f"Days: {expected}done.")
    asked = [message.parts for message in task.history if message.role is Role.AGENT]
    assert asked == [(TextPart("Which size?"),), (DataPart({"question": "Milk?"}),)]


@on_any_store
async def test_delegations_side_by_side_ask_one_after_another_and_get_their_own_answers() -> None:
    async def child(turn: Turn) -> Any:
        answer = await turn.ask(f"{turn.text}?")
        return f"{turn.text}={answer.text}"

    async def parent(turn: Turn) -> Any:
        both = await asyncio.gather(turn.delegate("child", "a"), turn.delegate("child", "b"))
        async with asyncio.TaskGroup() as group:
            more = [group.create_task(turn.delegate("child", "c")) for _ in range(2)]
        return " ".join(result.text for result in [*both, *(task.result() for task in more)])

    async with bounded(agent_of(parent), others=[agent_of(child, "Child")]) as client:
        task = await client.send("go")
        while task.status.state is TaskState.INPUT_REQUIRED:
            assert task.status.message is not None
            task = await client.send(f"answer to {text_of(task.status.message.parts)}", task=task)
        assert len(await children(client)) == 4
    assert client.text(task) == "a=answer to a? b=answer to b? c=answer to c? c=answer to c?"


async def test_streams_side_by_side_survive_crashes_at_every_write() -> None:
    async def child(turn: Turn) -> Any:
        for number in range(2):
            yield f"{turn.text}{number} "
        if turn.text == "b":
            yield (await turn.ask("Which?")).text

    async def parent(turn: Turn) -> Any:
        yield "begin "
        results = await asyncio.gather(*(turn.delegate("child", name, into=f"{name}.txt") for name in "abc"))
        yield "".join(result.text for result in results)

    task = await survives_crashes(agent_of(parent), "go", answers=["this"], others=[agent_of(child, "Child")])
    texts = {artifact.artifact_id: text_of(artifact.parts) for artifact in task.artifacts}
    whole = {"a.txt": "a0 a1 ", "b.txt": "b0 b1 this", "c.txt": "c0 c1 "}
    assert texts == {"response": "begin a0 a1 b0 b1 thisc0 c1 ", **whole}


@on_any_store
async def test_an_agent_that_asks_for_ever_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegated_task, "MOST_QUESTIONS", 2)

    async def child(turn: Turn) -> Any:
        while True:
            await turn.ask("And now?")

    async with bounded(agent_of(catches), others=[agent_of(child, "Child")]) as client:
        task = await client.send("go")
        for _ in range(2):
            task = await client.send("this", task=task)
        assert client.text(task) == "None: It asks more than 2 questions"
        while not is_terminal((await children(client))[0].status.state):
            await asyncio.sleep(0)


@on_any_store
@pytest.mark.parametrize("number", [1, 2], ids=["the message", "the answer"])
async def test_the_other_agent_gets_each_message_once_although_a_crash_follows_it(number: int) -> None:
    got: list[MessageAdded] = []

    def reaches_child(event: TaskEvent) -> bool:
        if isinstance(event, MessageAdded) and DELEGATION in event.message.metadata:
            got.append(event)
        return len(got) == number

    async with bounded(agent_of(returns), others=[agent_of(orders, "Child")]) as client:
        crashing = asyncio.create_task(client.crash_when(reaches_child))
        task = await client.start("Coffee")
        if number == 2:
            await client.finished(task)
            await client.start("large", task=task)
        await crashing
        await client.restart()
        asked = await client.finished(task)
        (child,) = await children(client)
        said = ["Coffee", "large"][:number]
        assert [message.text for message in child.history if message.role is Role.USER] == said
        assert asked.status.state is (TaskState.INPUT_REQUIRED if number == 1 else TaskState.AUTH_REQUIRED)


@on_any_store
async def test_a_delegation_that_begins_while_the_server_stops_begins_at_the_next_start() -> None:
    gate = asyncio.Event()

    async def parent(turn: Turn) -> Any:
        await gate.wait()
        yield turn.delegate("child", name="late")

    async with bounded(agent_of(parent), others=[agent_of(counts, "Child")]) as client:
        task = await client.start("12")
        client.engine.runs.stop_accepting()
        gate.set()
        for _ in range(50):  # the other agent accepts nothing any more
            await asyncio.sleep(0)
        await client.stop()
        await client.restart()
        assert client.text(await client.finished(task)) == "1 2 "


# --- failures ---------------------------------------------------------------------------------------------------------


async def catches(turn: Turn) -> Any:
    try:
        return (await turn.delegate("child")).text
    except DelegateFailedError as error:
        return f"{error.state}: {error.reason}"


@pytest.mark.parametrize("state", [TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED])
async def test_a_question_that_our_caller_must_not_be_asked_is_an_error_in_every_run_and_cancels_the_other_task(
    state: TaskState,
) -> None:
    async def child(turn: Turn) -> Any:
        await (turn.ask if state is TaskState.INPUT_REQUIRED else turn.require_auth)("Which size?")

    async def parent(turn: Turn) -> Any:
        try:
            return await turn.delegate("child", asks=False)
        except DelegateFailedError as error:
            theirs = error.task.status.state if error.task is not None else None
            return f"{error.state}, {theirs}: {error.reason} ({error})"

    others = [agent_of(child, "Child")]
    task = await survives_crashes(agent_of(parent), "go", others=others)
    message = f"The task of the agent child is {state}: Which size?"
    assert text_of(task.artifacts[0].parts) == f"{state}, {state}: Which size? ({message})"
    async with bounded(agent_of(parent), others=others) as client:
        await client.send("go")
        while [task.status.state for task in await children(client)] != [TaskState.CANCELED]:
            await asyncio.sleep(0)


@on_any_store
async def test_the_other_agent_is_not_told_of_our_task_if_the_author_does_not_want_that() -> None:
    async def child(turn: Turn) -> Any:
        return turn.metadata

    async def parent(turn: Turn) -> Any:
        return [(await turn.delegate("child", reveals_task=reveals)).data for reveals in (True, False)]

    async with bounded(agent_of(parent), others=[agent_of(child, "Child")]) as client:
        task = await client.send("go")
    told = [{DELEGATION: {"taskId": task.id, "depth": 1}}, {DELEGATION: {"depth": 1}}]
    assert task.artifacts[0].parts == (DataPart(told),)


@pytest.mark.parametrize("state", [TaskState.FAILED, TaskState.REJECTED])
async def test_a_failure_can_be_caught_and_is_the_same_in_every_run(state: TaskState) -> None:
    async def child(turn: Turn) -> Any:
        await (turn.fail if state is TaskState.FAILED else turn.reject)("Not on Sundays.")

    async def parent(turn: Turn) -> Any:
        try:
            await turn.delegate("child")
        except DelegateFailedError as error:
            answer = await turn.ask(f"{error.state}: {error.reason} Go on?")
            return answer.text
        return "done"

    task = await survives_crashes(agent_of(parent), "go", answers=["yes"], others=[agent_of(child, "Child")])
    assert [text_of(m.parts) for m in task.history if m.role is Role.AGENT] == [f"{state}: Not on Sundays. Go on?"]
    assert text_of(task.artifacts[0].parts) == "yes"


async def test_a_stream_that_fails_raises_where_it_is_yielded_and_keeps_what_came() -> None:
    async def child(turn: Turn) -> Any:
        yield "half "
        await turn.fail("Out of paper.")

    async def parent(turn: Turn) -> Any:
        try:
            yield turn.delegate("child")
        except DelegateFailedError as error:
            yield error.reason

    task = await survives_crashes(agent_of(parent), "go", others=[agent_of(child, "Child")])
    assert text_of(task.artifacts[0].parts) == "half Out of paper."


@on_any_store
async def test_a_failure_that_is_not_caught_fails_the_task_and_the_log_says_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def child(turn: Turn) -> Any:
        await turn.fail("The oven is broken.")

    async with bounded(agent_of(yields), others=[agent_of(child, "Child")]) as client:
        task = await client.send("go")
    assert task.status.state is TaskState.FAILED
    assert "The task of the agent child failed: The oven is broken." in caplog.text


@on_any_store
async def test_an_agent_that_delegates_to_itself_is_stopped() -> None:
    depths: list[Any] = []

    async def parent(turn: Turn) -> Any:
        origin = turn.metadata.get(DELEGATION)
        depths.append(origin["depth"] if isinstance(origin, dict) else 0)
        return (await turn.delegate("parent")).text

    async with bounded(agent_of(parent)) as client:
        task = await client.send("go")
    assert task.status.state is TaskState.FAILED
    assert depths == list(range(17))


@on_any_store
async def test_unusable_results_are_one_clear_error_each(caplog: pytest.LogCaptureFixture) -> None:
    async def child(turn: Turn) -> Any:
        return File(b"x" * 1_000, "big.bin")

    async def parent(turn: Turn) -> Any:
        if turn.text == "big":
            return await catches(turn)
        if turn.text == "unknown":
            return await turn.delegate("chidl")
        return await asyncio.gather(turn.delegate("child", "a", into="x"), turn.delegate("child", "b", into="x"))

    others = [agent_of(child, "Child", replies_directly=True)]
    async with bounded(agent_of(parent), others=others, limits=Limits(artifact_bytes=500)) as client:
        assert client.text(await client.send("big")) == "None: Its result has more than 500 bytes"
        assert (await client.send("unknown")).status.state is TaskState.FAILED
        assert (await client.send("twice")).status.state is TaskState.FAILED
    assert "No agent on this server is called 'chidl'; there are: child, parent. Or give a URL." in caplog.text
    assert "stream into the artifact 'x' at the same time; give each an artifact of its own" in caplog.text


# --- cancelling -------------------------------------------------------------------------------------------------------


async def waits(turn: Turn) -> Any:
    if turn.text == "ask":
        await turn.ask("Well?")
    await turn.status("waiting")
    await asyncio.Event().wait()


leave: list[asyncio.Event] = []
"""The last one lets a parent leave its delegation, which then has begun."""


async def gives_up(turn: Turn) -> Any:
    try:
        async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as group:
            leaving = group.create_task(leave[-1].wait())
            leaving.add_done_callback(lambda done: None if done.cancelled() else limit.reschedule(0))
            await turn.delegate("child")
    except TimeoutError:
        if turn.text == "sleep":
            await turn.sleep("3 days")
        return "too slow"
    return None


async def breaks(turn: Turn) -> Any:
    async with asyncio.TaskGroup() as group:
        group.create_task(turn.delegate("child"))
        await leave[-1].wait()
        raise ValueError


@on_any_store
@pytest.mark.parametrize(
    ("how", "parent", "text"),
    [
        ("at once", returns, "work"),
        ("at work", returns, "work"),
        ("parked", returns, "ask"),
        ("parked after a restart", returns, "ask"),
        ("asleep", gives_up, "sleep"),
        ("given up", gives_up, "work"),
        ("failed", breaks, "work"),
    ],
    ids=lambda value: value if isinstance(value, str) and value not in ("work", "ask", "sleep") else "",
)
async def test_the_other_agents_task_is_canceled_with_ours(how: str, parent: Any, text: str) -> None:
    leave.append(asyncio.Event())
    async with bounded(agent_of(parent), others=[agent_of(waits, "Child")]) as client:
        task = await client.start(text)
        if how.startswith("parked"):
            await client.finished(task)
        while parent in (gives_up, breaks) and not await has_named_other_task(client, task):
            await asyncio.sleep(0)
        leave[-1].set()
        while how == "asleep" and client.engine.runs.find(TaskKey(client.caller.owner, task.id)) is not None:
            await asyncio.sleep(0)
        while not (tasks := await children(client)) or (how == "at work" and tasks[0].status.message is None):
            await asyncio.sleep(0)
        if how == "parked after a restart":
            await client.crash()
            await client.restart()
        if how not in ("given up", "failed"):
            await client.cancel(task)
        while not is_terminal((await children(client))[0].status.state):
            await asyncio.sleep(0)
        assert [child.status.state for child in await children(client)] == [TaskState.CANCELED]


async def has_named_other_task(client: AgentClient, task: Task) -> bool:
    """Whether the log of a task names the other agent's task."""
    events = await client.store.tasks.events(TaskKey(client.caller.owner, task.id), after=0, limit=100)
    steps = [event.value for _, event in events if isinstance(event, StepProgressed)]
    return any(isinstance(value, dict) and value.get("task") for value in steps)


async def children(client: AgentClient) -> tuple[Task, ...]:
    """The tasks of the other agent."""
    return (await client.engine.agent("child").list_tasks(ListTasksRequest(), client.caller)).tasks


@on_any_store
async def test_a_delegation_waits_for_an_agent_that_comes_back_later_than_its_own() -> None:
    gate, child = asyncio.Event(), Agent("Child")

    @child.on_message
    async def work(turn: Turn) -> Any:
        yield "one "
        await gate.wait()
        yield "two"

    async with bounded(agent_of(returns), others=[child], clock=SystemClock()) as client:
        crashing = asyncio.create_task(client.crash_when(lambda event: isinstance(event, ArtifactUpdate)))
        task = await client.start("go")
        await crashing
        client.others = ()
        await client.restart()
        gate.set()
        for _ in range(50):  # the delegation finds no such agent
            await asyncio.sleep(0)
        client.engine.add(child)
        assert client.text(await client.finished(task)) == "one two"
