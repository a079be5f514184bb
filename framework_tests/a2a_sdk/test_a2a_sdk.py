"""The adapter of executors of a2a-sdk. The same tests run with 1.x and with 0.3."""

import asyncio
from typing import Any

import pytest
from a2a.server.agent_execution import RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from msgspec import structs

from framework_tests.a2a_sdk import samples
from framework_tests.a2a_sdk.making import executor, result_of, said
from framework_tests.a2a_sdk.samples import EFFECTS, Sample
from framework_tests.a2a_sdk.versions import idioms
from framework_tests.suite import AdapterSuite
from parley import Agent, File
from parley.protocol.events import ArtifactUpdate, StatusUpdate
from parley.protocol.messages import DataPart, Message, RawPart, Role, TextPart, text_of
from parley.protocol.requests import SendMessageRequest
from parley.protocol.tasks import TaskState
from parley.testing import running, survives_crashes


class TestA2ASdk(AdapterSuite):
    samples = samples

    @pytest.fixture(autouse=True)
    def _forget_conversations(self) -> None:
        samples.MEMORY.clear()

    async def test_finished_work_is_not_repeated_after_a_crash_in_the_middle_of_a_run(self) -> None:
        """An executor cannot go on in the middle: `execute` begins again. Its words and artifacts are there once."""
        calls: list[str] = []

        async def work(context: RequestContext, updater: TaskUpdater) -> None:
            calls.append(context.message.message_id)
            await Sample().say(updater, "All")
            if len(calls) == 1:
                await asyncio.Event().wait()
            await Sample().say(updater, "done.")
            await updater.complete()

        async with running(Agent.of(executor(work))) as client:
            task = await client.start("Go")
            await client.crash_when(lambda event: isinstance(event, ArtifactUpdate))
            await client.restart()
            task = await client.finished(task)
        assert [(artifact.artifact_id, text_of(artifact.parts)) for artifact in task.artifacts] == [
            ("answer", "All"),
            ("answer-2", "done."),
        ]
        assert len(calls) == 2
        assert len(set(calls)) == 1


@pytest.mark.anyio
class TestSamplesOfTheSdk:
    """Executors as the SDK's own samples have them, unchanged."""

    async def test_hello_world_answers_with_a_message_and_no_task(self) -> None:
        async with running(Agent.of(samples.hello_world)) as client:
            reply = await client.agent.send_message(SendMessageRequest(client.message("Hi")), client.caller)
            streamed = [event async for event in client.stream("Hi again")]
        assert isinstance(reply, Message)
        assert (reply.text, reply.role, reply.task_id) == ("Hello World", Role.AGENT, None)
        assert [type(event) for event in streamed] == [Message]

    async def test_hello_world_completes_a_task_for_a_caller_that_does_not_wait(self) -> None:
        async with running(Agent.of(samples.hello_world)) as client:
            task = await client.finished(await client.start("Hi"))
        assert task.status.state is TaskState.COMPLETED
        assert task.status.message is not None
        assert task.status.message.text == "Hello World"

    async def test_the_currency_agent_asks_and_goes_on_in_the_next_call(self) -> None:
        async with running(Agent.of(samples.currency)) as client:
            asked = await client.send("100 USD")
            assert asked.status.state is TaskState.INPUT_REQUIRED
            assert asked.status.message is not None
            assert asked.status.message.text == "To which currency?"
            task = await client.send("EUR", task=asked)
        assert client.text(task) == "92 EUR"
        assert [message.text for message in task.history] == [
            "100 USD",
            "Looking up the exchange rates...",
            "To which currency?",
            "EUR",
            "Looking up the exchange rates...",
        ]
        await survives_crashes(Agent.of(samples.currency), "100 USD", answers=["EUR"])
        await survives_crashes(Agent.of(samples.hello_world), "Hi")
        await survives_crashes(Agent.of(samples.speaker), "Hi")

    def test_a_name_without_a_card_comes_from_the_class(self) -> None:
        assert Agent.of(samples.hello_world).name == "Hello World"
        assert Agent.of(samples.hello_world, name="Greeter").name == "Greeter"

    def test_a_card_gives_the_settings_of_the_agent(self) -> None:
        card = Agent.of(samples.hello_world, card=idioms.CARD).card()
        assert (card.name, card.version, card.default_input_modes) == ("Worker", "2.1.0", ("text/plain",))
        assert [(skill.id, skill.tags, skill.examples) for skill in card.skills] == [
            ("charge", ("money",), ("charge 5",))
        ]


