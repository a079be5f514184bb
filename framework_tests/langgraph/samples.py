"""Graphs of LangGraph for the shared set, with a model that follows a script."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from threading import Event
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    ToolCallChunk,
    ToolMessage,
    message_chunk_to_message,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.pregel import Pregel
from pydantic import BaseModel

from parley.adapters.langgraph import remote_tool

ANSWER = "yes"
ANSWERED = "Deployed: deployed to rome."
STARTED, STOPPED = Event(), Event()
EFFECTS: list[str] = []
CARD = ("Worker", "", ["charge"])


Said = str | ToolCallChunk
Script = Callable[[list[BaseMessage]], Iterator[Said]]


class ScriptedModel(BaseChatModel):
    """Says what its script says, in pieces if it is asked for a stream. Every call takes some tokens."""

    script: Script

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Runnable[Any, Any]:
        """It calls the tools that its script names."""
        return self

    async def _astream(self, messages: list[BaseMessage], *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
        for said in self.script(messages):
            yield ChatGenerationChunk(message=_chunk(said))
            await asyncio.sleep(0)  # models that speak at the same time take turns
        yield ChatGenerationChunk(message=_tokens())

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        chunks = [_chunk(said) for said in self.script(messages)]
        whole: Any = message_chunk_to_message(sum(chunks, _tokens()))
        return ChatResult(generations=[ChatGeneration(message=whole)])


def _chunk(said: Said) -> AIMessageChunk:
    return AIMessageChunk(said) if isinstance(said, str) else AIMessageChunk("", tool_call_chunks=[said])


def _tokens() -> AIMessageChunk:
    return AIMessageChunk("", usage_metadata={"input_tokens": 7, "output_tokens": 3, "total_tokens": 10})


def call(name: str, index: int = 0, **args: Any) -> ToolCallChunk:
    """A tool call."""
    return ToolCallChunk(
        name=name, args=json.dumps(args), id=f"call-{name}-{index}", index=index, type="tool_call_chunk"
    )


def tool_results(messages: list[BaseMessage]) -> list[str]:
    """What tools have returned since the user's last message."""
    last = max(at for at, message in enumerate(messages) if isinstance(message, HumanMessage))
    return [str(message.content) for message in messages[last:] if isinstance(message, ToolMessage)]


def user_texts(messages: list[BaseMessage]) -> list[str]:
    """What the user has said."""
    return [str(message.text) for message in messages if isinstance(message, HumanMessage)]


def speak(messages: list[BaseMessage]) -> Iterator[Said]:
    yield from ("Hello", ", ", "world", ".")


speaker = create_agent(ScriptedModel(script=speak), name="Speaker")


@tool
def deploy(to: str) -> str:
    """Deploys."""
    return f"deployed to {to}"


def ask_to_deploy(messages: list[BaseMessage]) -> Iterator[Said]:
    results = tool_results(messages)
    if results:
        yield f"Deployed: {results[0]}"
        yield "."
    else:
        yield call("deploy", to="rome")


asker = create_agent(
    ScriptedModel(script=ask_to_deploy),
    [deploy],
    name="Deployer",
    middleware=[HumanInTheLoopMiddleware(interrupt_on={"deploy": True})],
    checkpointer=InMemorySaver(),
)


@tool
async def wait() -> str:
    """Waits."""
    STARTED.set()
    try:
        await asyncio.Event().wait()
    finally:
        STOPPED.set()
    return "never"


hanger = create_agent(ScriptedModel(script=lambda messages: iter([call("wait")])), [wait], name="Hanger")


def say_file(messages: list[BaseMessage]) -> Iterator[Said]:
    yield f"It says: {messages[-1].content}"


reader = create_agent(ScriptedModel(script=say_file), name="Reader")


class Trip(BaseModel):
    city: str
    days: int


def plan(messages: list[BaseMessage]) -> Iterator[Said]:
    yield call("Trip", city="Rome", days=3)


structured = create_agent(ScriptedModel(script=plan), name="Planner", response_format=Trip)


def fail(messages: list[BaseMessage]) -> Iterator[Said]:
    raise RuntimeError("secret of the framework")


failer = create_agent(ScriptedModel(script=fail), name="Failer")


def recall(messages: list[BaseMessage]) -> Iterator[Said]:
    yield ", ".join(user_texts(messages))


rememberer = create_agent(ScriptedModel(script=recall), name="Rememberer")


@tool
async def charge(amount: int) -> str:
    """Charges an amount."""
    EFFECTS.append("charged")
    return f"charged {amount}"


def work(messages: list[BaseMessage]) -> Iterator[Said]:
    if tool_results(messages):
        yield from ("All", " done", ".")
    else:
        yield call("charge", amount=5)


worker = create_agent(ScriptedModel(script=work), [charge], name="Worker")


def caller(url: str) -> Pregel[Any, Any, Any, Any]:
    remote = remote_tool(url)

    def pass_on(messages: list[BaseMessage]) -> Iterator[Said]:
        results = tool_results(messages)
        yield results[0] if results else call(remote.name, message=user_texts(messages)[-1])

    return create_agent(ScriptedModel(script=pass_on), [remote], name="Caller")
