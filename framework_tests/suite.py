"""What every adapter must do, tried with the real framework and a model with a script.

A framework's tests subclass `AdapterSuite` and name their samples: a module with these objects of the framework.

| sample | what it does |
| --- | --- |
| `speaker` | says `Hello, world.` in several pieces |
| `asker` | asks something by the framework's own means; the answer `ANSWER` makes it end with the text `ANSWERED` |
| `hanger` | calls a tool (or a node) that sets `STARTED`, waits for ever, and sets `STOPPED` when it is stopped |
| `reader` | says the text that is in the file of the message, somewhere in its own text |
| `structured` | its output is `{"city": "Rome", "days": 3}` |
| `failer` | raises an error with the text `secret of the framework` |
| `rememberer` | says all that the user has said in the conversation, joined by `, ` |
| `caller(url)` | has a remote agent as a tool by `remote_tool`, passes the message on to it and says what it answered |
| `worker` | calls the tool `charge`, which appends to `EFFECTS`, and then says `All done.` in several pieces |

`STARTED` and `STOPPED` are `threading.Event`s. `CARD` is the name, the description and the ids of the skills that the
card of `worker` shows.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event
from types import ModuleType
from typing import ClassVar, Protocol

import pytest
from msgspec import structs
from tests.cli.served import served

from parley import Agent, Client, File
from parley.cli.serving.agent_loading import load_agent
from parley.protocol.events import ArtifactUpdate, StatusUpdate, TaskEvent
from parley.protocol.messages import DataPart, text_of
from parley.protocol.requests import SendMessageRequest
from parley.protocol.tasks import Task, TaskState
from parley.testing import AgentClient, running, survives_crashes

ROOT = Path(__file__).parent.parent


class Samples(Protocol):
    """The module of a framework's samples."""

    __file__: str
    speaker: object
    asker: object
    hanger: object
    reader: object
    structured: object
    failer: object
    rememberer: object
    worker: object
    caller: Callable[[str], object]
    ANSWER: str
    ANSWERED: str
    STARTED: Event
    STOPPED: Event
    EFFECTS: list[str]
    CARD: tuple[str, str, Sequence[str]]


async def say(client: AgentClient, text: str, *, after: Task | None = None) -> Task:
    """Send a message in a new conversation, or in that of an earlier task."""
    message = structs.replace(client.message(text), context_id=after.context_id if after else None)
    task = await client.agent.send_message(SendMessageRequest(message), client.caller)
    assert isinstance(task, Task)
    return task


