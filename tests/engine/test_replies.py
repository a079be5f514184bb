"""Answers that are a message instead of a task, message by message."""

import asyncio
from functools import partial
from typing import Any

import pytest

from parley import Agent, Turn
from parley.engine.caller import ANONYMOUS_CALLER, Caller
from parley.engine.limits import Limits
from parley.protocol.errors import UnavailableError
from parley.protocol.messages import Message, Role
from parley.protocol.push import PushConfig
from parley.protocol.requests import ListTasksRequest, SendConfiguration, SendMessageRequest
from parley.protocol.tasks import Task, TaskState
from parley.protocol.versions import Version
from parley.stores.interface import Owner, SendKey, SendRecord, StoreUnavailableError
from parley.testing.clock import FakeClock
from tests.bounded import bounded
from tests.changed_store import ChangedStore
from tests.engine.test_ownership import Workers

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_store")]


def agent_of(handler: Any, **options: Any) -> Agent:
    agent = Agent("Test")
    agent.on_message(**options)(handler)
    return agent


async def greet_or_work(turn: Turn) -> Any:
    """Replies to greetings, and keeps a task of everything else."""
    if turn.text == "hi":
        await turn.reply("Hello!")
    return f"Worked as {turn.task_id}"


async def tasks_of(client: Any) -> int:
    return (await client.agent.list_tasks(ListTasksRequest(), client.caller)).total_size


async def test_a_handler_replies_to_some_messages_and_keeps_tasks_of_others() -> None:
    async with bounded(agent_of(greet_or_work)) as client:
        request = SendMessageRequest(client.message("hi"))
        reply = await client.agent.send_message(request)
        again = [await client.agent.send_message(request) for _ in range(2)]
        streamed = [event async for batch in client.agent.send_streaming_message(request) for event in batch]
        fresh = [event async for event in client.stream("hi")]
        assert await tasks_of(client) == 0
        task = await client.send("work")
        assert (task.status.state, client.text(task)) == (TaskState.COMPLETED, f"Worked as {task.id}")
        kinds = [type(event).__name__ async for event in client.stream("work")]

    assert isinstance(reply, Message)
    assert (reply.text, reply.role, reply.task_id, bool(reply.context_id)) == ("Hello!", Role.AGENT, None, True)
    assert again == [reply, reply]
    assert streamed == [(0, reply)]
    assert [(type(event), event.text) for event in fresh] == [(Message, "Hello!")]
    assert kinds == ["Task", "StatusUpdate", "ArtifactUpdate", "StatusUpdate"]


@pytest.mark.parametrize(
    ("configuration", "caller"),
    [
        (SendConfiguration(return_immediately=True), ANONYMOUS_CALLER),
        (SendConfiguration(push_config=PushConfig("https://hook.example")), ANONYMOUS_CALLER),
        (SendConfiguration(), Caller(version=Version.V0_1)),
    ],
)
async def test_a_caller_that_needs_a_task_gets_one_that_is_completed_with_the_reply(
    configuration: SendConfiguration, caller: Caller
) -> None:
    async with bounded(agent_of(greet_or_work), caller=caller) as client:
        started = await client.agent.send_message(SendMessageRequest(client.message("hi"), configuration), caller)
        assert isinstance(started, Task)
        task = await client.finished(started)
    assert (task.status.state, task.artifacts) == (TaskState.COMPLETED, ())
    assert task.status.message is not None
    assert (task.status.message.text, task.status.message.task_id) == ("Hello!", task.id)


@pytest.mark.parametrize("needed_for", ["status", "artifact", "step", "context", "ask", "yield"])
async def test_a_reply_after_a_task_was_needed_completes_it(needed_for: str) -> None:
    async def handler(turn: Turn) -> Any:
        match needed_for:
            case "status":
                await turn.status("Looking…")
            case "artifact":
                await turn.artifact("x").write("y")
            case "step":
                await turn.step("s", lambda: 1)
            case "context":
                await turn.context.set("k", 1)
            case "ask":
                await turn.ask("Sure?")
            case _:
                yield "first"
        await turn.reply("Done.")

    async with bounded(agent_of(handler)) as client:
        task = await client.send("go")
        if needed_for == "ask":
            assert task.status.state is TaskState.INPUT_REQUIRED
            task = await client.send("yes", task=task)
        assert task.status.message is not None
        assert (task.status.state, task.status.message.text) == (TaskState.COMPLETED, "Done.")
        assert (await client.get(task)).id == task.id


