"""The examples and the snippets of the author's guide do what they say, restarts included."""

import ast
import asyncio
import io
import re
import struct
import tokenize
import zlib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from examples import charts, coder, concierge, currency, expenses, hello, report, streaming

from parley import Agent, Turn
from parley.engine.caller import Caller
from parley.protocol.errors import PermissionDeniedError
from parley.protocol.events import ArtifactUpdate, StatusUpdate, StepRecorded, TaskEvent
from parley.protocol.messages import DataPart, Message, RawPart, TextPart, UrlPart, text_of
from parley.protocol.requests import SendMessageRequest
from parley.protocol.tasks import Artifact, Task, TaskState
from parley.stores.interface import TaskKey, Write
from parley.testing import AgentClient, FakeClock, survives_crashes
from tests.bounded import bounded
from tests.changed_store import ChangedStore

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
GUIDE = (ROOT / "docs" / "agents.md").read_text()


class TrippingLog(ChangedStore):
    """A store that says when something was written, so that a test can crash the process right there."""

    def __init__(self) -> None:
        super().__init__()
        self.tripped = asyncio.Event()
        self.trips_at: Callable[[Write], bool] = lambda write: False

    def tasks_write(self, write: Write) -> asyncio.Future[None]:
        done = super().tasks_write(write)
        if self.trips_at(write):
            self.tripped.set()
        return done


async def events_of(client: AgentClient, task: Task) -> list[TaskEvent]:
    found = await client.store.tasks.events(TaskKey(client.caller.owner, task.id), after=0, limit=1_000)
    return [event for _, event in found]


def words(task: Task) -> list[str]:
    return [message.text for message in task.history]


# --- each example, from the first word to the last --------------------------------------------------------------------


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_says_what_it_shows_and_defines_an_agent(path: Path) -> None:
    namespace: dict[str, Any] = {}
    exec(compile(path.read_text(), path, "exec"), namespace)
    assert namespace["__doc__"]
    assert isinstance(namespace["agent"], Agent)
    assert namespace["agent"].description


@pytest.mark.parametrize(("example", "most"), [("hello", 8), ("streaming", 10), ("concierge", 5)])
def test_an_agent_takes_few_lines_of_code(example: str, most: int) -> None:
    assert len(lines_of_code((ROOT / "examples" / f"{example}.py").read_text())) <= most


def lines_of_code(source: str) -> set[int]:
    """The lines that hold code: neither empty, nor comments or the text at the top."""
    after = ast.parse(source).body[0].end_lineno or 0
    passed = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(source).readline) if token.type not in passed]
    return {line for token in tokens for line in range(token.start[0], token.end[0] + 1) if line > after}


async def test_hello_greets() -> None:
    async with bounded(hello.agent) as client:
        task = await client.send("World")
    assert (task.status.state, client.text(task)) == (TaskState.COMPLETED, "Hello, World!")


async def test_streaming_streams_what_its_model_says() -> None:
    async with bounded(streaming.agent) as client:
        chunks = [event async for event in client.stream("Rome") if isinstance(event, ArtifactUpdate)]
        assert streaming.model.calls[-1].prompt == "Rome"
    assert text_of([part for chunk in chunks for part in chunk.artifact.parts]) == "Rome was not built in a day."
    assert len(chunks) >= 7


async def test_concierge_passes_the_other_agents_question_on() -> None:
    task = await survives_crashes(concierge.agent, "100 USD", answers=["EUR"], others=[currency.agent])
    assert AgentClient.text(task) == "100 USD is 92.00 EUR."


async def test_currency_converts_what_is_complete_at_once_and_streams_it() -> None:
    async with bounded(currency.agent) as client:
        task, *updates = [event async for event in client.stream("100 USD in EUR")]
        task = await client.get(task)
    chunks = [update.artifact.parts[0].text for update in updates if isinstance(update, ArtifactUpdate)]
    assert chunks == ["100 USD ", "is 92.00 EUR."]
    assert (task.status.state, words(task)) == (TaskState.COMPLETED, ["100 USD in EUR"])


async def test_currency_asks_until_it_knows_the_currency() -> None:
    question = "To which currency? I know USD, EUR, GBP, JPY."
    async with bounded(currency.agent) as client:
        asked = await client.send("12.50 gbp")
        again = await client.send("gold", task=asked)
        assert [task.status.state for task in (asked, again)] == [TaskState.INPUT_REQUIRED] * 2
        task = await client.send(" jpy ", task=asked)
    assert words(task) == ["12.50 gbp", question, "gold", question, " jpy "]
    assert (task.status.state, client.text(task)) == (TaskState.COMPLETED, "12.5 GBP is 2373.42 JPY.")


