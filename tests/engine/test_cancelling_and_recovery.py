"""Cancelling for real, crashes, restarts, and handlers that misbehave."""

import asyncio
import contextlib
import logging
import threading
from typing import Any

import pytest

from parley import Agent, Turn
from parley.engine.caller import Caller
from parley.engine.limits import Limits
from parley.protocol.errors import InvalidParamsError, TaskNotCancelableError, TaskNotFoundError, UnavailableError
from parley.protocol.events import StatusUpdate, StepRecorded, TaskEvent
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.push import PushConfig
from parley.protocol.requests import (
    CreatePushConfigRequest,
    DeletePushConfigRequest,
    GetPushConfigRequest,
    ListPushConfigsRequest,
    SendConfiguration,
    SendMessageRequest,
)
from parley.protocol.tasks import TaskState
from parley.stores.interface import ContextKey, StoreUnavailableError, TaskFilter, TaskKey, Write
from parley.stores.memory import MemoryStore
from parley.testing.clock import FakeClock
from tests.bounded import bounded, open_log
from tests.changed_store import ChangedStore

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_store")]


def agent_of(handler: Any, **options: Any) -> Agent:
    agent = Agent("Test", **options)
    agent.on_message(handler)
    return agent


async def test_cancelling_cancels_the_handler_and_lets_it_clean_up() -> None:
    store: list[str] = []
    begun = asyncio.Event()

    async def handler(turn: Turn) -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            store.append(f"cleaned up, cancelled: {turn.cancelled}")

    async with bounded(agent_of(handler)) as client:
        task = await client.start("go")
        waiting = asyncio.create_task(client.finished(task))
        await begun.wait()
        canceled = await client.cancel(task)
        assert canceled.status.state is TaskState.CANCELED
        assert await waiting == canceled
        assert (client.engine.runs.working, store) == (0, ["cleaned up, cancelled: True"])
        with pytest.raises(TaskNotCancelableError):
            await client.cancel(task)


async def test_a_parked_task_is_canceled_and_its_followers_told() -> None:
    async def handler(turn: Turn) -> None:
        await turn.ask("?")

    async with bounded(agent_of(handler)) as client:
        asked = await client.send("go")
        following = client.follow(asked)
        await anext(following)
        reading = asyncio.create_task(anext(following))
        await asyncio.sleep(0)
        canceled = await client.cancel(asked)
        _, event = await reading
    assert canceled.status.state is TaskState.CANCELED
    assert isinstance(event, StatusUpdate)
    assert event.status.state is TaskState.CANCELED


async def test_a_task_that_waits_for_its_turn_can_be_canceled() -> None:
    gate = asyncio.Event()

    async def handler(turn: Turn) -> str:
        await gate.wait()
        return "done"

    async with bounded(agent_of(handler), limits=Limits(runs_at_once=1)) as client:
        first, second = await client.start("one"), await client.start("two")
        assert (await client.cancel(second)).status.state is TaskState.CANCELED
        gate.set()
        assert (await client.finished(first)).status.state is TaskState.COMPLETED


async def test_a_handler_that_ignores_its_cancellation_is_left_behind() -> None:
    go_on = asyncio.Event()
    said: list[str] = []

    async def handler(turn: Turn) -> None:
        while not go_on.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await go_on.wait()
        said.append("still here")
        await turn.status("too late")
        said.append("never")

    async with bounded(agent_of(handler), limits=Limits(cancel_seconds=0.01)) as client:
        task = await client.start("go")
        canceled = await client.cancel(task)
        assert canceled.status.state is TaskState.CANCELED
        go_on.set()
        while client.engine.runs.working:
            await asyncio.sleep(0)
        assert await client.get(task) == canceled
    assert said == ["still here"]


async def test_a_handler_that_finishes_while_being_canceled_has_finished() -> None:
    begun = asyncio.Event()

    async def handler(turn: Turn) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "finished anyway"
        return "never"

    async with bounded(agent_of(handler)) as client:
        task = await client.start("go")
        await begun.wait()
        with pytest.raises(TaskNotCancelableError):
            await client.cancel(task)
        assert client.text(await client.get(task)) == "finished anyway"


