"""The push outbox: what webhooks are told, in which order, how often, and who waits for it (nobody)."""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec import structs

import parley.engine.webhooks.backlog
import parley.engine.webhooks.deliveries
from parley import Agent, Turn
from parley.engine.caller import Caller
from parley.engine.observer import DeliveryOutcome
from parley.engine.webhooks.deliveries import Deliveries, DeliveryError, DeliveryRefusedError, NoAnswerError
from parley.engine.webhooks.delivery_limits import DeliveryLimits
from parley.engine.webhooks.notifications import Notification
from parley.engine.webhooks.retries import status_of
from parley.protocol.events import ArtifactUpdate, StatusUpdate, TaskEvent
from parley.protocol.lifecycle import fold
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.push import PushConfig
from parley.protocol.requests import CreatePushConfigRequest, SendConfiguration, SendMessageRequest
from parley.protocol.tasks import Task, TaskState, TaskStatus
from parley.protocol.versions import Version
from parley.stores.interface import DeliveryFailure, Owner, Store, StoreUnavailableError, TaskKey, Write
from parley.stores.sqlite.store import SqliteStore
from parley.testing.clock import FakeClock
from tests.bounded import bounded, open_log
from tests.changed_store import ChangedStore
from tests.deadlines import fail_after
from tests.stores.writes import KEY, NEW, NOON, addition, chunk, created, creation

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_store")]

HOOK = PushConfig("https://hook.example/secret-path", "t-1", "hook", "s3cret-token")


class Inbox:
    """Webhooks that write down what they are told, and fail or hang as a test wants it."""

    def __init__(self) -> None:
        self.got: list[Notification] = []
        self.tried: list[Notification] = []
        self.failures: deque[Exception | None] = deque()
        self.is_down = False
        self.gates: dict[str, asyncio.Event] = {}
        self.under_way = 0
        self.most_under_way = 0
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    async def send(self, notification: Notification) -> None:
        self.tried.append(notification)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        self._wake()
        try:
            gate = self.gates.get(notification.config.url)
            if gate is not None:
                await gate.wait()
            failure = self.failures.popleft() if self.failures else DeliveryError("down") if self.is_down else None
            if failure is not None:
                raise failure
            self.got.append(notification)
        finally:
            self.under_way -= 1
            self._wake()

    def _wake(self) -> None:
        for is_there, future in self._waiting:
            if is_there() and not future.done():
                future.set_result(None)

    async def until(self, is_there: Callable[[], bool]) -> None:
        if not is_there():
            future = asyncio.get_running_loop().create_future()
            self._waiting.append((is_there, future))
            await future

    @property
    def told(self) -> list[Any]:
        """What was told, briefly."""
        return [brief(notification.event) for notification in self.got]


def brief(event: Any) -> Any:
    match event:
        case StatusUpdate():
            return event.status.state.value
        case ArtifactUpdate():
            return "".join(part.text for part in event.artifact.parts if isinstance(part, TextPart))
        case _:
            return event


class Clock(FakeClock):
    """A clock that knows who sleeps."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []
        self._slept = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self._slept.set()
        await super().sleep(seconds)

    async def wait_for_sleeper(self, number: int) -> None:
        while len(self.pauses) < number:
            self._slept.clear()
            await self._slept.wait()


class Outcomes:
    """An observer of deliveries."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.changes: list[tuple[str, int]] = []

    def webhook_changed(self, key: TaskKey, agent: str, config_id: str, change: str, *, events: int = 0) -> None:
        assert (agent, config_id) == ("cook", "hook")
        self.changes.append((change, events))

    def delivered(self, key: TaskKey, agent: str, config_id: str, outcome: DeliveryOutcome, seconds: float) -> None:
        assert (agent, config_id) == ("cook", "hook")
        self.seen.append((key.task_id, outcome))


@asynccontextmanager
async def delivering(store: Any, inbox: Inbox, **options: Any) -> AsyncGenerator[Deliveries]:
    options.setdefault("clock", FakeClock())
    options.setdefault("jitter", lambda: 1.0)
    with fail_after(5):
        async with Deliveries(store, inbox, **options) as deliveries:
            yield deliveries


async def settled(deliveries: Deliveries) -> None:
    """Return when nothing is left to deliver."""
    await asyncio.sleep(0)
    while deliveries.pending:
        await asyncio.sleep(0)


async def a_log(*, chunks: int = 0, config: PushConfig = HOOK, version: Version = Version.V1_0) -> Store:
    """A log with one task that has a webhook, which has been told nothing yet."""
    store = await open_log()
    await store.tasks.write(creation())
    await store.outbox.put(KEY, config, version=version, after=0)
    for number in range(1, chunks + 1):
        await store.tasks.write(addition(number))
    return store


def status(state: TaskState, message: Message | None = None) -> StatusUpdate:
    return StatusUpdate("t-1", "c-1", TaskStatus(state, message, NOON))


async def place(store: Any) -> list[int]:
    return [webhook.delivered_seq for webhook in await store.outbox.webhooks(KEY)]


def agent_of(handler: Any, **options: Any) -> Agent:
    agent = Agent("Test", **options)
    agent.on_message(handler)
    return agent


def sending(message: Message, config: PushConfig | None) -> SendMessageRequest:
    return SendMessageRequest(message, SendConfiguration(push_config=config))


# --- what is told -----------------------------------------------------------------------------------------------------


async def test_a_webhook_given_with_a_message_hears_everything_that_the_run_says() -> None:
    async def handler(turn: Turn) -> Any:
        await turn.status("Thinking")
        yield "one "
        yield "two"

    inbox = Inbox()
    async with bounded(agent_of(handler), sender=inbox) as client:
        task = await client.agent.send_message(sending(client.message("go"), PushConfig("https://hook.example")))
        assert isinstance(task, Task)
        await inbox.until(lambda: inbox.told[-1:] == ["completed"])
    assert inbox.told == ["working", "working", "one ", "two", "completed"]
    config = PushConfig("https://hook.example", task.id, task.id)
    first = inbox.got[0]
    assert first == Notification(TaskKey(Owner("", ""), task.id), "test", config, Version.V1_0, 3, first.event)
    assert [notification.seq for notification in inbox.got] == [3, 4, 5, 6, 7]


async def test_a_webhook_registered_later_hears_what_comes_from_then_on() -> None:
    go_on = asyncio.Event()

    async def handler(turn: Turn) -> Any:
        yield "before"
        await go_on.wait()
        yield "after"

    inbox = Inbox()
    async with bounded(agent_of(handler), sender=inbox) as client:
        task = await client.start("go")
        async for _, event in client.follow(task, after=0):
            if isinstance(event, ArtifactUpdate):
                break
        request = CreatePushConfigRequest(task.id, PushConfig("https://hook.example"))
        await client.agent.create_push_config(request)
        go_on.set()
        await inbox.until(lambda: inbox.told[-1:] == ["completed"])
    assert inbox.told == ["after", "completed"]


