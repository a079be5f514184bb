"""Agents of pydantic-ai for the shared set, with models that follow a script."""

import asyncio
import json
from collections.abc import AsyncIterator
from threading import Event

from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, ModelMessage, ModelRequest, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from parley.adapters.pydantic_ai import remote_tool

ANSWER = "yes"
ANSWERED = "Deployed: deployed to rome."
STARTED, STOPPED = Event(), Event()
EFFECTS: list[str] = []
CARD = ("Worker", "Charges and says so.", ["charge"])

Said = AsyncIterator[str | dict[int, DeltaToolCall]]


def user_content(messages: list[ModelMessage]) -> list[object]:
    """Everything that the user has said."""
    parts = [part for message in messages for part in message.parts if isinstance(part, UserPromptPart)]
    return [item for part in parts for item in ([part.content] if isinstance(part.content, str) else part.content)]


def tool_results(messages: list[ModelMessage]) -> list[object]:
    """What the tools returned to the last request."""
    last = messages[-1]
    parts = last.parts if isinstance(last, ModelRequest) else []
    return [part.content for part in parts if isinstance(part, ToolReturnPart)]


async def speak(messages: list[ModelMessage], info: AgentInfo) -> Said:
    for word in ("Hello", ", ", "world", "."):
        yield word


speaker = Agent(FunctionModel(stream_function=speak), name="Speaker")


async def ask_to_deploy(messages: list[ModelMessage], info: AgentInfo) -> Said:
    results = tool_results(messages)
    if results:
        yield f"Deployed: {results[0]}"
        yield "."
    else:
        yield {0: DeltaToolCall(name="deploy", json_args='{"to": "rome"}', tool_call_id="call-1")}


asker = Agent(FunctionModel(stream_function=ask_to_deploy), name="Deployer", instructions="Ask first.")


@asker.tool_plain(requires_approval=True)
def deploy(to: str) -> str:
    """Deploys."""
    return f"deployed to {to}"


async def call_wait(messages: list[ModelMessage], info: AgentInfo) -> Said:
    yield {0: DeltaToolCall(name="wait", json_args="{}", tool_call_id="call-1")}


hanger = Agent(FunctionModel(stream_function=call_wait), name="Hanger")


@hanger.tool_plain
async def wait() -> str:
    """Waits."""
    STARTED.set()
    try:
        await asyncio.Event().wait()
    finally:
        STOPPED.set()
    return "never"


async def say_file(messages: list[ModelMessage], info: AgentInfo) -> Said:
    files = [item for item in user_content(messages) if isinstance(item, BinaryContent)]
    yield f"It says: {files[0].data.decode()} ({files[0].media_type})"


reader = Agent(FunctionModel(stream_function=say_file), name="Reader")


class Trip(BaseModel):
    city: str
    days: int


async def plan(messages: list[ModelMessage], info: AgentInfo) -> Said:
    name = info.output_tools[0].name
    yield {0: DeltaToolCall(name=name, json_args='{"city": "Rome", "days": 3}', tool_call_id="call-1")}


structured = Agent(FunctionModel(stream_function=plan), name="Planner", output_type=Trip)


async def fail(messages: list[ModelMessage], info: AgentInfo) -> Said:
    raise RuntimeError("secret of the framework")
    yield ""


failer = Agent(FunctionModel(stream_function=fail), name="Failer")


async def recall(messages: list[ModelMessage], info: AgentInfo) -> Said:
    yield ", ".join(item for item in user_content(messages) if isinstance(item, str))


rememberer = Agent(FunctionModel(stream_function=recall), name="Rememberer")


async def work(messages: list[ModelMessage], info: AgentInfo) -> Said:
    if tool_results(messages):
        for word in ("All", " done", "."):
            yield word
    else:
        yield {0: DeltaToolCall(name="charge", json_args='{"amount": 5}', tool_call_id="call-1")}


worker = Agent(
    FunctionModel(stream_function=work),
    name="Worker",
    description="Charges and says so.",
    instructions="Be brief.",
)


@worker.tool_plain
async def charge(amount: int) -> str:
    """Charges an amount."""
    EFFECTS.append("charged")
    return f"charged {amount}"


async def pass_on(messages: list[ModelMessage], info: AgentInfo) -> Said:
    if results := tool_results(messages):
        yield f"It answered: {results[0]}"
    else:
        (name,) = [tool.name for tool in info.function_tools]
        (said,) = user_content(messages)
        yield {0: DeltaToolCall(name=name, json_args=json.dumps({"message": said}), tool_call_id="call-1")}


def caller(url: str) -> Agent:
    return Agent(FunctionModel(stream_function=pass_on), name="Caller", tools=[remote_tool(url)])