async def test_a_crash_in_the_middle_loses_and_repeats_nothing() -> None:
    runs: list[int] = []
    gate = asyncio.Event()

    async def handler(turn: Turn) -> Any:
        runs.append(len(runs))
        for number in range(6):
            yield f"{number} "
            if number == 3 and len(runs) == 1:
                await gate.wait()

    async with bounded(agent_of(handler)) as client:
        task = await client.start("go")
        while client.text(await client.get(task)) != "0 1 2 3 ":
            await asyncio.sleep(0)
        await client.crash()
        await client.restart()
        finished = await client.finished(task)
    assert client.text(finished) == "0 1 2 3 4 5 "
    assert (finished.status.state, runs) == (TaskState.COMPLETED, [0, 1])


async def test_a_crash_right_after_a_recorded_step_does_not_take_it_again() -> None:
    taken: list[str] = []

    async def handler(turn: Turn) -> Any:
        yield "before "
        yield await turn.step("charge", lambda: taken.append("charged") or "receipt")

    async with bounded(agent_of(handler)) as client:
        crashing = asyncio.create_task(client.crash_when(lambda event: isinstance(event, StepRecorded)))
        await asyncio.sleep(0)
        sending = asyncio.create_task(client.send("go"))
        await crashing
        sending.cancel()
        await client.restart()
        (head,) = (await client.store.tasks.list(client.caller.owner, TaskFilter())).heads
        task = await client.finished(head.key.task_id)
    assert (client.text(task), taken) == ("before receipt", ["charged"])


async def test_an_agent_may_want_its_cut_off_tasks_failed() -> None:
    async def handler(turn: Turn) -> None:
        await asyncio.Event().wait()

    async with bounded(agent_of(handler, on_restart="fail")) as client:
        task = await client.start("go")
        await client.crash()
        await client.restart()
        failed = await client.get(task)
    assert failed.status.state is TaskState.FAILED
    assert failed.status.message is not None
    assert "restarted while it worked" in failed.status.message.text


async def test_a_restart_leaves_parked_and_finished_tasks_and_those_of_other_agents_alone() -> None:
    async def handler(turn: Turn) -> None:
        if turn.text == "ask":
            await turn.ask("?")
        if turn.text == "hang":
            await asyncio.Event().wait()

    store = MemoryStore()
    async with bounded(agent_of(handler, id="other"), store=store, caller=Caller(tenant="t")) as other:
        theirs = await other.start("hang")
        await other.crash()
        async with bounded(agent_of(handler), store=store) as client:
            parked, done = await client.send("ask"), await client.send("go")
            await client.crash()
            await client.restart()
            assert (await client.get(parked), await client.get(done)) == (parked, done)
            head = await store.tasks.head(TaskKey(other.caller.owner, theirs.id))
            assert head is not None
            assert head.state in (TaskState.SUBMITTED, TaskState.WORKING)


async def test_a_handler_that_raises_fails_the_task_and_only_the_log_says_why(caplog: pytest.LogCaptureFixture) -> None:
    async def handler(turn: Turn) -> None:
        raise RuntimeError("the password is swordfish")

    async with bounded(agent_of(handler)) as client:
        with caplog.at_level(logging.ERROR):
            task = await client.send("go")
    assert task.status.state is TaskState.FAILED
    reference = task.status.message.text.removeprefix("The agent failed. Reference: ")
    assert "swordfish" not in reference
    (line,) = caplog.records
    assert line.getMessage() == f"Task {task.id}: the agent failed (reference {reference})"
    assert str(line.exc_info and line.exc_info[1]) == "the password is swordfish"
    fields = {name: vars(line)[name] for name in ("task", "context", "reference")}
    assert fields == {"task": task.id, "context": task.context_id, "reference": reference}


async def test_a_handler_that_raises_while_cleaning_up_is_contained() -> None:
    begun = asyncio.Event()

    async def handler(turn: Turn) -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("in cleanup")

    async with bounded(agent_of(handler)) as client:
        task = await client.start("go")
        await begun.wait()
        assert (await client.cancel(task)).status.state is TaskState.CANCELED


async def test_a_handler_that_never_ends_is_ended() -> None:
    async def handler(turn: Turn) -> None:
        await asyncio.Event().wait()

    async with bounded(agent_of(handler), limits=Limits(run_seconds=60)) as client:
        task = await client.start("go")
        await asyncio.sleep(0)
        await client.clock.advance(61)  # pyright: ignore[reportAttributeAccessIssue]
        failed = await client.finished(task)
    assert failed.status.state is TaskState.FAILED
    assert failed.status.message is not None
    assert failed.status.message.text == "The agent took longer than 60 seconds."


