"""What an author can do in a handler, seen from outside."""

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from parley import Agent, File, Turn
from parley.engine.limits import Limits
from parley.protocol.errors import InvalidParamsError, LocalProtocolError
from parley.protocol.events import ArtifactUpdate, StatusUpdate
from parley.protocol.messages import DataPart, Message, Part, RawPart, Role, TextPart, UrlPart, text_of
from parley.protocol.requests import SendConfiguration, SendMessageRequest
from parley.protocol.tasks import Artifact, TaskState
from tests.bounded import bounded

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_store")]


def agent_of(handler: Any, **options: Any) -> Agent:
    agent = Agent("Test", **options)
    agent.on_message(handler)
    return agent


@dataclasses.dataclass
class Point:
    x: int
    y: int


class Shape(msgspec.Struct):
    name: str


class Model:
    """As pydantic has it."""

    def model_dump(self, mode: str) -> dict[str, str]:
        return {"mode": mode}


class Drawing:
    """As Pillow and matplotlib have it."""

    def _repr_png_(self) -> bytes:
        return b"\x89PNG"


@pytest.mark.parametrize(
    ("result", "parts"),
    [
        ("text", (TextPart("text"),)),
        ({"a": 1}, (DataPart({"a": 1}),)),
        ([1, 2], (DataPart([1, 2]),)),
        (3.5, (DataPart(3.5),)),
        (True, (DataPart(True),)),
        (Point(1, 2), (DataPart({"x": 1, "y": 2}),)),
        (Shape("disc"), (DataPart({"name": "disc"}),)),
        (Model(), (DataPart({"mode": "json"}),)),
        (b"raw", (RawPart(b"raw", "application/octet-stream"),)),
        (File(b"png", "a.png"), (RawPart(b"png", "image/png", "a.png"),)),
        (File("https://x/y.pdf", "y.pdf"), (UrlPart("https://x/y.pdf", "application/pdf", "y.pdf"),)),
        (File(b"?", media_type="x/y"), (RawPart(b"?", "x/y"),)),
        (Drawing(), (RawPart(b"\x89PNG", "image/png"),)),
        (TextPart("as it is"), (TextPart("as it is"),)),
        (("two", {"of": "them"}), (TextPart("two"), DataPart({"of": "them"}))),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_whatever_a_handler_returns_becomes_parts(result: Any, parts: tuple[Part, ...]) -> None:
    async def handler(turn: Turn) -> Any:
        return result

    async with bounded(agent_of(handler)) as client:
        task = await client.send("go")
    assert task.artifacts == (Artifact("response", parts, "response", index=0),)


async def test_a_path_is_sent_as_the_file_it_names(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("hi")

    async def handler(turn: Turn) -> Path:
        return tmp_path / "note.txt"

    async with bounded(agent_of(handler)) as client:
        task = await client.send("go")
    assert task.artifacts[0].parts == (RawPart(b"hi", "text/plain", "note.txt"),)


async def test_nothing_returned_is_a_task_without_artifacts() -> None:
    async def handler(turn: Turn) -> None: ...

    async with bounded(agent_of(handler)) as client:
        task = await client.send("go")
    assert (task.status.state, task.artifacts) == (TaskState.COMPLETED, ())


@pytest.mark.parametrize(
    ("nonsense", "why"),
    [
        (object(), "An agent cannot send a value of type object. Use text, data, a File or a part."),
        ({1, 2}, "An agent cannot send a value of type set. Use text, data, a File or a part."),
        (
            iter(["a"]),
            "An agent cannot send a value of type list_iterator. Use `turn.stream` with the function that it",
        ),
        ({"x": object()}, "This dict cannot be converted to JSON: Encoding objects of type object is unsupported"),
        (Message("", Role.AGENT, ()), "A message needs at least one part"),
        (float, "An agent cannot send a value of type type. Use text, data, a File or a part."),
        ("\ud800", "This text is not valid Unicode: surrogates not allowed"),
        ({"x": "\ud800"}, "This dict cannot be converted to JSON: 'utf-8' codec can't encode character"),
    ],
    ids=["object", "set", "iterator", "inside", "empty message", "type", "surrogate", "surrogate inside"],
)
async def test_nonsense_fails_the_task_and_only_the_log_says_why(
    nonsense: Any, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(turn: Turn) -> Any:
        return nonsense

    async with bounded(agent_of(handler)) as client:
        task = await client.send("go")
    assert task.status.state is TaskState.FAILED
    assert task.status.message.text.startswith("The agent failed. Reference: id-")
    assert why in caplog.text


@pytest.mark.parametrize("verb", ["yield", "return", "complete"])
async def test_an_artifact_or_a_message_is_said_as_it_is(verb: str) -> None:
    """Only the role, the task and the context of a message are set, and its id if it has none."""
    said = Message("", Role.USER, (TextPart("That was it."),), "x", "y", {"k": 1}, ("https://x.example",), ("task-1",))
    went_on: list[str] = []

    async def yielding(turn: Turn) -> Any:
        yield Artifact("poem", (TextPart("roses"),), "A poem")
        yield structs.replace(said, message_id="mine")
        went_on.append(verb)

    async def returning(turn: Turn) -> Any:
        if verb == "complete":
            await turn.complete(said)
            went_on.append(verb)
        return said

    async with bounded(agent_of(yielding if verb == "yield" else returning)) as client:
        task = await client.send("go")
    artifacts = (Artifact("poem", (TextPart("roses"),), "A poem", index=0),) if verb == "yield" else ()
    assert (task.status.state, task.artifacts, went_on) == (TaskState.COMPLETED, artifacts, [])
    message_id = "mine" if verb == "yield" else task.status.message.message_id
    about = {"role": Role.AGENT, "context_id": task.context_id, "task_id": task.id}
    assert message_id
    assert task.status.message == structs.replace(said, message_id=message_id, **about)


async def test_plain_functions_and_generators_run_in_threads_and_may_ask() -> None:
    def plain(turn: Turn) -> str:
        return turn.wait(turn.ask("Which?")).text

    def yielding(turn: Turn) -> Any:
        yield "a"
        turn.wait(turn.status("half"))
        yield "b"

    async with bounded(agent_of(plain)) as client:
        asked = await client.send("go")
        assert client.text(await client.send("this", task=asked)) == "this"
    async with bounded(agent_of(yielding)) as client:
        assert client.text(await client.send("go")) == "ab"


async def test_a_plain_function_may_return_something_to_await() -> None:
    async def later() -> str:
        return "later"

    async with bounded(agent_of(lambda turn: later())) as client:
        assert client.text(await client.send("go")) == "later"


async def test_several_artifacts_are_streamed_side_by_side() -> None:
    async def handler(turn: Turn) -> None:
        left, right = turn.artifact("left.py"), turn.artifact("right.py", description="the other")
        for text in "ab":
            await left.write(text)
            await right.write(text.upper(), last=text == "a")
        await left.write()

    async with bounded(agent_of(handler)) as client:
        events = [event async for event in client.stream("go")]
        task = await client.get(events[0])
    chunks = [e for e in events if isinstance(e, ArtifactUpdate)]
    assert [(e.artifact.artifact_id, e.append, e.last_chunk) for e in chunks] == [
        ("left.py", False, False),
        ("right.py", False, True),
        ("left.py", True, True),
        ("right.py", True, True),
    ]
    assert [(a.index, a.name, a.description) for a in task.artifacts] == [
        (0, "left.py", None),
        (1, "right.py", "the other"),
    ]


@pytest.mark.parametrize("written_first", [False, True], ids=["with the end", "before the end"])
async def test_the_last_chunk_of_a_completed_task_says_so(written_first: bool) -> None:
    """Only the end shows which chunk was the last: if that is on its way already, an empty one follows."""
    is_seen = asyncio.Event()

    async def handler(turn: Turn) -> Any:
        await turn.artifact("notes").write(File(b"1", "1.bin"))
        yield "Hel"
        answer = await turn.ask("Go on?")
        yield "lo ", answer.text
        if written_first:
            await is_seen.wait()

    async with bounded(agent_of(handler)) as client:
        events = [event async for event in client.stream("go")]
        async for event in client.stream("you", task=events[0]):
            events.append(event)
            if isinstance(event, ArtifactUpdate):
                is_seen.set()
        task = await client.get(events[0])
    chunks = [e for e in events if isinstance(e, ArtifactUpdate)]
    said = [(e.artifact.artifact_id, e.append, e.last_chunk, text_of(e.artifact.parts)) for e in chunks]
    begun = [("notes", False, False, ""), ("response", False, False, "Hel")]
    if written_first:
        ended = [("response", True, False, "lo you"), ("notes", True, True, ""), ("response", True, True, "")]
    else:
        ended = [("response", True, True, "lo you"), ("notes", True, True, "")]
    assert said == begun + ended
    assert [artifact.parts for artifact in task.artifacts] == [
        (RawPart(b"1", "application/octet-stream", "1.bin"),),
        (TextPart("Hello you"),),
    ]


async def test_an_artifact_of_a_task_that_failed_has_no_last_chunk() -> None:
    async def handler(turn: Turn) -> Any:
        yield "half"
        await turn.fail("No more.")

    async with bounded(agent_of(handler)) as client:
        events = [event async for event in client.stream("go")]
    assert [e.last_chunk for e in events if isinstance(e, ArtifactUpdate)] == [False]


async def test_authorisation_is_asked_for_and_waited_for() -> None:
    async def handler(turn: Turn) -> str:
        await turn.require_auth("Sign in at https://login")
        return "thanks"

    async with bounded(agent_of(handler)) as client:
        asked = await client.send("go")
        assert asked.status.state is TaskState.AUTH_REQUIRED
        assert client.text(await client.send("done", task=asked)) == "thanks"


async def test_a_question_needs_no_words() -> None:
    async def handler(turn: Turn) -> None:
        await turn.ask()

    async with bounded(agent_of(handler)) as client:
        assert (await client.send("go")).status.message.text == "Please answer."


@pytest.mark.parametrize(
    ("verb", "state"),
    [("reject", TaskState.REJECTED), ("fail", TaskState.FAILED), ("complete", TaskState.COMPLETED)],
)
async def test_a_handler_may_end_its_task_and_nothing_after_that_runs(verb: str, state: TaskState) -> None:
    after: list[str] = []

    async def handler(turn: Turn) -> None:
        await getattr(turn, verb)(*(["Not me."] if turn.text else []))
        after.append("ran")

    async with bounded(agent_of(handler)) as client:
        task = await client.send("go")
        silent = await client.send("")
    assert (task.status.state, task.status.message.text, after) == (state, "Not me.", [])
    assert silent.status.message is None


async def test_a_step_is_taken_once_however_often_the_handler_begins_again() -> None:
    taken: list[str] = []

    async def fetch(name: str) -> dict[str, str]:
        taken.append(name)
        return {"got": name}

    def compute(base: int, *, plus: int) -> int:
        taken.append("compute")
        return base + plus

    async def handler(turn: Turn) -> Any:
        first = await turn.step("fetch", fetch, "one")
        second = await turn.step("fetch", fetch, "two")
        number = await turn.step("compute", compute, 1, plus=2)
        nothing = await turn.step("nothing", lambda: None)
        await turn.ask("On?")
        return [first, second, number, nothing]

    async with bounded(agent_of(handler)) as client:
        asked = await client.send("go")
        task = await client.send("yes", task=asked)
    assert task.artifacts[0].parts == (DataPart([{"got": "one"}, {"got": "two"}, 3, None]),)
    assert taken == ["one", "two", "compute"]


async def test_nothing_emitted_before_a_question_is_emitted_again() -> None:
    async def handler(turn: Turn) -> Any:
        await turn.status("thinking")
        yield "before "
        notes = turn.artifact("notes")
        await notes.write("1")
        answer = await turn.ask("?")
        await turn.status("thinking again")
        await notes.write("2")
        yield answer.text

    async with bounded(agent_of(handler)) as client:
        asked = await client.send("go")
        task = await client.send("after", task=asked)
        events = [event async for _, event in client.follow(task, after=0)]
    assert [text_of(artifact.parts) for artifact in task.artifacts] == ["before after", "12"]
    slots = [(e.artifact.artifact_id, e.artifact.index) for e in events if isinstance(e, ArtifactUpdate)]
    assert set(slots) == {("response", 0), ("notes", 1)}
    said = [e.status.message.text for e in events if isinstance(e, StatusUpdate) and e.status.message]
    assert said == ["thinking", "?", "thinking again"]


async def test_a_context_remembers_values_and_earlier_tasks() -> None:
    async def handler(turn: Turn) -> Any:
        visits = int(await turn.context.get("visits", 0)) + 1  # pyright: ignore[reportArgumentType]
        await turn.context.set("visits", visits)
        before = [task.id for task in await turn.context.tasks()]
        return {"visits": visits, "before": before}

    async with bounded(agent_of(handler)) as client:
        first = await client.send("go")
        message = client.message("again")
        message = Message(message.message_id, Role.USER, message.parts, first.context_id)
        second = await client.agent.send_message(SendMessageRequest(message))
        other = await client.send("elsewhere")
    assert second.artifacts[0].parts[0].data == {"visits": 2, "before": [first.id]}  # pyright: ignore
    assert other.artifacts[0].parts[0].data == {"visits": 1, "before": []}


async def test_a_context_is_a_memory_and_no_database() -> None:
    """Too many values, one too large, or too much in all is an error of the author's; replacing and forgetting help."""
    errors: list[str] = []

    async def handler(turn: Turn) -> int:
        for name, size in (("ä", 31), ("b", 30), ("c", 31), ("a" * 40, 1), ("d", 1), ("e", 1), ("b", 9), ("e", 1)):
            try:
                await turn.context.set(name, "x" * size)
            except LocalProtocolError as error:
                errors.append(str(error))
        await turn.context.set("d", None)
        await turn.context.set("e", "fits now")
        return len([name for name in ("ä", "b", "c", "d", "e") if await turn.context.get(name)])

    limits = Limits(context_values=3, context_value_bytes=40, context_bytes=90)
    async with bounded(agent_of(handler), limits=limits) as client:
        assert (await client.send("go")).artifacts[0].parts[0].data == 3
    assert errors == [
        "With the value 'c' the context would keep 117 bytes in JSON; 90 are allowed",
        f"The value '{'a' * 40}' for the context takes 48 bytes in JSON; 40 are allowed",
        "A context keeps 3 values at most",
        "A context keeps 3 values at most",
    ]


async def test_a_handler_reads_everything_that_came_with_the_message() -> None:
    seen: dict[str, Any] = {}

    async def handler(turn: Turn) -> None:
        seen.update(
            text=turn.text,
            files=turn.files,
            data=turn.data,
            metadata=turn.metadata,
            caller=turn.caller.name,
            task=turn.task_id,
            png=turn.accepts("image/png"),
            cancelled=turn.cancelled,
        )

    async with bounded(agent_of(handler)) as client:
        parts = client.message("hi", File(b"x", "x.png"), {"a": 1}, metadata={"k": 1})
        request = SendMessageRequest(parts, SendConfiguration(accepted_output_modes=("text/*",)))
        task = await client.agent.send_message(request, client.as_caller(name="ann").caller)
        await client.send("none")
        assert seen["data"] is None
        await client.send({"a": 1}, {"b": 2})
        assert seen["data"] == [{"a": 1}, {"b": 2}]
        await client.agent.send_message(request, client.as_caller(name="bob").caller)
    assert (seen["text"], seen["data"], seen["metadata"], seen["caller"]) == ("hi", {"a": 1}, {"k": 1}, "bob")
    assert [file.name for file in seen["files"]] == ["x.png"]
    assert (seen["png"], seen["cancelled"], task.id != seen["task"]) == (False, False, True)  # pyright: ignore


async def test_a_message_goes_to_the_skill_it_names() -> None:
    agent = Agent("Many", description="Does things.", version="2")

    @agent.skill
    async def upper(turn: Turn) -> str:
        """Shouts."""
        return turn.text.upper()

    @agent.skill(id="rev", name="Reverse", description="Turns round.", tags=["text"], examples=["abc"])
    async def reverse(turn: Turn) -> str:
        return turn.text[::-1]

    async with bounded(agent) as client:
        assert client.text(await client.send("abc", metadata={"skillId": "rev"})) == "cba"
        assert client.text(await client.send("abc", metadata={"skillId": "upper"})) == "ABC"
        for metadata in ({"skillId": "nothing"}, {"skillId": 5}):
            with pytest.raises(InvalidParamsError) as caught:
                await client.send("abc", metadata=metadata)
            assert caught.value.path == "$.message.metadata.skillId"

    card = agent.card()
    assert [(s.id, s.name, s.description, s.tags, s.examples) for s in card.skills] == [
        ("upper", "Upper", "Shouts.", (), ()),
        ("rev", "Reverse", "Turns round.", ("text",), ("abc",)),
    ]
    assert (card.name, card.version, card.capabilities.streaming) == ("Many", "2", True)


async def test_an_agent_without_skills_is_its_own_skill() -> None:
    agent = agent_of(lambda turn: "x", id="me")
    (skill,) = agent.card().skills
    assert (skill.id, skill.name, Agent("!!!").id) == ("me", "Test", "agent")


async def test_asking_from_inside_a_task_group_is_asking() -> None:
    async def handler(turn: Turn) -> str:
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(turn.ask("?"))
        return asking.result().text

    async with bounded(agent_of(handler)) as client:
        asked = await client.send("go")
        assert asked.status.state is TaskState.INPUT_REQUIRED
        assert client.text(await client.send("yes", task=asked)) == "yes"


async def test_an_exception_in_a_task_group_fails_the_task() -> None:
    async def broken() -> None:
        raise ValueError("secret")

    async def handler(turn: Turn) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(broken())

    async with bounded(agent_of(handler)) as client:
        assert (await client.send("go")).status.state is TaskState.FAILED


async def test_plain_handlers_that_wait_for_plain_steps_do_not_starve_each_other() -> None:
    def handler(turn: Turn) -> Any:
        return turn.wait(turn.step("s", lambda: "stepped"))

    async with bounded(agent_of(handler)) as client:
        tasks = await asyncio.gather(*(client.send(str(n)) for n in range(40)))
    assert {client.text(task) for task in tasks} == {"stepped"}


async def test_an_error_in_a_step_is_the_steps_own(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> None:
        raise TypeError("my own mistake")

    async def handler(turn: Turn) -> None:
        await turn.step("s", broken)

    async with bounded(agent_of(handler)) as client:
        await client.send("go")
    assert "my own mistake" in caplog.text
    assert "is not JSON" not in caplog.text


async def test_a_generator_in_a_thread_cleans_up_when_its_task_is_canceled() -> None:
    log: list[str] = []

    def handler(turn: Turn) -> Any:
        try:
            while True:
                yield "x"
                turn.wait(asyncio.sleep(0))
        finally:
            log.append("closed")

    async with bounded(agent_of(handler)) as client:
        task = await client.start("go")
        while not client.text(await client.get(task)):
            await asyncio.sleep(0)
        await client.cancel(task)
        while not log:  # a generator that is at work in its thread is closed when it comes back from there
            await asyncio.sleep(0)
    assert log == ["closed"]


async def test_any_callable_may_be_a_handler() -> None:
    class Unhashable:
        __hash__ = None  # pyright: ignore

        def __call__(self, turn: Turn) -> str:
            return "called"

    async with bounded(agent_of(Unhashable())) as client:
        assert client.text(await client.send("go")) == "called"


@pytest.mark.parametrize("way", ["name", "description", "artifact metadata", "status metadata"])
async def test_a_name_or_metadata_that_json_cannot_carry_is_an_error_of_the_handler(
    way: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(turn: Turn) -> None:
        match way:
            case "name":
                turn.artifact("\ud800")
            case "description":
                turn.artifact("a", description="\ud800")
            case "artifact metadata":
                turn.artifact("a", metadata={"x": "\ud800"})
            case _:
                await turn.status("x", metadata={"x": object()})  # pyright: ignore[reportArgumentType]

    async with bounded(agent_of(handler)) as client:
        assert (await client.send("go")).status.state is TaskState.FAILED
    assert "This cannot be converted to JSON" in caplog.text


@pytest.mark.parametrize("ending", ["completed", "failed"])
async def test_metadata_that_a_handler_adds_is_the_task_s_when_it_ends(ending: str) -> None:
    async def handler(turn: Turn) -> str:
        turn.annotate({"usage": {"tokens": 7}, "model": "first"})
        await turn.ask("Go on?")
        turn.annotate({"model": "second"})
        if ending == "failed":
            await turn.fail("No.")
        return "done"

    async with bounded(agent_of(handler)) as client:
        asked = await client.send("go")
        assert asked.metadata == {}
        task = await client.send("yes", task=asked)
    assert task.status.state == ending
    assert task.metadata == {"usage": {"tokens": 7}, "model": "second"}


async def test_a_handler_may_end_its_task_in_any_final_state(caplog: pytest.LogCaptureFixture) -> None:
    async def handler(turn: Turn) -> None:
        await turn.end(TaskState(turn.text), "So be it.")

    async with bounded(agent_of(handler)) as client:
        for state in (TaskState.CANCELED, TaskState.REJECTED, TaskState.COMPLETED):
            task = await client.send(state.value)
            assert task.status.state is state
            assert task.status.message is not None
            assert task.status.message.text == "So be it."
        assert (await client.send("working")).status.state is TaskState.FAILED
    assert "A task cannot end as working" in caplog.text