@pytest.mark.anyio
class AdapterSuite:
    """The shared set."""

    samples: ClassVar[Samples]

    @pytest.fixture(autouse=True)
    def _forget(self) -> None:
        self.samples.EFFECTS.clear()
        self.samples.STARTED.clear()
        self.samples.STOPPED.clear()

    # --- output -------------------------------------------------------------------------------------------------------

    async def test_the_stream_says_the_final_text_once(self) -> None:
        async with running(Agent.of(self.samples.speaker)) as client:
            events = [event async for event in client.stream("Hi")]
            chunks = [text_of(event.artifact.parts) for event in events if isinstance(event, ArtifactUpdate)]
            task = await client.get(events[0].id)
        assert [chunk for chunk in chunks if chunk] != ["Hello, world."], "it came in one piece"
        assert "".join(chunks) == "Hello, world."
        assert client.text(task) == "Hello, world."
        assert task.status.state is TaskState.COMPLETED

    async def test_structured_output_is_data(self) -> None:
        async with running(Agent.of(self.samples.structured)) as client:
            task = await client.send("A trip to Rome")
        parts = [part for artifact in task.artifacts for part in artifact.parts]
        assert [part.data for part in parts if isinstance(part, DataPart)] == [{"city": "Rome", "days": 3}]
        assert client.text(task) == ""

    async def test_a_tool_call_is_progress(self) -> None:
        async with running(Agent.of(self.samples.worker)) as client:
            events = [event async for event in client.stream("Go")]
        shown = [
            event.status.message.text for event in events if isinstance(event, StatusUpdate) and event.status.message
        ]
        assert [text for text in shown if "charge" in text], shown

    async def test_the_usage_is_in_the_metadata_of_the_task(self) -> None:
        async with running(Agent.of(self.samples.worker)) as client:
            task = await client.send("Go")
        usage = task.metadata["usage"]
        assert isinstance(usage, dict)
        assert usage["outputTokens"] > 0, usage
        assert usage["inputTokens"] > 0, usage

    async def test_an_error_of_the_framework_fails_the_task_and_stays_in_the_log(self) -> None:
        async with running(Agent.of(self.samples.failer)) as client:
            task = await client.send("Go")
        assert task.status.state is TaskState.FAILED
        assert "secret" not in repr(task)

    def test_the_card_describes_the_framework_s_agent(self) -> None:
        card = Agent.of(self.samples.worker).card()
        assert (card.name, card.description, [skill.id for skill in card.skills]) == self.samples.CARD

    # --- input --------------------------------------------------------------------------------------------------------

    async def test_a_file_reaches_the_framework(self) -> None:
        async with running(Agent.of(self.samples.reader)) as client:
            task = await client.send("What is in it?", File(b"seven dwarfs", "note.txt", "text/plain"))
        assert "seven dwarfs" in client.text(task)

    async def test_the_conversation_is_remembered(self) -> None:
        async with running(Agent.of(self.samples.rememberer)) as client:
            first = await say(client, "one")
            second = await say(client, "two", after=first)
            third = await say(client, "three", after=second)
        assert [client.text(task) for task in (first, second, third)] == ["one", "one, two", "one, two, three"]

    async def test_two_conversations_do_not_mix(self) -> None:
        async with running(Agent.of(self.samples.rememberer)) as client:
            first, other = await asyncio.gather(say(client, "one"), say(client, "uno"))
            second, another = await asyncio.gather(say(client, "two", after=first), say(client, "due", after=other))
        assert [client.text(task) for task in (second, another)] == ["one, two", "uno, due"]

    async def test_a_stranger_with_the_same_context_id_is_told_nothing(self) -> None:
        async with running(Agent.of(self.samples.rememberer)) as client:
            mine = await say(client, "one")
            theirs = await say(client.as_caller(name="mallory"), "uno", after=mine)
        assert client.text(theirs) == "uno"

    # --- cancelling ---------------------------------------------------------------------------------------------------

    async def test_a_cancel_reaches_the_framework(self) -> None:
        async with running(Agent.of(self.samples.hanger)) as client:
            task = await client.start("Go")
            assert await asyncio.to_thread(self.samples.STARTED.wait, 30)
            task = await client.cancel(task)
            assert task.status.state is TaskState.CANCELED
            assert await asyncio.to_thread(self.samples.STOPPED.wait, 30)

    # --- crashes ------------------------------------------------------------------------------------------------------

    async def test_a_question_survives_sigkill(self, tmp_path: Path) -> None:
        target, store = f"{self.samples.__file__}:asker", f"sqlite:///{tmp_path}/parley.db"
        with served(target, "--port", "0", "--store", store, cwd=tmp_path) as server:
            async with Client(server.until_ready()) as client:
                asked = await client.send("Go")
                assert asked.question, asked
                assert asked.task is not None
                server.process.kill()
                server.process.wait()
        with served(target, "--port", "0", "--store", store, cwd=tmp_path) as server:
            async with Client(server.until_ready()) as client:
                reply = await client.send(self.samples.ANSWER, task=asked.task.id)
        assert (reply.text, reply.reason) == (self.samples.ANSWERED, "")

    async def test_finished_work_is_not_repeated_after_a_crash_in_the_middle_of_a_run(self) -> None:
        async with running(Agent.of(self.samples.worker)) as client:
            task = await client.start("Go")

            def says_something(event: TaskEvent) -> bool:
                return isinstance(event, ArtifactUpdate) and text_of(event.artifact.parts).strip() != ""

            await client.crash_when(says_something)
            assert self.samples.EFFECTS == ["charged"]
            await client.restart()
            task = await client.finished(task)
        assert task.status.state is TaskState.COMPLETED
        assert client.text(task).endswith("All done.")
        assert self.samples.EFFECTS == ["charged"], "the tool was called again"

    async def test_a_crash_at_any_point_changes_nothing_that_readers_hold(self) -> None:
        await survives_crashes(Agent.of(self.samples.worker), "Go")
        await survives_crashes(Agent.of(self.samples.asker), "Go", answers=[self.samples.ANSWER])

    # --- the other direction ------------------------------------------------------------------------------------------

    async def test_a_remote_agent_is_a_tool(self, tmp_path: Path) -> None:
        with served(
            str(ROOT / "framework_tests" / "echo.py"), "--port", "0", "--store", "memory:", cwd=tmp_path
        ) as server:
            thing = await asyncio.to_thread(self.samples.caller, server.until_ready())
            async with running(Agent.of(thing)) as client:
                task = await client.send("hello")
        assert "You said: hello" in client.text(task)

    # --- one line -----------------------------------------------------------------------------------------------------

    def test_the_command_serves_the_object_itself(self) -> None:
        agent = load_agent(f"{self.samples.__file__}:speaker")
        assert isinstance(agent, Agent)
        assert agent.name

    def test_the_page_shows_all_that_a_user_writes(self) -> None:
        """The first Python on the framework's page: at most three lines, with the object imported from `app`."""
        page = f"{Path(self.samples.__file__).parent.name.replace('_', '-')}.md"
        shown = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "adapters" / page).read_text(), re.DOTALL)[0]
        assert len([line for line in shown.splitlines() if line.strip()]) <= 3, shown
        (name,) = re.findall(r"from app import (\w+)", shown)
        app = ModuleType("app")
        setattr(app, name, self.samples.speaker)
        written: dict[str, object] = {}
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "app", app)
            exec(shown, written)
        assert [value for value in written.values() if isinstance(value, Agent)], written