@pytest.mark.parametrize("limits", [Limits(), Limits(run_seconds=None)])
async def test_a_timeout_of_the_handlers_own_is_a_failure_like_any_other(limits: Limits) -> None:
    async def handler(turn: Turn) -> None:
        raise TimeoutError("upstream")

    async with bounded(agent_of(handler), limits=limits) as client:
        failed = await client.send("go")
    assert failed.status.message.text.startswith("The agent failed. Reference:")


async def test_the_bound_on_artifacts_counts_all_runs_of_a_task() -> None:
    async def handler(turn: Turn) -> Any:
        for _ in range(3):
            yield "x" * 60
            await turn.ask("more?")

    async with bounded(agent_of(handler), limits=Limits(artifact_bytes=100)) as client:
        asked = await client.send("go")
        failed = await client.send("yes", task=asked)
    assert failed.status.message.text == "The task's artifacts exceed 100 bytes."


async def test_a_handler_that_says_too_much_is_stopped() -> None:
    async def endless(turn: Turn) -> Any:
        while True:
            yield "x"

    async with bounded(agent_of(endless), limits=Limits(events_per_task=1_000)) as client:
        failed = await client.send("go")
        assert failed.status.message.text == "The task has more than 1000 events."
    async with bounded(agent_of(endless), limits=Limits(artifact_bytes=100)) as client:
        failed = await client.send("go")
        assert failed.status.message.text == "The task's artifacts exceed 100 bytes."
    assert failed.status.state is TaskState.FAILED


async def test_a_conversation_has_a_bound() -> None:
    async def handler(turn: Turn) -> None:
        while True:
            await turn.ask("more?")

    async with bounded(agent_of(handler), limits=Limits(history_messages=2)) as client:
        asked = await client.send("one")
        asked = await client.send("two", task=asked)
        with pytest.raises(InvalidParamsError, match="2 messages"):
            await client.send("three", task=asked)
        assert await client.get(asked) == asked


async def _collect(events: Any) -> list[Any]:
    return [event async for event in events]


class BrokenLog(ChangedStore):
    """A store whose disk fills up after some writes, until it is cleared."""

    def __init__(self, good_writes: int) -> None:
        super().__init__()
        self.good_writes = good_writes

    def tasks_write(self, write: Write) -> Any:
        self.good_writes -= 1
        if self.good_writes < 0:
            failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            failed.set_exception(StoreUnavailableError("the disk is full"))
            return failed
        return super().tasks_write(write)


async def test_a_store_that_refuses_gives_a_clear_error_and_the_task_is_settled_later() -> None:
    """And the handler is stopped at the next thing it says."""
    gate, refused = asyncio.Event(), asyncio.Event()
    went_on: list[str] = []

    async def handler(turn: Turn) -> Any:
        yield "one"
        await gate.wait()
        yield "two"
        await refused.wait()
        await turn.status("three")
        if turn.text == "go":
            went_on.append("after three")

    store = BrokenLog(good_writes=1)
    async with bounded(agent_of(handler, on_restart="fail"), store=store) as client:
        task = await client.start("go")
        following = client.follow(task)
        await anext(following)
        while client.text(await client.get(task)) != "one":
            await asyncio.sleep(0)
        reading = asyncio.create_task(_collect(following))
        await asyncio.sleep(0)
        gate.set()
        with pytest.raises(UnavailableError):
            await reading
        refused.set()
        with pytest.raises(UnavailableError):
            await client.send("another")
        store.good_writes = 100
        for _ in range(10):
            await client.clock.advance(30)  # pyright: ignore[reportAttributeAccessIssue]
        settled = await client.get(task)
    assert settled.status.state is TaskState.FAILED
    assert (client.text(settled), went_on) == ("one", [])


async def test_a_task_id_of_0_1_that_somebody_else_has_is_refused() -> None:
    async def handler(turn: Turn) -> None: ...

    async with bounded(agent_of(handler)) as client:
        for name, outcome in (("ann", TaskState.COMPLETED), ("bob", None)):
            caller = client.as_caller(name=name).caller
            message = Message("", Role.USER, (TextPart("x"),), None, "same")
            sending = client.agent.send_message(SendMessageRequest(message, caller_names_task=True), caller)
            if outcome is None:
                with pytest.raises(InvalidParamsError, match="choose another"):
                    await sending
            else:
                assert (await sending).status.state is outcome  # pyright: ignore[reportAttributeAccessIssue]


