"""How the runs of an adapter become tasks, with an adapter that follows a script. `framework_tests` has real ones."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from typing import Any

import pytest
from msgspec import structs

from parley import Agent, File
from parley.adapters.adapter import (
    Checkpoint,
    Description,
    End,
    Output,
    Pause,
    Piece,
    Progress,
    Question,
    Start,
    approval,
    call_text,
    is_approved,
    skill,
    texts_of,
    tool_call,
)
from parley.adapters.durable_run import agent_of
from parley.engine.limits import Limits
from parley.protocol.events import StatusUpdate, StepRecorded
from parley.protocol.jsonvalue import JsonValue
from parley.protocol.messages import DataPart, RawPart, TextPart
from parley.protocol.requests import SendConfiguration, SendMessageRequest
from parley.protocol.tasks import Task, TaskState
from parley.stores.interface import CONVERSATION, ContextKey, TaskKey
from parley.stores.memory import MemoryStore
from parley.testing import AgentClient, survives_crashes
from tests.bounded import bounded

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_store")]


class ScriptedAdapter:
    """An adapter whose run is a function."""

    def __init__(self, script: Callable[[Start], AsyncIterator[Piece]]) -> None:
        self._script = script
        self.starts: list[tuple[tuple[JsonValue, ...], dict[str, JsonValue]]] = []

    def describe(self) -> Description:
        return Description(name="Scripted", description="Follows a script.", skills=[skill("look_up", "Looks up.")])

    async def run(self, start: Start) -> AsyncIterator[Piece]:
        self.starts.append((start.states, start.answers))
        async for piece in self._script(start):
            yield piece


async def in_the_same_conversation(client: AgentClient, text: str, task: Task) -> Task:
    message = structs.replace(client.message(text), context_id=task.context_id)
    answer = await client.agent.send_message(SendMessageRequest(message), client.caller)
    assert isinstance(answer, Task)
    return answer


async def two_calls(start: Start) -> AsyncIterator[Piece]:
    """A model that calls a tool between two texts."""
    if not start.states:
        yield "Let me "
        yield "look."
        yield tool_call("look_up", {"word": "rome"})
        yield Checkpoint({"found": 7})
    yield f"There are {start.states[0]['found'] if start.states else 7} hills"  # type: ignore[index,call-overload]
    yield "."
    yield End(usage={"outputTokens": 12})


async def test_text_is_streamed_and_what_a_model_says_after_a_tool_call_stands_apart() -> None:
    async with bounded(agent_of(ScriptedAdapter(two_calls))) as client:
        events = [event async for event in client.stream("Rome?")]
        task = await client.get(events[0].id)
    assert client.text(task) == "Let me look.\n\nThere are 7 hills."
    assert task.metadata == {"usage": {"outputTokens": 12}}
    shown = [event.status.message for event in events if isinstance(event, StatusUpdate)]
    assert [message.text for message in shown if message] == ["Calling look_up(word='rome')"]


async def test_a_run_goes_on_after_its_last_checkpoint() -> None:
    adapter = ScriptedAdapter(two_calls)
    async with bounded(agent_of(adapter)) as client:
        task = await client.start("Rome?")
        await client.crash_when(lambda event: isinstance(event, StepRecorded) and event.name == "run 1")
        await client.restart()
        task = await client.finished(task)
    assert client.text(task) == "Let me look.\n\nThere are 7 hills."
    assert adapter.starts == [((), {}), (({"found": 7},), {})]


async def test_crashes_change_nothing() -> None:
    await survives_crashes(agent_of(ScriptedAdapter(two_calls)), "Rome?")
    await survives_crashes(agent_of(ScriptedAdapter(ask_twice)), "Go", answers=["yes", "Rome", "EUR"])


async def ask_twice(start: Start) -> AsyncIterator[Piece]:
    match start.states, start.answers:
        case (), _:
            yield "First. "
            yield Pause((approval("a", "deploy"), Question("b", "Where?")), "asked once")
        case ("asked once",), {"a": {"approved": True}, "b": str(place)}:
            yield f"In {place}. "
            yield Pause((Question("c", "Which currency?", needs_auth=True),), {"place": place})
        case ("asked once", {"place": place}), {"c": currency}:
            yield f"{place} in {currency}."
            yield End({"places": [place]})
        case _:
            raise AssertionError(start)


async def test_questions_are_asked_one_by_one_and_answered_together() -> None:
    adapter = ScriptedAdapter(ask_twice)
    async with bounded(agent_of(adapter)) as client:
        task = await client.send("Go")
        assert task.status.message is not None
        assert task.status.message.text == "May I do this: deploy? Answer yes or no."
        await client.crash()
        await client.restart()
        task = await client.send("yes", task=task)
        task = await client.send("Rome", task=task)
        assert task.status.state is TaskState.AUTH_REQUIRED
        task = await client.send({"currency": "EUR"}, task=task)
    assert client.text(task) == "First. \n\nIn Rome. \n\nRome in {'currency': 'EUR'}."
    assert [answers for _, answers in adapter.starts] == [
        {},
        {"a": {"approved": True}, "b": "Rome"},
        {"c": {"currency": "EUR"}},
    ]


async def test_output_goes_into_the_response_or_an_artifact_of_its_own() -> None:
    async def draw(start: Start) -> AsyncIterator[Piece]:
        yield Output((DataPart({"size": 3}),))
        yield Output((RawPart(b"PNG", "image/png"),), artifact="picture.png")
        yield Progress("Done", {"pixels": 9})
        yield End()

    async with bounded(agent_of(ScriptedAdapter(draw))) as client:
        task = await client.send("Draw")
    found = {artifact.artifact_id: artifact.parts for artifact in task.artifacts}
    assert found == {"response": (DataPart({"size": 3}),), "picture.png": (RawPart(b"PNG", "image/png"),)}
    assert task.metadata == {"pixels": 9}


@pytest.mark.parametrize("state", [TaskState.FAILED, TaskState.REJECTED, TaskState.CANCELED, TaskState.COMPLETED])
async def test_a_framework_may_end_the_task_itself(state: TaskState) -> None:
    async def end(start: Start) -> AsyncIterator[Piece]:
        yield End(state=state, message=(TextPart("So be it."),))

    async with bounded(agent_of(ScriptedAdapter(end))) as client:
        task = await client.send("Go")
    assert task.status.state is state
    assert task.status.message is not None
    assert task.status.message.text == "So be it."


async def test_a_run_that_does_not_say_how_it_ends_fails_the_task() -> None:
    async def stop(start: Start) -> AsyncIterator[Piece]:
        yield "Hm"

    async with bounded(agent_of(ScriptedAdapter(stop))) as client:
        task = await client.send("Go")
    assert task.status.state is TaskState.FAILED


async def test_what_a_crashed_run_said_is_taken_back_when_the_next_one_says_less_and_asks() -> None:
    for ending in (Pause((Question("a", "Which one?"),)), End(state=TaskState.REJECTED)):
        texts = iter(["I will delete everything.", "I will"])

        async def say_less(
            start: Start, ending: Pause | End = ending, texts: Iterator[str] = texts
        ) -> AsyncIterator[Piece]:
            text = next(texts)
            for word in text.split(" "):
                yield f"{word} "
            if "everything" in text:
                await asyncio.Event().wait()
            yield ending

        async with bounded(agent_of(ScriptedAdapter(say_less))) as client:
            task = await client.start("Go")
            await client.crash_when(lambda event: "everything" in repr(event))
            await client.restart()
            task = await client.finished(task)
        assert client.text(task).split() == ["I", "will"]


async def test_empty_texts_are_not_said() -> None:
    async def say_little(start: Start) -> AsyncIterator[Piece]:
        yield "a"
        yield Checkpoint()
        yield ""
        yield Checkpoint()
        yield "b"
        yield End()

    async with bounded(agent_of(ScriptedAdapter(say_little))) as client:
        assert client.text(await client.send("Go")) == "a\n\nb"


async def test_an_answer_may_be_data_or_bring_files() -> None:
    async def ask(start: Start) -> AsyncIterator[Piece]:
        if not start.states:
            yield Pause((Question("a", "Well?"),), 1)
        else:
            yield Output((DataPart(start.answers["a"]),))
            yield End()

    said: list[JsonValue] = []
    async with bounded(agent_of(ScriptedAdapter(ask))) as client:
        for answer in [("text",), ("text", {"n": 1}), ("text", File(b"x", "a.txt", "text/plain"))]:
            task = await client.send(*answer, task=await client.send("Go"))
            said += [part.data for part in task.artifacts[0].parts if isinstance(part, DataPart)]
    file = {"name": "a.txt", "mediaType": "text/plain", "bytes": "eA=="}
    assert said == ["text", {"n": 1}, {"text": "text", "data": None, "files": [file]}]


async def test_a_cancelled_run_is_closed() -> None:
    began, closed = asyncio.Event(), asyncio.Event()

    async def hang(start: Start) -> AsyncIterator[Piece]:
        try:
            yield "a"
            began.set()
            await asyncio.Event().wait()
        finally:
            closed.set()

    async with bounded(agent_of(ScriptedAdapter(hang))) as client:
        task = await client.start("Go")
        await began.wait()
        task = await client.cancel(task)
        assert closed.is_set()
    assert task.status.state is TaskState.CANCELED


# --- conversations ----------------------------------------------------------------------------------------------------


async def remember(start: Start) -> AsyncIterator[Piece]:
    said: Any = [*(start.conversation or []), *texts_of(start.turn)]  # type: ignore[misc]
    yield ", ".join(said)
    yield End(said)


async def names_kept(client: AgentClient, task: Task) -> list[str]:
    key = ContextKey(client.caller.owner, client.program.id, task.context_id or "")
    return [name.split(" ")[1] for name in await client.store.contexts.conversations(key)]


async def test_a_conversation_is_what_its_last_run_ended_with() -> None:
    async with bounded(agent_of(ScriptedAdapter(remember))) as client:
        first = await client.send("one")
        assert await names_kept(client, first) == ["saved"]
        second = await in_the_same_conversation(client, "two", first)
        await client.crash()
        await client.restart()
        third = await in_the_same_conversation(client, "three", second)
        other = await client.send("uno", {"n": 1})
        # What the third task began with is kept until the next one ends, in case that it begins again.
        assert await names_kept(client, first) == ["held", "saved", "saved"]
    said = [client.text(task) for task in (first, second, third, other)]
    assert said == ["one", "one, two", "one, two, three", 'uno, {"n":1}']


async def test_a_task_that_waits_goes_on_with_the_conversation_it_began_with() -> None:
    """Whatever was saved meanwhile; and the task that ends last is remembered."""

    async def remember_or_ask(start: Start) -> AsyncIterator[Piece]:
        if start.turn.text == "wait" and not start.states:
            yield Pause((Question("a", "Well?"),), "asked")
        else:
            async for piece in remember(start):
                yield piece

    async with bounded(agent_of(ScriptedAdapter(remember_or_ask))) as client:
        first = await client.send("one")
        waiting = await in_the_same_conversation(client, "wait", first)
        for word in ("two", "three", "four"):
            last = await in_the_same_conversation(client, word, first)
        await client.crash()
        await client.restart()
        waiting = await client.send("go on", task=waiting)
        after = await in_the_same_conversation(client, "after", first)
        await in_the_same_conversation(client, "the end", first)
        kept = await names_kept(client, first)
    assert client.text(last) == "one, two, three, four"
    assert client.text(waiting) == "one, wait"
    assert client.text(after) == "one, wait, after"
    assert kept == ["held", "saved", "saved"]


async def test_a_task_that_was_canceled_holds_nothing() -> None:
    async def remember_or_ask(start: Start) -> AsyncIterator[Piece]:
        if start.turn.text == "wait":
            yield Pause((Question("a", "Well?"),), "asked")
        async for piece in remember(start):
            yield piece

    async with bounded(agent_of(ScriptedAdapter(remember_or_ask))) as client:
        first = await client.send("one")
        await client.cancel(await in_the_same_conversation(client, "wait", first))
        for word in ("two", "three"):
            await in_the_same_conversation(client, word, first)
        assert await names_kept(client, first) == ["held", "saved", "saved"]


async def test_a_run_that_begins_again_after_it_has_saved_does_no_harm() -> None:
    async with bounded(agent_of(ScriptedAdapter(remember))) as client:
        first = await client.send("one")
        message = structs.replace(client.message("two"), context_id=first.context_id)
        request = SendMessageRequest(message, SendConfiguration(return_immediately=True))
        begun = await client.agent.send_message(request, client.caller)
        await client.crash_at(lambda write: "after" if isinstance(write, str) and "saved" in write else None)
        await client.restart()
        assert isinstance(begun, Task)
        second = await client.finished(begun)
        third = await in_the_same_conversation(client, "three", first)
    assert client.text(second) == "one, two"
    assert client.text(third) == "one, two, three"


async def test_a_conversation_that_is_too_large_ends_with_its_result(caplog: pytest.LogCaptureFixture) -> None:
    async def grow(start: Start) -> AsyncIterator[Piece]:
        yield "Done"
        yield End("x" * 2_000)

    async with bounded(agent_of(ScriptedAdapter(grow)), limits=Limits(conversation_bytes=1_000)) as client:
        first = await client.send("Go")
        second = await in_the_same_conversation(client, "Go on", first)
    assert (first.status.state, client.text(first)) == (TaskState.COMPLETED, "Done")
    assert "The conversation takes 2,002 bytes in JSON; 1,000 are allowed" in caplog.text
    assert second.status.state is TaskState.REJECTED
    assert second.status.message is not None
    assert "too large" in second.status.message.text


async def test_values_of_the_author_and_conversations_do_not_see_each_other() -> None:
    seen: list[object] = []

    async def look(start: Start) -> AsyncIterator[Piece]:
        context = start.turn.context
        await context.set("mine", len(seen))
        seen.append(await context.get("mine"))
        yield End("kept")

    async with bounded(agent_of(ScriptedAdapter(look)), limits=Limits(context_values=1)) as client:
        task = await client.send("Go")
        task = await in_the_same_conversation(client, "Go", task)
    assert task.status.state is TaskState.COMPLETED
    assert seen == [0, 1]


async def test_a_value_that_is_deleted_before_it_is_held_is_not_the_one_that_is_loaded() -> None:
    """A task that ends deletes the newest value between another one's reading of the names and its mark."""
    store = MemoryStore()
    put, saved = store.contexts.put, []

    async def put_and_end_another(context: ContextKey, name: str, value: JsonValue, *, at: datetime) -> None:
        if "held" in name and isinstance(value, str) and not saved:
            saved.append(await put(context, f"{CONVERSATION}saved 0000000009 other", '["other"]', at=at))
            await store.contexts.delete_unmarked(context, value, marks=f"{CONVERSATION}held ")
        await put(context, name, value, at=at)

    store.contexts.put = put_and_end_another  # type: ignore[method-assign]
    async with bounded(agent_of(ScriptedAdapter(remember)), store=store) as client:
        first = await client.send("one")
        second = await in_the_same_conversation(client, "two", first)
    assert saved
    assert client.text(second) == "other, two"