@pytest.mark.parametrize(
    ("text", "reason"),
    [("hello", "Say an amount and a currency, such as 100 USD."), ("5 DOG in EUR", "I do not know DOG.")],
)
async def test_currency_rejects_what_it_cannot_convert(text: str, reason: str) -> None:
    async with bounded(currency.agent) as client:
        task = await client.send(text)
    assert (task.status.state, task.status.message.text, task.artifacts) == (TaskState.REJECTED, reason, ())


async def test_expenses_asks_with_a_form_books_what_comes_back_and_rejects_what_is_over_the_limit() -> None:
    async with bounded(expenses.agent) as client:
        asked = await client.send("I want to claim my train ticket")
        assert asked.status.state is TaskState.INPUT_REQUIRED
        question, form = asked.status.message.parts
        assert (question.text, form.media_type) == ("What did you spend?", "application/schema+json")
        assert form.data["required"] == ["amount", "purpose"]
        again = await client.send({"amount": 0}, task=asked)
        why = "The answer is not valid: amount: must be more than 0; purpose: is missing. Please answer again.\n"
        assert again.status.message.parts == (TextPart(why), question, form)
        task = await client.send({"amount": 49.9, "purpose": "train"}, task=asked)
        large = await client.send({"amount": 501, "purpose": "desk"}, task=await client.send("A desk"))
    booked = DataPart({"claim": "TRA-4990", "amount": 49.9, "purpose": "train"})
    assert task.status.state is TaskState.COMPLETED
    assert task.artifacts == (Artifact("response", (booked,), "response", index=0),)
    assert (large.status.state, large.artifacts) == (TaskState.REJECTED, ())
    assert large.status.message.text == "501 EUR is over the limit of 500 EUR."


async def test_coder_writes_its_files_side_by_side_and_they_work() -> None:
    async with bounded(coder.agent) as client:
        task, *updates = [event async for event in client.stream("Point x y")]
        task = await client.get(task)
    chunks = [update for update in updates if isinstance(update, ArtifactUpdate)]
    order = [update.artifact.artifact_id for update in chunks]
    assert order[:4] == ["point.py", "test_point.py"] * 2
    assert [update.artifact.artifact_id for update in chunks if update.last_chunk] == ["test_point.py", "point.py"]
    assert [artifact.name for artifact in task.artifacts] == ["point.py", "test_point.py"]

    module, test = ("".join(part.text for part in artifact.parts) for artifact in task.artifacts)
    made: dict[str, Any] = {"__name__": "point"}
    exec(module, made)
    exec(test.replace("from point import Point", ""), made)
    made["test_equal"]()
    assert repr(made["Point"](1, 2)) == "Point(x=1, y=2)"


