"""Crews of CrewAI for the shared set."""

from collections.abc import Sequence
from typing import Any

from crewai import Agent, Crew, Task

from framework_tests.crewai import agent_samples as agents
from framework_tests.crewai.agent_samples import Messages, Said, agent, charge
from framework_tests.crewai.scripted import ScriptedLLM, results, told

ANSWER, ANSWERED = agents.ANSWER, agents.ANSWERED
STARTED, STOPPED, EFFECTS = agents.STARTED, agents.STOPPED, agents.EFFECTS
CARD = ("Charging crew", "Worker: Charges and says so.", ["worker"])


def crew(member: Agent, description: str = "Answer: {message}", *, name: str = "Crew", **fields: Any) -> Crew:
    task = Task(description=description, expected_output="An answer.", agent=member, **fields)
    return Crew(name=name, agents=[member], tasks=[task])


speaker = crew(agent(agents.speak))
asker = agents.asker


hanger = crew(agent(agents.call_wait, agents.wait))


def read_file(messages: Messages) -> Said:
    if results(messages):
        yield f"It says: {results(messages)[-1]}"
    else:
        yield {"tool": "read_file", "file_name": "note.txt"}


reader = crew(agent(read_file))
structured = crew(agent(agents.plan), output_pydantic=agents.Trip)
failer = crew(agent(agents.fail))


def recall(messages: Messages) -> Said:
    earlier = [
        line.removeprefix("user: ") for line in told(messages, "history").splitlines() if line.startswith("user: ")
    ]
    yield ", ".join([*earlier, told(messages, "message")])


rememberer = crew(agent(recall), "<message>{message}</message> <history>{history}</history>")
worker = crew(agent(agents.work, charge, role="Worker", goal="Charges and says so."), name="Charging crew")


def caller(url: str) -> Crew:
    return crew(agents.caller(url))


def two_tasks(first: ScriptedLLM, second: ScriptedLLM, tools: Sequence[Any] = ()) -> Crew:
    """A crew whose second agent works with what the first has found."""
    finder = Agent(role="Finder", goal="Finds.", backstory="You find.", llm=first, tools=list(tools))
    writer = Agent(role="Writer", goal="Writes.", backstory="You write.", llm=second)
    find = Task(name="find", description="Find {topic}", expected_output="Facts.", agent=finder)
    write = Task(name="write", description="Write about {topic}", expected_output="Text.", agent=writer, context=[find])
    return Crew(name="Press", agents=[finder, writer], tasks=[find, write])
