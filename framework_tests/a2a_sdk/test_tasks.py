"""Whole tasks that executors enqueue, ids of artifacts, and what the log holds of a call."""

from typing import Any

import msgspec
import pytest
from a2a.server.agent_execution import RequestContext
from a2a.server.tasks import TaskUpdater

from framework_tests.a2a_sdk.making import executor, result_of, said
from framework_tests.a2a_sdk.versions import idioms
from parley import Agent
from parley.protocol.events import ArtifactUpdate, StatusUpdate
from parley.protocol.messages import text_of
from parley.protocol.tasks import TaskState
from parley.stores.interface import TaskKey
from parley.testing import running, survives_crashes

pytestmark = pytest.mark.anyio


async def test_a_task_that_is_enqueued_again_says_only_what_is_new() -> None:
    async def produce(context: RequestContext, updater: TaskUpdater) -> None:
        task: Any = idioms.new_task(context.message)
        idioms.set_status(task, idioms.WORKING, said(updater, "Reading"))
        queue = updater.event_queue
        await queue.enqueue_event(task)
        idioms.add_artifact(task, "a", "A")
        await queue.enqueue_event(task)
        await updater.add_artifact([idioms.text("B")], artifact_id="b")
        await updater.add_artifact([idioms.text("B")], artifact_id="b", append=True)
        idioms.add_artifact(task, "b", "BB")
        await queue.enqueue_event(task)
        idioms.set_status(task, idioms.WORKING, said(updater, "Writing"))
        idioms.add_artifact(task, "c", "C")
        await queue.enqueue_event(task)
        await updater.complete()

    async with running(Agent.of(executor(produce))) as client:
        events = [event async for event in client.stream("Go")]
    assert [
        event.status.message.text for event in events if isinstance(event, StatusUpdate) and event.status.message
    ] == [
        "Reading",
        "Writing",
    ]
    chunks = [event.artifact for event in events if isinstance(event, ArtifactUpdate)]
    assert [(chunk.artifact_id, text_of(chunk.parts)) for chunk in chunks if text_of(chunk.parts)] == [
        ("a", "A"),
        ("b", "B"),
        ("b", "B"),
        ("c", "C"),
    ]


async def test_an_id_that_an_artifact_with_a_random_id_got_is_not_used_again() -> None:
    async def produce(context: RequestContext, updater: TaskUpdater) -> None:
        await updater.add_artifact([idioms.text("random")], name="report")
        await updater.add_artifact([idioms.text("own")], artifact_id="report", name="other")
        await updater.add_artifact([idioms.text(" id")], artifact_id="report", append=True)

    task = await result_of(produce)
    assert [(artifact.artifact_id, text_of(artifact.parts)) for artifact in task.artifacts] == [
        ("report", "random"),
        ("report-2", "own id"),
    ]


class TestTheRecordOfACall:
    async def test_chunks_are_in_the_log_once(self) -> None:
        async def produce(context: RequestContext, updater: TaskUpdater) -> None:
            for number in range(20):
                await updater.add_artifact([idioms.text(f"chunk {number}")], artifact_id="text", append=number > 0)
            await updater.requires_input(said(updater, "More?"))

        async with running(Agent.of(executor(produce))) as client:
            task = await client.send("Go")
            log = await client.engine.views.events(TaskKey(client.caller.owner, task.id))
        assert msgspec.json.encode(list(log)).count(b"chunk 7") == 1

    async def test_a_call_after_a_restart_continues_artifacts_by_either_id(self) -> None:
        ids, seen = dict[str, str](), list[Any]()

        async def write(context: RequestContext, updater: TaskUpdater) -> None:
            if context.current_task is None:
                ids["own"] = updater.new_agent_message([]).message_id
                for number, text in enumerate(("One ", "two ")):
                    await updater.start_work(said(updater, f"Part {number}"))
                    await updater.add_artifact(
                        [idioms.text(text)], artifact_id=ids["own"], name="text", append=number > 0
                    )
                    await updater.add_artifact([idioms.text(text)], artifact_id="log", append=number > 0)
                await updater.requires_input(said(updater, "More?"))
            else:
                artifacts = context.current_task.artifacts
                seen.append([(artifact.artifact_id, "".join(idioms.texts(artifact.parts))) for artifact in artifacts])
                await updater.add_artifact([idioms.text("three ")], artifact_id=ids["own"], append=True)
                await updater.add_artifact([idioms.text("four.")], artifact_id=artifacts[0].artifact_id, append=True)
                await updater.complete()

        async with running(Agent.of(executor(write))) as client:
            asked = await client.send("Go")
            assert asked.status.state is TaskState.INPUT_REQUIRED
            await client.crash()
            await client.restart()
            task = await client.send("Yes", task=asked)
        assert seen == [[("text", "One two "), ("log", "One two ")]]
        assert [(artifact.artifact_id, text_of(artifact.parts)) for artifact in task.artifacts] == [
            ("text", "One two three four."),
            ("log", "One two "),
        ]
        assert [message.text for message in task.history] == ["Go", "Part 0", "Part 1", "More?", "Yes"]
        await survives_crashes(Agent.of(executor(write)), "Go", answers=["Yes"])