def pixels_of(png: bytes) -> list[list[bytes]]:
    """The pixels of an RGB picture whose rows have no filter; what a viewer would show."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    chunks: dict[bytes, bytes] = {}
    rest = png[8:]
    while rest:
        size = struct.unpack(">I", rest[:4])[0]
        kind, content, check = rest[4:8], rest[8 : 8 + size], rest[8 + size : 12 + size]
        assert zlib.crc32(kind + content) == struct.unpack(">I", check)[0]
        chunks[kind] = content
        rest = rest[12 + size :]
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, *kind = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert kind == [8, 2, 0, 0, 0]
    data = zlib.decompress(chunks[b"IDAT"])
    assert len(data) == height * (1 + width * 3)
    rows = [data[start : start + 1 + width * 3] for start in range(0, len(data), 1 + width * 3)]
    assert {row[0] for row in rows} == {0}
    return [[row[place : place + 3] for place in range(1, len(row), 3)] for row in rows]


async def test_charts_draws_bars_as_high_as_their_numbers() -> None:
    async with bounded(charts.agent) as client:
        task = await client.send({"Mon": 3, "Tue": 5, "Wed": 0})
    ((picture,),) = [artifact.parts for artifact in task.artifacts]
    assert isinstance(picture, RawPart)
    assert (picture.filename, picture.media_type) == ("chart.png", "image/png")
    pixels = pixels_of(picture.raw)
    assert (len(pixels[0]), len(pixels)) == (3 * 40 + 4 * 10, 200)
    heights = [sum(row[middle] == charts.BLUE for row in pixels) for middle in (30, 80, 130)]
    assert heights == [120, 200, 0]


@pytest.mark.parametrize("content", ["draw!", {}, {"Mon": "three"}, {"Mon": -1}, [1, 2]], ids=repr)
async def test_charts_rejects_what_is_no_chart(content: Any) -> None:
    async with bounded(charts.agent) as client:
        task = await client.send(content)
    assert (task.status.state, task.artifacts) == (TaskState.REJECTED, ())


async def test_report_says_how_far_it_is_and_writes_section_by_section(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "PAUSE", 0)
    async with bounded(report.agent) as client:
        task, *updates = [event async for event in client.stream("tides")]
        task = await client.get(task)
    said = [
        update.status.message.text for update in updates if isinstance(update, StatusUpdate) and update.status.message
    ]
    assert said == ["Summary (1 of 4)", "Background (2 of 4)", "Findings (3 of 4)", "Outlook (4 of 4)"]
    chunks = [update for update in updates if isinstance(update, ArtifactUpdate)]
    assert len(chunks) == 4 * 5
    assert [update.last_chunk for update in chunks] == [False] * 19 + [True]
    assert (task.status.state, client.text(task)) == (TaskState.COMPLETED, whole_report("tides"))


def whole_report(topic: str) -> str:
    return "".join(
        f"## {title}\n\nThis is the {title.lower()} of {topic}. More could be said. It was not. \n\n"
        for title in report.SECTIONS
    )


# --- restarts in the middle -------------------------------------------------------------------------------------------


async def test_currency_is_restarted_while_it_waits_and_after_its_step_without_taking_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fetched: list[tuple[str, str]] = []

    def fetch_rate(source: str, target: str) -> float:
        fetched.append((source, target))
        return 0.5

    monkeypatch.setattr(currency, "fetch_rate", fetch_rate)
    store = TrippingLog()
    async with bounded(currency.agent, store=store) as client:
        asked = await client.send("100 USD")
        await client.crash()
        await client.restart()
        assert await client.get(asked) == asked

        store.trips_at = lambda write: any(isinstance(event, StepRecorded) for event in write.events)
        await client.start("EUR", task=asked)
        await store.tripped.wait()
        await client.crash()
        assert not any(isinstance(event, ArtifactUpdate) for event in await events_of(client, asked))
        await client.restart()
        task = await client.finished(asked)

    assert (task.status.state, client.text(task)) == (TaskState.COMPLETED, "100 USD is 50.00 EUR.")
    assert words(task) == ["100 USD", "To which currency? I know USD, EUR, GBP, JPY.", "EUR"]
    assert fetched == [("USD", "EUR")]


async def test_report_goes_on_with_the_next_section_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    researched: list[str] = []
    real_research = report.research

    async def research(title: str, topic: str) -> list[str]:
        researched.append(title)
        return await real_research(title, topic)

    monkeypatch.setattr(report, "PAUSE", 0)
    monkeypatch.setattr(report, "research", research)
    store = TrippingLog()
    store.trips_at = lambda write: any(
        isinstance(event, StepRecorded) and event.name == "Findings" for event in write.events
    )
    async with bounded(report.agent, store=store) as client:
        started = await client.start("tides")
        await store.tripped.wait()
        await client.crash()
        assert researched == ["Summary", "Background", "Findings"]
        await client.restart()
        task = await client.finished(started)

    assert client.text(task) == whole_report("tides")
    assert researched == ["Summary", "Background", "Findings", "Outlook"]


@pytest.mark.parametrize(
    ("agent", "text", "answers"),
    [(currency.agent, "100 USD", ["EUR"]), (report.agent, "tides", []), (coder.agent, "Point x y", [])],
    ids=["currency", "report", "coder"],
)
async def test_wherever_an_example_crashes_it_comes_to_the_same(
    monkeypatch: pytest.MonkeyPatch, agent: Agent, text: str, answers: list[str]
) -> None:
    monkeypatch.setattr(report, "PAUSE", 0)
    await survives_crashes(agent, text, answers=answers)


# --- the author's guide -----------------------------------------------------------------------------------------------


def snippets() -> dict[str, str]:
    """The guide's Python by the heading above it."""
    sections = re.split(r"^#+ (.+)$", GUIDE, flags=re.MULTILINE)[1:]
    pairs = zip(sections[::2], sections[1::2], strict=True)
    found = {title: re.findall(r"```python\n(.*?)```", text, re.DOTALL) for title, text in pairs}
    assert all(len(blocks) <= 1 for blocks in found.values())
    return {title: blocks[0] for title, blocks in found.items() if blocks}