async def test_webhooks_are_kept_with_their_task() -> None:
    async def handler(turn: Turn) -> None: ...

    async with bounded(agent_of(handler), limits=Limits(push_configs_per_task=2)) as client:
        push = SendConfiguration(push_config=PushConfig("https://hook"))
        task: Any = await client.agent.send_message(SendMessageRequest(client.message("go"), push))
        hooks = client.agent
        mine = PushConfig("https://hook", task.id, task.id)
        assert await hooks.get_push_config(GetPushConfigRequest(task.id)) == mine
        assert await hooks.get_push_config(GetPushConfigRequest(task.id, "default")) == mine
        named = await hooks.create_push_config(
            CreatePushConfigRequest(task.id, PushConfig("https://two", id="two", token="t"))
        )
        listed = await hooks.list_push_configs(ListPushConfigsRequest(task.id))
        assert sorted(listed.configs, key=lambda config: config.url) == [mine, named]
        with pytest.raises(InvalidParamsError, match="2 webhooks"):
            await hooks.create_push_config(CreatePushConfigRequest(task.id, PushConfig("https://3", id="three")))
        again = CreatePushConfigRequest(task.id, PushConfig("https://hook"))
        assert await hooks.create_push_config(again) == mine  # in its own place
        for _ in range(2):
            await hooks.delete_push_config(DeletePushConfigRequest(task.id, "default"))
        for request in (GetPushConfigRequest(task.id), GetPushConfigRequest(task.id, "x"), GetPushConfigRequest("y")):
            with pytest.raises(TaskNotFoundError):
                await hooks.get_push_config(request)


async def test_webhooks_that_are_registered_at_once_are_counted_one_by_one() -> None:
    async def handler(turn: Turn) -> None: ...

    async with bounded(agent_of(handler), limits=Limits(push_configs_per_task=3)) as client:
        task = await client.send("go")
        hooks = [PushConfig("https://hook", id=f"h-{number}") for number in range(20)]
        requests = [client.agent.create_push_config(CreatePushConfigRequest(task.id, hook)) for hook in hooks]
        answers = await asyncio.gather(*requests, return_exceptions=True)
        assert sum(isinstance(answer, PushConfig) for answer in answers) == 3
        assert sum(isinstance(answer, InvalidParamsError) for answer in answers) == 17
        listed = await client.agent.list_push_configs(ListPushConfigsRequest(task.id))
        assert len(listed.configs) == 3


async def test_old_sends_finished_tasks_and_their_contexts_are_forgotten() -> None:
    from datetime import timedelta

    from parley.engine.engine import Engine
    from parley.protocol.requests import GetTaskRequest
    from parley.testing.clock import FakeClock

    async def handler(turn: Turn) -> None:
        await turn.context.set("seen", True)

    async with bounded(agent_of(handler)) as client:
        clock, store = FakeClock(), await open_log()
        async with Engine(store, client.program, clock=clock, retention=timedelta(hours=1)) as engine:
            agent = engine.agent(client.program.id)
            task: Any = await agent.send_message(SendMessageRequest(client.message("go")))
            await clock.advance(30 * 60)
            assert await store.tasks.head(TaskKey(client.caller.owner, task.id)) is not None
            context = ContextKey(client.caller.owner, client.program.id, task.context_id)
            assert await store.contexts.get(context) == {"seen": True}
            while await store.contexts.get(context):  # a store that suspends takes more rounds
                await clock.advance(60)
            with pytest.raises(TaskNotFoundError):
                await agent.get_task(GetTaskRequest(task.id))


async def test_a_handler_that_swallows_cancellation_cannot_outlive_run_seconds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    released = False

    async def stubborn(turn: Turn) -> str:
        while turn.text == "go" and not released:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        return "done"

    clock = FakeClock()
    limits = Limits(run_seconds=10, cancel_seconds=0.01, runs_at_once=1)
    try:
        async with bounded(agent_of(stubborn), clock=clock, limits=limits) as client:
            task = await client.start("go")
            await clock.advance(11)
            failed = await client.finished(task)
            assert failed.status.state is TaskState.FAILED
            assert failed.status.message is not None
            assert failed.status.message.text == "The agent took longer than 10 seconds."
            assert client.text(await client.send("another, for which there is room now")) == "done"
    finally:
        released = True  # the test's own loop cancels it once more
    assert "ignores its cancellation" in caplog.text


