"""What leaves the process: not before its task is durable, and under a key that a repeated message shares."""

import asyncio
import threading
from typing import Any

import pytest

from parley import Agent, Turn
from parley.engine.caller import Caller
from parley.engine.limits import Limits
from parley.protocol.errors import UnavailableError
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.push import PushConfig
from parley.protocol.requests import SendConfiguration, SendMessageRequest
from parley.protocol.tasks import Task, TaskState
from parley.protocol.versions import Version
from parley.stores.interface import StoreUnavailableError, TaskFilter, TaskKey, Write
from tests.bounded import bounded
from tests.changed_store import ChangedStore
from tests.engine.test_slow_and_failing_stores import SlowLog, until

pytestmark = pytest.mark.anyio


def request(text: str = "charge 5", id: str = "m-1", **configuration: Any) -> SendMessageRequest:
    return SendMessageRequest(Message(id, Role.USER, (TextPart(text),)), SendConfiguration(**configuration))


class Charges:
    """An agent that charges in a step, after a question if the message has one, and notes each charge with its key."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.agent = Agent("Shop")
        self.agent.on_message(self.handle)
        self.begun = asyncio.Event()

    async def handle(self, turn: Turn) -> str:
        self.begun.set()
        await turn.status("Charging…")
        if "?" in turn.text:
            await turn.ask("Really?")
        await turn.step("charge", self.charge, turn.key_for("charge"))
        return "charged"

    async def charge(self, key: str) -> str:
        self.made.append(key)
        return key


@pytest.mark.parametrize("is_answer", [False, True])
async def test_a_step_begins_only_when_what_began_its_run_is_durable(is_answer: bool) -> None:
    shop, store = Charges(), SlowLog()
    async with bounded(shop.agent, store=store) as client:
        parked = await client.send("charge?") if is_answer else None
        shop.begun.clear()
        store.is_holding = True
        sender = asyncio.create_task(client.send("yes", task=parked))
        await until(lambda: store.held)
        for _ in range(10):
            await asyncio.sleep(0)
        assert (shop.begun.is_set(), shop.made) == (not is_answer, [])  # an answer's handler waits, too
        store.let_go()
        assert (await sender).status.state is TaskState.COMPLETED
        assert len(shop.made) == 1


async def test_a_plain_handler_that_was_left_behind_takes_no_more_steps() -> None:
    has_begun, is_let_go, has_ended, charged = threading.Event(), threading.Event(), threading.Event(), list[int]()
    agent = Agent("Shop")

    @agent.on_message
    def handle(turn: Turn) -> None:  # pyright: ignore[reportUnusedFunction]
        has_begun.set()
        try:
            is_let_go.wait()
            turn.wait(turn.step("charge", charged.append, 5))
        finally:
            has_ended.set()

    async with bounded(agent, limits=Limits(cancel_seconds=0)) as client:
        task = await client.start("charge 5")
        await asyncio.to_thread(has_begun.wait, 5)
        assert (await client.cancel(task)).status.state is TaskState.CANCELED
        is_let_go.set()
        assert await asyncio.to_thread(has_ended.wait, 5)
    assert charged == []


async def test_a_store_that_refuses_twice_lets_one_message_charge_once() -> None:
    class Refusing(ChangedStore):
        refusals = 2

        def tasks_write(self, write: Write) -> Any:
            if not self.refusals:
                return super().tasks_write(write)
            self.refusals -= 1
            refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(refused.set_exception, StoreUnavailableError("the disk is full"))
            return refused

    shop = Charges()
    async with bounded(shop.agent, store=Refusing()) as client:
        for _ in range(2):
            with pytest.raises(UnavailableError):
                await client.agent.send_message(request())
        assert shop.made == []
        task = await client.agent.send_message(request())
        assert isinstance(task, Task)
        assert task.status.state is TaskState.COMPLETED
        assert len(shop.made) == 1


async def test_values_of_a_context_are_kept_only_when_their_task_is() -> None:
    async def handler(turn: Turn) -> str:
        await turn.context.set("seen", True)
        return "noted"

    agent, store = Agent("Memory"), SlowLog()
    agent.on_message(handler)
    noted: list[str] = []
    remember = store.contexts.put

    async def noting(*arguments: Any, **named: Any) -> None:
        noted.append("value")
        await remember(*arguments, **named)

    store.contexts.put = noting
    async with bounded(agent, store=store) as client:
        store.is_holding = True
        sender = asyncio.create_task(client.send("go"))
        await until(lambda: store.held)
        for _ in range(10):
            await asyncio.sleep(0)
        assert noted == []
        store.let_go()
        await sender
        assert noted == ["value"]


async def test_a_repeated_message_gives_its_steps_the_same_key_although_the_first_was_lost() -> None:
    """Also in 0.1, whose messages have no ids; another message, caller, agent or text has another key."""
    shop = Charges()

    async def key_of(sent: SendMessageRequest, caller: Caller, agent: str = "shop") -> str:
        """The key that a new process gives a message of which it has never heard."""
        shop.agent.id = agent
        async with bounded(shop.agent, caller=caller) as client:
            await client.agent.send_message(sent, caller)
        return shop.made[-1]

    alice, bob = Caller("alice", "acme"), Caller("bob", "acme")
    key = await key_of(request(), alice)
    assert await key_of(request(), alice) == key
    old = Caller("alice", "acme", version=Version.V0_1)
    named = [SendMessageRequest(Message("", Role.USER, (TextPart("charge 5"),), task_id=id), caller_names_task=True)
             for id in ("t-1", "t-1", "t-2")]  # fmt: skip
    first, again, other = [await key_of(each, old) for each in named]
    assert first == again
    others = [
        await key_of(request(id="m-2"), alice),
        await key_of(request("charge 6"), alice),
        await key_of(request(), bob),
        await key_of(request(), Caller("alice", "umbrella")),
        await key_of(request(), alice, agent="other-shop"),
    ]
    assert len({key, first, other, *others}) == 8


async def test_the_key_of_a_message_stays_the_same_through_answers_and_restarts() -> None:
    keys: list[str] = []

    async def handler(turn: Turn) -> str:
        keys.append(turn.idempotency_key)
        await turn.ask("Really?")
        if len(keys) == 2:
            await asyncio.Event().wait()
        return "done"

    agent = Agent("Keys")
    agent.on_message(handler)
    async with bounded(agent) as client:
        task = await client.send("go")
        await client.start("yes", task=task)
        await until(lambda: len(keys) == 2)
        await client.crash()
        await client.restart()
        await client.finished(task)
    assert len(keys) == 3
    assert len(set(keys)) == 1


async def test_a_webhook_that_came_with_a_stream_is_kept_although_its_caller_hangs_up_at_once() -> None:
    async def handler(turn: Turn) -> str:
        return (await turn.ask("?")).text

    agent, store = Agent("Hooked"), SlowLog()
    agent.on_message(handler)
    hook = PushConfig(url="https://hooks.example/1")
    async with bounded(agent, store=store) as client:

        async def hang_up(task: Task | None, id: str) -> None:
            """Send with a webhook, and go away while the store takes its time."""
            store.is_holding = True
            message = Message(id, Role.USER, (TextPart("go"),), None, task.id if task else None)
            sent = SendMessageRequest(message, SendConfiguration(push_config=PushConfig(url=f"{hook.url}{id}", id=id)))
            reading = asyncio.create_task(anext(client.agent.send_streaming_message(sent)))
            await until(lambda: store.held)
            reading.cancel()
            await asyncio.wait([reading])
            store.let_go()

        await hang_up(None, "a")
        (head,) = (await store.tasks.list(client.caller.owner, TaskFilter())).heads
        key = TaskKey(client.caller.owner, head.key.task_id)
        assert [(each.config.id, each.delivered_seq) for each in await store.outbox.webhooks(key)] == [("a", 0)]
        task = await client.finished(head.key.task_id)
        parked_at = len(await store.tasks.events(key, after=0, limit=100))
        await hang_up(task, "b")
        found = [(each.config.id, each.delivered_seq) for each in await store.outbox.webhooks(key)]
        assert found == [("a", 0), ("b", parked_at)]
