"""Streams that are steps: what they say is in the log, and is the text of one run."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from parley import Agent, Turn
from parley.engine.limits import Limits
from parley.engine.runs.run import Run
from parley.protocol.events import ArtifactUpdate, StepRecorded
from parley.protocol.messages import text_of
from parley.protocol.tasks import Task, TaskState
from parley.stores.interface import TaskKey
from parley.testing.client import AgentClient
from parley.testing.clock import FakeClock
from tests.bounded import bounded
from tests.engine.test_divergence import killed_at, seen_by_a_reader

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_store")]


class Model:
    """A model that says something else every time; it hangs after a token of its first answer, if one is named."""

    def __init__(self, tokens: int = 4, hangs_after: str | None = None) -> None:
        self.tokens = tokens
        self.hangs_after = hangs_after
        self.generation = 0

    async def stream(self, prompt: str) -> AsyncIterator[str]:
        self.generation += 1
        for number in range(self.tokens):
            token = f"g{self.generation}-{number} "
            yield token
            if token == self.hangs_after:
                await asyncio.Event().wait()

    def whole(self) -> str:
        return "".join(f"g{self.generation}-{number} " for number in range(self.tokens))


def passed_through(model: Model) -> Any:
    async def handler(turn: Turn) -> Any:
        yield "Model: "
        yield turn.stream("answer", model.stream, turn.text)
        yield (await turn.ask("More?")).text

    return handler


def given_to_the_handler(model: Model) -> Any:
    async def handler(turn: Turn) -> Any:
        yield "Model: "
        async for piece in turn.stream("answer", model.stream, turn.text):
            yield piece
        yield (await turn.ask("More?")).text

    return handler


def in_a_thread(model: Model) -> Any:
    def handler(turn: Turn) -> Any:
        yield "Model: "
        yield turn.stream("answer", model.stream, turn.text)
        yield turn.wait(turn.ask("More?")).text

    return handler


def written(model: Model) -> Any:
    async def handler(turn: Turn) -> Any:
        report = turn.artifact("report.md", description="A report")
        await report.write("Model: ", turn.stream("answer", model.stream, turn.text))
        await report.write((await turn.ask("More?")).text)

    return handler


WAYS = pytest.mark.parametrize("way", [passed_through, given_to_the_handler, in_a_thread, written])


def agent_of(handler: Any, **options: Any) -> Agent:
    agent = Agent("Test", **options)
    agent.on_message(handler)
    return agent


async def steps_of(client: AgentClient, task: Task) -> list[StepRecorded]:
    events = await client.engine.views.events(TaskKey(client.caller.owner, task.id))
    return [event for event in events if isinstance(event, StepRecorded)]


@WAYS
async def test_a_stream_that_has_ended_comes_back_from_the_log(
    way: Callable[[Model], Any], caplog: pytest.LogCaptureFixture
) -> None:
    model = Model()
    async with bounded(agent_of(way(model))) as client:
        asked = await client.send("go")
        await client.crash()
        await client.restart()
        task = await client.send("no", task=asked)
        assert client.text(task) == f"Model: {model.whole()}no"
        assert await seen_by_a_reader(client, task) == client.text(task)
        assert [(step.name, step.kind) for step in await steps_of(client, task)] == [("answer", "stream")]
    assert model.generation == 1
    assert "began again" not in caplog.text


@WAYS
@pytest.mark.parametrize("tokens", [2, 3, 6])
async def test_a_stream_that_was_cut_off_runs_again_and_replaces_what_it_said(
    way: Callable[[Model], Any], tokens: int, caplog: pytest.LogCaptureFixture
) -> None:
    model = Model(tokens=3, hangs_after="g1-2 ")
    async with bounded(agent_of(way(model), on_divergence="fail")) as client:
        asking = asyncio.create_task(killed_at(client, "g1-2 "))
        while not model.generation:
            await asyncio.sleep(0)
        model.tokens = tokens if model.generation else 0
        asked = await asking
        assert (asked.status.state, client.text(asked)) == (TaskState.INPUT_REQUIRED, f"Model: {model.whole()}")
        task = await client.send("no", task=asked)
        assert client.text(task) == f"Model: {model.whole()}no"
        assert await seen_by_a_reader(client, task) == client.text(task)
        assert task.artifacts[0].description == ("A report" if way is written else None)
    assert model.generation == 2
    assert "began again" not in caplog.text


async def test_a_stream_that_ends_earlier_than_the_one_that_was_cut_off_keeps_nothing_of_it() -> None:
    texts = iter(["abc", "ab"])

    async def letters() -> AsyncIterator[str]:
        text = next(texts)
        for letter in text:
            yield letter
        if text == "abc":
            await asyncio.Event().wait()

    async def handler(turn: Turn) -> Any:
        yield turn.stream("letters", letters)
        yield (await turn.ask("More?")).text

    async with bounded(agent_of(handler)) as client:
        asked = await killed_at(client, "c")
        assert client.text(asked) == "ab"
        task = await client.send("!", task=asked)
        assert client.text(task) == await seen_by_a_reader(client, task) == "ab!"


async def test_a_source_that_can_continue_gets_what_was_said() -> None:
    said: list[str] = []
    model = Model(hangs_after="g1-1 ")

    async def continue_after(text: str) -> AsyncIterator[str]:
        said.append(text)
        yield "and on"

    async def handler(turn: Turn) -> Any:
        yield "Model: "
        yield turn.stream("answer", model.stream, turn.text).resume_with(continue_after)
        await turn.ask("More?")

    async with bounded(agent_of(handler)) as client:
        asked = await killed_at(client, "g1-1 ")
        task = await client.send("no", task=asked)
        assert client.text(task) == "Model: g1-0 g1-1 and on"
    assert (said, model.generation) == (["g1-0 g1-1 "], 1)


@dataclass
class Fact:
    text: str
    weight: float = 1.0


async def facts() -> AsyncIterator[Fact]:
    yield Fact("a")
    yield Fact("b", 2.5)


def numbers(most: int) -> Iterator[int]:
    yield from range(most)


async def opened() -> AsyncIterator[str]:
    async def tokens() -> AsyncIterator[str]:
        yield "x"
        yield "y"

    return tokens()


async def test_sources_of_every_kind_give_typed_pieces_in_every_run() -> None:
    seen: list[list[object]] = []

    async def handler(turn: Turn) -> None:
        pieces: list[object] = [fact async for fact in turn.stream("facts", facts)]
        pieces += [number async for number in turn.stream("numbers", numbers, 3)]
        pieces += [token async for token in turn.stream("tokens", opened)]
        pieces += [letter async for letter in turn.stream("list", lambda: ["l", {"m": None}])]
        seen.append(pieces)
        await turn.ask("Again?")

    async with bounded(agent_of(handler)) as client:
        await client.send("yes", task=await client.send("go"))
    assert seen == [[Fact("a"), Fact("b", 2.5), 0, 1, 2, "x", "y", "l", {"m": None}]] * 2


async def test_pieces_that_the_handler_does_not_want_are_not_asked_for_again() -> None:
    model = Model()

    async def handler(turn: Turn) -> Any:
        async for piece in turn.stream("answer", model.stream, turn.text):
            yield piece
            if piece.endswith("-1 "):
                break
        yield (await turn.ask("More?")).text

    async with bounded(agent_of(handler)) as client:
        task = await client.send("no", task=await client.send("go"))
        assert client.text(task) == "g1-0 g1-1 no"
    assert model.generation == 1


async def test_a_handler_may_ask_while_it_reads_a_stream() -> None:
    async def handler(turn: Turn) -> Any:
        async for piece in turn.stream("letters", lambda: ["a", "b"]):
            yield piece + (await turn.ask(f"After {piece}?")).text

    async with bounded(agent_of(handler)) as client:
        asked = await client.send("1", task=await client.send("go"))
        assert client.text(await client.send("2", task=asked)) == "a1b2"


async def failing(prompt: str) -> AsyncIterator[str]:
    yield "half "
    raise ConnectionError(prompt)


async def test_what_a_source_raises_can_be_caught_where_the_stream_is_yielded() -> None:
    async def handler(turn: Turn) -> Any:
        try:
            yield turn.stream("answer", failing, "gone")
        except ConnectionError as error:
            yield f"({error})"

    def in_thread(turn: Turn) -> Any:
        try:
            yield turn.stream("answer", failing, "gone")
        except ConnectionError as error:
            yield f"({error})"

    async def uncaught(turn: Turn) -> Any:
        yield turn.stream("answer", failing, "gone")

    for function in (handler, in_thread):
        async with bounded(agent_of(function)) as client:
            assert client.text(await client.send("go")) == "half (gone)"
    async with bounded(agent_of(uncaught)) as client:
        assert (await client.send("go")).status.state is TaskState.FAILED


async def test_a_stream_that_is_tried_again_replaces_what_it_said(caplog: pytest.LogCaptureFixture) -> None:
    attempts = iter([["a1 ", ConnectionError("lost")], ["a2 ", "b2 "]])

    async def source() -> AsyncIterator[str]:
        for piece in next(attempts):
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def handler(turn: Turn) -> Any:
        yield "Model: "
        yield turn.retrying(attempts=2, backoff=0).stream("answer", source)
        yield (await turn.ask("More?")).text

    async with bounded(agent_of(handler, on_divergence="fail")) as client:
        task = await client.send("no", task=await client.send("go"))
        assert client.text(task) == await seen_by_a_reader(client, task) == "Model: a2 b2 no"
    assert "Step 'answer' failed, attempt 1 of 2: ConnectionError: lost" in caplog.text


def scripted(*attempts: list[Any]) -> Callable[[], AsyncIterator[Any]]:
    """A source that yields the pieces of its next attempt, raises the exceptions among them, and hangs at `...`."""
    coming = iter(attempts)

    async def source() -> AsyncIterator[Any]:
        for piece in next(coming):
            if isinstance(piece, Exception):
                raise piece
            if piece is ...:
                await asyncio.Event().wait()
            yield piece

    return source


@pytest.mark.parametrize("last", [[], [ConnectionError("gone")]])
async def test_what_a_stream_takes_back_is_gone_even_if_it_says_nothing_more(last: list[Any]) -> None:
    source = scripted(["a1 ", ConnectionError("lost")], last)

    async def handler(turn: Turn) -> Any:
        with suppress(ConnectionError):
            await turn.artifact("answer").write(turn.retrying(attempts=2, backoff=0).stream("answer", source))

    async with bounded(agent_of(handler)) as client:
        task = await client.send("go")
        assert (task.status.state, client.text(task)) == (TaskState.COMPLETED, "")
        assert await seen_by_a_reader(client, task) == ""


async def test_a_stream_that_says_nothing_when_it_runs_again_is_no_difference_later() -> None:
    source = scripted(["a", "b", ...], [])

    async def handler(turn: Turn) -> Any:
        yield turn.stream("answer", source)
        yield "x"
        yield (await turn.ask("More?")).text

    async with bounded(agent_of(handler, on_divergence="fail")) as client:
        task = await client.send("!", task=await killed_at(client, "b"))
        assert (task.status.state, client.text(task)) == (TaskState.COMPLETED, "x!")


async def test_a_source_that_continues_gets_only_what_its_stream_said() -> None:
    said: list[str] = []

    async def continue_after(text: str) -> AsyncIterator[str]:
        said.append(text)
        yield "and on"

    source = scripted(["half ", ConnectionError("lost")])

    async def handler(turn: Turn) -> Any:
        try:
            yield turn.stream("answer", source).resume_with(continue_after)
        except ConnectionError:
            yield "(lost)"
        await turn.ask("More?")

    async with bounded(agent_of(handler, on_divergence="fail")) as client:
        task = await client.send("yes", task=await client.send("go"))
        assert client.text(task) == await seen_by_a_reader(client, task) == "half and on"
    assert said == ["half "]


async def test_a_handler_that_left_a_stream_and_reads_on_when_it_begins_again_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    leaves = iter([True, False])

    async def handler(turn: Turn) -> Any:
        leave = next(leaves)
        async for piece in turn.stream("answer", lambda: ["a", "b"]):
            yield piece
            if leave:
                break
        await turn.ask("More?")

    async with bounded(agent_of(handler)) as client:
        task = await client.send("yes", task=await client.send("go"))
        assert task.status.state is TaskState.FAILED
    assert "The handler left the stream 'answer' after piece 1, began again, and reads on now" in caplog.text


@WAYS
async def test_a_run_keeps_nothing_of_a_stream_that_it_has_repeated(way: Callable[[Model], Any]) -> None:
    class Kept(Agent):
        async def run(self, run: Run) -> None:
            await super().run(run)
            entries = run.journal._steps.values()  # pyright: ignore[reportPrivateUsage]
            assert [(entry.chunks, entry.recorded) for entry in entries] == [((), (None,))]

    agent = Kept("Test")
    agent.on_message(way(Model()))
    async with bounded(agent) as client:
        task = await client.send("no", task=await client.send("go"))
        assert task.status.state is TaskState.COMPLETED
        gc.collect()
        assert not [thing for thing in gc.get_objects() if isinstance(thing, Run) and thing.program is agent]


async def test_a_handler_that_changes_a_piece_finds_it_unchanged_when_it_begins_again() -> None:
    seen: list[int] = []

    async def handler(turn: Turn) -> None:
        async for piece in turn.stream("answer", lambda: [{"n": 0}]):
            piece["n"] += 1
            seen.append(piece["n"])
        await turn.ask("Again?")
        await turn.ask("Again?")

    async with bounded(agent_of(handler)) as client:
        asked = await client.send("yes", task=await client.send("go"))
        await client.send("yes", task=asked)
    assert seen == [1, 1, 1]


async def test_a_question_that_differs_because_its_stream_runs_again_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = Model()

    async def handler(turn: Turn) -> None:
        async for piece in turn.stream("answer", model.stream, "x"):
            await turn.ask(f"After {piece}?")

    async with bounded(agent_of(handler)) as client:
        await client.send("yes", task=await client.send("go"))
    assert "a question differs from before (in handler, line " in caplog.text


async def test_a_model_that_stalls_is_stopped_by_its_timeout(caplog: pytest.LogCaptureFixture) -> None:
    model = Model(hangs_after="g1-1 ")

    async def handler(turn: Turn) -> Any:
        try:
            yield turn.retrying(attempts=1, timeout="1 minute").stream("answer", model.stream, turn.text)
        except TimeoutError as error:
            yield f"({error})"

    clock = FakeClock()
    async with bounded(agent_of(handler), clock=clock) as client:
        task = await client.start("go")
        async for _, event in client.follow(task, after=0):
            if isinstance(event, ArtifactUpdate) and text_of(event.artifact.parts) == model.hangs_after:
                break
        await clock.advance(60)
        text = client.text(await client.finished(task))
        assert text == "g1-0 g1-1 (Step 'answer' took longer than its timeout of 0:01:00)"


async def two_at_once(turn: Turn) -> None:
    notes = turn.artifact("notes")
    await asyncio.gather(*(notes.write(turn.stream(name, Model().stream, "x")) for name in "ab"))


async def one_name_twice(turn: Turn) -> None:
    streams = [turn.stream("answer", Model().stream, "x") for _ in range(2)]
    await asyncio.gather(*(turn.artifact(str(index)).write(stream) for index, stream in enumerate(streams)))


async def written_beside(turn: Turn) -> None:
    notes = turn.artifact("notes")
    writing = asyncio.create_task(notes.write(turn.stream("answer", Model(hangs_after="g1-0 ").stream, "x")))
    try:
        while not turn._run.journal.number_emitted("notes"):  # pyright: ignore[reportPrivateUsage]
            await asyncio.sleep(0)
        await notes.write("between")
    finally:
        writing.cancel()


async def not_a_stream(turn: Turn) -> Any:
    yield turn.stream("answer", lambda: 7)  # pyright: ignore


async def not_content(turn: Turn) -> Any:
    yield turn.stream("answer", lambda: [object()])


async def not_json(turn: Turn) -> None:
    async for _ in turn.stream("answer", lambda: [object()]):
        pass


async def pieces_of_one_that_is_tried_again(turn: Turn) -> None:
    async for _ in turn.retrying(attempts=2).stream("answer", Model().stream, "x"):
        pass


async def not_unicode(turn: Turn) -> None:
    async for _ in turn.stream("answer", lambda: ["\ud800"]):
        pass


async def name_not_unicode(turn: Turn) -> Any:
    yield turn.stream("\ud800", lambda: ["x"])


async def used_twice(turn: Turn) -> Any:
    stream = turn.stream("answer", Model().stream, "x")
    async for piece in stream:
        yield piece
    yield stream


async def taken_for_text(turn: Turn) -> Any:
    yield f"It says: {turn.stream('answer', Model().stream, 'x')}"


async def not_a_function(turn: Turn) -> Any:
    yield turn.stream("answer", Model().stream("x"))  # pyright: ignore


async def without_a_name(turn: Turn) -> Any:
    yield turn.retrying().stream(Model().stream, "x")  # pyright: ignore


async def too_much(turn: Turn) -> None:
    async for _ in turn.stream("answer", lambda: ["x" * 1000] * 20):
        pass


@pytest.mark.parametrize(
    ("handler", "text"),
    [
        pytest.param(
            two_at_once,
            "'a' and 'b' stream into the artifact 'notes' at the same time",
            marks=pytest.mark.embedded,  # which of them is faster depends on the store
        ),
        (one_name_twice, "Two steps named 'answer' run at the same time"),
        (written_beside, "The stream 'answer' writes to the artifact 'notes' now; use another artifact"),
        (not_a_stream, "The source of stream 'answer' returned a int, which is not a stream of pieces"),
        (not_content, "An agent cannot send a value of type object"),
        (not_json, "A piece of stream 'answer', of type object, cannot be stored"),
        (not_unicode, "A piece of stream 'answer', of type str, cannot be stored"),
        (name_not_unicode, "The name of a step, '\\ud800', is not valid Unicode"),
        (pieces_of_one_that_is_tried_again, "yield the stream, or iterate over one of `turn.stream`"),
        (used_twice, "turn.stream('answer', …) is used twice; make another one"),
        (taken_for_text, "turn.stream('answer', …) is not text. Yield it, return it, write it to an artifact, or read"),
        (not_a_function, "turn.stream needs a name and a function, not an object of type async_generator. Write turn."),
        (without_a_name, "turn.stream needs a name and a function, and the name comes first"),
        (too_much, "The stream 'answer' exceeds 10000 bytes"),
    ],
)
async def test_a_stream_that_cannot_work_fails_with_one_clear_error(
    handler: Any, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with bounded(agent_of(handler), limits=Limits(artifact_bytes=10_000)) as client:
        assert (await client.send("go")).status.state is TaskState.FAILED
    assert text in caplog.text


async def test_a_stream_or_delegation_that_is_never_used_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def handler(turn: Turn) -> str:
        later = turn.delegate("other", "later")
        await turn.ask("Go on?")  # ends the run: it is used in the next one
        turn.delegate("other", "closed").close()
        turn.delegate("other", "forgotten")
        turn.stream("answer", Model().stream, "x")
        return (await later).text

    async def other(turn: Turn) -> str:
        return turn.text

    other_agent = Agent("Other", description="Answers.")
    other_agent.on_message(other)
    async with bounded(agent_of(handler), others=[other_agent]) as client:
        assert client.text(await client.send("yes", task=await client.send("go"))) == "later"
    warnings = [record.getMessage().partition(": ")[2] for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == [
        "turn.delegate('other', …) was never used, so nothing was done. Await it for its result, or yield it, return "
        "it, or write it to an artifact.",
        "turn.stream('answer', …) was never used, so nothing was done. Yield it, return it, write it to an artifact, "
        "or read its pieces with `async for`.",
    ]


async def test_a_recorded_stream_is_said_again_after_what_was_replaced_before_it() -> None:
    model, runs = Model(), iter("12")

    async def handler(turn: Turn) -> Any:
        yield f"Run {next(runs)}: "
        yield turn.stream("answer", model.stream, turn.text)
        await turn.ask("More?")

    async with bounded(agent_of(handler)) as client:
        task = await client.send("no", task=await client.send("go"))
        assert client.text(task) == f"Run 2: {model.whole()}"
        assert await seen_by_a_reader(client, task) == client.text(task)
        chunks = [event async for _, event in client.follow(task, after=0) if isinstance(event, ArtifactUpdate)]
    assert [text_of(chunk.artifact.parts) for chunk in chunks if not chunk.append] == ["Run 1: ", "Run 2: "]
    assert model.generation == 1


async def test_a_step_inside_a_loop_over_a_stream_belongs_to_the_piece_that_it_was_taken_for() -> None:
    posted: list[str] = []

    async def post(piece: str) -> str:
        posted.append(piece)
        return f"posted {piece}"

    source = scripted(["g1 ", ...], ["g2 "])

    async def handler(turn: Turn) -> Any:
        async for piece in turn.stream("s", source):
            yield f"{piece}:{await turn.step('post', post, piece)};"
        yield (await turn.ask("More?")).text

    async with bounded(agent_of(handler, on_divergence="fail")) as client:
        asked = await killed_at(client, "g1 :posted g1 ;")
        task = await client.send("!", task=asked)
        assert (task.status.state, client.text(task)) == (TaskState.COMPLETED, "g2 :posted g2 ;!")
    assert posted == ["g1 ", "g2 "]
