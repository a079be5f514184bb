"""Sends: new tasks, answers, repeats, waiting and not waiting."""

import asyncio
from typing import Any

import pytest
from msgspec import structs

from parley import Agent, Turn
from parley.engine.caller import Caller
from parley.engine.limits import Limits
from parley.protocol.errors import (
    ContentTypeNotSupportedError,
    InternalError,
    InvalidParamsError,
    RateLimitedError,
    TaskFinishedError,
    TaskNotFoundError,
    UnavailableError,
)
from parley.protocol.events import ArtifactUpdate, StatusUpdate
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.push import PushConfig
from parley.protocol.requests import GetTaskRequest, ListTasksRequest, SendConfiguration, SendMessageRequest
from parley.protocol.tasks import Artifact, Task, TaskState
from parley.stores.interface import TaskKey
from parley.testing.clock import FakeClock
from tests.bounded import bounded
from tests.changed_store import ChangedStore

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_store")]


def echo(**options: Any) -> Agent:
    agent = Agent("Echo", **options)

    @agent.on_message
    async def say(turn: Turn) -> str:
        return turn.text

    return agent


def asking() -> Agent:
    agent = Agent("Currency")

    @agent.on_message
    async def convert(turn: Turn) -> str:
        answer = await turn.ask("To which currency?")
        return f"{turn.text} in {answer.text}"

    return agent