def snippet(title: str) -> SimpleNamespace:
    namespace: dict[str, Any] = {}
    exec(snippets()[title], namespace)
    return SimpleNamespace(**namespace)


@pytest.mark.parametrize("title", snippets())
async def test_a_snippet_of_the_guide_runs(title: str) -> None:
    made = snippet(title)
    assert isinstance(made.agent, Agent)
    for name, value in vars(made).items():
        if name.startswith("test_"):
            await value()


@pytest.mark.parametrize(
    ("title", "said", "text"),
    [
        ("Writing agents", ["hello"], "hello"),
        ("Kinds of handlers", ["cat.png", "16x16"], "cat.png at 16x16"),
        ("Types", ["eleven"], "3 times e"),
        ("What goes out", ["a note"], "Noted."),
        ("Progress and several artifacts", ["Hello You"], "HELLO YOU !hello you …"),
        ("Asking", ["espresso", "small", "no"], "One small espresso, black."),
        ("The one rule", ["four", "Ann"], "Table 7 for four: Ann."),
        ("Steps", ["LH 1", "yes"], "Seat 12A: yes."),
        ("Keys for effects", ["5 EUR"], "charged 5 EUR"),
        ("Streams", ["a poem", "Roses"], "Roses are red. (Roses)"),
        ("Pieces", ["a poem"], "ROSES ARE RED."),
        ("Time and chance", ["a book", "Yes"], "Yes: ordered at 00:00."),
        ("Authorisation", ["today?", "I did"], "You are free."),
        ("Refusing and failing", ["5"], "Paid 5."),
        ("Several skills", ["hello", "mirror writing"], "olleh"),
        ("Several skills", ["shout it"], "SHOUT IT"),
        ("Direct replies", ["four"], "Booked: four."),
        ("Restarts", ["go"], "Gone."),
    ],
)
async def test_a_conversation_with_a_snippet_of_the_guide(title: str, said: list[str], text: str) -> None:
    async with bounded(snippet(title).agent) as client:
        task: Any = None
        for words in said:
            task = await client.send(words, task=task)
    assert (task.status.state, client.text(task)) == (TaskState.COMPLETED, text)


async def test_the_agent_of_the_guide_that_delegates() -> None:
    weather, flights = Agent("Weather"), Agent("Flights")

    @weather.on_message
    async def forecast(turn: Turn) -> Any:
        yield f"{turn.text}: {(await turn.ask('Which day?')).text} is sunny. "

    @flights.on_message
    async def book(turn: Turn) -> Any:
        return "A ticket. ", {"airline": "Parley Air"}

    async with bounded(snippet("Other agents").agent, others=[weather, flights]) as client:
        asked = await client.send("Rome")
        task = await client.send("Monday", task=asked)
    response, ticket = ("".join(map(str, [part.text for part in a.parts[:1]])) for a in task.artifacts)
    assert response == "The weather in Rome. : Monday is sunny. You fly with Parley Air."
    assert ticket == "A ticket. "


async def test_the_guides_step_is_tried_again() -> None:
    async with bounded(snippet("Trying again").agent) as client:
        sending = asyncio.create_task(client.send("Rome"))
        while not sending.done():
            await client.clock.advance(1)
    assert client.text(sending.result()) == "Sun in Rome."


async def test_the_guides_step_is_taken_once() -> None:
    made = snippet("The one rule")
    async with bounded(made.agent) as client:
        asked = await client.send("four")
        await client.send("Ann", task=asked)
    assert made.called == ["four"]


async def test_the_guides_reminder_comes_after_three_days() -> None:
    clock = FakeClock()
    async with bounded(snippet("Sleeping").agent, clock=clock) as client:
        task = await client.start("milk")
        assert await client.asleep(task) == clock.now() + timedelta(days=3)
        await client.crash()
        await client.restart()
        await clock.advance(3 * 86_400)
        task = await client.finished(task)
    assert client.text(task) == "I will remind you. Do not forget: milk"


async def test_the_guides_results_are_text_data_and_a_file() -> None:
    async with bounded(snippet("What goes out").agent) as client:
        task = await client.send("a note")
    parts = (TextPart("Noted."), DataPart({"words": 2}), RawPart(b"a note", "text/plain", "note.txt"))
    assert task.artifacts[0].parts == parts