@pytest.mark.anyio
class TestEvents:
    async def test_a_message_that_something_follows_is_progress(self) -> None:
        class Chatty(Sample):
            async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
                await event_queue.enqueue_event(idioms.message("One moment"))
                updater = TaskUpdater(event_queue, context.task_id, context.context_id)
                await updater.complete(said(updater, "Done"))

        async with running(Agent.of(Chatty())) as client:
            task = await client.send("Go")
        assert task.status.message is not None
        assert [message.text for message in task.history] == ["Go", "One moment"]
        assert task.status.message.text == "Done"

    @pytest.mark.parametrize("verb", ["failed", "reject", "cancel", "complete"])
    async def test_the_verbs_of_the_updater_end_the_task(self, verb: str) -> None:
        async def end(context: RequestContext, updater: TaskUpdater) -> None:
            message = updater.new_agent_message([idioms.text("So be it")], metadata={"code": 7})
            await getattr(updater, verb)(message)

        task = await result_of(end)
        states = {"failed": "failed", "reject": "rejected", "cancel": "canceled", "complete": "completed"}
        assert task.status.state.value == states[verb]
        assert task.status.message is not None
        assert (task.status.message.text, task.status.message.metadata) == ("So be it", {"code": 7})

    async def test_an_executor_that_returns_without_a_final_state_has_completed(self) -> None:
        async def nothing(context: RequestContext, updater: TaskUpdater) -> None:
            await updater.start_work()

        assert (await result_of(nothing)).status.state is TaskState.COMPLETED

    async def test_an_artifact_keeps_its_own_id_name_description_and_metadata(self) -> None:
        async def produce(context: RequestContext, updater: TaskUpdater) -> None:
            await updater.add_artifact([idioms.text("x")], artifact_id="report-1", name="Report", metadata={"page": 1})
            await updater.add_artifact([idioms.text("a")], name="Note")
            await updater.add_artifact([idioms.text("b")], name="Note")
            await updater.add_artifact([idioms.text("c")])
            await updater.add_artifact([idioms.text("d")], artifact_id=f"{context.task_id}-log")

        task = await result_of(produce)
        assert [(artifact.artifact_id, artifact.name) for artifact in task.artifacts] == [
            ("report-1", "Report"),
            ("Note", "Note"),
            ("Note-2", "Note"),
            ("artifact", None),
            (f"{task.id}-log", None),
        ]
        assert task.artifacts[0].metadata == {"page": 1}

    async def test_an_artifact_without_append_replaces_the_former_one(self) -> None:
        async def produce(context: RequestContext, updater: TaskUpdater) -> None:
            await updater.add_artifact([idioms.text("draft")], artifact_id="text")
            await updater.add_artifact([idioms.text("final")], artifact_id="text")
            await updater.add_artifact([], artifact_id="text", append=True, last_chunk=True)

        task = await result_of(produce)
        assert [text_of(artifact.parts) for artifact in task.artifacts] == ["final"]

    async def test_all_kinds_of_parts_go_in_and_out(self) -> None:
        async def echo(context: RequestContext, updater: TaskUpdater) -> None:
            await updater.add_artifact(list(context.message.parts), name="echo")

        task = await result_of(echo, "Hi", {"n": 1, "list": [True, None]}, File(b"\x00\xff", "x.bin", "image/png"))
        assert task.artifacts[0].parts == (
            TextPart("Hi"),
            DataPart({"n": 1, "list": [True, None]}),
            RawPart(b"\x00\xff", "image/png", "x.bin"),
        )

    async def test_progress_keeps_its_metadata_and_a_state_without_a_message_gives_it_to_the_task(self) -> None:
        async def report(context: RequestContext, updater: TaskUpdater) -> None:
            await updater.update_status(idioms.WORKING, said(updater, "Half"), metadata={"percent": 50})
            await updater.update_status(idioms.WORKING, metadata={"model": "small"})

        async with running(Agent.of(executor(report))) as client:
            events = [event async for event in client.stream("Go")]
            task = await client.get(events[0].id)
        shown = [event for event in events if isinstance(event, StatusUpdate) and event.status.message]
        assert [(event.status.message.text, event.metadata) for event in shown] == [("Half", {"percent": 50})]
        assert task.metadata == {"percent": 50, "model": "small"}

    async def test_messages_keep_their_ids_and_metadata(self) -> None:
        ids: list[str] = []

        async def report(context: RequestContext, updater: TaskUpdater) -> None:
            for text, verb in (("Half", updater.start_work), ("Well?", updater.requires_input)):
                message = updater.new_agent_message([idioms.text(text)], metadata={"text": text})
                ids.append(message.message_id)
                await verb(message)

        async with running(Agent.of(executor(report))) as client:
            task = await client.send("Go")
        assert task.status.message is not None
        assert [(message.message_id, message.metadata) for message in (task.history[1], task.status.message)] == [
            (ids[0], {"text": "Half"}),
            (ids[1], {"text": "Well?"}),
        ]

    async def test_an_error_of_a2a_is_told_to_the_caller(self) -> None:
        async def refuse(context: RequestContext, updater: TaskUpdater) -> None:
            raise idioms.invalid_params("No money, no work")

        task = await result_of(refuse)
        assert task.status.state is TaskState.REJECTED
        assert task.status.message is not None
        assert task.status.message.text == "No money, no work"

    async def test_many_events_wait_for_the_task(self) -> None:
        async def stream(context: RequestContext, updater: TaskUpdater) -> None:
            for number in range(1000):
                await updater.add_artifact([idioms.text(f"{number} ")], artifact_id="numbers", append=number > 0)

        task = await result_of(stream)
        assert text_of(task.artifacts[0].parts) == "".join(f"{number} " for number in range(1000))


