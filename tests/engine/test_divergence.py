"""A handler that begins again and emits something else than before: what readers hold is the text of one run."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from parley import Agent, Turn
from parley.engine.limits import Limits
from parley.protocol.events import ArtifactRewound, ArtifactUpdate, StatusUpdate, TaskEvent
from parley.protocol.lifecycle import fold
from parley.protocol.messages import DataPart, TextPart, text_of
from parley.protocol.tasks import Artifact, Task, TaskState
from parley.stores.interface import TaskKey
from parley.stores.sqlite.store import SqliteStore
from parley.testing.client import AgentClient
from tests.bounded import bounded
from tests.engine.test_observer import Notes

pytestmark = pytest.mark.anyio


async def killed_at(client: AgentClient, text: str) -> Task:
    """The task of an agent that was killed after a chunk, when its next process has ended it."""
    task = await client.start("go")
    async for _, event in client.follow(task, after=0):
        if isinstance(event, ArtifactUpdate) and text_of(event.artifact.parts) == text:
            break
    await client.crash()
    await client.restart()
    return await client.finished(task)


async def events_of(client: AgentClient, task: Task) -> list[TaskEvent]:
    """The log of a task."""
    return await client.engine.views.events(TaskKey(client.caller.owner, task.id))


class Model:
    """A model that says something else every time, with so many tokens."""

    def __init__(self, *lengths: int) -> None:
        self.lengths = lengths
        self.generation = 0

    async def tokens(self) -> AsyncIterator[str]:
        self.generation += 1
        for number in range(self.lengths[self.generation - 1]):
            yield f"g{self.generation}-{number} "


def agent_of(handler: Any, **options: Any) -> Agent:
    agent = Agent("Test", **options)
    agent.on_message(handler)
    return agent


async def seen_by_a_reader(client: AgentClient, task: Task) -> str:
    """What a peer holds that has followed the task from its first event and applied every update."""
    artifacts: dict[str, str] = {}
    async for _, event in client.follow(task, after=0):
        if isinstance(event, ArtifactUpdate):
            name, text = event.artifact.artifact_id, text_of(event.artifact.parts)
            artifacts[name] = artifacts.get(name, "") + text if event.append else text
    return "".join(artifacts.values())


@pytest.mark.parametrize(("first", "second"), [(5, 5), (5, 2), (3, 6), (5, 0)])
async def test_the_text_of_a_handler_that_was_killed_is_that_of_its_last_run(
    first: int, second: int, caplog: pytest.LogCaptureFixture
) -> None:
    model = Model(first, second)

    async def handler(turn: Turn) -> AsyncIterator[str]:
        yield "Model: "
        async for token in model.tokens():
            yield token
        if model.generation == 1:
            await asyncio.Event().wait()

    async with bounded(agent_of(handler)) as client:
        task = await killed_at(client, f"g1-{first - 1} ")
        whole = "Model: " + "".join(f"g2-{number} " for number in range(second))
        assert (task.status.state, client.text(task)) == (TaskState.COMPLETED, whole)
        assert await seen_by_a_reader(client, task) == whole
    warnings = [record for record in caplog.records if "began again" in record.message]
    assert len(warnings) == 1
    assert "emission 2 into the artifact 'response' differs" in warnings[0].message or second == 0
    assert "(in handler, line " in warnings[0].message or second == 0
    assert "Make what can come out differently a step: turn.step" in warnings[0].message


async def test_the_text_after_a_question_is_that_of_the_last_run(caplog: pytest.LogCaptureFixture) -> None:
    model = Model(3, 3, 4)

    async def handler(turn: Turn) -> AsyncIterator[str]:
        async for token in model.tokens():
            yield token
        yield (await turn.ask("More?")).text
        yield (await turn.ask("Still more?")).text

    async with bounded(agent_of(handler)) as client:
        asked = await client.send("go")
        assert client.text(asked) == "g1-0 g1-1 g1-2 "
        asked = await client.send("a", task=asked)
        assert client.text(asked) == "g2-0 g2-1 g2-2 a"
        task = await client.send("b", task=asked)
        assert client.text(task) == "g3-0 g3-1 g3-2 g3-3 ab"
        assert await seen_by_a_reader(client, task) == client.text(task)


async def test_what_a_replacement_keeps_is_compared_in_the_next_run() -> None:
    texts = iter(["abcx", "abcyz", "abcyz!"])

    async def handler(turn: Turn) -> AsyncIterator[str]:
        for letter in next(texts):
            yield letter
        await turn.ask("Again?")
        await turn.ask("Again?")

    async with bounded(agent_of(handler)) as client:
        asked = await client.send("go")
        asked = await client.send("yes", task=asked)
        task = await client.send("yes", task=asked)
        assert client.text(task) == "abcyz!"
        events = await events_of(client, task)
    rewound = [event for event in events if isinstance(event, ArtifactRewound)]
    assert [event.kept for event in rewound] == [3]


@pytest.mark.parametrize("way", ["other", "type", "fewer", "status", "question"])
async def test_an_agent_that_wants_it_fails_when_its_handler_differs(
    way: str, caplog: pytest.LogCaptureFixture
) -> None:
    runs = iter([0, 1])

    async def handler(turn: Turn) -> AsyncIterator[Any]:
        run = next(runs)
        yield "same"
        await turn.status(f"Run {run if way == 'status' else 0}…")
        if way == "fewer" and run == 0:
            yield "more"
        if way == "other":
            yield str(run)
        if way == "type":
            yield {"value": [0, False][run]}
        await turn.ask(f"Question {run if way == 'question' else 0}?")

    async with bounded(agent_of(handler, on_divergence="fail")) as client:
        task = await client.send("yes", task=await client.send("go"))
        assert task.status.state is TaskState.FAILED
    assert "DivergedError" in caplog.text


@pytest.mark.parametrize("limits", [Limits(), Limits(artifact_bytes=8), Limits(events_per_task=11)])
async def test_a_handler_that_ignores_the_error_of_an_emission_cannot_complete_its_task(limits: Limits) -> None:
    lines = iter(["same", "other" if limits == Limits() else "same"])

    async def handler(turn: Turn) -> AsyncIterator[str]:
        with suppress(Exception):
            yield next(lines)
        answer = await turn.ask("More?")
        with suppress(Exception):
            for _ in range(9):
                yield answer.text

    async with bounded(agent_of(handler, on_divergence="fail"), limits=limits) as client:
        task = await client.send("yes", task=await client.send("go"))
        assert task.status.state is TaskState.FAILED


async def test_a_status_or_question_that_differs_is_logged_and_the_answer_is_used(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runs = iter([1, 2])

    async def handler(turn: Turn) -> str:
        run = next(runs)
        await turn.status(f"Run {run}…")
        return (await turn.ask(f"Question {run}?")).text

    async with bounded(agent_of(handler)) as client:
        task = await client.send("yes", task=await client.send("go"))
        assert client.text(task) == "yes"
        events = await events_of(client, task)
    statuses = [
        event.status.message.text for event in events if isinstance(event, StatusUpdate) and event.status.message
    ]
    assert statuses == ["Run 1…", "Question 1?", "Run 2…"]
    assert "a status message differs" in caplog.text


async def test_a_handler_that_says_the_same_again_is_not_reported(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    async def handler(turn: Turn) -> AsyncIterator[Any]:
        yield "text"
        yield {"data": [1, 2.5, None]}
        yield DataPart({"b": (1, 2), "a": {"x": 1.0}, 3: 2**70})  # pyright: ignore[reportArgumentType]
        await turn.status("Working…")
        notes = turn.artifact("notes.md", description="Notes", metadata={"a": 1})
        await notes.write("one")
        await turn.ask("Go on?")
        await notes.write("two", last=True)

    async with bounded(agent_of(handler), store=SqliteStore(tmp_path / "log.db")) as client:
        task = await client.send("yes", task=await client.send("go"))
        events = await events_of(client, task)
    assert not [event for event in events if isinstance(event, ArtifactRewound)]
    assert not [
        record
        for record in caplog.records
        if record.name.startswith("parley.engine") and record.levelno >= logging.WARNING
    ]
    assert fold(None, events).artifacts[1].description == "Notes"


async def test_a_replaced_artifact_keeps_its_description_and_whole_artifacts_are_replaced_whole() -> None:
    runs = iter([1, 2, 2])

    async def handler(turn: Turn) -> AsyncIterator[Any]:
        run = next(runs)
        notes = turn.artifact("notes.md", description="Notes", metadata={"a": 1})
        await notes.write("same ")
        added = Artifact("notes.md", (TextPart(""),), metadata={"b": 2})
        await turn._run.emissions.emit_chunk(added)  # pyright: ignore[reportPrivateUsage]
        await notes.write(f"run {run}")
        yield Artifact("whole", (TextPart("draft"),), "whole")
        yield Artifact("whole", (TextPart(f"run {run}"),), "whole")
        await turn.ask("Again?")
        await turn.ask("Again?")

    async with bounded(agent_of(handler)) as client:
        asked = await client.send("yes", task=await client.send("go"))
        task = await client.send("yes", task=asked)
    notes, whole = task.artifacts
    assert (notes.description, notes.metadata, text_of(notes.parts)) == ("Notes", {"a": 1, "b": 2}, "same run 2")
    assert text_of(whole.parts) == "run 2"


async def test_what_was_replaced_does_not_count_towards_the_limit() -> None:
    runs = iter("abcd")

    async def handler(turn: Turn) -> AsyncIterator[str]:
        yield next(runs) * 60
        for _ in range(3):
            await turn.ask("Again?")

    async with bounded(agent_of(handler), limits=Limits(artifact_bytes=100)) as client:
        task = await client.send("go")
        for _ in range(3):
            task = await client.send("yes", task=task)
        assert (task.status.state, client.text(task)) == (TaskState.COMPLETED, "d" * 60)


async def test_branches_may_ask_and_report_in_another_order_in_every_run() -> None:
    waits = iter([3, 0, 0])

    async def handler(turn: Turn) -> str:
        wait = next(waits)

        async def branch(name: str, ticks: int) -> str:
            for _ in range(ticks):
                await asyncio.sleep(0)
            await turn.status(f"{name}…")
            return (await turn.ask(f"{name}?")).text

        return " ".join(await asyncio.gather(branch("A", wait), branch("B", 1)))

    async with bounded(agent_of(handler, on_divergence="fail")) as client:
        task = await client.send("go")
        for answer in ("b", "a"):
            assert task.status.message is not None
            assert task.status.message.text == f"{answer.upper()}?"
            task = await client.send(answer, task=task)
        assert (task.status.state, client.text(task)) == (TaskState.COMPLETED, "a b")


async def test_a_divergence_is_told_to_the_observer() -> None:
    observer, runs = Notes(), iter("ab")

    async def handler(turn: Turn) -> AsyncIterator[str]:
        yield next(runs)
        await turn.ask("Again?")

    async with bounded(agent_of(handler), observer=observer) as client:
        task = await client.send("yes", task=await client.send("go"))
    told = [line for line in observer.lines if line[0] == "diverged"]
    assert [line[1] for line in told] == [task.id]


async def test_steps_of_one_name_are_told_apart_by_their_arguments_in_whatever_order_they_begin() -> None:
    async def same(value: str) -> str:
        return value

    async def handler(turn: Turn) -> AsyncIterator[str]:
        has_begun = asyncio.Event()

        async def first() -> str:
            await turn.step("wait", has_begun.wait)  # comes back at once when it is in the log
            return await turn.step("same", same, "A")

        async def second() -> str:
            result = await turn.step("same", same, "B")
            has_begun.set()
            return result

        results = await asyncio.gather(first(), second())
        yield (await turn.ask("Again?")).text + " ".join(results)

    async with bounded(agent_of(handler, on_divergence="fail")) as client:
        task = await client.send("!", task=await client.send("go"))
        assert client.text(task) == "!A B"


@pytest.mark.parametrize("on_divergence", ["replace", "fail"])
async def test_a_step_that_is_called_with_something_else_is_reported_and_not_taken_again(
    on_divergence: str, caplog: pytest.LogCaptureFixture
) -> None:
    charged: list[int] = []
    amounts = iter([1, 2])

    async def charge(amount: int, options: object) -> int:
        charged.append(amount)
        return amount

    async def handler(turn: Turn) -> str:
        amount = await turn.step("charge", charge, next(amounts), object())
        return f"{(await turn.ask('Again?')).text} {amount}"

    async with bounded(agent_of(handler, on_divergence=on_divergence)) as client:
        task = await client.send("yes", task=await client.send("go"))
    expected = (TaskState.FAILED, "") if on_divergence == "fail" else (TaskState.COMPLETED, "yes 1")
    assert (task.status.state, client.text(task)) == expected
    assert charged == [1]
    assert "what step 'charge' is called with differs from before (in handler, line " in caplog.text