@pytest.mark.parametrize("version", [Version.V0_1, Version.V0_2, Version.V0_3])
async def test_before_1_0_a_webhook_gets_the_task_as_it_stood_at_each_change_of_state(version: Version) -> None:
    """Neither chunks nor words on the way, but all of them in the task."""
    said = Message("m-9", Role.AGENT, (TextPart("Half done"),), "c-1", "t-1")
    events: tuple[TaskEvent, ...] = (
        created("t-1"),
        status(TaskState.WORKING),
        chunk(3),
        status(TaskState.WORKING, said),
        chunk(5),
        status(TaskState.COMPLETED),
    )
    store = await open_log()
    await store.tasks.write(Write(KEY, 0, events[:2], TaskState.WORKING, NOON, NEW))
    await store.outbox.put(KEY, HOOK, version=version, after=0)
    # The second change lies behind a snapshot, the first before it.
    await store.tasks.write(Write(KEY, 2, events[2:5], TaskState.WORKING, NOON, snapshot=fold(None, events[:5])))
    await store.tasks.write(Write(KEY, 5, events[5:], TaskState.COMPLETED, NOON))
    inbox = Inbox()
    async with delivering(store, inbox) as deliveries:
        await inbox.until(lambda: len(inbox.got) == 2)
        await settled(deliveries)
    assert [notification.event for notification in inbox.got] == [fold(None, events[:2]), fold(None, events)]
    assert [(notification.seq, notification.version) for notification in inbox.got] == [(2, version), (6, version)]


async def test_a_webhook_hears_of_a_conversation_that_goes_on_after_a_restart() -> None:
    """Whose run is another, in another process, and knows of the webhook only from the store."""

    async def handler(turn: Turn) -> str:
        return f"Hello {(await turn.ask('Your name?')).text}"

    inbox = Inbox()
    async with bounded(agent_of(handler), sender=inbox) as client:
        task = await client.agent.send_message(sending(client.message("go"), PushConfig("https://hook.example")))
        assert isinstance(task, Task)
        await inbox.until(lambda: inbox.told == ["working", "input-required"])
        await client.stop()
        await client.restart()
        await client.send("Ada", task=task)
        await inbox.until(lambda: inbox.told[2:] == ["working", "Hello Ada", "completed"])


async def test_a_webhook_hears_of_a_waiting_task_that_is_canceled() -> None:
    async def handler(turn: Turn) -> str:
        return (await turn.ask("Your name?")).text

    inbox = Inbox()
    async with bounded(agent_of(handler), sender=inbox) as client:
        task = await client.agent.send_message(sending(client.message("go"), PushConfig("https://hook.example")))
        assert isinstance(task, Task)
        await inbox.until(lambda: inbox.told == ["working", "input-required"])
        assert client.deliveries is not None
        await settled(client.deliveries)
        await client.cancel(task)
        await inbox.until(lambda: inbox.told == ["working", "input-required", "canceled"])


async def test_a_webhook_hears_of_a_run_that_is_begun_again_after_a_crash() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def handler(turn: Turn) -> str:
        begun.set()
        await go_on.wait()
        return "done"

    inbox = Inbox()
    async with bounded(agent_of(handler), sender=inbox) as client:
        config = SendConfiguration(push_config=PushConfig("https://hook.example"), return_immediately=True)
        await client.agent.send_message(SendMessageRequest(client.message("go"), config))
        await begun.wait()
        await inbox.until(lambda: inbox.told == ["working"])
        begun.clear()
        await client.crash()
        await client.restart()
        await begun.wait()
        assert client.deliveries is not None
        await settled(client.deliveries)
        go_on.set()
        await inbox.until(lambda: inbox.told == ["working", "done", "completed"])


async def test_a_webhook_given_with_a_word_to_a_task_at_work_is_told_of_the_rest() -> None:
    heard, go_on = asyncio.Event(), asyncio.Event()

    async def handler(turn: Turn) -> str:
        heard.set()
        await go_on.wait()
        return "done"

    inbox = Inbox()
    async with bounded(agent_of(handler), sender=inbox) as client:
        task = await client.start("go")
        await heard.wait()
        request = sending(client.message("hurry", task=task), PushConfig("https://hook.example"))
        follow_up = asyncio.create_task(client.agent.send_message(request))
        while not await client.store.outbox.configs(TaskKey(Owner("", ""), task.id)):
            await asyncio.sleep(0)
        go_on.set()
        await follow_up
        await inbox.until(lambda: inbox.told == ["done", "completed"])


async def test_a_message_that_is_repeated_brings_the_webhook_that_a_crash_lost() -> None:
    """Which then hears of the task from its beginning; one that was there keeps its place."""

    async def handler(turn: Turn) -> str:
        return "done"

    inbox = Inbox()
    async with bounded(agent_of(handler), sender=inbox) as client:
        message = client.message("go")
        await client.agent.send_message(sending(message, None))
        for _ in range(2):
            await client.agent.send_message(sending(message, PushConfig("https://hook.example")))
            await inbox.until(lambda: inbox.told[-1:] == ["completed"])
    assert inbox.told == ["working", "done", "completed"]


class Slow(ChangedStore):
    """A store in which one method has done its work and takes its time to say so."""

    method = ""

    def __init__(self) -> None:
        super().__init__()
        self.is_done, self.goes_on = asyncio.Event(), asyncio.Event()

    async def _linger(self, method: str) -> None:
        if method == self.method:
            self.is_done.set()
            await self.goes_on.wait()

    async def outbox_put(self, *args: Any, **options: Any) -> None:
        await super().outbox_put(*args, **options)
        await self._linger("put_push_config")

    async def outbox_configs(self, key: TaskKey) -> Any:
        configs = await super().outbox_configs(key)
        await self._linger("push_configs")
        return configs

    async def outbox_undelivered(self, *, owner: Owner | None = None, **options: Any) -> Any:
        page = await super().outbox_undelivered(owner=owner, **options)
        if owner is not None:
            await self._linger("undelivered")
        return page


async def go_away(call: Any, store: Slow) -> None:
    """Make a call, and hang up while the store works on it."""
    calling = asyncio.create_task(call)
    await store.is_done.wait()
    calling.cancel()
    await asyncio.wait([calling])
    store.goes_on.set()


async def test_a_webhook_is_called_although_its_caller_went_away_while_it_was_stored() -> None:
    go_on = asyncio.Event()

    async def handler(turn: Turn) -> str:
        await go_on.wait()
        return "done"

    store, inbox = Slow(), Inbox()
    async with bounded(agent_of(handler), sender=inbox, store=store) as client:
        task = await client.start("go")
        store.method = "put_push_config"
        request = CreatePushConfigRequest(task.id, PushConfig("https://hook.example"))
        await go_away(client.agent.create_push_config(request), store)
        go_on.set()
        await inbox.until(lambda: inbox.told[-2:] == ["done", "completed"])


async def test_a_webhook_hears_of_a_run_whose_caller_went_away_as_it_began() -> None:
    async def handler(turn: Turn) -> str:
        return f"Hello {(await turn.ask('Your name?')).text}"

    store, inbox = Slow(), Inbox()
    async with bounded(agent_of(handler), sender=inbox, store=store) as client:
        task = await client.agent.send_message(sending(client.message("go"), PushConfig("https://hook.example")))
        assert isinstance(task, Task)
        await inbox.until(lambda: inbox.told == ["working", "input-required"])
        store.method = "push_configs"
        await go_away(client.send("Ada", task=task), store)
        await inbox.until(lambda: inbox.told[2:] == ["working", "Hello Ada", "completed"])