@pytest.mark.anyio
class TestQuestions:
    async def test_authorization_is_asked_for_and_the_answer_is_the_next_message(self) -> None:
        async def log_in(context: RequestContext, updater: TaskUpdater) -> None:
            if context.current_task is None:
                await updater.requires_auth(said(updater, "Log in at https://example.com"))
            else:
                assert context.message.message_id == context.current_task.history[-1].message_id
                await updater.complete(said(updater, f"Welcome, {context.get_user_input()}"))

        async with running(Agent.of(executor(log_in))) as client:
            asked = await client.send("Go")
            assert asked.status.state is TaskState.AUTH_REQUIRED
            task = await client.send("ann", task=asked)
        assert task.status.message is not None
        assert task.status.message.text == "Welcome, ann"

    async def test_only_the_next_call_runs_after_an_answer(self) -> None:
        async with running(Agent.of(samples.asker)) as client:
            asked = await client.send("Go")
            await client.crash()
            await client.restart()
            task = await client.send(samples.ANSWER, task=asked)
        assert ["execute: Go", f"execute: {samples.ANSWER}"] == EFFECTS
        assert [(artifact.artifact_id, text_of(artifact.parts)) for artifact in task.artifacts] == [
            ("order", samples.ANSWERED)
        ]

    @pytest.fixture(autouse=True)
    def _forget(self) -> None:
        EFFECTS.clear()

    async def test_an_answer_with_a_file_comes_whole(self) -> None:
        async def read(context: RequestContext, updater: TaskUpdater) -> None:
            if context.current_task is None:
                await updater.requires_input(said(updater, "Which file?"))
            else:
                (content,) = idioms.files(context.message)
                await updater.complete(said(updater, content.decode()))

        async with running(Agent.of(executor(read))) as client:
            asked = await client.send("Go")
            task = await client.send(File(b"seven", "n.txt", "text/plain"), task=asked)
        assert task.status.message is not None
        assert task.status.message.text == "seven"

    async def test_an_executor_that_enqueues_its_task_again_asks_nothing_again(self) -> None:
        class Again(Sample):
            async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
                task = context.current_task or idioms.new_task(context.message)
                await event_queue.enqueue_event(task)
                updater = TaskUpdater(event_queue, task.id, task.context_id)
                if context.current_task is None:
                    await updater.add_artifact([idioms.text("a")], name="first")
                    await updater.requires_input(said(updater, "And?"))
                else:
                    await updater.complete(said(updater, "Done"))

        async with running(Agent.of(Again())) as client:
            asked = await client.send("Go")
            task = await client.send("Well", task=asked)
        assert [message.text for message in task.history] == ["Go", "And?", "Well"]
        assert [text_of(artifact.parts) for artifact in task.artifacts] == ["a"]
        await survives_crashes(Agent.of(Again()), "Go", answers=["Well"])

    async def test_a_question_is_shown_while_the_executor_waits_for_something_else(self) -> None:
        done = asyncio.Event()

        async def log_in_elsewhere(context: RequestContext, updater: TaskUpdater) -> None:
            await updater.requires_auth(said(updater, "Log in at https://example.com"))
            await done.wait()
            await updater.complete(said(updater, "Welcome"))

        async with running(Agent.of(executor(log_in_elsewhere))) as client:
            events: list[Any] = []
            async for event in client.stream("Go"):
                events.append(event)
                if isinstance(event, StatusUpdate) and event.status.message:
                    done.set()
        assert [
            (event.status.state, event.status.message.text)
            for event in events
            if isinstance(event, StatusUpdate) and event.status.message
        ] == [(TaskState.WORKING, "Log in at https://example.com"), (TaskState.COMPLETED, "Welcome")]