@pytest.mark.parametrize(("how", "expected"), [("cancel", TaskState.CANCELED), ("overdue", TaskState.FAILED)])
async def test_a_plain_handler_learns_that_it_must_end(how: str, expected: TaskState) -> None:
    is_asking_on, has_begun, has_ended = True, threading.Event(), threading.Event()

    def poll(turn: Turn) -> None:
        has_begun.set()
        while is_asking_on and not turn.cancelled:
            has_ended.wait(0.001)
        if is_asking_on:
            has_ended.set()

    clock = FakeClock()
    try:
        async with bounded(agent_of(poll), clock=clock, limits=Limits(run_seconds=10, cancel_seconds=0.01)) as client:
            task = await client.start("go")
            await asyncio.to_thread(has_begun.wait, 5)
            await (client.cancel(task) if how == "cancel" else clock.advance(11))
            assert (await client.finished(task)).status.state is expected
            assert await asyncio.to_thread(has_ended.wait, 5)
    finally:
        is_asking_on = False


async def stop_again_and_again(client: Any, task: Any, begun: asyncio.Event, *, how: str, times: int) -> TaskState:
    """The state of a task whose process ends so often, in good order or not, each time after its run has begun."""
    for _ in range(times):
        await begun.wait()
        begun.clear()
        await (client.stop() if how == "stop" else client.crash())
        await client.restart()
    state: TaskState = (await client.get(task)).status.state
    return state


@pytest.mark.parametrize(
    ("how", "progress", "expected"),
    [
        ("stop", False, TaskState.WORKING),
        ("stop", True, TaskState.WORKING),
        ("crash", True, TaskState.WORKING),
        ("crash", False, TaskState.FAILED),
    ],
)
async def test_only_crashes_without_progress_count_as_attempts(how: str, progress: bool, expected: TaskState) -> None:
    begun, stops = asyncio.Event(), 4

    async def handler(turn: Turn) -> None:
        runs.append(turn.text)
        for number in range(len(runs) if progress else 0):  # one more each time
            await turn.step(f"step {number}", str)
        begun.set()
        await asyncio.Event().wait()

    runs: list[str] = []
    async with bounded(agent_of(handler)) as client:
        task = await client.start("go")
        state = await stop_again_and_again(
            client, task, begun, how=how, times=3 if expected is TaskState.FAILED else stops
        )
        assert state is expected
        if state is TaskState.FAILED:
            status = (await client.get(task)).status
            assert status.message is not None
            assert status.message.text == (
                "The agent crashed 3 times while it worked on this task, without making progress."
            )


@pytest.mark.parametrize(("options", "limits"), [({"run_attempts": 1}, Limits()), ({}, Limits(run_attempts=1))])
async def test_the_number_of_attempts_is_a_setting_of_the_agent_and_of_the_server(
    options: Any, limits: Limits, caplog: pytest.LogCaptureFixture
) -> None:
    begun = asyncio.Event()

    async def hang(turn: Turn) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with bounded(agent_of(hang, **options), limits=limits) as client:
        task = await client.start("go")
        assert await stop_again_and_again(client, task, begun, how="crash", times=1) is TaskState.FAILED
        status = (await client.get(task)).status
        assert status.message is not None
        assert status.message.text == "The agent crashed once while it worked on this task, without making progress."
    logged = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert logged == [f"Task {task.id}: failed. {status.message.text}"]
    with pytest.raises(ValueError, match="at least one"):
        Agent("Never", run_attempts=0)


@pytest.mark.embedded
async def test_a_run_that_waited_in_the_queue_while_the_process_stopped_has_not_been_attempted() -> None:
    async def hang(turn: Turn) -> None:
        await asyncio.Event().wait()

    async with bounded(agent_of(hang), limits=Limits(runs_at_once=1)) as client:
        await client.start("first")
        queued = await client.start("queued")
        for _ in range(4):
            await client.stop()
            head = await client.store.tasks.head(TaskKey(client.caller.owner, queued.id))
            assert head is not None
            assert head.attempts == 0
            await client.restart()


async def test_an_answer_that_comes_while_the_process_stops_is_not_accepted_and_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def handler(turn: Turn) -> str:
        return (await turn.ask("Well?")).text

    async with bounded(agent_of(handler)) as client:
        asked = await client.send("go")
        read = client.engine.views.events

        async def stop_while_reading(key: TaskKey) -> list[TaskEvent]:
            client.engine.runs.stop_accepting()
            return await read(key)

        monkeypatch.setattr(client.engine.views, "events", stop_while_reading)
        with pytest.raises(UnavailableError):
            await client.start("yes", task=asked)
        await client.crash()
        await client.restart()
        assert (await client.get(asked)).status.state is TaskState.INPUT_REQUIRED