async def test_whether_a_handler_may_reply_is_seen_in_its_code_or_declared() -> None:
    async def elsewhere(turn: Turn) -> None:
        await turn.reply("Hello!")

    async def inside(turn: Turn) -> None:
        await asyncio.gather(*[(lambda: turn.reply("Hello!"))()])

    async def hidden(turn: Turn) -> None:
        await elsewhere(turn)

    def plain(turn: Turn) -> None:
        turn.wait(turn.reply("Hello!"))

    class Greeter:
        async def __call__(self, turn: Turn) -> None:
            await turn.reply("Hello!")

    cases: list[tuple[Any, dict[str, Any], type]] = [
        (inside, {}, Message),
        (plain, {}, Message),
        (partial(elsewhere), {}, Message),
        (Greeter(), {}, Message),
        (hidden, {}, Task),
        (hidden, {"may_reply": True}, Message),
        (elsewhere, {"may_reply": False}, Task),
    ]
    for handler, options, kind in cases:
        async with bounded(agent_of(handler, **options)) as client:
            answer = await client.exchange("hi")
            assert type(answer) is kind


async def test_a_handler_that_raises_or_says_nothing_before_it_replies_has_a_task_to_say_so() -> None:
    async def handler(turn: Turn) -> None:
        if turn.text == "raise":
            raise ZeroDivisionError
        if turn.text == "empty":
            await turn.reply()
        if turn.text == "hi":
            await turn.reply("Hello!")

    async with bounded(agent_of(handler)) as client:
        states = [(await client.send(text)).status.state for text in ("raise", "empty", "other")]
    assert states == [TaskState.FAILED, TaskState.FAILED, TaskState.COMPLETED]


async def test_a_skill_that_was_chosen_may_reply() -> None:
    agent = Agent("Desk")

    @agent.skill(tags=["hello"])
    async def greet(turn: Turn) -> None:  # pyright: ignore[reportUnusedFunction]
        await turn.reply("Hello!")

    @agent.skill(may_reply=True)
    async def work(turn: Turn) -> str:  # pyright: ignore[reportUnusedFunction]
        return (await turn.ask("What?")).text

    async with bounded(agent) as client:
        assert isinstance(await client.exchange("greet me"), Message)
        assert await tasks_of(client) == 0
        asked = await client.send("work")
        assert client.text(await client.send("this", task=asked)) == "this"
        picked = await client.send("greet", task=await client.send("?"))
        assert picked.status.message is not None
        assert picked.status.message.text == "Hello!"


async def test_a_restart_before_the_reply_leaves_nothing_behind_and_the_message_may_come_again() -> None:
    begun = list[str]()

    async def handler(turn: Turn) -> None:
        begun.append(turn.text)
        if len(begun) == 1:
            await asyncio.Event().wait()
        await turn.reply(f"Reply {len(begun)}")

    async with bounded(agent_of(handler)) as client:
        request = SendMessageRequest(client.message("hi"))
        sends = [asyncio.create_task(client.agent.send_message(request)) for _ in range(2)]
        while not begun:
            await asyncio.sleep(0)
        await client.stop()
        for failed in await asyncio.gather(*sends, return_exceptions=True):
            assert isinstance(failed, UnavailableError)
        await client.restart()
        assert await tasks_of(client) == 0
        reply = await client.agent.send_message(request)
        assert isinstance(reply, Message)
        assert (reply.text, begun) == ("Reply 2", ["hi", "hi"])


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_handler_that_takes_long_to_decide_gets_a_task_to_show(streaming: bool) -> None:
    gate = asyncio.Event()

    async def handler(turn: Turn) -> None:
        await gate.wait()
        await turn.reply("Late.")

    limits = Limits(wait_seconds=0.01, undecided_seconds=0.01)
    async with bounded(agent_of(handler), limits=limits) as client:
        if streaming:
            events = client.stream("hi")
            shown: Any = await anext(events)
            gate.set()
            rest = [event async for event in events]
            assert rest[-1].status.message.text == "Late."
        else:
            shown = await client.send("hi")
            gate.set()
        assert shown.status.state in (TaskState.SUBMITTED, TaskState.WORKING)
        task = await client.finished(shown)
    assert task.status.message is not None
    assert (task.status.state, task.status.message.text) == (TaskState.COMPLETED, "Late.")