@pytest.mark.anyio
class TestCancelling:
    async def test_cancel_is_called_and_its_message_ends_the_task(self) -> None:
        started, order = asyncio.Event(), []

        async def hang(context: RequestContext, updater: TaskUpdater) -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                order.append("execute is cancelled")

        async def on_cancel(context: RequestContext, updater: TaskUpdater) -> None:
            history = [text for message in context.current_task.history for text in idioms.texts(message.parts)]
            order.append(f"cancel is called for {context.current_task.id} after {history}")
            await updater.cancel(said(updater, "Stopped by request"))

        async with running(Agent.of(executor(hang, on_cancel))) as client:
            task = await client.start("Go")
            await started.wait()
            task = await client.cancel(task)
        assert order == [f"cancel is called for {task.id} after ['Go']", "execute is cancelled"]
        assert task.status.state is TaskState.CANCELED
        assert task.status.message is not None
        assert task.status.message.text == "Stopped by request"

    async def test_an_executor_that_waits_for_its_queue_can_be_cancelled(self) -> None:
        stopped = asyncio.Event()

        async def flood(context: RequestContext, updater: TaskUpdater) -> None:
            try:
                while True:
                    await updater.add_artifact([idioms.text("x")], artifact_id="flood", append=True)
            finally:
                stopped.set()

        async with running(Agent.of(executor(flood))) as client:
            async for event in client.stream("Go"):
                if isinstance(event, ArtifactUpdate):
                    break
            task = await client.cancel(event.task_id)
        assert task.status.state is TaskState.CANCELED
        assert stopped.is_set()


@pytest.mark.anyio
class TestContext:
    async def test_the_context_names_message_ids_caller_and_configuration(self) -> None:
        seen: list[Any] = []

        async def look(context: RequestContext, updater: TaskUpdater) -> None:
            seen.append(context)

        async with running(Agent.of(executor(look))) as client:
            task = await client.as_caller(name="ann", tenant="acme").send("Go")
        (context,) = seen
        assert (context.task_id, context.context_id) == (task.id, task.context_id)
        assert (context.message.task_id, context.message.context_id) == (task.id, task.context_id)
        assert (context.get_user_input(), context.current_task, context.related_tasks) == ("Go", None, [])
        user = context.call_context.user
        assert (user.user_name, user.is_authenticated) == ("ann", True)
        assert context.configuration is not None
        assert context.metadata == {}
        if idioms.IS_V1:
            assert context.tenant == "acme"

    async def test_tasks_that_the_message_refers_to_are_related_tasks(self) -> None:
        seen: list[Any] = []

        async def look(context: RequestContext, updater: TaskUpdater) -> None:
            seen.extend(task.id for task in context.related_tasks)

        async with running(Agent.of(executor(look))) as client:
            first = await client.send("Go")
            message = structs.replace(
                client.message("And this?"), context_id=first.context_id, reference_task_ids=(first.id,)
            )
            await client.agent.send_message(SendMessageRequest(message), client.caller)
        assert seen == [first.id]

    async def test_the_queue_is_one_of_the_sdk(self) -> None:
        seen: list[Any] = []

        class Curious(Sample):
            async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
                seen.append(isinstance(event_queue, EventQueue))
                await event_queue.enqueue_event(idioms.message("Yes"))

        async with running(Agent.of(Curious())) as client:
            await client.finished(await client.start("Go"))
        assert seen == [True]
