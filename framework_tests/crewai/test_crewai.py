"""The adapter of CrewAI: crews, flows and single agents."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from queue import Empty, Queue
from threading import Event
from typing import Any

import pytest
from crewai import Agent as CrewAgent
from crewai import Crew, Process, Task
from crewai.flow.flow import Flow, listen, start
from crewai.flow.human_feedback import human_feedback
from crewai.flow.persistence import persist
from crewai.tools import tool
from pydantic import BaseModel

from framework_tests.crewai import agent_samples, crew_samples, flow_samples
from framework_tests.crewai.agent_samples import Messages, Said, agent, charge, drafter
from framework_tests.crewai.crew_samples import crew, two_tasks
from framework_tests.crewai.scripted import ScriptedLLM, prompt, results
from framework_tests.suite import AdapterSuite, say
from parley import Agent, File
from parley.adapters.crewai import adapt, send_file
from parley.protocol.errors import LocalProtocolError
from parley.protocol.events import ArtifactUpdate, TaskEvent
from parley.protocol.messages import DataPart, RawPart, text_of
from parley.protocol.tasks import Task as A2ATask
from parley.protocol.tasks import TaskState
from parley.testing import running, survives_crashes


class TestAgent(AdapterSuite):
    samples = agent_samples


class TestCrew(AdapterSuite):
    samples = crew_samples


class TestFlow(AdapterSuite):
    samples = flow_samples


pytestmark = pytest.mark.anyio


def is_text(text: str) -> Callable[[TaskEvent], bool]:
    """Whether an event says this."""
    return lambda event: isinstance(event, ArtifactUpdate) and text in text_of(event.artifact.parts)


def statuses(task: A2ATask) -> list[str]:
    return [message.text for message in task.history]


def question(task: A2ATask) -> str:
    assert task.status.state is TaskState.INPUT_REQUIRED, task.status
    assert task.status.message is not None
    return task.status.message.text


# --- crews ------------------------------------------------------------------------------------------------------------


async def test_a_finished_task_of_a_crew_is_not_repeated_and_its_result_is_the_context_of_the_next() -> None:
    found: list[str] = []

    def find(messages: Messages) -> Said:
        found.append("found")
        yield "Cats purr."

    def write(messages: Messages) -> Said:
        yield from ("It is said: ", "Cats purr." if "Cats purr." in prompt(messages) else "nothing")

    press = two_tasks(ScriptedLLM(find), ScriptedLLM(write))
    async with running(Agent.of(press)) as client:
        task = await client.start("cats")
        await client.crash_when(is_text("It is said"))
        await client.restart()
        task = await client.finished(task)
    assert (client.text(task), found) == ("It is said: Cats purr.", ["found"])
    assert "find is done" in statuses(task)
    await survives_crashes(Agent.of(press), "cats")


async def test_a_draft_is_revised_until_the_caller_accepts_it() -> None:
    reviewed = Task(description="Answer: {message}", expected_output="An answer.", agent=drafter, human_input=True)
    thing = Agent.of(Crew(agents=[drafter], tasks=[reviewed]))
    async with running(thing) as client:
        task = await client.send("Hi")
        assert question(task).startswith("hello\n\nAnswer ok")
        task = await client.send("Say it louder", task=task)
        assert question(task).startswith("HELLO\n\nAnswer ok")
        task = await client.send("Ok!", task=task)
    assert (task.status.state, client.text(task)) == (TaskState.COMPLETED, "HELLO")
    await survives_crashes(thing, "Hi", answers=["Say it louder", "ok"])


async def test_the_text_of_a_message_fills_the_only_variable_and_data_fills_them_by_name() -> None:
    def repeat(messages: Messages) -> Said:
        yield prompt(messages).partition("Say ")[2].partition("\n")[0]

    async with running(Agent.of(crew(agent(repeat), "Say {word}"))) as client:
        assert client.text(await client.send("hello")) == "hello"
        assert client.text(await client.send({"word": "bye"})) == "bye"


async def test_variables_that_a_message_does_not_fill_are_asked_for_with_a_form() -> None:
    def repeat(messages: Messages) -> Said:
        yield prompt(messages).partition("Say ")[2].partition("\n")[0]

    async with running(Agent.of(crew(agent(repeat), "Say {word} to {name}"))) as client:
        task = await client.send("hello")
        assert question(task).startswith("I need name, word for this: hello")
        task = await client.send({"name": "Ada", "word": "hi"}, task=task)
        assert client.text(task) == "hi to Ada"
    async with running(adapt(crew(agent(repeat), "Say {word} to {name}"), input="word")) as client:
        task = await client.send("hello", {"name": "Bob"})
        assert client.text(task) == "hello to Bob"


async def test_a_crew_without_variables_is_told_the_message_and_the_past_in_its_first_task() -> None:
    def repeat(messages: Messages) -> Said:
        yield prompt(messages).partition("Do it")[2].partition("\n\nThis is")[0].replace("\n", "|")

    async with running(Agent.of(crew(agent(repeat), "Do it"))) as client:
        first = await say(client, "one")
        second = await say(client, "two", after=first)
    assert client.text(first).startswith("||The message: one")
    assert "|The message: two||Earlier in this conversation:|user: one|assistant: " in client.text(second)


async def test_the_output_file_of_a_task_and_the_files_of_tools_are_artifacts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where CrewAI writes the file

    @tool
    def paint() -> str:
        """Paints."""
        send_file(b"picture", "picture.png", "image/png")
        return "painted"

    def use_it(messages: Messages) -> Said:
        yield "A report." if results(messages) else {"tool": "paint"}

    def files(task: Any) -> list[tuple[str, bytes]]:
        parts = [(artifact.name, part) for artifact in task.artifacts for part in artifact.parts]
        return [(name, part.raw) for name, part in parts if isinstance(part, RawPart)]

    thing = crew(agent(use_it, paint), "Paint {message}", output_file="{message}.md")
    async with running(Agent.of(thing)) as client:
        task = await client.send("report")
    assert files(task) == [("picture.png", b"picture"), ("report.md", b"A report.")]


async def test_a_model_that_writes_what_to_call_is_heard_from_its_final_answer_on() -> None:
    effects: list[str] = []

    @tool
    def count(word: str) -> str:
        """Counts letters."""
        effects.append(word)
        return str(len(word))

    def think(messages: Messages) -> Said:
        if "Observation: 5" in prompt(messages):
            yield from ("I know it now.\nFinal", " Answer: It is", " five.\n")
        else:
            yield 'I count.\nAction: count\nAction Input: {"word": "hello"}'

    model = ScriptedLLM(think, calls_tools=False)
    thinker = CrewAgent(role="Counter", goal="Counts.", backstory="You count.", llm=model, tools=[count])
    async with running(Agent.of(crew(thinker))) as client:
        task = await client.start("How long is hello?")
        await client.crash_when(is_text("It is"))
        await client.restart()
        task = await client.finished(task)
    assert (client.text(task), effects) == ("It is five.", ["hello"])


async def test_tasks_that_run_side_by_side_are_recorded_one_by_one() -> None:
    agents = [agent(lambda messages: iter(["fact"]), role=f"Finder {number}") for number in range(2)]
    writer = agent(lambda messages: iter(["facts: ", str(prompt(messages).count("fact"))]), role="Writer")
    find = [
        Task(description=f"Find {number}", expected_output="x", agent=agents[number], async_execution=True)
        for number in range(2)
    ]
    write = Task(description="Write {message}", expected_output="Text.", agent=writer, context=find)
    await survives_crashes(Agent.of(Crew(agents=[*agents, writer], tasks=[*find, write])), "Go")


async def test_an_output_in_json_is_data() -> None:
    async with running(Agent.of(crew(agent(agent_samples.plan), output_json=agent_samples.Trip))) as client:
        task = await client.send("A trip to Rome")
    [part] = [part for artifact in task.artifacts for part in artifact.parts]
    assert part == DataPart({"city": "Rome", "days": 3})


async def test_a_manager_that_delegates_repeats_nothing_after_a_crash() -> None:
    def manage(messages: Messages) -> Said:
        if results(messages):
            yield from ("The worker says: ", results(messages)[-1])
        else:
            yield {"tool": "delegate_work_to_coworker", "task": "Charge", "context": "Now", "coworker": "Worker"}

    agent_samples.EFFECTS.clear()
    worker = agent(agent_samples.work, charge, role="Worker")
    task_of_manager = Task(description="{message}", expected_output="A report.")
    managed = Crew(
        agents=[worker], tasks=[task_of_manager], process=Process.hierarchical, manager_llm=ScriptedLLM(manage)
    )
    async with running(Agent.of(managed)) as client:
        task = await client.start("Go")
        await client.crash_when(is_text("The worker says"))
        await client.restart()
        task = await client.finished(task)
        events = [event async for event in client.stream("Go")]
    assert (client.text(task), agent_samples.EFFECTS) == ("The worker says: All done.", ["charged", "charged"])
    said = [text_of(event.artifact.parts) for event in events if isinstance(event, ArtifactUpdate)]
    assert [text for text in said if text] == ["The worker says:", " All done."]


async def test_tasks_keep_their_agents_if_these_share_a_role_or_are_not_in_the_crew() -> None:
    first, second, outside = (
        agent(lambda messages, text=text: iter([text])) for text in ("first", "second", "outside")
    )
    tasks = [
        Task(description=f"{number} {{message}}", expected_output="x", agent=member)
        for number, member in enumerate((first, outside, second))
    ]
    async with running(Agent.of(Crew(agents=[first, second], tasks=tasks))) as client:
        assert client.text(await client.send("Go")) == "second"
    async with running(Agent.of(Crew(agents=[first, second], tasks=tasks[:2]))) as client:
        assert client.text(await client.send("Go")) == "outside"


async def test_a_result_that_a_callback_changes_is_said_once() -> None:
    def change(result: Any) -> Any:
        result.raw = f"changed {result.raw}"
        return result

    changing = crew(agent(agent_samples.speak))
    changing.after_kickoff_callbacks = [change]
    async with running(Agent.of(changing)) as client:
        assert client.text(await client.send("Go")) == "changed Hello, world."


async def test_the_plan_of_an_agent_is_not_part_of_its_answer() -> None:
    def plan_or_answer(messages: Messages) -> Said:
        yield "READY: I am ready to execute the task." if "plan" in prompt(messages).lower() else "the answer"

    planner = CrewAgent(role="P", goal="Plans.", backstory="You.", llm=ScriptedLLM(plan_or_answer), planning=True)
    for thing in (planner, crew(planner)):
        async with running(Agent.of(thing)) as client:
            assert client.text(await client.send("Go")) == "the answer"


# --- stopping ---------------------------------------------------------------------------------------------------------


async def test_a_cancel_stops_a_plain_tool_and_a_model_that_speaks() -> None:
    started, stopped, words = Event(), Event(), Queue[str]()

    def wait_for_words() -> str:
        started.set()
        try:
            while True:
                try:
                    return words.get(timeout=0.01)
                except Empty:
                    pass
        finally:
            stopped.set()

    @tool
    def wait() -> str:
        """Waits in a thread."""
        return wait_for_words()

    def speak_on(messages: Messages) -> Said:
        yield "Well"
        yield wait_for_words()

    for thing in (crew(agent(agent_samples.call_wait, wait)), agent(speak_on)):
        started.clear()
        stopped.clear()
        async with running(Agent.of(thing)) as client:
            task = await client.start("Go")
            assert await asyncio.to_thread(started.wait, 30)
            assert (await client.cancel(task)).status.state is TaskState.CANCELED
            assert await asyncio.to_thread(stopped.wait, 30)


# --- flows ------------------------------------------------------------------------------------------------------------


class Order(BaseModel):
    message: str = ""
    total: int = 0


async def test_a_finished_method_of_a_flow_is_not_repeated_and_its_changes_of_the_state_are_kept() -> None:
    executed: list[str] = []

    class Ordering(Flow[Order]):
        @start()
        def price(self) -> str:
            executed.append("price")
            self.state.total += 5
            return "priced"

        @listen(price)
        async def ship(self, priced: str) -> str:
            executed.append("ship")
            self.state.total += 2
            return f"{priced} and shipped"

        @listen(ship)
        def confirm(self, shipped: str) -> str:
            city = self.ask("Which city?")
            return f"{shipped} to {city} for {self.state.total}"

    async with running(Agent.of(Ordering())) as client:
        task = await client.send("Go")
        await client.crash()
        await client.restart()
        task = await client.send("Rome", task=task)
    assert client.text(task) == "priced and shipped to Rome for 7"
    assert executed == ["price", "ship"]


async def test_human_feedback_on_a_method_is_a_question_and_decides_how_the_flow_goes_on() -> None:
    def decide(messages: Messages) -> Said:
        yield "rejected" if "bad" in prompt(messages) else "approved"

    class Publishing(Flow[Order]):
        @start()
        @human_feedback(message="Publish?", emit=["approved", "rejected"], llm=ScriptedLLM(decide))
        def draft(self) -> str:
            return "A draft"

        @listen("approved")
        def publish(self) -> str:
            return "published"

        @listen("rejected")
        def drop(self) -> str:
            assert self.last_human_feedback is not None
            return f"dropped: {self.last_human_feedback.feedback}"

    async with running(Agent.of(Publishing())) as client:
        task = await client.send("Go")
        assert question(task) == "A draft\n\nPublish?\n\nPossible outcomes: approved, rejected."
        task = await client.send("It is bad", task=task)
        assert client.text(task) == "dropped: It is bad"
    await survives_crashes(Agent.of(Publishing()), "Go", answers=["fine"])


async def test_a_flow_with_a_dict_for_a_state_gets_the_message_the_data_and_the_past() -> None:
    class Plain(Flow[dict[str, Any]]):
        @start()
        def repeat(self) -> str:
            return f"{self.state['message']} {self.state.get('city')} {len(self.state['history'])}"

    async with running(Agent.of(Plain())) as client:
        first = await say(client, "one")
        second = await say(client, "two", after=first)
        other = await client.send("uno", {"city": "Rome"})
    assert [client.text(task) for task in (first, second, other)] == ["one None 0", "two None 2", "uno Rome 0"]


async def test_the_state_of_a_persistent_flow_lasts_for_the_conversation() -> None:
    @persist()
    class Counting(Flow[Order]):
        @start()
        def count(self) -> str:
            self.state.total += 1
            return f"{self.state.message} {self.state.total}"

    async with running(Agent.of(Counting())) as client:
        first = await say(client, "one")
        second = await say(client, "two", after=first)
        other = await say(client, "uno")
    assert [client.text(task) for task in (first, second, other)] == ["one 1", "two 2", "uno 1"]


async def test_a_caller_cannot_load_the_state_of_another_one() -> None:
    ids: list[str] = []

    @persist()
    class Keeping(Flow[Order]):
        @start()
        def keep(self) -> str:
            ids.append(self.state.id)  # type: ignore[attr-defined]
            self.state.total += 1
            return str(self.state.total)

    async with running(Agent.of(Keeping())) as client:
        await say(client, "one")
        assert client.text(await client.as_caller(name="mallory").send("two", {"id": ids[0]})) == "1"


def test_a_flow_without_a_field_for_the_message_is_refused_with_a_hint() -> None:
    class Numbers(BaseModel):
        first: str = ""
        second: str = ""

    class Adding(Flow[Numbers]):
        @start()
        def add(self) -> str:
            return self.state.first

    with pytest.raises(LocalProtocolError, match="Which field of the state of Adding gets the text"):
        Agent.of(Adding())
    assert adapt(Adding(), input="first").name == "Adding"


# --- single agents ----------------------------------------------------------------------------------------------------


async def test_a_tool_call_of_a_crash_in_the_middle_is_shown_once() -> None:
    agent_samples.EFFECTS.clear()
    async with running(Agent.of(agent(agent_samples.work, charge))) as client:
        task = await client.start("Go")
        await client.crash_when(is_text("All"))
        await client.restart()
        task = await client.finished(task)
    assert [text for text in statuses(task) if "charge" in text] == ["Calling charge(amount=5)"]


async def test_an_answer_that_a_guardrail_refuses_is_tried_again() -> None:
    said: list[str] = []

    def improve(messages: Messages) -> Said:
        said.append("good" if said else "bad")
        yield said[-1]

    def is_good(output: Any) -> tuple[bool, str]:
        return output.raw == "good", output.raw

    guarded = CrewAgent(role="G", goal="g", backstory="You.", llm=ScriptedLLM(improve), guardrail=is_good)
    async with running(Agent.of(guarded)) as client:
        assert client.text(await client.send("Go")) == "good"
    assert said == ["bad", "good"]


async def test_the_copy_of_an_agent_keeps_its_mcp_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(CrewAgent, "get_mcp_tools", lambda self, mcps: asked.append(mcps) or [])
    url = "https://mcp.example.com/mcp"
    for thing in (
        CrewAgent(role="M", goal="g", backstory="You.", llm=ScriptedLLM(agent_samples.speak), mcps=[url]),
        crew(CrewAgent(role="M", goal="g", backstory="You.", llm=ScriptedLLM(agent_samples.speak), mcps=[url])),
    ):
        async with running(Agent.of(thing)) as client:
            assert client.text(await client.send("Go")) == "Hello, world."
    assert asked == [[url]] * 2


async def test_data_that_is_not_an_object_is_text() -> None:
    async with running(Agent.of(agent(agent_samples.read))) as client:
        assert "[1,2]" in client.text(await client.send([1, 2]))


async def test_a_picture_reaches_a_model_that_can_see() -> None:
    class SeeingLLM(ScriptedLLM):
        def supports_multimodal(self) -> bool:
            return True

    def look(messages: Messages) -> Said:
        [files] = [message["files"] for message in messages if message.get("files")]
        yield ", ".join(f"{name}: {file.content_type}" for name, file in files.items())

    png = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00"
    seer = CrewAgent(role="Seer", goal="Sees.", backstory="You see.", llm=SeeingLLM(look))
    async with running(Agent.of(seer)) as client:
        task = await client.send("Look", File(png, "a.png"))
    assert client.text(task) == "a.png: image/png"


def test_files_can_be_sent_from_code_that_is_not_served() -> None:
    send_file(b"", "nothing.txt")