async def test_a_handler_that_never_decides_fails_in_time() -> None:
    begun = asyncio.Event()

    async def handler(turn: Turn) -> None:
        begun.set()
        await asyncio.Event().wait()
        await turn.reply("never")

    clock = FakeClock()
    async with bounded(agent_of(handler), clock=clock, limits=Limits(run_seconds=5)) as client:
        sending = asyncio.create_task(client.send("hi"))
        await begun.wait()
        await clock.advance(6)
        assert (await sending).status.state is TaskState.FAILED


async def test_a_reply_that_the_store_refuses_is_an_error_and_the_message_may_come_again() -> None:
    class Refusing(ChangedStore):
        refuses = True

        async def sends_put(self, owner: Owner, send: SendKey, record: SendRecord, **options: Any) -> None:
            if self.refuses:
                raise StoreUnavailableError("full")
            await super().sends_put(owner, send, record, **options)

    store = Refusing()
    async with bounded(agent_of(greet_or_work), store=store) as client:
        request = SendMessageRequest(client.message("hi"))
        with pytest.raises(UnavailableError):
            await client.agent.send_message(request)
        store.refuses = False
        assert isinstance(await client.agent.send_message(request), Message)


async def test_a_claim_whose_caller_disconnects_is_withdrawn() -> None:
    begun = list[str]()

    async def handler(turn: Turn) -> None:
        begun.append(turn.text)
        await turn.reply("Hello!")

    async with Workers(handler) as workers:
        one, two = await workers.join("one"), await workers.join("two")
        sends: Any = one.engine.store.sends
        put, is_claimed = sends.put, asyncio.Event()

        async def slow(*values: Any, **named: Any) -> None:
            sends.put = put
            await put(*values, **named)
            is_claimed.set()
            await asyncio.Event().wait()

        sends.put = slow
        sending = one.send("hi", "m-1")
        await is_claimed.wait()
        sending.cancel()
        assert (await workers.result(two.send("hi", "m-1"))).text == "Hello!"
        assert begun == ["hi"]


def look_too_early(sends: Any) -> None:
    """Let the next look at the messages find nothing, as if it had come before those of the other worker."""
    find = sends.find

    async def nothing(*_: Any, **__: Any) -> None:
        sends.find = find

    sends.find = nothing


async def test_workers_that_get_the_same_message_share_its_reply_or_its_task() -> None:
    begun, gates = list[str](), [asyncio.Event() for _ in range(4)]

    async def handler(turn: Turn) -> Any:
        begun.append(turn.text)
        await gates[len(begun) - 1].wait()
        if turn.text == "hi":
            await turn.reply(f"Hello {len(begun)}")
        yield f"task {len(begun)}"

    async with Workers(handler) as workers:
        one, two = await workers.join("one"), await workers.join("two")
        for text in ("hi", "work"):
            first = one.send(text, text)
            await workers.until(lambda text=text: text in begun)
            look_too_early(two.engine.store.sends)
            second = two.send(text, text)
            await workers.clock.advance(2)
            gates[len(begun) - 1].set()
            answers = await workers.result(first, second)
            assert answers[0] == answers[1]
        assert (type(answers[0]), begun) == (Task, ["hi", "work"])  # pyright: ignore[reportPossiblyUnboundVariable]
        slow = one.send("hi", "m-3")
        await workers.until(lambda: len(begun) == 3)
        one.seem_dead()
        again = two.send("hi", "m-3")
        gates[3].set()
        assert (await workers.result(again)).text == "Hello 4"
        gates[2].set()
        assert (await workers.result(slow)).text == "Hello 4"
