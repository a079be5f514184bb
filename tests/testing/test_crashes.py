"""`survives_crashes` finds what a crash changes, and finds nothing where nothing changes."""

import asyncio
import re
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from examples import currency

from parley import Agent, File, Turn
from parley.protocol.messages import TextPart
from parley.testing import FakeModel, survives_crashes

pytestmark = pytest.mark.anyio


def agent_of(handler: Any) -> Agent:
    agent = Agent("Tested")
    agent.on_message(handler)
    return agent


@pytest.mark.parametrize("is_on_disk", [False, True], ids=["memory", "sqlite"])
async def test_an_agent_that_keeps_the_rule_survives_every_crash(tmp_path: Path, is_on_disk: bool) -> None:
    taken = list[str]()

    async def book(turn: Turn) -> Any:
        await turn.status("Booking…")
        note = turn.artifact("note.txt")
        await note.write("for ")
        yield f"{turn.text}: "
        days = (await turn.ask("How long?")).text
        await note.write(days)

        async def price() -> int:
            taken.append(days)
            return len(taken) and 7

        yield f"{days} for {await turn.step('price', price)}"
        yield File(b"...", "bill.pdf")

    task = await survives_crashes(agent_of(book), "Rome", answers=["3 days"], folder=tmp_path if is_on_disk else None)
    assert [artifact.artifact_id for artifact in task.artifacts] == ["note.txt", "response"]
    # Once undisturbed, and once in each crashed conversation: twice where the crash came before the step was recorded.
    assert len(taken) > 10


async def test_an_example_survives_every_crash() -> None:
    await survives_crashes(currency.agent, "100 USD", answers=["EUR"])


async def test_a_value_that_changes_with_each_run_is_found_and_the_error_says_where_and_what_to_do() -> None:
    numbers = count(1)

    async def draw(turn: Turn) -> Any:
        yield f"run {next(numbers)}, "
        yield "done"

    with pytest.raises(AssertionError) as caught:
        await survives_crashes(agent_of(draw), "go")
    text = str(caught.value)
    assert re.search(r"After a crash right (before|after) write \d+ \(.+\), the artifact 'response' differs\.", text)
    assert "undisturbed: 'run 1, done'" in text
    assert re.search(r"after the crash: 'run [^1]", text)
    assert "turn.step(…)" in text
    assert "pass `accept`" in text


async def test_a_value_of_the_conversation_that_counts_twice_is_found() -> None:
    async def visit(turn: Turn) -> Any:
        visits: Any = await turn.context.get("visits", 0)
        await turn.context.set("visits", visits + 1)
        return f"Visit {visits + 1}"

    with pytest.raises(AssertionError, match=r"(?s)write \d \(the value 'visits'\).*'Visit 1'.*'Visit 2'"):
        await survives_crashes(agent_of(visit), "hello")


async def test_answers_that_do_not_match_the_questions_are_an_error() -> None:
    with pytest.raises(AssertionError, match="To which currency"):
        await survives_crashes(currency.agent, "100 USD")
    with pytest.raises(AssertionError, match="the agent asks 1 questions, but `answers` has 2 answers"):
        await survives_crashes(currency.agent, "100 USD", answers=["EUR", "GBP"])


async def test_a_task_that_ends_otherwise_after_a_crash_is_found() -> None:
    lives = count(1)

    async def fail_later(turn: Turn) -> Any:
        yield "hm "
        if next(lives) > 1:
            raise ValueError("not again")

    with pytest.raises(AssertionError, match=r"(?s)the task differs in its state.*completed.*failed"):
        await survives_crashes(agent_of(fail_later), "go")


async def test_an_agent_that_sleeps_is_woken_and_survives_crashes_meanwhile() -> None:
    async def remind(turn: Turn) -> Any:
        yield f"{turn.now():%H:%M}"
        await asyncio.gather(turn.sleep("1 hour", name="a"), turn.sleep("2 hours", name="b"))
        await turn.sleep("1 second")
        yield f" to {turn.now():%H:%M:%S}"

    task = await survives_crashes(agent_of(remind), "tea")
    assert task.artifacts[0].parts == (TextPart("00:00 to 02:00:01"),)


async def test_an_agent_that_tries_again_is_not_kept_waiting_by_the_clock() -> None:
    calls = count(1)

    async def flaky() -> str:
        if next(calls) % 3:
            raise ConnectionError
        return "at last"

    async def insist(turn: Turn) -> Any:
        yield await turn.retrying(attempts=5).step("flaky", flaky)

    task = await survives_crashes(agent_of(insist), "go")
    assert task.artifacts[0].parts == (TextPart("at last"),)


async def test_a_streamed_model_that_says_something_else_each_time_is_never_spliced() -> None:
    model = FakeModel(["One {call}, ", "two {call}, ", "three {call}."])

    async def answer(turn: Turn) -> Any:
        yield turn.stream("answer", model.stream, turn.text)

    await survives_crashes(agent_of(answer), "count", accept=model.said)
    assert {call.prompt for call in model.calls} == {"count"}

    async def splice(turn: Turn) -> Any:
        said = await turn.step("said", model.complete)
        yield said[:-5]
        yield (await model.complete())[-5:]

    with pytest.raises(AssertionError, match="not the whole text of one run: 'One"):
        await survives_crashes(agent_of(splice), "count", accept=model.said)


async def test_an_agent_that_fails_anyway_is_not_taken_for_one_that_survives() -> None:
    async def stumble(turn: Turn) -> Any:
        raise ValueError(turn.text)

    with pytest.raises(AssertionError, match="Undisturbed, the agent raises an exception"):
        await survives_crashes(agent_of(stumble), "go")


async def test_of_a_long_conversation_only_so_many_crashes_are_tried() -> None:
    runs = count()

    async def talk(turn: Turn) -> Any:
        next(runs)
        for number in range(100):
            yield f"{number} "

    await survives_crashes(agent_of(talk), "go", at_most=20)
    assert next(runs) <= 1 + 2 * 20