async def test_the_guides_file_is_read_and_a_private_url_refused() -> None:
    async with bounded(snippet("Files").agent) as client:
        read = await client.send(RawPart(b"one two three", "text/plain"))
        refused = await client.send(UrlPart("https://127.0.0.1/words.txt"))
    assert client.text(read) == "3 words"
    why = "I cannot read that: The URL leads to https://127.0.0.1, which is not public"
    assert (refused.status.state, refused.status.message.text.startswith(why)) == (TaskState.REJECTED, True)


async def test_the_guides_forms_come_back_as_objects_and_data() -> None:
    async with bounded(snippet("Forms").agent) as client:
        asked = await client.send("hi")
        again = await client.send({"title": "Emma", "weeks": 9}, task=asked)
        assert again.status.message.text.startswith("The answer is not valid: weeks: must be at most 4.")
        task = await client.send({"title": "Emma"}, task=again)
    assert task.artifacts[0].parts == (DataPart({"lent": "Emma", "days": 14}),)
    async with bounded(snippet("A JSON Schema as a form").agent) as client:
        task = await client.send("3", task=await client.send("hi"))
    assert client.text(task) == "A table for 3."


@pytest.mark.parametrize(
    ("amount", "state", "reason"),
    [
        ("200", TaskState.REJECTED, "I pay 100 at most."),
        ("20", TaskState.FAILED, "The vault is empty."),
    ],
)
async def test_the_guides_bank_refuses_and_fails(amount: str, state: TaskState, reason: str) -> None:
    async with bounded(snippet("Refusing and failing").agent) as client:
        task = await client.send(amount)
    assert (task.status.state, task.status.message.text) == (state, reason)


async def test_the_guides_conversation_is_remembered() -> None:
    async with bounded(snippet("Memory").agent) as client:
        first = await client.send("one")
        message = Message("again", first.history[0].role, (TextPart("two"),), first.context_id)
        second: Any = await client.agent.send_message(SendMessageRequest(message), client.caller)
    assert client.text(second) == "Visit 2. You said before: ['one']"


async def test_the_guides_skills_are_chosen_by_their_ids() -> None:
    agent = snippet("Several skills").agent
    async with bounded(agent) as client:
        shouted = await client.send("hello", metadata={"skillId": "shout"})
        mirrored = await client.send("hello", metadata={"skillId": "mirror"})
    assert (client.text(shouted), client.text(mirrored)) == ("HELLO", "olleh")
    assert [(skill.name, skill.description) for skill in agent.card().skills] == [
        ("Shout", "Says it louder."),
        ("Mirror writing", "Says it backwards."),
    ]


async def test_the_guides_treasury_lets_only_those_pay_who_may() -> None:
    agent = snippet("Skills for some callers only").agent
    async with bounded(agent, caller=Caller(scopes=frozenset({"accounts.read", "payments.write"}))) as client:
        asked = await client.send("pay", metadata={"skillId": "pay"})
        assert client.text(await client.send("5 EUR", task=asked)) == "Paid 5 EUR."
        reader = client.as_caller(scopes=frozenset({"accounts.read"}))
        assert client.text(await reader.send("how much?", metadata={"skillId": "balance"})) == "12.50 EUR"
        with pytest.raises(PermissionDeniedError, match=r"payments\.write"):
            await reader.send("pay", metadata={"skillId": "pay"})
    assert [skill.id for skill in agent.card().skills] == ["balance"]


async def test_the_guides_watcher_cleans_up_when_it_is_cancelled() -> None:
    made = snippet("Cancelling and cleaning up")
    async with bounded(made.agent) as client:
        task = await client.start("go")
        while not made.log:
            await asyncio.sleep(0)
        canceled = await client.cancel(task)
    assert (canceled.status.state, made.log) == (TaskState.CANCELED, ["opened", "closed"])


async def test_the_guides_rocket_is_failed_by_a_restart() -> None:
    rocket = snippet("Restarts").agent
    agent = Agent(rocket.name, on_restart=rocket.recovery)

    @agent.on_message
    async def count_down(turn: Any) -> None:
        await asyncio.Event().wait()

    async with bounded(agent) as client:
        task = await client.start("go")
        await client.crash()
        await client.restart()
        assert (await client.get(task)).status.state is TaskState.FAILED


@pytest.mark.parametrize(
    ("title", "said", "replied"),
    [("Direct replies", "Hi", "Hello! For how many may I book a table?"), ("Agents without tasks", "Is it?", "Yes.")],
)
async def test_the_guides_agents_reply_with_a_message(title: str, said: str, replied: str) -> None:
    async with bounded(snippet(title).agent) as client:
        reply = await client.exchange(said)
    assert isinstance(reply, Message)
    assert reply.text == replied
