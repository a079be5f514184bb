"""How calls of an executor begin and end: as in the SDK, and without harm to the server."""

import asyncio
import logging
import tracemalloc

import pytest
from a2a.server.agent_execution import RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater

from framework_tests.a2a_sdk import samples
from framework_tests.a2a_sdk.making import bare_executor, executor, result_of, said
from framework_tests.a2a_sdk.versions import idioms
from parley import Agent
from parley.adapters.a2a_sdk import execution, pending_events
from parley.adapters.a2a_sdk import task as executed_task
from parley.protocol.events import ArtifactUpdate, StatusUpdate
from parley.protocol.messages import Message, text_of
from parley.protocol.requests import ListTasksRequest
from parley.protocol.tasks import Task, TaskState
from parley.testing import AgentClient, running

pytestmark = pytest.mark.anyio


async def stored_tasks(client: AgentClient) -> list[Task]:
    return list((await client.agent.list_tasks(ListTasksRequest(), client.caller)).tasks)


class TestExits:
    @pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
    async def test_an_executor_that_exits_fails_its_task_only(self, error: BaseException) -> None:
        async def leave(context: RequestContext, updater: TaskUpdater) -> None:
            raise error

        task = await result_of(leave)
        assert task.status.state is TaskState.FAILED

    @pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
    async def test_a_cancel_that_exits_cancels_the_task(self, error: BaseException) -> None:
        started = asyncio.Event()

        async def hang(context: RequestContext, updater: TaskUpdater) -> None:
            started.set()
            await asyncio.Event().wait()

        async def leave(context: RequestContext, updater: TaskUpdater) -> None:
            raise error

        async with running(Agent.of(executor(hang, leave))) as client:
            task = await client.start("Go")
            await started.wait()
            task = await client.cancel(task)
        assert task.status.state is TaskState.CANCELED