async def test_tasks_without_webhooks_are_never_looked_up() -> None:
    lookups: list[str] = []

    class Counting(ChangedStore):
        async def outbox_webhooks(self, key: TaskKey) -> Any:
            lookups.append(key.task_id)
            return await super().outbox_webhooks(key)

        async def outbox_configs(self, key: TaskKey) -> Any:
            lookups.append(key.task_id)
            return await super().outbox_configs(key)

    async def handler(turn: Turn) -> Any:
        for number in range(50):
            yield f"{number} "

    async with bounded(agent_of(handler), sender=Inbox(), store=Counting()) as client:
        await client.send("go")
        await client.send("go")
    assert lookups == []


# --- nobody waits -----------------------------------------------------------------------------------------------------


async def test_a_webhook_that_hangs_delays_neither_the_agent_nor_other_webhooks() -> None:
    async def handler(turn: Turn) -> Any:
        yield "one "
        yield "two"

    inbox = Inbox()
    inbox.gates["https://slow.example"] = asyncio.Event()
    async with bounded(agent_of(handler), sender=inbox) as client:
        message = client.message("go")
        task = await client.agent.send_message(sending(message, PushConfig("https://slow.example", id="slow")))
        assert isinstance(task, Task)
        assert task.status.state is TaskState.COMPLETED
        request = sending(message, PushConfig("https://quick.example", id="quick"))
        await client.agent.send_message(request)
        await inbox.until(lambda: inbox.told == ["working", "one ", "two", "completed"])
        slow = [notification for notification in inbox.tried if notification.config.id == "slow"]
        assert [notification.seq for notification in slow] == [3]
        inbox.gates["https://slow.example"].set()
        await inbox.until(lambda: len(inbox.got) == 8)
    assert inbox.told[4:] == ["working", "one ", "two", "completed"]


async def test_calls_are_bounded_in_all_and_per_host() -> None:
    """And everybody gets their turn."""
    store = await open_log()
    urls = [f"https://{host}.example/{number}" for host in ("a", "b", "c") for number in range(4)]
    inbox = Inbox()
    for number, url in enumerate(urls):
        key = TaskKey(KEY.owner, f"t-{number:02}")
        await store.tasks.write(creation(key))
        await store.outbox.put(key, PushConfig(url, id="hook"), after=1)
        await store.tasks.write(addition(1, key))
        inbox.gates[url] = asyncio.Event()

    def hosts() -> list[str]:
        return sorted(notification.config.url[8] for notification in inbox.tried)

    # One owner has half of either limit at most.
    async with delivering(store, inbox, limits=DeliveryLimits(max_calls=6, max_calls_per_host=4)) as deliveries:
        await inbox.until(lambda: inbox.under_way == 3)
        assert hosts() == ["a", "b", "c"]
        assert deliveries.pending == 12
        for url in urls[4:]:
            inbox.gates[url].set()
        await inbox.until(lambda: len(inbox.got) == 8)  # b and c, while a hangs
        assert hosts() == ["a", "a", *"bbbb", *"cccc"]
        for url in urls[:4]:
            inbox.gates[url].set()
        await settled(deliveries)
    assert sorted(notification.config.url for notification in inbox.got) == urls
    assert inbox.most_under_way == 3


async def test_webhooks_that_know_everything_cost_nothing() -> None:
    store = await a_log(chunks=3)
    inbox = Inbox()
    before = asyncio.all_tasks()
    async with delivering(store, inbox) as deliveries:
        await inbox.until(lambda: len(inbox.got) == 3)
        await settled(deliveries)
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == before
        assert (deliveries.pending, deliveries._schedule.is_empty) == (0, True)
    assert await place(store) == [4]


# --- at least once, in order ------------------------------------------------------------------------------------------


async def test_what_was_not_delivered_is_delivered_after_a_restart(tmp_path: Path) -> None:
    """In order, and what was taken already is not repeated."""

    async def handler(turn: Turn) -> Any:
        for number in range(5):
            yield f"{number} "

    inbox = Inbox()
    inbox.failures = deque([None, None, *[DeliveryError("down")] * 99])
    store = SqliteStore(tmp_path / "tasks.db")
    async with bounded(agent_of(handler), sender=inbox, store=store) as client:
        await client.agent.send_message(sending(client.message("go"), PushConfig("https://hook.example")))
        await inbox.until(lambda: len(inbox.tried) == 3)
        await client.crash()
        inbox.failures.clear()
        await client.restart()
        while inbox.told[-1:] != ["completed"]:
            await client.clock.advance(1)  # the pause goes on
    assert inbox.told == ["working", *(f"{number} " for number in range(5)), "completed"]


async def test_a_call_that_is_cut_off_is_made_again() -> None:
    """The receiver may have had it: it can tell by the number."""
    store = await a_log(chunks=1)
    inbox = Inbox()
    inbox.gates[HOOK.url] = asyncio.Event()
    async with delivering(store, inbox) as deliveries:
        await inbox.until(lambda: inbox.under_way == 1)
        await deliveries.stop(grace=0)
        assert await place(store) == [0]
        inbox.gates.clear()
        await deliveries.start()
        await inbox.until(lambda: len(inbox.got) == 1)
    assert [notification.seq for notification in inbox.tried] == [2, 2]


async def test_stopping_lets_calls_end_and_begins_no_others() -> None:
    store = await a_log(chunks=3)
    inbox = Inbox()
    gate = inbox.gates[HOOK.url] = asyncio.Event()
    async with delivering(store, inbox) as deliveries:
        await inbox.until(lambda: inbox.under_way == 1)
        stopping = asyncio.create_task(deliveries.stop())
        await asyncio.sleep(0)
        gate.set()
        await stopping
        deliveries.notify(KEY)
        assert (inbox.told, await place(store)) == (["chunk 2"], [2])


async def test_all_that_is_behind_is_found_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parley.engine.webhooks.deliveries, "LOADED_AT_ONCE", 2)
    store = await open_log()
    for number in range(5):
        key = TaskKey(KEY.owner, f"t-{number}")
        await store.tasks.write(creation(key))
        await store.outbox.put(key, HOOK, version=Version.V0_3, after=0)
        events = (status(TaskState.WORKING), status(TaskState.COMPLETED))
        own = tuple(structs.replace(event, task_id=key.task_id) for event in events)
        snapshot = fold(None, (created(key.task_id), *own))
        await store.tasks.write(Write(key, 1, own, TaskState.COMPLETED, NOON, snapshot=snapshot))
    inbox = Inbox()
    async with delivering(store, inbox) as deliveries:
        await inbox.until(lambda: len(inbox.got) == 10)
        await settled(deliveries)
    states = [(n.key.task_id, n.event.status.state.value) for n in inbox.got if isinstance(n.event, Task)]
    assert sorted(states) == sorted((f"t-{n}", state) for n in range(5) for state in ("working", "completed"))