class Gate:
    """A handler that says "begun" and waits to be let through."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.open = asyncio.Event()
        self.runs = 0
        self.agent = Agent("Gate")
        self.agent.on_message(self.handle)

    async def handle(self, turn: Turn) -> str:
        self.runs += 1
        self.begun.set()
        await self.open.wait()
        return "through"


async def test_a_send_waits_for_the_result() -> None:
    async with bounded(echo()) as client:
        task = await client.send("hello")

    assert task.status.state is TaskState.COMPLETED
    assert task.artifacts == (Artifact("response", (TextPart("hello"),), "response", index=0),)
    assert [(message.role, message.text) for message in task.history] == [(Role.USER, "hello")]
    assert {message.task_id for message in task.history} == {task.id}


async def test_a_send_that_does_not_wait_returns_the_task_as_it_begins() -> None:
    gate = Gate()
    async with bounded(gate.agent) as client:
        task = await client.start("go")
        assert task.status.state in (TaskState.SUBMITTED, TaskState.WORKING)
        gate.open.set()
        assert client.text(await client.finished(task)) == "through"


async def test_a_stream_shows_the_task_first_and_then_every_update_in_order() -> None:
    agent = Agent("Counter")

    @agent.on_message
    async def count(turn: Turn) -> Any:
        await turn.status("counting")
        for number in range(3):
            yield str(number)

    async with bounded(agent) as client:
        first, *updates = [event async for event in client.stream("go")]

    assert isinstance(first, Task)
    assert first.status.state is TaskState.SUBMITTED
    assert [u.status.state for u in updates if isinstance(u, StatusUpdate)] == ["working", "working", "completed"]
    chunks = [(u.artifact.parts[0].text, u.append) for u in updates if isinstance(u, ArtifactUpdate)]
    assert chunks == [("0", False), ("1", True), ("2", True)]


async def test_a_question_is_answered_by_the_next_message_to_the_task() -> None:
    async with bounded(asking()) as client:
        asked = await client.send("100 USD")
        assert asked.status.state is TaskState.INPUT_REQUIRED
        assert asked.status.message is not None
        assert asked.status.message.text == "To which currency?"

        answered = await client.send("EUR", task=asked)

    assert client.text(answered) == "100 USD in EUR"
    assert [message.text for message in answered.history] == ["100 USD", "To which currency?", "EUR"]


async def test_a_streamed_answer_shows_the_task_at_work_again() -> None:
    async with bounded(asking()) as client:
        asked = await client.send("100 USD")
        events = [event async for event in client.stream("EUR", task=asked)]

    assert isinstance(events[0], Task)
    assert events[0].status.state is TaskState.WORKING
    assert events[-1].status.state is TaskState.COMPLETED


async def test_a_message_to_a_finished_task_is_refused_and_changes_nothing() -> None:
    async with bounded(echo()) as client:
        task = await client.send("hello")
        with pytest.raises(TaskFinishedError):
            await client.send("again", task=task)
        assert await client.get(task) == task


async def test_a_caller_of_0_1_names_its_tasks_and_reopens_them() -> None:
    """A task that is opened again takes its steps anew."""
    agent = Agent("Steps")

    @agent.on_message
    async def say(turn: Turn) -> Any:
        return await turn.step("say", lambda: turn.text)

    async with bounded(agent) as client:
        for text in ("one", "two"):
            message = Message("", Role.USER, (TextPart(text),), "session", "my-task")
            request = SendMessageRequest(message, caller_names_task=True)
            task = await client.agent.send_message(request, client.caller)
            assert isinstance(task, Task)
            assert (task.id, task.context_id, client.text(task)) == ("my-task", "session", text)

    assert [message.text for message in task.history] == ["one", "two"]


async def test_two_messages_that_begin_the_same_task_of_0_1_at_once_make_one_run() -> None:
    gate = Gate()
    async with bounded(gate.agent) as client:
        messages = [Message("", Role.USER, (TextPart(text),), None, "mine") for text in ("one", "two")]
        sends = [
            asyncio.create_task(client.agent.send_message(SendMessageRequest(message, caller_names_task=True)))
            for message in messages
        ]
        await gate.begun.wait()
        run = client.engine.runs.find(TaskKey(client.caller.owner, "mine"))
        while run is not None and len(run.journal.messages) < 2:
            await asyncio.sleep(0)
        gate.open.set()
        first, second = await asyncio.gather(*sends)
    assert gate.runs == 1
    assert first == second


class Meeting(ChangedStore):
    """A store that lets two readers of a waiting task read the same: each waits for the other."""

    def __init__(self) -> None:
        super().__init__()
        self._met: dict[str, asyncio.Event] = {}

    async def _meet(self, place: str) -> None:
        if place in self._met:
            self._met[place].set()
        else:
            self._met[place] = asyncio.Event()
            await self._met[place].wait()

    async def tasks_head(self, key: TaskKey) -> Any:
        head = await super().tasks_head(key)
        if head is not None and head.state is TaskState.INPUT_REQUIRED:
            await self._meet("head")
        return head

    async def tasks_events(self, key: TaskKey, **bounds: Any) -> Any:
        events = await super().tasks_events(key, **bounds)
        await self._meet("events")
        return events


async def test_of_two_answers_at_once_one_goes_on_with_the_task_and_the_other_joins_it() -> None:
    gate = asyncio.Event()
    runs: list[str] = []

    async def handler(turn: Turn) -> str:
        runs.append("run")
        answer = await turn.ask("?")
        await gate.wait()
        return answer.text

    agent = Agent("Ask")
    agent.on_message(handler)
    async with bounded(agent, store=Meeting()) as client:
        asked = await client.send("go")
        answers = [asyncio.create_task(client.send(text, task=asked)) for text in ("one", "two")]
        while (run := client.engine.runs.find(TaskKey(client.caller.owner, asked.id))) is None or (
            len(run.journal.messages) < 3
        ):
            await asyncio.sleep(0)
        gate.set()
        first, second = await asyncio.gather(*answers)
    assert first == second
    assert len(runs) == 2
    assert {message.text for message in first.history if message.role is Role.USER} == {"go", "one", "two"}


async def test_an_answer_with_a_webhook_too_many_is_refused_and_changes_nothing() -> None:
    async with bounded(asking(), limits=Limits(push_configs_per_task=1)) as client:
        push = [SendConfiguration(push_config=PushConfig("https://hook", id=name)) for name in ("one", "two")]
        asked: Any = await client.agent.send_message(SendMessageRequest(client.message("100 USD"), push[0]))
        with pytest.raises(InvalidParamsError, match="1 webhooks"):
            await client.agent.send_message(SendMessageRequest(client.message("EUR", task=asked), push[1]))
        assert await client.get(asked) == asked
        assert client.text(await client.send("EUR", task=asked)) == "100 USD in EUR"


async def test_unknown_and_foreign_tasks_look_the_same() -> None:
    async with bounded(asking()) as client:
        task = await client.send("mine")
        stranger = client.as_caller(name="mallory")
        neighbour = client.as_caller(tenant="other")
        for caller, task_id in ((client, "nothing"), (stranger, task.id), (neighbour, task.id)):
            for attempt in (caller.send("x", task=task_id), caller.get(task_id), caller.cancel(task_id)):
                with pytest.raises(TaskNotFoundError, match=r"^Task not found$"):
                    await attempt
            with pytest.raises(TaskNotFoundError):
                await anext(caller.follow(task_id))
        page = await client.agent.list_tasks(ListTasksRequest(), stranger.caller)
        assert page.total_size == 0


async def test_a_context_is_kept_and_must_fit_the_task() -> None:
    async with bounded(asking()) as client:
        message = structs.replace(client.message("hi"), context_id="mine")
        task = await client.agent.send_message(SendMessageRequest(message))
        assert isinstance(task, Task)
        assert task.context_id == "mine"
        wrong = structs.replace(client.message("hi", task=task), context_id="another")
        with pytest.raises(InvalidParamsError) as caught:
            await client.agent.send_message(SendMessageRequest(wrong))
        assert caught.value.path == "$.message.contextId"


async def test_the_same_message_again_gets_the_same_task_and_no_second_run() -> None:
    gate = Gate()
    async with bounded(gate.agent) as client:
        request = SendMessageRequest(client.message("once"))
        sends = [asyncio.create_task(client.agent.send_message(request)) for _ in range(3)]
        sent_by_another: Any = asyncio.create_task(client.agent.send_message(request, Caller("bob")))
        await gate.begun.wait()
        gate.open.set()
        tasks = await asyncio.gather(*sends)
        assert (await sent_by_another).id not in {task.id for task in tasks if isinstance(task, Task)}
        later = await client.agent.send_message(request)
        streamed = [event async for batch in client.agent.send_streaming_message(request) for _, event in batch]

    assert gate.runs == 2
    assert tasks == [later, later, later]
    assert streamed[0] == later
    assert isinstance(streamed[-1], StatusUpdate)
    assert streamed[-1].status.state is TaskState.COMPLETED


async def test_a_repeat_survives_a_restart_but_not_the_window() -> None:
    clock = FakeClock()
    async with bounded(echo(), clock=clock, limits=Limits(idempotency_seconds=30)) as client:
        request = SendMessageRequest(client.message("once"))
        task: Any = await client.agent.send_message(request)
        await client.crash()
        await client.restart()
        assert await client.agent.send_message(request) == task
        await clock.advance(31)
        again: Any = await client.agent.send_message(request)
        await clock.advance(29)
        assert await client.agent.send_message(request) == again
        await clock.advance(2)  # after the window of a message that this process has taken in
        last: Any = await client.agent.send_message(request)
        assert len({task.id, again.id, last.id}) == 3


@pytest.mark.parametrize("jump", [11 * 60, 86_400, -11 * 60])
async def test_a_clock_that_is_set_does_not_end_the_window(jump: int) -> None:
    """Neither for what was sent before, nor for what is sent meanwhile, also when the clock is put right again."""
    clock = FakeClock()
    async with bounded(echo(), clock=clock) as client:
        before, meanwhile = (SendMessageRequest(client.message("once")) for _ in range(2))
        sent = await client.agent.send_message(before)
        clock.jump(jump)
        assert await client.agent.send_message(before) == sent
        sent_meanwhile = await client.agent.send_message(meanwhile)
        clock.jump(-jump)
        await clock.advance(8 * 60)
        assert await client.agent.send_message(before) == sent
        assert await client.agent.send_message(meanwhile) == sent_meanwhile


async def test_the_same_id_with_other_content_is_another_message() -> None:
    async with bounded(echo()) as client:
        message = client.message("one")
        first = await client.agent.send_message(SendMessageRequest(message))
        other = structs.replace(message, parts=(TextPart("two"),))
        second = await client.agent.send_message(SendMessageRequest(other))
    assert client.text(second) == "two"  # pyright: ignore[reportArgumentType]
    assert first != second


async def test_idempotency_can_be_turned_off() -> None:
    async with bounded(echo(), limits=Limits(idempotency_seconds=0)) as client:
        request = SendMessageRequest(client.message("twice"))
        assert await client.agent.send_message(request) != await client.agent.send_message(request)


async def test_a_message_to_a_task_at_work_joins_its_history() -> None:
    agent = Agent("Listener")
    heard = asyncio.Event()

    @agent.on_message
    async def listen(turn: Turn) -> str:
        await heard.wait()
        return " ".join(message.text for message in turn.history)

    async with bounded(agent) as client:
        task = await client.start("one")
        sending = asyncio.create_task(client.send("two", task=task))
        while len((await client.get(task)).history) < 2:
            await asyncio.sleep(0)
        heard.set()
        assert client.text(await sending) == "one two"


async def test_history_is_cut_to_what_was_asked_for() -> None:
    async with bounded(asking()) as client:
        asked = await client.send("100 USD")
        request = SendMessageRequest(client.message("EUR", task=asked), SendConfiguration(history_length=1))
        task = await client.agent.send_message(request)
        without = await client.agent.get_task(GetTaskRequest(asked.id, history_length=0))
    assert isinstance(task, Task)
    assert [message.text for message in task.history] == ["EUR"]
    assert without.history == ()


async def test_a_wait_with_a_cap_shows_the_task_as_it_stands() -> None:
    gate = Gate()
    async with bounded(gate.agent, limits=Limits(wait_seconds=1)) as client:
        task = await client.send("go")
        assert task.status.state is TaskState.WORKING
        gate.open.set()


@pytest.mark.embedded
async def test_too_many_sends_are_refused_before_anything_is_made_of_them() -> None:
    gate = Gate()
    async with bounded(gate.agent, limits=Limits(runs_at_once=1, sends_waiting=1)) as client:
        first = await client.start("one")
        second = await client.start("two")
        with pytest.raises(RateLimitedError):
            await client.send("three")
        assert (client.engine.runs.working, client.engine.runs.waiting) == (1, 1)
        gate.open.set()
        for task in (first, second):
            assert client.text(await client.finished(task)) == "through"
        assert (await client.agent.list_tasks(ListTasksRequest())).total_size == 2


async def test_what_the_card_does_not_list_is_refused() -> None:
    async with bounded(echo(input_modes=["image/png"])) as client:
        with pytest.raises(ContentTypeNotSupportedError):
            await client.send("text")


async def test_a_message_may_be_only_so_large() -> None:
    async with bounded(echo(), limits=Limits(message_bytes=10)) as client:
        with pytest.raises(InvalidParamsError) as caught:
            await client.send("more than ten bytes")
        assert caught.value.path == "$.message.parts"


async def test_an_agent_that_replies_directly_keeps_no_task_and_repeats_itself() -> None:
    agent = Agent("Oracle", replies_directly=True)
    asked: list[str] = []

    @agent.on_message
    async def say(turn: Any) -> Any:
        asked.append(turn.text)
        yield "yes"
        yield "no"

    async with bounded(agent) as client:
        request = SendMessageRequest(client.message("?"))
        reply = await client.agent.send_message(request)
        streamed = [event async for batch in client.agent.send_streaming_message(request) for _, event in batch]
        with pytest.raises(TaskNotFoundError):
            await client.send("?", task="t")
        assert (await client.agent.list_tasks(ListTasksRequest())).total_size == 0

    assert isinstance(reply, Message)
    assert (reply.text, reply.role, asked) == ("yes\nno", Role.AGENT, ["?"])
    assert streamed == [reply]


async def test_a_direct_reply_that_fails_says_nothing_of_why() -> None:
    agent = Agent("Oracle", replies_directly=True)

    @agent.on_message
    async def say(turn: Any) -> None:
        if turn.text == "raise":
            raise RuntimeError("secret")
        if turn.text == "ask":
            await turn.ask("Which?")

    async with bounded(agent) as client:
        for text in ("raise", "ask", "nothing"):
            with pytest.raises(InternalError, match=r"^The agent failed. Reference: id-\d+$"):
                await client.send(text)


async def test_a_stopping_engine_takes_nothing_in() -> None:
    async with bounded(echo()) as client:
        engine = client.agent
        await client.stop()
        with pytest.raises(UnavailableError):
            await engine.send_message(SendMessageRequest(client.message("late")))