class TestBeginning:
    async def test_a_task_is_stored_while_its_executor_says_nothing(self) -> None:
        calls, is_over = list[str](), asyncio.Event()

        async def charge(context: RequestContext, queue: EventQueue) -> None:
            calls.append("charged")
            await is_over.wait()
            await queue.enqueue_event(idioms.message("Done"))

        async with running(Agent.of(bare_executor(charge))) as client:
            sending = asyncio.ensure_future(client.send("Go"))
            async with asyncio.timeout(5):
                while not (tasks := await stored_tasks(client)):
                    await asyncio.sleep(0.01)
            await client.crash()
            await asyncio.wait({sending})
            sending.exception()
            await client.restart()
            is_over.set()
            task = await client.finished(tasks[0])
        assert calls == ["charged", "charged"]
        assert task.status.state is TaskState.COMPLETED
        assert task.status.message is not None
        assert task.status.message.text == "Done"

    async def test_a_task_without_events_can_be_cancelled(self) -> None:
        async def hang(context: RequestContext, queue: EventQueue) -> None:
            await asyncio.Event().wait()

        async with running(Agent.of(bare_executor(hang))) as client:
            sending = asyncio.ensure_future(client.send("Go"))
            async with asyncio.timeout(5):
                while not (tasks := await stored_tasks(client)):
                    await asyncio.sleep(0.01)
            await client.cancel(tasks[0])
            assert (await sending).status.state is TaskState.CANCELED

    async def test_with_may_reply_false_the_task_is_stored_before_execute_begins(self) -> None:
        stored = list[Task]()

        async def look(context: RequestContext, queue: EventQueue) -> None:
            stored.extend(await stored_tasks(client))
            await queue.enqueue_event(idioms.message("Done"))

        async with running(Agent.of(bare_executor(look), may_reply=False)) as client:
            task = await client.send("Go")
        assert [other.id for other in stored] == [task.id]
        assert task.status.message is not None
        assert task.status.message.text == "Done"

    async def test_a_quick_message_is_a_reply_without_a_task(self) -> None:
        async with running(Agent.of(samples.hello_world)) as client:
            assert isinstance(await client.exchange("Hi"), Message)
            assert await stored_tasks(client) == []

    async def test_a_slow_message_completes_a_task(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(executed_task, "REPLY_SECONDS", 0)

        async def think(context: RequestContext, queue: EventQueue) -> None:
            await asyncio.sleep(0.05)
            await queue.enqueue_event(idioms.message("Done"))

        async with running(Agent.of(bare_executor(think))) as client:
            task = await client.send("Go")
        assert task.status.state is TaskState.COMPLETED
        assert task.status.message is not None
        assert task.status.message.text == "Done"


class TestAfterTheFinalState:
    @pytest.fixture(autouse=True)
    def _in_haste(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(execution, "HELD_SECONDS", 0.05)
        monkeypatch.setattr(pending_events, "DROPPED_SECONDS", 0.01)

    async def test_an_error_after_it_is_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        async def clean_up(context: RequestContext, updater: TaskUpdater) -> None:
            await updater.complete(said(updater, "Done"))
            raise RuntimeError("the cleanup failed")

        with caplog.at_level(logging.WARNING):
            task = await result_of(clean_up)
        assert task.status.state is TaskState.COMPLETED
        assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["the cleanup failed"]

    async def test_an_execute_that_does_not_return_goes_on_without_its_task(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        may_end, has_ended = asyncio.Event(), asyncio.Event()

        async def go_on(context: RequestContext, updater: TaskUpdater) -> None:
            await updater.complete(said(updater, "Done"))
            await may_end.wait()
            has_ended.set()
            raise RuntimeError("the cleanup failed")

        async with running(Agent.of(executor(go_on))) as client:
            async with asyncio.timeout(5):
                task = await client.send("Go")
                may_end.set()
                with caplog.at_level(logging.WARNING):
                    await has_ended.wait()
                    await asyncio.sleep(0)
        assert task.status.state is TaskState.COMPLETED
        assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["the cleanup failed"]

    async def test_one_that_never_stops_speaking_ends_with_the_server(self) -> None:
        has_ended = asyncio.Event()

        async def chatter(context: RequestContext, updater: TaskUpdater) -> None:
            await updater.complete(said(updater, "Done"))
            try:
                while True:
                    await updater.add_artifact([idioms.text("And another thing")])
            finally:
                has_ended.set()

        async with running(Agent.of(executor(chatter))) as client, asyncio.timeout(5):
            task = await client.send("Go")
            assert not has_ended.is_set()
        assert has_ended.is_set()
        assert task.status.state is TaskState.COMPLETED
        assert task.artifacts == ()

    async def test_a_message_stands_if_execute_fails_or_goes_on(self) -> None:
        async def fail(context: RequestContext, queue: EventQueue) -> None:
            await queue.enqueue_event(idioms.message("Hello"))
            raise RuntimeError("the cleanup failed")

        async def go_on(context: RequestContext, queue: EventQueue) -> None:
            await queue.enqueue_event(idioms.message("Hello"))
            await asyncio.Event().wait()

        for execute in (fail, go_on):
            async with running(Agent.of(bare_executor(execute))) as client, asyncio.timeout(5):
                reply = await client.exchange("Go")
            assert isinstance(reply, Message)
            assert reply.text == "Hello"

    async def test_a_question_that_cleanup_follows_is_asked_once(self) -> None:
        async def ask(context: RequestContext, updater: TaskUpdater) -> None:
            await updater.requires_input(said(updater, "Which?"))
            await asyncio.sleep(0.2)

        async with running(Agent.of(executor(ask))) as client:
            events = [event async for event in client.stream("Go")]
        assert [
            (event.status.state, event.status.message.text)
            for event in events
            if isinstance(event, StatusUpdate) and event.status.message
        ] == [(TaskState.INPUT_REQUIRED, "Which?")]


class TestCancelling:
    async def test_an_executor_that_ignores_its_cancellation_fills_no_memory(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(execution, "CLEANUP_SECONDS", 0.05)
        monkeypatch.setattr(pending_events, "DROPPED_SECONDS", 0.0)
        may_end, has_said_much = asyncio.Event(), asyncio.Event()

        async def flood(context: RequestContext, updater: TaskUpdater) -> None:
            number = 0
            while not may_end.is_set():
                try:
                    number += 1
                    await updater.add_artifact([idioms.text(f"{number}" * 10_000)], artifact_id="flood", append=True)
                    await asyncio.sleep(0)
                except asyncio.CancelledError:
                    number = 0
                if number % 300 == 0:
                    has_said_much.set()

        async with running(Agent.of(executor(flood))) as client, asyncio.timeout(20):
            try:
                async for event in client.stream("Go"):
                    if isinstance(event, ArtifactUpdate):
                        break
                task = await client.cancel(event.task_id)
                has_said_much.clear()
                tracemalloc.start()
                await has_said_much.wait()
                held, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
                may_end.set()
        assert task.status.state is TaskState.CANCELED
        assert held < 1_000_000


class TestWithoutParts:
    async def test_messages_without_parts_have_an_empty_text(self) -> None:
        async def say_nothing(context: RequestContext, updater: TaskUpdater) -> None:
            if context.current_task is None:
                await updater.start_work(said(updater))
                await updater.requires_input(said(updater))
            else:
                await updater.add_artifact([idioms.text("x")], name="r")
                await updater.complete(said(updater))

        async with running(Agent.of(executor(say_nothing))) as client:
            asked = await client.send("Go")
            assert asked.status.state is TaskState.INPUT_REQUIRED
            task = await client.send("Well", task=asked)
        assert task.status.state is TaskState.COMPLETED
        assert task.status.message is not None
        assert [message.text for message in (*task.history, task.status.message)] == ["Go", "", "", "Well", ""]
        assert [text_of(artifact.parts) for artifact in task.artifacts] == ["x"]

    async def test_a_reply_without_parts_has_an_empty_text(self) -> None:
        async def say_nothing(context: RequestContext, queue: EventQueue) -> None:
            await queue.enqueue_event(said(TaskUpdater(queue, context.task_id, context.context_id)))

        async with running(Agent.of(bare_executor(say_nothing))) as client:
            reply = await client.exchange("Go")
        assert isinstance(reply, Message)
        assert reply.text == ""