async def test_long_backlogs_are_told_in_several_turns() -> None:
    store = await a_log(chunks=10)
    inbox = Inbox()
    async with delivering(store, inbox, limits=DeliveryLimits(turn_events=3)):
        await inbox.until(lambda: len(inbox.got) == 10)
    assert inbox.told == [f"chunk {number}" for number in range(2, 12)]


# --- failures ---------------------------------------------------------------------------------------------------------


async def test_a_webhook_that_fails_is_called_again_after_longer_and_longer_pauses(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    store, inbox, clock, outcomes = await a_log(chunks=2), Inbox(), Clock(), Outcomes()
    inbox.failures = deque(DeliveryError("answered 503") for _ in range(6))
    limits = DeliveryLimits(longest_pause=10)
    async with delivering(store, inbox, clock=clock, limits=limits, observer=outcomes) as deliveries:
        for number, pause in enumerate((1, 2, 4, 8, 10, 10), start=1):
            await clock.wait_for_sleeper(number)
            assert (len(inbox.tried), clock.pauses[-1]) == (number, pause)
            await clock.advance(pause)
        await settled(deliveries)
    assert inbox.told == ["chunk 2", "chunk 3"]
    assert [outcome for _, outcome in outcomes.seen] == ["retried"] * 6 + ["delivered"] * 2
    assert "Task t-1, event 2, webhook 'hook' at hook.example: attempt 1: answered 503" in caplog.messages
    assert "secret" not in caplog.text
    assert "s3cret" not in caplog.text


async def test_jitter_shortens_a_pause_by_half_at_most_and_a_webhook_may_ask_for_more() -> None:
    store, inbox, clock = await a_log(chunks=1), Inbox(), Clock()
    inbox.failures = deque(DeliveryError(retry_after=seconds) for seconds in (0, 0, 7, 50_000))
    async with delivering(store, inbox, clock=clock, jitter=lambda: 0.0) as deliveries:
        for number, pause in enumerate((0.5, 1.0, 7.0, 3_600.0), start=1):
            await clock.wait_for_sleeper(number)
            assert clock.pauses[-1] == pause
            await clock.advance(pause)
        await settled(deliveries)
    assert inbox.told == ["chunk 2"]


async def test_pauses_of_different_webhooks_do_not_wait_for_each_other() -> None:
    store, inbox, clock = await a_log(chunks=1), Inbox(), Clock()
    other = TaskKey(KEY.owner, "t-2")
    inbox.failures = deque([DeliveryError(retry_after=60), DeliveryError()])
    async with delivering(store, inbox, clock=clock) as deliveries:
        await clock.wait_for_sleeper(1)
        await store.tasks.write(creation(other))
        await store.outbox.put(other, HOOK)
        await store.tasks.write(addition(1, other))
        deliveries.notify(other)
        await clock.wait_for_sleeper(2)
        await clock.advance(1)
        await inbox.until(lambda: len(inbox.got) == 1)
        assert inbox.got[0].key == other
        await clock.advance(59)
        await settled(deliveries)
    assert [notification.key for notification in inbox.got] == [other, KEY]


async def failures(store: Any) -> list[Any]:
    return [webhook.failure for webhook in await store.outbox.webhooks(KEY)]


async def letters(store: Any) -> list[tuple[int, int, str]]:
    (webhook,) = await store.outbox.webhooks(KEY)
    return [(letter.first_seq, letter.last_seq, letter.reason) for letter in webhook.dead_letters]


async def test_a_webhook_that_keeps_failing_is_paused_and_nothing_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    """It says why and since when; new events do not make it be called, and when it is resumed it gets all of them."""
    store, inbox, clock, outcomes = await a_log(chunks=2), Inbox(), Clock(), Outcomes()
    inbox.is_down = True
    limits = DeliveryLimits(attempts=3)
    began = clock.now()
    async with delivering(store, inbox, clock=clock, limits=limits, observer=outcomes) as deliveries:
        for number, pause in enumerate((1, 2), start=1):
            await clock.wait_for_sleeper(number)
            await clock.advance(pause)
        await settled(deliveries)
        since = began + timedelta(seconds=3)
        until = since + timedelta(seconds=limits.paused_for)
        assert await failures(store) == [DeliveryFailure(2, 3, "down", began, since, until, since)]
        await store.tasks.write(addition(3))
        deliveries.notify(KEY)
        deliveries.sweep()
        await happened()
        assert (len(inbox.tried), await place(store), deliveries.pending) == (3, [0], 0)
        inbox.is_down = False
        await store.outbox.rewind(KEY, "hook", 99, holder=deliveries.worker)
        deliveries.send_now(KEY)
        await inbox.until(lambda: len(inbox.got) == 3)
        await settled(deliveries)
    assert inbox.told == ["chunk 2", "chunk 3", "chunk 4"]
    assert [outcome for _, outcome in outcomes.seen] == ["retried", "retried", "failed", *["delivered"] * 3]
    assert outcomes.changes == [("paused", 0)]
    assert (await failures(store), await letters(store)) == ([None], [])
    assert "Task t-1, webhook 'hook': paused; its events wait until it is resumed" in caplog.messages


async def test_a_webhook_is_paused_when_its_event_is_too_old_however_few_the_attempts() -> None:
    store, inbox, clock = await a_log(chunks=1), Inbox(), Clock()
    inbox.is_down = True
    async with delivering(store, inbox, clock=clock, limits=DeliveryLimits(retry_for=6.0)) as deliveries:
        for number, pause in enumerate((1, 2, 4), start=1):
            await clock.wait_for_sleeper(number)
            await clock.advance(pause)
        await settled(deliveries)
    (failure,) = await failures(store)
    assert (failure.attempts, failure.paused_since) == (4, clock.now())


@pytest.mark.parametrize("again", [False, True])
async def test_a_paused_webhook_gets_one_more_attempt_after_a_long_time(again: bool) -> None:
    """If that succeeds, everything follows; if not, what waits is a dead letter, and later events are tried anew."""
    store, inbox, clock, outcomes = await a_log(chunks=3), Inbox(), Clock(), Outcomes()
    inbox.is_down = True
    limits = DeliveryLimits(attempts=1, paused_for=1_000.0)
    async with delivering(store, inbox, clock=clock, limits=limits, observer=outcomes) as deliveries:
        await inbox.until(lambda: len(inbox.tried) == 1)
        await settled(deliveries)
        await clock.advance(999)
        deliveries.sweep()
        await happened()
        assert len(inbox.tried) == 1
        inbox.is_down = again
        await clock.advance(1)
        deliveries.sweep()
        await inbox.until(lambda: len(inbox.tried) == (2 if again else 4))
        await settled(deliveries)
        assert await place(store) == [4]
        assert await failures(store) == [None]
        inbox.is_down = False
        await store.tasks.write(addition(4))
        deliveries.notify(KEY)
        await inbox.until(lambda: inbox.told[-1:] == ["chunk 5"])
    assert inbox.told == (["chunk 5"] if again else ["chunk 2", "chunk 3", "chunk 4", "chunk 5"])
    assert await letters(store) == ([(2, 4, "down")] if again else [])
    assert outcomes.changes == [("paused", 0), ("given-up", 3) if again else ("resumed", 0)]


async def test_a_webhook_that_is_registered_again_is_resumed() -> None:
    """Also with the config that it had."""
    store, inbox, clock = await a_log(chunks=1), Inbox(), Clock()
    inbox.is_down = True
    async with delivering(store, inbox, clock=clock, limits=DeliveryLimits(attempts=2)) as deliveries:
        await clock.wait_for_sleeper(1)
        await store.outbox.put(KEY, HOOK)
        deliveries.notify(KEY)  # it does not wait for the end of its pause
        await inbox.until(lambda: len(inbox.tried) == 2)
        while deliveries.pending:
            await clock.advance(1)
        assert [failure.attempts for failure in await failures(store)] == [2]
        inbox.is_down = False
        await store.outbox.put(KEY, HOOK)
        deliveries.notify(KEY)
        await inbox.until(lambda: inbox.told == ["chunk 2"])


@pytest.mark.parametrize("is_registered_again", [False, True])
async def test_a_webhook_that_is_resumed_during_its_last_attempt_is_called_again(is_registered_again: bool) -> None:
    """That attempt would have given its events up."""
    store, inbox, clock = await a_log(chunks=2), Inbox(), Clock()
    inbox.failures = deque([DeliveryError("down"), DeliveryError("down")])
    limits = DeliveryLimits(attempts=1, paused_for=1_000.0)
    async with delivering(store, inbox, clock=clock, limits=limits) as deliveries:
        await inbox.until(lambda: len(inbox.tried) == 1)
        await settled(deliveries)
        inbox.gates[HOOK.url] = gate = asyncio.Event()
        await clock.advance(1_000)
        deliveries.sweep()
        await inbox.until(lambda: inbox.under_way == 1)
        if is_registered_again:
            await store.outbox.put(KEY, HOOK)
            deliveries.notify(KEY)
        else:
            await store.outbox.rewind(KEY, "hook", 99, holder=deliveries.worker)
            deliveries.send_now(KEY)
        gate.set()
        await settled(deliveries)
    assert inbox.told == ["chunk 2", "chunk 3"]
    assert (await failures(store), await letters(store)) == ([None], [])


async def test_without_a_pause_what_waits_is_given_up_with_the_last_attempt() -> None:
    """And stays known until it is wanted again."""
    store, inbox, clock, outcomes = await a_log(chunks=9), Inbox(), Clock(), Outcomes()
    inbox.is_down = True
    limits = DeliveryLimits(attempts=2, paused_for=0.0)
    async with delivering(store, inbox, clock=clock, limits=limits, observer=outcomes) as deliveries:
        await clock.wait_for_sleeper(1)
        await clock.advance(1)
        await settled(deliveries)
        assert (await place(store), await letters(store)) == ([10], [(2, 10, "down")])
        inbox.is_down = False
        await store.tasks.write(addition(10))
        deliveries.notify(KEY)
        await inbox.until(lambda: inbox.told == ["chunk 11"])
        await settled(deliveries)
        assert await letters(store) == [(2, 10, "down")]
        await store.outbox.rewind(KEY, "hook", 1, holder=deliveries.worker)
        deliveries.send_now(KEY)
        await inbox.until(lambda: len(inbox.got) == 11)
    assert inbox.told[1:] == [f"chunk {number}" for number in range(2, 12)]
    assert await letters(store) == []
    assert outcomes.changes == [("given-up", 9)]


async def test_a_restart_goes_on_with_the_count_and_the_pause() -> None:
    """Also if it is another worker that goes on."""
    store, inbox, clock = await a_log(chunks=1), Inbox(), Clock()
    inbox.is_down = True
    limits = DeliveryLimits(attempts=4)
    async with delivering(store, inbox, clock=clock, limits=limits):
        for number, pause in ((1, 1), (2, 2)):
            await clock.wait_for_sleeper(number)
            await clock.advance(pause)
        await clock.wait_for_sleeper(3)
    assert [failure.attempts for failure in await failures(store)] == [3]
    await clock.advance(1)
    clock.pauses.clear()
    async with delivering(store, inbox, clock=clock, limits=limits) as deliveries:
        await clock.wait_for_sleeper(1)
        assert (clock.pauses, len(inbox.tried)) == ([3.0], 3)
        await clock.advance(3)
        await settled(deliveries)
    (failure,) = await failures(store)
    assert (failure.attempts, failure.paused_since, len(inbox.tried)) == (4, clock.now(), 4)


async def test_a_healthy_webhook_costs_one_write_for_each_event() -> None:
    class Counting(ChangedStore):
        def __init__(self) -> None:
            super().__init__()
            self.calls: Counter[str] = Counter()

        async def outbox_mark_delivered(self, *values: Any, **named: Any) -> bool:
            self.calls["mark_delivered"] += 1
            return await super().outbox_mark_delivered(*values, **named)

        async def outbox_note_failure(self, *values: Any, **named: Any) -> bool:
            self.calls["note_failure"] += 1
            return await super().outbox_note_failure(*values, **named)

    store, inbox, clock = Counting(), Inbox(), Clock()
    await store.tasks.write(creation())
    await store.outbox.put(KEY, HOOK)
    for number in range(1, 6):
        await store.tasks.write(addition(number))
    inbox.failures = deque([None, None, DeliveryError("down")])
    async with delivering(store, inbox, clock=clock) as deliveries:
        await clock.wait_for_sleeper(1)
        await clock.advance(1)
        await settled(deliveries)
    assert store.calls == {"mark_delivered": 5, "note_failure": 1}


async def test_a_webhook_of_a_task_that_is_deleted_is_given_up_in_silence() -> None:
    store, inbox, clock = await a_log(chunks=2), Inbox(), Clock()
    gate = inbox.gates[HOOK.url] = asyncio.Event()
    inbox.is_down = True
    async with delivering(store, inbox, clock=clock, limits=DeliveryLimits(attempts=1)) as deliveries:
        await inbox.until(lambda: inbox.under_way == 1)
        await store.tasks.delete(KEY)
        gate.set()
        await settled(deliveries)
    assert len(inbox.tried) == 1


async def test_an_event_that_is_refused_is_skipped_and_the_next_is_told() -> None:
    store, inbox, outcomes = await a_log(chunks=2), Inbox(), Outcomes()
    inbox.failures = deque([DeliveryRefusedError("answered 413")])
    async with delivering(store, inbox, observer=outcomes) as deliveries:
        await inbox.until(lambda: len(inbox.got) == 1)
        await settled(deliveries)
    assert inbox.told == ["chunk 3"]
    assert [outcome for _, outcome in outcomes.seen] == ["failed", "delivered"]
    assert (await letters(store), outcomes.changes) == ([(2, 2, "answered 413")], [("given-up", 1)])


async def test_a_sender_that_breaks_is_a_webhook_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    store, inbox, clock = await a_log(chunks=1), Inbox(), Clock()
    inbox.failures = deque([ZeroDivisionError("a bug")])
    async with delivering(store, inbox, clock=clock) as deliveries:
        await clock.wait_for_sleeper(1)
        await clock.advance(1)
        await settled(deliveries)
    assert inbox.told == ["chunk 2"]
    assert "ZeroDivisionError: a bug" in caplog.text


# --- hosts that give no answer ----------------------------------------------------------------------------------------


async def many_webhooks(
    store: Any, number: int, owner: Owner = KEY.owner, *, host: str = "hook.example"
) -> list[TaskKey]:
    """So many tasks of an owner, each with a webhook that has not been told of one event."""
    keys = [TaskKey(owner, f"{owner.name}-{n:03}") for n in range(number)]
    for key in keys:
        await store.tasks.write(creation(key))
        await store.outbox.put(key, PushConfig(f"https://hook.example/{key.task_id}", key.task_id, "hook"))
        await store.tasks.write(addition(1, key))
    return keys


async def pass_second(clock: Clock) -> None:
    """Let a second pass, and all happen that follows from it."""
    await clock.advance(1)
    await happened()


async def happened() -> None:
    for _ in range(500):
        await asyncio.sleep(0)


@pytest.mark.embedded
async def test_a_host_that_gives_no_answer_is_probed_by_one_webhook_until_it_answers() -> None:
    """And then all of its webhooks are called again."""
    store, inbox, clock = await open_log(), Inbox(), Clock()
    keys = await many_webhooks(store, 20)
    inbox.failures = deque(NoAnswerError("silent") for _ in range(10))
    calls: list[int] = []
    async with delivering(store, inbox, clock=clock) as deliveries:
        await inbox.until(lambda: len(inbox.tried) == 8)
        await happened()
        while not inbox.got:
            calls.append(len(inbox.tried))
            assert deliveries.unanswered == 1
            await pass_second(clock)
        assert calls == [8, 9, 9, 10, 10, 10, 10]  # after 0, 1, 3 and 7 seconds
        await settled(deliveries)
        assert (deliveries.unanswered, deliveries.under_way) == (0, 0)
    assert sorted(notification.key.task_id for notification in inbox.got) == [key.task_id for key in keys]


async def test_webhooks_that_waited_for_a_dead_host_are_paused_with_it(caplog: pytest.LogCaptureFixture) -> None:
    """After as many calls as one webhook has attempts, and not as many for each of them."""
    store, inbox, clock, outcomes = await open_log(), Inbox(), Clock(), Outcomes()
    keys = await many_webhooks(store, 30)
    inbox.failures = deque(NoAnswerError("silent") for _ in range(99))
    limits = DeliveryLimits(attempts=3, max_calls_per_host=2)
    async with delivering(store, inbox, clock=clock, limits=limits, observer=outcomes) as deliveries:
        await inbox.until(lambda: len(inbox.tried) == 1)
        await happened()
        while deliveries.pending:
            await pass_second(clock)
    assert len(inbox.tried) == 3
    webhooks = [webhook for key in keys for webhook in await store.outbox.webhooks(key)]
    assert {(webhook.delivered_seq, status_of(webhook)) for webhook in webhooks} == {(1, "paused")}
    assert "Task ada-007, webhook 'hook': hook.example gave no answer to 3 calls" in caplog.text
    assert Counter(outcome for _, outcome in outcomes.seen) == {"retried": 3}
    assert outcomes.changes == [("paused", 0)] * 30


# --- bounds -----------------------------------------------------------------------------------------------------------

ADA, GRACE = Owner("", "ada"), Owner("", "grace")


async def test_webhooks_that_do_not_fit_into_memory_wait_in_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """One owner fills half of the room at most, and what finds none comes when there is some."""
    monkeypatch.setattr(parley.engine.webhooks.deliveries, "LOADED_AT_ONCE", 7)
    store, inbox = await open_log(), Inbox()
    keys = await many_webhooks(store, 60, ADA)
    gate = asyncio.Event()
    inbox.gates = {f"https://hook.example/{key.task_id}": gate for key in keys}
    async with delivering(store, inbox, limits=DeliveryLimits(in_memory=20)) as deliveries:
        await inbox.until(lambda: inbox.under_way == 7)
        for key in await many_webhooks(store, 1, GRACE):
            deliveries.notify(key)
        await inbox.until(lambda: len(inbox.got) == 1)
        assert inbox.got[0].key.owner == GRACE
        for key in await many_webhooks(store, 3, Owner("", "aaron")):  # before what was read already
            inbox.gates[f"https://hook.example/{key.task_id}"] = gate
            deliveries.notify(key)
        assert deliveries.pending <= 14
        gate.set()
        await inbox.until(lambda: len(inbox.got) == 64)
        await settled(deliveries)
        assert deliveries._backlog.next_to_read() is None
    assert Counter(notification.key.owner.name for notification in inbox.got) == {"ada": 60, "grace": 1, "aaron": 3}


@pytest.mark.embedded
async def test_when_many_tasks_have_news_each_owner_gets_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what is too much for one owner to remember is found in the store."""
    monkeypatch.setattr(parley.engine.webhooks.backlog, "CHANGED_TASKS_PER_OWNER", 5)
    store, inbox = await open_log(), Inbox()
    async with delivering(store, inbox) as deliveries:
        await happened()  # the start finds nothing
        news = [*await many_webhooks(store, 30, ADA), *await many_webhooks(store, 1, GRACE)]
        for key in news:
            deliveries.notify(key)
        await inbox.until(lambda: len(inbox.got) == 31)
        await settled(deliveries)
    assert GRACE in [notification.key.owner for notification in inbox.got[:3]]


async def test_news_that_are_too_much_to_remember_reach_webhooks_that_are_being_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parley.engine.webhooks.backlog, "CHANGED_TASKS_PER_OWNER", 1)
    store, inbox = await a_log(chunks=1), Inbox()
    gate = inbox.gates[HOOK.url] = asyncio.Event()
    async with delivering(store, inbox) as deliveries:
        await inbox.until(lambda: inbox.under_way == 1)
        await store.tasks.write(addition(2))
        deliveries.notify(TaskKey(KEY.owner, "another"))
        deliveries.notify(KEY)
        await happened()
        gate.set()
        await inbox.until(lambda: inbox.told == ["chunk 2", "chunk 3"])


async def test_a_start_reads_a_page_of_each_owner_before_more_of_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parley.engine.webhooks.deliveries, "LOADED_AT_ONCE", 3)
    asked: list[tuple[str, str]] = []

    class Asked(ChangedStore):
        async def outbox_undelivered(self, *, owner: Owner | None = None, **options: Any) -> Any:
            page = await super().outbox_undelivered(owner=owner, **options)
            asked.append((owner.name if owner else "", page[-1].task_id if page else ""))
            return page

    store, inbox = Asked(), Inbox()
    await many_webhooks(store, 10, ADA)
    await many_webhooks(store, 4, GRACE)
    async with delivering(store, inbox):
        await inbox.until(lambda: len(inbox.got) == 14)
    assert asked[:3] == [("", "ada-002"), ("", "grace-002"), ("", "")]
    assert asked[3:5] == [("ada", "ada-005"), ("grace", "grace-003")]


async def test_what_finds_no_room_because_others_were_faster_is_read_again() -> None:
    store, inbox = Slow(), Inbox()
    store.method = "undelivered"
    numbers = {"b": 2, "c": 1, "d": 1}
    others = [key for name, number in numbers.items() for key in await many_webhooks(store, number, Owner("", name))]
    late = await many_webhooks(store, 1, Owner("", "z"))
    gates = inbox.gates = {f"https://hook.example/{key.task_id}": asyncio.Event() for key in others}
    async with delivering(store, inbox, limits=DeliveryLimits(in_memory=4)) as deliveries:
        await inbox.until(lambda: inbox.under_way == 4)
        faster = await many_webhooks(store, 1, Owner("", "e"))
        gates["https://hook.example/e-000"] = asyncio.Event()
        gates["https://hook.example/b-000"].set()
        await store.is_done.wait()  # the late one is being read
        deliveries.notify(faster[0])
        await inbox.until(lambda: inbox.tried[-1].key == faster[0])
        store.goes_on.set()
        await happened()
        assert (deliveries.pending, late[0] in [n.key for n in inbox.tried]) == (4, False)
        for gate in gates.values():
            gate.set()
        await inbox.until(lambda: len(inbox.got) == 6)


@pytest.mark.parametrize("seed", range(2))
async def test_each_webhook_is_told_everything_once_and_in_order(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever fails, hangs, is corrected or does not fit into memory."""
    monkeypatch.setattr(parley.engine.webhooks.deliveries, "LOADED_AT_ONCE", 2)
    monkeypatch.setattr(parley.engine.webhooks.backlog, "CHANGED_TASKS_PER_OWNER", 2)
    random, clock = Random(seed), Clock()
    store, inbox = await open_log(), Inbox()
    keys = [key for name in "abc" for key in await many_webhooks(store, 8, Owner("", name))]
    last = dict.fromkeys(keys, 2)
    errors = [None, None, DeliveryError("busy"), NoAnswerError("silent"), NoAnswerError("silent")]
    inbox.failures = deque(random.choice(errors) for _ in range(60))
    limits = DeliveryLimits(max_calls=4, max_calls_per_host=3, in_memory=6, turn_events=2, attempts=99)
    async with delivering(store, inbox, clock=clock, limits=limits, jitter=random.random) as deliveries:
        for _ in range(60):
            key = random.choice(keys)
            if random.random() < 0.8:
                await store.tasks.write(addition(last[key], key))
                last[key] += 1
            else:
                url = f"https://{random.choice('xyz')}.example/{key.task_id}"
                await store.outbox.put(key, PushConfig(url, key.task_id, "hook"))
            deliveries.notify(key)
            if random.random() < 0.3:
                await pass_second(clock)
        while len(inbox.got) < sum(last.values()) - len(keys):
            await pass_second(clock)
        with fail_after(5):  # the store notes the last ones
            while (deliveries.pending, deliveries._backlog.next_to_read()) != (0, None):
                await asyncio.sleep(0.01)
    told = {key: [n.seq for n in inbox.got if n.key == key] for key in keys}
    assert told == {key: list(range(2, end + 1)) for key, end in last.items()}


async def test_a_webhook_that_answers_slowly_ends_its_turn_with_each_answer() -> None:
    """Another one of its owner is called in between."""
    store, inbox, clock = await a_log(chunks=2), Inbox(), Clock()
    other = TaskKey(KEY.owner, "t-2")
    gate = inbox.gates[HOOK.url] = asyncio.Event()
    async with delivering(store, inbox, clock=clock, limits=DeliveryLimits(max_calls=1)) as deliveries:
        await inbox.until(lambda: inbox.under_way == 1)
        await store.tasks.write(creation(other))
        await store.outbox.put(other, structs.replace(HOOK, url="https://other.example"))
        await store.tasks.write(addition(1, other))
        deliveries.notify(other)
        while deliveries.pending < 2:
            await asyncio.sleep(0)
        await clock.advance(1)
        gate.set()
        await settled(deliveries)
    assert [notification.key.task_id for notification in inbox.got] == ["t-1", "t-2", "t-1"]


# --- changes ----------------------------------------------------------------------------------------------------------


async def test_a_webhook_that_is_put_right_is_called_at_once() -> None:
    """And as often as a new one: what the wrong one cost does not count."""
    store, inbox, clock = await a_log(chunks=1), Inbox(), Clock()
    inbox.failures = deque([DeliveryError()] * 2)
    async with delivering(store, inbox, clock=clock, limits=DeliveryLimits(attempts=2)) as deliveries:
        await clock.wait_for_sleeper(1)
        await store.outbox.put(KEY, structs.replace(HOOK, url="https://right.example"))
        deliveries.notify(KEY)
        await inbox.until(lambda: len(inbox.tried) == 2)
        while deliveries.pending:
            await clock.advance(60)
    assert [notification.config.url for notification in inbox.tried] == [HOOK.url, *["https://right.example"] * 2]
    assert inbox.told == ["chunk 2"]


@pytest.mark.embedded  # scripted time cannot wait for the round trip in which the new config is read
@pytest.mark.parametrize("members", [{"url": "https://hook.example/right"}, {"token": "right"}])
async def test_a_webhook_that_is_put_right_has_all_its_attempts_again(members: dict[str, str]) -> None:
    """Also one that is put right while its wrong config is being called: it is called again at once."""
    store, inbox, clock = await a_log(chunks=2), Inbox(), Clock()
    inbox.is_down = True
    async with delivering(store, inbox, clock=clock, limits=DeliveryLimits(attempts=3)) as deliveries:
        await clock.wait_for_sleeper(1)
        inbox.gates[HOOK.url] = gate = asyncio.Event()
        await clock.advance(1)
        await inbox.until(lambda: inbox.under_way == 1)
        right = structs.replace(HOOK, **members)
        await store.outbox.put(KEY, right)
        deliveries.notify(KEY)
        await happened()
        del inbox.gates[HOOK.url]
        gate.set()
        await inbox.until(lambda: len(inbox.tried) == 3)
        for number, pause in enumerate((1, 2), start=2):
            await clock.wait_for_sleeper(number)
            assert clock.pauses[-1] == pause
            await clock.advance(pause)
        await settled(deliveries)
    assert [(n.seq, n.config) for n in inbox.tried] == [(2, HOOK)] * 2 + [(2, right)] * 3


async def test_news_that_come_while_a_webhook_is_called_are_told_next() -> None:
    store, inbox = await a_log(chunks=1), Inbox()
    gate = inbox.gates[HOOK.url] = asyncio.Event()
    async with delivering(store, inbox) as deliveries:
        await inbox.until(lambda: inbox.under_way == 1)
        await store.tasks.write(addition(2))
        deliveries.notify(KEY)
        await asyncio.sleep(0)
        gate.set()
        await inbox.until(lambda: inbox.told == ["chunk 2", "chunk 3"])


@pytest.mark.parametrize("deletes_task", [False, True])
async def test_a_webhook_that_is_deleted_is_told_nothing_more(deletes_task: bool) -> None:
    store, inbox, clock = await a_log(chunks=3), Inbox(), Clock()
    inbox.failures = deque([DeliveryError()])
    gate = asyncio.Event()
    async with delivering(store, inbox, clock=clock) as deliveries:
        await clock.wait_for_sleeper(1)
        inbox.gates[HOOK.url] = gate
        await clock.advance(1)
        await inbox.until(lambda: inbox.under_way == 1)
        await (store.tasks.delete(KEY) if deletes_task else store.outbox.delete(KEY, "hook"))
        gate.set()
        await settled(deliveries)
    assert inbox.told == ["chunk 2"]


@pytest.mark.parametrize("method", ["task", "events"])
async def test_a_task_that_is_deleted_before_it_is_told_is_not(method: str) -> None:
    """Whichever of the reads finds it gone."""

    class Deleting(ChangedStore):
        async def tasks_read(self, key: TaskKey) -> Any:
            stored = await super().tasks_read(key)
            await self.tasks.delete(key)
            return stored if method == "events" else None

    store = Deleting()
    events = (created("t-1"), status(TaskState.WORKING), status(TaskState.COMPLETED))
    await store.tasks.write(Write(KEY, 0, events, TaskState.COMPLETED, NOON, NEW, snapshot=fold(None, events)))
    await store.outbox.put(KEY, HOOK, version=Version.V0_3, after=0)
    inbox = Inbox()
    async with delivering(store, inbox) as deliveries:
        await settled(deliveries)
    assert inbox.tried == []


async def test_a_paused_webhook_that_is_deleted_ends_with_its_pause() -> None:
    store, inbox, clock = await a_log(chunks=3), Inbox(), Clock()
    inbox.is_down = True
    async with delivering(store, inbox, clock=clock) as deliveries:
        await clock.wait_for_sleeper(1)
        await store.outbox.delete(KEY, "hook")
        await clock.advance(1)
        await settled(deliveries)
    assert len(inbox.tried) == 1


async def test_a_url_that_is_none_is_the_senders_to_refuse() -> None:
    store, inbox = await a_log(chunks=1, config=structs.replace(HOOK, url="https://[broken")), Inbox()
    inbox.failures = deque([DeliveryRefusedError()])
    async with delivering(store, inbox) as deliveries:
        await inbox.until(lambda: len(inbox.tried) == 1)
        await settled(deliveries)
    assert await place(store) == [2]


# --- a store that refuses ---------------------------------------------------------------------------------------------


class Refusing(ChangedStore):
    """A store that refuses some reads once, each."""

    def __init__(self, *methods: str, error: Exception | None = None) -> None:
        super().__init__()
        self.left = list(methods)
        self.error = error or StoreUnavailableError("disk on fire")

    def _refuse(self, method: str) -> None:
        if method in self.left:
            self.left.remove(method)
            raise self.error

    async def outbox_undelivered(self, **options: Any) -> Any:
        self._refuse("undelivered")
        return await super().outbox_undelivered(**options)

    async def outbox_webhooks(self, key: TaskKey) -> Any:
        self._refuse("webhooks")
        return await super().outbox_webhooks(key)

    async def tasks_events(self, key: TaskKey, *, after: int, limit: int) -> Any:
        self._refuse("events")
        return await super().tasks_events(key, after=after, limit=limit)

    async def outbox_mark_delivered(
        self, key: TaskKey, config_id: str, seq: int, *, holder: str, begun_after: int = 0, dead_letter: Any = None
    ) -> bool:
        self._refuse("mark_delivered")
        options = {"holder": holder, "begun_after": begun_after, "dead_letter": dead_letter}
        return await super().outbox_mark_delivered(key, config_id, seq, **options)

    async def outbox_configs(self, key: TaskKey) -> Any:
        self._refuse("push_configs")
        return await super().outbox_configs(key)


@pytest.mark.parametrize("method", ["undelivered", "webhooks", "events"])
async def test_a_store_that_refuses_is_asked_again(method: str, caplog: pytest.LogCaptureFixture) -> None:
    store, inbox, clock = Refusing(method), Inbox(), Clock()
    await store.tasks.write(creation())
    await store.outbox.put(KEY, HOOK)
    async with delivering(store, inbox, clock=clock) as deliveries:
        if method == "webhooks":
            await asyncio.sleep(0)  # the start finds nothing
            await asyncio.sleep(0)
        await store.tasks.write(addition(1))
        deliveries.notify(KEY)
        await clock.wait_for_sleeper(1)
        await clock.advance(5)
        await inbox.until(lambda: len(inbox.got) == 1)
        await settled(deliveries)
    assert store.left == []
    assert inbox.told == ["chunk 2"]
    assert "disk on fire" in caplog.text


@pytest.mark.parametrize("chunks", [1, 2])
async def test_what_was_delivered_but_could_not_be_noted_is_not_delivered_again(chunks: int) -> None:
    """However long the store refuses; only a restart would repeat it."""
    store, inbox, clock = Refusing("mark_delivered", "mark_delivered"), Inbox(), Clock()
    await store.tasks.write(creation())
    await store.outbox.put(KEY, HOOK)
    for number in range(1, chunks + 1):
        await store.tasks.write(addition(number))
    async with delivering(store, inbox, clock=clock) as deliveries:
        for number in (1, 2):
            await clock.wait_for_sleeper(number)
            await clock.advance(5)
        await settled(deliveries)
    assert [notification.seq for notification in inbox.tried] == list(range(2, chunks + 2))
    assert await place(store) == [chunks + 1]


async def test_a_bug_ends_a_turn_and_the_next_news_begin_another(caplog: pytest.LogCaptureFixture) -> None:
    store, inbox = Refusing("events", error=ZeroDivisionError("a bug")), Inbox()
    await store.tasks.write(creation())
    await store.outbox.put(KEY, HOOK, after=0)
    await store.tasks.write(addition(1))
    async with delivering(store, inbox) as deliveries:
        await settled(deliveries)
        assert "ZeroDivisionError: a bug" in caplog.text
        deliveries.notify(KEY)
        await inbox.until(lambda: inbox.told == ["chunk 2"])


async def test_a_conversation_goes_on_although_its_webhooks_cannot_be_looked_up() -> None:
    """They are looked up again by the deliveries."""

    async def handler(turn: Turn) -> str:
        return f"Hello {(await turn.ask('Your name?')).text}"

    store, inbox = Refusing(), Inbox()
    async with bounded(agent_of(handler), sender=inbox, store=store) as client:
        task = await client.agent.send_message(sending(client.message("go"), PushConfig("https://hook.example")))
        assert isinstance(task, Task)
        store.left = ["push_configs"]
        await client.send("Ada", task=task)
        await inbox.until(lambda: inbox.told[-1:] == ["completed"])
    assert store.left == []


async def test_the_dialect_of_a_webhook_is_that_of_the_request_that_registered_it() -> None:
    async def handler(turn: Turn) -> str:
        return "done"

    inbox = Inbox()
    async with bounded(agent_of(handler), sender=inbox, caller=Caller(version=Version.V0_2)) as client:
        request = sending(client.message("go"), PushConfig("https://hook.example"))
        task = await client.agent.send_message(request, client.caller)
        await inbox.until(lambda: inbox.told[-1:] == [task])
    assert [notification.version for notification in inbox.got] == [Version.V0_2, Version.V0_2]
