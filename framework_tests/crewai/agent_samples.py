"""Single agents of CrewAI for the shared set."""

import asyncio
from collections.abc import Iterator
from threading import Event
from typing import Any

from crewai import Agent, Crew, Task
from crewai.tools import tool
from pydantic import BaseModel

import parley
from framework_tests.crewai.scripted import ScriptedLLM, prompt, results
from parley.adapters.crewai import adapt, remote_tool

ANSWER = "ok"
ANSWERED = "hello"
STARTED, STOPPED = Event(), Event()
EFFECTS: list[str] = []
CARD = ("Worker", "Charges and says so.", ["charge"])

Messages = list[dict[str, Any]]
Said = Iterator[str | dict[str, Any]]


def agent(script: Any, *tools: Any, role: str = "Agent", goal: str = "Answers.") -> Agent:
    return Agent(role=role, goal=goal, backstory="You are tested.", llm=ScriptedLLM(script), tools=list(tools))


def speak(messages: Messages) -> Said:
    yield from ("Hello", ", ", "world", ".")


speaker = agent(speak)


def draft(messages: Messages) -> Said:
    yield "HELLO" if "louder" in prompt(messages) else "hello"


# A single agent has no means to ask, so this is a crew.
drafter = agent(draft)
draft_task = Task(description="Answer: {message}", expected_output="An answer.", agent=drafter, human_input=True)
asker = Crew(agents=[drafter], tasks=[draft_task])


@tool
async def wait() -> str:
    """Waits."""
    STARTED.set()
    try:
        await asyncio.Event().wait()
    finally:
        STOPPED.set()
    return "never"


def call_wait(messages: Messages) -> Said:
    yield {"tool": "wait"}


hanger = agent(call_wait, wait)


def read(messages: Messages) -> Said:
    yield f"It says: {messages[-1]['content']}"


reader = agent(read)


class Trip(BaseModel):
    city: str
    days: int


def plan(messages: Messages) -> Said:
    yield '{"city": "Rome", "days": 3}'


planner = agent(plan)
structured: parley.Agent = adapt(planner, response_format=Trip)


def fail(messages: Messages) -> Said:
    raise RuntimeError("secret of the framework")
    yield ""


failer = agent(fail)


def recall(messages: Messages) -> Said:
    said = [str(message["content"]) for message in messages if message["role"] == "user"]
    yield ", ".join([*said[:-1], said[-1].removeprefix("\nCurrent Task: ").partition("\n")[0]])


rememberer = agent(recall)


@tool
def charge(amount: int) -> str:
    """Charges an amount."""
    EFFECTS.append("charged")
    return f"charged {amount}"


def work(messages: Messages) -> Said:
    if results(messages):
        yield from ("All", " done", ".")
    else:
        yield {"tool": "charge", "amount": 5}


worker = agent(work, charge, role="Worker", goal="Charges and says so.")


def pass_on(messages: Messages) -> Said:
    said = results(messages)
    yield said[-1] if said else {"tool": "ask_echo", "message": "hello"}


def caller(url: str) -> Agent:
    return agent(pass_on, remote_tool(url))