async def test_many_failed_tasks_leave_few_marks() -> None:
    async def remember_or_fail(start: Start) -> AsyncIterator[Piece]:
        if start.turn.text == "fail":
            raise RuntimeError
        async for piece in remember(start):
            yield piece

    async with bounded(agent_of(ScriptedAdapter(remember_or_fail))) as client:
        first = await client.send("one")
        for _ in range(10):
            await in_the_same_conversation(client, "fail", first)
            assert (await names_kept(client, first)).count("held") == 1


async def test_the_conversation_is_not_in_the_log_of_the_task() -> None:
    async def grow(start: Start) -> AsyncIterator[Piece]:
        yield End("secret " * 1_000)

    async with bounded(agent_of(ScriptedAdapter(grow))) as client:
        task = await client.send("Go")
        events = await client.store.tasks.events(TaskKey(client.caller.owner, task.id), after=0, limit=100)
    assert "secret" not in repr(events)


# --- descriptions -----------------------------------------------------------------------------------------------------


def test_the_card_is_the_adapter_s_unless_settings_say_otherwise() -> None:
    card = agent_of(ScriptedAdapter(remember)).card()
    assert (card.name, card.description) == ("Scripted", "Follows a script.")
    assert [(one.id, one.name, one.description) for one in card.skills] == [("look_up", "Look up", "Looks up.")]
    renamed = agent_of(ScriptedAdapter(remember), name="Other", description="Else.", version="2.0.0").card()
    assert (renamed.name, renamed.description, renamed.version) == ("Other", "Else.", "2.0.0")


async def test_a_message_may_name_a_skill() -> None:
    async with bounded(agent_of(ScriptedAdapter(remember))) as client:
        task = await client.send("one", metadata={"skillId": "look_up"})
    assert client.text(task) == "one"


def test_calls_are_shown_with_short_arguments() -> None:
    assert call_text("f", {"a": 1, "b": "x"}) == "f(a=1, b='x')"
    assert call_text("f", None) == "f()"
    assert call_text("f", "raw") == "f(raw)"
    assert len(call_text("f", {"a": "x" * 1_000})) < 250


@pytest.mark.parametrize("answer", [None, "yes", {"approved": False}, {"approved": "true"}, {}])
def test_only_a_clear_yes_is_an_approval(answer: JsonValue) -> None:
    assert not is_approved(answer)
    assert is_approved({"approved": True})


def test_an_agent_of_parley_is_returned_as_it_is() -> None:
    agent = Agent("Echo")
    assert Agent.of(agent) is agent
